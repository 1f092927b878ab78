package feature_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"troupe/feature"
)

// benchRequest is the request of the goal: K = 20 actions with 10 named features each.
func benchRequest() (context []byte, ids []string, actions [][]byte) {
	context = []byte(`{"user":{"city":"Oslo","age":31,"premium":true}}`)
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("article-%d", i))
		actions = append(actions, []byte(fmt.Sprintf(
			`{"price":%d.%02d,"rating":4.%d,"age_days":%d,"discount":0.25,"views":%d,"new":%v,"brand":"b%d","section":"sport","tags":["a","b"],"length":%d}`,
			i, i*3, i%10, i*2, 100*i, i%2 == 0, i%8, 50*i)))
	}
	return
}

const benchSchema = `{"features":[
	{"feature":"context.user.city","kind":"category","levels":["Oslo","Bergen","Paris"],"cross_only":true},
	{"feature":"context.user.age","kind":"number","range":[0,100],"cross_only":true},
	{"feature":"context.user.premium","kind":"boolean","cross_only":true},
	{"feature":"action.price","kind":"number","range":[0,100]},
	{"feature":"action.rating","kind":"number","range":[1,5]},
	{"feature":"action.age_days","kind":"number","range":[0,365]},
	{"feature":"action.discount","kind":"number","range":[0,1]},
	{"feature":"action.views","kind":"number","range":[0,10000]},
	{"feature":"action.new","kind":"boolean"},
	{"feature":"action.brand","kind":"category","levels":["b0","b1","b2","b3","b4","b5","b6","b7"]},
	{"feature":"action.section","kind":"category","levels":["sport","news","art"]},
	{"feature":"action.tags","kind":"category","buckets":8},
	{"feature":"action.length","kind":"number","range":[0,5000]}],
	"crosses":[["context.user.age","action.price"],["context.user.city","action.section"],["context.user.premium","action.new"]]}`

func mustEncoder(tb testing.TB, schema string) *feature.Encoder {
	tb.Helper()
	s, err := feature.Parse([]byte(schema))
	if err != nil {
		tb.Fatal(err)
	}
	e, err := feature.New(s, feature.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// BenchmarkEncode: 20 actions × 10 named features, JSON bytes to vectors.
func BenchmarkEncode(b *testing.B) {
	context, ids, actions := benchRequest()
	e := mustEncoder(b, benchSchema)
	bench := func(e *feature.Encoder, context []byte, ids []string, actions [][]byte) func(*testing.B) {
		return func(b *testing.B) {
			batch := feature.NewBatch(e)
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Begin(context); err != nil {
					b.Fatal(err)
				}
				for i, a := range actions {
					if err := batch.Add(ids[i], a); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	}
	b.Run(fmt.Sprintf("named/K=20/features=10/d=%d", e.Dim()), bench(e, context, ids, actions))
	titles := make([][]byte, 20)
	for i := range titles {
		titles[i] = []byte(fmt.Sprintf(`{"title":"How small ensembles suffice for linear bandits, part %d"}`, i))
	}
	b.Run("text/K=20/words=9", bench(mustEncoder(b, `{"features":[{"feature":"action.title","kind":"text","buckets":64}]}`), nil, ids, titles))
	vectors := make([][]byte, 20)
	x := make([]float64, 20*32)
	for i := range vectors {
		for j := range 32 {
			x[i*32+j] = float64(i*32+j)/4000 - 0.0737
		}
		vectors[i], _ = json.Marshal(x[i*32 : (i+1)*32])
	}
	plain := mustEncoder(b, `{"intercept":false,"features":[{"feature":"action","kind":"vector","size":32}]}`)
	b.Run("vector/K=20/d=32", bench(plain, nil, ids, vectors))
	b.Run("packed/K=20/d=32", func(b *testing.B) {
		batch := feature.NewBatch(plain)
		packed := feature.AppendPacked(nil, x, 20, 32)
		b.ReportAllocs()
		for b.Loop() {
			if batch.Begin(nil) != nil || batch.AddPacked(nil, packed) != nil {
				b.Fatal("refused")
			}
		}
	})
}

// BenchmarkDecodeJSON is what encoding/json needs for the same bytes before anything is encoded.
func BenchmarkDecodeJSON(b *testing.B) {
	_, _, actions := benchRequest()
	b.Run("tree", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, a := range actions {
				dec := json.NewDecoder(bytes.NewReader(a))
				dec.UseNumber()
				var v any
				if err := dec.Decode(&v); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("tokens", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, a := range actions {
				dec := json.NewDecoder(bytes.NewReader(a))
				dec.UseNumber()
				for {
					if _, err := dec.Token(); err != nil {
						break
					}
				}
			}
		}
	})
}
