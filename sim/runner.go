package sim

import (
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"troupe/dataset"
	"troupe/rng"
)

// runner is the state of one call of Run. Only the goroutine that called Run touches it, but for
// rounds.
type runner struct {
	x           *Experiment
	o           Options
	facts       rehearsal
	base        string       // the directory that the caller named: o.Dir is that of a part inside it
	owner       []int32      // by Experiment.index: the part that has a cell; nil for the whole experiment
	want        int          // cells that are to be there in the end: all, or those of the part
	others      []string     // directories whose journals may have cells of the part
	borrowed    map[int]bool // cells of the part that they had
	paceRounds  int          // rounds that other parts, and this one before, have played
	paceSeconds float64      // what they took, of one worker
	programs    []string     // environment × policy: what computes its cells
	playing     bool         // the first look is over
	staged      func() error // called by publish when its files are written, before they get their names
	started     time.Time
	processor   time.Duration // of the process, then
	cells       []entry       // by Experiment.index; not yet done where Regret is empty
	keys        []string      // by Experiment.index
	stems       []string
	sizes       []atomic.Int64 // environment × policy: bytes of the last state, 0 where none was taken
	starts      []*entry       // by Experiment.index: what a cell goes on from, nil for round 1
	skipped     int64          // rounds that starts spare
	underWay    int            // cells that were abandoned after their state was written
	old         *Manifest      // what the directory held, nil for nothing
	before      *Manifest      // the same, if it is of this experiment
	finished    bool           // old is complete, and results.csv is what it says
	untidy      bool           // the journal has lines that are not of this run
	program     string         // what computes the cells, one a line
	journal     *journal
	manifest    Manifest

	reused, done int
	finishedIn   []int          // cells done, by replication
	complete     int            // replications with every cell done
	rounds       atomic.Int64   // played in this session
	lost         []atomic.Int32 // policy: cells that failed, where it is a program
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
	r := &runner{x: x, base: o.Dir, want: x.Cells(), o: o,
		started: time.Now(), processor: ProcessorTime(),
		cells: make([]entry, x.Cells()), finishedIn: make([]int, x.Replications), starts: make([]*entry, x.Cells()),
		lost:  make([]atomic.Int32, len(x.Policies)),
		sizes: make([]atomic.Int64, len(x.Environments)*len(x.Policies))}
	r.facts = rehearsal{x: x, o: &r.o, data: dataFiles{o.Data, filepath.Dir(x.src.Name)}}
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
