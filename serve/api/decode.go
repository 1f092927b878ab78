package api

import (
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
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		field := dotted(string(semantic.JSONPointer))
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return &fieldError{Field: field, Code: "unknown_field", Want: "is not a field of this request"}
		case semantic.GoType != nil:
			return &fieldError{Field: field, Want: "is " + kindName(semantic.JSONKind) + ", expected " +
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

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number that does not fit"
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
