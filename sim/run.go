package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// Options of a run. The zero value plays in memory, on all processors.
type Options struct {
	Dir     string // result directory; "" keeps everything in memory
	Workers int    // 0 means one for each processor
	Force   bool   // take over a directory that holds something else

	// Data loads data files; nil means that the spec names them all.
	Data *dataset.Source

	// Program names the code that plays. Cells that another program wrote are played again. ""
	// makes no difference between programs.
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
}

// Outcome is what a run left behind.
type Outcome struct {
	Manifest Manifest
	Results  []byte // results.csv
	Also     []byte // diagnostics.csv, nil when the spec asks for nothing more
	Reused   int    // cells that were in the directory already
	Played   int    // cells played now
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

func (e *CellError) Error() string {
	return fmt.Sprintf("environment %q, policy %q, replication %d: %v", e.Environment, e.Policy, e.Replication, e.Err)
}
func (e *CellError) Unwrap() error { return e.Err }

// Run plays every cell of the experiment that the directory does not hold yet, and writes the
// files of the package comment. The bytes of results.csv depend on the spec, the program and the
// architecture only.
//
// When the context is done, or a cell fails, the finished cells are written and the error is
// ErrInterrupted or a *CellError; the outcome is valid then too.
func Run(ctx context.Context, x *Experiment, o Options) (*Outcome, error) {
	started := time.Now()
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Data == nil {
		o.Data = new(dataset.Source)
	}
	r := &runner{x: x, data: dataFiles{o.Data, filepath.Dir(x.src.Name)}, o: o, started: started, cells: make([]entry, x.Cells()), finishedIn: make([]int, x.Replications)}
	if o.Dir != "" {
		if err := claim(o.Dir, x, o.Force); err != nil {
			return nil, err
		}
	}
	if err := r.rehearse(); err != nil {
		return nil, err
	}
	if err := r.recall(); err != nil {
		return nil, err
	}
	if r.before != nil && r.reused == len(r.cells) && r.before.Status == Complete {
		csv, also := r.files()
		if r.unchanged(ResultsFile, csv, r.before.ResultsSHA) && (also == nil || r.unchanged(DiagnosticsFile, also, r.before.Diagnostics)) {
			return &Outcome{Manifest: *r.before, Results: csv, Also: also, Reused: r.reused}, nil
		}
	}
	if _, err := r.publish(Interrupted); err != nil {
		return nil, err
	}
	runErr := r.playAll(ctx)
	status := Complete
	if r.done < len(r.cells) {
		status = Interrupted
	}
	out, err := r.publish(status)
	if err != nil {
		return nil, errors.Join(runErr, err)
	}
	return &Outcome{Manifest: r.manifest, Results: out[ResultsFile], Also: out[DiagnosticsFile], Reused: r.reused, Played: r.done - r.reused}, runErr
}

// runner is the state of one call of Run. Only the goroutine that called Run touches it, but for
// rounds.
type runner struct {
	x        *Experiment
	o        Options
	data     dataFiles
	started  time.Time
	cells    []entry // by Experiment.index; not yet done where Regret is empty
	keys     []string
	worlds   []worldFacts
	abreast  []bool // environment × policy: replications can be played in lock-step
	notes    []string
	before   *Manifest // what the directory held: results of this experiment
	foreign  bool      // the journal has lines that are not ours
	journal  *journal
	manifest Manifest

	reused, done int
	finishedIn   []int        // cells done, by replication
	complete     int          // replications with every cell done
	rounds       atomic.Int64 // played in this session
}

// worldFacts is what the rehearsal learned of an environment.
type worldFacts struct {
	dim, arms int
	file      DataFile // empty when it reads none
}

// index is the place of a cell in canonical order; e, p and r count from 0.
func (x *Experiment) index(e, p, r int) int {
	return (e*len(x.Policies)+p)*x.Replications + r
}

// Key returns the key of all random numbers of a replication, counted from 1.
func (x *Experiment) Key(replication int) rng.Key {
	return rng.NewKey(x.Seed).At(uint64(replication))
}

// rehearse plays the first choice of every pair of environment and policy, so that a spec that
// cannot work is refused before hours of work, and collects what there is to remark.
func (r *runner) rehearse() error {
	x := r.x
	key := x.Key(1)
	recorded := make(map[string]bool)
	for e := range x.Environments {
		c := &x.Environments[e]
		var facts worldFacts
		var err error
		if facts.file.Path, facts.file.SHA256, err = r.data.fingerprint(c.Options); err != nil {
			return x.blame(c.path, fmt.Sprintf("environment %q", c.Name), err)
		}
		world, err := c.Options.Build(key, r.data)
		if err != nil {
			return x.blame(c.path, fmt.Sprintf("environment %q", c.Name), err)
		}
		set, err := world.Offer(key.Stream(rng.Offer).Round(1))
		if err != nil {
			return x.blame(c.path, fmt.Sprintf("environment %q", c.Name), err)
		}
		facts.dim = world.Dim()
		if finite, ok := set.(bandit.Finite); ok {
			facts.arms = finite.Len()
		}
		r.worlds = append(r.worlds, facts)
		if n, ok := world.(env.Noted); ok {
			for _, text := range n.Notes() {
				r.note(fmt.Sprintf("environment %s: %s", c.Name, text))
			}
		}
		for p := range x.Policies {
			pc := &x.Policies[p]
			where := fmt.Sprintf("policy %q on environment %q", pc.Name, c.Name)
			pol, err := pc.Options.New(r.problem(world, e, key))
			if err != nil {
				return x.blame(pc.path, where, err)
			}
			if w, ok := pol.(bandit.Warner); ok {
				for _, text := range w.Warnings(set) {
					r.note(fmt.Sprintf("policy %s on environment %s: %s", pc.Name, c.Name, text))
				}
			}
			var a bandit.Action
			if err := pol.Select(&a, set, key.Stream(rng.Select).Round(1)); err != nil {
				return x.blame(pc.path, where, err)
			}
			w, _ := side([]bandit.Environment{world}, []bandit.Policy{pol}, []rng.Key{key})
			r.abreast = append(r.abreast, w != nil && len(x.Record) == 0)
			if notes := newDiary(x.Record, world, set, pol, deltaOf(pc.Table)); notes != nil {
				for _, name := range x.Record {
					recorded[name] = recorded[name] || notes.has(name)
				}
			}
		}
	}
	for _, name := range x.Record {
		if !recorded[name] {
			return x.src.Locate(spec.Errorf("record", "%s", nobody(name)))
		}
	}
	return nil
}

// blame puts the place of a table in front of an error that its content caused.
func (x *Experiment) blame(path, who string, err error) error {
	var fault *spec.Error
	if errors.As(err, &fault) { // its path is relative to the table
		return x.src.Locate(&spec.Error{Path: spec.Join(path, fault.Path), Msg: fault.Msg})
	}
	// "lambda is -5, expected …": an error that begins with a key of the table is about that key.
	key, _, _ := strings.Cut(err.Error(), " ")
	line, column := x.src.At(spec.Join(path, key))
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
		Horizon: r.x.Horizon,
		Init:    key.Stream(rng.Init),
	}
	if n, ok := world.(env.Noisy); ok {
		p.Sigma, _ = n.Sigma() // without a constant, a scale is better than nothing
	}
	return p
}

// recall computes the keys of the cells and takes from the journal those that are there.
func (r *runner) recall() error {
	x := r.x
	r.keys = make([]string, len(r.cells))
	for e := range x.Environments {
		for p := range x.Policies {
			if err := x.cellKeys(r.keys[x.index(e, p, 0):][:x.Replications], e, p, r.o.Program, r.worlds[e].file.SHA256); err != nil {
				return err
			}
		}
	}
	if r.o.Dir == "" {
		return nil
	}
	if m, err := ReadManifest(r.o.Dir); err == nil && m.Identity == x.Identity() {
		r.before = m
	}
	name := filepath.Join(r.o.Dir, JournalFile)
	known, remarks, err := readJournal(name)
	if err != nil {
		return err
	}
	for _, text := range remarks {
		r.remark(text)
	}
	for i, key := range r.keys {
		if c, ok := known[key]; ok && c.whole(len(x.Checkpoints)) {
			r.set(i, c)
			r.reused++
		}
	}
	r.foreign = len(known) > r.reused || len(remarks) > 0
	if r.before != nil && r.before.Program != r.o.Program && r.before.Done > 0 && r.reused == 0 {
		r.remark(fmt.Sprintf("the results in %s come from another build of troupe; every cell is played again", r.o.Dir))
	}
	return nil
}

// files prints the cells that are done; also is nil when the spec asks for nothing but results.
func (r *runner) files() (results, also []byte) {
	results = resultsCSV(r.x, r.cells)
	if len(r.x.Record) > 0 {
		also = diagnosticsCSV(r.x, r.cells)
	}
	return results, also
}

// unchanged reports whether a file of the directory has the bytes and the hash it should have.
func (r *runner) unchanged(name string, want []byte, sum string) bool {
	data, err := os.ReadFile(filepath.Join(r.o.Dir, name))
	return err == nil && hash(want) == sum && hash(data) == sum
}

// cellKeys stores the keys of the replications of an environment and a policy. A key is a hash of everything
// the numbers of a cell depend on: the two tables without their names, the bytes of the data file, seed,
// replication, horizon, checkpoints, and the program.
func (x *Experiment) cellKeys(keys []string, e, p int, program, data string) error {
	type table struct {
		Kind  string
		Table spec.Raw
		Data  string `json:",omitempty"`
	}
	world, pol := &x.Environments[e], &x.Policies[p]
	head, err := json.Marshal(struct {
		Format      int
		Program     string
		Environment table
		Policy      table
		Seed        uint64
	}{1, program, table{world.Kind, world.Table, data}, table{pol.Kind, pol.Table, ""}, x.Seed})
	if err != nil {
		return err
	}
	tail, err := json.Marshal(struct {
		Checkpoints []int // the last is the horizon
		Horizon     int
		Record      []string `json:",omitempty"`
	}{x.Checkpoints, x.Horizon, x.Record})
	if err != nil {
		return err
	}
	// One object, its field Replication between the others.
	head = append(head[:len(head)-1], `,"Replication":`...)
	tail[0] = ','
	for r := range keys {
		keys[r] = hash(append(strconv.AppendInt(head, int64(r+1), 10), tail...))[:32]
	}
	return nil
}

// Identity is a hash of what the spec asks for, the number of replications aside: a directory of
// results can be extended by more replications of the same experiment and by nothing else. The
// hypothesis is part of it: results cannot be continued under another one.
func (x *Experiment) Identity() string {
	type named struct {
		Name, Kind string
		Table      spec.Raw
	}
	var tables [2][]named
	for _, c := range x.Environments {
		tables[0] = append(tables[0], named{c.Name, c.Kind, c.Table})
	}
	for _, c := range x.Policies {
		tables[1] = append(tables[1], named{c.Name, c.Kind, c.Table})
	}
	b, err := json.Marshal(struct {
		Seed        uint64
		Horizon     int
		Checkpoints []int
		Tables      [2][]named
		Hypothesis  string   `json:",omitempty"`
		Record      []string `json:",omitempty"`
	}{x.Seed, x.Horizon, x.Checkpoints, tables, x.Hypothesis, x.Record})
	if err != nil {
		panic("sim: a decoded spec does not encode: " + err.Error())
	}
	return hash(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// cell numbers one environment × policy × replication from 0.
type cell struct{ e, p, r int }

// finished is what a worker hands over.
type finished struct {
	cell
	entry entry
	err   error
}

// errAbandoned ends a cell that was under way when the grace was over.
var errAbandoned = errors.New("abandoned")

// jobs cuts the cells that are not done into what a worker takes at once: one cell, or cells of one
// environment and policy that can be played in lock-step, as many as lanes as long as every worker has
// something to do. Replications come first, then environments, then policies: so complete replications,
// which a leader board may use, come early.
func (r *runner) jobs() [][]cell {
	x := r.x
	open := len(r.cells) - r.done
	var jobs [][]cell
	for e := range x.Environments {
		for p := range x.Policies {
			width := 1
			if r.abreast[e*len(x.Policies)+p] {
				width = min(rng.Eight, (open+r.o.Workers-1)/r.o.Workers)
			}
			var job []cell
			for rep := range x.Replications {
				if len(r.cells[x.index(e, p, rep)].Regret) > 0 {
					continue
				}
				if job = append(job, cell{e, p, rep}); len(job) == width {
					jobs, job = append(jobs, job), nil
				}
			}
			if job != nil {
				jobs = append(jobs, job)
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b []cell) int { return a[0].r - b[0].r })
	// The last turn may have fewer jobs than workers: then their cells are handed out one by one, when that
	// is not longer than an octet.
	last := jobs[len(jobs)-len(jobs)%r.o.Workers:]
	cells := 0
	for _, job := range last {
		cells += len(job)
	}
	if cells > len(last) && cells <= octetWorth*r.o.Workers {
		single := jobs[:len(jobs)-len(last)]
		for _, c := range slices.Concat(last...) {
			single = append(single, []cell{c})
		}
		jobs = single
	}
	return jobs
}

// octetWorth is the number of cells that a worker plays one by one in less than the time of an octet, which is
// that of 2.8 at d = 10 with AVX-512 and more at other sizes and levels.
const octetWorth = 2

// playAll plays the cells that are not done.
func (r *runner) playAll(ctx context.Context) error {
	x := r.x
	todo := r.jobs()
	r.report()
	if len(todo) == 0 {
		return nil
	}
	if r.o.Dir != "" {
		j, err := openJournal(filepath.Join(r.o.Dir, JournalFile))
		if err != nil {
			return err
		}
		r.journal = j
		defer j.close()
	}

	soft, stop := context.WithCancel(ctx)
	defer stop()
	hard, abandon := context.WithCancel(context.Background())
	defer abandon()
	context.AfterFunc(soft, func() { time.AfterFunc(r.o.Grace, abandon) })

	out := make(chan finished)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.o.Workers, len(todo)) {
		workers.Go(func() {
			for soft.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(todo) {
					return
				}
				if done := r.playTogether(hard, todo[n]); done != nil {
					for _, f := range done {
						out <- f
					}
					continue
				}
				for _, c := range todo[n] {
					if soft.Err() != nil {
						return
					}
					f := finished{cell: c}
					if f.entry, f.err = r.play(hard, c); f.err != nil {
						stop() // nobody begins another cell
					}
					out <- f
				}
			}
		})
	}
	go func() { workers.Wait(); close(out) }()

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var failed error
	for {
		select {
		case <-tick.C:
			r.report()
		case f, open := <-out:
			if !open {
				if failed == nil && r.done < len(r.cells) {
					failed = ErrInterrupted
				}
				return failed
			}
			err := f.err
			if err == nil {
				err = r.keep(f)
			} else if !errors.Is(err, errAbandoned) {
				err = &CellError{x.Environments[f.e].Name, x.Policies[f.p].Name, f.r + 1, err}
			} else {
				err = nil
			}
			if err != nil && failed == nil {
				failed = err
				stop()    // keep may have failed
				abandon() // an error is the same error after the others have finished
			}
			r.report()
		}
	}
}

// keep records a finished cell.
func (r *runner) keep(f finished) error {
	i := r.x.index(f.e, f.p, f.r)
	f.entry.Cell = r.keys[i]
	r.set(i, f.entry)
	if r.journal == nil {
		return nil
	}
	return r.journal.append(f.entry)
}

func (r *runner) set(i int, c entry) {
	r.cells[i] = c
	r.done++
	rep := i % r.x.Replications
	r.finishedIn[rep]++
	if r.finishedIn[rep] == len(r.cells)/r.x.Replications {
		r.complete++
	}
}

// build makes the environment and the policy of a cell.
func (r *runner) build(c cell) (bandit.Environment, bandit.Policy, rng.Key, error) {
	key := r.x.Key(c.r + 1)
	world, err := r.x.Environments[c.e].Options.Build(key, r.data)
	if err != nil {
		return nil, nil, key, err
	}
	pol, err := r.x.Policies[c.p].Options.New(r.problem(world, c.e, key))
	return world, pol, key, err
}

// side puts cells side by side; nil where that is not possible.
func side(worlds []bandit.Environment, policies []bandit.Policy, keys []rng.Key) (*env.Octet, *policy.Octet) {
	w := env.NewOctet(worlds, keys)
	if w == nil {
		return nil, nil
	}
	p := policy.NewOctet(policies, w.Sets(), keys)
	if p == nil {
		return nil, nil
	}
	return w, p
}

// playTogether plays cells of one environment and one policy in lock-step. It returns nil when they must
// be played one by one: because they cannot be put side by side, or because one of them fails. It runs on
// a worker and only reads the runner.
func (r *runner) playTogether(hard context.Context, cells []cell) []finished {
	if len(cells) < 2 {
		return nil
	}
	x, lanes := r.x, int64(len(cells))
	started := time.Now()
	var worlds []bandit.Environment
	var policies []bandit.Policy
	var keys []rng.Key
	for _, c := range cells {
		world, pol, key, err := r.build(c)
		if err != nil {
			return nil
		}
		worlds, policies, keys = append(worlds, world), append(policies, pol), append(keys, key)
	}
	w, p := side(worlds, policies, keys)
	if w == nil {
		return nil
	}
	done := make([]finished, len(cells))
	for i, c := range cells {
		done[i] = finished{cell: c, entry: entry{
			Regret: make([]float64, 0, len(x.Checkpoints)),
			Reward: make([]float64, 0, len(x.Checkpoints)),
		}}
	}
	var regrets, rewards [rng.Eight]float64
	next, counted := 0, int64(0)
	ok, err := PlayOctet(w, p, x.Horizon, func(t int, regret, reward *[rng.Eight]float64) error {
		for l := range regrets {
			regrets[l] += regret[l]
			rewards[l] += reward[l]
		}
		if t == x.Checkpoints[next] {
			next++
			for i := range done {
				if !finite(regrets[i]) || !finite(rewards[i]) {
					return bandit.ErrNotFinite
				}
				done[i].entry.Regret = append(done[i].entry.Regret, regrets[i])
				done[i].entry.Reward = append(done[i].entry.Reward, rewards[i])
			}
		}
		if t%countEvery == 0 {
			counted += countEvery * lanes
			r.rounds.Add(countEvery * lanes)
			select {
			case <-hard.Done():
				return errAbandoned
			default:
			}
		}
		return nil
	})
	switch {
	case err == errAbandoned:
		for i := range done {
			done[i].err = err
		}
	case !ok || err != nil:
		r.rounds.Add(-counted)
		return nil
	default:
		r.rounds.Add(int64(x.Horizon%countEvery) * lanes)
		share := time.Since(started).Seconds() / float64(lanes)
		for i := range done {
			done[i].entry.Seconds = share
		}
	}
	return done
}

// play plays one cell. It runs on a worker and only reads the runner.
func (r *runner) play(hard context.Context, c cell) (entry, error) {
	x := r.x
	started := time.Now()
	world, pol, key, err := r.build(c)
	if err != nil {
		return entry{}, err
	}
	var notes *diary
	if len(x.Record) > 0 {
		set, err := world.Offer(key.Stream(rng.Offer).Round(1)) // asked again, it gives the same set
		if err != nil {
			return entry{}, err
		}
		if notes = newDiary(x.Record, world, set, pol, deltaOf(x.Policies[c.p].Table)); notes != nil {
			pol = notes.who
		}
	}
	w := &recorder{
		at:     x.Checkpoints,
		diary:  notes,
		stop:   hard.Done(),
		rounds: &r.rounds,
		entry: entry{
			Regret: make([]float64, 0, len(x.Checkpoints)),
			Reward: make([]float64, 0, len(x.Checkpoints)),
		},
	}
	if err := Play(world, pol, key, x.Horizon, w); err != nil {
		return entry{}, err
	}
	r.rounds.Add(int64(x.Horizon % countEvery))
	w.entry.Seconds = time.Since(started).Seconds()
	if notes != nil {
		w.entry.Also = notes.values
	}
	return w.entry, nil
}

// recorder sums regret and reward and keeps the sums at the checkpoints.
type recorder struct {
	at             []int
	regret, reward float64
	entry          entry
	diary          *diary // nil when nothing more is asked for
	stop           <-chan struct{}
	rounds         *atomic.Int64
}

// countEvery is the number of rounds between two looks at the clock outside.
const countEvery = 256

func (w *recorder) Round(t int, regret, reward float64) error {
	w.regret += regret
	w.reward += reward
	mark := t == w.at[len(w.entry.Regret)]
	if w.diary != nil {
		if err := w.diary.round(t, regret, mark); err != nil {
			return err
		}
	}
	if mark {
		if !finite(w.regret) || !finite(w.reward) {
			return fmt.Errorf("the sum of the rewards is %v, that of the regrets %v: %w", w.reward, w.regret, bandit.ErrNotFinite)
		}
		w.entry.Regret = append(w.entry.Regret, w.regret)
		w.entry.Reward = append(w.entry.Reward, w.reward)
	}
	if t%countEvery == 0 {
		w.rounds.Add(countEvery)
		select {
		case <-w.stop:
			return errAbandoned
		default:
		}
	}
	return nil
}

// publish writes results.csv, diagnostics.csv where it is asked for, and manifest.json for the cells
// that are done, and returns the bytes of the first two by name.
func (r *runner) publish(status string) (map[string][]byte, error) {
	x := r.x
	csv, also := r.files()
	out := map[string][]byte{ResultsFile: csv}
	m := r.o.Manifest
	m.Go, m.OS, m.Arch, m.CPUs = runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()
	m.Program = r.o.Program
	m.Experiment, m.Spec, m.SpecSHA256, m.Identity = x.Name, x.Text, hash([]byte(x.Text)), x.Identity()
	m.Hypothesis = x.Hypothesis
	m.Seed, m.Horizon, m.Replications, m.Workers = x.Seed, x.Horizon, x.Replications, r.o.Workers
	m.Started = r.started.UTC().Format(time.RFC3339)
	m.Seconds = time.Since(r.started).Seconds()
	if r.before != nil && r.reused > 0 {
		m.Started = r.before.Started
		m.Seconds += r.before.Seconds
	}
	m.Status, m.Cells, m.Done = status, len(r.cells), r.done
	m.ResultsSHA = hash(csv)
	m.Record, m.Reference, m.Diagnostics = x.Record, x.Reference, ""
	if also != nil {
		out[DiagnosticsFile], m.Diagnostics = also, hash(also)
	}
	m.Environments, m.Policies = nil, nil
	for e, c := range x.Environments {
		m.Environments = append(m.Environments, Environment{c.Name, c.Kind, c.Table, c.Swept, r.worlds[e].dim, r.worlds[e].file})
	}
	for p, c := range x.Policies {
		mp := Policy{Name: c.Name, Kind: c.Kind, Options: c.Table, Swept: c.Swept}
		for e := range x.Environments {
			for rep := range x.Replications {
				if done := r.cells[x.index(e, p, rep)]; len(done.Regret) > 0 {
					mp.Rounds += x.Horizon
					mp.Seconds += done.Seconds
				}
			}
		}
		m.Policies = append(m.Policies, mp)
	}
	m.Notes = slices.Clone(r.notes)
	r.manifest = m
	if r.o.Dir == "" {
		return out, nil
	}
	for name, data := range out {
		if err := writeFile(filepath.Join(r.o.Dir, name), data); err != nil {
			return nil, err
		}
	}
	if status == Complete && r.foreign {
		if err := r.tidy(); err != nil {
			return nil, err
		}
	}
	return out, writeManifest(r.o.Dir, &m)
}

// tidy rewrites the journal of a complete run without the lines that are not its own.
func (r *runner) tidy() error {
	var b []byte
	for _, c := range r.cells {
		line, err := c.line()
		if err != nil {
			return err
		}
		b = append(b, line...)
	}
	return writeFile(filepath.Join(r.o.Dir, JournalFile), b)
}

// Progress is a look at a run under way.
type Progress struct {
	Cells, Done, Reused int
	Rounds, AllRounds   int64   // of this session: played, to play
	Seconds             float64 // since the start of this session
	Replications        int     // that every policy has finished in every environment

	r *runner
}

func (r *runner) report() {
	if r.o.Progress == nil {
		return
	}
	p := Progress{
		Cells: len(r.cells), Done: r.done, Reused: r.reused,
		Rounds:       r.rounds.Load(),
		AllRounds:    int64(len(r.cells)-r.reused) * int64(r.x.Horizon),
		Seconds:      time.Since(r.started).Seconds(),
		Replications: r.complete,
		r:            r,
	}
	r.o.Progress(p)
}

// Standing is one line of a leader board.
type Standing struct {
	Environment, Policy string
	Mean, SE            float64 // regret at the horizon; SE is 0 for a single replication
	Behind              float64 // share of replications in which it lost to the first of its environment
}

// Board ranks the policies of each environment by mean regret at the horizon, on the replications
// that every policy has finished: otherwise the order of scheduling would look like a ranking. It
// may be called only inside the Progress callback.
func (p Progress) Board() []Standing {
	x := p.r.x
	if p.r.complete == 0 {
		return nil
	}
	var reps []int
	for rep, n := range p.r.finishedIn {
		if n == len(x.Environments)*len(x.Policies) {
			reps = append(reps, rep)
		}
	}
	var board []Standing
	for e := range x.Environments {
		from := len(board)
		final := make(map[string][]float64)
		for q := range x.Policies {
			s := Standing{Environment: x.Environments[e].Name, Policy: x.Policies[q].Name}
			v := make([]float64, len(reps))
			for i, rep := range reps {
				c := p.r.cells[x.index(e, q, rep)]
				v[i] = c.Regret[len(c.Regret)-1]
			}
			s.Mean, s.SE = meanSE(v)
			final[s.Policy] = v
			board = append(board, s)
		}
		here := board[from:]
		slices.SortStableFunc(here, func(a, b Standing) int {
			switch {
			case a.Mean < b.Mean:
				return -1
			case a.Mean > b.Mean:
				return 1
			}
			return 0
		})
		best := final[here[0].Policy]
		for i := range here {
			for k, v := range final[here[i].Policy] {
				if v > best[k] {
					here[i].Behind += 1 / float64(len(reps))
				}
			}
		}
	}
	return board
}

func meanSE(v []float64) (mean, se float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if n < 2 {
		return mean, 0
	}
	var q float64
	for _, x := range v {
		q += float64((x - mean) * (x - mean))
	}
	return mean, math.Sqrt(q / (n - 1) / n)
}
