// Package spec turns one table of an experiment file into one typed value, strictly.
//
// Three nouns:
//
//   - a Raw table is what TOML (or JSON) decoded to: string, int64, float64, bool, []any, Raw;
//   - a Registry maps a kind's name to a function that returns a pointer to its options struct
//     with the defaults filled in; adding a kind is one line;
//   - an Error names the path of the offending key, what was found and what was expected, with the
//     nearest valid name; the reader of the file turns the path into a line and a column.
//
// An option is an exported struct field with a `key` tag and a `doc` tag, and a `default` tag where
// the zero value stands for something that words say better ("max(16, 2d)"). Field types: int,
// float64, string, bool, slices of these, [][]float64, or a type that implements Decoder (a nested
// table with its own registry). A whole number may also be written as one word: the tag
// `word:"grow=Growing"` says which, and which bool field of the struct it sets. A bool with the tag
// `not:"true"` means the opposite of what its key says, so that the default of the key may be true and
// the zero value of the field still be the default. A number with the tag `zero:"NoFloor"` has a default
// that is not 0, and a 0 that is written sets that bool field of the struct. The tag `once:"reference"` is the key that
// an option had before; it is refused, with the new one. An unknown key or kind, a wrong type,
// NaN and ±Inf are errors, and so is a zero written out where zero stands for a default: m = 0 is a
// slip, not a wish for 16.
//
// A list where a single value is expected is a sweep; Expand multiplies it out before Decode.
package spec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Raw is a decoded table.
type Raw = map[string]any

// Registry maps the name of a kind to a constructor of its options: a pointer to a struct.
type Registry[T any] map[string]func() T

// Decoder is implemented by option types that read their own value: nested tables.
type Decoder interface {
	// DecodeSpec sets the receiver from v, found at path.
	DecodeSpec(v any, path string) error
	// ExpandSpec multiplies out the sweeps inside v; a value without sweeps gives itself alone.
	ExpandSpec(v any) []Choice
}

// Documented is implemented by options structs: one line that says what the kind is.
type Documented interface{ Doc() string }

// Error is a fault in a spec, or in the options of one kind.
type Error struct {
	Path string // for instance policy[1].scale.value; an option's key where the kind found the fault
	Msg  string // what was found and what was expected

	Value any    // what was found, where a kind refused the value of an option; otherwise nil
	Want  string // what was expected, likewise

	UnknownKind bool // the registry has no kind of this name
}

// Error says in one line what is wrong.
func (e *Error) Error() string {
	if e.Want != "" {
		return e.Path + " " + e.Msg
	}
	return e.Path + ": " + e.Msg
}

// Refuse returns the error of a kind about one of its options: Refuse("lambda", -1.0, "expected a positive
// number") reads "lambda is -1, expected a positive number". Strings are quoted. A want that begins with
// "; ", as that of Suggest does, or with "but" reads on as it is.
func Refuse(key string, value any, want string, args ...any) *Error {
	want = fmt.Sprintf(want, args...)
	shown := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		shown = strconv.Quote(s)
	}
	comma := ", "
	if strings.HasPrefix(want, "; ") {
		comma = ""
	}
	return &Error{Path: key, Msg: "is " + shown + comma + want, Value: value, Want: strings.TrimPrefix(want, "; ")}
}

// Under puts a table's path in front of the path of an error that its content caused. Other errors get
// the path as a prefix.
func Under(path string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", path, err)
	}
	inner := *e
	inner.Path = Join(path, e.Path)
	return &inner
}

// Errorf returns an Error.
func Errorf(path, format string, args ...any) error {
	return &Error{Path: path, Msg: fmt.Sprintf(format, args...)}
}

// Decode reads raw["kind"], looks it up in the registry and sets the options from the other keys,
// all but those named in common, which belong to the caller (such as "name").
func Decode[T any](reg Registry[T], raw Raw, path string, common ...string) (T, error) {
	var zero T
	k, ok := raw["kind"]
	if !ok {
		return zero, Errorf(path, "kind is missing; expected one of %s", strings.Join(Names(reg), ", "))
	}
	name, ok := k.(string)
	if !ok {
		return zero, Errorf(Join(path, "kind"), "is %s, expected a string", Show(k))
	}
	mk, ok := reg[name]
	if !ok {
		return zero, &Error{Path: Join(path, "kind"), Msg: fmt.Sprintf("unknown kind %q%s", name, Suggest(name, Names(reg))),
			UnknownKind: true}
	}
	v := mk()
	if err := DecodeStruct(v, raw, path, append([]string{"kind"}, common...)...); err != nil {
		return zero, err
	}
	return v, nil
}

// DecodeStruct sets the tagged fields of the struct that into points to. Keys in skip are passed
// over.
func DecodeStruct(into any, raw Raw, path string, skip ...string) error {
	fields := fieldsOf(into)
	for _, key := range sortedKeys(raw) {
		if slices.Contains(skip, key) {
			continue
		}
		f, ok := fields[key]
		if f.refused != "" {
			return Errorf(Join(path, key), "is called %s now", f.refused)
		}
		if !ok {
			var names []string
			for n, f := range fields {
				if f.refused == "" {
					names = append(names, n)
				}
			}
			names = append(names, skip...)
			return Errorf(Join(path, key), "unknown key %q%s", key, Suggest(key, names))
		}
		if w, ok := raw[key].(string); ok && f.word != "" {
			if w != f.word {
				return Errorf(Join(path, key), "is %s, expected a whole number or %q", Show(raw[key]), f.word)
			}
			f.meaning.SetBool(true)
			continue
		}
		if err := set(f.value, raw[key], Join(path, key)); err != nil {
			return err
		}
		if f.not {
			f.value.SetBool(!f.value.Bool())
		}
		if f.zero.IsValid() && f.value.IsZero() {
			f.zero.SetBool(true)
			continue
		}
		if f.def != "" && f.value.IsZero() {
			def := f.def
			if usual, preset, two := strings.Cut(def, "; "); two {
				def = usual + ", or with a preset, " + preset
			}
			return Errorf(Join(path, key), "is %s; leave the key out for its default, %s", Show(raw[key]), def)
		}
	}
	return nil
}

func set(f reflect.Value, v any, path string) error {
	if d, ok := f.Addr().Interface().(Decoder); ok {
		return d.DecodeSpec(v, path)
	}
	switch f.Kind() {
	case reflect.Int:
		switch n := v.(type) {
		case int64:
			f.SetInt(n)
			return nil
		case float64:
			if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
				f.SetInt(int64(n))
				return nil
			}
		}
		return Errorf(path, "is %s, expected a whole number", Show(v))
	case reflect.Float64:
		x, ok := Number(v)
		if !ok {
			return Errorf(path, "is %s, expected a number", Show(v))
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return Errorf(path, "is %v, expected a finite number", x)
		}
		f.SetFloat(x)
		return nil
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return Errorf(path, "is %s, expected a string", Show(v))
		}
		f.SetString(s)
		return nil
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return Errorf(path, "is %s, expected true or false", Show(v))
		}
		f.SetBool(b)
		return nil
	case reflect.Slice:
		l, ok := v.([]any)
		if !ok {
			return Errorf(path, "is %s, expected a list", Show(v))
		}
		out := reflect.MakeSlice(f.Type(), len(l), len(l))
		for i, e := range l {
			if err := set(out.Index(i), e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		f.Set(out)
		return nil
	}
	panic("spec: unsupported field type " + f.Type().String())
}

// Number reads an int64 or a float64.
func Number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// Show prints a raw value with its type, for messages.
func Show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool:
		return fmt.Sprint(v)
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return "a table"
	case int64, float64:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%v (%T)", v, v)
}

// Join appends a key to a path; either may be empty.
func Join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// Choice is one way through the sweeps of a value.
type Choice struct {
	Value any
	// Swept lists what was chosen, in key order: "m" → 8, "scale.value" → 1.5.
	Swept []Setting
}

// Setting is one key and the value chosen for it.
type Setting struct {
	Key   string
	Value any
}

// MaxChoices is where Expand stops: a caller that gets more than this refuses the table.
const MaxChoices = 1 << 16

// Expand multiplies out the sweeps in a table of the given kinds: a list where the field takes a
// single value. The last key varies fastest. A table with an unknown kind or key is returned as it
// is, for Decode to refuse. When the sweeps make more than MaxChoices, the first MaxChoices+1 of
// those under way are returned, so that a few long lists do not fill the memory.
func Expand[T any](reg Registry[T], raw Raw) []Choice {
	name, _ := raw["kind"].(string)
	mk, ok := reg[name]
	if !ok {
		return []Choice{{Value: raw}}
	}
	return ExpandStruct(mk(), raw)
}

// ExpandStruct is Expand for the table of one struct, as DecodeStruct is Decode.
func ExpandStruct(options any, raw Raw) []Choice {
	fields := fieldsOf(options)
	choices := []Choice{{Value: Raw{}}}
	for _, key := range sortedKeys(raw) {
		var alts []Choice
		f, known := fields[key]
		switch list, isList := raw[key].([]any); {
		case known && isDecoder(f.value):
			alts = f.value.Addr().Interface().(Decoder).ExpandSpec(raw[key])
			for i := range alts {
				for j := range alts[i].Swept {
					alts[i].Swept[j].Key = Join(key, alts[i].Swept[j].Key)
				}
			}
		case known && isList && len(list) > 0 && f.value.Kind() != reflect.Slice:
			for _, e := range list {
				alts = append(alts, Choice{Value: e, Swept: []Setting{{Key: key, Value: e}}})
			}
		default:
			alts = []Choice{{Value: raw[key]}}
		}
		choices = multiply(choices, key, alts)
	}
	return choices
}

// multiply puts each of the values of key into each of the tables so far, and stops after MaxChoices+1.
func multiply(choices []Choice, key string, alts []Choice) (next []Choice) {
	for _, c := range choices {
		for _, a := range alts {
			if len(next) > MaxChoices {
				return next
			}
			t := Raw{key: a.Value}
			for k, v := range c.Value.(Raw) {
				t[k] = v
			}
			next = append(next, Choice{Value: t, Swept: slices.Concat(c.Swept, a.Swept)})
		}
	}
	return next
}

// ExpandFree is Expand for a table whose keys no kind names: every list is a sweep over its elements, a list of lists
// one over lists, and an empty list is a value.
func ExpandFree(raw Raw) []Choice {
	choices := []Choice{{Value: Raw{}}}
	for _, key := range sortedKeys(raw) {
		var alts []Choice
		switch v := raw[key].(type) {
		case Raw:
			alts = ExpandFree(v)
			for i := range alts {
				for j := range alts[i].Swept {
					alts[i].Swept[j].Key = Join(key, alts[i].Swept[j].Key)
				}
			}
		case []any:
			for _, e := range v {
				alts = append(alts, Choice{Value: e, Swept: []Setting{{Key: key, Value: e}}})
			}
		}
		if len(alts) == 0 {
			alts = []Choice{{Value: raw[key]}}
		}
		choices = multiply(choices, key, alts)
	}
	return choices
}

// ExpandTable is Expand for a Decoder whose value is a table of a registry.
func ExpandTable[T any](reg Registry[T], v any) []Choice {
	if raw, ok := v.(Raw); ok {
		return Expand(reg, raw)
	}
	return []Choice{{Value: v}}
}

// DecodeTable is Decode for a Decoder whose value is a table of a registry.
func DecodeTable[T any](reg Registry[T], v any, path string) (T, error) {
	raw, ok := v.(Raw)
	if !ok {
		var zero T
		return zero, Errorf(path, "is %s, expected a table such as { kind = %q }", Show(v), Names(reg)[0])
	}
	return Decode(reg, raw, path)
}

// Option describes one option of a kind, for listings.
type Option struct {
	Key, Type, Default, Doc string
}

// Options lists the options of a kind in the order of its struct.
func Options(options any) []Option {
	var out []Option
	v := reflect.ValueOf(options).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		o := Option{Key: key, Doc: f.Tag.Get("doc"), Type: "table"}
		if d, ok := f.Tag.Lookup("default"); ok {
			o.Default = d
		}
		if t, ok := v.Field(i).Interface().(interface{ SpecType() string }); ok {
			o.Type = t.SpecType()
		}
		if !isDecoder(v.Field(i)) {
			o.Type = strings.ReplaceAll(f.Type.String(), "float64", "number")
			if f.Type.Kind() == reflect.String {
				o.Type = "string" // of a named type, too
			}
			if word, _, ok := strings.Cut(f.Tag.Get("word"), "="); ok {
				o.Type += fmt.Sprintf(" or %q", word)
			}
			if o.Default == "" && f.Type.Kind() != reflect.Slice {
				o.Default = fmt.Sprint(v.Field(i).Interface())
				if f.Tag.Get("not") == "true" {
					o.Default = fmt.Sprint(!v.Field(i).Bool())
				}
			}
		} else if s, ok := v.Field(i).Addr().Interface().(fmt.Stringer); ok && o.Default == "" {
			o.Default = s.String()
		}
		out = append(out, o)
	}
	return out
}

// Names returns the kinds of a registry in alphabetical order.
func Names[T any](reg Registry[T]) []string {
	var names []string
	for n := range reg {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// Suggest returns ", did you mean …?" when a valid name is near, otherwise the list of names.
func Suggest(name string, valid []string) string {
	valid = slices.Sorted(slices.Values(valid))
	if best := Near(name, valid); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; expected one of " + strings.Join(valid, ", ")
}

// Near returns the name that was probably meant, the first one in the order of the alphabet among several, "" where none
// is near.
func Near(name string, valid []string) string {
	best, at := "", 1+max(2, len(name)/3)
	for _, v := range slices.Sorted(slices.Values(valid)) {
		if d := distance(name, v); d < at {
			best, at = v, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// field is an option of a struct: where its value goes, its default tag, its word with what that sets,
// whether it means the opposite of its key, and what a written 0 sets.
type field struct {
	value   reflect.Value
	def     string
	word    string
	meaning reflect.Value // the bool that the word sets
	not     bool
	zero    reflect.Value // the bool that a written 0 sets, if any
	refused string        // the key that has replaced this one
}

func fieldsOf(options any) map[string]field {
	v := reflect.ValueOf(options).Elem()
	m := make(map[string]field, v.NumField()+1) // one key may have an old name
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if key := tag.Get("key"); key != "" {
			f := field{value: v.Field(i), def: tag.Get("default"), not: tag.Get("not") == "true"}
			flag := func(tag, name string) reflect.Value {
				b := v.FieldByName(name)
				if !b.IsValid() || b.Kind() != reflect.Bool {
					panic("spec: " + tag + " tag of " + key + ": there is no bool field " + name)
				}
				return b
			}
			if word, name, ok := strings.Cut(tag.Get("word"), "="); ok {
				f.word, f.meaning = word, flag("word", name)
			}
			if name, ok := tag.Lookup("zero"); ok {
				f.zero = flag("zero", name)
			}
			m[key] = f
			if old := tag.Get("once"); old != "" {
				m[old] = field{value: v.Field(i), refused: key}
			}
		}
	}
	return m
}

func isDecoder(f reflect.Value) bool {
	_, ok := f.Addr().Interface().(Decoder)
	return ok
}

func sortedKeys(m Raw) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
