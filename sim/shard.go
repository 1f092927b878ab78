package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"troupe/env"
	"troupe/shards"
)

// ShardsDir is the directory, inside that of the results, with one directory for each part that was played by itself.
// A part has a journal and a manifest of its own, and writes nowhere else.
const ShardsDir = "shards"

// ShardRow is what the manifest of a part says of it.
type ShardRow struct {
	Part  int `json:"part"` // from 1
	Of    int `json:"of"`
	Cells int `json:"cells"` // that the part has
	Kept  int `json:"kept"`  // of them in its journal
	// Digest is a hash of the numbers of the cells that are kept, written when the part ends by itself or by a signal.
	Digest string `json:"digest,omitempty"`
	// Programs has for each pair of environment and policy the line of Program, from 0; absent where there is one line.
	Programs []int `json:"programs,omitempty"`
}

// part returns the part that the row is of.
func (s *ShardRow) part() shards.Part { return shards.Part{Index: s.Part, Of: s.Of} }

// PartDirs lists the directories of parts inside a result directory, by their number of parts and their index.
func PartDirs(dir string) (names []string, err error) {
	files, err := os.ReadDir(filepath.Join(dir, ShardsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var parts []shards.Part
	for _, f := range files {
		if p, ok := shards.FromDir(f.Name()); ok && f.IsDir() {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b shards.Part) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Index, b.Index))
	})
	for _, p := range parts {
		names = append(names, filepath.Join(dir, ShardsDir, p.Dir()))
	}
	return names, err
}

// shardPart is the part of an experiment that a call of Run plays: all of it, without shards.
type shardPart struct {
	o           *Options
	base        string       // the directory that the caller named: o.Dir is that of a part inside it
	owner       []int32      // by Experiment.index: the part that has a cell; nil for the whole experiment
	want        int          // cells that are to be there in the end: all, or those of the part
	others      []string     // directories whose journals may have cells of the part
	borrowed    map[int]bool // cells of the part that they had
	paceRounds  int          // rounds that other parts, and this one before, have played
	paceSeconds float64      // what they took, of one worker
}

// has reports whether a cell is one of this run: every one, or those of the part.
func (p *shardPart) has(i int) bool { return p.owner == nil || p.owner[i] == int32(p.o.Shard.Index) }

// divide finds the cells of the part.
func (r *runner) divide() {
	x, part := r.x, r.o.Shard
	r.part.owner = shards.Layout(len(x.Environments), len(x.Policies), x.Replications, part.Of)
	r.part.want = 0
	for i := range r.part.owner {
		if r.part.has(i) {
			r.part.want++
		}
	}
}

// openPart makes the directory of the part, after a look at those of the others: they must be of the same experiment.
func (r *runner) openPart() error {
	dirs, err := PartDirs(r.part.base)
	if err != nil {
		return err
	}
	for _, dir := range append([]string{r.part.base}, dirs...) {
		m, err := ReadManifest(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &DirError{Dir: dir, Why: "holds a manifest.json that cannot be read: " + err.Error()}
		}
		if dir != r.o.Dir && m.Identity != r.x.Identity() && !r.o.Force {
			return &DirError{Dir: dir, Why: "holds cells of another experiment" + r.difference(m)}
		}
		for _, p := range m.Policies {
			r.part.paceRounds += p.Rounds
			r.part.paceSeconds += p.Seconds
		}
		if m.Shard == nil || m.Shard.Of != r.o.Shard.Of || m.Replications != r.x.Replications {
			r.part.others = append(r.part.others, dir)
		}
	}
	if err := os.MkdirAll(filepath.Join(r.part.base, ShardsDir), 0o755); err != nil {
		return &DirError{r.part.base, "cannot have a directory for parts: " + err.Error(), true}
	}
	return openDir(r.o.Dir, r.o.Force)
}

// borrow takes cells of the part from the journals of another division, and of the whole run: they need not be played
// again.
func (r *runner) borrow() error {
	r.part.borrowed = make(map[int]bool)
	for _, dir := range r.part.others {
		if dir == r.o.Dir {
			continue
		}
		known, _, err := readJournal(filepath.Join(dir, JournalFile))
		if err != nil {
			return err
		}
		for i, key := range r.table.keys {
			c, ok := known[key]
			if !ok || !r.part.has(i) || len(r.table.cells[i].Regret) > 0 || !c.complete(r.table.marks(i)) {
				continue
			}
			c.State = nil
			r.table.set(i, c)
			r.reused++
			r.part.borrowed[i] = true
		}
	}
	return nil
}

// row describes the part in its manifest.
func (r *runner) row(ended bool) *ShardRow {
	s := &ShardRow{Part: r.o.Shard.Index, Of: r.o.Shard.Of, Cells: r.part.want}
	var sums []string
	for i, c := range r.table.cells {
		if len(c.Regret) == 0 || r.part.borrowed[i] {
			continue
		}
		s.Kept++
		if ended {
			sums = append(sums, r.table.keys[i]+c.digest())
		}
	}
	if ended {
		s.Digest = digestOf(sums)
	}
	if lines := strings.Split(r.program, "\n"); len(lines) > 1 {
		for _, p := range r.programs {
			s.Programs = append(s.Programs, slices.Index(lines, p))
		}
	}
	return s
}

// digest is a hash of the numbers of a cell.
func (c *entry) digest() string {
	b := make([]byte, 0, 64+16*len(c.Regret))
	add := func(name string, v numbers) {
		b = binary.LittleEndian.AppendUint64(append(append(b, name...), 0), uint64(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	add("regret", c.Regret)
	add("reward", c.Reward)
	for _, name := range slices.Sorted(maps.Keys(c.Also)) {
		add("also "+name, c.Also[name])
	}
	return hash(b)[:32]
}

// digestOf is one hash of many, in any order.
func digestOf(sums []string) string {
	slices.Sort(sums)
	return hash([]byte(strings.Join(sums, "\n")))[:32]
}

// Unportable returns for an environment why its numbers may differ between architectures; "" where they do not (ADR 8).
// A kind from outside of troupe may differ.
func Unportable(c *EnvironmentCase) string {
	why := ""
	walk(reflect.ValueOf(held(c.Options)), 0, func(v reflect.Value) bool {
		if !v.IsValid() {
			return false
		}
		if _, ok := apartOf(v); ok {
			return false
		}
		switch v.Type() {
		case reflect.TypeFor[env.StudentT]():
			why = "Student noise"
		case reflect.TypeFor[env.LinearOptions]():
			if v.FieldByName("Drift").Float() != 0 {
				why = "drift"
			}
			if v.FieldByName("Misspecification").Float() != 0 {
				why = "misspecification"
			}
		}
		return why == ""
	})
	if why == "" && outside(c.Options) {
		why = "a kind of its own"
	}
	return why
}
