package ope

import (
	"encoding/json"
	"math"
	"time"
)

// Pair is an interval. An end that is not known is ±Inf, null in JSON.
type Pair [2]float64

// MarshalJSON implements json.Marshaler.
func (p Pair) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]*float64{real(p[0]), real(p[1])})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pair) UnmarshalJSON(b []byte) error {
	var x [2]*float64
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	*p = Pair{math.Inf(-1), math.Inf(1)}
	for i, v := range x {
		if v != nil {
			p[i] = *v
		}
	}
	return nil
}

// known reports whether both ends are.
func (p Pair) known() bool { return finite(p[0]) && finite(p[1]) }

// Result is the answer of an evaluation: the object of troupe evaluate --json. Keys never change meaning; what does
// not apply is null, and why says so.
type Result struct {
	Log         LogInfo      `json:"log"`
	Rewards     Pair         `json:"rewards"`
	Level       float64      `json:"level"`
	Q           string       `json:"q"`
	Assumptions Assumptions  `json:"assumptions"`
	Targets     []*Evaluated `json:"targets"`
	Candidates  *Candidates  `json:"candidates,omitempty"`
	Pairs       []Difference `json:"pairs,omitempty"`
	// Ranking is all targets by the value of their difference to what ran, the largest first; those with one value stand
	// as they were given.
	Ranking []string `json:"ranking,omitempty"`
	// Control compares the model that ran with its control group, nil for a log without one.
	Control *ControlResult `json:"control,omitempty"`
	// Coin says whether choosing pays, nil for a log without costs.
	Coin *CoinResult `json:"coin,omitempty"`
	// Propensities is the model of the logger where they are estimated.
	Propensities *Fitted  `json:"propensities,omitempty"`
	Warnings     []string `json:"warnings"`

	Actions []ActionSeen `json:"-"`
}

// LogInfo describes the log.
type LogInfo struct {
	Source    string         `json:"source"`
	Format    string         `json:"format"`
	Model     *string        `json:"model"`
	Events    int            `json:"events"`
	Presented float64        `json:"presented"` // Σ v: events before any were dropped
	Skipped   map[string]int `json:"skipped"`
	Pending   int            `json:"pending"`
	Actions   int            `json:"actions"`         // the largest number offered
	Names     []string       `json:"names,omitempty"` // of actions by their numbers, where a table has names
	Units     int            `json:"units,omitempty"` // that decisions were for, where the log has them
	First     *time.Time     `json:"first"`
	Last      *time.Time     `json:"last"`
	Adaptive  string         `json:"adaptive"` // yes, no, unknown
	Law       bool           `json:"law"`      // the logger's whole law is known for every event
}

// Assumptions names what the intervals rest on.
type Assumptions struct {
	Sequence string `json:"sequence"`
	Normal   string `json:"normal"`
	AtEnd    string `json:"at_end,omitempty"` // with Options.AtEnd
}

// MostRunning is of how many targets the estimates are followed through the log; of more they are not, because each
// point costs as much as some hundred decisions.
const MostRunning = 5

// Evaluated is what is known about one target.
type Evaluated struct {
	Name        string      `json:"name"`
	Learns      string      `json:"learns"` // no, log, replay
	Overlap     string      `json:"overlap"`
	Estimates   []Estimate  `json:"estimates"`
	Uplift      *Uplift     `json:"uplift"`
	Diagnostics Diagnostics `json:"diagnostics"`
	Heaviest    *Heaviest   `json:"heaviest"`
	Segments    *Segments   `json:"segments,omitempty"`
	Verdict     string      `json:"verdict"`
	// Contradicted is why the log cannot be what it says: actions came at rates that their propensities do not allow, or
	// the two sides of a sequence exclude each other. Then there is no verdict, no difference, and no interval.
	Contradicted *string `json:"contradicted"`

	// Sensitivity is there where propensities are estimated.
	Sensitivity *Sensitivity `json:"sensitivity,omitempty"`

	Untrue bool `json:"-"` // it is the propensities, and not the model or the range

	Running []Point `json:"-"` // with at most MostRunning targets
	Weights []Bin   `json:"-"`
	TopTen  float64 `json:"-"` // share of Σ w r of the ten largest
}

// Estimate is one row. Value is the plain estimate; it may leave the sequence, and Outside says so. Centre is the
// sequence's own point, which never does, and which is no estimate (Uplift.Centre).
type Estimate struct {
	Estimator string   `json:"estimator"`
	Value     *float64 `json:"value"`
	SE        *float64 `json:"se"`
	Normal    *Pair    `json:"normal"`
	Doubt     *string  `json:"doubt"` // why Normal, or Interval, covers less than it says; nil: nothing is known
	Sequence  *Pair    `json:"sequence"`
	AtEnd     *Pair    `json:"at_end,omitempty"` // for a number of events that was fixed beforehand (Options.AtEnd)
	Centre    *float64 `json:"centre"`
	Outside   bool     `json:"outside"`
	Interval  *Pair    `json:"interval"`
	Lower     *float64 `json:"lower"`
	Parameter *float64 `json:"parameter"`
	Chosen    *string  `json:"chosen"`
	Why       *string  `json:"why"`

	Grid   []float64 `json:"-"`
	Values []float64 `json:"-"`
	Widths []float64 `json:"-"`
	Beta   float64   `json:"-"`

	Contradicts bool `json:"-"` // the two sides of its sequence exclude each other
}

// Uplift is the difference between the target and what ran, paired on the same events.
type Uplift struct {
	// Value is Plain, moved to the nearest end of Sequence, or of AtEnd where that was asked for, if it lies outside.
	Value    *float64 `json:"value"`
	Sequence *Pair    `json:"sequence"`
	// AtEnd is for a number of events that was fixed beforehand, and a world that does not change (Options.AtEnd).
	AtEnd *Pair `json:"at_end,omitempty"`
	// Centre is the sequence's own point, where both of its sides have equal wealth. It is inside of Sequence and it is no
	// estimate of the difference: where the two sides are of different lengths it lies towards the longer one.
	Centre *float64 `json:"centre"`
	// Plain is the paired mean, SE and Normal belong to it. It may lie outside of Sequence; Why says so then.
	Plain  *float64 `json:"plain"`
	SE     *float64 `json:"se"`
	Normal *Pair    `json:"normal"`
	Doubt  *string  `json:"doubt"` // why Normal covers less than it says; nil: nothing is known
	// More is how many more decisions like these would settle what is too close to call: from, to. nil: no forecast.
	More     *[2]int `json:"more"`
	Marginal *Pair   `json:"marginal"` // a sequence under the law without the members of a decision (Options.Marginal)
	Why      *string `json:"why"`

	Contradicts bool `json:"-"` // the two sides of the sequence exclude each other
}

// Diagnostics says how far the log can speak about the target.
type Diagnostics struct {
	ESS          float64    `json:"ess"`
	ESSRewarded  float64    `json:"ess_rewarded"` // (Σ |w r|)²/Σ (w r)²
	WeightMean   float64    `json:"weight_mean"`
	WeightMax    float64    `json:"weight_max"`
	WeightZero   float64    `json:"weight_zero"`
	Unsupported  *float64   `json:"unsupported"`
	CalibrationZ []*float64 `json:"calibration_z"`
	// Marginal is there with Options.Marginal.
	Marginal *MarginalDiagnostics `json:"marginal"`
}

// Difference is the difference between two targets on the same events.
type Difference struct {
	First    string `json:"first"`
	Second   string `json:"second"`
	Sequence *Pair  `json:"sequence"` // at a level shared among the pairs
	Verdict  string `json:"verdict"`
}

// Point is the running estimate after n events.
type Point struct {
	N int
	// of dr, or ips without a model: the plain estimate, moved into the sequence where it lies outside; Shown(ESS) says
	// whether it may be drawn
	Value, Lo, Hi  float64
	ESS            float64
	NormLo, NormHi float64
	HasSequence    bool
}

// Bin counts weights in [Lo, 2^½ Lo); Lo = 0 are the weights that are zero.
type Bin struct {
	Lo float64
	N  int
}

// ActionSeen is what the log says of one action.
type ActionSeen struct {
	Name       string
	Played     int
	Reward, SE float64
	Promised   float64 // Σ v π_b
	Z          float64
	HasZ       bool
}
