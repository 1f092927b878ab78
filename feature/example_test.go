package feature_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"troupe/feature"
)

// A schema, a request, and the vectors.
func Example() {
	schema, err := feature.Parse([]byte(`{"features": [
		{"feature": "context.city", "kind": "category", "levels": ["Oslo", "Paris"], "cross_only": true},
		{"feature": "action.price", "kind": "number", "range": [0, 1]}],
		"crosses": [["context.city", "action.price"]]}`))
	if err != nil {
		panic(err)
	}
	enc, err := feature.New(schema, feature.Limits{})
	if err != nil {
		panic(err)
	}
	batch := feature.NewBatch(enc)
	if err := batch.Begin([]byte(`{"city": "Paris"}`)); err != nil {
		panic(err)
	}
	for _, a := range []string{`{"price": 0.25}`, `{"price": 1}`} {
		if err := batch.Add("", []byte(a)); err != nil {
			panic(err)
		}
	}
	for i := range enc.Dim() {
		fmt.Printf("%-34s %6.3f %6.3f\n", enc.Coordinate(i), batch.Row(0)[i], batch.Row(1)[i])
	}
	fmt.Println(batch.Add("", []byte(`{"price": 7}`)))
	// Output:
	// intercept                           0.577  0.577
	// action.price                       -0.289  0.577
	// context.city=Oslo × action.price    0.000  0.000
	// context.city=Paris × action.price  -0.289  0.577
	// actions[2].price: is 7, expected a number in [0, 1]
}

// TestDocs: the schemas of docs/guide/features.md and docs/reference/schemas.md are accepted as they are printed.
func TestDocs(t *testing.T) {
	var page []byte
	for _, name := range []string{"../docs/guide/features.md", "../docs/reference/schemas.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	schemas := 0
	for _, m := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		if !bytes.Contains(m[1], []byte(`"kind"`)) {
			continue // a request
		}
		schemas++
		if e := mustEncoder(t, string(m[1])); len(e.Warnings()) > 0 {
			t.Errorf("%s: %q", m[1], e.Warnings())
		}
	}
	if schemas != 2 {
		t.Errorf("%d schemas on the pages, want 2", schemas)
	}
}

// A model without a schema reads any request as atoms.
func ExampleAtomEncoder() {
	encoder := feature.NewAtomEncoder(feature.Limits{})
	batch := feature.NewAtomBatch(encoder)
	if err := batch.Begin([]byte(`{"city": "Oslo", "age": 31}`)); err != nil {
		panic(err)
	}
	for _, id := range []string{"a", "b", "a"} {
		if err := batch.Add(id, []byte(`{"price": 2.5}`)); err != nil {
			panic(err)
		}
	}
	fmt.Println("actions:", batch.Len(), "atoms of the context:", len(batch.Context()), "of an action:", len(batch.Action(0)))
	first, groups := batch.Groups(nil)
	fmt.Println("groups:", groups, first)

	// What a log keeps of the chosen action, and the vector again.
	record := feature.AppendAtoms(feature.AppendAtoms(nil, batch.Context()), batch.Action(1))
	context, rest, _ := feature.ReadAtoms(nil, record)
	action, _, _ := feature.ReadAtoms(nil, rest)
	_, again := encoder.AppendVector(nil, nil, context, action)
	_, logged := batch.Nonzeros(1)
	fmt.Println("bytes:", len(record), "same vector:", slices.Equal(again, logged))
	// Output:
	// actions: 3 atoms of the context: 2 of an action: 2
	// groups: 2 [0 1 0]
	// bytes: 46 same vector: true
}
