package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"troupe/eventlog/eventlogtest"
	"troupe/serve"
)

// BenchmarkDecide is the processor time of POST :decide behind the socket, K = 20, d = 32, m = 32: the
// handler with everything around it, the real server, a log in memory. A batch has 64 decisions;
// its figure is for one of them. The disk's part is BenchmarkDurable of package serve, the socket's is
// in troupe load. One caller at a time, so ns/op is time of one core, but for the applier's.
func BenchmarkDecide(b *testing.B) {
	const k, d = 20, 32
	r := rand.New(rand.NewPCG(1, 2))
	body := func(form string) []byte {
		var raw []byte
		var actions []map[string]any
		for i := range k {
			x := make([]float64, d)
			for j := range x {
				x[j] = r.NormFloat64() / 10
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(x[j])))
			}
			actions = append(actions, map[string]any{"id": fmt.Sprint("a", i), "features": x})
		}
		switch form {
		case "lists":
			return must(json.Marshal(map[string]any{"actions": actions}))
		case "named":
			for i := range actions {
				actions[i]["features"] = map[string]any{"price": r.Float64(), "brand": fmt.Sprint("b", i%7), "stock": i%3 > 0, "text": "a small red thing"}
			}
			return must(json.Marshal(map[string]any{"context": map[string]any{"user": map[string]any{"city": "Oslo", "age": 31}}, "actions": actions}))
		}
		return must(json.Marshal(map[string]any{"packed": map[string]any{"dtype": "float32", "shape": []int{k, d}, "data": base64.StdEncoding.EncodeToString(raw)}}))
	}
	for _, form := range []string{"packed", "lists", "named", "packed batch"} {
		b.Run(form, func(b *testing.B) {
			ctx := context.Background()
			s := must(serve.Open(ctx, serve.Options{Dir: b.TempDir(), Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{})}))
			defer s.Close(ctx)
			config := `{"id": "m", "policy": {"kind": "ensemble", "m": 32}, "log_candidates": "none", "dim": 32}`
			if form == "named" {
				config = `{"id": "m", "log_candidates": "none"}` // the default: hashed features
			}
			edge := must(New(s, Options{}))
			post := func(path string, body []byte, status int) {
				w := httptest.NewRecorder()
				edge.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
				if w.Code != status {
					b.Fatalf("%s: %d %s", path, w.Code, w.Body)
				}
			}
			post("/v1/models", []byte(config), 201)
			path, each := "/v1/models/m:decide", 1
			bodies := make([][]byte, 16)
			for i := range bodies {
				if form == "packed batch" {
					path, each = "/v1/models/m:decideBatch", 64
					var all []json.RawMessage
					for range each {
						all = append(all, body("packed"))
					}
					bodies[i] = must(json.Marshal(map[string]any{"requests": all}))
				} else {
					bodies[i] = body(form)
				}
			}
			post(path, bodies[0], 200)
			b.SetBytes(int64(len(bodies[0]) / each))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n%each == 0 {
					post(path, bodies[n/each%len(bodies)], 200)
				}
				n++
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
