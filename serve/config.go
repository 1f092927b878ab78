package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// ModelConfig is the configuration of a model: one [[model]] table of a TOML file, or one JSON
// object. An unknown key, a wrong type, a number that is not finite is an error that names the path
// (DecodeModel, UnmarshalJSON). DefaultConfig fills in what is not said.
type ModelConfig struct {
	ID            string       `key:"id" doc:"public name: letters, digits, . _ -, at most 64"`
	Policy        PolicySpec   `key:"policy" doc:"a policy table as in experiments, kind and options"`
	Features      FeatureSpec  `key:"features" doc:"a schema of named features, or { learn = true } to learn one from the first request"`
	Dim           int          `key:"dim" doc:"plain vectors of this length instead of features"`
	Sigma         float64      `key:"sigma" doc:"subgaussian constant of the noise" default:"half the range of rewards"`
	Floor         float64      `key:"floor" doc:"exploration floor ε: a uniform candidate with this probability; at most 6 decimals"`
	Reward        RewardConfig `key:"reward" doc:"range, rule, window, default"`
	Mode          string       `key:"mode" doc:"online, apprentice, shadow or frozen"`
	Actions       []Entry      `key:"actions" doc:"catalogue of actions with stable ids"`
	LogCandidates string       `key:"log_candidates" doc:"full: keep every candidate's vector, so that a decision can be replayed; none"`
}

// RewardConfig says what rewards are and when they count.
type RewardConfig struct {
	Min     float64  `key:"min" doc:"smallest reward"`
	Max     float64  `key:"max" doc:"largest reward"`
	Rule    string   `key:"rule" doc:"first: the first one, at once; sum, last: all of the window, when it closes"`
	Window  Duration `key:"window" doc:"how long after the decision rewards count, such as 10m"`
	Default Maybe    `key:"default" doc:"reward of an event that got none in the window" default:"none"`
}

// DecodeSpec implements spec.Decoder.
func (r *RewardConfig) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table", spec.Show(v))
	}
	return spec.DecodeStruct(r, raw, path)
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (r *RewardConfig) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Entry is one action of a catalogue.
type Entry struct {
	ID       string
	Features json.RawMessage // canonical JSON, may be empty
}

// DefaultConfig returns a model with a name: the practical ensemble on features that are learned
// from the first request, rewards in [−1, 1], the first one within ten minutes counts.
func DefaultConfig(id string) ModelConfig {
	return ModelConfig{
		ID:            id,
		Policy:        PolicySpec{Raw: spec.Raw{"kind": "ensemble"}, Options: policy.Kinds["ensemble"]()},
		Reward:        RewardConfig{Min: -1, Max: 1, Rule: "first", Window: Duration(10 * time.Minute)},
		Mode:          string(Online),
		LogCandidates: "full",
	}
}

// DecodeModel reads a configuration from a decoded TOML or JSON table found at path.
func DecodeModel(v any, path string) (ModelConfig, error) {
	c := DefaultConfig("")
	raw, ok := v.(spec.Raw)
	if !ok {
		return c, spec.Errorf(path, "is %s, expected a table", spec.Show(v))
	}
	if err := spec.DecodeStruct(&c, raw, path); err != nil {
		return c, err
	}
	return c, nil
}

// UnmarshalJSON implements json.Unmarshaler, strictly.
func (c *ModelConfig) UnmarshalJSON(b []byte) error {
	v, err := decodeJSON(b)
	if err != nil {
		return err
	}
	d, err := DecodeModel(v, "")
	if err == nil {
		*c = d
	}
	return err
}

// MarshalJSON implements json.Marshaler: one text for one configuration, defaults included.
func (c ModelConfig) MarshalJSON() ([]byte, error) {
	out := map[string]any{
		"id": c.ID, "policy": c.Policy.Raw, "mode": c.Mode, "floor": c.Floor, "log_candidates": c.LogCandidates,
		"reward": map[string]any{"min": c.Reward.Min, "max": c.Reward.Max, "rule": c.Reward.Rule, "window": c.Reward.Window},
	}
	if c.Reward.Default.Set {
		out["reward"].(map[string]any)["default"] = c.Reward.Default.Value
	}
	if c.Sigma != 0 {
		out["sigma"] = c.Sigma
	}
	switch {
	case c.Dim != 0:
		out["dim"] = c.Dim
	case c.Features.Schema != nil:
		out["features"] = c.Features.Schema
	default:
		out["features"] = map[string]any{"learn": true}
	}
	if len(c.Actions) > 0 {
		rows := make([]map[string]any, len(c.Actions))
		for i, a := range c.Actions {
			rows[i] = map[string]any{"id": a.ID}
			if len(a.Features) > 0 {
				rows[i]["features"] = a.Features
			}
		}
		out["actions"] = rows
	}
	return json.Marshal(out)
}

// decodeJSON reads one JSON value as package spec wants it: whole numbers as int64.
func decodeJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return plain(v)
}

func plain(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plain(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// PolicySpec is a policy table: as it was written, and decoded.
type PolicySpec struct {
	Raw     spec.Raw
	Options policy.Options
}

// DecodeSpec implements spec.Decoder.
func (p *PolicySpec) DecodeSpec(v any, path string) (err error) {
	if p.Options, err = spec.DecodeTable(policy.Kinds, v, path); err == nil {
		p.Raw = v.(spec.Raw)
	}
	return err
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (p *PolicySpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (p *PolicySpec) String() string { return `{ kind = "ensemble" }` }

// FeatureSpec is a schema. Without one the model learns it from its first request.
type FeatureSpec struct{ Schema *feature.Schema }

// DecodeSpec implements spec.Decoder.
func (f *FeatureSpec) DecodeSpec(v any, path string) (err error) {
	if raw, ok := v.(spec.Raw); ok && raw["learn"] != nil {
		if len(raw) != 1 || raw["learn"] != true {
			return spec.Errorf(spec.Join(path, "learn"), "expected { learn = true } and nothing else")
		}
		f.Schema = nil
		return nil
	}
	f.Schema, err = feature.Decode(v, path)
	return err
}

// ExpandSpec implements spec.Decoder: a schema has no sweeps.
func (f *FeatureSpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (f *FeatureSpec) String() string { return "{ learn = true }" }

// DecodeSpec implements spec.Decoder.
func (e *Entry) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with id and features", spec.Show(v))
	}
	for key := range raw {
		if key != "id" && key != "features" {
			return spec.Errorf(spec.Join(path, key), "unknown key %q%s", key, spec.Suggest(key, []string{"id", "features"}))
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
	return nil
}

// ExpandSpec implements spec.Decoder: an entry has no sweeps.
func (e *Entry) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Duration is a time.Duration, written like 1h30m or, as in ISO 8601, PT1H30M.
type Duration time.Duration

// DecodeSpec implements spec.Decoder.
func (d *Duration) DecodeSpec(v any, path string) error {
	s, ok := v.(string)
	if !ok {
		return spec.Errorf(path, "is %s, expected a duration such as 10m or PT10M", spec.Show(v))
	}
	text := s
	if iso, ok := strings.CutPrefix(s, "PT"); ok {
		text = strings.ToLower(iso)
	}
	x, err := time.ParseDuration(text)
	if err != nil {
		return spec.Errorf(path, "is %q, expected a duration such as 10m or PT10M", s)
	}
	*d = Duration(x)
	return nil
}

// ExpandSpec implements spec.Decoder: a duration has no sweeps.
func (d *Duration) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Maybe is a number that may be absent.
type Maybe struct {
	Set   bool
	Value float64
}

// DecodeSpec implements spec.Decoder.
func (m *Maybe) DecodeSpec(v any, path string) error {
	x, ok := spec.Number(v)
	if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
		return spec.Errorf(path, "is %s, expected a finite number", spec.Show(v))
	}
	*m = Maybe{true, x}
	return nil
}

// ExpandSpec implements spec.Decoder: a reward has no sweeps.
func (m *Maybe) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (m *Maybe) String() string { return "none" }

const (
	floorDen  = 1_000_000
	maxText   = 256 // bytes of an id or a key from outside
	maxWindow = 30 * 24 * time.Hour
)

// isName reports whether s is a name: up to 64 letters, digits, '.', '_' and '-', the first a letter or a digit.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && (c == '.' || c == '_' || c == '-')) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

const wantName = "expected 1 to 64 letters, digits and . _ - that begin with a letter or a digit"

// Check looks at a configuration as CreateModel would, with the default limits. The error is an *Error
// with the field.
func (c ModelConfig) Check() error {
	var o Options
	o.defaults()
	_, err := c.admit(o.Limits)
	return err
}

// logged is compile for a configuration in a log of version 1, where an absent option of the policy has the
// default of that time.
func (c ModelConfig) logged() (*compiled, error) {
	if err := c.Policy.fill(policy.Version1); err != nil {
		return nil, err
	}
	return c.compile(foldLimits)
}

// fill replaces the table by complete(table).
func (p *PolicySpec) fill(complete func(spec.Raw) spec.Raw) error {
	raw := complete(p.Raw)
	if len(p.Raw) == 0 || sameJSON(raw, p.Raw) {
		return nil
	}
	if err := p.DecodeSpec(raw, "policy"); err != nil {
		return configError("config", err)
	}
	return nil
}

// keep takes the model's own table for one that says the same: an absent option has the default of today, or
// that of the time when the model was made.
func (p *PolicySpec) keep(own PolicySpec) {
	if sameJSON(policy.Written(p.Raw), own.Raw) || sameJSON(policy.Version1(p.Raw), own.Raw) {
		*p = own
	}
}

// admit is compile for a configuration that comes from outside. It refuses, beside what compile does,
// what would only fail at a decision; logs have such configurations, and the fold must read them. It writes
// out the options of the policy whose defaults have changed since version 1 of the log.
func (c ModelConfig) admit(limits Limits) (*compiled, error) {
	if err := c.Policy.fill(policy.Written); err != nil {
		return nil, err
	}
	out, err := c.compile(limits)
	if err != nil {
		return nil, err
	}
	if out.encoder == nil { // the features are not known yet, but a law is there or not in any dimension
		guess := *out
		guess.dim = 2
		var e *Error
		if err := guess.tryPolicy(); errors.As(err, &e) && e.Field == "config.policy.kind" {
			return nil, err
		}
		return out, nil
	}
	return out, out.tryCatalogue()
}

// tryCatalogue encodes the features of the catalogue: the schema refuses them now or at each decision.
func (c *compiled) tryCatalogue() error {
	b := feature.NewBatch(c.encoder)
	for i, a := range c.config.Actions {
		if b.Begin(nil) != nil {
			return nil // the context has features that are required
		}
		if c.config.Dim != 0 && len(a.Features) == 0 {
			return invalid(fmt.Sprintf("config.actions[%d].features", i), a.ID, "is missing, expected a list of %d numbers", c.dim)
		}
		if err := b.Add(a.ID, a.Features); err != nil {
			e := requestError(err).(*Error)
			e.Field = strings.Replace(e.Field, "actions[0]", fmt.Sprintf("config.actions[%d]", i), 1)
			return e
		}
	}
	return nil
}

// compiled is a configuration that was checked, ready for use. It never changes.
type compiled struct {
	config             ModelConfig
	encoder            *feature.Encoder // nil until the schema is learned
	dim                int
	floorNum, floorDen uint64
	catalogue          map[string]int // id → place in config.Actions
	json               []byte         // of config
	warnings           []string
}

// compile checks a configuration. The error is an *Error with the field.
func (c ModelConfig) compile(limits Limits) (*compiled, error) {
	if !isName(c.ID) {
		return nil, invalid("config.id", c.ID, wantName)
	}
	if c.Reward.Min >= c.Reward.Max || c.Reward.Max-c.Reward.Min > math.MaxFloat64/4 {
		return nil, invalid("config.reward.min", c.Reward.Min, "expected less than max, which is %v", c.Reward.Max)
	}
	if d := c.Reward.Default; d.Set && (d.Value < c.Reward.Min || d.Value > c.Reward.Max) {
		return nil, invalid("config.reward.default", d.Value, "expected a number in [%v, %v]", c.Reward.Min, c.Reward.Max)
	}
	if r := c.Reward.Rule; r != "first" && r != "sum" && r != "last" {
		return nil, invalid("config.reward.rule", r, "expected first, sum or last")
	}
	if w := time.Duration(c.Reward.Window); w <= 0 || w > maxWindow {
		return nil, invalid("config.reward.window", w, "expected more than 0 and at most %v", maxWindow)
	}
	if _, ok := modes[Mode(c.Mode)]; !ok {
		return nil, invalid("config.mode", c.Mode, "expected online, apprentice, shadow or frozen")
	}
	if c.LogCandidates != "full" && c.LogCandidates != "none" {
		return nil, invalid("config.log_candidates", c.LogCandidates, "expected full or none")
	}
	if c.Sigma < 0 || c.Sigma-c.Sigma != 0 {
		return nil, invalid("config.sigma", c.Sigma, "expected a positive number")
	}
	out := &compiled{config: c, catalogue: map[string]int{}}
	parts := math.Round(c.Floor * floorDen)
	if !(c.Floor >= 0 && c.Floor <= 1) || math.Abs(c.Floor*floorDen-parts) > 1e-6 {
		return nil, invalid("config.floor", c.Floor, "expected a number in [0, 1] with at most 6 decimals")
	}
	g := gcd(uint64(parts), floorDen)
	out.floorNum, out.floorDen = uint64(parts)/g, floorDen/g
	for i, a := range c.Actions {
		field := fmt.Sprintf("config.actions[%d].id", i)
		if _, twice := out.catalogue[a.ID]; twice {
			return nil, invalid(field, a.ID, "is in the catalogue twice")
		}
		if err := checkID(field, a.ID); err != nil {
			return nil, err
		}
		out.catalogue[a.ID] = i
	}
	if m := most(c.Policy.Raw, "m"); m > float64(limits.Members) {
		return nil, invalid("config.policy.m", m, "expected at most %d", limits.Members)
	}
	schema := c.Features.Schema
	switch {
	case c.Dim != 0 && schema != nil:
		return nil, invalid("config.dim", c.Dim, "expected either dim or features")
	case c.Dim < 0 || c.Dim > feature.MaxDim:
		return nil, invalid("config.dim", c.Dim, "expected 1 to %d", feature.MaxDim)
	case c.Dim != 0:
		schema = vectorSchema(c.Dim)
	}
	if schema != nil {
		e, err := feature.New(schema, limits.Feature)
		if err != nil {
			return nil, configError("config.features", err)
		}
		out.encoder, out.dim = e, e.Dim()
		out.warnings = e.Warnings()
		if err := out.tryPolicy(); err != nil {
			return nil, err
		}
	}
	var err error
	if out.json, err = c.MarshalJSON(); err != nil {
		return nil, invalid("config", "", "has no JSON form: %v", err)
	}
	if len(out.json) > maxConfig {
		return nil, invalid("config", len(out.json), "expected a configuration of at most %d bytes", maxConfig)
	}
	return out, nil
}

// maxConfig leaves room for the rest of a control record in a batch.
const maxConfig = 512 << 10

// vectorSchema is the schema that passes plain vectors of the unit ball on as they are.
func vectorSchema(d int) *feature.Schema {
	return &feature.Schema{
		Format: feature.Format, Model: "shared", Unknown: "refuse",
		Features: []feature.Feature{{Name: "action", Weight: 1, Kind: &feature.Vector{Size: d, Bound: 1, Outside: "refuse"}}},
	}
}

// configError gives the error of a decoder or a constructor its place.
func configError(path string, err error) *Error {
	e := &Error{Code: Invalid, Field: path, Want: err.Error(), Err: err}
	var se *spec.Error
	if errors.As(err, &se) {
		e.Field, e.Want = spec.Join(path, se.Path), se.Msg
	}
	return e
}

// ConfigError turns an error of DecodeModel or UnmarshalJSON into one of code Invalid.
func ConfigError(err error) *Error { return configError("config", err) }

// problem is what the policy knows.
func (c *compiled) problem(key rng.Key) policy.Problem {
	sigma := c.config.Sigma
	if sigma == 0 {
		sigma = (c.config.Reward.Max - c.config.Reward.Min) / 2
	}
	return policy.Problem{Dim: c.dim, Sigma: sigma, Init: key.Stream(rng.Init)}
}

// learner is what a server needs of a policy.
type learner interface {
	bandit.Policy
	bandit.Prober
	bandit.Snapshotter
}

// newPolicy builds the policy of a model with this seed, before its first event.
func (c *compiled) newPolicy(seed rng.Key) (learner, error) {
	p, err := c.config.Policy.Options.New(c.problem(seed))
	if err != nil {
		return nil, configError("config.policy", err)
	}
	if l, ok := p.(learner); ok {
		return l, nil
	}
	kind := c.config.Policy.Raw["kind"]
	if _, ok := p.(bandit.Prober); !ok {
		return nil, invalid("config.policy.kind", kind, "%s", lawless(p))
	}
	return nil, invalid("config.policy.kind", kind, "a %T is not kept as bytes (bandit.Snapshotter), so its state would not survive a restart", p)
}

// lawless says why a policy that cannot state its law is refused, and what to use instead.
func lawless(p bandit.Policy) string {
	return fmt.Sprintf("a %T cannot state its law (bandit.Prober): it draws from a continuous law, the probability of an action is an "+
		"integral without a closed form, and a server records exact propensities; use ensemble or atoms, whose laws are counts of members", p)
}

// tryPolicy refuses a policy that cannot state its law, or cannot be kept, before anybody relies on
// it.
func (c *compiled) tryPolicy() error {
	p, err := c.newPolicy(rng.NewKey(0))
	if err != nil {
		return err
	}
	block := make([]float64, 2*c.dim)
	block[0], block[c.dim] = 0.5, -0.5
	set, err := actionset.FiniteOf(c.dim, block)
	if err != nil {
		return configError("config.policy", err)
	}
	var law bandit.Law
	if err := p.Prob(&law, set, rng.Source{}); err != nil {
		return invalid("config.policy.kind", c.config.Policy.Raw["kind"], "it cannot state its law (bandit.Prober): %v; use ensemble", err)
	}
	if _, err := p.AppendSnapshot(nil); err != nil {
		return invalid("config.policy.kind", c.config.Policy.Raw["kind"], "it is not kept as bytes (bandit.Snapshotter): %v", err)
	}
	if w, ok := p.(bandit.Warner); ok {
		c.warnings = append(slices.Clip(c.warnings), w.Warnings(set)...)
	}
	return nil
}

// sameShape says in words what of the configuration may not change, empty when nothing did.
func (c *compiled) sameShape(n *compiled) error {
	switch {
	case c.config.ID != n.config.ID:
		return invalid("config.id", n.config.ID, "cannot change from %q", c.config.ID)
	case !sameJSON(c.config.Policy.Raw, n.config.Policy.Raw):
		return invalid("config.policy", "", "cannot change; make another model")
	case c.dim != 0 && (n.encoder == nil || c.encoder.ID() != n.encoder.ID()):
		return invalid("config.features", "", "cannot change; make another model")
	case c.problem(rng.Key{}).Sigma != n.problem(rng.Key{}).Sigma:
		return invalid("config.sigma", n.config.Sigma, "cannot change (it is half the range of rewards unless it is set)")
	}
	return nil
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// most returns the largest number under a key anywhere in a table.
func most(raw spec.Raw, key string) float64 {
	var m float64
	for k, v := range raw {
		if sub, ok := v.(spec.Raw); ok {
			m = max(m, most(sub, key))
		} else if x, ok := spec.Number(v); ok && k == key {
			m = max(m, x)
		}
	}
	return m
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
