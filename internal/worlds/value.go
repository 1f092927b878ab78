package worlds

import (
	"encoding/json"
	"math"
	"strconv"
)

// Type is the type of a value of JSON.
type Type uint8

// The types.
const (
	Null Type = iota
	Number
	String
	Bool
	List
	Map
)

// Value is one value of a context or of an action's features: a tree that is read without JSON text and can be written
// as such.
type Value struct {
	Type   Type
	Number float64 // of a number; 1 for true
	Text   string  // of a string; of a number, the digits to write where a float64 does not hold them
	Items  []Field // of a list (without names) or of an object
}

// Field is a named value of an object.
type Field struct {
	Name  string
	Value Value
}

// Object is the fields of an object in the order in which they are written.
type Object []Field

// Num returns a number.
func Num(x float64) Value { return Value{Type: Number, Number: x} }

// Int returns an integer as a JSON number with all its digits, also beyond 2⁵³.
func Int(n uint64) Value {
	return Value{Type: Number, Number: float64(n), Text: strconv.FormatUint(n, 10)}
}

// Str returns a string.
func Str(s string) Value { return Value{Type: String, Text: s} }

// Is returns a boolean.
func Is(b bool) Value {
	if b {
		return Value{Type: Bool, Number: 1}
	}
	return Value{Type: Bool}
}

// Strs returns a list of strings.
func Strs(list ...string) Value {
	v := Value{Type: List, Items: make([]Field, len(list))}
	for i, s := range list {
		v.Items[i].Value = Str(s)
	}
	return v
}

// Nums returns a list of numbers.
func Nums(list ...float64) Value {
	v := Value{Type: List, Items: make([]Field, len(list))}
	for i, x := range list {
		v.Items[i].Value = Num(x)
	}
	return v
}

// Obj returns an object.
func Obj(fields ...Field) Value { return Value{Type: Map, Items: fields} }

// F returns a field.
func F(name string, v Value) Field { return Field{name, v} }

// AppendJSON appends the object as JSON.
func (o Object) AppendJSON(b []byte) []byte { return appendFields(b, o, '{', '}', true) }

// AppendJSON appends the value as JSON. It panics on a number that is NaN or infinite.
func (v *Value) AppendJSON(b []byte) []byte {
	switch v.Type {
	case Number:
		if v.Text != "" {
			return append(b, v.Text...)
		}
		if math.IsNaN(v.Number) || math.IsInf(v.Number, 0) {
			panic("worlds: a number that JSON does not have")
		}
		return strconv.AppendFloat(b, v.Number, 'g', -1, 64)
	case String:
		return appendString(b, v.Text)
	case Bool:
		return strconv.AppendBool(b, v.Number != 0)
	case List:
		return appendFields(b, v.Items, '[', ']', false)
	case Map:
		return appendFields(b, v.Items, '{', '}', true)
	}
	return append(b, "null"...)
}

func appendFields(b []byte, fields []Field, open, end byte, names bool) []byte {
	b = append(b, open)
	for i := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		if names {
			b = append(appendString(b, fields[i].Name), ':')
		}
		b = fields[i].Value.AppendJSON(b)
	}
	return append(b, end)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string has JSON
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
