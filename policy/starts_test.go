package policy

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

func newRestarting(t testing.TB, seed uint64) *Hashed {
	t.Helper()
	h, err := NewHashed(HashedOptions{Bits: 12, M: 4, Change: restarts},
		Problem{Dim: 3 << 12, Sigma: 1, Init: rng.NewKey(seed).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// turned is a policy whose world has changed: the means of all actions moved on by two, 60 events ago.
func turned(t testing.TB) (*Hashed, *mixtureWorld) {
	t.Helper()
	h, w := newRestarting(t, 1), newMixtureWorld(t, 2)
	w.learn(t, h, 0, 700)
	w.turn = 2
	w.learn(t, h, 700, 60)
	return h, w
}

// TestStartsSnapshot: a restored policy has the same bytes and digest, chooses and learns the same through beginnings
// and a change; so does one that adopts a shared state, and one that takes it back. None changes another one.
func TestStartsSnapshot(t *testing.T) {
	h, _ := turned(t)
	most := 0
	for _, s := range h.mix.smalls {
		most = max(most, s.starts())
	}
	if most < 4 {
		t.Fatalf("%d starts", most)
	}
	b := mustBytes(t, h)
	if string(b[:4]) != mixtureMagics[0][1] {
		t.Fatalf("the snapshot begins with %q", b[:4])
	}
	r, shared, takes := newRestarting(t, 1), newRestarting(t, 1), newRestarting(t, 1)
	if err := r.Restore(b); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Hashed{shared, takes} {
		if err := p.Adopt(h.Share()); err != nil {
			t.Fatal(err)
		}
	}
	all := []*Hashed{h, r, shared, takes}
	before := h.Share()
	for i, p := range all {
		if !bytes.Equal(mustBytes(t, p), b) || p.Digest() != h.Digest() || p.Dense() != h.Dense() {
			t.Fatalf("policy %d has another state", i)
		}
	}
	var after []byte
	for i, p := range all {
		w := newMixtureWorld(t, 3) // the same luck for all
		for n := range 300 {
			if n == 150 {
				w.turn = 1
			}
			if p == takes {
				p.Share()
				p.Reclaim()
			}
			w.learn(t, p, 760+n, 1)
		}
		got := mustBytes(t, p)
		if after == nil {
			after = got
		}
		if !bytes.Equal(got, after) || p.Digest() != h.Digest() || p.Changed() != h.Changed() {
			t.Errorf("policy %d has learned otherwise", i)
		}
		if i+1 < len(all) && i == 0 && !bytes.Equal(mustBytes(t, shared), b) {
			t.Error("the adopted state changed with the policy")
		}
	}
	if err := r.Adopt(before); err != nil || !bytes.Equal(mustBytes(t, r), b) {
		t.Error("the shared state is another one", err)
	}
	if bytes.Equal(after, b) || h.Changed().Seen == 0 {
		t.Errorf("nothing was learned, or no change was stated: %+v", h.Changed())
	}
}

// TestStartsLaw: while two starts of a model play the law is a count over 2^16·2m that sums to one, Select follows it
// (χ² of 60,000 draws at level 10⁻⁶, 200,000 with TROUPE_LONG), and SelectProb is both.
func TestStartsLaw(t *testing.T) {
	h, w := newRestarting(t, 1), newMixtureWorld(t, 2)
	w.learn(t, h, 0, 700)
	w.turn = 2
	two := func() bool {
		parts := h.mix.parts()
		return slices.ContainsFunc(parts, func(p part) bool {
			return slices.ContainsFunc(parts, func(q part) bool { return q.model == p.model && q.start != p.start })
		})
	}
	n := 700
	for ; !two() && n < 900; n++ {
		w.learn(t, h, n, 1)
	}
	var sum uint32
	for _, p := range h.mix.parts() {
		sum += p.w
	}
	if !two() || sum != weightTotal {
		t.Fatalf("parts %v", h.mix.parts())
	}
	w.next(t)
	draw := rng.NewKey(5).Stream(rng.Select).Round(7)
	var law, both bandit.Law
	if err := h.Prob(&law, w.batch, draw); err != nil {
		t.Fatal(err)
	}
	var total uint64
	for _, a := range law.Atoms {
		total += a.Count
	}
	if total != law.Total || law.Total != 2*4<<16 {
		t.Fatalf("counts of %d of %d", total, law.Total)
	}
	draws := 60_000
	if os.Getenv("TROUPE_LONG") != "" {
		draws = 200_000
	}
	counts := make([]float64, len(law.Atoms))
	var a, b bandit.Action
	for i := range draws {
		s := rng.NewKey(uint64(i)).Stream(rng.Select).Round(7)
		if err := h.Select(&a, w.batch, s); err != nil {
			t.Fatal(err)
		}
		counts[a.Index]++
		if i >= 200 {
			continue
		}
		if err := h.SelectProb(&b, &both, w.batch, s); err != nil {
			t.Fatal(err)
		}
		if a.Index != b.Index || fmt.Sprint(both) != fmt.Sprint(law) {
			t.Fatalf("action %d of %v, together %d of %v", a.Index, law, b.Index, both)
		}
	}
	var chi float64
	for i, c := range counts {
		if e := float64(draws) * law.Atoms[i].P; e > 0 {
			chi += (c - e) * (c - e) / e
		} else if c > 0 {
			t.Errorf("action %d has probability 0 and was drawn", i)
		}
	}
	if chi > 31 { // χ² with 3 degrees of freedom: 30.7 at 10⁻⁶
		t.Errorf("χ² %.1f, laws %v, counts %v", chi, law.Atoms, counts)
	}
}

// TestStartsBytes: 1,060 events with a change give the same state on every machine, as TestMixtureBytes says.
func TestStartsBytes(t *testing.T) {
	h, w := turned(t)
	w.learn(t, h, 760, 300)
	if got, want := fmt.Sprintf("%x", h.Digest()), "0c439df31a442b103cab0ebb063557eb"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestStartsAges: the starts of a model that does not change have ages that are spread, the oldest knows all, and the
// number of starts, and of their coefficients, is bounded.
func TestStartsAges(t *testing.T) {
	h, w := newRestarting(t, 1), newMixtureWorld(t, 2)
	w.learn(t, h, 0, 2000)
	if c := h.Changed(); c.Seen != 0 {
		t.Errorf("a change was stated: %+v", c)
	}
	for _, s := range h.mix.smalls {
		if s.gone || s.starts() < 2 {
			continue
		}
		if s.born != 0 || s.starts() > mostStarts {
			t.Errorf("%v: the oldest of %d starts began at %d", s.kind, s.starts(), s.born)
		}
		for i := range s.later {
			if a, b := s.start(i).born, s.start(i+1).born; a >= b || b%startGap != 0 {
				t.Errorf("%v: starts at %d and %d", s.kind, a, b)
			}
		}
	}
	s := h.mix.smalls[1]
	if n := s.starts(); h.mix.n-s.start(1).born < 4*startGap || h.mix.n-s.start(n-2).born > 4*startGap {
		t.Errorf("the second oldest start has the age %d, the second youngest %d", h.mix.n-s.start(1).born,
			h.mix.n-s.start(n-2).born)
	}
}

// TestStartsDamage: a changed or missing byte of a snapshot is refused, each 509th, with TROUPE_LONG each 101st, and
// numbers that cannot be, also where the checksum is right.
func TestStartsDamage(t *testing.T) {
	h, _ := turned(t)
	b := mustBytes(t, h)
	p := newRestarting(t, 1)
	step := 509
	if os.Getenv("TROUPE_LONG") != "" {
		step = 101
	}
	for i := 0; i < len(b); i += step {
		c := slices.Clone(b)
		c[i] ^= 0x40
		if p.Restore(c) == nil || p.Restore(b[:i]) == nil {
			t.Fatalf("byte %d of %d", i, len(b))
		}
	}
	start := mustBytes(t, p)
	s := h.mix.smalls[1]
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for name, at := range map[string]*float64{"noise": &s.noise, "heard": &s.heard, "first": &s.later[0].first,
			"sum": &s.sum, "trust": &s.later[1].trust, "low": &h.mix.changes.low, "unit": &h.mix.changes.unit,
			"posterior": &h.mix.changes.last.Posterior, "mean": &h.mix.changes.means[1]} {
			old := *at
			*at = v
			if p.Restore(mustBytes(t, h)) == nil {
				t.Errorf("%s is %v", name, v)
			}
			*at = old
		}
	}
	s.later[0].born, s.later[1].born = s.later[1].born, s.later[0].born
	if p.Restore(mustBytes(t, h)) == nil {
		t.Error("starts that are not in order")
	}
	if !bytes.Equal(mustBytes(t, p), start) {
		t.Error("an error changed the state")
	}
	body := slices.Clone(b[:len(b)-4])
	copy(body, mixtureMagics[0][0])
	if newMixed(t, 1).Restore(little.AppendUint32(body, crc32.Checksum(body, castagnoli))) == nil {
		t.Error("a policy without restarts has taken the snapshot")
	}
}

// TestStartsExtremes: a range so wide that two rewards fall together, and a noise that has gone down for a million
// equal rewards, leave numbers that are finite and a snapshot that can be read.
func TestStartsExtremes(t *testing.T) {
	for name, spoil := range map[string]func(h *Hashed, a bandit.Action) error{
		"wide": func(h *Hashed, a bandit.Action) error {
			return errors.Join(h.Update(a, -1e30, rng.Source{}), h.Update(a, 1e60, rng.Source{}))
		},
		"no noise": func(h *Hashed, _ bandit.Action) error {
			for _, s := range h.mix.smalls {
				s.noise = 0
				for i := range s.starts() {
					for _, b := range s.start(i).blocks {
						clear(b.cov)
					}
				}
			}
			return nil
		},
	} {
		h, w := turned(t)
		w.next(t)
		var a bandit.Action
		for n := range 200 {
			if err := h.Select(&a, w.batch, rng.NewKey(1).Stream(rng.Select).Round(uint64(n))); err != nil {
				t.Fatal(name, err)
			}
			if n == 60 {
				if err := spoil(h, a); err != nil {
					t.Fatal(name, err)
				}
			}
			if err := h.Update(a, float64(n%2), rng.Source{}); err != nil {
				t.Fatal(name, err)
			}
			for _, s := range h.mix.smalls {
				for i := range s.starts() {
					if v := s.start(i).trust + s.start(i).sum + s.like + s.noise; v-v != 0 {
						t.Fatalf("%s: %v after %d: trust %v, sum %v, like %v, noise %v", name, s.kind, n, s.start(i).trust,
							s.start(i).sum, s.like, s.noise)
					}
				}
			}
		}
		r := newRestarting(t, 1)
		if err := r.Restore(mustBytes(t, h)); err != nil || r.Digest() != h.Digest() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStartsRefused: restarts need small models.
func TestStartsRefused(t *testing.T) {
	for want, o := range map[string]HashedOptions{"small models": {Change: restarts, Small: "no"}, "restarts": {Change: "often"}} {
		if _, err := NewHashed(o, Problem{Dim: 3 << 18}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// FuzzStartsSnapshot is FuzzMixtureSnapshot with restarts.
func FuzzStartsSnapshot(f *testing.F) {
	h, _ := turned(f)
	f.Add(mustBytes(f, h))
	p := newRestarting(f, 1)
	start := mustBytes(f, p)
	f.Add(start)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4 { // what is behind the checksum
			b = little.AppendUint32(slices.Clone(b[:len(b)-4]), crc32.Checksum(b[:len(b)-4], castagnoli))
		}
		restoredOrNot(t, p, newRestarting(t, 1), start, b)
	})
}
