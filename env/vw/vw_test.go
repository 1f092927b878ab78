package vw

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/rng"
)

func key(i uint64) rng.Key { return rng.NewKey(20_24).At(i) }

func vwWorldOf(t *testing.T, o *Options, replication uint64) bandit.Logged {
	t.Helper()
	e, err := o.Build(key(replication), &dataset.Source{})
	if err != nil {
		t.Fatal(err)
	}
	return e.(bandit.Logged)
}

func vwFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log.txt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestVWFiles plays Vowpal Wabbit's own logs: uniform play, weighed by the logged propensities, has the
// value that an independent program found in them, whatever the order, and no event comes twice.
func TestVWFiles(t *testing.T) {
	dir := filepath.FromSlash("../../../shared/data/vw/")
	b, err := os.ReadFile(filepath.FromSlash("../../../shared/ope/golden.json"))
	if err != nil {
		t.Skip("../shared is not beside the checkout")
	}
	var golden struct{ VW map[string]json.RawMessage }
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	for name, arms := range map[string]int{"dsjson_cb.json": 4, "igl.dsjson": 4, "explore_eval_egreedy.dat": 9} {
		var want struct {
			N   int
			IPS float64
		}
		if err := json.Unmarshal(golden.VW[name], &want); err != nil {
			t.Fatal(err)
		}
		for _, order := range []string{"shuffled", "file"} {
			o := New()
			o.Data, o.Order, o.Q = filepath.Join(dir, name), order, []string{"::"}
			data := &dataset.Source{}
			n, err := o.Rounds(data)
			if err != nil || n != want.N {
				t.Fatalf("%s: %d decisions, %v; expected %d", name, n, err, want.N)
			}
			e, err := o.Build(key(7), data)
			if err != nil {
				t.Fatal(err)
			}
			w := e.(bandit.Logged)
			offer := key(7).Stream(rng.Offer)
			var a bandit.Action
			sum := 0.0
			for round := 1; round <= n; round++ {
				set, err := w.Offer(offer.Round(uint64(round)))
				if err != nil {
					t.Fatal(err)
				}
				if again, err := w.Offer(offer.Round(uint64(round))); err != nil || again != set {
					t.Fatalf("%s: the same round has another set (%v)", name, err)
				}
				s := set.(bandit.Sparse)
				if s.Len() != arms || s.Dim() != 1<<18 {
					t.Fatalf("%s: %d actions in dimension %d", name, s.Len(), s.Dim())
				}
				for i := range s.Len() {
					_, x := s.Nonzeros(i)
					q := 0.0
					for _, v := range x {
						q += v * v
					}
					if math.Abs(q-1) > 1e-12 {
						t.Fatalf("%s: action %d has norm² %v", name, i, q)
					}
				}
				y, loss, p := w.Logged(&a)
				at, _ := s.Nonzeros(a.Index)
				if !slices.Equal(at, a.At) || loss < 0 {
					t.Fatalf("%s: the logged action is not action %d of the set, or loss %v", name, a.Index, loss)
				}
				sum += y / float64(arms) / p
			}
			if got := sum / float64(n); math.Abs(got-want.IPS) > 1e-12 {
				t.Errorf("%s, order %s: uniform play is worth %v, expected %v", name, order, got, want.IPS)
			}
			if _, err := w.Offer(offer.Round(uint64(n + 1))); err == nil {
				t.Errorf("%s: there is a round after the last decision", name)
			}
			if _, err := w.Reward(bandit.Action{Index: (a.Index + 1) % arms}, rng.Source{}); err == nil {
				t.Errorf("%s: another action than the logged one was paid", name)
			}
		}
	}
}

const vwBlocks = `shared |User user=Anna user=Anna age:2 age:1
0:-1:0.5 |Action a=1 size:3
|Action a=2 size:6

shared |User user=Tom
|Action a=1 size:3
1:0:0.25 |Action a=2 size:6

`

func TestVWText(t *testing.T) {
	o := New()
	o.Data, o.Order = vwFile(t, vwBlocks), "file"
	w := vwWorldOf(t, o, 1)
	notes := strings.Join(w.(env.Noted).Notes(), "\n")
	for _, want := range []string{"2 decisions of vw; namespaces Action, User", "1 features are twice in a line, and are added",
		"a feature is twice in a line: its values are added", "7 features on 7 of 2^18 coordinates: 0 collide"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes %q do not say %q", notes, want)
		}
	}
	set, err := w.Offer(key(1).Stream(rng.Offer).Round(1))
	if err != nil {
		t.Fatal(err)
	}
	// user=Anna twice is 2, age 3, size 3, the action and the constant 1: the norm is √(4 + 9 + 9 + 1 + 1).
	_, x := set.(bandit.Sparse).Nonzeros(0)
	got := slices.Clone(x)
	slices.Sort(got)
	r := math.Sqrt(24)
	want := []float64{1 / r, 1 / r, 2 / r, 3 / r, 3 / r}
	if len(got) != len(want) {
		t.Fatalf("%v, expected %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Errorf("%v, expected %v", got, want)
		}
	}
	var a bandit.Action
	if y, loss, p := w.Logged(&a); y != 1 || loss != 0 || p != 0.5 || a.Index != 0 {
		t.Errorf("logged: reward %v, loss %v, propensity %v, action %d", y, loss, p, a.Index)
	}
	// With one norm for the file the second action's size keeps its length.
	o.Norm = "file"
	w = vwWorldOf(t, o, 1)
	if set, err = w.Offer(key(1).Stream(rng.Offer).Round(1)); err != nil {
		t.Fatal(err)
	}
	_, one := set.(bandit.Sparse).Nonzeros(0)
	_, two := set.(bandit.Sparse).Nonzeros(1)
	if a, b := slices.Max(one), slices.Max(two); math.Abs(b-2*a) > 1e-12 {
		t.Errorf("sizes 3 and 6 became %v and %v", a, b)
	}
}

// TestVWCollisions: on 1024 coordinates some of the pairs of 60 features share one.
func TestVWCollisions(t *testing.T) {
	var b strings.Builder
	b.WriteString("shared |s")
	for i := range 60 {
		fmt.Fprintf(&b, " f%d:%d", i, i+1)
	}
	b.WriteString("\n0:0:0.5 |t a\n|t b\n\n")
	o := New()
	o.Data, o.Bits, o.Q = vwFile(t, b.String()), 10, []string{"ss"}
	w := vwWorldOf(t, o, 1)
	set, err := w.Offer(key(1).Stream(rng.Offer).Round(1))
	if err != nil {
		t.Fatal(err)
	}
	used := map[uint32]bool{}
	for i := range 2 {
		at, _ := set.(bandit.Sparse).Nonzeros(i)
		for _, k := range at {
			used[k] = true
		}
	}
	all := 60 + 60*61/2 + 2 + 1
	if want := fmt.Sprintf("%d features on %d of 2^10 coordinates: %d collide", all, len(used), all-len(used)); !strings.Contains(strings.Join(w.(env.Noted).Notes(), "\n"), want) {
		t.Errorf("the notes %q do not say %q", w.(env.Noted).Notes(), want)
	}
}

func TestVWRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(o *Options)
		text   string
		want   string
	}{
		{func(o *Options) { o.Bits = 9 }, vwBlocks, "bits is 9, expected 10 to 28"},
		{func(o *Options) { o.Norm = "rows" }, vwBlocks, `norm: is "rows"; expected one of action, file`},
		{func(o *Options) { o.Rewards = []float64{1, 0} }, vwBlocks, "rewards is [1 0], expected [min, max]"},
		{func(o *Options) { o.Rewards = []float64{2, 3} }, vwBlocks, "reward in [2, 3]"},
		{func(o *Options) { o.Q = []string{"UB"} }, vwBlocks, `q is "UB", but no namespace begins with "B"; the file has Action, User`},
		{func(o *Options) { o.Ignore = []string{"User", "Action"}; o.NoConstant = true }, vwBlocks, "no feature that is not 0"},
		{func(*Options) {}, "a,b\n1,2\n", "kind vw reads VW text in blocks"},
		{func(*Options) {}, "1:0:0.5 |a x\n2:0:0.5 |a y\n", "actions"},
		{func(*Options) {}, "shared |a x\n|b y\n\n", "an empty log, 1 skipped: without a label"},
		{func(*Options) {}, "shared |a x\n0:0:1.5 |b y\n\n", "number in (0, 1]"},
	} {
		o := New()
		o.Data = vwFile(t, c.text)
		c.change(o)
		_, err := o.Build(key(1), &dataset.Source{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
}
