package sim

import (
	"context"
	"math"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
)

// The memory of a run decides the number of workers, or refuses it before the first round with the place in the
// spec.
func TestMemoryOfARun(t *testing.T) {
	x, err := Parse("x.toml", "horizon = 3\nreplications = 4\n[[environment]]\nkind = \"linear\"\nd = 2100\n[[policy]]\nkind = \"ts\"\n", Kinds())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(limit int64, want string) {
		t.Helper()
		_, err := Run(context.Background(), x, Options{Dir: t.TempDir(), Memory: limit})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("limit %d: error %v, want %q", limit, err, want)
		}
	}
	refused(100<<20, `x.toml:6:3: policy "ts" on environment "linear": it takes at least 1`)
	refused(1000, `in dimension 2100, and 1.0 kB can be used`)
	r := newRunner(x, Options{Workers: 4, Memory: 1 << 40})
	if err := r.facts.play(); err != nil || r.o.Workers != 4 {
		t.Fatalf("%d workers, %v; want 4", r.o.Workers, err)
	}
	if want := 3 * 8.0 * 2100 * 2100; r.facts.cellBytes < want/2 || r.facts.cellBytes > 2*want { // about d² numbers three times
		t.Errorf("a cell takes %s, expected about %s", size(r.facts.cellBytes), size(want))
	}
	var notes []string
	r = newRunner(x, Options{Workers: 4, Memory: int64(2.5 * r.facts.cellBytes), Note: func(s string) { notes = append(notes, s) }})
	if err := r.facts.play(); err != nil || r.o.Workers != 2 {
		t.Errorf("%d workers, %v; want 2", r.o.Workers, err)
	}
	if got := strings.Join(notes, "\n"); !strings.Contains(got, "can be used: 2 workers instead of 4") {
		t.Errorf("notes %q", got)
	}
	x = parse(t, strings.Replace(mixed, "replications = 9", "replications = 100000", 1))
	refused(1<<20, `x.toml:3:1: replications: the results of 100000 (600000 cells`)
	if a := available(); a < 0 || a == math.MaxInt64 {
		t.Errorf("available memory is %d", a)
	}
}

// TestShare: what the first actions of a set use of the coordinates.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		set  bandit.ActionSet
		want float64
	}{{basis{{0, 0, 1, 0}}, 0.25}, {basis{{1, 0, 0, 0}, {0, 1, 1, 0}}, 0.5}, {basis{}, 1}, {fullBall(t), 1}} {
		if got := share(c.set); got != c.want {
			t.Errorf("%v: %v, want %v", c.set, got, c.want)
		}
	}
}

func fullBall(t *testing.T) bandit.ActionSet {
	b, err := actionset.NewBall(4)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
