package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/dataset"
	"troupe/shards"
)

// MergeOptions say what Merge reads and writes.
type MergeOptions struct {
	// Sources are directories: of parts, of whole runs, or with parts inside (ShardsDir). At least one.
	Sources []string
	// Dir gets the results; "" writes nothing. What it holds of the same experiment counts as a source.
	Dir string
	// Partial writes results, with the status Interrupted, although cells are missing.
	Partial  bool
	Kinds    Catalogue
	Manifest Manifest          // what the caller knows, as for Run
	Note     func(text string) // remarks: torn lines, cells of another program; nil for none
}

// Merged is what Merge, or a look at the parts, found.
type Merged struct {
	Experiment *Experiment
	Outcome    *Outcome // nil where nothing was written
	Unchanged  bool     // Dir had all of it already
	Parts      []PartStatus
	Cells      int
	Done       int

	r      *runner
	owners map[int][]int32 // by number of parts
}

// PartStatus is how far one source is.
type PartStatus struct {
	Dir      string
	Part     shards.Part // whole for the directory of a run
	Cells    int         // that it is to have
	Done     int         // of these, in any journal
	Seconds  float64     // that a cell took, on average; 0 before the first
	Workers  int
	Running  bool // a process of this machine, or one that shares the locks of its disk, writes to it
	Manifest *Manifest
}

// Left estimates the seconds until the part is complete.
func (p *PartStatus) Left() float64 {
	return float64(p.Cells-p.Done) * p.Seconds / float64(max(1, p.Workers))
}

// source is a journal that is merged.
type source struct {
	dir string
	m   *Manifest
}

func (s *source) journal() string { return filepath.Join(s.dir, JournalFile) }

// ErrMissing: cells are missing, and nothing was written.
var ErrMissing = errors.New("cells are missing")

// NoSource is the error for an argument that is no directory of parts or results.
type NoSource struct{ Dir, Why string }

// Error says in one line what is wrong.
func (e *NoSource) Error() string { return e.Dir + " " + e.Why }

// MixedError refuses sources that do not belong together: of another experiment, computed by another program, from
// another data file, or with other numbers for a cell than another source, or the part itself, has.
type MixedError struct{ What string }

// Error says what differs, and where.
func (e *MixedError) Error() string { return e.What }

func notOne(format string, args ...any) error { return &MixedError{fmt.Sprintf(format, args...)} }

// Merge makes the files of one run of the journals of many: results.csv and diagnostics.csv have the bytes that one
// machine writes. Sources may come in any order, overlap and be copies; cells that are there twice must be equal, and
// all sources must be of one experiment, computed by the same program, from the same data: else the error is a
// *MixedError. Nothing is played, and no data file is read.
//
// Where cells are missing the error is ErrMissing and nothing is written, unless Partial is set; the result says which.
// Files are replaced when all of them are written. Memory: about 500 bytes a cell beside the numbers themselves.
func Merge(ctx context.Context, o MergeOptions) (*Merged, error) {
	sources, err := gather(o.Sources, o.Dir)
	if err != nil {
		return nil, err
	}
	r, err := mergeRunner(sources, o)
	if err != nil {
		return nil, err
	}
	out := &Merged{Experiment: r.x, Cells: len(r.table.cells), r: r, owners: make(map[int][]int32)}
	if o.Dir == "" {
		if err := out.read(ctx, sources, nil); err != nil {
			return nil, err
		}
		out.Done = r.table.done
		return out, nil
	}
	if err := openDir(o.Dir, false); err != nil {
		return nil, err
	}
	release, err := lock(ctx, o.Dir, cmp.Or(o.Manifest.Command, strings.Join(os.Args, " ")), nil)
	if errors.Is(err, errNoWait) {
		return nil, fmt.Errorf("%s is being written by %s", o.Dir, whoRuns(o.Dir))
	}
	if err != nil {
		return nil, err
	}
	defer release()
	return out, out.write(ctx, sources, o)
}

// write reads the sources and writes the files.
func (m *Merged) write(ctx context.Context, sources []source, o MergeOptions) error {
	r := m.r
	temp, err := os.CreateTemp(o.Dir, "."+JournalFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	lines := bufio.NewWriterSize(temp, 1<<20)
	err = m.read(ctx, sources, lines)
	if err = errors.Join(err, lines.Flush(), temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	m.Done = r.table.done
	status := Complete
	if r.table.done < len(r.table.cells) {
		if status = Interrupted; !o.Partial {
			return ErrMissing
		}
	}
	if old, err := ReadManifest(o.Dir); err == nil && old.Identity == r.x.Identity() {
		r.past.old = old
		csv, also := r.files()
		if old.Done == r.table.done && old.Cells == len(r.table.cells) && r.unchanged(ResultsFile, csv, old.ResultsSHA) &&
			(also == nil || r.unchanged(DiagnosticsFile, also, old.Diagnostics)) {
			m.Unchanged = true
			m.Outcome = &Outcome{Manifest: *old, Results: csv, Also: also, Reused: r.table.done, x: r.x, cells: r.table.cells}
			if old.Values != "" {
				m.Outcome.Values, err = r.values()
			}
			return err
		}
		if data, err := os.ReadFile(filepath.Join(o.Dir, ResultsFile)); status != Complete && err == nil &&
			old.Status == Complete && hash(data) == old.ResultsSHA {
			return fmt.Errorf("%s holds the complete results of %s already, and cells are missing for %d", o.Dir,
				plural(old.Replications, "replication"), r.x.Replications)
		}
	}
	r.reused = r.table.done
	r.staged = func() error { return os.Rename(temp.Name(), filepath.Join(o.Dir, JournalFile)) }
	files, err := r.publish(status)
	if err != nil {
		return err
	}
	m.Outcome = &Outcome{Manifest: r.manifest, Results: files[ResultsFile], Also: files[DiagnosticsFile],
		Values: files[ValuesFile], Reused: r.table.done, x: r.x, cells: r.table.cells}
	return nil
}

// gather finds the journals that the arguments name, each directory once, in the order of the arguments.
func gather(args []string, dir string) ([]source, error) {
	var all []source
	seen := make(map[string]bool)
	add := func(dir string) (bool, error) {
		m, err := ReadManifest(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, &NoSource{dir, "holds a manifest.json that cannot be read: " + err.Error()}
		}
		if m.Spec == "" || m.Replications < 1 {
			return false, &NoSource{dir, "holds a manifest.json that is not of troupe run"}
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && !seen[real] {
			seen[real] = true
			all = append(all, source{dir, m})
		}
		return true, nil
	}
	if dir != "" && !slices.Contains(args, dir) {
		if _, err := os.Stat(filepath.Join(dir, ManifestFile)); err == nil {
			args = append(slices.Clone(args), dir)
		}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, &NoSource{arg, "does not exist"}
		case err != nil:
			return nil, &NoSource{arg, err.Error()}
		case !info.IsDir():
			return nil, &NoSource{arg, "is a file, expected a directory of parts or of results"}
		}
		found, err := add(arg)
		if err != nil {
			return nil, err
		}
		dirs, err := PartDirs(arg)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			one, err := add(d)
			if err != nil {
				return nil, err
			}
			found = found || one // a part that was killed before it had a manifest has no cells either
		}
		if !found {
			return nil, &NoSource{arg, fmt.Sprintf("is no directory of parts or of results: it has no %s, and none of %s has one",
				ManifestFile, filepath.Join(arg, ShardsDir))}
		}
	}
	return all, nil
}

// mergeRunner checks that the sources are of one experiment and returns its runner, without cells.
func mergeRunner(sources []source, o MergeOptions) (*runner, error) {
	first := sources[0]
	for _, s := range sources { // the largest number of replications is the one that was asked for last
		if s.m.Replications > first.m.Replications {
			first = s
		}
	}
	file := filepath.Join(first.dir, ManifestFile)
	x, err := Parse(file, first.m.Spec, o.Kinds)
	if err != nil {
		return nil, fmt.Errorf("%s: the spec in it: %w", file, err)
	}
	x.Name = first.m.Experiment
	r := newRunner(x, Options{Dir: o.Dir, Manifest: o.Manifest, Note: o.Note, Data: new(dataset.Source)})
	if len(first.m.Environments) != len(x.Environments) || len(first.m.Policies) != len(x.Policies) {
		return nil, fmt.Errorf("%s: %d environments and %d policies, the spec in it has %d and %d", file,
			len(first.m.Environments), len(first.m.Policies), len(x.Environments), len(x.Policies))
	}
	r.facts.recorded(first.m)
	r.facts.notes, r.facts.rounding = first.m.Notes, first.m.Rounding
	if r.programs, err = first.m.programs(len(r.facts.worlds) * len(x.Policies)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := r.nameCells(); err != nil {
		return nil, err
	}
	if err := r.agree(sources, first); err != nil {
		return nil, err
	}
	before := &Manifest{Status: Interrupted, Until: first.m.Until}
	r.o.Workers = 1
	for _, s := range sources {
		if before.Started == "" || s.m.Started < before.Started {
			before.Started = s.m.Started
		}
		if s.m.Shard == nil {
			before.Seconds = max(before.Seconds, s.m.Seconds)
		} else {
			before.Seconds += s.m.Seconds
		}
		r.o.Workers = max(r.o.Workers, s.m.Workers)
	}
	r.past.before = before
	r.clock.started = time.Now()
	return r, nil
}

// programs returns what computed the cells of each pair; nil where the manifest does not tell.
func (m *Manifest) programs(pairs int) ([]string, error) {
	lines := strings.Split(m.Program, "\n")
	if m.Program == "" || len(lines) > 1 && m.Shard == nil {
		return nil, nil
	}
	out := make([]string, pairs)
	for i := range out {
		line := 0
		if len(lines) > 1 {
			if len(m.Shard.Programs) != pairs {
				return nil, fmt.Errorf("shard.programs: %d numbers, expected %d", len(m.Shard.Programs), pairs)
			}
			line = m.Shard.Programs[i]
		}
		if line < 0 || line >= len(lines) {
			return nil, fmt.Errorf("shard.programs[%d]: is %d, expected 0 to %d", i, line, len(lines)-1)
		}
		out[i] = lines[line]
	}
	return out, nil
}

// agree returns a *MixedError when two sources are not of one experiment, computed in one way.
func (r *runner) agree(sources []source, first source) error {
	for _, s := range sources {
		if s.m.Identity != r.x.Identity() || len(s.m.Environments) != len(r.facts.worlds) {
			return notOne("%s holds cells of another experiment than %s%s", s.dir, first.dir, r.difference(s.m))
		}
	}
	if text := apartBy(sources, func(m *Manifest) string { return programName(m.Program, "") }); text != "" {
		return notOne("the sources were computed by different programs, whose numbers may differ:\n%s", text)
	}
	for e := range r.facts.worlds {
		name := r.x.Environments[e].Name
		if text := apartBy(sources, func(m *Manifest) string { return "sha256 " + m.Environments[e].Data.SHA256 }); text != "" {
			return notOne("the data file of environment %q is not the same everywhere:\n%s", name, text)
		}
	}
	if text := apartBy(sources, func(m *Manifest) string { return m.Arch }); text != "" {
		for e := range r.x.Environments {
			if why := Unportable(&r.x.Environments[e]); why != "" {
				return notOne("environment %q (%s) may have other numbers on another architecture, and the sources were played "+
					"on more than one:\n%s", r.x.Environments[e].Name, why, text)
			}
		}
	}
	if text := apartBy(sources, func(m *Manifest) string {
		return strings.TrimSpace(cmp.Or(m.Commit, "no commit") + " " + m.Build)
	}); text != "" {
		r.remark("the sources are of different builds with the same engine:\n" + text)
	}
	return nil
}

// apartBy lists the sources by a property in which they differ, a line for each value; "" where they have one value.
func apartBy(sources []source, property func(*Manifest) string) string {
	var values []string
	dirs := make(map[string][]string)
	for _, s := range sources {
		v := property(s.m)
		if dirs[v] == nil {
			values = append(values, v)
		}
		dirs[v] = append(dirs[v], s.dir)
	}
	if len(values) == 1 {
		return ""
	}
	var b strings.Builder
	for i, v := range values {
		names := dirs[v]
		more := ""
		if len(names) > 4 {
			more = fmt.Sprintf(" and %d more", len(names)-4)
			names = names[:4]
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %s: %s%s", v, strings.Join(names, ", "), more)
	}
	return b.String()
}

// read reads the journals of the sources and writes the line of each cell to lines, where that is not nil.
func (m *Merged) read(ctx context.Context, sources []source, lines io.Writer) error {
	r := m.r
	places := make(map[string]int32, len(r.table.keys))
	for i, key := range r.table.keys {
		places[key] = int32(i)
	}
	from := make([]int32, len(r.table.cells)) // the source that a cell is of, from 1
	for k, s := range sources {
		if err := ctx.Err(); err != nil {
			return ErrInterrupted
		}
		var sums []string
		mine := make(map[int32]bool)
		strange := 0
		err := scanJournal(s.journal(), func(line []byte, e entry) error {
			i, known := places[e.Cell]
			if !known || !e.complete(r.table.marks(int(i))) {
				strange++
				if lines != nil && s.dir == m.r.o.Dir { // a longer run may go on from it
					_, err := lines.Write(line)
					return err
				}
				return nil
			}
			e.State, e.Cell, e.Stem, e.Checkpoints = nil, "", "", nil
			if was := &r.table.cells[i]; len(was.Regret) > 0 {
				if e.digest() != was.digest() {
					return r.table.contradiction(int(i), sources[from[i]-1].journal(), s.journal())
				}
			} else {
				r.table.set(int(i), e)
				from[i] = int32(k + 1)
				if lines != nil {
					if _, err := lines.Write(line); err != nil {
						return err
					}
				}
			}
			if s.m.Shard != nil && s.m.Shard.Digest != "" && !mine[i] {
				mine[i] = true
				sums = append(sums, r.table.keys[i]+e.digest())
			}
			return nil
		}, r.remark)
		if err != nil {
			return err
		}
		if strange > 0 {
			r.remark(fmt.Sprintf("%s: %s are not of this experiment and program, and are left out", s.journal(),
				plural(strange, "cell")))
		}
		if row := s.m.Shard; row != nil && row.Digest != "" && len(sums) == row.Kept && digestOf(sums) != row.Digest {
			return notOne("%s: the numbers of its %s are not those that the part wrote (shard.digest in %s): the file was "+
				"changed; play the part again in an empty directory", s.journal(), plural(row.Kept, "cell"),
				filepath.Join(s.dir, ManifestFile))
		}
		m.Parts = append(m.Parts, PartStatus{Dir: s.dir, Manifest: s.m, Workers: s.m.Workers})
	}
	m.count()
	return nil
}

// contradiction is the error for a cell that two journals have with different numbers.
func (t *cellTable) contradiction(i int, a, b string) error {
	where := a + " and " + b
	if a == b {
		where = a + ", which has it twice,"
	}
	x := t.x
	e, p, rep := i/x.Replications/len(x.Policies), i/x.Replications%len(x.Policies), i%x.Replications
	return notOne("environment %q, policy %q, replication %d has different numbers in %s: one of the machines or builds "+
		"is broken, or a file was changed", x.Environments[e].Name, x.Policies[p].Name, rep+1, where)
}

// layout returns the owners of the cells among n parts.
func (m *Merged) layout(n int) []int32 {
	if m.owners[n] == nil {
		x := m.r.x
		m.owners[n] = shards.Layout(len(x.Environments), len(x.Policies), x.Replications, n)
	}
	return m.owners[n]
}

// count says of each part how far it is.
func (m *Merged) count() {
	var total float64
	have := 0
	for i := range m.r.table.cells {
		if len(m.r.table.cells[i].Regret) > 0 {
			total += m.r.table.cells[i].Seconds
			have++
		}
	}
	type tally struct{ cells, done []int }
	tallies := make(map[int]tally)
	for k := range m.Parts {
		p := &m.Parts[k]
		if have > 0 {
			p.Seconds = total / float64(have)
		}
		p.Running = locked(p.Dir)
		if p.Manifest.Shard == nil {
			p.Cells, p.Done = m.Cells, have
			continue
		}
		p.Part = p.Manifest.Shard.part()
		n := p.Part.Of
		if tallies[n].cells == nil {
			t := tally{make([]int, n+1), make([]int, n+1)}
			for i, part := range m.layout(n) {
				t.cells[part]++
				if len(m.r.table.cells[i].Regret) > 0 {
					t.done[part]++
				}
			}
			tallies[n] = t
		}
		p.Cells, p.Done = tallies[n].cells[p.Part.Index], tallies[n].done[p.Part.Index]
	}
}

// Divisions lists the numbers of parts of the sources, each once.
func (m *Merged) Divisions() []int {
	var all []int
	for _, p := range m.Parts {
		if !p.Part.Whole() {
			all = append(all, p.Part.Of)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Missing lists the parts of n that have cells which no source has.
func (m *Merged) Missing(n int) []int {
	var all []int
	lacks := make([]bool, n+1)
	for i, part := range m.layout(n) {
		lacks[part] = lacks[part] || len(m.r.table.cells[i].Regret) == 0
	}
	for part, yes := range lacks {
		if yes {
			all = append(all, part)
		}
	}
	return all
}

// locked reports whether a process writes to a directory, as far as the locks of its disk tell.
func locked(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, runningFile)); err != nil {
		return false
	}
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer unlock(d) // if it was free
	return errors.Is(tryLock(d), errLocked)
}

// scanJournal calls each for the good lines of a journal, with their LF, and remark for bad ones. A missing file is an
// empty journal.
func scanJournal(name string, each func(line []byte, e entry) error, remark func(string)) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<18)
	for offset := int64(0); ; {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		body, whole := bytes.CutSuffix(line, []byte("\n"))
		switch e, bad := parseEntry(body); {
		case !whole:
			remark(fmt.Sprintf("%s, offset %d: the last line is incomplete; its cell is missing", name, offset))
		case bad != nil:
			remark(fmt.Sprintf("%s, offset %d: %v; its cell is missing", name, offset, bad))
		default:
			if err := each(line, e); err != nil {
				return err
			}
		}
		offset += int64(len(line))
		if err != nil {
			return nil
		}
	}
}
