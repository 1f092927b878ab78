package feature

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"troupe/spec"
)

// Format names this version of the encoding: what a schema of this format does with a request
// never changes.
const Format = "troupe.feature/1"

// Schema says which features there are and how they become numbers. See the package comment for
// the vector it describes.
type Schema struct {
	Format    string     `key:"format" doc:"the version of the encoding"`
	Model     string     `key:"model" doc:"shared: one parameter vector for all actions; disjoint: one for each action id"`
	Intercept bool       `key:"intercept" doc:"a coordinate that is always the same"`
	Unknown   string     `key:"unknown" doc:"features that the schema does not name: refuse, ignore, or hash (then declare context.* or action.*)"`
	Features  []Feature  `key:"features" doc:"in the order of their coordinates"`
	Crosses   [][]string `key:"crosses" doc:"pairs of names of features to multiply"`
}

// Feature is one row of a schema.
type Feature struct {
	Name      string  `key:"feature" doc:"context.…, action.…, or id; a name that ends in .* takes the rest below it"`
	Weight    float64 `key:"weight" doc:"how much of the unit ball it gets, relative to the others; 0 stands for 1"`
	Required  bool    `key:"required" doc:"refuse a request without it (otherwise a missing feature is zeros)"`
	CrossOnly bool    `key:"cross_only" doc:"it has no coordinates of its own, only in crosses"`
	Kind      Kind
}

// Doc says what a schema is, for listings.
func (*Schema) Doc() string { return "named features → vectors in the unit ball" }

func defaults() Schema {
	return Schema{Format: Format, Model: "shared", Intercept: true, Unknown: "refuse"}
}

// Parse reads a schema from JSON, strictly: an unknown key or kind, a key given twice, a wrong
// type are errors that name the place. It does not check the options against each other; New does.
func Parse(b []byte) (*Schema, error) {
	var r reader
	limits := Limits{Values: 1 << 16}.filled()
	if err := r.start(b, &limits); err != nil {
		return nil, err
	}
	v, err := r.tree("")
	if err == nil {
		err = r.end()
	}
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && e.Path == "" {
			e.Path = "schema"
		}
		return nil, err
	}
	return Decode(v, "")
}

// Decode reads a schema from a decoded JSON or TOML table found at path.
func Decode(v any, path string) (*Schema, error) {
	raw, ok := v.(spec.Raw)
	if !ok {
		return nil, spec.Errorf(path, "is %s, expected a table with features", spec.Show(v))
	}
	s := defaults()
	if err := spec.DecodeStruct(&s, raw, path); err != nil {
		return nil, err
	}
	return &s, nil
}

// DecodeSpec implements spec.Decoder.
func (f *Feature) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table such as {feature: %q, kind: %q}", spec.Show(v),
			"action.price", "number")
	}
	*f = Feature{Weight: 1}
	var common []string
	own := spec.Raw{}
	for _, o := range spec.Options(f) {
		common = append(common, o.Key)
		if v, ok := raw[o.Key]; ok {
			own[o.Key] = v
		}
	}
	if err := spec.DecodeStruct(f, own, path); err != nil {
		return err
	}
	if f.Weight <= 0 {
		return spec.Errorf(spec.Join(path, "weight"), "is %v, expected a positive number", f.Weight)
	}
	var err error
	f.Kind, err = spec.Decode(Kinds, raw, path, common...)
	return err
}

// ExpandSpec implements spec.Decoder: a schema has no sweeps.
func (f *Feature) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Canonical returns the one JSON text that stands for the schema: keys in alphabetical order,
// defaults left out, features in their order. Schemas with equal vectors may differ (a weight
// written otherwise), but schemas with equal canonical texts encode every request alike. It panics
// when a number is not finite; New refuses such a schema with an error.
func (s *Schema) Canonical() []byte {
	b, err := s.canonical()
	if err != nil {
		panic("feature: the schema has no canonical form: " + err.Error())
	}
	return b
}

func (s *Schema) canonical() ([]byte, error) {
	t := map[string]any{"format": s.Format, "model": s.Model, "intercept": s.Intercept, "unknown": s.Unknown}
	rows := make([]any, len(s.Features))
	for i, f := range s.Features {
		row := map[string]any{"feature": f.Name}
		if f.Weight != 0 && f.Weight != 1 {
			row["weight"] = f.Weight
		}
		if f.Required {
			row["required"] = true
		}
		if f.CrossOnly {
			row["cross_only"] = true
		}
		for kind, mk := range Kinds {
			if reflect.TypeOf(mk()) == reflect.TypeOf(f.Kind) {
				row["kind"] = kind
				addOptions(row, f.Kind, mk())
			}
		}
		rows[i] = row
	}
	t["features"] = rows
	if len(s.Crosses) > 0 {
		t["crosses"] = s.Crosses
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// addOptions adds the tagged fields of o that differ from those of std.
func addOptions(row map[string]any, o, std Kind) {
	v, d := reflect.ValueOf(o).Elem(), reflect.ValueOf(std).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("key")
		empty := v.Field(i).Kind() == reflect.Slice && v.Field(i).Len() == 0
		if !empty && !reflect.DeepEqual(v.Field(i).Interface(), d.Field(i).Interface()) {
			row[key] = v.Field(i).Interface()
		}
	}
}

// ID identifies the schema: the first 128 bits of the SHA-256 of its canonical text, in hex.
func (s *Schema) ID() string {
	h := sha256.Sum256(s.Canonical())
	return hex.EncodeToString(h[:16])
}

// MarshalJSON implements json.Marshaler: the canonical text.
func (s *Schema) MarshalJSON() ([]byte, error) { return s.canonical() }

// UnmarshalJSON implements json.Unmarshaler, as strictly as Parse.
func (s *Schema) UnmarshalJSON(b []byte) error {
	t, err := Parse(b)
	if err == nil {
		*s = *t
	}
	return err
}

// MaxDim is the largest d.
const MaxDim = 1024

// Encoder is a compiled schema. It never changes and is safe for concurrent use.
type Encoder struct {
	id       string
	limits   Limits
	dim      int
	base     int // dim of the shared vector
	scale    float64
	start    int // 1 with intercept
	columns  []column
	crosses  []cross
	context  side
	action   side
	ids      int // the column of the id, or -1
	disjoint bool
	phi      int // total width of the columns
	warnings []string
}

// column is a compiled feature.
type column struct {
	name     string
	label    []byte // name
	block    block
	weight   float64
	required bool
	seed     uint32
	from, to int // its block in phi
	at       int // its place in the shared vector, -1 for none
}

type cross struct{ a, b, at int } // columns, and the place in the shared vector

// side is what the names of the context, or of an action, mean.
type side struct {
	prefix  string
	columns []int // in the order of the schema; for an action the id is not among them
	// nodes maps a path to a column c ≥ 0, or to −1−k where the path is prefix number k of others.
	nodes    map[string]int
	prefixes int
	wild     map[string]int // from the path before .* to its column
	root     int            // the column that is the whole side, or -1
	refuse   bool           // unknown features are an error
}

// New compiles a schema. The error names the path of what is wrong in it.
func New(s *Schema, limits Limits) (*Encoder, error) {
	e := &Encoder{limits: limits.filled(), ids: -1, scale: 1}
	if s.Format != "" && s.Format != Format {
		return nil, spec.Errorf("format", "is %q, this version reads %q", s.Format, Format)
	}
	model, err := choice("model", s.Model, "shared", "disjoint")
	if err != nil {
		return nil, err
	}
	e.disjoint = model == 1
	unknown, err := choice("unknown", s.Unknown, "refuse", "ignore", "hash")
	if err != nil {
		return nil, err
	}
	e.context = side{prefix: "context", nodes: map[string]int{}, wild: map[string]int{}, root: -1, refuse: unknown != 1}
	e.action = side{prefix: "action", nodes: map[string]int{}, wild: map[string]int{}, root: -1, refuse: unknown != 1}
	byName := map[string]int{}
	for i, f := range s.Features {
		path := fmt.Sprintf("features[%d]", i)
		if !utf8.ValidString(f.Name) || len(f.Name) > maxName {
			return nil, spec.Errorf(path+".feature", "is %q, expected at most %d bytes of UTF-8",
				shorten([]byte(f.Name), 80), maxName)
		}
		if err := e.addColumn(f, path); err != nil {
			return nil, err
		}
		if _, twice := byName[f.Name]; twice {
			return nil, spec.Errorf(path+".feature", "is %q for the second time", f.Name)
		}
		byName[f.Name] = i
	}
	_, c := e.context.wild[""]
	_, a := e.action.wild[""]
	if (c || a) != (unknown == 2) {
		return nil, spec.Errorf("unknown", "is %q; hash goes with a feature context.* or action.* of kind hash, and "+
			"they with it", s.Unknown)
	}
	for _, sd := range []*side{&e.context, &e.action} {
		if sd.root >= 0 && len(sd.columns) > 1 {
			return nil, spec.Errorf(fmt.Sprintf("features[%d]", sd.root),
				"takes the whole %s as a vector; no other %s feature can be declared", sd.prefix, sd.prefix)
		}
	}
	if err := e.layout(s, byName); err != nil {
		return nil, err
	}
	e.id = s.ID()
	e.warn(s)
	return e, nil
}

// addColumn compiles feature f, declared at path.
func (e *Encoder) addColumn(f Feature, path string) error {
	if f.Kind == nil {
		return spec.Errorf(path, "has no kind; expected one of %s", strings.Join(spec.Names(Kinds), ", "))
	}
	b, err := f.Kind.compile()
	if err != nil {
		if se := (*spec.Error)(nil); errors.As(err, &se) {
			return &spec.Error{Path: spec.Join(path, se.Path), Msg: se.Msg}
		}
		return err
	}
	if b.width() > MaxDim {
		return spec.Errorf(path, "has %d coordinates, expected at most %d", b.width(), MaxDim)
	}
	c := column{name: f.Name, label: []byte(f.Name), block: b, weight: f.Weight, required: f.Required, at: -1}
	if c.weight == 0 {
		c.weight = 1
	}
	if !(c.weight >= 1e-6 && c.weight <= 1e6) {
		return spec.Errorf(path+".weight", "is %v, expected a number in [1e-6, 1e6]", f.Weight)
	}
	c.seed = murmur3([]byte(f.Name), 0)
	c.from, c.to = e.phi, e.phi+b.width()
	e.phi = c.to
	at := len(e.columns)
	e.columns = append(e.columns, c)
	return e.place(f, b, at, path+".feature")
}

// place notes which keys of a request lead to column at. name is the path of the feature's name.
func (e *Encoder) place(f Feature, b block, at int, name string) error {
	_, isVector := b.(*vector)
	_, isHash := b.(*namespace)
	from, rest, deeper := strings.Cut(f.Name, ".")
	var sd *side
	switch from {
	case "context":
		sd = &e.context
	case "action":
		sd = &e.action
	case "id":
		if _, ok := f.Kind.(*Category); !ok || deeper {
			return spec.Errorf(name, "is %q; the action's id is a category named id", f.Name)
		}
		e.ids = at
		return nil
	default:
		return spec.Errorf(name, "is %q, expected a name that begins with context. or action., or id", f.Name)
	}
	sd.columns = append(sd.columns, at)
	if !deeper {
		if !isVector {
			return spec.Errorf(name, "is %q; only a vector can be the whole %s", f.Name, from)
		}
		sd.root = at
		return nil
	}
	wild := rest == "*" || strings.HasSuffix(rest, ".*")
	if wild != isHash {
		return spec.Errorf(name, "is %q; names that end in .* and the kind hash go together", f.Name)
	}
	if wild {
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "*"), ".")
		sd.wild[rest] = at
		if rest == "" {
			return nil
		}
	}
	segments := strings.Split(rest, ".")
	for i, seg := range segments {
		if seg == "" || seg[0] == '_' || strings.ContainsAny(seg, "*") {
			return spec.Errorf(name, "is %q; the part %q is empty, begins with _ or has a *", f.Name, seg)
		}
		part := strings.Join(segments[:i+1], ".")
		node, known := sd.nodes[part]
		last := i == len(segments)-1 && !wild
		switch {
		case known && (last || node >= 0):
			if node < 0 {
				return spec.Errorf(name, "is %q, which is also the beginning of another feature's name", f.Name)
			}
			return spec.Errorf(name, "is %q; %q is a feature already", f.Name, e.columns[node].name)
		case last:
			sd.nodes[part] = at
		case !known:
			sd.prefixes++
			sd.nodes[part] = -sd.prefixes
		}
	}
	return nil
}

// layout gives every coordinate its place.
func (e *Encoder) layout(s *Schema, byName map[string]int) error {
	var total float64 // Σ of squared weights
	if s.Intercept {
		e.start, e.base, total = 1, 1, 1
	}
	for i, f := range s.Features {
		c := &e.columns[i]
		if f.CrossOnly || e.disjoint && i == e.ids {
			continue
		}
		c.at = e.base
		e.base += c.to - c.from
		total += float64(c.weight * c.weight)
	}
	used := make([]bool, len(e.columns))
	seen := map[cross]bool{}
	for i, pair := range s.Crosses {
		path := fmt.Sprintf("crosses[%d]", i)
		if len(pair) != 2 {
			return spec.Errorf(path, "has %d names, expected two", len(pair))
		}
		var x [2]int
		for j, name := range pair {
			c, ok := byName[name]
			if !ok {
				return spec.Errorf(fmt.Sprintf("%s[%d]", path, j), "is %q, which is not a feature of the schema%s",
					name, spec.Suggest(name, names(byName)))
			}
			if e.disjoint && c == e.ids {
				return spec.Errorf(fmt.Sprintf("%s[%d]", path, j),
					"is %q; in a disjoint model everything is crossed with the id", name)
			}
			x[j], used[c] = c, true
		}
		pairOf := cross{a: min(x[0], x[1]), b: max(x[0], x[1])}
		if x[0] == x[1] || seen[pairOf] {
			return spec.Errorf(path, "is %s × %s, expected two different features, each pair once", pair[0], pair[1])
		}
		seen[pairOf] = true
		a, b := e.columns[x[0]], e.columns[x[1]]
		e.crosses = append(e.crosses, cross{x[0], x[1], e.base})
		e.base += (a.to - a.from) * (b.to - b.from)
		total += float64(a.weight * a.weight * b.weight * b.weight)
	}
	for i, f := range s.Features {
		if f.CrossOnly && !used[i] {
			return spec.Errorf(fmt.Sprintf("features[%d].cross_only", i), "is true, but %s is in no cross", f.Name)
		}
	}
	e.dim = e.base
	if e.disjoint {
		if e.ids < 0 {
			return spec.Errorf("model", "is \"disjoint\"; declare the ids: {feature: \"id\", kind: \"category\", "+
				"levels: […]}")
		}
		c := e.columns[e.ids]
		if k, ok := c.block.(*category); ok && k.unseen == 1 {
			return spec.Errorf(fmt.Sprintf("features[%d].unseen", e.ids),
				"is \"ignore\"; in a disjoint model an unseen id would be the zero vector: refuse it or say other")
		}
		total *= c.weight * c.weight
		e.dim *= c.to - c.from
	}
	if e.dim < 1 {
		return spec.Errorf("features", "is empty and there is no intercept: the vectors have no coordinates")
	}
	if e.dim > MaxDim {
		return spec.Errorf("features", "give d = %d coordinates, expected at most %d: %s", e.dim, MaxDim, e.widths())
	}
	if total != 1 {
		e.scale = shave / math.Sqrt(total)
	}
	return nil
}

// widths says where the coordinates go, the widest first.
func (e *Encoder) widths() string {
	type part struct {
		name string
		n    int
	}
	var parts []part
	for _, c := range e.columns {
		if c.at >= 0 {
			parts = append(parts, part{c.name, c.to - c.from})
		}
	}
	for _, x := range e.crosses {
		a, b := e.columns[x.a], e.columns[x.b]
		parts = append(parts, part{a.name + " × " + b.name, (a.to - a.from) * (b.to - b.from)})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.n - a.n })
	var words []string
	for _, p := range parts[:min(len(parts), 4)] {
		words = append(words, fmt.Sprintf("%s has %d", p.name, p.n))
	}
	s := strings.Join(words, ", ")
	if e.disjoint {
		c := e.columns[e.ids]
		s += fmt.Sprintf("; all of them for each of %d ids", c.to-c.from)
	}
	return s
}

func names(m map[string]int) []string {
	var s []string
	for n := range m {
		s = append(s, n)
	}
	return s
}

// warn collects what a user should know about the schema.
func (e *Encoder) warn(s *Schema) {
	if e.disjoint {
		if c := e.columns[e.ids]; c.to-c.from == 1 {
			e.warnings = append(e.warnings, "there is one id: a disjoint model with one action has nothing to choose")
		}
		return
	}
	ofContext := func(i int) bool { return slices.Contains(e.context.columns, i) }
	helps := make([]bool, len(e.columns)) // it is in a cross that differs between actions
	some := false
	for _, x := range e.crosses {
		if !ofContext(x.a) || !ofContext(x.b) {
			helps[x.a], helps[x.b], some = true, true, true
		}
	}
	var idle []string
	for i, c := range e.columns {
		if !ofContext(i) {
			some = some || c.at >= 0
		} else if !helps[i] {
			idle = append(idle, c.name)
		}
	}
	if len(idle) > 0 {
		verb := "are"
		if len(idle) == 1 {
			verb = "is"
		}
		e.warnings = append(e.warnings, fmt.Sprintf("%s %s the same for every action of a request: in a shared model "+
			"that moves all scores alike and cannot change the ranking; cross with an action feature or the id, or "+
			"choose model = disjoint",
			strings.Join(idle, ", "), verb))
	}
	if !some {
		e.warnings = append(e.warnings, "no feature depends on the action: all actions of a request get the same "+
			"vector; declare action features, or the id")
	}
}

// Dim returns d, fixed when the schema was made.
func (e *Encoder) Dim() int { return e.dim }

// Scale returns s, the factor that brings the features into the unit ball.
func (e *Encoder) Scale() float64 { return e.scale }

// ID identifies the schema, see Schema.ID.
func (e *Encoder) ID() string { return e.id }

// Warnings says in words what a user should know, nil for nothing.
func (e *Encoder) Warnings() []string { return slices.Clone(e.warnings) }

// Coordinate names entry i of a vector, for instance "context.city=Oslo × action.price".
func (e *Encoder) Coordinate(i int) string {
	if i < 0 || i >= e.dim {
		panic("feature: no such coordinate")
	}
	if e.disjoint {
		c := e.columns[e.ids]
		return c.name + c.block.coordinate(i/e.base) + ": " + e.shared(i%e.base)
	}
	return e.shared(i)
}

func (e *Encoder) shared(i int) string {
	if i < e.start {
		return "intercept"
	}
	for _, c := range e.columns {
		if j := i - c.at; c.at >= 0 && 0 <= j && j < c.to-c.from {
			return c.name + c.block.coordinate(j)
		}
	}
	for k := len(e.crosses) - 1; k >= 0; k-- {
		if x := e.crosses[k]; i >= x.at {
			a, b := e.columns[x.a], e.columns[x.b]
			j := i - x.at
			n := b.to - b.from
			return a.name + a.block.coordinate(j/n) + " × " + b.name + b.block.coordinate(j%n)
		}
	}
	panic("feature: no such coordinate")
}
