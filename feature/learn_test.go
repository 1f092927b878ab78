package feature_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"troupe/feature"
	"troupe/internal/golden"
)

func sample(context string, actions ...[2]string) feature.Sample {
	s := feature.Sample{Context: json.RawMessage(context)}
	for _, a := range actions {
		s.Actions = append(s.Actions, feature.SampleAction{ID: a[0], Features: json.RawMessage(a[1])})
	}
	return s
}

// news is a sample with every kind of value.
func news() []feature.Sample {
	cities := []string{"Oslo", "Paris", "Lima"}
	var out []feature.Sample
	for i := range 12 {
		out = append(out, sample(
			fmt.Sprintf(`{"user":{"city":%q,"age":%d,"id":%d,"premium":%v,"nothing":null}}`, cities[i%3], 20+5*i, 1000+i, i%2 == 0),
			[2]string{"a", fmt.Sprintf(`{"price":0.%d,"title":"How to win the game number %d","emb":[0.1,0.%d],"score":3,"brand":"b%d","sku":"x%d"}`, i%10, i, i%10, i%7, i)},
			[2]string{"b", fmt.Sprintf(`{"_tag":7,"price":1,"title":"A quiet evening in town","emb":[3,4],"tags":["new","sale"],"score":3,"brand":"c%d","sku":"y%d"}`, i, i)}))
	}
	return out
}

// TestLearn: the proposal for the sample of news, with its reasons, as a text to review.
func TestLearn(t *testing.T) {
	p, err := feature.Learn(news(), feature.LearnOptions{MaxDim: 128})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range p.Reasons {
		fmt.Fprintf(&out, "%s: %s\n", r.Feature, r.Words)
	}
	e, err := feature.New(p.Schema, feature.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "\nd = %d, warnings %q\n\n%s\n", e.Dim(), e.Warnings(), strings.ReplaceAll(string(p.Schema.Canonical()), "},{", "},\n{"))
	const file = "testdata/learned.golden"
	golden.Compare(t, file, out.String())
	if strings.Contains(out.String(), "_tag") {
		t.Error("a key that begins with _ is mentioned")
	}
	// The order of the requests does not matter.
	s := news()
	slices.Reverse(s)
	again, err := feature.Learn(s, feature.LearnOptions{MaxDim: 128})
	if err != nil || again.Schema.ID() != p.Schema.ID() {
		t.Errorf("backwards: %v, another schema", err)
	}
	// A request unlike the sample is encoded all the same: clamped, other, ignored.
	if _, err := encode(e, `{"user":{"city":"Rome","age":-1e300,"job":"x"}}`, [2]string{"z", `{"price":-5,"emb":[1e9,-1e9],"new":[{"a":1}]}`}); err != nil {
		t.Error(err)
	}
}

// TestLearnCases: one choice each.
func TestLearnCases(t *testing.T) {
	repeat := func(n int, f func(i int) string) (s []feature.Sample) {
		for i := range n {
			s = append(s, sample(`{}`, [2]string{fmt.Sprint("id", i), f(i)}))
		}
		return
	}
	for _, c := range []struct {
		name    string
		samples []feature.Sample
		want    string // part of the canonical schema, or of the error
	}{
		{"share", repeat(5, func(i int) string { return fmt.Sprintf(`{"x":0.%d}`, i) }), `{"feature":"action.x","kind":"number","outside":"clamp","range":[0,1]}`},
		{"signed", repeat(5, func(i int) string { return fmt.Sprintf(`{"x":-0.%d}`, i) }), `"range":[-1,1]`},
		{"widened", repeat(5, func(i int) string { return fmt.Sprintf(`{"x":%d}`, 10+i) }), `"range":[8,16]`},
		{"one value", repeat(5, func(i int) string { return `{"x":3}` }), `"range":[-8,8]`},
		{"huge", repeat(2, func(i int) string { return fmt.Sprintf(`{"x":%de307}`, 17*(2*i-1)) }), `"range":[-8e+307,8e+307]`},
		{"boolean", repeat(5, func(i int) string { return `{"x":true}` }), `{"feature":"action.x","kind":"boolean"}`},
		{"mixed", repeat(5, func(i int) string { return []string{`{"x":true}`, `{"x":"a"}`, `{"x":1.50}`}[i%3] }), `{"buckets":8,"feature":"action.x","kind":"category"}`},
		{"identifier", repeat(50, func(i int) string { return fmt.Sprintf(`{"item_id":%d}`, i%40) }), `{"buckets":64,"feature":"action.item_id","kind":"category"}`},
		{"plain vectors", repeat(5, func(i int) string { return `[0.6,0.8]` }), `{"crosses":null,"features":[{"feature":"action","kind":"vector","outside":"clamp","size":2}]`},
		{"packed", repeat(2, func(i int) string { return string(feature.AppendPacked(nil, []float64{3, 4}, 2, 0)) }), `{"bound":8,"feature":"action","kind":"vector","outside":"clamp","size":2}`},
		{"ragged", repeat(3, func(i int) string { return `{"x":[1` + strings.Repeat(",2", i) + `]}` }), `"kind":"category"`},
		{"only ids", []feature.Sample{sample(`{"h":1}`, [2]string{"b", ``}, [2]string{"a", `{}`}), sample(`{"h":2}`, [2]string{"b", ``}, [2]string{"a", ``})}, `{"feature":"id","kind":"category","levels":["a","b"],"unseen":"other"}`},
		{"value and object", repeat(4, func(i int) string { return []string{`{"x":1,"y":2}`, `{"x":{"z":1},"y":1}`}[i%2] }), `{"feature":"action.x.z"`},
		{"dotted", repeat(4, func(i int) string { return []string{`{"x":1,"y":2}`, `{"x.z":1,"y":1}`}[i%2] }), `{"feature":"action.x.z"`},
		{"nothing", repeat(1, func(i int) string { return `{}` }), `"feature":"id"`},
		{"no actions", []feature.Sample{sample(`{"a":1}`)}, "the sample has no actions"},
		{"nothing at all", []feature.Sample{sample(``, [2]string{"", `{"_a":1,"b":null}`})}, "nothing to learn from the sample"},
		{"twice", []feature.Sample{sample(``, [2]string{"a", `{"b":1,"b":2}`})}, "sample[0].actions[0].b: is given twice"},
		{"not JSON", []feature.Sample{sample(`{`, [2]string{"a", ``})}, "sample[0].context: is not JSON"},
		{"number", []feature.Sample{sample(`3`, [2]string{"a", ``})}, "sample[0].context: expected an object"},
		{"null in list", []feature.Sample{sample(``, [2]string{"a", `{"t":["a",null]}`})}, "sample[0].actions[0].t: is a list with null"},
		{"both ways", []feature.Sample{sample(``, [2]string{"a", `[1,2]`}), sample(``, [2]string{"a", `{"x":1}`})}, "sample[1].actions[0]"},
	} {
		p, err := feature.Learn(c.samples, feature.LearnOptions{})
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Replace(string(p.Schema.Canonical()), `{"features"`, `{"crosses":null,"features"`, 1)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if _, err := feature.Learn(news(), feature.LearnOptions{MaxDim: 2000}); err == nil {
		t.Error("MaxDim 2000 is accepted")
	}
	for _, most := range []int{8, 9, 16, 64} {
		p, err := feature.Learn(news(), feature.LearnOptions{MaxDim: most})
		if err != nil {
			t.Errorf("MaxDim %d: %v", most, err)
			continue
		}
		if e, err := feature.New(p.Schema, feature.Limits{}); err != nil || e.Dim() > most || len(e.Warnings()) > 0 {
			t.Errorf("MaxDim %d: d = %d, %v", most, e.Dim(), err)
		}
	}
}

// TestLearnProperty: whatever the sample, the proposal encodes it, or the error names the place.
func TestLearnProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s []feature.Sample
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			r := feature.Sample{Context: json.RawMessage(object(richContext(t)))}
			for range rapid.IntRange(1, 3).Draw(t, "actions") {
				r.Actions = append(r.Actions, feature.SampleAction{ID: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "id"), Features: json.RawMessage(object(richAction(t)))})
			}
			s = append(s, r)
		}
		p, err := feature.Learn(s, feature.LearnOptions{})
		if err != nil {
			var e *feature.Error
			if !errors.As(err, &e) && !strings.Contains(err.Error(), "nothing to learn from the sample") {
				t.Fatal(err)
			}
			return
		}
		e, err := feature.New(p.Schema, feature.Limits{})
		if err != nil || e.Dim() > 256 {
			t.Fatal(e.Dim(), err)
		}
	})
}

// FuzzLearn: whatever the sample, no panic; a proposal encodes its sample (Learn checks that).
func FuzzLearn(f *testing.F) {
	f.Add([]byte(`{"user":{"age":31}}`), "a", []byte(`{"price":0.4,"t":[1,2],"x.y":1,"x":{"y":2}}`), []byte(`[{"price":"x"},{"v":{"dtype":"float64","shape":[1],"data":"AAAAAAAA8D8="}}]`))
	f.Add([]byte(`[1,2]`), "", []byte(`[1e308,-1e308]`), []byte(`[0,5e-324]`))
	f.Add([]byte(`{"a*":1,"b..c":2,"":3}`), "b", []byte(`{"n":1e308,"m":-1e308}`), []byte(`{"n":-1e308,"m":-1.7e308}`))
	f.Fuzz(func(t *testing.T, context []byte, id string, one, two []byte) {
		samples := []feature.Sample{sample(string(context), [2]string{id, string(one)}, [2]string{"b", string(two)}), sample(``, [2]string{id, string(two)})}
		p, err := feature.Learn(samples, feature.LearnOptions{MaxDim: 64})
		if err == nil {
			if e, err := feature.New(p.Schema, feature.Limits{}); err != nil || e.Dim() > 64 {
				t.Fatal(err, e.Dim())
			}
		} else if strings.Contains(err.Error(), "features[") {
			t.Fatalf("Learn proposes a schema that is refused: %v", err)
		}
	})
}
