package sim

import (
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"troupe/dataset"
	"troupe/rng"
)

// runner is one call of Run. Only the goroutine that called Run touches it, but for player, which workers share.
type runner struct {
	x        *Experiment
	o        Options
	facts    rehearsal
	clock    *runClock
	table    *cellTable
	part     *shardPart
	past     past
	states   *states
	player   *player
	programs []string     // environment × policy: what computes its cells
	program  string       // the same, one a line
	playing  bool         // the first look is over
	staged   func() error // called by publish when its files are written, before they get their names
	underWay int          // cells that were abandoned after their state was written
	journal  *journal
	manifest Manifest
	reused   int // cells that were there
}

// runClock is the time that a run has taken.
type runClock struct {
	started   time.Time
	processor time.Duration // of the process, then
}

// cellTable has the cells of an experiment, by Experiment.index.
type cellTable struct {
	x          *Experiment
	cells      []entry // not yet done where Regret is empty
	keys       []string
	stems      []string
	done       int
	finishedIn []int // cells done, by replication
	complete   int   // replications with every cell done
}

// past is what the directory held.
type past struct {
	old      *Manifest // nil for nothing
	before   *Manifest // the same, if it is of this experiment
	finished bool      // old is complete, and results.csv is what it says
	untidy   bool      // the journal has lines that are not of this run
}

// newRunner fills in the defaults of the options.
func newRunner(x *Experiment, o Options) *runner {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Data == nil {
		o.Data = new(dataset.Source)
	}
	r := &runner{x: x, o: o, clock: &runClock{time.Now(), ProcessorTime()}}
	r.facts = rehearsal{x: x, o: &r.o, data: dataFiles{o.Data, filepath.Dir(x.src.Name)}}
	r.table = &cellTable{x: x, cells: make([]entry, x.Cells()), finishedIn: make([]int, x.Replications)}
	r.part = &shardPart{o: &r.o, base: o.Dir, want: x.Cells()}
	r.states = &states{x: x, o: &r.o, facts: &r.facts, table: r.table, clock: r.clock, starts: make([]*entry, x.Cells()),
		sizes: make([]atomic.Int64, len(x.Environments)*len(x.Policies))}
	r.player = &player{x: x, facts: &r.facts, states: r.states, lost: make([]atomic.Int32, len(x.Policies))}
	if !o.Shard.Whole() {
		if o.Dir != "" {
			r.o.Dir = filepath.Join(o.Dir, ShardsDir, o.Shard.Dir())
		}
		r.divide()
	}
	return r
}

// remark tells the caller something of the run.
func (r *runner) remark(text string) { r.o.remark(text) }

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
