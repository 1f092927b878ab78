package main

import (
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"troupe/internal/worlds"
)

// recorded reports whether tests have the sizes of docs/record.
func recorded() bool { return os.Getenv("TROUPE_RECORD") != "" }

// TestMatrix: streams × clients × wild values, as users have them. The null of a cell is that one wild value costs at most
// .05 of the share in the 1,000 decisions after it. A cell fails when the mean over its worlds is beyond that by four standard
// errors (of at least .02, as few worlds estimate them badly): a level of 10⁻⁴ a cell. The mean over all cells fails beyond
// .03, the number of cells that fall by two errors more beyond one in 50, the changes that are stated without a wild value
// beyond 5 in 10⁶ events. It is one run with fixed seeds.
//
// LinTS believes each reward: a fifth of its cells must fail, or the test would not see a model that does.
func TestMatrix(t *testing.T) {
	kinds, clients, wild, n := "ids,segments", "now,late,ones,bursts", "1e6@200,-10@1", "3"
	if recorded() {
		kinds, clients, wild, n = "ids,segments,clicks7,revenue,useless", "now,late,ones,bursts,random,batch", "all", "8"
	}
	args := []string{"-kinds", kinds, "-players", "effects,lints", "-clients", clients, "-worlds", n, "-T", "3500", "-seed", "301", "-wild", wild}
	if !recorded() {
		args[9] = "1700"
	}
	c, err := parse(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.rows()
	if err != nil {
		t.Fatal(err)
	}
	quiet, events := 0, 0
	for _, r := range rows {
		for _, o := range r.outcomes {
			t.Logf("%s, %s, %s, %s: %.3f → %.3f, falls by %.3f ± %.3f", o.player, o.kind, o.client, o.value, o.without, o.with, o.fall, o.se)
			if o.player == "effects" && o.fall-4*max(o.se, .02) > allowed {
				t.Errorf("%s with client %s: %s costs %.2f ± %.2f", o.kind, o.client, o.value, o.fall, o.se)
			}
		}
		if r.outcomes[0].player == "effects" {
			quiet, events = quiet+r.quiet, events+c.T*len(c.seeds)
		}
	}
	if most := 5 * events / 1_000_000; quiet > most {
		t.Errorf("%d changes were stated in %d events without one", quiet, events)
	}
	ours, theirs := sumOf(rows, "effects"), sumOf(rows, "lints")
	if cost := ours.falls / float64(ours.n); cost > .03 {
		t.Errorf("a wild value costs %.3f in the mean of %d cells", cost, ours.n)
	}
	if ours.sure > ours.n/50 {
		t.Errorf("%d of %d cells fall by more than .05 by two standard errors", ours.sure, ours.n)
	}
	if theirs.sure < theirs.n/5 {
		t.Errorf("a player that believes every reward fails in %d of %d cells only: the test would not see it", theirs.sure, theirs.n)
	}
	t.Logf("effects %+v; LinTS %+v; %d changes in %d quiet events", ours, theirs, quiet, events)
}

// TestUnits: rewards in other units, by a power of two, change no decision; equal rewards are played uniformly and are no
// change; a hundred zeros first cost little more than the hundred events.
func TestUnits(t *testing.T) {
	play := func(kind, client string, seed uint64, T int) *worlds.Result {
		t.Helper()
		w, err := worlds.New(kind, seed, T)
		if err != nil {
			t.Fatal(err)
		}
		c, err := worlds.ClientOf(client)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newRandom(w, seed)
		if err != nil {
			t.Fatal(err)
		}
		r, err := worlds.Play(w, c, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	seeds := uint64(2)
	if recorded() {
		seeds = 12
	}
	for seed := range seeds {
		for _, kind := range []string{"segments", "revenue", "budget"} {
			plain := play(kind, "now", 401+seed, 1000)
			for _, other := range []string{"now/scale=1024", "now/scale=0.0009765625"} {
				if r := play(kind, other, 401+seed, 1000); differ(plain, r) > 0 {
					t.Errorf("%s, seed %d, %s: %d of 1000 decisions differ", kind, 401+seed, other, differ(plain, r))
				}
			}
		}
		equal := play("ids", "now/equal=.5", 401+seed, 500)
		counts := make([]int, 6)
		for _, i := range equal.Chosen {
			counts[i]++
		}
		for i, n := range counts { // 83 in the mean, deviation at most 8.3
			if n < 45 || n > 125 || len(equal.Stated) > 0 {
				t.Errorf("equal rewards: action %d was played %d of 500 times, changes %v", i, n, equal.Stated)
			}
		}
	}
	late, plain := 0., 0.
	for seed := range 2 * seeds {
		late += play("segments", "zeros-first", 401+seed, 1100).Share(100, 1100) / float64(2*seeds)
		plain += play("segments", "now", 401+seed, 1000).Share(0, 1000) / float64(2*seeds)
	}
	// the deviation of a share is about .06, of the difference of two means of four worlds .04
	if fall := plain - late; fall > .03+.12/math.Sqrt(float64(seeds)/2) {
		t.Errorf("a hundred zeros first cost %.2f of %.2f", fall, plain)
	}
}

// differ counts the decisions that differ.
func differ(a, b *worlds.Result) (n int) {
	for i := range a.Chosen {
		if a.Chosen[i] != b.Chosen[i] {
			n++
		}
	}
	return n
}

// TestMatrixArguments: the whole matrix has all values at all places.
func TestMatrixArguments(t *testing.T) {
	for _, v := range []string{"10", "-10", "1e6", "1e300"} {
		for _, at := range []string{"@1", "@200", "@2000"} {
			if !strings.Contains(allWild, v+at) {
				t.Errorf("%s%s is not in the matrix", v, at)
			}
		}
	}
}
