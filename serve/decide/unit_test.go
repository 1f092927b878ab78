package decide

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"bytes"

	"troupe/serve/model"
)

// read is what unitReader makes of a context.
func read(context, path string) (value, rest string, err error) {
	u := unitReader{dec: json.NewDecoder(strings.NewReader(context)), text: []byte(context), path: strings.Split(path, "."),
		name: "context." + path}
	if err := u.object(0); err != nil {
		return "", "", err
	}
	v, err := u.canonical()
	return string(v), context[:u.from] + context[u.to:], err
}

// TestUnitReader: the value at the path is found whatever stands around it, the rest of the context is what is left of it,
// byte by byte, and what is no unit is refused with the path and without the value.
func TestUnitReader(t *testing.T) {
	for context, want := range map[string][2]string{
		`{"user":{"id":"ann"}}`:                                         {"sann", `{"user":{}}`},
		`{"user":{"id":"ann","age":3}}`:                                 {"sann", `{"user":{"age":3}}`},
		` { "user" : { "age" : 3 , "id" : "ann" } } `:                   {"sann", ` { "user" : { "age" : 3 } } `},
		`{"a":[{"id":1}],"user":{"x":{"id":2},"id":7 ,"b":"}"},"id":3}`: {"n7", `{"a":[{"id":1}],"user":{"x":{"id":2} ,"b":"}"},"id":3}`},
		`{"user":{"id":"7"}}`:                                           {"s7", `{"user":{}}`},
		`{"user":{"id":-12}}`:                                           {"n-12", `{"user":{}}`},
		`{"user":{"id":"\u0061\n\""}}`:                                  {"sa\n\"", `{"user":{}}`},
		`{"user":{"\u0069d":"ann", "z": null}}`:                         {"sann", `{"user":{ "z": null}}`},
		`{"user":{"id":123456789012345678901234567890}}`:                {"n123456789012345678901234567890", `{"user":{}}`},
	} {
		value, rest, err := read(context, "user.id")
		if err != nil || value != want[0] || rest != want[1] {
			t.Errorf("%s: %q, rest %s, %v; want %q", context, value, rest, err, want)
		}
	}
	for context, want := range map[string]string{
		``: "is missing", `null`: "is missing", `[1]`: "is missing", `{}`: "is missing", `{"user":{}}`: "is missing",
		`{"user":"id"}`: "is missing", `{"user":[{"id":"secret"}]}`: "is missing", `{"id":"secret"}`: "is missing",
		`{"user":{"id":""}}`: "expected a text", `{"user":{"id":null}}`: "expected a text", `{"user":{"id":1.5}}`: "expected a text",
		`{"user":{"id":1e3}}`: "expected a text", `{"user":{"id":true}}`: "expected a text", `{"user":{"id":["secret"]}}`: "expected a text",
		`{"user":{"id":"` + strings.Repeat("x", maxUnit+1) + `"}}`: "at most 1024 bytes",
		`{"user":{"id":"secret","id":"b"}}`:                        "is given twice",
		`{"user":{"id":"secret"},"user":{"id":"b"}}`:               "is given twice",
		`{"user":{"id":"secret"`:                                   "expected a JSON object",
		`{"user":{"id":"secret"}`:                                  "expected a JSON object",
	} {
		_, _, err := read(context, "user.id")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: %v, want %q", context, err, want)
		}
		var e *model.Error
		if value := strings.TrimSuffix(strings.TrimPrefix(context, `{"user":{"id":`), "}}"); want == "expected a text" &&
			(!errors.As(err, &e) || !e.Tell || e.Value != value) {
			t.Errorf("%s: the caller is told %+v", context, e)
		}
	}
}

// TestUnitRest: of 3,000 random objects, what is left is the object without that member.
func TestUnitRest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "b", "id", "user", "é\"", ""}
	var value func(depth int) any
	object := func(depth int) map[string]any {
		out := map[string]any{}
		for range r.IntN(4) {
			out[names[r.IntN(len(names))]] = value(depth + 1)
		}
		return out
	}
	value = func(depth int) any {
		switch n := r.IntN(6); {
		case n == 0 && depth < 4:
			return object(depth)
		case n == 1:
			return []any{value(depth + 1), "x"}
		case n == 2:
			return "te}xt,\""
		}
		return float64(r.IntN(100))
	}
	for range 3000 {
		context, user := object(0), object(1)
		user["id"] = "ann"
		context["user"] = user
		text, err := json.Marshal(context)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			var b bytes.Buffer
			if err := json.Indent(&b, text, " ", "\t"); err != nil {
				t.Fatal(err)
			}
			text = b.Bytes()
		}
		v, rest, err := read(string(text), "user.id")
		var got any
		if err != nil || v != "sann" || json.Unmarshal([]byte(rest), &got) != nil {
			t.Fatalf("%s: %q, rest %s, %v", text, v, rest, err)
		}
		delete(user, "id")
		var want any
		whole, _ := json.Marshal(context)
		if json.Unmarshal(whole, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: the rest is %s, want %s", text, rest, whole)
		}
	}
}
