package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
	"unsafe"

	"troupe/bandit"
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
	share := stateShare
	defer func() { stateShare = share }()
	stateShare = 1e9 // 31 rounds are played again sooner than a state is written
	data, plays := &dataset.Source{Override: "testdata/engine"}, playEngine(t)
	went := make(map[string]bool)
	again := make(map[string]string)
	for name, text := range engineSpecs(t) {
		dir := filepath.Join(t.TempDir(), "out")
		if _, err := Run(context.Background(), sized(t, text, "31"), Options{Dir: dir, Data: data}); err != nil {
			continue // refused
		}
		x, fresh := sized(t, text, "70"), plays[name]
		if fresh.err != nil {
			t.Fatalf("%s: %v", name, fresh.err)
		}
		var played int64
		out := run(t, x, Options{Dir: dir, Data: data, Progress: func(p Progress) { played = p.AllRounds }, Note: func(s string) {
			if strings.Contains(s, "is played from round 1: ") {
				again[name] = s
			}
		}})
		if !bytes.Equal(out.Results, fresh.out.Results) || !bytes.Equal(out.Also, fresh.out.Also) {
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

// A state is kept where it is worth its time and its place: a run of the default's size keeps none and has a journal of
// less than 2 MB, a run of few cells or of long ones keeps them.
func TestWorth(t *testing.T) {
	const ensemble = 3300 // bytes of a state of the default, d = 10, m = 20
	for _, c := range []struct {
		what        string
		bytes, work int
		seconds     float64
		cells       int
		want        bool
	}{
		{"the default", ensemble, 0, 0.006, 1000, false},
		{"the default on a loaded machine", ensemble, 0, 0.06, 1000, false},
		{"32 cells of 40 000 rounds", ensemble, 0, 0.012, 32, true},
		{"a hundred times as long", ensemble, 0, 0.6, 1000, true},
		{"200 rounds", ensemble, 0, 6e-5, 32, false},
		{"40 000 members on the ball", 3_202_000, 2_500_000_000, 0.05, 1, false},
		{"members that fit, all but never drawn", 320_000, 400_000_000, 1, 1, false},
		{"the same when they are up to date", 320_000, 0, 1, 1, true},
		{"theorem-large, d = 50", 80_000, 0, 6, 240, false},
		{"theorem-large, d = 10", 5_000, 0, 1, 240, true},
	} {
		if got := worth(c.bytes, c.work, c.seconds, c.cells); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	for _, cells := range []int{1, 240, 1000, 100_000} { // the most that is kept, however long a cell takes
		most := sort.Search(1<<26, func(n int) bool { return !worth(n, 0, 1e9, cells) })
		if all := cells * most * 4 / 3; all > 17<<20 {
			t.Errorf("%d cells may keep %d bytes", cells, all)
		}
	}
}

// A lazy ensemble is not made whole for the journal, and so not slower in a directory than without one.
func TestLazyState(t *testing.T) {
	x := parseReal(t, "horizon = 2000\n[[environment]]\nkind = 'linear'\nd = 6\nset = { kind = 'ball' }\n[[policy]]\nkind = 'ensemble'\nm = 30_000\n")
	r := newRunner(x, Options{Dir: t.TempDir()})
	if err := r.facts.play(); err != nil {
		t.Fatal(err)
	}
	world, pol, key, err := r.player.build(cell{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Play(world, pol, key, 200, new(recorderOfNothing)); err != nil {
		t.Fatal(err)
	}
	bytes, work := pol.(bandit.Weighed).SnapshotCost()
	if work < 30_000*100*6 || bytes < 8*30_000*6 {
		t.Fatalf("a snapshot of the lazy ensemble is said to be %d bytes and %d multiply-adds", bytes, work)
	}
	if b := r.states.state(cell{}, pol, 0.05); b != nil {
		t.Errorf("a state of %d bytes is kept", len(b))
	}
	if _, after := pol.(bandit.Weighed).SnapshotCost(); after != work {
		t.Errorf("the members were brought up to date: %d multiply-adds are left of %d", after, work)
	}
}

type recorderOfNothing struct{}

func (*recorderOfNothing) Round(int, float64, float64) error { return nil }

// The line of a cell is short, and a line of before, in decimal digits, says the same.
func TestJournalLine(t *testing.T) {
	at := Checkpoints(10_000)
	e := entry{Cell: strings.Repeat("9b1e", 8), Stem: strings.Repeat("0fa9", 8), Seconds: 0.011840779, T: 10_000,
		Also: map[string]numbers{"s_min": {1. / 3, 5e-324, math.MaxFloat64}}}
	for k := range at {
		e.Regret = append(e.Regret, 1000/float64(3+k))
		e.Reward = append(e.Reward, -float64(k)/7)
	}
	line, err := e.line()
	if err != nil {
		t.Fatal(err)
	}
	if len(line) > 1500 {
		t.Errorf("%d bytes, so 1000 cells take more than 1.5 MB", len(line))
	}
	got, err := parseEntry(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("read back: %+v, %v", got, err)
	}
	type lists struct {
		Cell, Stem     string
		Seconds        float64
		Horizon        int
		Regret, Reward []float64
		Also           map[string][]float64
	}
	body, err := json.Marshal(lists{e.Cell, e.Stem, e.Seconds, e.T, e.Regret, e.Reward,
		map[string][]float64{"s_min": e.Also["s_min"]}})
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Appendf(nil, "%08x %s", crc32.Checksum(body, castagnoli), body)
	if got, err := parseEntry(old); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("the line of before: %+v, %v", got, err)
	}
	for _, bad := range []string{`"AAAA"`, `"AAAAAAAA8H8="`, `"?"`, `1`} { // 3 bytes, +Inf
		body := []byte(`{"cell":"a","regret":` + bad + `}`)
		if _, err := parseEntry(fmt.Appendf(nil, "%08x %s", crc32.Checksum(body, castagnoli), body)); err == nil {
			t.Errorf("regret %s is read", bad)
		}
	}
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
		if err := r.facts.play(); err != nil {
			t.Fatal(err)
		}
		if got := r.states.indifferent(0, 0, 100); got != (preset == "practical") {
			t.Errorf("the ensemble with preset %s inside a wrapper is indifferent: %v", preset, got)
		}
	}
}
