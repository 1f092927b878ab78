package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"troupe/env"
	"troupe/internal/infer"
	"troupe/policy"
	"troupe/spec"
)

// Limits of one experiment. They keep a slip of the finger from filling the memory.
const (
	maxHorizon      = 1_000_000_000_000
	maxReplications = 10_000_000
	maxCases        = 10_000      // environments, and policies, after sweeps
	maxRows         = 200_000_000 // lines of results.csv, and numbers of diagnostics.csv
	maxName         = 120         // characters of a name
	maxHypothesis   = 2_000       // characters of a hypothesis
)

// Experiment is a decoded spec file.
type Experiment struct {
	Name         string
	Hypothesis   string // what its author expects, stated before the run; "" for none
	Seed         uint64
	Horizon      int
	Replications int
	Checkpoints  []int    // increasing, the last is Horizon
	Record       []string // quantities to write to diagnostics.csv, in the order of Catalogue.Quantities
	Reference    string   // the policy that the others are compared with, "" for none
	Until        string   // Settled for RunFor to stop when every pair is told apart, otherwise ""
	Estimand     string   // the number of a policy that the report compares; "" for the mean
	Claims       []Claim  // what its author expects, as comparisons that are tested
	Environments []Case[env.Options]
	Policies     []Case[policy.Options]
	Text         string // the TOML it was read from

	// Stream tells the random numbers of one use of an experiment from those of another with the same
	// seed: tuning and the run that reports. "" is the stream of a run.
	Stream string

	src    *spec.File
	kinds  Catalogue // as Parse got it
	bound  Catalogue // its nested tables know it
	stated bool      // the spec says the horizon
}

// Case is one [[environment]] or [[policy]] table after sweeps were multiplied out.
type Case[T any] struct {
	Name    string
	Kind    string
	Options T
	Table   spec.Raw  // as written, sweeps resolved, without kind and name
	Swept   []string  // keys of Table that a sweep varies: "m", "scale.value"
	Late    *Feedback // environments: when rewards arrive; nil for at once
	LateRaw spec.Raw  // the same as written
	Own               // environments: their own horizon and seed
	Tune    spec.Raw  // policies: the grid of troupe tune, values by key of Table; nil without one
	Tuned   string    // policies: where tuned values come from; "" for values that were not tuned

	path   string         // policy[1]
	chosen []spec.Setting // what the sweep chose
	named  bool           // the file gives a name
}

// PolicyCase and EnvironmentCase are the cases of an experiment.
type (
	PolicyCase      = Case[policy.Options]
	EnvironmentCase = Case[env.Options]
)

// header is the part of a spec outside the tables.
type header struct {
	Name         string   `key:"name" doc:"name of the experiment; default: the file's name"`
	Hypothesis   string   `key:"hypothesis" doc:"what is expected, stated before the run"`
	Seed         int      `key:"seed" doc:"seed of all random numbers"`
	Horizon      int      `key:"horizon" doc:"rounds T of a replication; episodes where agents play"`
	Replications int      `key:"replications" doc:"independent repetitions"`
	Checkpoints  []int    `key:"checkpoints" doc:"rounds to record; default: about 15 in a decade, and T; for episodes those that bsuite logs"`
	Record       []string `key:"record" doc:"what else to record (troupe list record)"`
	Until        string   `key:"until" doc:"settled: replications are added until every pair of policies is told apart by intervals that hold at every moment; replications is then the most"`
	Reference    string   `key:"reference" doc:"name of the policy that the report compares the others with"`
	Estimand     string   `key:"estimand" doc:"what the report compares: mean, median, cvar-5 (the mean of the worst 5%), lost (the share of runs whose regret stays linear)"`
}

// Settled is the word of the option until.
const Settled = "settled"

// Keys lists the options of a spec file outside its tables.
func Keys() []spec.Option { return spec.Options(defaults()) }

// CaseKeys lists the keys that every [[environment]], [[policy]] or [[agent]] table can have, beside the options of its
// kind.
func CaseKeys(table string) []spec.Option {
	keys := []spec.Option{
		{Key: "kind", Type: "string", Doc: "what it is: one of troupe list " +
			map[string]string{"environment": "environments", "policy": "policies", "agent": "agents"}[table]},
		{Key: "name", Type: "string", Doc: "what tables and figures call it, and its value in results.csv",
			Default: "the kind, with the options that differ"},
	}
	switch table {
	case "environment":
		return append(keys, spec.Option{Key: "feedback", Type: "table",
			Doc: "rewards that arrive late or in batches: { delay = { kind = \"geometric\", mean = 100 } }, { batch " +
				"= 64 }, or both"},
			spec.Option{Key: "horizon", Type: "int", Doc: "rounds of this environment", Default: "that of the experiment"},
			spec.Option{Key: "seed", Type: "int", Doc: "seed of this environment", Default: "that of the experiment"}, zipKey)
	case "policy", "agent":
		return append(keys,
			spec.Option{Key: "tune", Type: "table",
				Doc: "options that troupe tune chooses, each with the values to try: { lambda = [0.1, 1.0] }"},
			spec.Option{Key: "tuned", Type: "string",
				Doc: "where tuned values come from; troupe tune writes it, and the page shows it"}, zipKey)
	}
	panic("sim: no table [[" + table + "]]")
}

func defaults() *header {
	return &header{Seed: 1, Horizon: 10_000, Replications: 50, Estimand: infer.Mean.String()}
}

// Parse decodes a spec file, strictly. file is its name in messages, and the experiment's name when
// the text gives none. Faults are *spec.FileError.
func Parse(file, text string, kinds Catalogue) (*Experiment, error) {
	tree, src, err := spec.ReadFile(file, text)
	if err != nil {
		return nil, err
	}
	bound := kinds.bind()
	x, err := decode(tree, bound)
	if err != nil {
		return nil, src.Locate(err)
	}
	if x.Name == "" {
		x.Name = strings.TrimSuffix(path.Base(strings.ReplaceAll(file, `\`, "/")), ".toml")
	}
	x.Text, x.src, x.kinds, x.bound = text, src, kinds, bound
	decoder{x}.locate(file)
	return x, nil
}

func decode(tree spec.Raw, kinds Catalogue) (*Experiment, error) {
	h := defaults()
	stated := tree["horizon"] != nil
	if err := inherit(tree); err != nil {
		return nil, err
	}
	if err := spec.DecodeStruct(h, tree, "", "environment", "policy", "agent", "claim"); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		key             string
		value, low, top int
	}{
		{"seed", h.Seed, 0, math.MaxInt64},
		{"horizon", h.Horizon, 1, maxHorizon},
		{"replications", h.Replications, 1, maxReplications},
	} {
		if c.value < c.low || c.value > c.top {
			return nil, spec.Errorf(c.key, "is %d, expected a whole number from %d to %d", c.value, c.low, c.top)
		}
	}
	if tree["name"] != nil {
		if err := checkName(h.Name, "name"); err != nil {
			return nil, err
		}
	}
	if tree["hypothesis"] != nil {
		if err := checkHypothesis(h.Hypothesis); err != nil {
			return nil, err
		}
	}
	x := &Experiment{Name: h.Name, Hypothesis: h.Hypothesis, Seed: uint64(h.Seed), Horizon: h.Horizon,
		Replications: h.Replications, stated: stated}

	var err error
	if err := (decoder{x}).tables(tree, kinds); err != nil {
		return nil, err
	}
	decoder{x}.settleHorizons()
	given := tree["checkpoints"] != nil
	if x.Checkpoints, err = checkpoints(h.Checkpoints, x.Horizon, given); err != nil {
		return nil, err
	}
	if x.Record, err = kinds.checkRecord(h.Record); err != nil {
		return nil, err
	}
	if x.Episodic() {
		if !given {
			x.Checkpoints = episodeCheckpoints(x.Horizon)
		}
		if tree["record"] == nil && x.graded() {
			x.Record = []string{"solved"}
		}
	}
	decoder{x}.ownCheckpoints(h.Checkpoints, given)
	if x.Until = h.Until; tree["until"] != nil && x.Until != Settled {
		return nil, spec.Errorf("until", "is %q, expected %q", x.Until, Settled)
	}
	if x.Reference = h.Reference; tree["reference"] != nil {
		names := make([]string, len(x.Policies))
		for i, c := range x.Policies {
			names[i] = c.Name
		}
		if !slices.Contains(names, x.Reference) {
			return nil, spec.Errorf("reference", "is %q, which is no policy of this experiment%s", x.Reference,
				spec.Suggest(x.Reference, names))
		}
	}
	if err := (decoder{x}).question(h, tree); err != nil {
		return nil, err
	}
	if rows := float64(x.Cells()) * float64(len(x.Checkpoints)) * float64(1+len(kinds.columns(x.Record))); rows > maxRows {
		return nil, spec.Errorf("replications", "is %d, which makes %.3g numbers of results, more than %d",
			x.Replications, rows, maxRows)
	}
	return x, nil
}

// decoder reads the tables of a spec into an experiment. No experiment that it has left changes.
type decoder struct{ x *Experiment }

// tables decodes the environments and what plays in them.
func (d decoder) tables(tree spec.Raw, kinds Catalogue) (err error) {
	if err := kinds.sorted(tree); err != nil {
		return err
	}
	if tree["agent"] != nil {
		return d.episodes(tree, kinds)
	}
	if d.x.Environments, err = decodeCases(tree, "environment", kinds.Environments); err != nil {
		return err
	}
	d.x.Policies, err = decodeCases(tree, "policy", kinds.Policies)
	return err
}

// checkpoints returns the rounds to record. The horizon is always one of them.
func checkpoints(stated []int, horizon int, given bool) ([]int, error) {
	if !given {
		return Checkpoints(horizon), nil
	}
	at := slices.Clone(stated)
	for i, t := range at {
		if t < 1 || t > horizon || i > 0 && t <= at[i-1] {
			return nil, spec.Errorf(spec.Element("checkpoints", i),
				"is %d, expected rounds in increasing order from 1 to the horizon %d", t, horizon)
		}
	}
	if len(at) == 0 || at[len(at)-1] != horizon {
		at = append(at, horizon)
	}
	return at, nil
}

// Cells returns the number of environment × policy × replication.
func (x *Experiment) Cells() int { return len(x.Environments) * len(x.Policies) * x.Replications }

// decodeCases decodes the tables [[key]]: sweeps are multiplied out, then each table is decoded
// and named.
func decodeCases[T spec.Documented](tree spec.Raw, key string, kinds spec.Registry[T]) ([]Case[T], error) {
	v, ok := tree[key]
	if !ok {
		return nil, spec.Errorf("", "no [[%s]] table; an experiment has at least one", key)
	}
	tables, ok := v.([]any)
	if !ok || len(tables) == 0 {
		return nil, spec.Errorf(key, "is %s, expected tables [[%s]]", spec.Show(v), key)
	}
	var cases []Case[T]
	for i, t := range tables {
		at := spec.Element(key, i)
		table, ok := t.(spec.Raw)
		if !ok {
			return nil, spec.Errorf(at, "is %s, expected a table [[%s]]", spec.Show(t), key)
		}
		name, err := givenName(table, at)
		if err != nil {
			return nil, err
		}
		common := []string{"name"}
		var grid spec.Raw
		var tuned string
		if key == "environment" {
			common = append(common, ownKeys...)
		}
		if key == "policy" || key == "agent" {
			common = append(common, "tune", "tuned")
			if grid, err = tuneGrid(table, at); err != nil {
				return nil, err
			}
			if tuned, err = tunedFrom(table, at); err != nil {
				return nil, err
			}
		}
		choices, err := expandTable(kinds, table, at, key)
		if err != nil {
			return nil, err
		}
		if len(cases)+len(choices) > maxCases {
			return nil, spec.Errorf(at, "the sweeps make more than %d cases of [[%s]]", maxCases, key)
		}
		for _, choice := range choices {
			c := Case[T]{Name: name, named: name != "", path: at, chosen: choice.Swept, Swept: []string{}, Tune: grid,
				Tuned: tuned}
			raw := choice.Value.(spec.Raw)
			if key == "environment" {
				if c.Late, c.LateRaw, err = feedbackOf(raw, at); err != nil {
					return nil, err
				}
				if c.Own, err = ownOf(raw, at); err != nil {
					return nil, err
				}
			}
			if c.Options, err = spec.Decode(kinds, raw, at, common...); err != nil {
				return nil, err
			}
			c.Kind = raw["kind"].(string)
			c.Table = make(spec.Raw)
			for k, v := range raw {
				if k != "kind" && !slices.Contains(common, k) {
					c.Table[k] = v
				}
			}
			for _, s := range c.chosen {
				c.Swept = append(c.Swept, s.Key)
			}
			cases = append(cases, c)
		}
	}
	return cases, nameCases(cases, key)
}

// tuneGrid returns the values that troupe tune tries, by option.
func tuneGrid(table spec.Raw, at string) (spec.Raw, error) {
	v, ok := table["tune"]
	if !ok {
		return nil, nil
	}
	at = spec.Join(at, "tune")
	grid, ok := v.(spec.Raw)
	if !ok || len(grid) == 0 {
		return nil, spec.Errorf(at, "is %s, expected a table of lists such as { scale = [0.5, 1.0] }", spec.Show(v))
	}
	for k, v := range grid {
		_, isTable := v.(spec.Raw)
		if list, isList := v.([]any); !isTable && (!isList || len(list) == 0) {
			return nil, spec.Errorf(spec.Join(at, k), "is %s, expected a list of values, or a table with one",
				spec.Show(v))
		}
	}
	return grid, nil
}

func tunedFrom(table spec.Raw, at string) (string, error) {
	v, ok := table["tuned"]
	if !ok {
		return "", nil
	}
	text, ok := v.(string)
	if !ok || strings.TrimSpace(text) == "" || !utf8.ValidString(text) ||
		utf8.RuneCountInString(text) > maxHypothesis || strings.ContainsFunc(text,
		func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", spec.Errorf(spec.Join(at, "tuned"), "is %s, expected a line that says where the values come from",
			spec.Show(v))
	}
	return text, nil
}

func givenName(table spec.Raw, at string) (string, error) {
	v, ok := table["name"]
	if !ok {
		return "", nil
	}
	name, ok := v.(string)
	if !ok {
		return "", spec.Errorf(spec.Join(at, "name"), "is %s, expected a string", spec.Show(v))
	}
	return name, checkName(name, spec.Join(at, "name"))
}

// checkName accepts what can be a cell of a table and a line of a listing.
func checkName(name, at string) error {
	switch {
	case strings.TrimSpace(name) == "" || strings.TrimSpace(name) != name:
		return spec.Errorf(at, "is %q, expected a name without spaces around it", name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return spec.Errorf(at, "is %q, expected printable characters", name)
	case utf8.RuneCountInString(name) > maxName:
		return spec.Errorf(at, "is %d characters long, expected at most %d", utf8.RuneCountInString(name), maxName)
	}
	return nil
}

// checkHypothesis accepts a few sentences: lines of printable characters.
func checkHypothesis(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return spec.Errorf("hypothesis", "is blank, expected a sentence that the results can contradict")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' &&
			!unicode.IsPrint(r)
	}):
		return spec.Errorf("hypothesis", "is %.80q, expected printable characters", text)
	case utf8.RuneCountInString(text) > maxHypothesis:
		return spec.Errorf("hypothesis", "is %d characters long, expected at most %d", utf8.RuneCountInString(text),
			maxHypothesis)
	}
	return nil
}

// nameCases gives every case the name it has in results.csv: the file's name for it, else its
// kind; then in parentheses what a sweep chose, and for unnamed cases also the settings in which
// the unnamed cases of the same kind differ: es(m=8), ensemble(m=32, targets=gaussian). Numbers
// are shown with four digits, or in full where four make two names equal. Two cases of one name
// are refused.
func nameCases[T any](cases []Case[T], key string) error {
	given := make([]string, len(cases))
	for i := range cases {
		given[i] = cases[i].Name
	}
	for _, digits := range []int{4, -1} {
		twice := -1
		taken := make(map[string]bool)
		differing := differences(cases)
		for i := range cases {
			cases[i].Name = given[i]
			cases[i].label(differing[cases[i].Kind], digits)
			if taken[cases[i].Name] && twice < 0 {
				twice = i
			}
			taken[cases[i].Name] = true
		}
		if twice < 0 {
			return nil
		}
		if digits < 0 {
			at := cases[twice].path
			if cases[twice].named {
				at = spec.Join(at, "name")
			}
			return spec.Errorf(at, "two cases of [[%s]] are called %q; give them different names", key,
				cases[twice].Name)
		}
	}
	return nil
}

// differences lists for each kind the settings in which its unnamed cases differ.
func differences[T any](cases []Case[T]) map[string][]string {
	first := make(map[string]map[string]any)
	found := make(map[string]map[string]bool)
	for _, c := range cases {
		if c.named {
			continue
		}
		table := flatten(c.Table)
		if first[c.Kind] == nil {
			first[c.Kind], found[c.Kind] = table, make(map[string]bool)
		}
		for k, v := range table {
			if w, ok := first[c.Kind][k]; !ok || show(v, -1) != show(w, -1) {
				found[c.Kind][k] = true
			}
		}
		for k := range first[c.Kind] {
			if _, ok := table[k]; !ok {
				found[c.Kind][k] = true
			}
		}
	}
	out := make(map[string][]string)
	for kind, keys := range found {
		out[kind] = slices.Sorted(maps.Keys(keys))
	}
	return out
}

// label completes the name of a case.
func (c *Case[T]) label(differing []string, digits int) {
	var keys []string
	values := make(map[string]string)
	add := func(k string, v any) {
		if parent, text, ok := scaleName(c.Table, k, digits); ok {
			k, v = parent, text
		}
		if _, ok := values[k]; !ok {
			keys = append(keys, k)
			if values[k] = show(v, digits); k == "feedback" {
				values[k] = feedbackText(v)
			}
		}
	}
	for _, s := range c.chosen {
		add(s.Key, s.Value)
	}
	if !c.named {
		c.Name = c.Kind
		table := flatten(c.Table)
		for _, k := range differing {
			if v, ok := table[k]; ok {
				add(k, v)
			}
		}
	}
	if len(keys) > 0 {
		c.Name += "(" + settings(keys, values) + ")"
	}
}

// scaleName returns the path and the name of the scale that the setting at path is part of: 0.3β for
// { kind = "beta", value = 0.3 }, 0.3β̃ for betatilde. ok is false when the setting is of no such table.
func scaleName(table spec.Raw, path string, digits int) (parent, text string, ok bool) {
	v := any(table)
	for part := range strings.SplitSeq(path, ".") {
		t, isTable := v.(spec.Raw)
		if !isTable {
			return "", "", false
		}
		if kind, found := scaleKind(t); found && (part == "kind" || part == "value") {
			return parent, scaleText(kind, t, digits), true
		}
		parent, v = spec.Join(parent, part), t[part]
	}
	if t, isTable := v.(spec.Raw); isTable {
		if kind, found := scaleKind(t); found {
			return parent, scaleText(kind, t, digits), true
		}
	}
	return "", "", false
}

// scaleKind returns the kind of a table such as { kind = "beta", value = 0.3 }.
func scaleKind(t spec.Raw) (kind string, ok bool) {
	if t == nil {
		return "", false
	}
	kind, _ = t["kind"].(string)
	_, hasValue := t["value"]
	return kind, (kind == "beta" || kind == "betatilde" || kind == "constant") &&
		(len(t) == 1 || len(t) == 2 && hasValue)
}

func scaleText(kind string, t spec.Raw, digits int) string {
	letter := map[string]string{"beta": "β", "betatilde": "β̃"}[kind]
	v, ok := t["value"]
	if !ok {
		return letter
	}
	return show(v, digits) + letter
}

// settings writes m=8, scale=0.3β. A nested setting goes by its last key, or by the table's when
// the last is kind or value; by its whole path when that is not unique.
func settings(keys []string, values map[string]string) string {
	short := make([]string, len(keys))
	count := make(map[string]int)
	for i, k := range keys {
		parts := strings.Split(k, ".")
		last := parts[len(parts)-1]
		if len(parts) > 1 && (last == "kind" || last == "value") {
			last = parts[len(parts)-2]
		}
		short[i] = last
		count[last]++
	}
	var out []string
	for i, k := range keys {
		if count[short[i]] > 1 {
			short[i] = k
		}
		out = append(out, short[i]+"="+values[k])
	}
	return strings.Join(out, ", ")
}

// OptionText writes the value of an option as names of policies do: 0.3β for
// { kind = "beta", value = 0.3 }, kind(a=1, b=2) for other tables, four digits.
func OptionText(v any) string {
	t, ok := v.(spec.Raw)
	if !ok {
		return show(v, 4)
	}
	kind, isScale := scaleKind(t)
	if isScale {
		return scaleText(kind, t, 4)
	}
	var in []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		if k != "kind" {
			in = append(in, k+"="+OptionText(t[k]))
		}
	}
	if in != nil {
		kind += "(" + strings.Join(in, ", ") + ")"
	}
	return kind
}

// flatten lists the settings of a table by their path.
func flatten(table spec.Raw) map[string]any {
	out := make(map[string]any)
	for k, v := range table {
		if t, ok := v.(spec.Raw); ok {
			for sub, s := range flatten(t) {
				out[spec.Join(k, sub)] = s
			}
			continue
		}
		out[k] = v
	}
	return out
}

// show prints a setting as it appears in a name; digits limits those of a number, -1 means all.
func show(v any, digits int) string {
	switch v := v.(type) {
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return strconv.Quote(v)
		}
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', digits, 64)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// blame puts the place of a table in front of an error that its content caused.
func (x *Experiment) blame(path, who string, err error) error {
	var fault *spec.Error
	if errors.As(err, &fault) { // its path is relative to the table
		path = spec.Join(path, fault.Path)
		if fault.Want == "" {
			return x.src.Locate(&spec.Error{Path: path, Msg: fault.Msg})
		}
	}
	line, column := x.src.At(path)
	return &spec.FileError{File: x.src.Name, Line: line, Column: column, Msg: who + ": " + err.Error(), Path: path}
}
