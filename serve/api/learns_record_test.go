package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"troupe/serve"
)

// wire is a client of a server with its log on a disk.
type wire struct {
	t   testing.TB
	url string
}

func newWire(t testing.TB) *wire {
	s := must(serve.Open(context.Background(), serve.Options{Dir: t.TempDir(), Wait: time.Minute}))
	web := httptest.NewUnstartedServer(nil)
	web.Config = must(New(s, Options{})).Server()
	web.Start()
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &wire{t, web.URL}
}

func (w *wire) post(path string, body, into any) {
	w.t.Helper()
	a := must(http.Post(w.url+path, "application/json", bytes.NewReader(must(json.Marshal(body)))))
	defer a.Body.Close()
	b := must(io.ReadAll(a.Body))
	if a.StatusCode/100 != 2 {
		w.t.Fatalf("%s: %d %s", path, a.StatusCode, b)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			w.t.Fatal(err)
		}
	}
}

type list []map[string]any

// TestLearnsOverHTTP measures what docs/record/does-it-learn.md has of clicks and of two arms, on models made by their
// names. The bars are those of the learner without a server (TestHashedBars).
func TestLearnsOverHTTP(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play clicks and two arms over HTTP")
	}
	w := newWire(t)
	t.Run("clicks", func(t *testing.T) {
		const worlds = 3
		var all, second float64
		for seed := range uint64(worlds) {
			x, y := w.clicks(seed+1, 50_000)
			t.Logf("world %d: %.3f, second half %.3f", seed+1, x, y)
			all, second = all+x/worlds, second+y/worlds
		}
		if t.Logf("mean %.3f, second half %.3f", all, second); all < 0.62 || second < 0.74 {
			t.Errorf("%.3f, second half %.3f, expected 0.62 and 0.74", all, second)
		}
	})
	t.Run("two arms", func(t *testing.T) {
		const T, runs = 30_000, 4
		sum, stuck := 0.0, 0
		for seed := range uint64(runs) {
			g := w.arms(seed+1, T)
			if sum += g; g > 0.1*T*(0.5-0.2) {
				stuck++
			}
		}
		t.Logf("%d runs: mean regret %.1f, %d stuck", runs, sum/runs, stuck)
		if stuck > 0 {
			t.Errorf("%d of %d runs are stuck", stuck, runs)
		}
	})
}

// clicks plays a world of clicks at about 3 %: 10 actions, 50 cities, 3 devices and a number that does not matter;
// decisions and rewards in batches of 100. It returns the share of the way from uniform play to the best action of each
// context, over all and over the second half.
func (w *wire) clicks(seed uint64, T int) (all, second float64) {
	const K, C, D, batch = 10, 50, 3, 100
	r := rand.New(rand.NewPCG(seed, 11))
	var act [K]float64
	var city [C][K]float64
	var dev [D][K]float64
	for a := range K {
		act[a] = r.NormFloat64() * 0.5
		for c := range C {
			city[c][a] = r.NormFloat64() * 0.7
		}
		for d := range D {
			dev[d][a] = r.NormFloat64() * 0.4
		}
	}
	prob := func(c, d, a int) float64 {
		return 1 / (1 + math.Exp(-(math.Log(0.03/0.97) + act[a] + city[c][a] + dev[d][a])))
	}
	name := fmt.Sprint("clicks", seed)
	w.post("/v1/models", map[string]any{"id": name}, nil)
	actions := make(list, K)
	for i := range actions {
		actions[i] = map[string]any{"id": fmt.Sprint("ad", i)}
	}
	var got, uni, best [2]float64
	for n := 0; n < T; n += batch {
		h := 2 * n / T
		requests := make(list, batch)
		places := make([][2]int, batch)
		for i := range requests {
			c, d := r.IntN(C), r.IntN(D)
			places[i] = [2]int{c, d}
			requests[i] = map[string]any{"context": map[string]any{"city": fmt.Sprint("c", c), "device": fmt.Sprint("d", d), "x": r.NormFloat64()}, "actions": actions}
		}
		var answers batchAnswers
		w.post("/v1/models/"+name+":decideBatch", map[string]any{"requests": requests}, &answers)
		rewards := make(list, batch)
		for i, x := range answers.Results {
			m := 0.0
			for k := range K {
				p := prob(places[i][0], places[i][1], k)
				uni[h] += p / K
				m = max(m, p)
			}
			best[h] += m
			p := prob(places[i][0], places[i][1], x.Decision.Action.Index)
			got[h] += p
			y := 0
			if r.Float64() < p {
				y = 1
			}
			rewards[i] = map[string]any{"event_id": x.Decision.EventID, "value": y}
		}
		w.post("/v1/rewards:batch", map[string]any{"rewards": rewards}, nil)
	}
	return (got[0] + got[1] - uni[0] - uni[1]) / (best[0] + best[1] - uni[0] - uni[1]), (got[1] - uni[1]) / (best[1] - uni[1])
}

// arms plays two arms with rewards N(0.5, 1) and N(0.2, 1), one decision and its reward after the other.
func (w *wire) arms(seed uint64, T int) (regret float64) {
	r := rand.New(rand.NewPCG(seed, 13))
	name := fmt.Sprint("arms", seed)
	w.post("/v1/models", map[string]any{"id": name}, nil)
	body := map[string]any{"actions": list{{"id": "good"}, {"id": "bad"}}}
	for range T {
		var d serve.Decision
		w.post("/v1/models/"+name+":decide", body, &d)
		mu := []float64{0.5, 0.2}[d.Action.Index]
		regret += 0.5 - mu
		w.post("/v1/events/"+d.EventID+":reward", map[string]any{"value": mu + r.NormFloat64()}, nil)
	}
	return regret
}
