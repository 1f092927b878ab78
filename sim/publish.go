package sim

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"troupe/spec"
)

// files prints the cells that are done; also is nil when the spec asks for nothing but results.
func (r *runner) files() (results, also []byte) {
	results = resultsCSV(r.x, r.table.cells)
	if len(r.x.Record) > 0 {
		also = diagnosticsCSV(r.x, r.table.cells)
	}
	return results, also
}

// unchanged reports whether a file of the directory has the bytes and the hash it should have.
func (r *runner) unchanged(name string, want []byte, sum string) bool {
	data, err := os.ReadFile(filepath.Join(r.o.Dir, name))
	return err == nil && hash(want) == sum && hash(data) == sum
}

// publish writes results.csv, diagnostics.csv where it is asked for, and manifest.json for the cells
// that are done, and returns the bytes of the first two by name.
func (r *runner) publish(status string) (map[string][]byte, error) {
	x := r.x
	if r.part.owner != nil {
		return nil, r.publishPart(status)
	}
	csv, also := r.files()
	out := map[string][]byte{ResultsFile: csv, PoliciesFile: casesCSV("policy", x.Policies),
		EnvironmentsFile: casesCSV("environment", x.Environments)}
	m := r.describe(status)
	m.ResultsSHA = hash(csv)
	if also != nil {
		out[DiagnosticsFile], m.Diagnostics = also, hash(also)
	}
	if status == Complete {
		values, err := r.values()
		if err != nil {
			return nil, err
		}
		if values != nil {
			out[ValuesFile], m.Values = values, hash(values)
		}
	}
	r.manifest = m
	if r.o.Dir == "" || status != Complete && r.past.finished {
		return out, nil // finished results stay until all that replaces them is there
	}
	staged := r.staged
	if staged == nil && status == Complete && r.past.untidy && (!r.o.grow || r.o.last) {
		staged = r.tidy
	}
	files := maps.Clone(out)
	var err error
	if files[ManifestFile], err = m.encode(); err != nil {
		return nil, err
	}
	if err := writeFiles(r.o.Dir, files, staged); err != nil {
		return nil, err
	}
	if status == Complete {
		if err := sweepUp(r.o.Dir); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// publishPart writes the manifest of a part.
func (r *runner) publishPart(status string) error {
	m := r.describe(status)
	m.Shard = r.row(r.playing)
	r.manifest = m
	if r.o.Dir == "" {
		return nil
	}
	if status == Complete {
		if err := sweepUp(r.o.Dir); err != nil {
			return err
		}
	}
	return writeManifest(r.o.Dir, &m)
}

// describe returns the manifest of the cells that are done, without the hashes of the files.
func (r *runner) describe(status string) Manifest {
	x := r.x
	m := r.o.Manifest
	m.Go, m.OS, m.Arch, m.CPUs = runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()
	b := Build()
	m.Troupe, m.Commit, m.Dirty, m.Build = cmp.Or(m.Troupe, b.Troupe), cmp.Or(m.Commit, b.Commit), m.Dirty || b.Dirty,
		cmp.Or(m.Build, b.Build)
	m.Command = cmp.Or(m.Command, strings.Join(os.Args, " "))
	m.Program, m.Engine = r.program, Engine
	m.Experiment, m.Spec, m.SpecSHA256, m.Identity = x.Name, x.Text, hash([]byte(x.Text)), x.Identity()
	m.Hypothesis, m.Episodic = x.Hypothesis, x.Episodic()
	m.Seed, m.Horizon, m.Replications, m.Workers = x.Seed, x.Horizon, x.Replications, r.o.Workers
	m.Started = r.clock.started.UTC().Format(time.RFC3339)
	m.Seconds = time.Since(r.clock.started).Seconds()
	if r.past.before != nil && r.reused > 0 {
		m.Started = r.past.before.Started
		m.Seconds += r.past.before.Seconds
	}
	m.Status, m.Cells, m.Done = status, len(r.table.cells), r.table.done
	m.Record, m.Recorders, m.Reference, m.Diagnostics = x.Record, x.recorded(), x.Reference, ""
	m.Values = ""
	if m.Until = x.Until; m.Until == "" && r.past.before != nil {
		m.Until = r.past.before.Until
	}
	m.LateReference = x.Reference != "" && r.past.old != nil && r.past.old.Done > 0 &&
		(r.past.old.Reference != x.Reference || r.past.old.LateReference)
	m.Estimand, m.Claims = x.Estimand, x.Claims
	m.Restated = r.past.old != nil && r.past.old.Done > 0 && (!x.sameQuestion(r.past.old) || r.past.old.Restated)
	m.Environments, m.Policies = nil, nil
	for e, c := range x.Environments {
		m.Environments = append(m.Environments, EnvironmentRow{c.Name, c.Kind, c.Table, c.Swept, c.LateRaw,
			r.facts.worlds[e].dim, r.facts.worlds[e].file, r.facts.worlds[e].largest, c.Horizon, c.Seed})
	}
	for p, c := range x.Policies {
		mp := PolicyRow{Name: c.Name, Kind: c.Kind, Options: c.Table, Swept: c.Swept, Defaults: defaultsOf(c),
			Tuned: c.Tuned}
		for e := range x.Environments {
			for rep := range x.Replications {
				if done := r.table.cells[x.index(e, p, rep)]; len(done.Regret) > 0 {
					mp.Rounds += x.HorizonOf(e)
					mp.Seconds += done.Seconds
				}
			}
		}
		m.Policies = append(m.Policies, mp)
	}
	m.Notes, m.Rounding = slices.Clone(r.facts.notes), r.facts.rounding
	return m
}

// defaultsOf says what the options stand for that a policy's table leaves out. Where the default
// depends on the preset the list of options has all: that of the preset by default, then "PRESET: DEFAULT" after a semicolon.
func defaultsOf(c PolicyCase) map[string]string {
	out := make(map[string]string)
	options := spec.Options(held(c.Options))
	presets := slices.ContainsFunc(options, func(o spec.Option) bool { return o.Key == "preset" })
	for _, o := range options {
		_, written := c.Table[o.Key]
		if written || o.Default == "" {
			continue
		}
		text := o.Default
		if practical, others, several := strings.Cut(text, "; "); several && presets {
			text = practical
			for other := range strings.SplitSeq(others, "; ") {
				if preset, own, named := strings.Cut(other, ": "); named && c.Table["preset"] == preset {
					text = own
				}
			}
		}
		out[o.Key] = text
	}
	return out
}

// sweepUp removes what runs that were killed left beside the files of a complete run: cells under way, and files
// that had not got their name yet.
func sweepUp(dir string) error {
	for _, name := range ours {
		old, err := temporaries(dir, name)
		if err != nil {
			return err
		}
		for _, f := range old {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(filepath.Join(dir, partDir))
}

// tidy rewrites the journal of a complete run without the lines that are not its own.
func (r *runner) tidy() error {
	var b []byte
	for _, c := range r.table.cells {
		line, err := c.line()
		if err != nil {
			return err
		}
		b = append(b, line...)
	}
	return writeFile(filepath.Join(r.o.Dir, JournalFile), b)
}
