package feature_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"troupe/feature"
)

// vwAction lists the features of an action as index:value.
func vwAction(t *testing.T, o feature.VWOptions, shared, action string) []string {
	t.Helper()
	o.Bits = 18
	v, err := feature.NewVWLines(o)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]*feature.VWLine, 2)
	for i, text := range []string{shared, action} {
		if lines[i], err = v.Line([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Ready(); err != nil {
		t.Fatal(err)
	}
	var out []string
	ids := map[uint64]bool{}
	if err := v.Action(lines[0], lines[1], func(i uint32, x float64, id uint64) error {
		out = append(out, fmt.Sprintf("%d:%v", i, x))
		ids[id] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(ids) != len(out) {
		t.Errorf("%d features have %d identities", len(out), len(ids))
	}
	slices.Sort(out)
	return out
}

// TestVWLines compares with what Vowpal Wabbit printed: the first example of its test
// cache_interaction_audit (-q st), and the inverted hash of its test ccb_quad.
func TestVWLines(t *testing.T) {
	const s, text = `{"s":{"p^the_man":1,"w^the":1,"w^man":1}}`, `{"t":{"p^un_homme":1,"w^un":1,"w^homme":1}}`
	plain := []string{"3563:1", "145229:1", "31316:1", "68438:1", "149058:1", "25913:1", "116060:1"}
	pairs := []string{"58279:1", "241331:1", "101832:1", "1377:1", "215157:1", "92942:1", "104810:1", "185470:1", "63237:1"}
	user := `{"User":{"a":1}}`
	for _, c := range []struct {
		name           string
		o              feature.VWOptions
		shared, action string
		want           []string
	}{
		{"audit", feature.VWOptions{Text: true, Quadratic: []string{"st"}}, s, text, slices.Concat(plain, pairs)},
		{"by name", feature.VWOptions{Text: true, Quadratic: []string{"s|t"}}, s, text, slices.Concat(plain, pairs)},
		{"in another order, twice", feature.VWOptions{Text: true, Quadratic: []string{"st", "ts"}}, s, text, slices.Concat(plain, pairs)},
		{"not kept", feature.VWOptions{Text: true, Keep: []string{"s"}}, s, text, []string{"3563:1", "145229:1", "31316:1", "116060:1"}},
		{"ignored", feature.VWOptions{Text: true, Ignore: []string{"t"}, NoConstant: true}, s, text, plain[:3]},
		{"with itself", feature.VWOptions{NoConstant: true, Quadratic: []string{"UU"}}, `{}`, user, []string{"25739:1", "139866:1"}},
	} {
		slices.Sort(c.want)
		if got := vwAction(t, c.o, c.shared, c.action); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, VW has %v", c.name, got, c.want)
		}
	}
}

// TestVWRules: the rules of VW's JSON, each as the text that means the same.
func TestVWRules(t *testing.T) {
	text := feature.VWOptions{Text: true, NoConstant: true}
	json := feature.VWOptions{NoConstant: true}
	hash := func(namespace, name string) string {
		v := feature.VW{Bits: 18}
		return fmt.Sprint(v.Index(v.Feature(v.Namespace([]byte(namespace)), []byte(name))))
	}
	for _, c := range []struct {
		o    feature.VWOptions
		line string
		want []string
	}{
		{text, `{"n":{"city":"Oslo","age":31}}`, []string{hash("n", "city=Oslo") + ":1", hash("n", "age") + ":31"}},
		{json, `{"n":{"city":"Oslo","age":31}}`, []string{hash("n", "cityOslo") + ":1", hash("n", "age") + ":31"}},
		{json, `{"n":{"city":"New York:|x"}}`, []string{hash("n", "cityNew_York__x") + ":1"}},
		{json, `{"n":{"yes":true,"no":false,"nothing":null,"zero":0,"_x":{"y":1}}}`, []string{hash("n", "yes") + ":1"}},
		{json, `{"x":0.5,"n":[{"a":1},{"b":2}]}`, []string{hash("", "x") + ":0.5", hash("n", "a") + ":1", hash("n", "b") + ":2"}},
		{json, `{"n":{"m":{"a":1}}}`, []string{hash("m", "a") + ":1"}},
		{json, `{"n":{"_text":"hot tea"}}`, []string{hash("n", "hot") + ":1", hash("n", "tea") + ":1"}},
		{json, `{"n":{"17":2}}`, []string{hash("n", "17") + ":2"}},
	} {
		slices.Sort(c.want)
		if got := vwAction(t, c.o, "", c.line); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.line, got, c.want)
		}
	}
	// A list of numbers has the places of a namespace, from its hash on.
	v := feature.VW{Bits: 18}
	at := v.Namespace([]byte("list"))
	want := []string{fmt.Sprintf("%d:3", v.Index(at)), fmt.Sprintf("%d:4", v.Index(at+1))}
	slices.Sort(want)
	if got := vwAction(t, json, "", `{"list":[3,4]}`); !slices.Equal(got, want) {
		t.Errorf("a list has %v, expected %v", got, want)
	}
	// n features of one namespace have n(n+1)/2 products of two and n(n+1)(n+2)/6 of three.
	some := `{"n":{"a":1,"b":1,"c":1,"d":1}}`
	for _, o := range []feature.VWOptions{{Quadratic: []string{"nn"}}, {Quadratic: []string{"::"}}} {
		o.NoConstant = true
		if got := vwAction(t, o, "", some); len(got) != 4+10 {
			t.Errorf("%v: %d features, expected 14", o.Quadratic, len(got))
		}
	}
	if got := vwAction(t, feature.VWOptions{NoConstant: true, Cubic: []string{"nnn"}}, "", some); len(got) != 4+20 {
		t.Errorf("%d features with triples, expected 24", len(got))
	}
	// All pairs of three namespaces with two, one and one features: 3 + 1 + 1 + 2 + 2 + 1.
	if got := vwAction(t, feature.VWOptions{NoConstant: true, Quadratic: []string{"::"}}, `{"a":{"x":1,"y":1}}`, `{"b":{"x":1},"c":{"x":1}}`); len(got) != 4+10 {
		t.Errorf("%d features with all pairs, expected 14", len(got))
	}
}

func TestVWLinesTwice(t *testing.T) {
	v, err := feature.NewVWLines(feature.VWOptions{VW: feature.VW{Bits: 18}, Text: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := v.Line([]byte(`{"n":{"city":["Oslo","Oslo","Rome"]},"m":{"city":"Oslo"}}`))
	if err != nil || l.Len() != 4 || v.Twice() != 1 {
		t.Errorf("%d features, %d twice, %v; expected 4 and 1", l.Len(), v.Twice(), err)
	}
}

func TestVWLinesRefuse(t *testing.T) {
	for _, c := range []struct {
		o    feature.VWOptions
		line string
		want string
	}{
		{feature.VWOptions{Quadratic: []string{"abc"}}, "", `q is "abc", expected 2 namespaces`},
		{feature.VWOptions{Cubic: []string{"ab"}}, "", `cubic is "ab", expected 3`},
		{feature.VWOptions{Interactions: []string{"abcdefghi"}}, "", `interactions is "abcdefghi", expected 2 to 8`},
		{feature.VWOptions{Ignore: []string{"a"}, Keep: []string{"b"}}, "", "beside ignore"},
		{feature.VWOptions{Quadratic: []string{"uA"}}, `{"User":{"a":1},"Action":{"b":1}}`, `no namespace begins with "u"; did you mean "U", of User?`},
		{feature.VWOptions{Quadratic: []string{"User|Acton"}}, `{"User":{"a":1},"Action":{"b":1}}`, `no namespace "Acton"; did you mean "Action"?`},
		{feature.VWOptions{Ignore: []string{"Usr"}}, `{"User":{"a":1}}`, `did you mean "User"?`},
		{feature.VWOptions{}, `{"n":{"a":1e19}}`, "n.a: is 1e19, expected a number of at most 1e18"},
		{feature.VWOptions{}, `{"n":["a"]}`, "expected numbers or objects"},
		{feature.VWOptions{}, `[1]`, "expected an object of features"},
		{feature.VWOptions{}, `{"n":1} x`, "expected the end"},
	} {
		c.o.Bits = 18
		v, err := feature.NewVWLines(c.o)
		if err == nil && c.line != "" {
			_, err = v.Line([]byte(c.line))
		}
		if err == nil {
			err = v.Ready()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %s: %v, expected %q", c.o, c.line, err, c.want)
		}
	}
}
