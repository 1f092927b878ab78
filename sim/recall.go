package sim

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/internal/infer"
)

// recall computes the keys of the cells and takes from the journal those that are there. Finished
// cells of the directory that this run would drop are a *DirError, unless force is set.
func (r *runner) recall() error {
	if err := r.nameCells(); err != nil {
		return err
	}
	if r.o.Dir == "" {
		return nil
	}
	if m, err := ReadManifest(r.o.Dir); err == nil {
		r.past.old = m
		if m.Identity == r.x.Identity() {
			r.past.before = m
		}
		csv, err := os.ReadFile(filepath.Join(r.o.Dir, ResultsFile))
		r.past.finished = err == nil && m.Status == Complete && hash(csv) == m.ResultsSHA
	}
	known, remarks, err := readJournal(filepath.Join(r.o.Dir, JournalFile))
	if err != nil {
		return err
	}
	for _, text := range remarks {
		r.remark(text)
	}
	for i, key := range r.table.keys {
		if c, ok := known[key]; ok && r.part.has(i) && c.complete(r.table.marks(i)) {
			r.table.set(i, c)
			r.reused++
		}
	}
	r.past.untidy = len(known) > r.reused || len(remarks) > 0
	if err := r.dropped(known); err != nil {
		return err
	}
	if err := r.borrow(); err != nil {
		return err
	}
	r.findStarts(known)
	return nil
}

// nameCells computes the keys and the stems of the cells.
func (r *runner) nameCells() error {
	x := r.x
	if r.table.keys != nil {
		return nil
	}
	r.table.keys, r.table.stems = make([]string, len(r.table.cells)), make([]string, len(r.table.cells))
	for e := range x.Environments {
		for p := range x.Policies {
			if len(r.programs) <= e*len(x.Policies)+p { // Merge has them of the parts
				program, err := r.programOf(e, p)
				if err != nil {
					return err
				}
				r.programs = append(r.programs, program)
			}
			program := r.programs[e*len(x.Policies)+p]
			if !slices.Contains(strings.Split(r.program, "\n"), program) {
				r.program = strings.TrimSpace(r.program + "\n" + program)
			}
			at := x.index(e, p, 0)
			data := r.facts.worlds[e].file.SHA256
			if err := cellKeys(x, r.table.keys[at:][:x.Replications], e, p, program, data); err != nil {
				return err
			}
			if err := cellStems(x, r.table.stems[at:][:x.Replications], e, p, program, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// difference says in what another experiment differs from this one.
func (r *runner) difference(m *Manifest) string {
	if m.Seed == r.x.Seed && m.Horizon != r.x.Horizon {
		return fmt.Sprintf(": they have another horizon (%d, not %d)", m.Horizon, r.x.Horizon)
	}
	if m.Hypothesis != r.x.Hypothesis {
		return ": they are under another hypothesis; a hypothesis is stated before the run"
	}
	if !r.x.sameQuestion(m) {
		return fmt.Sprintf(": they fix another estimand or other claims (estimand %s, not %s; %s, not %d)",
			cmp.Or(m.Estimand, infer.Mean.String()), cmp.Or(r.x.Estimand, infer.Mean.String()),
			plural(len(m.Claims), "claim"), len(r.x.Claims))
	}
	old := r.past.old
	defer func() { r.past.old = old }()
	r.past.old = m
	return r.change()
}

// dropped returns a *DirError when finished cells of the journal are not among those of this run. A
// cell is among them when it is continued to a later round.
func (r *runner) dropped(known map[string]entry) error {
	wanted, longer := make(map[string]bool), make(map[string]bool)
	for i := range r.table.keys {
		wanted[r.table.keys[i]], longer[r.table.stems[i]] = true, true
	}
	if r.o.grow {
		if err := r.allow(wanted); err != nil {
			return err
		}
	}
	gone := 0
	for key, c := range known {
		if !wanted[key] && !(longer[c.Stem] && c.T > 0 && c.T < r.x.Horizon) {
			gone++
		}
	}
	done := r.past.old != nil && r.past.old.Done > 0
	restated, asked := done && r.past.old.Hypothesis != r.x.Hypothesis, done && !r.x.sameQuestion(r.past.old)
	if gone == 0 && !restated && !asked {
		if r.past.old != nil && r.past.before == nil {
			r.remark(fmt.Sprintf("%s is extended: %d cells are there, %d are new", r.o.Dir, r.reused,
				len(r.table.cells)-r.reused))
		}
		return nil
	}
	why := fmt.Sprintf("holds %s that this run would drop%s", plural(gone, "finished cell"), r.change())
	switch {
	case gone > 0:
	case restated:
		why = "holds results under another hypothesis; a hypothesis is stated before the run"
	case asked:
		why = "holds results under another estimand or other claims, which are fixed before the run"
	}
	if !r.o.Force {
		return &DirError{Dir: r.o.Dir, Why: why}
	}
	r.remark(fmt.Sprintf("%s %s; with force they go when the new results are complete", r.o.Dir, why))
	return nil
}

// change says in what the directory's experiment differs from this one.
func (r *runner) change() string {
	m, x := r.past.old, r.x
	if m == nil {
		return ": they are of another experiment or another version of troupe"
	}
	switch {
	case m.Seed != x.Seed:
		return fmt.Sprintf(": they have another seed (%d, not %d)", m.Seed, x.Seed)
	case m.Horizon > x.Horizon:
		return fmt.Sprintf(": they have a longer horizon (%d, not %d)", m.Horizon, x.Horizon)
	}
	var gone []string
	for _, p := range m.Policies {
		if !slices.ContainsFunc(x.Policies, func(c PolicyCase) bool {
			return c.Name == p.Name &&
				show(c.Table, -1) == show(p.Options, -1)
		}) {
			gone = append(gone, "policy "+p.Name)
		}
	}
	for _, e := range m.Environments {
		if i := slices.IndexFunc(x.Environments, func(c EnvironmentCase) bool { return c.Name == e.Name }); i >= 0 &&
			e.Data.SHA256 != r.facts.worlds[i].file.SHA256 {
			return fmt.Sprintf(": the data file of environment %s has other bytes", e.Name)
		}
		if !slices.ContainsFunc(x.Environments, func(c EnvironmentCase) bool {
			return c.Name == e.Name && show(c.Table, -1) == show(e.Options, -1)
		}) {
			gone = append(gone, "environment "+e.Name)
		}
	}
	switch {
	case len(gone) > 4:
		return fmt.Sprintf(": they are of another spec, which has %s and %d more", strings.Join(gone[:3], ", "),
			len(gone)-3)
	case len(gone) > 0:
		return ": they are of another spec, which has " + strings.Join(gone, ", ")
	case m.Replications > x.Replications:
		return fmt.Sprintf(": they are beyond the %d replications asked for", x.Replications)
	case m.Program != r.program:
		return fmt.Sprintf(": they were computed by %s, this is %s", programName(m.Program, r.program),
			programName(r.program, m.Program))
	}
	return ": they are of another spec"
}

// programName names for people what computed cells, with the hash of an executable cut: what program has and
// other has not, or all of it where that is nothing.
func programName(program, other string) string {
	var names []string
	parts, theirs := strings.Split(program, "\n"), strings.Split(other, "\n")
	same := !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(theirs, p) })
	for _, p := range parts {
		switch {
		case !same && slices.Contains(theirs, p):
			continue
		case p == "":
			p = "an unknown program"
		case !strings.Contains(p, " ") && len(p) > 12: // a hash is shortened for the reader; nothing depends on it
			p = "the build " + p[:12]
		}
		names = append(names, p)
	}
	return strings.Join(names, " and ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
