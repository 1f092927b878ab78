package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"troupe/bandit"
	"troupe/env"
)

// A cell can go on from the state of its policy after round t, because all random numbers are functions of the
// round. That state is kept in two places:
//
//   - the journal has it in the line of a finished cell, for a run with a longer horizon, where it is worth its
//     time and its place on the disk (worth); where not, the cell is played from round 1 then;
//   - a cell under way is written to partDir every saveEvery, and when it is abandoned. Its file goes when the
//     cell is finished.
//
// Bytes are those of a play from round 1: only cells take part whose environment is built in (it offers round t
// without the rounds before it) and whose policy is a bandit.Snapshotter. With late feedback or record = [...]
// there is more state than that, and the cell is played from the start.

// partDir is the directory, inside that of the results, with one file for each cell under way.
const partDir = ".cells"

// saveEvery is how often a cell under way is written; a variable for tests.
var saveEvery = 5 * time.Second

// What the states in the journal may take. A state of 10 kB stands for 0.25 s of playing or more, unless there are so
// few cells that all of them fit in a megabyte.
const (
	stateRoom  = 16 << 20 // bytes in the journal, over all cells
	stateFloor = 1 << 20  // the same, where time does not matter
	stateRate  = 40_000   // bytes for each second of a cell
)

// stateShare is the largest share of its own time that the state of a cell may cost; a variable for tests.
var stateShare = 1. / 32

// worth reports whether a state is kept: bytes of a snapshot that is taken with work multiply-adds, of a cell that
// took seconds, one of so many.
func worth(bytes, work int, seconds float64, cells int) bool {
	line := float64(4 * ((bytes + 2) / 3)) // base64
	room := min(max(stateFloor/float64(cells), float64(seconds*stateRate)), stateRoom/float64(cells))
	cost := float64(1e-8*float64(bytes)) + float64(3e-10*float64(work)) // s, about
	return line <= room && cost <= float64(stateShare*seconds)
}

// resumable returns "" when cells of environment e and a policy like pol can go on from a state, and otherwise the
// reason why not.
func (x *Experiment) resumable(e int, world bandit.Environment, pol bandit.Policy) string {
	_, snaps := pol.(bandit.Snapshotter)
	_, logged := world.(bandit.Logged)
	_, reacts := world.(env.Reacting)
	switch {
	case outside(x.Environments[e].Options):
		return "its environment is not of troupe"
	case logged:
		return "its environment is a log"
	case reacts:
		return "its environment depends on the actions"
	case x.Environments[e].Late != nil:
		return "its feedback is late"
	case len(x.Record) > 0:
		return "the spec records more than regret and reward"
	case !snaps:
		return "it has no snapshots"
	}
	return ""
}

// states are what cells of an earlier call left off at, and what cells of this one leave. Workers share it.
type states struct {
	x       *Experiment
	o       *Options
	facts   *rehearsal
	table   *cellTable
	clock   *runClock
	sizes   []atomic.Int64 // environment × policy: bytes of the last state, 0 where none was taken
	starts  []*entry       // by Experiment.index: what a cell goes on from, nil for round 1
	skipped int64          // rounds that starts spare
}

// share returns which part of their time the workers were on a processor so far: what a cell took on a busy machine
// says less of its work. An answer above 1 is the collector's and the writer's.
func (c *runClock) share(workers int) float64 {
	wall := float64(workers) * time.Since(c.started).Seconds()
	if wall <= 0 {
		return 1
	}
	return min(1, (ProcessorTime()-c.processor).Seconds()/wall)
}

// state returns the snapshot of a policy after the last round of a finished cell, which took seconds; nil where it is
// not kept. A policy that does not know its costs is taken to need what a replication before it needed.
func (r *states) state(c cell, pol bandit.Policy, seconds float64) []byte {
	if !r.saves(c) {
		return nil
	}
	size, work := 0, 0
	if w, ok := pol.(bandit.Weighed); ok {
		size, work = w.SnapshotCost()
	}
	seen := &r.sizes[c.e*len(r.x.Policies)+c.p]
	if size == 0 {
		size = int(seen.Load())
	}
	seconds *= r.clock.share(r.o.Workers)
	if !worth(size, work, seconds, len(r.table.cells)) {
		return nil
	}
	b, err := pol.(bandit.Snapshotter).AppendSnapshot(nil)
	if err != nil {
		return nil
	}
	seen.Store(int64(len(b)))
	if !worth(len(b), 0, seconds, len(r.table.cells)) {
		return nil
	}
	return b
}

// saves reports whether a cell is written while it is under way.
func (r *states) saves(c cell) bool {
	return r.o.Dir != "" && r.facts.stuck[c.e*len(r.x.Policies)+c.p] == ""
}

// start returns what a cell goes on from; its At is 0 for a cell that is played from round 1.
func (r *states) start(c cell) *entry {
	if r.starts != nil {
		if s := r.starts[r.x.index(c.e, c.p, c.r)]; s != nil {
			return s
		}
	}
	return new(entry)
}

// restore gives a policy the state that a cell goes on from. A policy that refuses it is as it was.
func restore(pol bandit.Policy, start *entry) error {
	s, ok := pol.(bandit.Snapshotter)
	if !ok {
		return errors.New("the policy has no snapshots")
	}
	return s.Restore(start.State)
}

// save writes a cell under way after at rounds.
func (r *states) save(c cell, pol bandit.Policy, done entry, at int, regret, reward float64) error {
	b, err := pol.(bandit.Snapshotter).AppendSnapshot(nil)
	if err != nil {
		return err
	}
	done.Cell, done.T, done.At, done.Sums, done.State = r.table.keys[r.x.index(c.e, c.p, c.r)], r.x.HorizonOf(c.e), at,
		[2]float64{regret, reward}, b
	line, err := done.line()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.o.Dir, partDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, done.Cell), line)
}

// unsave removes what save wrote.
func (r *states) unsave(i int) error {
	err := os.Remove(filepath.Join(r.o.Dir, partDir, r.table.keys[i]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// findStarts looks for the states that open cells go on from: files of cells under way, and finished cells of a
// shorter horizon among those known. It remarks on policies that are played from round 1 although they were
// played before.
func (r *runner) findStarts(known map[string]entry) {
	x := r.x
	if r.facts.stuck == nil {
		return // nothing will be played
	}
	shorter := make(map[string][]entry)
	for _, c := range known {
		if c.Stem != "" && c.T < x.Horizon {
			shorter[c.Stem] = append(shorter[c.Stem], c)
		}
	}
	going := make(map[int]int) // cells by the round that they go on from
	halves := 0                // cells that were under way
	for e := range x.Environments {
		for p := range x.Policies {
			why := ""
			same := make(map[int]bool) // by horizon
			for rep := range x.Replications {
				i := x.index(e, p, rep)
				if !r.open(cell{e, p, rep}) {
					continue
				}
				if start := r.states.pending(i); start != nil && r.facts.stuck[e*len(x.Policies)+p] == "" {
					r.states.starts[i] = start
					r.states.skipped += int64(start.At)
					halves++
					continue
				}
				old := longest(shorter[r.table.stems[i]], x.HorizonOf(e))
				if old.T == 0 {
					continue
				}
				if _, asked := same[old.T]; !asked {
					same[old.T] = r.states.indifferent(e, p, old.T)
				}
				start := old.continued(x.CheckpointsOf(e))
				switch {
				case r.facts.stuck[e*len(x.Policies)+p] != "":
					why = r.facts.stuck[e*len(x.Policies)+p]
				case !same[old.T]:
					why = "it knows the horizon"
				case old.State == nil:
					why = "keeping its state would have cost more"
				case start == nil:
					why = "the checkpoints are others"
				default:
					r.states.starts[i] = start
					r.states.skipped += int64(start.At)
					going[start.At]++
				}
			}
			if why != "" {
				r.remark(fmt.Sprintf("policy %s on environment %s is played from round 1: %s", x.Policies[p].Name,
					x.Environments[e].Name, why))
			}
		}
	}
	if halves > 0 {
		r.remark(fmt.Sprintf("goes on from the state of %s under way: the rounds before it are not played again",
			plural(halves, "cell")))
	}
	for _, t := range slices.Sorted(maps.Keys(going)) {
		r.remark(fmt.Sprintf("%s played up to round %d before: only the rounds after it are played now",
			plural(going[t], "cell"), t))
	}
}

// longest returns the entry that was played furthest but not to the horizon; a zero one where there is none.
func longest(all []entry, horizon int) (best entry) {
	for _, c := range all {
		if c.T < horizon && c.T > best.T {
			best = c
		}
	}
	return best
}

// pending reads the file of a cell under way; nil where there is none that is whole.
func (r *states) pending(i int) *entry {
	b, err := os.ReadFile(filepath.Join(r.o.Dir, partDir, r.table.keys[i]))
	if err != nil {
		return nil
	}
	c, err := parseEntry(bytes.TrimSuffix(b, []byte("\n")))
	marks := sort.SearchInts(r.x.CheckpointsOf(r.table.envOf(i)), c.At+1)
	if err != nil || c.Cell != r.table.keys[i] || c.At < 1 || c.At >= r.x.HorizonOf(r.table.envOf(i)) || len(c.Regret) != marks ||
		len(c.Reward) != marks || c.State == nil {
		return nil
	}
	return &c
}

// continued returns the finished cell as the beginning of one with the given checkpoints; nil when it does not have
// the sums at all of them.
func (c entry) continued(checkpoints []int) *entry {
	had := c.Checkpoints
	if had == nil {
		had = Checkpoints(c.T)
	}
	if len(had) != len(c.Regret) || len(had) == 0 {
		return nil
	}
	start := &entry{At: c.T, State: c.State, Seconds: c.Seconds, Sums: [2]float64{c.Regret[len(had)-1],
		c.Reward[len(had)-1]}}
	for _, t := range checkpoints {
		if t > c.T {
			break
		}
		k, ok := slices.BinarySearch(had, t)
		if !ok {
			return nil
		}
		start.Regret, start.Reward = append(start.Regret, c.Regret[k]), append(start.Reward, c.Reward[k])
	}
	return start
}

// indifferent reports whether policy p is the same with another horizon: two that are built with one and with the
// other are equal in everything they hold.
func (r *states) indifferent(e, p, horizon int) bool {
	key := r.x.KeyOf(e, 1)
	world, err := r.x.Environments[e].Options.Build(key, r.facts.data)
	if err != nil {
		return false
	}
	defer leave(world)
	var both [2]bandit.Policy
	for i, T := range []int{horizon, r.x.HorizonOf(e)} {
		problem := r.facts.problem(world, e, key)
		problem.Horizon = T
		if both[i], err = r.x.Policies[p].Options.New(problem); err != nil {
			return false
		}
	}
	c := comparison{seen: make(map[[2]unsafe.Pointer]bool)}
	return c.equal(reflect.ValueOf(both[0]), reflect.ValueOf(both[1]), false)
}

// comparison compares two values in everything they hold, unexported fields included. Functions are equal when
// they are nil, or the same code in a type of troupe: what such a function captures is in other fields, or does
// not depend on the horizon. TestLongerHorizon holds every kind to that. A field with the tag `horizon:"-"` does
// not change what a policy does.
type comparison struct {
	seen map[[2]unsafe.Pointer]bool
}

func (c comparison) equal(a, b reflect.Value, ours bool) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		if a.IsNil() || b.IsNil() {
			return false
		}
		pair := [2]unsafe.Pointer{a.UnsafePointer(), b.UnsafePointer()}
		if c.seen[pair] {
			return true
		}
		c.seen[pair] = true
		return c.equal(a.Elem(), b.Elem(), ours)
	case reflect.Interface:
		return c.equal(a.Elem(), b.Elem(), ours)
	case reflect.Struct:
		t := a.Type()
		ours = ours && t.PkgPath() == "" || strings.HasPrefix(t.PkgPath(), troupeModule)
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("horizon") != "-" && !c.equal(a.Field(i), b.Field(i), ours) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return true
		}
		if a.Type().Elem().Kind() == reflect.Float64 {
			u, v := unsafe.Slice((*float64)(a.UnsafePointer()), a.Len()),
				unsafe.Slice((*float64)(b.UnsafePointer()), a.Len())
			return slices.EqualFunc(u, v, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
		}
		for i := range a.Len() {
			if !c.equal(a.Index(i), b.Index(i), ours) {
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range a.Len() {
			if !c.equal(a.Index(i), b.Index(i), ours) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); !v.IsValid() || !c.equal(a.MapIndex(k), v, ours) {
				return false
			}
		}
		return true
	case reflect.Func:
		return a.IsNil() && b.IsNil() || ours && a.Pointer() == b.Pointer()
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Chan, reflect.UnsafePointer:
		return a.Pointer() == b.Pointer()
	}
	return a.Equal(b)
}

// look is when a cell under way looks at the clock and at the world outside: after 1, 2, 4, … rounds, then every
// countEvery, as long as a look is due often enough in time.
type look struct {
	next, step, counted int
	last, saved         time.Time
	room                time.Duration // between two saves
}

func newLook(at int) look {
	now := time.Now()
	return look{next: at + 1, step: 1, counted: at, last: now, saved: now, room: saveEvery}
}

// due is asked when played rounds are over, played ≥ next. It returns the rounds since the last look, and whether it
// is time to save.
func (l *look) due(played int) (rounds int, save bool) {
	now := time.Now()
	switch took := now.Sub(l.last); {
	case took > time.Second:
		l.step = max(1, l.step/4)
	case took < 50*time.Millisecond:
		l.step = min(countEvery, 2*l.step)
	}
	rounds, save = played-l.counted, now.Sub(l.saved) >= l.room
	l.last, l.counted, l.next = now, played, played+l.step
	return rounds, save
}

// wrote notes a save: one that takes long is not repeated soon.
func (l *look) wrote(began time.Time) {
	l.saved = time.Now()
	l.room = max(saveEvery, 20*l.saved.Sub(began))
}
