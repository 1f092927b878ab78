package sim

import (
	"fmt"
	"slices"
)

// Manifest says what produced a result directory: manifest.json beside results.csv. results.csv is
// a function of the spec, the code and the architecture alone; everything that differs from run to
// run (times, number of workers) is here.
type Manifest struct {
	Troupe string `json:"troupe"` // version
	Commit string `json:"commit"` // VCS revision, "" when unknown
	Dirty  bool   `json:"dirty"`  // built from a modified tree
	// where the commit does not tell what ran (unknown, modified): a hash of the executable's build ID
	Build      string `json:"build,omitempty"`
	Go         string `json:"go"`      // go1.26.8
	OS         string `json:"os"`      // GOOS
	Arch       string `json:"arch"`    // GOARCH
	CPUs       int    `json:"cpus"`    //
	Command    string `json:"command"` // what was typed
	Experiment string `json:"experiment"`
	Hypothesis string `json:"hypothesis,omitempty"` // stated before the run
	Spec       string `json:"spec"`                 // the TOML text as run
	SpecSHA256 string `json:"spec_sha256"`
	Identity   string `json:"identity"` // hash of what the spec asks for, replications aside
	// what computed the cells, one a line: "engine 1"; a hash of the executable for outside kinds
	Program      string   `json:"program,omitempty"`
	Engine       int      `json:"engine,omitempty"` // of the binary that wrote this
	Seed         uint64   `json:"seed"`
	Horizon      int      `json:"horizon"`
	Episodic     bool     `json:"episodic,omitempty"` // agents played: a round is an episode
	Replications int      `json:"replications"`
	Workers      int      `json:"workers"`
	Started      string   `json:"started"` // RFC 3339
	Seconds      float64  `json:"seconds"` // wall time, all sessions of a run that was resumed
	Status       string   `json:"status"`  // Complete or Interrupted
	Cells        int      `json:"cells"`   // environment × policy × replication
	Done         int      `json:"done"`    // cells in results.csv
	ResultsSHA   string   `json:"results_sha256"`
	Record       []string `json:"record,omitempty"` // what diagnostics.csv holds
	// those of record that are of the program's own catalogue
	Recorders   []Quantity `json:"recorders,omitempty"`
	Diagnostics string     `json:"diagnostics_sha256,omitempty"` // of diagnostics.csv
	Values      string     `json:"values_sha256,omitempty"`      // of values.csv
	Reference   string     `json:"reference,omitempty"`          // the policy that others are compared with
	Estimand    string     `json:"estimand,omitempty"`           // what is compared; "" is the mean
	Claims      []Claim    `json:"claims,omitempty"`             // of the spec
	// Restated: estimand or claims were written when results were there already, so they were not fixed before the run.
	Restated bool `json:"restated,omitempty"`
	// Rounding lists what is in no verdict: the policy never leaves a proper subspace there in real
	// arithmetic, so its numbers are those of rounding errors (bandit.Confined).
	Rounding []Pair `json:"rounding,omitempty"`
	// Until is "settled" for a run that added replications until every pair of policies was settled: what was
	// seen decided their number, so only intervals that hold at every moment are right.
	Until string `json:"until,omitempty"`
	// LateReference: the reference was named when results were there already, so it was not stated
	// before the run.
	LateReference bool             `json:"late_reference,omitempty"`
	Shard         *ShardRow        `json:"shard,omitempty"` // of a part, which has no results
	Environments  []EnvironmentRow `json:"environments"`
	Policies      []PolicyRow      `json:"policies"`
	Notes         []string         `json:"notes,omitempty"` // warnings, rescalings
}

// Quantities lists what diagnostics.csv holds, in the order of its columns. An error names what is unknown.
func (m *Manifest) Quantities() ([]Quantity, error) {
	all := slices.Concat(Builtin, m.Recorders)
	var out []Quantity
	for i, name := range m.Record {
		at := slices.IndexFunc(all, func(q Quantity) bool { return q.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("record[%d]: is %q, which is no quantity of troupe and not among the recorders", i,
				name)
		}
		out = append(out, all[at])
	}
	return out, nil
}

// Pair names an environment and a policy.
type Pair struct {
	Environment string `json:"environment"`
	Policy      string `json:"policy"`
}

// EnvironmentRow is one environment after sweeps were multiplied out.
type EnvironmentRow struct {
	Name     string         `json:"name"`
	Kind     string         `json:"kind"`
	Options  map[string]any `json:"options"`            // as decoded, without kind and name
	Swept    []string       `json:"swept"`              // keys of Options that a sweep varies: "d", "set.arms"
	Feedback map[string]any `json:"feedback,omitempty"` // when rewards arrive; absent: at once
	Dim      int            `json:"dim"`
	Data     DataFile       `json:"data,omitzero"`
	// LargestRegret is what a round costs at most, in any replication; 0 where the environment knows no bound.
	LargestRegret float64 `json:"largest_regret,omitempty"`
	Horizon       int     `json:"horizon,omitempty"` // its own; 0: that of the run
	Seed          *uint64 `json:"seed,omitempty"`    // its own; absent: that of the run
}

// DataFile is a file that an environment reads.
type DataFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// PolicyRow is one policy after sweeps were multiplied out.
type PolicyRow struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind"`
	Options map[string]any `json:"options"`
	Swept   []string       `json:"swept"`
	// Defaults says in words what options stand for that the spec leaves out: lambda → 1.
	Defaults map[string]string `json:"defaults,omitempty"`
	Tuned    string            `json:"tuned,omitempty"` // where tuned values come from; "": the values were not tuned
	Rounds   int               `json:"rounds"`          // rounds played over all cells
	Seconds  float64           `json:"seconds"`         // a worker's time for these rounds, environment included
}

// Status of a run. A run that is under way, or was killed, has the status Interrupted.
const (
	Complete    = "complete"
	Interrupted = "interrupted"
)

// Unit is what a round of the run is called: round or episode.
func (m *Manifest) Unit() string {
	if m.Episodic {
		return "episode"
	}
	return "round"
}
