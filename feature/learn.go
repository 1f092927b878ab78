package feature

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sample is one request to learn a schema from.
type Sample struct {
	Context json.RawMessage
	Actions []SampleAction
}

// SampleAction is one action of a Sample.
type SampleAction struct {
	ID       string
	Features json.RawMessage
}

// LearnOptions bounds what Learn proposes. A zero field stands for its default.
type LearnOptions struct {
	MaxDim    int    // d: 256
	MaxLevels int    // values that get a coordinate each: 32; more are hashed
	Limits    Limits // as in New
}

// Proposal is a schema with the reasons for each choice, in the order of the schema.
type Proposal struct {
	Schema  *Schema
	Reasons []Reason
}

// Reason says why a feature or a cross is in the schema as it is, or why it is not.
type Reason struct {
	Feature string // a name, or two with × between
	Words   string
	Lacks   bool // the requests have it, and the schema does not, or less of it
}

// Learn proposes a schema from a sample of requests. Equal samples give equal proposals, in any
// order of the requests. Every request of the sample can be encoded with the schema; a fault in
// one of them is an error that says which.
//
// The rules: numbers are a number whose range is the range of the sample, widened by half its
// width on both sides (or [0, 1] or [−1, 1] when the sample lies inside), values outside are
// clamped; numbers of a field called id are a category; true and false are a boolean; lists of
// numbers of one length are a vector; strings of three words and more are text; strings that
// repeat are a category with the levels seen and one more coordinate for others; other strings
// are a category in hashed buckets. Eight and more values that are all the same, or strings that
// are all different, teach nothing and are left out. The id of the actions is a feature when ids
// repeat, or when actions have no features. Every context feature is crossed with every action
// feature, the smallest crosses first, as long as d stays below the maximum, and is left out when
// no cross fits. Features that the sample does not have are ignored later.
func Learn(samples []Sample, o LearnOptions) (*Proposal, error) {
	if o.MaxDim == 0 {
		o.MaxDim = 256
	}
	if o.MaxDim < 8 || o.MaxDim > MaxDim {
		return nil, fmt.Errorf("feature: the largest dimension is %d, expected 8 to %d", o.MaxDim, MaxDim)
	}
	if o.MaxLevels <= 0 {
		o.MaxLevels = 32
	}
	l := learner{options: o, limits: o.Limits.filled(), context: map[string]*observed{}, action: map[string]*observed{}}
	for i, s := range samples {
		if err := l.observe(s); err != nil {
			return nil, fmt.Errorf("sample[%d].%w", i, err)
		}
	}
	if l.actions == 0 {
		return nil, errors.New("feature: the sample has no actions to learn from")
	}
	p := l.propose()
	if len(p.Schema.Features) == 0 {
		words := "it has neither features nor ids"
		for i, r := range p.Reasons[:len(p.Reasons)-1] {
			if i == 0 {
				words = ""
			}
			words += "\n" + r.Feature + ": " + r.Words
		}
		return nil, errors.New("feature: nothing to learn from the sample: " + words)
	}
	e, err := New(p.Schema, o.Limits)
	if err != nil {
		return nil, err
	}
	b := NewBatch(e)
	for i, s := range samples {
		err := b.Begin(s.Context)
		for _, a := range s.Actions {
			if err == nil {
				err = b.Add(a.ID, a.Features)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("sample[%d].%w", i, err)
		}
	}
	return p, nil
}

type learner struct {
	options         LearnOptions
	limits          Limits
	requests        int
	actions         int
	context, action map[string]*observed
	ids             observed
	features        []Feature
	reasons         []Reason
}

// observed is what the sample holds at one path.
type observed struct {
	numbers, strings, booleans int // outside lists and inside
	lists, words, present      int
	size                       int // of all lists, −1 when they differ
	min, max, norm             float64
	values                     map[string]int // label → how often
	object                     bool           // something stands below it
}

func (o *observed) count(label string) {
	if o.values == nil {
		o.values = map[string]int{}
	}
	o.values[label]++
}

func (l *learner) observe(s Sample) error {
	l.requests++
	if err := l.side(l.context, s.Context, "context"); err != nil {
		return err
	}
	for i, a := range s.Actions {
		l.actions++
		if a.ID != "" {
			if !utf8.ValidString(a.ID) {
				return &Error{Code: Value, Path: "actions[" + strconv.Itoa(i) + "].id", Problem: notUTF8}
			}
			l.ids.present++
			l.ids.count(a.ID)
		}
		if err := l.side(l.action, a.Features, "actions["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

// side observes the value of a context or of an action.
func (l *learner) side(into map[string]*observed, b []byte, path string) error {
	var r reader
	err := r.start(b, &l.limits)
	var v any
	if err == nil && !r.empty() {
		if v, err = r.tree(path); err == nil {
			err = r.end()
		}
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Path == "" {
		e.Path = path
	}
	if err != nil {
		return err
	}
	if x, ok := l.vector(v); ok {
		at(into, "").list(x)
		return nil
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		return l.table(into, v, "")
	case []any:
		for i, e := range v {
			t, ok := e.(map[string]any)
			if !ok {
				return &Error{Code: Value, Path: path + "[" + strconv.Itoa(i) + "]",
					Problem: "expected an object with named features"}
			}
			if err := l.table(into, t, ""); err != nil {
				return err
			}
		}
	default:
		return &Error{Code: Value, Path: path, Problem: "expected an object with named features"}
	}
	return nil
}

// vector recognises a list of numbers and packed numbers.
func (l *learner) vector(v any) ([]float64, bool) {
	switch v := v.(type) {
	case []any:
		var x []float64
		for _, e := range v {
			switch n := e.(type) {
			case int64:
				x = append(x, float64(n))
			case float64:
				x = append(x, n)
			default:
				return nil, false
			}
		}
		return x, len(x) > 0
	case map[string]any:
		if len(v) != 3 || v["dtype"] == nil || v["shape"] == nil || v["data"] == nil {
			return nil, false
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, false
		}
		x, _, cols, err := Unpack(nil, b, l.limits)
		return x, err == nil && cols == 0
	}
	return nil, false
}

func (l *learner) table(into map[string]*observed, t map[string]any, path string) error {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if key[0] == '_' {
			continue
		}
		p := join(path, key)
		if x, ok := l.vector(t[key]); ok {
			at(into, p).list(x)
			continue
		}
		switch v := t[key].(type) {
		case map[string]any:
			at(into, p).object = true
			if err := l.table(into, v, p); err != nil {
				return err
			}
		case []any:
			at(into, p).lists++
			at(into, p).present++
			at(into, p).size = -1
			for _, e := range v {
				at(into, p).scalar(e)
			}
		default:
			if v != nil {
				at(into, p).present++
			}
			at(into, p).scalar(v)
		}
	}
	return nil
}

func at(into map[string]*observed, path string) *observed {
	o := into[path]
	if o == nil {
		o = &observed{min: math.Inf(1), max: math.Inf(-1)}
		into[path] = o
	}
	return o
}

func (o *observed) list(x []float64) {
	o.present++
	if o.lists++; o.lists == 1 {
		o.size = len(x)
	} else if o.size != len(x) {
		o.size = -1
	}
	var most, q float64
	for _, v := range x {
		most = max(most, math.Abs(v))
		o.scalar(v)
	}
	for _, v := range x {
		if most > 0 {
			v /= most
			q += float64(v * v)
		}
	}
	o.norm = max(o.norm, most*math.Sqrt(q))
}

func (o *observed) scalar(v any) {
	switch v := v.(type) {
	case string:
		o.strings++
		words(nil, []byte(v), func([]byte, int, int) { o.words++ })
		o.count(v)
	case bool:
		o.booleans++
		o.count(strconv.FormatBool(v))
	case int64:
		o.numbers++
		o.min, o.max = min(o.min, float64(v)), max(o.max, float64(v))
		o.count(strconv.FormatInt(v, 10))
	case float64:
		o.numbers++
		o.min, o.max = min(o.min, v), max(o.max, v)
		o.count(strconv.FormatFloat(v, 'g', -1, 64))
	}
}

func (l *learner) because(name, format string, args ...any) {
	l.reasons = append(l.reasons, Reason{Feature: name, Words: fmt.Sprintf(format, args...)})
}

// lacks is because for what the requests have and the schema does not.
func (l *learner) lacks(name, format string, args ...any) {
	l.because(name, format, args...)
	l.reasons[len(l.reasons)-1].Lacks = true
}

func (l *learner) propose() *Proposal {
	l.choose("context", l.context)
	contexts := len(l.features)
	l.choose("action", l.action)
	l.chooseID(len(l.features) > contexts)
	s := &Schema{Format: Format, Model: "shared", Intercept: true, Unknown: "ignore", Features: l.features}
	// A schema that is one plain vector passes it on as it is.
	if len(s.Features) == 1 && s.Features[0].Name == "action" {
		s.Intercept = false
	}
	l.cross(s, l.fit(s, contexts))
	l.because("unknown", "features that the sample does not have are ignored")
	return &Proposal{Schema: s, Reasons: l.reasons}
}

// choose gives every path of a side its kind.
func (l *learner) choose(prefix string, side map[string]*observed) {
	_, whole := side[""]
	for path, o := range side { // a.b may also be spelled as one key
		for i := range path {
			if up := side[path[:i]]; path[i] == '.' && up != nil && (o.present > 0 || o.object) {
				up.object = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(side)) {
		o := side[path]
		name := prefix
		if path != "" {
			name += "." + path
		}
		switch {
		case o.object:
			if o.present > 0 {
				l.lacks(name, "left out: sometimes a value, sometimes an object")
			}
			continue
		case whole && path != "":
			l.lacks(name, "left out: other requests give the whole %s as a vector", prefix)
			continue
		case o.present == 0 || len(o.values) == 0:
			l.lacks(name, "left out: always null or empty")
			continue
		case strings.Contains(name, "*") || slices.ContainsFunc(strings.Split(path, "."),
			func(s string) bool { return path != "" && (s == "" || s[0] == '_') }):
			l.lacks(name, "left out: a name with * or with an empty part cannot be declared")
			continue
		}
		if k := l.kind(name, path, o); k != nil {
			l.features = append(l.features, Feature{Name: name, Weight: 1, Kind: k})
		}
	}
}

// kind chooses how the values of one path become numbers and says why. nil: not at all.
func (l *learner) kind(name, path string, o *observed) Kind {
	distinct, total := len(o.values), o.numbers+o.strings+o.booleans
	if distinct == 1 && total >= 8 {
		l.lacks(name, "left out: all %d values are the same", total)
		return nil
	}
	if total == o.numbers && o.lists == 0 && !isID(path) {
		lo, hi, how := widen(o.min, o.max)
		l.because(name, "number: %d values between %v and %v, %s [%v, %v]; later values outside are clamped", total,
			o.min, o.max, how, lo, hi)
		return &Number{Range: []float64{lo, hi}, Outside: "clamp"}
	}
	if total == o.numbers && o.lists == o.present && o.size > 0 {
		if o.size > l.options.MaxDim {
			l.lacks(name, "left out: lists of %d numbers, d is to be at most %d", o.size, l.options.MaxDim)
			return nil
		}
		bound := 1.0
		if o.norm > 1+1e-6 {
			bound = min(math.Exp2(math.Ceil(math.Log2(o.norm))), math.MaxFloat64)
		}
		l.because(name, "vector: %d lists of %d numbers, the longest has norm %.4g; bound %v, later ones outside are "+
			"clamped", o.lists, o.size, o.norm, bound)
		return &Vector{Size: o.size, Bound: bound, Outside: "clamp"}
	}
	if path == "" {
		l.lacks(name, "left out: lists of different lengths")
		return nil
	}
	if total == o.booleans && o.lists == 0 {
		l.because(name, "boolean: %d values", total)
		return &Boolean{}
	}
	if total == o.strings && o.words >= 3*total && distinct > 1 {
		l.because(name, "text: %d strings with %.1f words on average", total, float64(o.words)/float64(total))
		return &Text{Buckets: 32, Bigrams: true}
	}
	if distinct == total && total >= 8 {
		l.lacks(name, "left out: all %d values are different, like those of an identifier; what never comes again "+
			"teaches nothing", total)
		return nil
	}
	return l.category(name, o.values, total)
}

func (l *learner) category(name string, values map[string]int, total int) Kind {
	distinct := len(values)
	if distinct <= l.options.MaxLevels && (total >= 2*distinct || distinct <= 2) {
		l.because(name, "category: %d values are %d levels; later ones share one more coordinate", total, distinct)
		return &Category{Levels: slices.Sorted(maps.Keys(values)), Unseen: "other"}
	}
	buckets := 8
	for buckets < 2*distinct && buckets < 64 {
		buckets *= 2
	}
	l.because(name, "category, hashed: %d values of which %d are different, in %d buckets", total, distinct, buckets)
	return &Category{Buckets: buckets, Unseen: "refuse"}
}

// isID: the last part of the path says that numbers are names. It is a proposal for a person, which says why, and no value
// of the sample could tell an id from a count.
func isID(path string) bool {
	last := path[strings.LastIndexByte(path, '.')+1:]
	return last == "id" || last == "ID" || strings.HasSuffix(last, "_id") || strings.HasSuffix(last, "Id") ||
		strings.HasSuffix(last, "ID")
}

// widen proposes the range of a number seen between lo and hi.
func widen(lo, hi float64) (float64, float64, string) {
	switch {
	case lo >= 0 && hi <= 1:
		return 0, 1, "inside"
	case lo >= -1 && hi <= 1:
		return -1, 1, "inside"
	case lo < -1e300 || hi > 1e300:
		return -8e307, 8e307, "inside the widest range"
	case lo == hi:
		a := math.Exp2(math.Ceil(math.Log2(2 * math.Abs(lo))))
		return -a, a, "one value only: the symmetric range"
	}
	half := float64((hi - lo) / 2)
	return lo - half, hi + half, "widened by half their width to"
}

func (l *learner) chooseID(haveFeatures bool) {
	distinct := len(l.ids.values)
	switch {
	case l.ids.present < l.actions:
		if l.ids.present > 0 {
			l.lacks("id", "left out: %d of %d actions have no id", l.actions-l.ids.present, l.actions)
		}
	case haveFeatures && (l.ids.present < 2*distinct || distinct > l.options.MaxLevels):
		l.lacks("id", "left out: %d different ids among %d actions, which have features", distinct, l.ids.present)
	default:
		l.features = append(l.features, Feature{Name: "id", Weight: 1,
			Kind: l.category("id", l.ids.values, l.ids.present)})
	}
}

// fit makes hashed features smaller, the widest first, until the features without crosses fit and
// leave half of the coordinates for crosses where there are any to come. When there is nothing left
// to halve, the widest features are left out. It returns how many context features remain.
func (l *learner) fit(s *Schema, contexts int) int {
	room := l.options.MaxDim
	if contexts > 0 && contexts < len(s.Features) {
		room /= 2
	}
	for {
		total := 0
		if s.Intercept {
			total = 1
		}
		most, widest := 0, 0          // of all
		buckets, at := (*int)(nil), 0 // of the widest that can be halved
		for i, f := range s.Features {
			w := widthOf(f)
			total += w
			if w > most {
				most, widest = w, i
			}
			var b *int
			switch k := f.Kind.(type) {
			case *Category:
				b = &k.Buckets
			case *Text:
				b = &k.Buckets
			}
			if b != nil && *b > 1 && (buckets == nil || *b > *buckets) {
				buckets, at = b, i
			}
		}
		switch {
		case total <= room || len(s.Features) == 0:
			return contexts
		case buckets != nil:
			*buckets /= 2
			l.lacks(s.Features[at].Name, "only %d buckets, so that d stays at most %d with the crosses", *buckets,
				l.options.MaxDim)
		default:
			l.lacks(s.Features[widest].Name, "left out: its %d coordinates do not fit into d = %d with the others",
				most, l.options.MaxDim)
			s.Features = slices.Delete(s.Features, widest, widest+1)
			if widest < contexts {
				contexts--
			}
		}
	}
}

func widthOf(f Feature) int {
	b, err := f.Kind.compile()
	if err != nil {
		panic("feature: Learn proposed a kind that does not compile: " + err.Error())
	}
	return b.width()
}

// cross multiplies context features with action features, the smallest products first, and leaves
// out the context features that got no cross: they could not change a ranking.
func (l *learner) cross(s *Schema, contexts int) {
	dim := 0
	if s.Intercept {
		dim = 1
	}
	for _, f := range s.Features {
		dim += widthOf(f)
	}
	type pair struct{ c, a, width int }
	var pairs []pair
	for c := range contexts {
		for a := contexts; a < len(s.Features); a++ {
			pairs = append(pairs, pair{c, a, widthOf(s.Features[c]) * widthOf(s.Features[a])})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.width, b.width) })
	with, without := make([][]string, contexts), make([][]string, contexts)
	for _, p := range pairs {
		words := fmt.Sprintf("%s (%d)", s.Features[p.a].Name, p.width)
		if dim+p.width > l.options.MaxDim {
			without[p.c] = append(without[p.c], words)
			continue
		}
		dim += p.width
		with[p.c] = append(with[p.c], words)
		s.Crosses = append(s.Crosses, []string{s.Features[p.c].Name, s.Features[p.a].Name})
	}
	var kept []Feature
	for c, f := range s.Features[:contexts] {
		if len(with[c]) == 0 {
			l.lacks(f.Name, "left out: the same for every action, and no cross fits into d = %d", l.options.MaxDim)
			continue
		}
		kept = append(kept, f)
		l.because(f.Name, "crossed, since it changes a ranking only through a cross, with %s",
			strings.Join(with[c], ", "))
		if len(without[c]) > 0 {
			l.lacks(f.Name, "not crossed with %s: d would be above %d", strings.Join(without[c], ", "),
				l.options.MaxDim)
		}
	}
	s.Features = append(kept, s.Features[contexts:]...)
}
