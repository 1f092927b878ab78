package sim

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/rng"
	"troupe/spec"
)

// TestRecordedIsPlayedAgain: what a spec records is not in the state of a cell, so that a longer run plays it from
// round 1, says so, and has the rows of a fresh one.
func TestRecordedIsPlayedAgain(t *testing.T) {
	text := "record = ['actions']\nreplications = 2\nhorizon = 30\n[[environment]]\nkind = 'linear'\nd = 2\nset = { kind = 'basis' }\n[[policy]]\nkind = 'uniform'\n[[policy]]\nkind = 'ts'\n"
	dir := filepath.Join(t.TempDir(), "out")
	run(t, parseReal(t, text), Options{Dir: dir})
	x := parseReal(t, strings.Replace(text, "30", "60", 1))
	var notes []string
	out := run(t, x, Options{Dir: dir, Note: func(s string) { notes = append(notes, s) }})
	if want := run(t, x, Options{}); !bytes.Equal(out.Also, want.Also) || !bytes.Equal(out.Results, want.Results) {
		t.Error("the longer run has other bytes than a fresh one")
	}
	if got := strings.Join(notes, "\n"); strings.Count(got, "is played from round 1: the spec records more than regret and reward") != 2 {
		t.Errorf("notes %q", got)
	}
	if out.Rounds != 2*2*60 {
		t.Errorf("%d rounds are played, want all", out.Rounds)
	}
}

// TestPart: a file of a cell under way is taken when it is of this cell, of a round inside it, with the sums of the
// checkpoints before that and with a state.
func TestPart(t *testing.T) {
	x := parse(t, mixed)
	r := newRunner(x, Options{Dir: t.TempDir()})
	if err := errors.Join(r.facts.play(), r.nameCells()); err != nil {
		t.Fatal(err)
	}
	all := len(x.Checkpoints)
	good := func(at, marks int) entry {
		return entry{Cell: r.table.keys[0], At: at, Regret: make([]float64, marks), Reward: make([]float64, marks), State: []byte{1}}
	}
	for name, c := range map[string]struct {
		change func(*entry)
		taken  bool
	}{
		"whole":          {func(e *entry) {}, true},
		"last round":     {func(e *entry) { *e = good(x.Horizon-1, all-1) }, true},
		"another cell":   {func(e *entry) { e.Cell = r.table.keys[1] }, false},
		"no round":       {func(e *entry) { *e = good(0, 0) }, false},
		"finished":       {func(e *entry) { *e = good(x.Horizon, all) }, false},
		"regret missing": {func(e *entry) { e.Regret = nil }, false},
		"reward missing": {func(e *entry) { e.Reward = nil }, false},
		"no state":       {func(e *entry) { e.State = nil }, false},
	} {
		e := good(x.Checkpoints[2], 3)
		c.change(&e)
		line, err := e.line()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Join(r.o.Dir, partDir), 0o755), os.WriteFile(filepath.Join(r.o.Dir, partDir, r.table.keys[0]), line, 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := r.states.pending(0); (got != nil) != c.taken {
			t.Errorf("%s: taken is %v, want %v", name, got != nil, c.taken)
		}
	}
}

// TestCollect: the files of a run that was killed are made from its journal, with the notes of its manifest.
func TestCollect(t *testing.T) {
	x := parse(t, mixed+"m = 13\n")
	dir := filepath.Join(t.TempDir(), "out")
	run(t, x, Options{Dir: dir})
	file := read(t, dir, ManifestFile)
	if err := Collect(dir, fakes); err != nil || !bytes.Equal(read(t, dir, ManifestFile), file) {
		t.Errorf("a complete directory is changed, error %v", err)
	}
	whole, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(read(t, dir, JournalFile), []byte("\n"))
	if err := os.WriteFile(filepath.Join(dir, JournalFile), bytes.Join(lines[:20], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, done := range []int{0, 20} { // what the manifest says: before its journal, and at its end
		m := *whole
		m.Status, m.Done, m.Command = Interrupted, done, "as it was"
		if err := errors.Join(writeManifest(dir, &m), os.WriteFile(filepath.Join(dir, ResultsFile), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		if err := Collect(dir, fakes); err != nil {
			t.Fatal(err)
		}
		got, err := ReadManifest(dir)
		if err != nil || got.Status != Interrupted || got.Done != 20 || !reflect.DeepEqual(got.Notes, whole.Notes) || len(got.Notes) != 6 {
			t.Errorf("manifest at %d: %+v, %v", done, got, err)
		}
		want := 1 + 20*len(x.Checkpoints)
		if done == 20 {
			want = 0 // it stays as it is
		}
		if rows := bytes.Count(read(t, dir, ResultsFile), []byte("\n")); rows != want {
			t.Errorf("manifest at %d: %d rows, want %d", done, rows, want)
		}
	}
}

// TestErrorStops: the worker whose cell fails ends the session before it hands the error over, so that no other
// worker begins a cell after it.
func TestErrorStops(t *testing.T) {
	r := newRunner(parse(t, mixed+"[[policy]]\nname='weak'\nkind='break'\nround=300\n"), Options{})
	if err := r.facts.play(); err != nil {
		t.Fatal(err)
	}
	for p, breaks := range []bool{false, false, false, true} {
		out, stopped := make(chan finished, 1), false
		cell{0, p, 0}.play(r.player, &session{soft: context.Background(), hard: context.Background(), stop: func() { stopped = true }, out: out})
		if f := <-out; (f.err != nil) != breaks || stopped != breaks {
			t.Errorf("policy %d: error %v, stopped %v, want %v", p, f.err, stopped, breaks)
		}
	}
}

// TestHypothesisBeforeTheFirstCell: a hypothesis may be stated as long as no cell is finished.
func TestHypothesisBeforeTheFirstCell(t *testing.T) {
	x := parse(t, mixed)
	dir := filepath.Join(t.TempDir(), "out")
	m := Manifest{Identity: x.Identity(), Status: Interrupted}
	if err := errors.Join(os.Mkdir(dir, 0o755), writeManifest(dir, &m)); err != nil {
		t.Fatal(err)
	}
	run(t, parse(t, strings.Replace(mixed, "seed = 5", "seed = 5\nhypothesis = 'before'", 1)), Options{Dir: dir})
}

// TestSettled: the rule that ends RunFor is asked after each batch; what it says and its error are obeyed.
func TestSettled(t *testing.T) {
	x := parse(t, mixed)
	if _, _, err := RunFor(context.Background(), x, Options{}, time.Hour, 1000); err == nil || !strings.Contains(err.Error(), "needs a directory") {
		t.Errorf("without a directory: error %v", err)
	}
	asked := 0
	y, _, err := RunFor(context.Background(), x, Options{Dir: t.TempDir(), Settled: func(*Outcome) (bool, error) { asked++; return asked == 2, nil }}, time.Hour, 1000)
	if err != nil || asked != 2 || y.Replications >= 1000 {
		t.Errorf("it was asked %d times, %v", asked, err)
	}
	if _, out, err := RunFor(context.Background(), x, Options{Dir: t.TempDir(), Settled: func(*Outcome) (bool, error) { return false, errBroken }}, time.Hour, 1000); !errors.Is(err, errBroken) || out == nil {
		t.Errorf("error %v, want that of the rule", err)
	}
}

// TestFitting: the next batch doubles the replications, at least eight, as far as nine tenths of the time go, and one
// more where that fits.
func TestFitting(t *testing.T) {
	x := parse(t, mixed)
	for _, c := range []struct {
		done       int
		each, left float64
		want       int
	}{{0, 0, 10, 8}, {20, 0, 10, 20}, {20, 1, 100, 20}, {20, 1, 10, 9}, {20, 1, 1.05, 1}, {20, 1, 0.95, 0}, {20, 1, -1, 0}} {
		if got := x.fitting(c.done, c.each, c.left); got != c.want {
			t.Errorf("%d done, %v s each, %v s left: %d, want %d", c.done, c.each, c.left, got, c.want)
		}
	}
}

// TestDelayLimits: the first and the last delay of each law are taken, and what lies beyond is refused.
func TestDelayLimits(t *testing.T) {
	for _, c := range []struct {
		law delayLaw
		ok  bool
	}{
		{&fixedDelay{0}, false}, {&fixedDelay{1}, true}, {&fixedDelay{maxHorizon}, true}, {&fixedDelay{maxHorizon + 1}, false},
		{&geometricDelay{0}, false}, {&geometricDelay{1e-9}, true}, {&geometricDelay{maxHorizon}, true}, {&geometricDelay{1.5 * maxHorizon}, false},
		{&geometricDelay{math.NaN()}, false},
	} {
		if err := c.law.check(); (err == nil) != c.ok {
			t.Errorf("%#v: error %v", c.law, err)
		}
	}
}

// TestMembers: the members that diagnostics look at are the models of the policy at that decision, around its estimate.
func TestMembers(t *testing.T) {
	const decision = 7
	for kind, m := range map[string]int{"atoms": 5, "lazy": 5, "auto": 6, "ensemble": 5} {
		x := parseReal(t, fmt.Sprintf("horizon = 20\nreplications = 1\n[[environment]]\nkind = 'linear'\nd = 3\nset = { kind = 'random-sphere', arms = 4 }\n[[policy]]\nkind = '%s'\nm = %d\n", kind, m))
		world, pol, key, err := newRunnerOf(t, x).player.build(cell{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := Play(world, pol, key, 20, silent{}); err != nil {
			t.Fatal(err)
		}
		members, ok := membersOf(pol, decision)
		if !ok || members.M != m {
			t.Fatalf("%s: %d members, %v", kind, members.M, ok)
		}
		hat, want, got, sum := regressionOf(pol).Theta(), make([]float64, 3), make([]float64, 3), make([]float64, 3)
		for j := range m {
			clear(sum)
			for _, sign := range []float64{1, -1} {
				members.Model(got, j, sign)
				switch p := pol.(type) {
				case interface {
					Model(dst []float64, decision uint64, j int, sign float64)
				}:
					p.Model(want, decision, j, sign)
				case interface {
					Model(dst []float64, j int, sign float64)
				}:
					p.Model(want, j, sign)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: member %d is %v, the policy's %v", kind, j, got, want)
				}
				for i := range sum {
					sum[i] += got[i] / 2
				}
			}
			for i := range sum {
				if math.Abs(sum[i]-hat[i]) > 1e-12 || got[i] == hat[i] {
					t.Errorf("%s: member %d and its mirror image lie around %v, the estimate is %v", kind, j, sum, hat)
				}
			}
		}
	}
}

func newRunnerOf(t *testing.T, x *Experiment) *runner {
	t.Helper()
	r := newRunner(x, Options{})
	if err := r.facts.play(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOptionText: an option in words has its kind and every setting.
func TestOptionText(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{int64(3), "3"},
		{spec.Raw{"kind": "beta"}, "β"},
		{spec.Raw{"kind": "beta", "value": 0.3}, "0.3β"},
		{spec.Raw{"kind": "betatilde"}, "β̃"},
		{spec.Raw{"kind": "box"}, "box"},
		{spec.Raw{"kind": "lattice", "cells": int64(4), "inner": spec.Raw{"kind": "ball", "d": int64(2)}}, "lattice(cells=4, inner=ball(d=2))"},
	} {
		if got := OptionText(c.v); got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
}

// TestBudgetKept: where every replication takes a second, a run ends inside its budget, with as many replications
// as fit.
func TestBudgetKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		x, err := Parse("x.toml", "horizon = 1\nreplications = 1000\n[[environment]]\nkind = 'slow'\n[[policy]]\nkind = 'random'\n", Catalogue{
			Policies: fakes.Policies, Environments: spec.Registry[env.Options]{"slow": func() env.Options { return &slowWorld{armsWorld{K: 3}} }}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		y, _, err := RunFor(context.Background(), x, Options{Dir: dir, Workers: 1}, 29500*time.Millisecond, 0)
		if took := time.Since(began); err != nil || y.Replications != 29 || took != 29*time.Second {
			t.Errorf("%v, error %v; want 29 replications in 29 s", took, err)
		}
	})
}

// slowWorld takes a second for a reward.
type slowWorld struct{ armsWorld }

func (w *slowWorld) Build(key rng.Key, data env.DataSource) (bandit.Environment, error) {
	built, err := w.armsWorld.Build(key, data)
	return slow{built}, err
}

type slow struct{ bandit.Environment }

func (s slow) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	time.Sleep(time.Second) // the fault
	return s.Environment.Reward(a, draw)
}

// TestFind: a data file that is not where the spec says is looked for beside the spec, and only there.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "beside.csv"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := dataFiles{new(dataset.Source), dir}
	for path, want := range map[string]string{"": "", "beside.csv": filepath.Join(dir, "beside.csv"), "/beside.csv": "/beside.csv", "missing.csv": "missing.csv"} {
		if got := d.find(path); got != want {
			t.Errorf("%q is found at %q, want %q", path, got, want)
		}
	}
	d.Source = &dataset.Source{Override: dir}
	if got := d.find("beside.csv"); got != "beside.csv" {
		t.Errorf("with a directory of data beside.csv is found at %q", got)
	}
}

// TestLateAllocatesNothing: a steady round with a delay uses the memory of actions that were learned again.
func TestLateAllocatesNothing(t *testing.T) {
	p := newLate(&randomPlayer{}, &Feedback{Delay: Delay{&fixedDelay{2}}}, rng.NewKey(1))
	a := bandit.Action{X: make([]float64, 50)}
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Update(a, 1, rng.NewKey(1).Stream(rng.Perturb).Round(1)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in a round", n)
	}
}

// TestGridLimit: a tune table has two combinations or more, and no more than a spec may have cases.
func TestGridLimit(t *testing.T) {
	list := func(n int) (out []any) {
		for i := range n {
			out = append(out, int64(i))
		}
		return out
	}
	x := parse(t, mixed)
	for n, want := range map[int]string{1: "has one combination", 2: "", maxCases: "", maxCases + 1: fmt.Sprintf("makes more than %d combinations", maxCases)} {
		x.Policies[0].Tune = spec.Raw{"m": list(n)}
		grid, err := x.Grid(0)
		if (err == nil) != (want == "") || err == nil && len(grid) != n || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d values: %d combinations, error %v, want %q", n, len(grid), err, want)
		}
	}
}

// TestEmptyBuildID: a program that was linked without a build ID has a note without text, which says nothing about it.
func TestEmptyBuildID(t *testing.T) {
	const names = "\x00.note.go.buildid\x00.shstrtab\x00"
	for size, known := range map[int]bool{16: false, 17: true} {
		var b bytes.Buffer
		const head, section = 64, 64
		h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(head + size + len(names)),
			Ehsize: head, Shentsize: section, Shnum: 3, Shstrndx: 2}
		copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		sections := []elf.Section64{{},
			{Name: 1, Type: uint32(elf.SHT_NOTE), Off: head, Size: uint64(size)},
			{Name: uint32(strings.Index(names, ".shs")), Type: uint32(elf.SHT_STRTAB), Off: uint64(head + size), Size: uint64(len(names))}}
		for _, v := range []any{h, make([]byte, size), []byte(names), sections} {
			if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := buildID(name); (got != nil) != known {
			t.Errorf("a note of %d bytes gives %x", size, got)
		}
	}
}
