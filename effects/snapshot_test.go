package effects

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"troupe/rng"
)

// stream is a made-up stream of requests with words, texts, numbers and, where asked, features of actions.
type stream struct {
	r      *rand.Rand
	joint  bool
	late   int
	wait   []waiting
	number uint64
}

type waiting struct {
	due             uint64
	key             uint64
	context, action []Atom
	y               float64
}

func (s *stream) request() (context []Atom, actions [][]Atom) {
	context = []Atom{word(1, fmt.Sprint("s", s.r.IntN(5))), word(2, fmt.Sprint("user", s.r.IntN(200))), num(3, s.r.NormFloat64())}
	if s.r.IntN(3) > 0 {
		context = append(context, num(4, 1e6*s.r.Float64()))
	}
	k := 2 + s.r.IntN(4)
	for i := range k {
		a := []Atom{word(99, fmt.Sprint("a", i))}
		if s.joint {
			a = append(a, num(20, s.r.Float64()), word(21, fmt.Sprint("g", s.r.IntN(4))))
		}
		actions = append(actions, a)
	}
	return context, actions
}

// step plays one decision on each of several equal models, and delivers what is due.
func (s *stream) step(t *testing.T, models ...*Model) {
	t.Helper()
	context, actions := s.request()
	n := s.number
	s.number++
	votes, winner := models[0].Votes(context, actions, nil, n)
	votes, winner = slices.Clone(votes), slices.Clone(winner)
	for _, m := range models[1:] {
		if v, w := m.Votes(context, actions, nil, n); !slices.Equal(v, votes) || !slices.Equal(w, winner) {
			t.Fatalf("decision %d: votes %v, expected %v", n, v, votes)
		}
	}
	a := actions[winner[s.r.IntN(voters)]]
	y := s.r.NormFloat64() + context[2].Value*float64(len(actions))
	if s.r.IntN(90) == 0 {
		y *= 1e6
	}
	for _, m := range models {
		m.Decided(n+1, context, a)
	}
	s.wait = append(s.wait, waiting{n + uint64(s.r.IntN(s.late+1)), n + 1, context, a, y})
	s.wait = slices.DeleteFunc(s.wait, func(w waiting) bool {
		if w.due > n {
			return false
		}
		for _, m := range models {
			if w.key%11 == 0 {
				m.Dropped(w.key)
			} else {
				m.Learn(w.key, w.context, w.action, w.y)
			}
		}
		return true
	})
	want := models[0].Digest()
	for _, m := range models[1:] {
		if m.Digest() != want {
			t.Fatalf("decision %d: another digest of model %d\n%s\n%s", n, 1+slices.Index(models[1:], m), models[0].parts(), m.parts())
		}
	}
}

// TestSnapshot: a model that is restored goes on as the one that was saved, bit for bit, wherever it is saved; so does
// one that adopts a shared state, as far as open decisions do not matter.
func TestSnapshot(t *testing.T) {
	for _, joint := range []bool{false, true} {
		for n, late := range []int{0, 60} {
			half := float64(100 * n) // of the models with late rewards
			s := &stream{r: rand.New(rand.NewPCG(7, 7)), joint: joint, late: late}
			key := rng.NewKey(3).Stream(rng.Init)
			m := New(Options{HalfLife: half}, key)
			for n := range 900 {
				if n%53 == 0 {
					b := m.AppendSnapshot(nil)
					c := New(Options{HalfLife: half}, key)
					if err := c.Restore(b); err != nil {
						t.Fatal(err)
					}
					if again := c.AppendSnapshot(nil); !bytes.Equal(again, b) {
						t.Fatalf("after %d: the snapshot of a restored model differs", n)
					}
					if c.Digest() != m.Digest() {
						t.Fatalf("after %d: the digest of a restored model differs", n)
					}
					d := New(Options{HalfLife: half}, key)
					d.Adopt(m.Share())
					reader := New(Options{HalfLife: half}, key)
					reader.Adopt(m.Share())
					was := reader.Digest()
					models := []*Model{m, c}
					if late == 0 {
						models = append(models, d)
					}
					for range 40 {
						s.step(t, models...)
						m.Share()
						m.Reclaim() // that, and not what reader has
					}
					if reader.Digest() != was {
						t.Fatalf("after %d: a shared state changed", n)
					}
					continue
				}
				s.step(t, m)
			}
			if m.s.events < 800 || len(m.s.lay.coords) < 20 {
				t.Errorf("the stream has %d events and %d coordinates: it tests little", m.s.events, len(m.s.lay.coords))
			}
		}
	}
}

// FuzzRestore: bytes that are no snapshot are an error, and what is restored plays and learns.
func FuzzRestore(f *testing.F) {
	s := &stream{r: rand.New(rand.NewPCG(1, 7)), late: 5}
	m := New(Options{}, rng.NewKey(1).Stream(rng.Init))
	for range 120 {
		s.step(&testing.T{}, m)
	}
	b := m.AppendSnapshot(nil)
	f.Add(b[len(magic) : len(b)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		c := New(Options{}, rng.NewKey(1).Stream(rng.Init))
		if c.decode(b) != nil {
			return
		}
		s := &stream{r: rand.New(rand.NewPCG(2, 7)), late: 3, number: 1 << 40}
		for range 5 {
			s.step(t, c)
		}
	})
}

// TestSnapshotOnlyReads: a snapshot is written while a version that shares parts of the state decides, and another
// snapshot is written beside it. The race detector sees the fault, a write of what is written.
func TestSnapshotOnlyReads(t *testing.T) {
	key := rng.NewKey(3).Stream(rng.Init)
	for _, events := range []int{5, 400} { // before there are scales of numbers, and after
		s := &stream{r: rand.New(rand.NewPCG(7, 7)), joint: true}
		m, version := New(Options{}, key), New(Options{}, key)
		for range events {
			s.step(t, m)
		}
		version.Adopt(m.Share())
		context, actions := s.request()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { m.AppendSnapshot(nil) })
		}
		wg.Go(func() { version.Votes(context, actions, nil, 1) })
		wg.Wait()
	}
}
