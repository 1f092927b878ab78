package policy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/rng"
)

// restarting are the kinds that restart as whole policies, with a half-life.
func restarting(h HalfLife) map[string]Options {
	return map[string]Options{
		"atoms": &AtomsOptions{M: 4, Change: restarts, HalfLife: h}, "auto": &AutoOptions{M: 4, Link: autoLink, Change: restarts, HalfLife: h},
		"linucb": &LinUCBOptions{Change: restarts, HalfLife: h}, "logistic": &LogisticOptions{M: 4, Change: restarts, HalfLife: h},
	}
}

func timedProblem() Problem {
	return Problem{Dim: 3, Sigma: .5, Init: rng.NewKey(1).Stream(rng.Init), High: 1, Timed: true}
}

func newRestartingAs(t testing.TB, o Options) *Restarts {
	t.Helper()
	p, err := o.New(timedProblem())
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Restarts)
}

// lesson is event n: rewards are 0 or 1, and depend on the second number until event 250.
func lesson(n int) (bandit.Action, float64) {
	r := rand.New(rand.NewPCG(9, uint64(n)))
	x := []float64{.5, r.Float64() - .5, r.Float64() - .5}
	p := .5 + x[1]
	if n >= 250 {
		p = .5 - x[1]
	}
	y := 0.
	if r.Float64() < p {
		y = 1
	}
	return bandit.Action{X: x, Index: bandit.NoIndex}, y
}

// teachTimed gives events from..to, one every step seconds since 2023.
func teachTimed(t testing.TB, p bandit.Policy, from, to, step int) {
	t.Helper()
	for n := from; n < to; n++ {
		if c, ok := p.(Clocked); ok {
			c.Tick(int64(1_700_000_000+n*step) * 1e9)
		}
		a, y := lesson(n)
		if err := p.Update(a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
}

// numbersOf returns the numbers of a snapshot that TRP1 begins.
func numbersOf(t testing.TB, p bandit.Policy) (out []float64) {
	t.Helper()
	b := mustBytes(t, p.(bandit.Snapshotter))
	b = b[4:]
	b = b[2+int(binary.LittleEndian.Uint16(b)):]
	vectors := binary.LittleEndian.Uint32(b)
	b = b[4:]
	for range vectors {
		n := int(binary.LittleEndian.Uint32(b))
		b = b[4:]
		for range n {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(b)))
			b = b[8:]
		}
	}
	return out
}

// regressionOf is numbersOf, of linucb without its counters of updates and factorisations: a step of fading counts there.
func regressionOf(t testing.TB, p bandit.Policy) []float64 {
	out := numbersOf(t, p)
	if u, ok := p.(*LinUCB); ok {
		out = append(out[:len(out)-4], u.ridge.LogDetRatio())
	}
	return out
}

// nearly compares two lists of numbers.
func nearly(a, b []float64) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d numbers and %d", len(a), len(b))
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-8*max(1, math.Abs(a[i])) {
			return fmt.Errorf("number %d is %v and %v", i, a[i], b[i])
		}
	}
	return nil
}

// TestRestartsByTime: a half-life of 800 s where an event comes every second is one of 800 events, for each kind and each
// copy, through a change of the world; and where events come every 100 s it is a discount of 2^(−1/8).
func TestRestartsByTime(t *testing.T) {
	events, times := restarting(HalfLife{Events: 800}), restarting(HalfLife{Time: 800 * time.Second})
	for kind := range events {
		a, b := newRestartingAs(t, events[kind]), newRestartingAs(t, times[kind])
		teachTimed(t, a, 0, 410, 1)
		teachTimed(t, b, 0, 410, 1)
		if a.Timed() || !b.Timed() || len(a.trials) != restartTrials || len(b.trials) != restartTrials {
			t.Fatalf("%s: timed %v, %v, %d and %d copies", kind, a.Timed(), b.Timed(), len(a.trials), len(b.trials))
		}
		for k, one := range a.trials {
			two := b.trials[k]
			if one.born != two.born || math.Abs(one.like-two.like) > 1e-6 {
				t.Errorf("%s: copy %d began after %d and %d, log weights %v and %v", kind, k, one.born, two.born, one.like, two.like)
			}
			if err := nearly(regressionOf(t, one.policy), regressionOf(t, two.policy)); err != nil {
				t.Errorf("%s: copy %d: %v", kind, k, err)
			}
		}
	}
	gamma := math.Exp2(-1. / 8)
	for kind, o := range map[string]Options{"atoms": &AtomsOptions{M: 4, Discount: gamma}, "linucb": &LinUCBOptions{Discount: gamma}} {
		want, err := o.New(timedProblem())
		if err != nil {
			t.Fatal(err)
		}
		got := newRestartingAs(t, times[kind])
		teachTimed(t, want, 0, 100, 100)
		teachTimed(t, got, 0, 100, 100)
		if err := nearly(regressionOf(t, want), regressionOf(t, got.trials[0].policy)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestRestartsTick: an unknown time changes nothing; a time before an earlier one is counted and moves nothing; after a
// silence of years a copy is as one that has learned nothing.
func TestRestartsTick(t *testing.T) {
	for kind, o := range restarting(HalfLife{Time: time.Hour}) {
		r := newRestartingAs(t, o)
		teachTimed(t, r, 0, 60, 60)
		b, now := mustBytes(t, r), r.time.now
		r.Tick(0)
		if !bytes.Equal(mustBytes(t, r), b) {
			t.Errorf("%s: a time that is not known has changed the state", kind)
		}
		r.Tick(1_600_000_000e9)
		r.Tick(1_600_000_001e9)
		if r.SteppedBack() != 2 || r.time.now != now {
			t.Errorf("%s: %d steps back, the time is %v, %v before", kind, r.SteppedBack(), r.time.now, now)
		}
		fresh := newRestartingAs(t, o)
		r.Tick(2_000_000_000e9)
		probe := bandit.Action{X: []float64{.5, .3, -.2}, Index: bandit.NoIndex}
		for k, one := range r.trials {
			a, err1 := one.policy.reckon(probe, 1, rng.Source{})
			b, err2 := fresh.trials[0].policy.reckon(probe, 1, rng.Source{})
			if err1 != nil || err2 != nil || kind != "auto" && (math.Abs(a.square-b.square) > 1e-9 || math.Abs(a.like-b.like) > 1e-9) {
				t.Errorf("%s: copy %d says %+v of a reward, a new one %+v; %v, %v", kind, k, a, b, err1, err2)
			}
			if err := fresh.trials[0].policy.Restore(fresh.blank); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := newRestartingAs(t, restarting(HalfLife{Events: 60})["auto"])
	b := mustBytes(t, r)
	if r.Tick(1_600_000_000e9); r.Timed() || !bytes.Equal(mustBytes(t, r), b) || r.SteppedBack() != 0 {
		t.Error("a half-life in events has heard a time")
	}
}

// TestRestartsTimeSnapshot: a restored policy has the same bytes and learns the same; other options and numbers that cannot
// be are refused, and change nothing.
func TestRestartsTimeSnapshot(t *testing.T) {
	for kind, o := range restarting(HalfLife{Time: 10 * time.Minute}) {
		p, r := newRestartingAs(t, o), newRestartingAs(t, o)
		teachTimed(t, p, 0, 333, 7)
		p.Tick(1_700_000_001e9) // a step back
		b := mustBytes(t, p)
		if err := r.Restore(b); err != nil || !bytes.Equal(mustBytes(t, r), b) || r.SteppedBack() != 1 {
			t.Fatalf("%s: %v, or another state", kind, err)
		}
		teachTimed(t, p, 333, 500, 11)
		teachTimed(t, r, 333, 500, 11)
		after := mustBytes(t, p)
		if !bytes.Equal(mustBytes(t, r), after) {
			t.Errorf("%s: the restored policy has learned otherwise", kind)
		}
		old := newRestartingAs(t, restarting(HalfLife{Events: 100})[kind])
		if old.Restore(after) == nil || p.Restore(mustBytes(t, old)) == nil {
			t.Errorf("%s: policies by events and by time took each other's snapshots", kind)
		}
		for name, at := range map[string]*float64{"now": &r.time.now, "back": &r.time.back, "faded": &r.time.faded} {
			for _, v := range []float64{-1, .5, math.NaN(), 1e300} {
				was := *at
				if *at = v; p.Restore(mustBytes(t, r)) == nil {
					t.Errorf("%s: %s = %v was taken for %v", kind, name, v, was)
				}
				*at = was
			}
		}
		if !bytes.Equal(mustBytes(t, p), after) {
			t.Errorf("%s: an error changed the state", kind)
		}
	}
}

// TestRestartsTimeBytes: 500 events with a change give the same state on every machine.
func TestRestartsTimeBytes(t *testing.T) {
	p := newRestartingAs(t, restarting(HalfLife{Time: 10 * time.Minute})["auto"])
	teachTimed(t, p, 0, 500, 7)
	if got := crc32.Checksum(mustBytes(t, p), castagnoli); got != 0x9ec5e335 {
		t.Errorf("checksum %#x", got)
	}
}
