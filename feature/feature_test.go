package feature_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"troupe/feature"
	"troupe/internal/golden"
)

// rich has every kind, crosses, weights, required and nested names.
const rich = `{"unknown":"hash","features":[
	{"feature":"context.user.age","kind":"number","range":[0,100],"outside":"clamp"},
	{"feature":"context.user.city","kind":"category","levels":["Oslo","Paris"],"unseen":"other"},
	{"feature":"context.mood","kind":"vector","size":2,"bound":2,"outside":"clamp","cross_only":true},
	{"feature":"context.*","kind":"hash","buckets":3},
	{"feature":"action.price","kind":"number","range":[-1,1],"outside":"clamp","weight":2},
	{"feature":"action.new","kind":"boolean"},
	{"feature":"action.item.tags","kind":"category","buckets":4},
	{"feature":"action.item.title","kind":"text","buckets":8},
	{"feature":"action.item.*","kind":"hash","buckets":4},
	{"feature":"action.*","kind":"hash","buckets":5},
	{"feature":"id","kind":"category","levels":["a","b"],"unseen":"other","weight":0.5}],
	"crosses":[["context.user.city","action.price"],["context.mood","id"],["action.item.title","action.new"]]}`

func encode(e *feature.Encoder, context string, actions ...[2]string) (*feature.Batch, error) {
	b := feature.NewBatch(e)
	if err := b.Begin([]byte(context)); err != nil {
		return nil, err
	}
	for _, a := range actions {
		if err := b.Add(a[0], []byte(a[1])); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// TestGolden: the encodings of testdata/*.txt, a schema, requests and the coordinates that are not
// zero, in the shortest decimal form that gives the same bits. They may not change while the
// format is troupe.feature/1: events in a log were encoded like this.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The parts of the file: schema, then requests, each with its expected vectors.
			parts := strings.Split(string(old), "\n-- ")
			var out strings.Builder
			out.WriteString(parts[0])
			e := mustEncoder(t, parts[0])
			fmt.Fprintf(&out, "\n-- schema\nid %s\nd %d\nscale %v\n", e.ID(), e.Dim(), e.Scale())
			for _, w := range e.Warnings() {
				fmt.Fprintf(&out, "warning: %s\n", w)
			}
			for _, part := range parts[1:] {
				request, isRequest := strings.CutPrefix(part, "request\n")
				if !isRequest {
					continue
				}
				line, _, _ := strings.Cut(request, "\n")
				var r struct {
					Context json.RawMessage
					Actions []struct {
						ID       string
						Features json.RawMessage
					}
				}
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				fmt.Fprintf(&out, "\n-- request\n%s\n", line)
				b := feature.NewBatch(e)
				if err := b.Begin(r.Context); err != nil {
					fmt.Fprintf(&out, "error: %v\n", err)
					continue
				}
				for _, a := range r.Actions {
					if err := b.Add(a.ID, a.Features); err != nil {
						fmt.Fprintf(&out, "error: %v\n", err)
						continue
					}
					fmt.Fprintf(&out, "action %q\n", a.ID)
					for i, v := range b.Row(b.Len() - 1) {
						if v != 0 {
							fmt.Fprintf(&out, "  %3d %-40s %v\n", i, e.Coordinate(i), v)
						}
					}
				}
			}
			golden.Compare(t, file, out.String())
		})
	}
}

// TestMurmur3 against published vectors of MurmurHash3_x86_32.
func TestMurmur3(t *testing.T) {
	for _, c := range []struct {
		s    string
		seed uint32
		want uint32
	}{
		{"", 0, 0}, {"", 1, 0x514E28B7}, {"", 0xffffffff, 0x81F16F39},
		{"\xff\xff\xff\xff", 0, 0x76293B50}, {"\x21\x43\x65\x87", 0, 0xF55B516B},
		{"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE}, {"\x21\x43\x65", 0, 0x7E4A8634},
		{"\x21\x43", 0, 0xA0F7B07A}, {"\x21", 0, 0x72661CF4}, {"\x00\x00\x00\x00", 0, 0x2362F9DE},
		{"aaaa", 0x9747b28c, 0x5A97808A}, {"aaa", 0x9747b28c, 0x283E0130}, {"aa", 0x9747b28c, 0x5D211726},
		{"a", 0x9747b28c, 0x7FA09EA6}, {"Hello, world!", 0x9747b28c, 0x24884CBA},
		{"The quick brown fox jumps over the lazy dog", 0x9747b28c, 0x2FA826CD},
	} {
		if got := feature.Murmur3([]byte(c.s), c.seed); got != c.want {
			t.Errorf("murmur3(%q, %#x) = %#x, want %#x", c.s, c.seed, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                        nil,
		"Small ensembles, 2024!":  {"small", "ensembles", "2024"},
		"naïve ÉCOLE":             {"naïve", "école"},
		"東京tower":                 {"東", "京", "tower"},
		"don't":                   {"don", "t"},
		"e\u0301":                 {"e\u0301"},
		"a\x1fb":                  {"a", "b"},
		"x²+y":                    {"x", "y"},
		"Σίσυφος 42٤":             {"σίσυφος", "42٤"},
		"—…\u00a0":                nil,
		"ｆｕｌｌ　ｗｉｄｔｈ":              {"ｆｕｌｌ", "ｗｉｄｔｈ"},
		"カタカナ":                    {"カ", "タ", "カ", "ナ"},
		"one.two_three-four/five": {"one", "two", "three", "four", "five"},
	} {
		if got := feature.Words(in); !slices.Equal(got, want) {
			t.Errorf("words(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestRefused: what is wrong is named with its path and its value, and the batch stays usable.
func TestRefused(t *testing.T) {
	strict := mustEncoder(t, `{"features":[
		{"feature":"context.user.age","kind":"number","range":[0,100]},
		{"feature":"context.ok","kind":"boolean"},
		{"feature":"action.price","kind":"number","range":[0,1],"required":true},
		{"feature":"action.color","kind":"category","levels":["red","green"]},
		{"feature":"action.title","kind":"text","buckets":4},
		{"feature":"action.v","kind":"vector","size":2},
		{"feature":"id","kind":"category","levels":["a","b"]}]}`)
	const ok = `{"price":0.5}`
	deep := strings.Repeat(`{"user":`, 9) + "1" + strings.Repeat("}", 9)
	var many strings.Builder
	for i := range 1025 {
		fmt.Fprintf(&many, `,"_k%d":1`, i)
	}
	for _, c := range []struct{ context, id, action, want string }{
		{`{"user":{"age":101}}`, "a", ok, `context.user.age: is 101, expected a number in [0, 100]`},
		{`{"user":{"age":"31"}}`, "a", ok, `context.user.age: is "31", expected a number in [0, 100]`},
		{`{"user":{"age":[31]}}`, "a", ok, `context.user.age: is a list with 31, expected a number`},
		{`{"user":{"age":[]}}`, "a", ok, `context.user.age: is a list of 0, expected a number`},
		{`{"user":{"age":{"x":1}}}`, "a", ok, `context.user.age: is {"x":1}, expected a value`},
		{`{"user":{"age":NaN}}`, "a", ok, `context.user.age: is not JSON: offset 15: found 'N'`},
		{`{"user":{"age":Infinity}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":1e999}}`, "a", ok, `context.user.age: is 1e999, expected a number that float64 can hold`},
		{`{"user":{"age":-1e999}}`, "a", ok, `context.user.age: is -1e999, expected`},
		{`{"user":{"age":1e}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":01}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":1.}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":+1}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":.5}}`, "a", ok, `context.user.age: is not JSON`},
		{`{"user":{"age":1,"age":2}}`, "a", ok, `context.user.age: is given twice`},
		{`{"user":{"age":null,"age":2}}`, "a", ok, `context.user.age: is given twice`},
		{`{"user":{"\u0061ge":1,"age":2}}`, "a", ok, `context.user.age: is given twice`},
		{`{"user":{"age":1},"user":{}}`, "a", ok, `context.user: is given twice`},
		{`{"user":{"age":1},"user":1}`, "a", ok, `context.user: is given twice`},
		{`{"user":{"age":1},"user.age":1}`, "a", ok, `context.user.age: is given twice`},
		{`[{"user":{"age":1}},{"user":{"age":1}}]`, "a", ok, `context.user.age: is given twice`},
		{`{"_x":1,"_x":2}`, "a", ok, `context._x: is given twice`},
		{`{"_x":{"a":1},"_x":{"b":2}}`, "a", ok, `context._x: is given twice`},
		{`{"user":{"agee":1}}`, "a", ok, `context.user.agee: is not a feature of the schema`},
		{`{"user":7}`, "a", ok, `context.user: is not a feature of the schema`},
		{`{"ok":1}`, "a", ok, `context.ok: is 1, expected true or false`},
		{`{"ok":truth}`, "a", ok, `context.ok: is not JSON`},
		{`{"":1}`, "a", ok, `context: a key is empty`},
		{`[1]`, "a", ok, `context: is 1, expected an object with named features`},
		{`"x"`, "a", ok, `context: is "x", expected an object with named features`},
		{`{}x`, "a", ok, `context: is not JSON: offset 2: found 'x', expected the end`},
		{`{"ok":true,}`, "a", ok, `context: is not JSON`},
		{`{"ok":true`, "a", ok, `context: is not JSON: offset 10: found the end of the bytes`},
		{`{,}`, "a", ok, `context: is not JSON`},
		{deep, "a", ok, `expected at most 8 objects and lists inside each other`},
		{`{"_d":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}`, "a", ok, `expected at most 8 objects`},
		{`{"ok":true` + many.String() + "}", "a", ok, `expected at most 1024 keys and list elements`},
		{`{"_s":"` + strings.Repeat(" ", 1<<20) + `"}`, "a", ok, `context: expected at most 1048576 bytes, found`},
		{`{"_` + strings.Repeat("x", 256) + `":1}`, "a", ok, `expected at most 256 bytes in a name with its dots`},
		{`{}`, "\xff", ok, `actions[0].id: is not valid UTF-8`},
		{`{}`, "c", ok, `actions[0].id: is "c", expected one of the 2 levels (a, b)`},
		{`{}`, "", ok, `actions[0].id: is missing or empty`},
		{`{}`, "a", `{}`, `actions[0].price: is missing`},
		{`{}`, "a", `{"price":null}`, `actions[0].price: is missing`},
		{`{}`, "a", `{"price":0,"color":"blue"}`, `actions[0].color: is "blue", expected one of the 2 levels (red, green)`},
		{`{}`, "a", `{"price":0,"color":null}`, ``},
		{`{}`, "a", `{"price":0,"color":["red",null]}`, `actions[0].color: is a list with null, expected`},
		{`{}`, "a", `{"price":0,"color":["red",["red"]]}`, `actions[0].color: is ["red"], expected a value, not a list in a list`},
		{`{}`, "a", `{"price":0,"title":3}`, `actions[0].title: is 3, expected text`},
		{`{}`, "a", `{"price":0,"title":"` + strings.Repeat("x", 8193) + `"}`, `actions[0].title: expected a string of at most 8192 bytes, found 8193`},
		{`{}`, "a", "{\"price\":0,\"title\":\"\xff\"}", `actions[0].title: is not JSON: a string is not valid UTF-8`},
		{`{}`, "a", "{\"price\":0,\"title\":\"\\n\xff\"}", `actions[0].title: is not JSON: a string is not valid UTF-8`},
		{`{}`, "a", `{"price":0,"title":"\ud800"}`, `actions[0].title: is not JSON`},
		{`{}`, "a", `{"price":0,"title":"\ud800\u0041"}`, `actions[0].title: is not JSON`},
		{`{}`, "a", `{"price":0,"title":"\x"}`, `actions[0].title: is not JSON`},
		{`{}`, "a", "{\"price\":0,\"title\":\"\n\"}", `actions[0].title: is not JSON`},
		{`{}`, "a", `{"price":0,"v":[0.6]}`, `actions[0].v: is a list of 1, expected a list of 2 numbers`},
		{`{}`, "a", `{"price":0,"v":[0.6,0,0]}`, `actions[0].v: is a list with 0, expected a list of 2 numbers`},
		{`{}`, "a", `{"price":0,"v":0.6}`, `actions[0].v: is 0.6, expected a list of 2 numbers`},
		{`{}`, "a", `{"price":0,"v":[0.8,0.8]}`, `actions[0].v: is a list of 2, expected a vector of norm at most 1`},
		{`{}`, "a", `{"price":0,"v":[1e308,1e308]}`, `actions[0].v: is a list of 2, expected a vector of norm at most 1`},
		{`{}`, "a", `{"price":0,"v":{"dtype":"float32","shape":[2],"data":"AADAfwAAAAA="}}`, `actions[0].v: is NaN in number 0 of data`},
		{`{}`, "a", `{"price":0,"v":{"dtype":"float32","shape":[3],"data":"AAAAAAAAAAA="}}`, `actions[0].v: expected data of 12 bytes`},
		{`{}`, "a", `{"price":0,"v":{"dtype":"float32","shape":[1,2],"data":"AAAAAAAAAAA="}}`, `actions[0].v: expected packed numbers of shape [n], found [1, 2]`},
		{`{}`, "a", `{"price":0,"v":{"dtype":"float32","dtype":"float32","shape":[2],"data":"AAAAAAAAAAA="}}`, `actions[0].v: is given twice`},
	} {
		b := feature.NewBatch(strict)
		err := b.Begin([]byte(c.context))
		if err == nil {
			if err := b.Add("b", []byte(ok)); err != nil {
				t.Fatal(err)
			}
			before := slices.Clone(b.X())
			// The index in the path is that of the second action.
			err = b.Add(c.id, []byte(c.action))
			if err != nil {
				if !slices.Equal(b.X(), before) || b.Len() != 1 {
					t.Errorf("%s: a failed Add changed the batch", c.action)
				}
				if err := b.Add("a", []byte(ok)); err != nil || b.Len() != 2 {
					t.Errorf("%s: after it, a good action gives %v", c.action, err)
				}
			}
		}
		want := strings.Replace(c.want, "actions[0]", "actions[1]", 1)
		switch {
		case want == "" && err != nil:
			t.Errorf("%.80s %.80s: refused: %v", c.context, c.action, err)
		case want != "" && err == nil:
			t.Errorf("%.80s %.80s: accepted, want %s", c.context, c.action, want)
		case want != "" && !strings.Contains(err.Error(), want):
			t.Errorf("%.80s %.80s:\n got %v\nwant %s", c.context, c.action, err, want)
		}
		var e *feature.Error
		if err != nil && (!errors.As(err, &e) || e.Path == "" || e.Code == "" || e.Value != "" && strings.Contains(e.Redacted(), e.Value)) {
			t.Errorf("%s: error %#v has no path or code, or shows the value when redacted", c.action, err)
		}
	}
}

// TestHostileCost: the worst requests that we can think of cost milliseconds (measured: 5). The
// bound of 2 s leaves room for a busy machine; without the limit on names, "dots below dots" needs
// minutes.
func TestHostileCost(t *testing.T) {
	e := mustEncoder(t, `{"unknown":"hash","features":[{"feature":"context.*","kind":"hash","buckets":64},{"feature":"context.t.*","kind":"hash","buckets":64},{"feature":"context.text","kind":"text","buckets":64}]}`)
	var dots, keys, words, many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&dots, `%q:%d,`, strings.Repeat(".", 240)+strconv.Itoa(i), i)
		fmt.Fprintf(&keys, `"k%d":{"x":{}},`, i/3*3)
		fmt.Fprintf(&words, `%q,`, strings.Repeat("a ", 500))
		fmt.Fprintf(&many, `"l%d":1,`, i)
	}
	dot := `{"` + strings.Repeat(".", 8000) + `":`
	for name, request := range map[string]string{
		"names of dots":   `{` + dots.String() + `"a":1}`,
		"equal keys":      `{` + keys.String() + `"a":1}`,
		"words":           `{"text":[` + words.String() + `"a"]}`,
		"many keys":       `{` + many.String() + `"a":1}`,
		"dots below dots": strings.Repeat(dot, 7) + `{` + many.String() + `"a":1}` + strings.Repeat("}", 7),
		"long number":     `{"a":0.` + strings.Repeat("1", 8000) + `}`,
		"deep":            strings.Repeat(`[`, 1<<19),
	} {
		b := feature.NewBatch(e)
		start := time.Now()
		err := b.Begin([]byte(request))
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: %v (%v)", name, took, err)
		}
		t.Logf("%s: %d bytes, %v, %v", name, len(request), time.Since(start), err)
	}
}

// TestDuplicateOthers: what the schema ignores may not come twice either.
func TestDuplicateOthers(t *testing.T) {
	e := mustEncoder(t, `{"unknown":"ignore","features":[{"feature":"action.x","kind":"number","range":[0,1]}]}`)
	for in, twice := range map[string]bool{
		`{"z":1,"y":1}`:                     false,
		`{"z":1,"z":1}`:                     true,
		`[{"z":1},{"z":2}]`:                 true,
		`{"z":{"a":1},"z":{"b":1}}`:         true,
		`[{"z":{"a":1}},{"z":{"b":1}}]`:     false,
		`[{"z":{"a":1}},{"z":{"a":1}}]`:     true,
		`{"z":1,"z":{}}`:                    true,
		`{"z":{},"z":1}`:                    true,
		`{"z.a":1,"z":{"a":1}}`:             true,
		`{"_z":{"a":1},"y":{"_z":{"a":1}}}`: false,
	} {
		err := feature.NewBatch(e).Begin([]byte(in))
		if (err != nil) != twice || err != nil && !strings.Contains(err.Error(), "is given twice") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// TestLimits: K, K·d.
func TestLimits(t *testing.T) {
	s, _ := feature.Parse([]byte(`{"features":[{"feature":"action.x","kind":"number","range":[0,1]}]}`))
	e, err := feature.New(s, feature.Limits{Actions: 3, Cells: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := encode(e, "", [2]string{}, [2]string{}); err != nil {
		t.Error(err)
	}
	if e, err := feature.New(s, feature.Limits{Actions: 1}); err != nil {
		t.Error(err)
	} else if _, err := encode(e, "", [2]string{}, [2]string{}); err == nil {
		t.Error("two actions where one is allowed")
	}
	if _, err := encode(e, "", [2]string{}, [2]string{}, [2]string{}); err == nil || !strings.Contains(err.Error(), "actions: expected at most 2 actions (d = 2)") {
		t.Errorf("three actions of two coordinates in four cells: %v", err)
	}
}

// TestBadSchemas: errors name the place in the schema.
func TestBadSchemas(t *testing.T) {
	number := `{"feature":"action.a","kind":"number","range":[0,1]}`
	for in, want := range map[string]string{
		`{`:             "schema: is not JSON",
		`[]`:            "is a list of 0, expected a table",
		`{"feature":1}`: `feature: unknown key "feature"; did you mean "features"?`,
		`{"model":"joint","features":[` + number + `]}`:                                                                                                            `model: is "joint"`,
		`{"model":"disjoint","features":[` + number + `]}`:                                                                                                         `model: is "disjoint"; declare the ids`,
		`{"unknown":"keep","features":[` + number + `]}`:                                                                                                           `unknown: is "keep"; expected one of hash, ignore, refuse`,
		`{"unknown":"hash","features":[` + number + `]}`:                                                                                                           `unknown: is "hash"; hash goes with a feature`,
		`{"features":[{"feature":"action.*","kind":"hash","buckets":4}]}`:                                                                                          `unknown: is "refuse"; hash goes with`,
		`{"format":"troupe.feature/2","features":[` + number + `]}`:                                                                                                `format: is "troupe.feature/2", this version reads "troupe.feature/1"`,
		`{"intercept":false,"features":[]}`:                                                                                                                        `features: is empty`,
		`{"features":[` + number + `,` + number + `]}`:                                                                                                             `features[1].feature: is "action.a"; "action.a" is a feature already`,
		`{"features":[` + number + `,{"feature":"action.a.b","kind":"boolean"}]}`:                                                                                  `features[1].feature: is "action.a.b"; "action.a" is a feature already`,
		`{"features":[{"feature":"action.a.b","kind":"boolean"},` + number + `]}`:                                                                                  `features[1].feature: is "action.a", which is also the beginning`,
		`{"features":[{"feature":"action.a","kind":"number"}]}`:                                                                                                    `features[0].range: has 0 numbers`,
		`{"features":[{"feature":"action.a","kind":"number","range":[1,1]}]}`:                                                                                      `features[0].range: is [1, 1], expected finite min < max`,
		`{"features":[{"feature":"action.a","kind":"number","range":[-1e308,1e308]}]}`:                                                                             `features[0].range: is`,
		`{"features":[{"feature":"action.a","kind":"number","range":[0,1e999]}]}`:                                                                                  `features[0].range[1]: is 1e999, expected a number that float64 can hold`,
		`{"features":[{"feature":"action.a","kind":"number","range":[0,1],"levels":["x"]}]}`:                                                                       `features[0].levels: unknown key "levels"`,
		`{"features":[{"feature":"action.a","kind":"nummer","range":[0,1]}]}`:                                                                                      `features[0].kind: unknown kind "nummer"; did you mean "number"?`,
		`{"features":[{"feature":"action.a","range":[0,1]}]}`:                                                                                                      `features[0]: kind is missing`,
		`{"features":[{"feature":"action.a","kind":"boolean","weight":0}]}`:                                                                                        `features[0].weight: is 0, expected a positive number`,
		`{"features":[{"feature":"action.a","kind":"boolean","weight":1e9}]}`:                                                                                      `features[0].weight: is 1e+09, expected a number in`,
		`{"features":[{"feature":"action.a","kind":"boolean","kind":"text"}]}`:                                                                                     `features[0].kind: is given twice`,
		`{"features":[{"feature":"price","kind":"boolean"}]}`:                                                                                                      `features[0].feature: is "price", expected a name that begins with`,
		`{"features":[{"feature":"action","kind":"boolean"}]}`:                                                                                                     `features[0].feature: is "action"; only a vector`,
		`{"features":[{"feature":"action._a","kind":"boolean"}]}`:                                                                                                  `features[0].feature: is "action._a"; the part "_a"`,
		`{"features":[{"feature":"action.a..b","kind":"boolean"}]}`:                                                                                                `features[0].feature`,
		`{"features":[{"feature":"action.a*","kind":"boolean"}]}`:                                                                                                  `features[0].feature`,
		`{"features":[{"feature":"action.a.*","kind":"boolean"}]}`:                                                                                                 `features[0].feature: is "action.a.*"; names that end in .*`,
		`{"features":[{"feature":"action.a","kind":"hash","buckets":4}]}`:                                                                                          `features[0].feature`,
		`{"features":[{"feature":"id","kind":"boolean"}]}`:                                                                                                         `features[0].feature: is "id"; the action's id is a category`,
		`{"features":[{"feature":"action.a","kind":"category"}]}`:                                                                                                  `features[0].levels: is missing`,
		`{"features":[{"feature":"action.a","kind":"category","levels":["x","x"]}]}`:                                                                               `features[0].levels[1]: is "x", like levels[0]`,
		`{"features":[{"feature":"action.a","kind":"category","levels":["x"],"buckets":2}]}`:                                                                       `features[0].buckets: is 2 beside 1 levels`,
		`{"features":[{"feature":"action.a","kind":"category","buckets":2,"unseen":"other"}]}`:                                                                     `features[0].unseen`,
		`{"features":[{"feature":"action.a","kind":"text","buckets":0}]}`:                                                                                          `features[0].buckets: is 0, expected 1 to 1024`,
		`{"features":[{"feature":"action.a","kind":"text","buckets":1e9}]}`:                                                                                        `features[0].buckets: is 1000000000, expected 1 to 1024`,
		`{"features":[{"feature":"action.a","kind":"vector","size":1e9}]}`:                                                                                         `features[0]: has 1000000000 coordinates, expected at most 1024`,
		`{"features":[{"feature":"action.a","kind":"vector","size":2,"bound":0}]}`:                                                                                 `features[0].bound: is 0`,
		`{"features":[` + number + `],"crosses":[["action.a"]]}`:                                                                                                   `crosses[0]: has 1 names`,
		`{"features":[` + number + `],"crosses":[["action.a","action.b"]]}`:                                                                                        `crosses[0][1]: is "action.b", which is not a feature of the schema`,
		`{"features":[` + number + `],"crosses":[["action.a","action.a"]]}`:                                                                                        `crosses[0]: is action.a × action.a, expected two different`,
		`{"features":[{"feature":"action.a","kind":"boolean","cross_only":true}]}`:                                                                                 `features[0].cross_only: is true, but action.a is in no cross`,
		`{"features":[{"feature":"action","kind":"vector","size":2},` + number + `]}`:                                                                              `features[0]: takes the whole action`,
		`{"features":[{"feature":"context.a","kind":"text","buckets":64},{"feature":"action.a","kind":"text","buckets":64}],"crosses":[["context.a","action.a"]]}`: `features: give d = 4225 coordinates, expected at most 1024: context.a × action.a has 4096`,
		`{"model":"disjoint","features":[{"feature":"id","kind":"category","levels":["a"],"unseen":"ignore"}]}`:                                                    `features[0].unseen: is "ignore"`,
		`{"model":"disjoint","features":[{"feature":"id","kind":"category","levels":["a"]},` + number + `],"crosses":[["id","action.a"]]}`:                         `crosses[0][0]: is "id"; in a disjoint model`,
		`{"features":[` + number + `,{"feature":"action.b","kind":"boolean"}],"crosses":[["action.a","action.b"],["action.b","action.a"]]}`:                        `crosses[1]: is action.b × action.a, expected two different features, each pair once`,
	} {
		s, err := feature.Parse([]byte(in))
		if err == nil {
			_, err = feature.New(s, feature.Limits{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

// TestCanonical: reading the canonical text gives the schema back, and the identity does not
// depend on how the schema was written.
func TestCanonical(t *testing.T) {
	for _, in := range []string{rich, benchSchema} {
		s, err := feature.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		again, err := feature.Parse(s.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Error(diff)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, s.Canonical(), "", "\t"); err != nil {
			t.Fatal(err)
		}
		var third feature.Schema
		if err := json.Unmarshal(indented.Bytes(), &third); err != nil || third.ID() != s.ID() {
			t.Errorf("%v: the identity of an indented text is %s, want %s", err, third.ID(), s.ID())
		}
		third.Intercept = !third.Intercept
		if third.ID() == s.ID() {
			t.Error("a schema without intercept has the same identity")
		}
	}
	// Saying a default aloud changes nothing.
	a, _ := feature.Parse([]byte(`{"features":[{"feature":"action.t","kind":"text","buckets":4,"bigrams":true,"weight":1,"required":false}],"unknown":"refuse","model":"shared","crosses":[]}`))
	b, _ := feature.Parse([]byte(`{"features":[{"kind":"text","feature":"action.t","buckets":4}]}`))
	if a.ID() != b.ID() {
		t.Errorf("defaults said aloud change the identity:\n%s\n%s", a.Canonical(), b.Canonical())
	}
}

// TestWarnings: the schemas in which shared features cannot change the ranking, and that this is
// true: two contexts give every action the same shift.
func TestWarnings(t *testing.T) {
	age := `{"feature":"context.age","kind":"number","range":[0,100]}`
	price := `{"feature":"action.price","kind":"number","range":[0,1]}`
	ids := `{"feature":"id","kind":"category","levels":["a","b"]}`
	for _, c := range []struct {
		schema string
		want   []string
	}{
		{`{"features":[` + age + `,` + price + `]}`, []string{"context.age is the same for every action"}},
		{`{"features":[` + age + `,` + price + `],"crosses":[["context.age","action.price"]]}`, nil},
		{`{"features":[` + age + `,` + ids + `],"crosses":[["id","context.age"]]}`, nil},
		{`{"model":"disjoint","features":[` + age + `,` + ids + `]}`, nil},
		{`{"features":[` + age + `,` + price + `,{"feature":"context.b","kind":"boolean"}],"crosses":[["context.b","context.age"]]}`, []string{"context.age, context.b are the same"}},
		{`{"features":[` + age + `]}`, []string{"context.age is the same", "no feature depends on the action"}},
		{`{"model":"disjoint","features":[` + age + `,{"feature":"id","kind":"category","levels":["a"]}]}`, []string{"there is one id"}},
	} {
		got := mustEncoder(t, c.schema).Warnings()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.schema, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %q", c.schema, got)
			}
		}
	}
	e := mustEncoder(t, `{"features":[`+age+`,`+price+`]}`)
	young, err := encode(e, `{"age":20}`, [2]string{"", `{"price":0.1}`}, [2]string{"", `{"price":0.7}`})
	if err != nil {
		t.Fatal(err)
	}
	old, err := encode(e, `{"age":90}`, [2]string{"", `{"price":0.1}`}, [2]string{"", `{"price":0.7}`})
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Dim() {
		if d0, d1 := old.Row(0)[i]-young.Row(0)[i], old.Row(1)[i]-young.Row(1)[i]; d0 != d1 {
			t.Errorf("coordinate %d moves by %v and %v", i, d0, d1)
		}
	}
	if slices.Equal(young.X(), old.X()) {
		t.Error("the context is not in the vectors at all")
	}
}

// TestDisjoint: an action's vector is the shared vector in its own block.
func TestDisjoint(t *testing.T) {
	const rest = `"features":[{"feature":"id","kind":"category","levels":["a","b"],"unseen":"other"},
		{"feature":"context.age","kind":"number","range":[0,100]},{"feature":"action.price","kind":"number","range":[0,1]}]}`
	e := mustEncoder(t, `{"model":"disjoint",`+rest)
	if e.Dim() != 9 {
		t.Fatalf("d = %d, want 3 ids × 3", e.Dim())
	}
	b, err := encode(e, `{"age":75}`, [2]string{"b", `{"price":0.25}`}, [2]string{"new", `{"price":1}`})
	if err != nil {
		t.Fatal(err)
	}
	s := e.Scale()
	if want := []float64{0, 0, 0, s, 0.5 * s, -0.5 * s, 0, 0, 0}; !slices.Equal(b.Row(0), want) {
		t.Errorf("b: %v, want %v", b.Row(0), want)
	}
	if want := []float64{0, 0, 0, 0, 0, 0, s, 0.5 * s, s}; !slices.Equal(b.Row(1), want) {
		t.Errorf("new: %v, want %v", b.Row(1), want)
	}
	if got := e.Coordinate(4); got != "id=b: context.age" {
		t.Errorf("coordinate 4 is %q", got)
	}
	heavy := mustEncoder(t, `{"model":"disjoint","features":[{"feature":"id","kind":"category","levels":["a"],"weight":3}]}`)
	if b, err := encode(heavy, "", [2]string{"a", ""}); err != nil || math.Abs(b.Row(0)[0]-1) > 1e-11 {
		t.Errorf("an id of weight 3 and an intercept: %v, %v, want 1", b, err)
	}
}

// TestPlainVector: a schema that is one vector passes its bits on, as JSON, packed, one by one or
// as a matrix.
func TestPlainVector(t *testing.T) {
	e := mustEncoder(t, `{"intercept":false,"features":[{"feature":"action","kind":"vector","size":3}]}`)
	if e.Scale() != 1 {
		t.Fatalf("scale %v", e.Scale())
	}
	x := []float64{0.1, -0.2, 0.3, 1.0 / 3, 5e-324, math.Copysign(0, -1), 0.6, 0.64, 0.48}
	want := slices.Clone(x)
	want[4], want[5] = 0, 0 // subnormal numbers are zero
	b := feature.NewBatch(e)
	if err := b.Begin(nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		row, _ := json.Marshal(x[3*i : 3*i+3])
		if err := b.Add("", row); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := b.Add("", feature.AppendPacked(nil, x[3*i:3*i+3], 3, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddPacked(nil, feature.AppendPacked(nil, x, 3, 3)); err != nil {
		t.Fatal(err)
	}
	for i, v := range b.X() {
		if math.Float64bits(v) != math.Float64bits(want[i%9]) {
			t.Errorf("number %d is %v, want %v", i, v, want[i%9])
		}
	}
	if b.Len() != 9 {
		t.Errorf("%d actions", b.Len())
	}
	// A unit vector in float32 is longer than 1 by rounding: it is brought back, not refused.
	f32 := `{"dtype":"float32","shape":[3],"data":"7AXRPuwFUT/sBdE+"}`
	numbers, rows, cols, err := feature.Unpack(nil, []byte(f32), feature.Limits{})
	if err != nil || rows != 3 || cols != 0 {
		t.Fatal(numbers, rows, cols, err)
	}
	if err := b.Add("", []byte(f32)); err != nil {
		t.Errorf("%v of norm %.10f: %v", numbers, norm(numbers), err)
	}
	if n := norm(b.Row(9)); n > 1 || n < 1-1e-6 {
		t.Errorf("norm %v", n)
	}
	for _, bad := range []string{
		`{"dtype":"float64","shape":[1,2],"data":"AAAAAAAAAAAAAAAAAAAAAA=="}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAA8H8AAAAAAAAAAAAAAAAAAAAA"}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAFEAAAAAAAAAAAAAAAAAAAAAA"}`,
		`{"dtype":"float16","shape":[1,3],"data":""}`, `{}`, ``, `[1,2,3]`,
		`{"dtype":"float64","shape":[0,3],"data":""}`, `{"dtype":"float64","shape":[],"data":""}`,
		`{"dtype":"float64","shape":[1e3,1e6],"data":""}`, `{"dtype":"float64","shape":[1,1,3],"data":""}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA!A"}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAA\nAAA"}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\n\n\n"}`,
		`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAA==\n\n\n\n\n\n\n\n"}`,
		`{"dtype":"float64","shape":[1,3],"shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`,
		`{"dtype":"float64","shape":[1,3],"size":3}`,
	} {
		before := slices.Clone(b.X())
		if err := b.AddPacked(nil, []byte(bad)); err == nil {
			t.Errorf("accepted %s", bad)
		} else if !slices.Equal(before, b.X()) {
			t.Errorf("%s changed the batch", bad)
		}
	}
	// A bad row takes the good ones before it back.
	k := b.Len()
	if err := b.AddPacked(nil, feature.AppendPacked(nil, []float64{1, 0, 0, 0, 2, 0}, 2, 3)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("actions[%d]: ", k+1)) || b.Len() != k || len(b.X()) != 3*k {
		t.Errorf("%v, then %d actions and %d numbers, want %d", err, b.Len(), len(b.X()), k)
	}
	// Escapes are JSON too, also when a later key has some of its own.
	escaped := `{"data":"AAAAAAAA8D8AAAAAAAAAA\u0041AAAAAAAAAA","sh\u0061pe":[1,3],"d\u0074\u0079pe":"float64"}`
	if x, _, _, err := feature.Unpack(nil, []byte(escaped), feature.Limits{}); err != nil || !slices.Equal(x, []float64{1, 0, 0}) {
		t.Errorf("escaped base64: %v, %v", x, err)
	}
	if err := b.AddPacked([]string{"a"}, feature.AppendPacked(nil, x, 3, 3)); err == nil {
		t.Error("one id for three rows is accepted")
	}
}

// TestShapes: the requests of Azure Personalizer (lists of objects) and of VW (dsjson, keys that
// begin with _) say the same as nested and dotted ones.
func TestShapes(t *testing.T) {
	e := mustEncoder(t, `{"unknown":"ignore","features":[
		{"feature":"context.user.age","kind":"number","range":[0,1]},
		{"feature":"context.user.city","kind":"category","levels":["Oslo","Paris"]},
		{"feature":"action.item.price","kind":"number","range":[0,1]},
		{"feature":"id","kind":"category","levels":["a","b"]}],
		"crosses":[["context.user.city","action.item.price"],["context.user.age","id"]]}`)
	want, err := encode(e, `{"user":{"age":0.31,"city":"Oslo"}}`, [2]string{"b", `{"item":{"price":0.4}}`})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`[{"user":{"age":0.31}},{"user":{"city":"Oslo"}}]`, `[{"item":{"price":0.4}}]`},
		{`{"user":{"age":0.31,"city":"Oslo"},"_multi":[{"_tag":"b","item":{"price":[[0.4]]}}]}`, `{"_tag":"b","item":{"price":0.4}}`},
		{`{"user.age":0.31,"user":{"city":"Oslo","zip":null,"x":{}}}`, ` { "item.price" : 0.4 , "other" : [ {"a":1} ] } `},
		{`[{"user":{"age":31e-2}},{"device":{"os":"x"}},{"user":{"city":"O\u0073lo"}}]`, `{"item":{"price":0.40}}`},
	} {
		got, err := encode(e, c[0], [2]string{"b", c[1]})
		if err != nil {
			t.Errorf("%s %s: %v", c[0], c[1], err)
		} else if !slices.Equal(got.X(), want.X()) {
			t.Errorf("%s %s: %v, want %v", c[0], c[1], got.X(), want.X())
		}
	}
}

// TestLabels: numbers and booleans are levels under their text.
func TestLabels(t *testing.T) {
	e := mustEncoder(t, `{"intercept":false,"features":[{"feature":"action.c","kind":"category","levels":["1","0.5","true","12345678901234567890","0"],"unseen":"ignore"}]}`)
	for v, want := range map[string]int{"1": 0, "1.0": 0, "1e0": 0, `"1"`: 0, "0.50": 1, "5e-1": 1, "true": 2, "12345678901234567890": 3, "-0": 4, "0.0": 4, "12345678901234567891": -1, "false": -1, `"TRUE"`: -1} {
		b, err := encode(e, "", [2]string{"", `{"c":` + v + `}`})
		if err != nil {
			t.Errorf("%s: %v", v, err)
			continue
		}
		if got := slices.Index(b.Row(0), 1); got != want {
			t.Errorf("%s is level %d, want %d", v, got, want)
		}
	}
}

// TestHashedSigns: over many words the signs are fair and the buckets are filled evenly. Null:
// uniform hashing; n = 4096 fixed words in 16 × 2 cells; the threshold is the 1 − 2.6e-5 quantile
// of χ² with 31 degrees of freedom.
func TestHashedSigns(t *testing.T) {
	e := mustEncoder(t, `{"intercept":false,"features":[{"feature":"action.w","kind":"text","buckets":16}]}`)
	counts := map[[2]int]float64{}
	b := feature.NewBatch(e)
	if err := b.Begin(nil); err != nil {
		t.Fatal(err)
	}
	const n = 4096
	for i := range n {
		if i%1000 == 0 {
			if err := b.Begin(nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Add("", []byte(fmt.Sprintf(`{"w":"word%d"}`, i))); err != nil {
			t.Fatal(err)
		}
		for j, v := range b.Row(b.Len() - 1) {
			if v != 0 {
				counts[[2]int{j, int(math.Copysign(1, v))}]++
			}
		}
	}
	var chi2 float64
	for j := range 16 {
		for _, s := range []int{-1, 1} {
			d := counts[[2]int{j, s}] - n/32.0
			chi2 += d * d / (n / 32.0)
		}
	}
	if chi2 > 73.6 {
		t.Errorf("χ² = %.1f with 31 degrees of freedom: %v", chi2, counts)
	}
}

func norm(x []float64) float64 {
	var q float64
	for _, v := range x {
		q += v * v
	}
	return math.Sqrt(q)
}

// member is a key with its value, in an order of its own.
type member struct {
	key   string
	value any // string (JSON text) or []member
}

func (m member) write(b *strings.Builder) {
	k, _ := json.Marshal(m.key)
	b.Write(k)
	b.WriteByte(':')
	switch v := m.value.(type) {
	case string:
		b.WriteString(v)
	case []member:
		writeObject(b, v)
	}
}

func writeObject(b *strings.Builder, ms []member) {
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		m.write(b)
	}
	b.WriteByte('}')
}

func object(ms []member) string {
	var b strings.Builder
	writeObject(&b, ms)
	return b.String()
}

// shuffled permutes the keys on every level.
func shuffled(t *rapid.T, ms []member) []member {
	out := rapid.Permutation(ms).Draw(t, "order")
	out = slices.Clone(out)
	for i := range out {
		if sub, ok := out[i].value.([]member); ok {
			out[i].value = shuffled(t, sub)
		}
	}
	return out
}

func numbers() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		x := rapid.OneOf(rapid.Float64Range(-2, 2), rapid.Float64Range(-1e308, 1e308), rapid.Just(0.0)).Draw(t, "x")
		return strconv.FormatFloat(x, 'g', -1, 64)
	})
}

func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s, _ := json.Marshal(rapid.OneOf(rapid.SampledFrom([]string{"Oslo", "Paris", "a b c", ""}), rapid.String()).Draw(t, "s"))
		return string(s)
	})
}

func list(g *rapid.Generator[string], most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(g, 0, most).Draw(t, "list"), ",") + "]"
	})
}

// some keeps each of the members or not.
func some(t *rapid.T, ms ...member) []member {
	return slices.DeleteFunc(ms, func(m member) bool { return !rapid.Bool().Draw(t, "has "+m.key) })
}

func richContext(t *rapid.T) []member {
	two := rapid.Custom(func(t *rapid.T) string {
		return "[" + numbers().Draw(t, "a") + "," + numbers().Draw(t, "b") + "]"
	})
	any := rapid.OneOf(numbers(), texts(), list(rapid.OneOf(numbers(), texts()), 5), rapid.Just("true"))
	return some(t,
		member{"user", some(t, member{"age", numbers().Draw(t, "age")}, member{"city", texts().Draw(t, "city")}, member{"x", any.Draw(t, "x")})},
		member{"mood", two.Draw(t, "mood")}, member{"y", any.Draw(t, "y")}, member{"z", any.Draw(t, "z")})
}

func richAction(t *rapid.T) []member {
	any := rapid.OneOf(numbers(), texts(), list(rapid.OneOf(numbers(), texts()), 5), rapid.Just("true"))
	return some(t,
		member{"price", numbers().Draw(t, "price")}, member{"new", rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "new")},
		member{"item", some(t, member{"tags", list(texts(), 6).Draw(t, "tags")}, member{"title", texts().Draw(t, "title")},
			member{"p", any.Draw(t, "p")}, member{"q", any.Draw(t, "q")}, member{"r", any.Draw(t, "r")})},
		member{"u", any.Draw(t, "u")}, member{"v", any.Draw(t, "v")}, member{"w", any.Draw(t, "w")})
}

// TestProperties: for every request of the rich schema, the vectors are finite and in the unit
// ball, no entry is −0 or subnormal, and neither the order of keys, nor a used batch, nor the
// neighbours change a bit.
func TestProperties(t *testing.T) {
	e := mustEncoder(t, rich)
	used := feature.NewBatch(e)
	rapid.Check(t, func(t *rapid.T) {
		context := richContext(t)
		ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "é"}), 1, 3).Draw(t, "ids")
		var actions [][]member
		for range ids {
			actions = append(actions, richAction(t))
		}
		if err := used.Begin([]byte(object(context))); err != nil {
			t.Fatal(err)
		}
		for i, a := range actions {
			if err := used.Add(ids[i], []byte(object(a))); err != nil {
				t.Fatalf("%v in %s", err, object(a))
			}
		}
		for i, a := range actions {
			row := used.Row(i)
			if n := norm(row); !(n <= 1) {
				t.Fatalf("norm %v of %s", n, object(a))
			}
			for j, v := range row {
				if v == 0 && math.Signbit(v) || v != 0 && math.Abs(v) < 0x1p-1022 {
					t.Fatalf("coordinate %d is %v", j, v)
				}
			}
			alone, err := encode(e, object(shuffled(t, context)), [2]string{ids[i], object(shuffled(t, a))})
			if err != nil {
				t.Fatal(err)
			}
			for j, v := range alone.Row(0) {
				if math.Float64bits(v) != math.Float64bits(row[j]) {
					t.Fatalf("%s is %v, in another order %v", e.Coordinate(j), row[j], v)
				}
			}
		}
	})
}

// TestReference compares with a second encoder, written from the formula of the package comment
// with encoding/json and maps.
func TestReference(t *testing.T) {
	const schema = `{"features":[
		{"feature":"context.a","kind":"number","range":[-2,6],"weight":3},
		{"feature":"context.b","kind":"category","levels":["x","y","z"],"unseen":"ignore"},
		{"feature":"action.c","kind":"boolean"},
		{"feature":"action.d","kind":"number","range":[0,1],"outside":"clamp","weight":0.5},
		{"feature":"id","kind":"category","levels":["i","j"],"cross_only":true}],
		"crosses":[["context.a","action.c"],["context.b","id"],["action.d","context.b"]]}`
	e := mustEncoder(t, schema)
	rapid.Check(t, func(t *rapid.T) {
		context := map[string]any{"a": rapid.Float64Range(-2, 6).Draw(t, "a"), "b": rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z", "?"}), 0, 4).Draw(t, "b")}
		action := map[string]any{"c": rapid.Bool().Draw(t, "c"), "d": rapid.Float64Range(-1, 2).Draw(t, "d")}
		id := rapid.SampledFrom([]string{"i", "j"}).Draw(t, "id")

		a := []float64{3 * (2*(context["a"].(float64)+2)/8 - 1)}
		b := make([]float64, 3)
		for _, s := range context["b"].([]string) {
			if i := strings.Index("xyz", s); i >= 0 {
				b[i]++
			}
		}
		if n := norm(b); n > 1 {
			for i := range b {
				b[i] /= n
			}
		}
		c := []float64{-1}
		if action["c"].(bool) {
			c[0] = 1
		}
		d := []float64{0.5 * (2*min(max(action["d"].(float64), 0), 1) - 1)}
		one := []float64{0, 0}
		one[strings.Index("ij", id)] = 1
		outer := func(p, q []float64) (out []float64) {
			for _, v := range p {
				for _, w := range q {
					out = append(out, v*w)
				}
			}
			return
		}
		s := 1 / math.Sqrt(1+9+1+1+0.25+9+1+0.25)
		want := slices.Concat([]float64{1}, a, b, c, d, outer(a, c), outer(b, one), outer(d, b))
		ctx, _ := json.Marshal(context)
		act, _ := json.Marshal(action)
		got, err := encode(e, string(ctx), [2]string{id, string(act)})
		if err != nil {
			t.Fatal(err)
		}
		if len(want) != e.Dim() {
			t.Fatalf("d = %d, want %d", e.Dim(), len(want))
		}
		for i, v := range got.Row(0) {
			// One part in 2⁴⁰ is the room for rounding that the scale leaves.
			if math.Abs(v-s*want[i]) > 1e-12 {
				t.Fatalf("%s is %v, want %v", e.Coordinate(i), v, s*want[i])
			}
		}
	})
}

// TestNumberIsStrconv: every number of JSON is read as strconv reads it, bit for bit.
func TestNumberIsStrconv(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, s string) {
		want, err := strconv.ParseFloat(s, 64)
		got, gotErr := feature.ReadNumber([]byte(s))
		if !json.Valid([]byte(s)) {
			err = errors.New("not JSON")
		}
		if (err == nil) != (gotErr == nil) || err == nil && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s: %v (%v), want %v (%v)", s, got, gotErr, want, err)
		}
	}
	for _, s := range []string{"0", "-0", "0.1", "123456789012345", "999999999999999.9", "1e22", "1e23", "9007199254740993", "0.000000000000000000001", "0.0000000000000000000001", "0.00000000000000000000001",
		"1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "1e-400", "00", "-", "1.e1", "1e", "1e+", "0x1", "1_0", "-00.1", "12345678901234567890123456789012345678901234567890"} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,24})?([eE][-+]?[0-9]{1,3})?`).Draw(t, "number"))
	})
	// What programs print, and numbers in the middle of two float64, which go to the even one.
	draw := rand.New(rand.NewPCG(4, 5))
	for i := range 4000 {
		x := draw.NormFloat64() * math.Pow(10, float64(i%8)-4)
		check(t, strconv.FormatFloat(x, 'f', -1, 64))
		check(t, strconv.FormatFloat(x, 'f', i%22, 64))
		check(t, strconv.FormatUint(1<<(53+i%9)+1<<(i%9)*(2*draw.Uint64N(1<<52)+1), 10))
		for k, digits := range []string{".5", ".25", ".125", ".0625"} {
			check(t, strconv.FormatUint(1<<(52-k)|draw.Uint64N(1<<(52-k)), 10)+digits)
		}
		for k := range 10 { // one of some thousands is so close to the middle that only what is left of the division tells the side
			digits := strconv.FormatUint(1e18+draw.Uint64N(9e18), 10)
			check(t, digits[:k+1]+"."+digits[k+1:])
		}
	}
}

// TestNoAllocation: in the steady state a request allocates nothing.
func TestNoAllocation(t *testing.T) {
	e := mustEncoder(t, rich)
	b := feature.NewBatch(e)
	context := []byte(`{"user":{"age":31,"city":"Oslo","x":"y"},"mood":[0.1,0.2],"device":{"os":"linux"}}`)
	action := []byte(`[{"price":0.123456789012345678,"new":true},{"item":{"tags":["a","b"],"title":"Small \"ensembles\" suffice — ünïcode","p":1}},{"u":3e-7}]`)
	once := func() {
		if err := b.Begin(context); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := b.Add("a", action); err != nil {
				t.Fatal(err)
			}
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
	plain := mustEncoder(t, `{"intercept":false,"features":[{"feature":"action","kind":"vector","size":2}]}`)
	p := feature.NewBatch(plain)
	packed := feature.AppendPacked(nil, []float64{0.1, 0.2, 0.3, 0.4}, 2, 2)
	again := func() {
		if p.Begin(nil) != nil || p.AddPacked(nil, packed) != nil {
			t.Fatal("refused")
		}
	}
	again()
	if n := testing.AllocsPerRun(100, again); n != 0 {
		t.Errorf("%v allocations a packed request", n)
	}
}

// TestCoordinates: every coordinate has a name of its own.
func TestCoordinates(t *testing.T) {
	for _, schema := range []string{rich, benchSchema} {
		e := mustEncoder(t, schema)
		seen := map[string]bool{}
		for i := range e.Dim() {
			name := e.Coordinate(i)
			if seen[name] {
				t.Errorf("coordinate %d is called %s like another", i, name)
			}
			seen[name] = true
		}
	}
}

// FuzzEncode: whatever the bytes, no panic; what is accepted is JSON, finite and in the unit ball,
// and gives the same bits again.
func FuzzEncode(f *testing.F) {
	f.Add([]byte(`{"user":{"age":31,"city":"Oslo"},"mood":[1,2]}`), "a", []byte(`{"price":0.4,"item":{"tags":["x"],"title":"a b"}}`))
	f.Add([]byte(`[{"user.city":"Oslo"},{"_multi":[{}]}]`), "", []byte(`{"a":{"b":[1,"\ud83d\ude00",true]},"new":null}`))
	f.Add([]byte(`{"mood":{"dtype":"float32","shape":[2],"data":"AAAAAAAAAAA="}}`), "z", []byte(`{"price":1e400}`))
	f.Add([]byte(``), "b", []byte(`null`))
	s, err := feature.Parse([]byte(rich))
	if err != nil {
		f.Fatal(err)
	}
	e, err := feature.New(s, feature.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	b := feature.NewBatch(e)
	f.Fuzz(func(t *testing.T, context []byte, id string, action []byte) {
		err := b.Begin(context)
		if err == nil {
			err = b.Add(id, action)
		}
		if err != nil {
			var e *feature.Error
			if !errors.As(err, &e) || e.Path == "" || e.Code == "" || e.Problem == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, j := range [][]byte{context, action} {
			if len(bytes.TrimSpace(j)) > 0 && !json.Valid(j) {
				t.Fatalf("accepted %q, which is not JSON", j)
			}
		}
		if n := norm(b.Row(0)); !(n <= 1) {
			t.Fatalf("norm %v", n)
		}
		again, err := encode(e, string(context), [2]string{id, string(action)})
		if err != nil || !slices.Equal(again.X(), b.X()) {
			t.Fatalf("the second time: %v", err)
		}
	})
}

// FuzzSchema: a schema that is accepted has a canonical form that is a fixed point, and encodes an
// empty request or says what is missing.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(rich))
	f.Add([]byte(benchSchema))
	f.Add([]byte(`{"model":"disjoint","features":[{"feature":"id","kind":"category","buckets":3},{"feature":"context","kind":"vector","size":2,"weight":1e-6}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := feature.Parse(in)
		if err != nil {
			return
		}
		e, err := feature.New(s, feature.Limits{})
		if err != nil {
			return
		}
		again, err := feature.Parse(s.Canonical())
		if err != nil || !bytes.Equal(again.Canonical(), s.Canonical()) {
			t.Fatalf("%v: %s", err, s.Canonical())
		}
		for i := range e.Dim() {
			e.Coordinate(i)
		}
		if b, err := encode(e, "", [2]string{"x", "{}"}); err == nil && !(norm(b.Row(0)) <= 1) {
			t.Fatalf("norm %v", norm(b.Row(0)))
		}
	})
}

// TestPlain: every byte at every place, beside bytes that make borrows and beside plain ones.
func TestPlain(t *testing.T) {
	for _, beside := range []byte{'a', 0x7f, ' ', '!', '#', '[', ']', 0, '"', '\\', 0x80} {
		for at := range 8 {
			for c := range 256 {
				b := [8]byte{beside, beside, beside, beside, beside, beside, beside, beside}
				b[at] = byte(c)
				want := true
				for _, c := range b {
					want = want && c >= 0x20 && c < 0x80 && c != '"' && c != '\\'
				}
				if got := feature.Plain(b); got != want {
					t.Fatalf("%q: %v", b, got)
				}
			}
		}
	}
}

// FuzzUnpack: no panic, and what is accepted is finite, fills the shape and survives packing.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte(`{"dtype":"float32","shape":[1,2],"data":"AACAPwAAAEA="}`))
	f.Add([]byte(`{"data":"AAAAAAAA8D8=","shape":[1],"dtype":"float64"}`))
	f.Add([]byte(`{"data":"AAAAAA\/\u0041","shape":[1],"dtype":"float64"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		x, rows, cols, err := feature.Unpack(nil, in, feature.Limits{})
		if err != nil {
			return
		}
		again, r, c, err := feature.Unpack(nil, feature.AppendPacked(nil, x, rows, cols), feature.Limits{})
		if err != nil || r != rows || c != cols || !slices.Equal(x, again) {
			t.Fatalf("%v %d %d: %v %d %d, %v", x, rows, cols, again, r, c, err)
		}
	})
}

// TestStringIsJSON: a string of JSON is read as encoding/json reads it, wherever an escape, a control character or a byte above 127 stands.
func TestStringIsJSON(t *testing.T) {
	for n := range 40 {
		for at := range n + 1 {
			for _, put := range []string{"", `\"`, `\u0041`, "\x1f", "\xff", "ü", " !#[]", "\x7f"} {
				text := []byte(`"` + strings.Repeat("a", at) + put + strings.Repeat("b", n-at) + `"`)
				var want string
				err := json.Unmarshal(text, &want)
				if put == "\xff" {
					err = errors.New("encoding/json replaces what is not UTF-8")
				}
				got, gotErr := feature.ReadString(text)
				if (err == nil) != (gotErr == nil) || err == nil && string(got) != want {
					t.Fatalf("%q is %q (%v), want %q (%v)", text, got, gotErr, want, err)
				}
			}
		}
	}
}
