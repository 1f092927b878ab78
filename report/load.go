package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"troupe/internal/infer"
	"troupe/sim"
)

// Run is a result directory, read and checked.
type Run struct {
	Dir      string
	Manifest sim.Manifest
	Envs     []EnvData // in the order of the manifest; without data when nothing finished there

	analyses sync.Map // by environment: *analysed
	prepared sync.Map // by environment: *analysed, not compared yet
	once     sync.Once
	all      *family
	apart    bool    // of two runs with different seeds: policies did not meet the same instances
	choice   *choice // nil for a run that is shown whole
	values   []*memberValues
}

// analysed is an analysis that is made when it is first asked for.
type analysed struct {
	once sync.Once
	a    *Analysis
}

// EnvData is one environment's part of results.csv.
type EnvData struct {
	Rounds []int        // checkpoints, increasing, the same for every cell
	Cells  [][]*CellRun // by policy, then by replication (from 0); nil where a cell is missing
	Also   [][]Also     // by policy, then by replication: diagnostics.csv; nil when nothing more was recorded
}

// CellRun is one replication of one policy in one environment, cumulative at each checkpoint.
type CellRun struct {
	Regret, Reward []float64
}

// Load reads results.csv and manifest.json of a result directory, strictly: a wrong header, a field
// that is not a number, an unknown name, a duplicate or a cell with other checkpoints than its
// neighbours is refused with file, line and column. Replications that are missing for some policies
// are fine: an interrupted run.
func Load(dir string) (*Run, error) {
	run := &Run{Dir: dir}
	path := filepath.Join(dir, "manifest.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &run.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, jsonPosition(raw, err))
	}
	if err := checkManifest(&run.Manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, "results.csv")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if run.Envs, err = parseResults(path, data, &run.Manifest); err != nil {
		return nil, err
	}
	// Last, because a fault with a line and a column is the better message.
	if want := run.Manifest.ResultsSHA; want != "" {
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			return nil, fmt.Errorf("%s: SHA-256 is %.12s…, manifest.json says %.12s…: the file was changed after the "+
				"run", path, got, want)
		}
	}
	if len(run.Manifest.Record) > 0 {
		path = filepath.Join(dir, sim.DiagnosticsFile)
		if data, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if err := parseDiagnostics(path, data, &run.Manifest, run.Envs); err != nil {
			return nil, err
		}
	}
	return run, run.loadValues()
}

// Of is Load for the outcome of a run that is still in memory, with or without a directory.
func Of(out *sim.Outcome) (*Run, error) {
	run := &Run{Manifest: out.Manifest}
	if err := checkManifest(&run.Manifest); err != nil {
		return nil, err
	}
	var err error
	if run.Envs, err = parseResults(sim.ResultsFile, out.Results, &run.Manifest); err != nil {
		return nil, err
	}
	if out.Also != nil {
		if err = parseDiagnostics(sim.DiagnosticsFile, out.Also, &run.Manifest, run.Envs); err != nil {
			return run, err
		}
	}
	if out.Values != nil {
		err = run.parseValues(sim.ValuesFile, out.Values)
	}
	return run, err
}

// jsonPosition adds line and column to an error of encoding/json.
func jsonPosition(raw []byte, err error) error {
	var off int64
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		off = syntax.Offset
	case errors.As(err, &typ):
		off = typ.Offset
	default:
		return err
	}
	before := raw[:min(off, int64(len(raw)))]
	line := 1 + bytes.Count(before, []byte("\n"))
	col := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, max(col, 1), err)
}

func checkManifest(m *sim.Manifest) error {
	if len(m.Environments) == 0 {
		return errors.New("environments: is empty, expected at least one")
	}
	if len(m.Policies) == 0 {
		return errors.New("policies: is empty, expected at least one")
	}
	if m.Replications < 1 {
		return fmt.Errorf("replications: is %d, expected at least 1", m.Replications)
	}
	if m.Horizon < 1 {
		return fmt.Errorf("horizon: is %d, expected at least 1", m.Horizon)
	}
	seen := map[string]bool{}
	for i, e := range m.Environments {
		if e.Name == "" || seen[e.Name] {
			return fmt.Errorf("environments[%d].name: %q is empty or given twice", i, e.Name)
		}
		seen[e.Name] = true
	}
	clear(seen)
	if _, ok := infer.Named(m.Estimand); !ok {
		return fmt.Errorf("estimand: %q, expected one of %s", m.Estimand, strings.Join(infer.Names(), ", "))
	}
	if m.Reference != "" && !slices.ContainsFunc(m.Policies,
		func(p sim.PolicyRow) bool { return p.Name == m.Reference }) {
		return fmt.Errorf("reference: %q is not among the policies", m.Reference)
	}
	for i, p := range m.Policies {
		if p.Name == "" || seen[p.Name] {
			return fmt.Errorf("policies[%d].name: %q is empty or given twice", i, p.Name)
		}
		seen[p.Name] = true
		if !(p.Seconds >= 0) || math.IsInf(p.Seconds, 0) || p.Rounds < 0 {
			return fmt.Errorf("policies[%d]: seconds %v and rounds %d must be finite and not negative", i, p.Seconds,
				p.Rounds)
		}
	}
	return nil
}

// parseResults reads results.csv. Rows of one cell stand together, rounds increase within it, and
// all cells of an environment have the same checkpoints.
func parseResults(path string, data []byte, m *sim.Manifest) ([]EnvData, error) {
	r := newResultsReader(path, data, m)
	if err := r.begin(); err != nil {
		return nil, err
	}
	for {
		rec, err := r.in.Read()
		if err == io.EOF {
			r.line++
			break
		}
		if err != nil {
			return nil, csvFault(path, err)
		}
		if err := r.row(rec); err != nil {
			return nil, err
		}
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	if r.cell == nil {
		return nil, fmt.Errorf("%s: no replication has finished", path)
	}
	if last := data[len(data)-1]; last != '\n' {
		return nil, fmt.Errorf("%s: line %d: the last line does not end with a line feed: the file was cut", path,
			r.line)
	}
	return r.envs, nil
}

// table reads a file of rows and says where something is wrong in it.
type table struct {
	path string
	in   *csv.Reader
}

func newTable(path string, data []byte, fields int) table {
	in := csv.NewReader(bytes.NewReader(data))
	in.ReuseRecord = true
	in.FieldsPerRecord = fields
	return table{path, in}
}

// fault is an error about a field of the row that was read last.
func (t *table) fault(field int, format string, args ...any) error {
	line, col := t.in.FieldPos(field)
	return fmt.Errorf("%s: line %d, column %d: %s", t.path, line, col, fmt.Sprintf(format, args...))
}

// resultsReader is results.csv while it is read.
type resultsReader struct {
	table
	m            *sim.Manifest
	envs         []EnvData
	envAt, polAt map[string]int // places in the manifest by name

	first []*CellRun // by environment: the cell that defines its checkpoints
	line  int        // of the row that was read last

	// The cell that is being read; env and pol are −1 and cell is nil before the first one.
	at   cellKey
	cell *CellRun
	next int // checkpoint that its next row has
}

// cellKey is a cell by places in the manifest and replication from 0.
type cellKey struct{ env, pol, rep int }

func newResultsReader(path string, data []byte, m *sim.Manifest) *resultsReader {
	r := &resultsReader{table: newTable(path, data, 6), m: m, envs: make([]EnvData, len(m.Environments)),
		envAt: map[string]int{}, polAt: map[string]int{}, first: make([]*CellRun, len(m.Environments)), line: 1,
		at: cellKey{-1, -1, -1}}
	for i, e := range m.Environments {
		r.envAt[e.Name] = i
		r.envs[i].Cells = make([][]*CellRun, len(m.Policies))
		for p := range m.Policies {
			r.envs[i].Cells[p] = make([]*CellRun, m.Replications)
		}
	}
	for i, p := range m.Policies {
		r.polAt[p.Name] = i
	}
	return r
}

// begin reads the header.
func (r *resultsReader) begin() error {
	rec, err := r.in.Read()
	if err != nil {
		return csvFault(r.path, err)
	}
	if got := strings.Join(rec, ","); got != sim.ResultsHeader {
		return r.fault(0, "header is %q, expected %q", got, sim.ResultsHeader)
	}
	return nil
}

// row takes one row: of the cell that is being read, or the first of another one.
func (r *resultsReader) row(rec []string) error {
	r.line, _ = r.in.FieldPos(0)
	at, err := r.key(rec)
	if err != nil {
		return err
	}
	round, err := strconv.Atoi(rec[3])
	if err != nil || round < 1 || round > r.m.Horizon {
		return r.fault(3, "round %q, expected a whole number from 1 to %d", rec[3], r.m.Horizon)
	}
	regret, err := finite(rec[4])
	if err != nil {
		return r.fault(4, "regret %v", err)
	}
	reward, err := finite(rec[5])
	if err != nil {
		return r.fault(5, "reward %v", err)
	}
	if at != r.at {
		if err := r.open(at); err != nil {
			return err
		}
	}
	if err := r.checkpoint(round); err != nil {
		return err
	}
	r.cell.Regret = append(r.cell.Regret, regret)
	r.cell.Reward = append(r.cell.Reward, reward)
	return nil
}

// key reads which cell a row is of. Names are looked up where they differ from those of the row before.
func (r *resultsReader) key(rec []string) (cellKey, error) {
	at := r.at
	if at.env < 0 || rec[0] != r.m.Environments[at.env].Name {
		i, ok := r.envAt[rec[0]]
		if !ok {
			return at, r.fault(0, "environment %q is not in manifest.json", rec[0])
		}
		at.env = i
	}
	if at.pol < 0 || rec[1] != r.m.Policies[at.pol].Name {
		i, ok := r.polAt[rec[1]]
		if !ok {
			return at, r.fault(1, "policy %q is not in manifest.json", rec[1])
		}
		at.pol = i
	}
	n, err := strconv.Atoi(rec[2])
	if err != nil || n < 1 || n > r.m.Replications {
		return at, r.fault(2, "replication %q, expected a whole number from 1 to %d", rec[2], r.m.Replications)
	}
	at.rep = n - 1
	return at, nil
}

// open ends the cell that was being read and begins another one.
func (r *resultsReader) open(at cellKey) error {
	if err := r.finish(); err != nil {
		return err
	}
	e := &r.envs[at.env]
	if e.Cells[at.pol][at.rep] != nil {
		return r.fault(2, "replication %d of %s in %s is given twice", at.rep+1, r.m.Policies[at.pol].Name,
			r.m.Environments[at.env].Name)
	}
	cell := &CellRun{Regret: make([]float64, 0, len(e.Rounds)), Reward: make([]float64, 0, len(e.Rounds))}
	if r.first[at.env] == nil {
		r.first[at.env] = cell
	}
	e.Cells[at.pol][at.rep] = cell
	r.at, r.cell, r.next = at, cell, 0
	return nil
}

// checkpoint checks the round of a row. The first cell of an environment defines its checkpoints, the others have them.
func (r *resultsReader) checkpoint(round int) error {
	e := &r.envs[r.at.env]
	switch k := r.next; {
	case r.first[r.at.env] == r.cell:
		if k > 0 && round <= e.Rounds[k-1] {
			return r.fault(3, "round %d after round %d, expected them to increase", round, e.Rounds[k-1])
		}
		e.Rounds = append(e.Rounds, round)
	case k >= len(e.Rounds):
		return r.fault(3, "round %d: the cell has more than the %d checkpoints of its environment", round,
			len(e.Rounds))
	case round != e.Rounds[k]:
		return r.fault(3, "round %d, expected %d", round, e.Rounds[k])
	}
	r.next++
	return nil
}

// finish checks that the cell that was being read has all checkpoints of its environment.
func (r *resultsReader) finish() error {
	if r.cell == nil || r.next == len(r.envs[r.at.env].Rounds) {
		return nil
	}
	return fmt.Errorf("%s: line %d, column 1: the cell before it (%s, %s, replication %d) has %d "+
		"checkpoints, expected %d",
		r.path, r.line, r.m.Environments[r.at.env].Name, r.m.Policies[r.at.pol].Name, r.at.rep+1, r.next,
		len(r.envs[r.at.env].Rounds))
}

func csvFault(path string, err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: line %d, column %d: %v", path, p.Line, p.Column, p.Err)
	}
	if err == io.EOF {
		return fmt.Errorf("%s: line 1, column 1: the file is empty, expected %q", path, sim.ResultsHeader)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func finite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q, expected a finite number", s)
	}
	return v, nil
}

// Finished returns how many replications of a policy are in an environment's data.
func (e *EnvData) Finished(policy int) int {
	n := 0
	for _, c := range e.Cells[policy] {
		if c != nil {
			n++
		}
	}
	return n
}

// Complete returns the replications (from 0) that every one of the given policies has finished.
func (e *EnvData) Complete(policies []int) []int {
	var reps []int
	if len(policies) == 0 {
		return nil
	}
	for r := range e.Cells[policies[0]] {
		if !slices.ContainsFunc(policies, func(p int) bool { return e.Cells[p][r] == nil }) {
			reps = append(reps, r)
		}
	}
	return reps
}
