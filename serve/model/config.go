package model

import (
	"encoding/json"
	"fmt"
	"time"

	"troupe/budget"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/spec"
)

// Config is the configuration of a model: one [[model]] table of a TOML file, or one JSON
// object. An unknown key, a wrong type, a number that is not finite is an error that names the path
// (Decode, UnmarshalJSON). Default fills in what is absent.
type Config struct {
	ID            string      `key:"id" doc:"public name: letters, digits, . _ -, at most 64"`
	Policy        PolicySpec  `key:"policy" doc:"a policy table as in experiments, kind and options"`
	Features      FeatureSpec `key:"features" doc:"a schema of named features; without one any request is read"`
	Dim           int         `key:"dim" doc:"plain vectors of this length instead of features"`
	Sigma         float64     `key:"sigma" doc:"subgaussian constant of the noise, for policies that do not take it from the data; for auto its first guess" default:"half the range of rewards"`
	Floor         float64     `key:"floor" doc:"exploration floor ε: a uniform candidate with this probability, so that the log can evaluate other policies; at most 6 decimals"`
	Floors        Shares      `key:"floors" doc:"{ new = 0.05 }: an action is played with this probability at least whenever a request offers it, by id; at most 6 decimals"`
	Caps          Shares      `key:"caps" doc:"{ risky = 0.1 }: the largest probability of an action, by id. A request that offers only actions whose caps sum to less than 1 is refused"`
	Reward        Reward      `key:"reward" doc:"range, rule, window, default"`
	Rewards       Rewards     `key:"rewards" doc:"names of the rewards of a decision with their weights, { click = 1, revenue = 0.05 }: at most 8 names, weights from -1e6 to 1e6, not all 0. The model learns the weighted sum, whose range is reward.min and reward.max; they are fixed when it is made"`
	Budget        Budget      `key:"budget" doc:"what decisions may spend: { mean = 0.0005 } for each decision, or { total = 200 } for each day; every action then needs a cost"`
	Mode          string      `key:"mode" doc:"online, apprentice, shadow, frozen or guarded"`
	Guard         Guard       `key:"guard" doc:"{ margin = 0.02, confidence = 0.95 }, for mode guarded: the baseline is played until the policy can no longer earn less by more than the margin a decision"`
	Control       Control     `key:"control" doc:"{ share = 0.05, plays = \"uniform\" }: a share of the decisions in which the model does not choose, to compare with"`
	List          List        `key:"list" doc:"{ reward = \"list\" }: of decisions that are lists, one reward comes for the whole list; otherwise each position has its own"`
	Unit          string      `key:"unit" doc:"a path of the context, such as context.user.id: decisions with one value there play one member of the policy for a span. The log has a keyed hash of the value"`
	Actions       []Entry     `key:"actions" doc:"catalogue of actions with stable ids"`
	Numbers       Ranges      `key:"numbers" doc:"numbers that decisions play, at most 3: [{ name, min, max, step, cyclic, log }]; the first request that declares them fixes them"`
	Entered       []Entered   `key:"entered" doc:"actions that have entered since the model was made, or left; :enter and :leave write it"`
	LogCandidates string      `key:"log_candidates" doc:"full: keep every candidate's vector, so that a decision can be replayed; none"`

	noFloor bool     // Decode found none; see Keep
	said    spec.Raw // what Decode or Patch was given; see Lost
}

// open reports whether requests are read as they come, without a schema.
func (c *Config) open() bool { return c.Features.Schema == nil && c.Dim == 0 }

// Reward is the range of rewards and when they count.
type Reward struct {
	Min     float64  `key:"min" doc:"smallest reward"`
	Max     float64  `key:"max" doc:"largest reward"`
	Adapt   bool     `key:"adapt" doc:"a reward outside widens the range, for the policies effects, sparse and auto (with the linear link); otherwise it is refused. Without min and max it is true, with one of them false"`
	Rule    Rule     `key:"rule" doc:"first: the first one, at once; sum, last: all of the window, when it closes"`
	Window  Duration `key:"window" doc:"how long after the decision rewards count, such as 10m"`
	Default Maybe    `key:"default" doc:"reward of an event that got none in the window: a number; none: it teaches nothing; auto: none, until the data look as if only successes are sent, then min" default:"auto"`
}

// span describes the range.
func (r *Reward) span() string {
	if r.Adapt {
		return fmt.Sprintf("[%v, %v], which a reward outside of it widens", r.Min, r.Max)
	}
	return fmt.Sprintf("[%v, %v]", r.Min, r.Max)
}

// DecodeSpec implements spec.Decoder.
func (r *Reward) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table", spec.Show(v))
	}
	_, low := raw["min"]
	_, high := raw["max"]
	if low || high {
		r.Adapt = false
	}
	return spec.DecodeStruct(r, raw, path)
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (r *Reward) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Entry is one action of a catalogue.
type Entry struct {
	ID       string
	Features json.RawMessage // canonical JSON, may be empty
	Cost     *float64        // in units of money; nil: none is stated
	Numbers  []string        // names of the numbers that it plays: nil for all, empty for none
}

// DecodeSpec implements spec.Decoder.
func (e *Entry) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with id, features and cost", spec.Show(v))
	}
	for key := range raw {
		if key != "id" && key != "features" && key != "cost" && key != "numbers" {
			return spec.Errorf(spec.Join(path, key), "unknown key %q%s", key,
				spec.Suggest(key, []string{"id", "features", "cost", "numbers"}))
		}
	}
	id, ok := raw["id"].(string)
	if !ok || id == "" {
		return spec.Errorf(spec.Join(path, "id"), "expected a string that is not empty")
	}
	e.ID, e.Features = id, nil
	if f, ok := raw["features"]; ok {
		b, err := json.Marshal(f)
		if err != nil {
			return spec.Errorf(spec.Join(path, "features"), "is no JSON value: %v", err)
		}
		e.Features = b
	}
	e.Numbers = nil
	if v, ok := raw["numbers"]; ok {
		l, ok := v.([]any)
		e.Numbers = make([]string, len(l))
		for i := range l {
			if e.Numbers[i], ok = l[i].(string); !ok {
				break
			}
		}
		if !ok {
			return spec.Errorf(spec.Join(path, "numbers"), "is %s, expected a list of names of numbers", spec.Show(v))
		}
	}
	e.Cost = nil
	if v, ok := raw["cost"]; ok {
		c, ok := spec.Number(v)
		if !ok || budget.Cost(c) != nil {
			return spec.Errorf(spec.Join(path, "cost"), "is %s, expected a cost from 0 to %v", spec.Show(v), budget.Most)
		}
		c += 0 // −0 is 0
		e.Cost = &c
	}
	return nil
}

// ExpandSpec implements spec.Decoder: an entry has no sweeps.
func (e *Entry) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// DefaultFloor is the exploration floor of a model that names none.
const DefaultFloor = 0.01

// Default returns a model with a name. It reads any request, and its policy is effects; with a schema or with dim the
// policy is auto. Rewards lie in [0, 1] until one outside is seen; the
// first one within ten minutes counts. Admit writes out what is not set.
func Default(id string) Config {
	return Config{
		ID:            id,
		Floor:         DefaultFloor,
		Reward:        Reward{Min: 0, Max: 1, Adapt: true, Rule: First, Window: Duration(10 * time.Minute)},
		Mode:          string(Online),
		LogCandidates: "full",
	}
}

// Mode is what is played, the choice of the policy or a baseline, and whether the model learns.
type Mode string

const (
	Online     Mode = "online"     // the policy chooses, the model learns
	Apprentice Mode = "apprentice" // the caller's baseline is played, the model learns from it
	Shadow     Mode = "shadow"     // the caller's baseline is played, the model does not learn
	Frozen     Mode = "frozen"     // the policy chooses, the model does not learn
	Guarded    Mode = "guarded"    // the policy chooses where that cannot break the margin, else the caller's baseline is played
)

// Modes are the modes that a configuration or a request may name, as the log records them.
var Modes = map[Mode]eventlog.Mode{
	Online: eventlog.Online, Apprentice: eventlog.Apprentice, Shadow: eventlog.Shadow, Frozen: eventlog.Frozen,
	Guarded: eventlog.Online, // or Apprentice: what was played
}

// CheckMode refuses a mode that a request may not name; an empty one is that of the model.
func CheckMode(m Mode) error {
	if _, ok := Modes[m]; !ok && m != "" {
		return Invalid("mode", m, "expected online, apprentice, shadow, frozen or guarded")
	}
	return nil
}

// Limits bound what a configuration, and a request for a decision, may ask for.
type Limits struct {
	Members int            // m of an ensemble
	Feature feature.Limits // of a request; its encoder is made with them
	Work    time.Duration  // of the trial of a configuration, 0 for no limit
}

// The most that Limits.Feature may allow.
const (
	MaxActions = 100_000
	MaxBytes   = 64 << 20
)
