package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"troupe/dataset"
	"troupe/shards"
)

// Options of a run. The zero value plays in memory, on all processors.
type Options struct {
	Dir     string // result directory; "" keeps everything in memory
	Workers int    // 0 means one for each processor
	Force   bool   // finished cells of the directory that this run does not have may go

	// Shard is the part that is played; the zero value is the whole experiment. A part writes its journal and its
	// manifest to a directory of its own inside Dir (ShardsDir), and no results: Merge makes them of all parts.
	Shard shards.Part

	// Data loads data files; nil means that the spec names them all.
	Data *dataset.Source

	// Program names the code that plays; cells that another program wrote are not believed. "" means
	// what computes them: the engine version for built-in kinds (see Engine), the executable's build
	// ID for other kinds. AnyProgram makes no difference between programs.
	Program string

	// Manifest holds what the caller knows of the run: version, commit, command. Run fills in
	// the rest.
	Manifest Manifest

	// Grace is how long cells under way may go on after the context is done; 0 means 2 s.
	Grace time.Duration

	// Progress is called from one goroutine, at the start, after every cell and about ten times
	// a second between.
	Progress func(Progress)

	// Note is called once for each remark: warnings of policies, rescalings, damaged files.
	Note func(string)

	// Memory is how many bytes the run may take; 0 means 85 % of what is available. What cannot fit is
	// refused before the first round, or gets fewer workers.
	Memory int64

	// Settled ends RunFor when it returns true. It is asked after each batch of replications, when the files
	// are written.
	Settled func(*Outcome) (bool, error)

	grow bool // RunFor: cells of further replications are no fault, and stay in the journal
	last bool // the last call of RunFor, after which they go
}

// remark tells the caller something of the run.
func (o *Options) remark(text string) {
	if o.Note != nil {
		o.Note(text)
	}
}

// Run plays every cell of the experiment that the directory does not hold yet, and writes the
// files of the package comment. The bytes of results.csv depend on the spec, the program and the
// architecture only.
//
// When the context is done, or a cell fails, the finished cells are written and the error is
// ErrInterrupted or a *CellError; the outcome is valid then too. A cell of a policy that is a program fails alone: the
// others are played, and the error is a *LostError.
func Run(ctx context.Context, x *Experiment, o Options) (*Outcome, error) {
	defer x.Close()
	r := newRunner(x, o)
	if err := r.facts.play(); err != nil {
		return nil, err
	}
	if o.Dir != "" {
		release, err := r.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if err := r.recall(); err != nil {
		return nil, err
	}
	if out, err := r.unplayed(); out != nil || err != nil {
		return out, err
	}
	if _, err := r.publish(Interrupted); err != nil {
		return nil, err
	}
	r.playing = true
	runErr := r.playAll(ctx)
	status := Complete
	if r.table.done < r.part.want {
		status = Interrupted
	}
	out, err := r.publish(status)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Manifest: r.manifest, Results: out[ResultsFile], Also: out[DiagnosticsFile],
		Values: out[ValuesFile], Reused: r.reused, Played: r.table.done - r.reused, Rounds: r.player.rounds.Load(),
		UnderWay: r.underWay, x: x, cells: r.table.cells}, runErr
}

// unplayed returns the outcome of a directory in which nothing is to do or to tidy: its files are those of this run. It
// is nil for others.
func (r *runner) unplayed() (*Outcome, error) {
	if r.part.owner != nil || r.past.before == nil || r.reused < len(r.table.cells) || r.past.before.Status != Complete ||
		r.o.last && r.past.untidy {
		return nil, nil
	}
	csv, also := r.files()
	if !r.unchanged(ResultsFile, csv, r.past.before.ResultsSHA) ||
		also != nil && !r.unchanged(DiagnosticsFile, also, r.past.before.Diagnostics) {
		return nil, nil
	}
	out := &Outcome{Manifest: *r.past.before, Results: csv, Also: also, Reused: r.reused, x: r.x, cells: r.table.cells}
	var err error
	if r.past.before.Values != "" {
		out.Values, err = r.values()
	}
	return out, err
}

// enter opens the directory of the run, or of its part, and locks it. A part that is being played is not played twice.
func (r *runner) enter(ctx context.Context) (release func(), err error) {
	if err := openDir(r.part.base, r.o.Force); err != nil {
		return nil, err
	}
	command := cmp.Or(r.o.Manifest.Command, strings.Join(os.Args, " "))
	if r.part.owner == nil {
		_, err := ReadManifest(r.part.base)
		if parts, _ := PartDirs(r.part.base); len(parts) > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil, &DirError{Dir: r.part.base, Why: fmt.Sprintf("holds %s and no results: merge them first (Merge, "+
				"troupe merge --partial), then what is missing is played", plural(len(parts), "part"))}
		}
		return lock(ctx, r.part.base, command, r.remark)
	}
	if err := r.nameCells(); err != nil {
		return nil, err
	}
	if err := r.openPart(); err != nil {
		return nil, err
	}
	for range 5 { // a process that looks at the parts holds the lock for a moment
		if release, err = lock(ctx, r.o.Dir, command, nil); !errors.Is(err, errNoWait) {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, ErrInterrupted
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("%s is played already, by %s, in %s", r.o.Shard.Words(), whoRuns(r.o.Dir), r.o.Dir)
}
