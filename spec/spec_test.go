package spec_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"troupe/spec"
)

type shape interface{ Doc() string }

type circle struct {
	Radius float64 `key:"radius" doc:"its radius"`
	Sides  int     `key:"sides" doc:"0 for a true circle" default:"none"`
	Fill   bool    `key:"fill" doc:"filled"`
	Points []float64
	Axes   []float64   `key:"axes" doc:"a list"`
	Rows   [][]float64 `key:"rows" doc:"a matrix"`
	Pen    pen         `key:"pen" doc:"the pen"`
}

func (*circle) Doc() string { return "a circle" }

type dot struct {
	Name string `key:"label" doc:"its label"`
}

func (*dot) Doc() string { return "a dot" }

var shapes = spec.Registry[shape]{
	"circle": func() shape { return &circle{Radius: 1} },
	"dot":    func() shape { return &dot{} },
}

// pen is a nested table with its own registry.
type pen struct{ kind any }

type ink struct {
	Width float64 `key:"width" doc:"its width"`
}

var pens = spec.Registry[*ink]{"ink": func() *ink { return &ink{Width: 2} }}

func (p *pen) DecodeSpec(v any, path string) error {
	i, err := spec.DecodeTable(pens, v, path)
	p.kind = i
	return err
}
func (p *pen) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(pens, v) }

func TestDecode(t *testing.T) {
	got, err := spec.Decode(shapes, spec.Raw{
		"kind": "circle", "name": "c", "radius": int64(2), "sides": 5.0, "fill": true,
		"axes": []any{int64(1), 2.5}, "rows": []any{[]any{1.0}, []any{2.0}},
		"pen": spec.Raw{"kind": "ink", "width": 0.5},
	}, "x", "name")
	if err != nil {
		t.Fatal(err)
	}
	c := got.(*circle)
	if c.Radius != 2 || c.Sides != 5 || !c.Fill || len(c.Axes) != 2 || c.Rows[1][0] != 2 || c.Pen.kind.(*ink).Width != 0.5 {
		t.Errorf("decoded %+v", c)
	}
	got, err = spec.Decode(shapes, spec.Raw{"kind": "circle"}, "x")
	if err != nil || got.(*circle).Radius != 1 {
		t.Errorf("defaults: %+v, %v", got, err)
	}
}

type spiral struct {
	Turns   int `key:"turns" doc:"its turns" word:"endless=Endless"`
	Endless bool
	Left    bool    `key:"right" doc:"which way it turns" not:"true"`
	Pitch   float64 `key:"pitch" doc:"its pitch" default:"0.5" zero:"Flat"`
	Flat    bool
}

func (*spiral) Doc() string { return "a spiral" }

// TestWord: a whole number that may be a word, in a spec, in a sweep, in a listing and when it is wrong.
func TestWord(t *testing.T) {
	spirals := spec.Registry[*spiral]{"spiral": func() *spiral { return &spiral{} }}
	var turns []spiral
	for _, c := range spec.Expand(spirals, spec.Raw{"kind": "spiral", "turns": []any{int64(3), "endless"}}) {
		s, err := spec.Decode(spirals, c.Value.(spec.Raw), "shape")
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, *s)
	}
	if diff := cmp.Diff([]spiral{{Turns: 3}, {Endless: true}}, turns); diff != "" {
		t.Error(diff)
	}
	_, err := spec.Decode(spirals, spec.Raw{"kind": "spiral", "turns": "many"}, "shape")
	if want := `shape.turns: is the string "many", expected a whole number or "endless"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if o := spec.Options(&spiral{}); o[0].Type != `int or "endless"` {
		t.Errorf("listed as %s", o[0].Type)
	}
}

// TestNot: a bool that means the opposite of its key, so that its zero value is a default of true.
func TestNot(t *testing.T) {
	spirals := spec.Registry[*spiral]{"spiral": func() *spiral { return &spiral{} }}
	if o := spec.Options(&spiral{}); o[1].Default != "true" || o[1].Type != "bool" {
		t.Errorf("listed as %+v", o[1])
	}
	for _, c := range spec.Expand(spirals, spec.Raw{"kind": "spiral", "right": []any{true, false}}) {
		raw := c.Value.(spec.Raw)
		s, err := spec.Decode(spirals, raw, "shape")
		if err != nil || s.Left == raw["right"] {
			t.Errorf("right = %v decodes to %+v, %v", raw["right"], s, err)
		}
	}
}

// TestZero: a 0 that is written where the default is another number.
func TestZero(t *testing.T) {
	spirals := spec.Registry[*spiral]{"spiral": func() *spiral { return &spiral{} }}
	for pitch, want := range map[float64]spiral{0: {Flat: true}, 2: {Pitch: 2}} {
		s, err := spec.Decode(spirals, spec.Raw{"kind": "spiral", "pitch": pitch}, "shape")
		if err != nil || *s != want {
			t.Errorf("pitch = %v decodes to %+v, %v", pitch, s, err)
		}
	}
}

// TestRefuse: the error of an option carries its key, its value and what was expected.
func TestRefuse(t *testing.T) {
	for want, e := range map[string]error{
		"lambda is -1, expected a positive number":      spec.Refuse("lambda", -1.0, "expected a positive %s", "number"),
		`key is "epok"; did you mean "epoch"?`:          spec.Refuse("key", "epok", "%s", spec.Suggest("epok", []string{"epoch"})),
		"base.lambda is -1, expected a positive number": spec.Under("base", spec.Refuse("lambda", -1, "expected a positive number")),
		"base: policy: no":                              spec.Under("base", errors.New("policy: no")),
	} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e, want)
		}
	}
	var e *spec.Error
	if !errors.As(fmt.Errorf("wrapped: %w", spec.Under("base", spec.Refuse("m", 3, "expected 4"))), &e) || e.Path != "base.m" || e.Value != 3 || e.Want != "expected 4" {
		t.Errorf("%+v", e)
	}
}

// TestDecodeRefuses: every fault names the path, what stands there and what was expected.
func TestDecodeRefuses(t *testing.T) {
	for want, raw := range map[string]spec.Raw{
		"x: kind is missing; expected one of circle, dot":                 {},
		"x.kind: is 3, expected a string":                                 {"kind": int64(3)},
		`x.kind: unknown kind "cirle"; did you mean "circle"?`:            {"kind": "cirle"},
		`x.kind: unknown kind "spline"; expected one of circle, dot`:      {"kind": "spline"},
		`x.radus: unknown key "radus"; did you mean "radius"?`:            {"kind": "circle", "radus": 1.0},
		`x.zzzzz: unknown key "zzzzz"; expected one of axes`:              {"kind": "circle", "zzzzz": 1.0},
		"x.radius: is NaN, expected a finite number":                      {"kind": "circle", "radius": math.NaN()},
		"x.radius: is -Inf, expected a finite number":                     {"kind": "circle", "radius": math.Inf(-1)},
		`x.radius: is the string "2", expected a number`:                  {"kind": "circle", "radius": "2"},
		"x.radius: is a list of 2, expected a number":                     {"kind": "circle", "radius": []any{1.0, 2.0}},
		"x.sides: is 2.5, expected a whole number":                        {"kind": "circle", "sides": 2.5},
		"x.sides: is 0; leave the key out for its default, none":          {"kind": "circle", "sides": int64(0)},
		"x.fill: is 1, expected true or false":                            {"kind": "circle", "fill": int64(1)},
		"x.label: is true, expected a string":                             {"kind": "dot", "label": true},
		"x.axes: is 1, expected a list":                                   {"kind": "circle", "axes": int64(1)},
		"x.axes[1]: is +Inf, expected a finite number":                    {"kind": "circle", "axes": []any{1.0, math.Inf(1)}},
		`x.pen: is the string "a", expected a table`:                      {"kind": "circle", "pen": "a"},
		`x.pen.kind: unknown kind "inc"; did you mean "ink"?`:             {"kind": "circle", "pen": spec.Raw{"kind": "inc"}},
		`x.pen.widht: unknown key "widht"; did you mean "width"?`:         {"kind": "circle", "pen": spec.Raw{"kind": "ink", "widht": 1.0}},
		`x.Points: unknown key "Points"; expected one of axes, fill, kin`: {"kind": "circle", "Points": []any{}},
	} {
		_, err := spec.Decode(shapes, raw, "x")
		var e *spec.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Decode(%v)\n got %v\nwant %s", raw, err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	show := func(cs []spec.Choice) []string {
		var out []string
		for _, c := range cs {
			out = append(out, fmt.Sprint(c.Value, c.Swept))
		}
		return out
	}
	got := show(spec.Expand(shapes, spec.Raw{
		"kind": "circle", "axes": []any{1.0, 2.0}, "radius": []any{1.0, 2.0},
		"pen": spec.Raw{"kind": "ink", "width": []any{3.0, 4.0}},
	}))
	want := []string{
		"map[axes:[1 2] kind:circle pen:map[kind:ink width:3] radius:1] [{pen.width 3} {radius 1}]",
		"map[axes:[1 2] kind:circle pen:map[kind:ink width:3] radius:2] [{pen.width 3} {radius 2}]",
		"map[axes:[1 2] kind:circle pen:map[kind:ink width:4] radius:1] [{pen.width 4} {radius 1}]",
		"map[axes:[1 2] kind:circle pen:map[kind:ink width:4] radius:2] [{pen.width 4} {radius 2}]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, raw := range []spec.Raw{{"kind": "nope", "radius": []any{1.0}}, {"kind": "circle", "radius": []any{}}} {
		if got := spec.Expand(shapes, raw); len(got) != 1 || len(got[0].Swept) != 0 {
			t.Errorf("Expand(%v) = %v", raw, got)
		}
	}
}

// TestExpandIsBounded: lists that would make 1000³ choices give one too many, at once.
// In a free table every list is a sweep, at any depth, and a list of lists one over lists.
func TestExpandFree(t *testing.T) {
	got := spec.ExpandFree(spec.Raw{"a": []any{int64(1), int64(2)}, "b": spec.Raw{"c": []any{[]any{int64(3), int64(4)}}}, "d": "x", "e": []any{}})
	if len(got) != 2 {
		t.Fatalf("%d choices, expected 2", len(got))
	}
	want := "map[a:2 b:map[c:[3 4]] d:x e:[]] [{a 2} {b.c [3 4]}]"
	if text := fmt.Sprint(got[1].Value, got[1].Swept); text != want {
		t.Errorf("%s, expected %s", text, want)
	}
}

func TestExpandIsBounded(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = float64(i + 1)
	}
	raw := spec.Raw{"kind": "circle", "radius": list, "sides": list, "pen": spec.Raw{"kind": "ink", "width": list}}
	if got := spec.Expand(shapes, raw); len(got) != spec.MaxChoices+1 {
		t.Errorf("%d choices, want %d", len(got), spec.MaxChoices+1)
	}
}

// TestSuggestLeavesItsList: the valid names may be a package's own list, in its own order.
func TestSuggestLeavesItsList(t *testing.T) {
	valid := []string{"uniform", "gaussian"}
	if got := spec.Suggest("gausian", valid); got != `; did you mean "gaussian"?` || valid[0] != "uniform" {
		t.Errorf("Suggest gave %q and left %v", got, valid)
	}
}

func TestOptions(t *testing.T) {
	got := spec.Options(shapes["circle"]())
	want := []spec.Option{
		{"radius", "number", "1", "its radius"}, {"sides", "int", "none", "0 for a true circle"},
		{"fill", "bool", "false", "filled"}, {"axes", "[]number", "", "a list"},
		{"rows", "[][]number", "", "a matrix"}, {"pen", "table", "", "the pen"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A byte-order mark at the beginning of a file is skipped; columns count without it. Elsewhere it is an error.
func TestByteOrderMark(t *testing.T) {
	tree, file, err := spec.ReadFile("x.toml", "\ufeffhorizon = 7\n")
	if n, ok := spec.Number(tree["horizon"]); err != nil || !ok || n != 7 {
		t.Fatalf("%v, %v", tree, err)
	}
	if line, column := file.At("horizon"); line != 1 || column != 1 {
		t.Errorf("the key is in line %d, column %d", line, column)
	}
	if _, _, err := spec.ReadFile("x.toml", "horizon = 7\n\ufeffseed = 1\n"); err == nil {
		t.Error("a mark in the middle is read")
	}
	for key, want := range map[string]string{"horizon": "horizon = 9\n", "seed": "seed = 9\nhorizon = 7\n"} {
		if text, err := spec.Override("x.toml", "\ufeffhorizon = 7\n", key, "9"); err != nil || text != want {
			t.Errorf("%s replaced: %q, %v", key, text, err)
		}
	}
}

// TestOnce: an option that was renamed is refused by its old name, with the new one.
func TestOnce(t *testing.T) {
	var o struct {
		Over float64 `key:"over" once:"forget"`
	}
	if err := spec.DecodeStruct(&o, spec.Raw{"over": 2.0}, "x"); err != nil || o.Over != 2 {
		t.Fatal(o, err)
	}
	err := spec.DecodeStruct(&o, spec.Raw{"forget": 2.0}, "x")
	if err == nil || !strings.Contains(err.Error(), "forget: is called over now") {
		t.Errorf("%v", err)
	}
	err = spec.DecodeStruct(&o, spec.Raw{"forgot": 2.0}, "x")
	if err == nil || strings.Contains(err.Error(), "forget,") {
		t.Errorf("%v", err)
	}
}
