package sim

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"
)

// A run with a budget ends with the bytes of a run with the number of replications that fitted, and a
// second budget adds to it.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	spec := parse(t, mixed)
	same := func(x *Experiment, out *Outcome) {
		t.Helper()
		fresh, err := spec.WithReplications(x.Replications)
		if err != nil {
			t.Fatal(err)
		}
		want := run(t, fresh, Options{})
		if got := read(t, dir, ResultsFile); !bytes.Equal(got, want.Results) || !bytes.Equal(out.Results, want.Results) {
			t.Errorf("%d replications: results differ from those of a run", x.Replications)
		}
		m, err := ReadManifest(dir)
		if err != nil || m.Status != Complete || m.Replications != x.Replications || m.Done != x.Cells() {
			t.Errorf("manifest %+v, %v", m, err)
		}
		known, _, err := readJournal(dir + "/" + JournalFile)
		if err != nil || len(known) != x.Cells() {
			t.Errorf("the journal has %d cells, %v; want %d", len(known), err, x.Cells())
		}
	}
	x, out, err := RunFor(context.Background(), spec, Options{Dir: dir, Workers: 2}, time.Hour, 21)
	if err != nil || x.Replications != 21 || out.Played != x.Cells() {
		t.Fatalf("%v, %v; want 21 replications, the bound", x, err)
	}
	same(x, out)
	// The budget ends while cells are under way: what is complete counts. A late notice of progress ends it
	// at a known place.
	ctx, cancel := context.WithCancel(context.Background())
	y, out, err := RunFor(ctx, spec, Options{Dir: dir, Workers: 2, Progress: func(p Progress) {
		if p.Replications >= 30 {
			cancel()
		}
	}}, time.Hour, 0)
	if err != nil || y.Replications < 30 {
		t.Fatalf("%v, %v; want at least 30 replications", y, err)
	}
	same(y, out)
	if _, err := Run(context.Background(), y, Options{Dir: dir}); err != nil {
		t.Errorf("the directory does not run: %v", err)
	}
}

// A budget that is too short for one replication is an error, which keeps the cells.
func TestBudgetTooShort(t *testing.T) {
	x := parse(t, "horizon = 100000000\nreplications = 3\n[[environment]]\nkind = \"arms\"\n[[policy]]\nkind = \"random\"\n")
	_, out, err := RunFor(context.Background(), x, Options{Dir: t.TempDir(), Grace: time.Millisecond}, 20*time.Millisecond, 0)
	if !errors.Is(err, ErrBudget) || out == nil {
		t.Errorf("error %v, want ErrBudget", err)
	}
}
