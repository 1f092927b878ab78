package sim

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"troupe/dataset"
	"troupe/spec"
)

// sized is a spec with another horizon and three replications.
func sized(t *testing.T, text, horizon string) *Experiment {
	t.Helper()
	for _, o := range []struct{ key, value string }{{"horizon", horizon}, {"replications", "3"}} {
		var err error
		if text, err = spec.Override("engine.toml", text, o.key, o.value); err != nil {
			t.Fatal(err)
		}
	}
	x, err := Parse("engine.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A longer horizon goes on from the state of the shorter one, and ends with the bytes of a fresh run, for every
// kind, environment and option; policies that know the horizon are played again and say so.
func TestLongerHorizon(t *testing.T) {
	data := &dataset.Source{Override: "testdata/engine"}
	went := make(map[string]bool)
	again := make(map[string]string)
	for name, text := range engineSpecs(t) {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := Run(context.Background(), sized(t, text, "31"), Options{Dir: dir, Data: data}); err != nil {
			continue // refused
		}
		x := sized(t, text, "70")
		fresh := run(t, x, Options{Data: data})
		var played int64
		out := run(t, x, Options{Dir: dir, Data: data, Progress: func(p Progress) { played = p.AllRounds }, Note: func(s string) {
			if strings.Contains(s, "is played from round 1: ") {
				again[name] = s
			}
		}})
		if !bytes.Equal(out.Results, fresh.Results) || !bytes.Equal(out.Also, fresh.Also) {
			t.Errorf("%s: the bytes are not those of a fresh run", name)
		}
		all := int64(70 * x.Cells())
		went[name] = played < all
		if out.Rounds != played {
			t.Errorf("%s: %d rounds are played, %d are announced", name, out.Rounds, played)
		}
		if (again[name] == "") != (played == all-31*int64(x.Cells())) {
			t.Errorf("%s: %d of %d rounds are played, %q", name, played, all, again[name])
		}
	}
	for _, kind := range []string{"ensemble", "ts", "linucb", "epsilon-greedy", "greedy", "mixed", "atoms", "auto", "lazy", "bag", "ids", "uniform", "doubling"} {
		if !went["policy "+kind+" on arms"] {
			t.Errorf("%s is played again: %s", kind, again["policy "+kind+" on arms"])
		}
	}
	for _, kind := range []string{"cassel", "lee-oh"} {
		if !strings.Contains(again["policy "+kind+" on arms"], "it knows the horizon") {
			t.Errorf("%s goes on, remark %q", kind, again["policy "+kind+" on arms"])
		}
	}
	t.Logf("%d specs, played again: %q", len(went), slices.Sorted(maps.Values(again)))
}

// A cell that is abandoned goes on where it was, also in lock-step, in other company and with a file that is
// damaged, and ends with the same bytes.
func TestAbandoned(t *testing.T) {
	every := saveEvery
	defer func() { saveEvery = every }()
	saveEvery = 0
	text := `
horizon = 3000
replications = 10
checkpoints = [1, 700, 2999]
[[environment]]
kind = "linear"
d = 4
set = { kind = "random-sphere", arms = 6 }
drift = 0.001
[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5, redraw = true }
[[policy]]
kind = "ensemble"
m = 6
[[policy]]
kind = "ts"
[[policy]]
kind = "cassel"
`
	want := run(t, parseReal(t, text), Options{}).Results
	dir := filepath.Join(t.TempDir(), "out")
	sessions, parts, skipped := 0, 0, int64(0)
	for ; ; sessions++ {
		if sessions > 300 {
			t.Fatal("it never ends")
		}
		ctx, cancel := context.WithCancel(context.Background())
		var first Progress
		out, err := Run(ctx, parseReal(t, text), Options{Dir: dir, Workers: 1 + sessions%3, Grace: 1, Progress: func(p Progress) {
			if first.Cells == 0 {
				first = p
			}
			if p.Rounds > 4000 || p.Done > p.Reused {
				cancel()
			}
		}})
		cancel()
		skipped += int64(first.Cells-first.Reused)*3000 - first.AllRounds
		if err == nil {
			break
		}
		if !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, partDir, "*"))
		parts += out.UnderWay
		for _, f := range files {
			if c, err := parseEntry(bytes.TrimSuffix(read(t, f), []byte("\n"))); err == nil && c.Seconds <= 0 {
				t.Errorf("a cell under way took %v s", c.Seconds)
			}
		}
		if out.UnderWay > len(files) {
			t.Errorf("%d cells are said to be under way, and %d are kept", out.UnderWay, len(files))
		}
		if len(files) > 0 && sessions%4 == 1 { // a disk that lies
			b := read(t, files[0])
			b[len(b)/2] ^= 1
			if err := os.WriteFile(files[0], b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(read(t, dir, ResultsFile), want) {
		t.Error("the bytes are not those of a run in one go")
	}
	if _, err := os.Stat(filepath.Join(dir, partDir)); !os.IsNotExist(err) {
		t.Errorf("cells under way are left: %v", err)
	}
	if sessions < 3 || parts < 3 || skipped == 0 {
		t.Errorf("%d sessions left %d cells under way, which spared %d rounds", sessions, parts, skipped)
	}
	t.Logf("%d sessions, %d cells under way, %d rounds spared", sessions, parts, skipped)
}

// A cell under way is written again and again, and the clock is looked at often enough when rounds are slow.
func TestLook(t *testing.T) {
	every := saveEvery
	defer func() { saveEvery = every }()
	saveEvery = time.Hour
	l := newLook(10)
	played, looks := 10, 0
	for played < 5000 {
		played = l.next
		if rounds, save := l.due(played); rounds < 1 || save {
			t.Fatalf("%d rounds, save %v", rounds, save)
		}
		looks++
	}
	if looks > 30 || l.step != countEvery {
		t.Errorf("%d looks in 5000 quick rounds, the last after %d", looks, l.step)
	}
	l.last = l.last.Add(-2 * time.Second) // 256 rounds took two seconds
	l.due(l.next)
	l.last = l.last.Add(-2 * time.Second)
	l.due(l.next)
	if l.step > countEvery/10 {
		t.Errorf("rounds are slow, and the next look is after %d", l.step)
	}
	l.saved = l.saved.Add(-2 * time.Hour)
	if _, save := l.due(l.next); !save {
		t.Error("nothing is saved after two hours")
	}
	began := time.Now().Add(-time.Hour)
	if l.wrote(began); l.room < 19*time.Hour {
		t.Errorf("a save that took an hour is repeated after %v", l.room)
	}
}

// Whoever knows the horizon is found, also where it is hidden; functions from outside are not trusted.
func TestIndifferent(t *testing.T) {
	type deep struct {
		list []any
		m    map[string]*int
	}
	type withFunc struct{ f func() }
	one, other := 1, 2
	same := func(a, b any) bool {
		return comparison{make(map[[2]unsafe.Pointer]bool)}.equal(reflect.ValueOf(a), reflect.ValueOf(b), false)
	}
	f := func() {}
	for i, c := range []struct {
		a, b any
		want bool
	}{
		{deep{[]any{1.5, "x"}, map[string]*int{"a": &one}}, deep{[]any{1.5, "x"}, map[string]*int{"a": &one}}, true},
		{deep{[]any{1.5, "x"}, nil}, deep{[]any{1.5, "y"}, nil}, false},
		{deep{nil, map[string]*int{"a": &one}}, deep{nil, map[string]*int{"a": &other}}, false},
		{[]float64{1, 2}, []float64{1, 3}, false},
		{withFunc{f}, withFunc{f}, true}, // this package is of troupe
		{withFunc{nil}, withFunc{f}, false},
		{withFunc{f}, withFunc{nil}, false},
		{withFunc{nil}, withFunc{nil}, true},
		{f, f, false},
		{[2]int{1, 2}, [2]int{1, 2}, true},
	} {
		if got := same(c.a, c.b); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
	for _, preset := range []string{"practical", "paper"} {
		x := parseReal(t, "[[environment]]\nkind = 'linear'\nd = 3\nset = { kind = 'basis' }\n[[policy]]\nkind = 'mixed'\nbase = { kind = 'ensemble', preset = '"+preset+"' }\n")
		r := newRunner(x, Options{})
		if err := r.rehearse(); err != nil {
			t.Fatal(err)
		}
		if got := r.indifferent(0, 0, 100); got != (preset == "practical") {
			t.Errorf("the ensemble with preset %s inside a wrapper is indifferent: %v", preset, got)
		}
	}
}
