package feature

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/spec"
)

// VWOptions says how Vowpal Wabbit makes features of a line. The names are those of VW's options; a
// namespace is given by its first character, as VW does, or by its whole name.
type VWOptions struct {
	VW
	// Text: the features were VW text, in which "city": "Oslo" is the feature city=Oslo. Otherwise they
	// were JSON, in which it is cityOslo, as VW makes it without --chain_hash.
	Text bool

	Quadratic    []string // -q: "UA", ":A" and "::" (any namespace), or "User|Action"
	Cubic        []string // --cubic: three
	Interactions []string // --interactions: two or more
	Ignore, Keep []string // --ignore, --keep
	NoConstant   bool     // --noconstant
}

// MaxInteraction is the largest number of namespaces in an interaction.
const MaxInteraction = 8

// VWLine is the features of a line: of what all actions share, or of one action.
type VWLine struct {
	groups []vwGroup
	hash   []uint32
	x      []float64
}

// Len returns the number of features, interactions aside.
func (l *VWLine) Len() int { return len(l.hash) }

type vwGroup struct {
	space    int32 // in VWLines.spaces
	from, to int32
}

// VWLines makes Vowpal Wabbit's features of named ones: Line hashes a line, Ready is called when all lines
// have been seen, and Action gives the features of an action with what its line shares and the
// interactions. Line and Ready are not safe for concurrent use; Action is.
type VWLines struct {
	o        VWOptions
	limits   Limits
	spaces   []vwSpaceName
	byName   map[string]int32
	products [][]vwTerm
	twice    int
	r        reader
	text     []byte
}

type vwSpaceName struct {
	name   string
	seed   uint32
	letter byte
	drop   bool
}

// vwTerm is a namespace in an interaction.
type vwTerm struct {
	letter byte   // of namespaces that begin so, or
	name   string // of one namespace
}

// NewVWLines returns an encoder. The error names the option and the value that is wrong.
func NewVWLines(o VWOptions) (*VWLines, error) {
	v := &VWLines{o: o, byName: map[string]int32{}, limits: Limits{Values: MaxNonzeros}.filled()}
	for _, f := range []struct {
		option    string
		list      []string
		low, high int
	}{{"q", o.Quadratic, 2, 2}, {"cubic", o.Cubic, 3, 3}, {"interactions", o.Interactions, 2, MaxInteraction}} {
		for _, text := range f.list {
			if n := len(vwTerms(text)); n < f.low || n > f.high {
				want := fmt.Sprint(f.low)
				if f.high > f.low {
					want = fmt.Sprintf("%d to %d", f.low, f.high)
				}
				return nil, spec.Refuse(f.option, text,
					"expected %s namespaces: their first characters (%q), or names (%q)", want, "UA", "User|Action")
			}
		}
	}
	if len(o.Ignore) > 0 && len(o.Keep) > 0 {
		return nil, spec.Refuse("keep", o.Keep, "expected nothing beside ignore")
	}
	for _, text := range slices.Concat(o.Ignore, o.Keep) {
		if text == "" {
			return nil, spec.Refuse("ignore", text, "expected a namespace")
		}
	}
	return v, nil
}

// vwTerms splits an interaction.
func vwTerms(text string) (out []vwTerm) {
	if strings.Contains(text, "|") {
		for name := range strings.SplitSeq(text, "|") {
			out = append(out, vwTerm{name: name})
		}
		return out
	}
	for i := range len(text) {
		out = append(out, vwTerm{letter: text[i]})
	}
	return out
}

// is says whether the term stands for a namespace.
func (t vwTerm) is(s *vwSpaceName) bool {
	if t.name != "" {
		return t.name == s.name
	}
	return t.letter == s.letter
}

// named is a namespace in ignore and keep: one character, or a name.
func vwNamed(text string) vwTerm {
	if len(text) == 1 {
		return vwTerm{letter: text[0]}
	}
	return vwTerm{name: text}
}

func (v *VWLines) space(name []byte) int32 {
	if k, ok := v.byName[string(name)]; ok {
		return k
	}
	s := vwSpaceName{name: string(name), seed: v.o.Namespace(name), letter: ' '}
	if len(name) > 0 {
		s.letter = name[0]
	}
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(text string) bool { return vwNamed(text).is(&s) })
	}
	s.drop = in(v.o.Ignore) || len(v.o.Keep) > 0 && !in(v.o.Keep)
	k := int32(len(v.spaces))
	v.spaces, v.byName[s.name] = append(v.spaces, s), k
	return k
}

// Line hashes the named features of a line, a JSON object: members that are objects are namespaces, the
// others are in the namespace without a name. Text is a feature by the rules of VWOptions.Text, true is 1,
// false, null and 0 are nothing, and a list of numbers is a namespace with a feature for each place. Keys
// that begin with _ are left out, but for _text, whose words are features. A feature that comes twice is
// there twice, as in VW, which adds them; Twice counts them.
func (v *VWLines) Line(json []byte) (*VWLine, error) {
	l := &VWLine{}
	if len(json) == 0 {
		return l, nil
	}
	if err := v.r.start(json, &v.limits); err != nil {
		return nil, err
	}
	if v.r.peek() != '{' {
		return nil, v.r.syntax("an object of features")
	}
	var w vwWriter
	w.v, w.l, w.seen = v, l, map[uint64]bool{}
	if err := w.object(v.space(nil)); err != nil {
		return nil, err
	}
	if err := v.r.end(); err != nil {
		return nil, err
	}
	if len(l.hash) > MaxNonzeros {
		return nil, &Error{Code: Limit, Problem: expected("at most %d features in a line", MaxNonzeros)}
	}
	l.groups = slices.DeleteFunc(l.groups, func(g vwGroup) bool { return g.from == g.to })
	return l, nil
}

// Twice returns how many features came a second time in their line so far.
func (v *VWLines) Twice() int { return v.twice }

// vwWriter writes one line.
type vwWriter struct {
	v    *VWLines
	l    *VWLine
	seen map[uint64]bool
}

func (w *vwWriter) add(space int32, hash uint32, x float64) {
	if x == 0 || w.v.spaces[space].drop {
		return
	}
	if id := uint64(space)<<32 | uint64(hash); w.seen[id] {
		w.v.twice++
	} else {
		w.seen[id] = true
	}
	n := int32(len(w.l.hash))
	w.l.hash, w.l.x = append(w.l.hash, hash), append(w.l.x, x)
	if k := len(w.l.groups) - 1; k >= 0 && w.l.groups[k].space == space && w.l.groups[k].to == n {
		w.l.groups[k].to++
		return
	}
	w.l.groups = append(w.l.groups, vwGroup{space, n, n + 1})
}

// object reads the members of a namespace.
func (w *vwWriter) object(space int32) error {
	r := &w.v.r
	if err := r.down(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := r.next(first, '}')
		if err != nil || !more {
			return err
		}
		k, err := r.key()
		if err != nil {
			return err
		}
		if k[0] == '_' {
			if string(k) == "_text" && r.peek() == '"' {
				err = w.words(space)
			} else {
				err = r.skip()
			}
			if err != nil {
				return err
			}
			continue
		}
		w.v.text = append(w.v.text[:0], k...)
		if err := w.value(space, len(k)); err != nil {
			if e, ok := err.(*Error); ok && e.Path == "" {
				e.Path = join(w.v.spaces[space].name, shorten(w.v.text[:len(k)], 80))
			}
			return err
		}
	}
}

// words reads the text of the key _text.
func (w *vwWriter) words(space int32) error {
	s, err := w.v.r.string(w.v.limits.String)
	if err != nil {
		return err
	}
	for word := range strings.FieldsFuncSeq(string(s), func(c rune) bool { return c == ' ' || c == '\t' }) {
		w.add(space, w.v.o.Feature(w.v.spaces[space].seed, []byte(vwEscape.Replace(word))), 1)
	}
	return nil
}

var vwEscape = strings.NewReplacer(" ", "_", "\t", "_", "|", "_", ":", "_")

// value reads the value of the key in text[:n].
func (w *vwWriter) value(space int32, n int) error {
	v, r := w.v, &w.v.r
	seed := v.spaces[space].seed
	key := v.text[:n:n]
	switch c := r.peek(); {
	case c == '{':
		return w.object(v.space(key))
	case c == '[':
		return w.list(space, v.space(key), n)
	case c == '"':
		return w.string(space, n)
	case c == 't':
		w.add(space, v.o.Feature(seed, key), 1)
		return r.literal("true")
	case c == 'f' || c == 'n':
		return r.skip()
	}
	x, lit, err := r.number()
	if err != nil {
		return err
	}
	if math.Abs(x) > 1e18 {
		return &Error{Code: Value, Value: shorten(lit, 40), Problem: "expected a number of at most 1e18"}
	}
	w.add(space, v.o.Feature(seed, key), x)
	return nil
}

// string reads a text under the key in text[:n].
func (w *vwWriter) string(space int32, n int) error {
	v := w.v
	s, err := v.r.string(v.limits.String)
	if err != nil {
		return err
	}
	name := v.text[:n]
	if v.o.Text {
		name = append(append(name, '='), s...)
	} else {
		name = append(name, vwEscape.Replace(string(s))...)
	}
	v.text = name
	w.add(space, v.o.Feature(v.spaces[space].seed, name), 1)
	return nil
}

// list reads a list under the key in text[:n]: numbers and objects are the namespace of that name, texts
// of VW text are features of the namespace around it.
func (w *vwWriter) list(around, space int32, n int) error {
	v, r := w.v, &w.v.r
	if err := r.down(); err != nil {
		return err
	}
	place := v.spaces[space].seed
	for first := true; ; first = false {
		more, err := r.next(first, ']')
		if err != nil || !more {
			return err
		}
		switch c := r.peek(); {
		case c == '{':
			key := slices.Clone(v.text[:n])
			err = w.object(space)
			v.text = append(v.text[:0], key...)
		case c == '"' && v.o.Text:
			err = w.string(around, n)
		case c == 'n':
			err = r.literal("null")
		case c == '-' || '0' <= c && c <= '9':
			var x float64
			if x, _, err = r.number(); err == nil {
				if math.Abs(x) > 1e18 {
					return &Error{Code: Value, Value: fmt.Sprint(x), Problem: "expected a number of at most 1e18"}
				}
				w.add(space, place, x)
				place++
			}
		default:
			err = &Error{Code: Value, Problem: "expected numbers or objects in a list, as VW does"}
		}
		if err != nil {
			return err
		}
	}
}

// Names returns the namespaces that were seen with a feature or without, in the order of their names.
func (v *VWLines) Names() []string {
	var out []string
	for _, s := range v.spaces {
		if s.name != "" {
			out = append(out, s.name)
		}
	}
	slices.Sort(out)
	return out
}

// Ready makes the list of interactions. An option that names a namespace that no line has is an error with
// the nearest name.
func (v *VWLines) Ready() error {
	for _, f := range []struct {
		option string
		list   []string
		single bool
	}{{"ignore", v.o.Ignore, true}, {"keep", v.o.Keep, true}, {"q", v.o.Quadratic, false}, {"cubic", v.o.Cubic, false},
		{"interactions", v.o.Interactions, false}} {
		for _, text := range f.list {
			terms := vwTerms(text)
			if f.single {
				terms = []vwTerm{vwNamed(text)}
			}
			for _, t := range terms {
				if err := v.exists(f.option, text, t); err != nil {
					return err
				}
			}
			if !f.single {
				v.products = append(v.products, v.expand(terms)...)
			}
		}
	}
	v.products = distinct(v.products)
	return nil
}

func (v *VWLines) exists(option, text string, t vwTerm) error {
	if t.letter == ':' {
		return nil
	}
	for i := range v.spaces {
		if t.is(&v.spaces[i]) {
			return nil
		}
	}
	names := v.Names()
	if len(names) == 0 {
		return spec.Refuse(option, text, "but the file has no namespace with a name")
	}
	if t.name != "" {
		return spec.Refuse(option, text, "but the file has no namespace %q%s", t.name, spec.Suggest(t.name, names))
	}
	var letters []string
	for _, n := range names {
		letters = append(letters, n[:1])
	}
	if i := slices.IndexFunc(letters, func(l string) bool { return strings.EqualFold(l, string(t.letter)) }); i >= 0 {
		return spec.Refuse(option, text, "but no namespace begins with %q; did you mean %q, of %s?", string(t.letter),
			letters[i], names[i])
	}
	return spec.Refuse(option, text, "but no namespace begins with %q; the file has %s", string(t.letter),
		strings.Join(names, ", "))
}

// expand puts every first character of a namespace in the place of ':', in ascending order, as VW does: each
// combination once.
func (v *VWLines) expand(terms []vwTerm) [][]vwTerm {
	var letters []byte
	for _, s := range v.spaces {
		if !s.drop && !slices.Contains(letters, s.letter) {
			letters = append(letters, s.letter)
		}
	}
	slices.Sort(letters)
	out := [][]vwTerm{nil}
	for _, t := range terms {
		var next [][]vwTerm
		for _, head := range out {
			if t.letter != ':' {
				next = append(next, append(slices.Clone(head), t))
				continue
			}
			for _, l := range letters {
				next = append(next, append(slices.Clone(head), vwTerm{letter: l}))
			}
		}
		out = next
	}
	return out
}

// distinct leaves out interactions of the same namespaces in another order, and sorts those that have a
// namespace twice, so that a product of its features comes once. This is VW without --permutations.
func distinct(all [][]vwTerm) (out [][]vwTerm) {
	seen := map[string]bool{}
	for _, p := range all {
		sorted := slices.Clone(p)
		slices.SortFunc(sorted, func(a, b vwTerm) int {
			if a.letter != b.letter {
				return int(a.letter) - int(b.letter)
			}
			return strings.Compare(a.name, b.name)
		})
		if key := fmt.Sprint(sorted); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		if len(slices.Compact(slices.Clone(sorted))) < len(sorted) {
			p = sorted
		}
		out = append(out, p)
	}
	return out
}

// Action calls f with the index, the value and the identity of every feature of an action: its own and the shared
// ones, the constant, and the interactions. Features of one identity are one feature; different
// identities at one index collide. Concurrent calls are safe after Ready.
func (v *VWLines) Action(shared, action *VWLine, f func(index uint32, x float64, id uint64) error) error {
	mask := uint32(v.o.mask())
	for _, l := range []*VWLine{action, shared} {
		for _, g := range l.groups {
			for k := g.from; k < g.to; k++ {
				if err := f(l.hash[k]&mask, l.x[k], vwIdentity(g.space, l.hash[k])); err != nil {
					return err
				}
			}
		}
	}
	if !v.o.NoConstant {
		if err := f(VWConstant&mask, 1, vwIdentity(-1, VWConstant)); err != nil {
			return err
		}
	}
	type place struct {
		hash uint32
		x    float64
		id   uint64
	}
	of := func(t vwTerm) (out []place) {
		for _, l := range []*VWLine{action, shared} {
			for _, g := range l.groups {
				if !t.is(&v.spaces[g.space]) {
					continue
				}
				for k := g.from; k < g.to; k++ {
					out = append(out, place{l.hash[k] & mask, l.x[k], vwIdentity(g.space, l.hash[k])})
				}
			}
		}
		return out
	}
	for _, p := range v.products {
		lists := make([][]place, len(p))
		for i, t := range p {
			if i > 0 && p[i-1] == t {
				lists[i] = lists[i-1]
			} else {
				lists[i] = of(t)
			}
		}
		var product func(k, from int, hash uint32, x float64, id uint64) error
		product = func(k, from int, hash uint32, x float64, id uint64) error {
			for i := from; i < len(lists[k]); i++ {
				e := &lists[k][i]
				h, y, d := hash^e.hash, x*e.x, mixIdentity(id, e.id)
				if k == len(p)-1 {
					if err := f(h&mask, y, d); err != nil {
						return err
					}
					continue
				}
				next := 0
				if p[k+1] == p[k] {
					next = i
				}
				if err := product(k+1, next, h*fnvPrime, y, d); err != nil {
					return err
				}
			}
			return nil
		}
		if err := product(0, 0, 0, 1, uint64(len(p))); err != nil {
			return err
		}
	}
	return nil
}

// vwIdentity tells features of an action apart.
func vwIdentity(space int32, hash uint32) uint64 { return mixIdentity(uint64(space)<<32, uint64(hash)) }

func mixIdentity(a, b uint64) uint64 {
	a = (a ^ b) * 0x9e3779b97f4a7c15
	return a ^ a>>29
}

// Mask returns 2^bits − 1.
func (v *VWLines) Mask() uint32 { return uint32(v.o.mask()) }
