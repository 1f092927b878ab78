package sim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Names of the files in a result directory.
const (
	ResultsFile      = "results.csv"
	DiagnosticsFile  = "diagnostics.csv"
	PoliciesFile     = "policies.csv"     // of each policy its kind and its value of each swept option
	EnvironmentsFile = "environments.csv" // the same of each environment
	ManifestFile     = "manifest.json"
	JournalFile      = "cells.journal"
)

// ResultsHeader is the first line of results.csv.
const ResultsHeader = "environment,policy,replication,round,regret,reward"

// resultsCSV prints the cells that are done (len(regret) > 0) in canonical order: environment,
// policy, replication, round. cells is indexed by Experiment.index.
func resultsCSV(x *Experiment, cells []entry) []byte {
	b := bytes.NewBufferString(ResultsHeader + "\n")
	grown := 1 << 20 // bytes from which on the rest is estimated
	var line []byte
	for e := range x.Environments {
		for p := range x.Policies {
			prefix := field(x.Environments[e].Name) + "," + field(x.Policies[p].Name) + ","
			for r := range x.Replications {
				c := cells[x.index(e, p, r)]
				for i, sum := range c.Regret {
					line = append(line[:0], prefix...)
					line = strconv.AppendInt(line, int64(r+1), 10)
					line = append(line, ',')
					line = strconv.AppendInt(line, int64(x.CheckpointsOf(e)[i]), 10)
					line = append(line, ',')
					line = strconv.AppendFloat(line, sum, 'g', -1, 64)
					line = append(line, ',')
					line = strconv.AppendFloat(line, c.Reward[i], 'g', -1, 64)
					line = append(line, '\n')
					b.Write(line)
				}
				// Once: a large buffer that doubles takes three times its room.
				if left := len(cells) - x.index(e, p, r); b.Len() > grown {
					grown = math.MaxInt
					b.Grow(left * (b.Len()/(len(cells)-left+1) + 8) * 11 / 10)
				}
			}
		}
	}
	return b.Bytes()
}

// diagnosticsCSV prints what else was recorded, in the order of results.csv, one line for each
// checkpoint of each cell that has something; a column that a cell does not have is empty.
func diagnosticsCSV(x *Experiment, cells []entry) []byte {
	cols := x.diagnosticsColumns()
	b := bytes.NewBufferString("environment,policy,replication,round," + strings.Join(cols, ",") + "\n")
	var line []byte
	for e := range x.Environments {
		for p := range x.Policies {
			prefix := field(x.Environments[e].Name) + "," + field(x.Policies[p].Name) + ","
			for r := range x.Replications {
				c := cells[x.index(e, p, r)]
				if len(c.Also) == 0 {
					continue
				}
				for i, t := range x.CheckpointsOf(e) {
					line = append(line[:0], prefix...)
					line = strconv.AppendInt(line, int64(r+1), 10)
					line = append(line, ',')
					line = strconv.AppendInt(line, int64(t), 10)
					for _, col := range cols {
						line = append(line, ',')
						if v := c.Also[col]; v != nil {
							line = strconv.AppendFloat(line, v[i], 'g', -1, 64)
						}
					}
					line = append(line, '\n')
					b.Write(line)
				}
			}
		}
	}
	return b.Bytes()
}

// field quotes a name for CSV where it needs it.
func field(name string) string {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{name}) // a bytes.Buffer does not fail
	w.Flush()
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// writeFile replaces a file in one step: a reader sees the old bytes or the new ones.
func writeFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing left to remove
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// writeFiles replaces files of a directory, the manifest last, or none of them: all are written beside the old ones
// first. staged is called between, where it is not nil.
func writeFiles(dir string, files map[string][]byte, staged func() error) error {
	var made []string
	defer func() {
		for _, temp := range made {
			os.Remove(temp) // those that have got their name are gone
		}
	}()
	names := slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		switch {
		case a == ManifestFile:
			return 1
		case b == ManifestFile:
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		f, err := os.CreateTemp(dir, "."+name+".*")
		if err != nil {
			return err
		}
		made = append(made, f.Name())
		_, err = f.Write(files[name])
		if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
			return err
		}
	}
	if staged != nil {
		if err := staged(); err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := os.Rename(made[i], filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// ReadManifest reads manifest.json of a result directory.
func ReadManifest(dir string) (*Manifest, error) {
	name := filepath.Join(dir, ManifestFile)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// encode returns the bytes of manifest.json.
func (m *Manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(m)
	return b.Bytes(), err
}

func writeManifest(dir string, m *Manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, ManifestFile), b)
}

// ours are the files that a run writes, each under a temporary name first but for the journal.
var ours = []string{ResultsFile, DiagnosticsFile, ValuesFile, PoliciesFile, EnvironmentsFile, ManifestFile, JournalFile,
	runningFile}

// temporaries lists the files that writeFile began in a directory for a file of the name.
func temporaries(dir, name string) ([]string, error) {
	files, err := os.ReadDir(dir)
	var out []string
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "."+name+".") {
			out = append(out, filepath.Join(dir, f.Name()))
		}
	}
	return out, err
}

// openDir makes dir a directory for results. A directory with files in it that are not of a run is
// refused unless force is set.
func openDir(dir string, force bool) error {
	if err := os.MkdirAll(dir, 0o755); errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
		return &DirError{dir, "cannot be a directory for results: " + err.Error(), true}
	} else if err != nil {
		return err
	}
	if force {
		return nil
	}
	_, err := ReadManifest(dir)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return &DirError{Dir: dir, Why: "holds a manifest.json that cannot be read: " + err.Error()}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		n := f.Name()
		known := n == partDir || n == ShardsDir
		for _, name := range ours {
			known = known || n == name || strings.HasPrefix(n, "."+name+".")
		}
		if !known { // a run that was killed early leaves only files that are ours
			return &DirError{Dir: dir, Why: fmt.Sprintf("is not empty (%s) and holds no results of troupe", n)}
		}
	}
	return nil
}

// DirError refuses a result directory.
type DirError struct {
	Dir  string
	Why  string
	None bool // there is no directory and cannot be one, with Options.Force neither
}

// Error says in one line what is wrong.
func (e *DirError) Error() string { return e.Dir + " " + e.Why }
