package api

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a body may be nested.
const maxDepth = 16

const emptyBody = "the body is empty, expected a JSON object"

// decodeJSON reads one JSON value of RFC 8259 into a struct, strictly: no unknown member, no member
// twice, no invalid UTF-8, names in their exact case, nothing after the value. Its errors are
// *fieldError and contain no value of the body, which may be personal data.
func decodeJSON(body []byte, into any) error {
	if len(body) == 0 {
		return &fieldError{Code: "malformed", Want: emptyBody}
	}
	if tooDeep(body) {
		return &fieldError{Code: "too_deep", Want: fmt.Sprintf("the body is nested deeper than %d", maxDepth)}
	}
	if _, raw := into.(*jsontext.Value); !raw && string(bytes.TrimSpace(body)) == "null" {
		return &fieldError{Want: "is null, expected a JSON object"}
	}
	err := json.Unmarshal(body, into, strictly)
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		field, null := dotted(string(semantic.JSONPointer)), (*nullEntry)(nil)
		switch {
		case errors.As(err, &null):
			return &fieldError{Field: field, Want: "is null, expected " + typeName(null.wanted)}
		case errors.Is(err, errNoID):
			return &fieldError{Field: field, Want: "is empty, expected an id"}
		case errors.Is(err, json.ErrUnknownName):
			return &fieldError{Field: field, Code: "unknown_field", Want: "is not a field of this request"}
		case semantic.GoType != nil:
			return &fieldError{Field: field, Want: "is " + kindName(semantic.JSONKind, semantic.GoType) + ", expected " +
				typeName(semantic.GoType)}
		}
		return &fieldError{Field: field, Want: "cannot be read"}
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		f := &fieldError{Field: dotted(string(syntax.JSONPointer)), Code: "malformed",
			Want: fmt.Sprintf("is not JSON at byte %d", syntax.ByteOffset)}
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.Want = "is there twice"
		}
		return f
	}
	return &fieldError{Code: "malformed", Want: "is not JSON"}
}

// strictly are the rules of decodeJSON.
var strictly = json.JoinOptions(json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(checkEntry)))

// nullEntry is the error of null in a list of something else.
type nullEntry struct{ wanted reflect.Type }

func (e *nullEntry) Error() string { return "null in a list" }

var errNoID = errors.New("an empty id")

// checkEntry refuses null as an entry of a list, which package json would read as an empty entry, and an action whose
// id is an empty text, which is no id and not none. A member that is null is one that is not there.
func checkEntry(dec *jsontext.Decoder, v any) error {
	at, names := dec.StackIndex(dec.StackDepth())
	_, raw := v.(*stdjson.RawMessage)
	_, cost := v.(**float64) // looked at elsewhere
	if at == '[' && dec.PeekKind() == 'n' && !raw && !cost {
		return &nullEntry{reflect.TypeOf(v)}
	}
	// names counts the names and values of the object around it that were read; the last one is a name.
	if _, ok := v.(*string); !ok || at != '{' || dec.StackDepth() < 2 || names%2 == 0 || dec.PeekKind() != '"' ||
		dec.StackPointer().LastToken() != "id" {
		return json.SkipFunc
	}
	text, err := dec.ReadValue()
	if err == nil && string(text) == `""` {
		err = errNoID
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// fieldError refuses a field, as serve.Error does below the edge.
type fieldError struct {
	Field string
	Code  string // "" means invalid
	Want  string
}

func (e *fieldError) Error() string {
	if e.Field == "" {
		return e.Want
	}
	return e.Field + " " + e.Want
}

// dotted turns a JSON pointer into a path as people write it: /actions/2/id is actions[2].id.
func dotted(pointer string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case part != "" && strings.Trim(part, "0123456789") == "":
			b.WriteString("[" + part + "]")
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
		if b.Len() > 200 {
			return b.String()[:200] + "…"
		}
	}
	return b.String()
}

func kindName(k jsontext.Kind, wanted reflect.Type) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		for wanted.Kind() == reflect.Pointer {
			wanted = wanted.Elem()
		}
		switch wanted.Kind() {
		case reflect.Float64, reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64, reflect.Uint32:
			return "a number that does not fit"
		}
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	return "something else"
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float64:
		return "a finite number"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "a whole number"
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		return "a whole number from 0 on"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another value"
}

// tooDeep counts brackets outside strings.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
