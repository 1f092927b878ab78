package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
	"troupe/shards"
	"troupe/spec"
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

// Outcome is what a run left behind.
type Outcome struct {
	Manifest Manifest
	Results  []byte // results.csv
	Also     []byte // diagnostics.csv, nil when the spec asks for nothing more
	Values   []byte // values.csv, nil where no agent with members plays DeepSea
	Reused   int    // cells that were in the directory already
	Played   int    // cells played now
	Rounds   int64  // rounds played now
	UnderWay int    // cells that were not finished; the directory has their state, and the same call goes on from it

	x     *Experiment
	cells []entry
}

// Final returns the regrets at the horizon of the finished replications of environment e and policy
// p, counted from 0 in the order of the experiment.
func (o *Outcome) Final(e, p int) []float64 {
	var out []float64
	for r := range o.x.Replications {
		if sums := o.cells[o.x.index(e, p, r)].Regret; len(sums) > 0 {
			out = append(out, sums[len(sums)-1])
		}
	}
	return out
}

// Curve returns the regrets of the finished replications of environment e and policy p at every
// checkpoint of the experiment: one slice for each replication.
func (o *Outcome) Curve(e, p int) [][]float64 {
	var out [][]float64
	for r := range o.x.Replications {
		if sums := o.cells[o.x.index(e, p, r)].Regret; len(sums) > 0 {
			out = append(out, slices.Clone(sums))
		}
	}
	return out
}

// Row is one line of results.csv: the sums of one replication over the rounds 1 to Round.
type Row struct {
	Environment, Policy string
	Replication, Round  int // from 1
	Regret, Reward      float64
}

// Rows yields the lines of results.csv in their order.
func (o *Outcome) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		x := o.x
		for i, c := range o.cells {
			e, p, r := i/x.Replications/len(x.Policies), i/x.Replications%len(x.Policies), i%x.Replications
			for k, sum := range c.Regret {
				if !yield(Row{x.Environments[e].Name, x.Policies[p].Name, r + 1, x.CheckpointsOf(e)[k], sum, c.Reward[k]}) {
					return
				}
			}
		}
	}
}

// Errors of Run.
var (
	// ErrInterrupted: the context was done before the last cell was. What is finished is written,
	// and the same call goes on from there.
	ErrInterrupted = errors.New("interrupted")
)

// CellError names the cell in which a run ended.
type CellError struct {
	Environment, Policy string
	Replication         int // from 1
	Err                 error
}

// Error says in one line what is wrong.
func (e *CellError) Error() string {
	return fmt.Sprintf("environment %q, policy %q, replication %d: %v", e.Environment, e.Policy, e.Replication, e.Err)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *CellError) Unwrap() error { return e.Err }

// LostError says which cells of policies that are programs failed. All other cells were played: of a policy no more
// cells are begun after its third failure.
type LostError struct{ Cells []*CellError }

// newLostError takes failures by the index of their cells: what it says does not depend on which one failed first.
func newLostError(lost map[int]*CellError) *LostError {
	e := &LostError{}
	for _, i := range slices.Sorted(maps.Keys(lost)) {
		e.Cells = append(e.Cells, lost[i])
	}
	return e
}

// Error has the first failure, and of which policies there are more.
func (e *LostError) Error() string {
	text := e.Cells[0].Error()
	if n := len(e.Cells); n > 1 {
		var names []string
		for _, c := range e.Cells {
			if !slices.Contains(names, c.Policy) {
				names = append(names, c.Policy)
			}
		}
		text += fmt.Sprintf("\n%d cells failed, of policy %s", n, strings.Join(names, ", "))
	}
	return text
}

// Unwrap returns the failures, for errors.Is and errors.As.
func (e *LostError) Unwrap() (all []error) {
	for _, c := range e.Cells {
		all = append(all, c)
	}
	return all
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
	if err := r.rehearse(); err != nil {
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
	if r.owner == nil && r.before != nil && r.reused == len(r.cells) && r.before.Status == Complete &&
		!(r.o.last && r.untidy) {
		csv, also := r.files()
		if r.unchanged(ResultsFile, csv, r.before.ResultsSHA) && (also == nil ||
			r.unchanged(DiagnosticsFile, also, r.before.Diagnostics)) {
			out := &Outcome{Manifest: *r.before, Results: csv, Also: also, Reused: r.reused, x: x, cells: r.cells}
			var err error
			if r.before.Values != "" {
				out.Values, err = r.values()
			}
			return out, err
		}
	}
	if _, err := r.publish(Interrupted); err != nil {
		return nil, err
	}
	r.playing = true
	runErr := r.playAll(ctx)
	status := Complete
	if r.done < r.want {
		status = Interrupted
	}
	out, err := r.publish(status)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Manifest: r.manifest, Results: out[ResultsFile], Also: out[DiagnosticsFile],
		Values: out[ValuesFile], Reused: r.reused, Played: r.done - r.reused, Rounds: r.rounds.Load(),
		UnderWay: r.underWay, x: x, cells: r.cells}, runErr
}

// enter opens the directory of the run, or of its part, and locks it. A part that is being played is not played twice.
func (r *runner) enter(ctx context.Context) (release func(), err error) {
	if err := openDir(r.base, r.o.Force); err != nil {
		return nil, err
	}
	command := cmp.Or(r.o.Manifest.Command, strings.Join(os.Args, " "))
	if r.owner == nil {
		_, err := ReadManifest(r.base)
		if parts, _ := PartDirs(r.base); len(parts) > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil, &DirError{Dir: r.base, Why: fmt.Sprintf("holds %s and no results: merge them first (Merge, troupe merge "+
				"--partial), then what is missing is played", plural(len(parts), "part"))}
		}
		return lock(ctx, r.base, command, r.remark)
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

// runner is the state of one call of Run. Only the goroutine that called Run touches it, but for
// rounds.
type runner struct {
	x                *Experiment
	o                Options
	base             string       // the directory that the caller named: o.Dir is that of a part inside it
	owner            []int32      // by Experiment.index: the part that has a cell; nil for the whole experiment
	want             int          // cells that are to be there in the end: all, or those of the part
	others           []string     // directories whose journals may have cells of the part
	borrowed         map[int]bool // cells of the part that they had
	paceRounds       int          // rounds that other parts, and this one before, have played
	paceSeconds      float64      // what they took, of one worker
	programs         []string     // environment × policy: what computes its cells
	playing          bool         // the first look is over
	staged           func() error // called by publish when its files are written, before they get their names
	data             dataFiles
	started          time.Time
	processor        time.Duration // of the process, then
	cells            []entry       // by Experiment.index; not yet done where Regret is empty
	keys             []string      // by Experiment.index
	stems            []string
	worlds           []worldFacts
	cellBytes        float64        // the largest that one worker needs for a cell, about
	cellPath, cellOf string         // its policy
	together         []bool         // environment × policy: replications can be one job
	shares           []bool         // environment: policies of a replication can be one job
	bytes            []float64      // environment × policy: about what a cell needs
	stuck            []string       // environment × policy: why its cells cannot go on from a state; "" where they can
	sizes            []atomic.Int64 // environment × policy: bytes of the last state, 0 where none was taken
	starts           []*entry       // by Experiment.index: what a cell goes on from, nil for round 1
	skipped          int64          // rounds that starts spare
	underWay         int            // cells that were abandoned after their state was written
	notes            []string
	rounding         []Pair
	old              *Manifest // what the directory held, nil for nothing
	before           *Manifest // the same, if it is of this experiment
	finished         bool      // old is complete, and results.csv is what it says
	untidy           bool      // the journal has lines that are not of this run
	program          string    // what computes the cells, one a line
	journal          *journal
	manifest         Manifest

	reused, done int
	finishedIn   []int          // cells done, by replication
	complete     int            // replications with every cell done
	rounds       atomic.Int64   // played in this session
	lost         []atomic.Int32 // policy: cells that failed, where it is a program
}

// worldFacts is what the rehearsal learned of an environment.
type worldFacts struct {
	dim, arms int
	file      DataFile // empty when it reads none
	largest   float64  // regret of a round, 0 for no bound
}

// index is the place of a cell in canonical order; e, p and r count from 0.
func (x *Experiment) index(e, p, r int) int {
	return (e*len(x.Policies)+p)*x.Replications + r
}

// Key returns the key of all random numbers of a replication, counted from 1.
func (x *Experiment) Key(replication int) rng.Key { return x.keyOf(x.Seed, replication) }

// KeyOf is Key in environment e, which may have a seed of its own.
func (x *Experiment) KeyOf(e, replication int) rng.Key { return x.keyOf(x.SeedOf(e), replication) }

func (x *Experiment) keyOf(seed uint64, replication int) rng.Key {
	key := rng.NewKey(seed)
	if x.Stream != "" {
		key = key.Child(x.Stream)
	}
	return key.At(uint64(replication))
}

// rehearse plays the first choice of every pair of environment and policy, so that a spec that
// cannot work is refused before hours of work, and collects what there is to remark.
func (r *runner) rehearse() error {
	x := r.x
	if x.Episodic() {
		return r.rehearseEpisodes()
	}
	recorded := make(map[string]bool)
	for e := range x.Environments {
		key := x.KeyOf(e, 1)
		world, offered, err := r.rehearseEnvironment(e, key)
		if err != nil {
			return err
		}
		for p := range x.Policies {
			if err = r.rehearsePolicy(e, p, world, offered, key, recorded); err != nil {
				break
			}
		}
		leave(world)
		if err != nil {
			return err
		}
	}
	for _, name := range x.Record {
		if !recorded[name] {
			return x.src.Locate(spec.Errorf("record", "%s", x.unmeasured(name)))
		}
	}
	for e, shares := range r.shares {
		if need := r.companyBytes(e); shares && need > r.cellBytes {
			r.cellBytes = need // of the policies that cellOf is one of
		}
	}
	return r.fits()
}

// rehearseEnvironment builds an environment, notes its facts, and returns it with what it offers in round 1.
func (r *runner) rehearseEnvironment(e int, key rng.Key) (world bandit.Environment, offered bandit.ActionSet,
	err error) {
	x := r.x
	c := &x.Environments[e]
	blame := func(path string, err error) (bandit.Environment, bandit.ActionSet, error) {
		return nil, nil, x.blame(path, fmt.Sprintf("environment %q", c.Name), err)
	}
	var facts worldFacts
	if facts.file.Path, facts.file.SHA256, err = r.data.fingerprint(c.Options); err != nil {
		return blame(c.path, err)
	}
	if world, err = c.Options.Build(key, r.data); err != nil {
		return blame(c.path, err)
	}
	if n, err := c.rounds(r.data); err != nil {
		return blame(c.path, err)
	} else if n > 0 && x.HorizonOf(e) > n {
		return blame("horizon", fmt.Errorf("the horizon is %d, and the file has %d decisions, which must not be "+
			"shown twice; leave the horizon out to take them all", x.HorizonOf(e), n))
	}
	if offered, err = world.Offer(key.Stream(rng.Offer).Round(1)); err != nil {
		return blame(c.path, err)
	}
	facts.dim = world.Dim()
	if b, ok := world.(env.Bounded); ok {
		facts.largest, _ = b.LargestRegret()
	}
	if x.Until == Settled && facts.largest == 0 {
		return blame("until", errors.New("it knows no largest regret of a round, without which no interval holds at "+
			"every moment; leave until out"))
	}
	set, _ := choices(offered)
	switch list := set.(type) {
	case bandit.Finite:
		facts.arms = list.Len()
	case bandit.Sparse:
		facts.arms = list.Len()
	}
	r.worlds = append(r.worlds, facts)
	r.shares = append(r.shares, r.shared(world))
	if n, ok := world.(env.Noted); ok {
		for _, text := range n.Notes() {
			r.note(fmt.Sprintf("environment %s: %s", c.Name, text))
		}
	}
	if c.Late != nil {
		if text := c.Late.remark(x.HorizonOf(e)); text != "" {
			r.note(fmt.Sprintf("environment %s: %s", c.Name, text))
		}
	}
	return world, offered, nil
}

// rehearsePolicy makes a policy, lets it choose from what an environment offers in round 1, and measures its memory. It
// sets the diagnostics in recorded that the pair has.
func (r *runner) rehearsePolicy(e, p int, world bandit.Environment, offered bandit.ActionSet, key rng.Key,
	recorded map[string]bool) error {
	x := r.x
	c, pc := &x.Environments[e], &x.Policies[p]
	set, _ := choices(offered)
	where := fmt.Sprintf("policy %q on environment %q", pc.Name, c.Name)
	if dim := world.Dim(); dim >= largeDim {
		if needs, limit := r.forecast(world, e, p, share(set), key), r.o.memory(); needs > limit {
			return x.blame(pc.path, where, tooLarge("it", dim, needs, limit))
		}
	}
	before := allocated()
	pol, err := pc.Options.New(r.problem(world, e, key))
	if err != nil {
		return x.blame(pc.path, where, err)
	}
	defer leave(pol)
	if w, ok := pol.(bandit.Warner); ok {
		for _, text := range w.Warnings(set) {
			r.note(fmt.Sprintf("policy %s on environment %s: %s", pc.Name, c.Name, text))
		}
	}
	if c, ok := pol.(bandit.Confined); ok && c.Confined(set) {
		r.rounding = append(r.rounding, Pair{x.Environments[e].Name, pc.Name})
	}
	var a bandit.Action
	if err := pol.Select(&a, set, key.Stream(rng.Select).Round(1)); err != nil {
		return x.blame(pc.path, where, err)
	}
	together := c.Late == nil && r.able(world, pol, key)
	r.together = append(r.together, together)
	r.stuck = append(r.stuck, r.resumable(e, world, pol))
	took := allocated() - before
	if notes := x.newDiary(world, offered, pol, deltaOf(pc.Table), x.HorizonOf(e)); notes != nil {
		for _, name := range x.Record {
			recorded[name] = recorded[name] || notes.has(name)
		}
	}
	took += learned(pol, a, key)
	r.bytes = append(r.bytes, took)
	r.measure(pc.path, where, took, together || r.byTurns(e, p))
	return nil
}

// blame puts the place of a table in front of an error that its content caused.
func (x *Experiment) blame(path, who string, err error) error {
	var fault *spec.Error
	if errors.As(err, &fault) { // its path is relative to the table
		path = spec.Join(path, fault.Path)
		if fault.Want == "" {
			return x.src.Locate(&spec.Error{Path: path, Msg: fault.Msg})
		}
	}
	line, column := x.src.At(path)
	return &spec.FileError{File: x.src.Name, Line: line, Column: column, Msg: who + ": " + err.Error()}
}

func (r *runner) note(text string) {
	r.notes = append(r.notes, text)
	r.remark(text)
}

func (r *runner) remark(text string) {
	if r.o.Note != nil {
		r.o.Note(text)
	}
}

// problem is what a policy may know before round 1.
func (r *runner) problem(world bandit.Environment, e int, key rng.Key) policy.Problem {
	p := policy.Problem{
		Dim:     r.worlds[e].dim,
		Arms:    r.worlds[e].arms,
		Horizon: r.x.HorizonOf(e),
		Init:    key.Stream(rng.Init),
	}
	if n, ok := world.(env.Noisy); ok {
		p.Sigma, _ = n.Sigma() // without a constant, a scale is better than nothing
	}
	return p
}
