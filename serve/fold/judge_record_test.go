package fold_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
	"troupe/serve/model"
	"troupe/spec"
)

// judgedWorld is a world with three actions in which a learned schema should take over, or should not.
type judgedWorld struct {
	name   string
	sparse bool // of the default policy the sparse models only
	clicks bool // rewards are 1 with the probability of the value, else 0
	tries  []int
	next   func(r *rand.Rand) (context string, value func(action int) float64)
}

// inPairs: the right action depends on a pair of strings, which no schema has.
func inPairs(low, high float64) func(*rand.Rand) (string, func(int) float64) {
	return func(r *rand.Rand) (string, func(int) float64) {
		a, b := r.IntN(6), r.IntN(6)
		return fmt.Sprintf(`{"a": "a%d", "b": "b%d"}`, a, b), func(i int) float64 {
			if i == (a+b)%3 {
				return high
			}
			return low
		}
	}
}

// inNumbers: rewards are linear in four numbers.
func inNumbers(scale float64) func(*rand.Rand) (string, func(int) float64) {
	slopes := [3][4]float64{{0.2, -0.1, 0.05, 0}, {-0.2, 0.1, 0, 0.1}, {0.05, 0.05, -0.2, 0.1}}
	return func(r *rand.Rand) (string, func(int) float64) {
		var x [4]float64
		for i := range x {
			x[i] = r.Float64()*2 - 1
		}
		text := fmt.Sprintf(`{"a": %.4f, "b": %.4f, "c": %.4f, "d": %.4f}`, x[0], x[1], x[2], x[3])
		return text, func(i int) float64 {
			y := 0.5
			for k, v := range x {
				y += scale * slopes[i][k] * v
			}
			return y
		}
	}
}

// play makes the log of a run. Its model would learn a schema after 20,000 rewards, so nothing takes over meanwhile.
func (w *judgedWorld) play(t *testing.T, ctx context.Context, seed uint64) eventlog.Log {
	t.Helper()
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
	s, err := serve.Open(ctx, serve.Options{Log: log, Keys: keys, ExpireEvery: -1, SnapshotEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	c := serve.DefaultConfig("m")
	c.Features.Hashed = &model.Hashed{Model: "hashed", Bits: model.DefaultBits, Pairs: "auto", Learn: model.Learn{After: 20000}}
	if w.sparse {
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": "hashed", "small": "no"}, "policy"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CreateModel(ctx, c, ""); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 4))
	for range w.tries[len(w.tries)-1] {
		text, value := w.next(r)
		d, err := s.Decide(ctx, "m", serve.DecideRequest{Context: json.RawMessage(text),
			Actions: []serve.Action{{ID: "one"}, {ID: "two"}, {ID: "three"}}})
		if err != nil {
			t.Fatal(err)
		}
		y := value(d.Action.Index)
		if u := r.Float64(); w.clicks && u < y {
			y = 1
		} else if w.clicks {
			y = 0
		}
		if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// judgements returns for each try whether the learned model has the smaller error on the later half of its events: in
// the plain mean, where an event has the weight 1/(K·p), at most √n of n events, p the
// probability with which its action was chosen of K candidates (truncated importance weights, Ionides 2008); and in both, as the server judges.
func (w *judgedWorld) judgements(t *testing.T, ctx context.Context, log eventlog.Log) (plain, weighted, both []bool) {
	t.Helper()
	info, err := log.Info(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := historyOf(log)
	f, _, err := h.Fold(nil, info.Last)
	if err != nil {
		t.Fatal(err)
	}
	l := f.Learner(f.Named("m"), 1)
	all := l.Events
	for k, n := range w.tries {
		l.Events, l.Number = all[:n], k
		events, err := h.Judged(ctx, l, model.DefaultLimits)
		if err != nil || len(events) != n {
			t.Fatalf("%d of %d events were judged: %v", len(events), n, err)
		}
		var sums [2]float64
		for _, e := range events[n/2:] {
			sums[0] += e[1] - e[2]
			sums[1] += min(e[0], math.Sqrt(float64(n-n/2))) * (e[1] - e[2])
		}
		plain, weighted = append(plain, sums[0] > 0), append(weighted, sums[1] > 0)
		both = append(both, sums[0] > 0 && sums[1] > 0)
	}
	return plain, weighted, both
}

// TestJudgeRecord measures what docs/record/does-it-learn.md says of weights in the comparison of a learned schema with
// the hashed model: by how many runs each rule lets it take over, and at which try. Both judge the same logs.
func TestJudgeRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play 750 runs: ten minutes of a processor")
	}
	ctx := context.Background()
	long, short := []int{500, 1000, 2000}, []int{100, 200, 400}
	for _, w := range []judgedWorld{
		{name: "pairs", tries: long, next: inPairs(0, 1)},
		{name: "pairs, clicks", tries: long, next: inPairs(.1, .9), clicks: true},
		{name: "linear", tries: short, next: inNumbers(1)},
		{name: "linear, sparse models only", sparse: true, tries: short, next: inNumbers(1)},
		{name: "linear, clicks, sparse models only", sparse: true, tries: long, next: inNumbers(1.2), clicks: true},
	} {
		t.Run(w.name, func(t *testing.T) {
			const runs = 150
			var at [3][4]int    // by the try that took over, at the end none
			var below [3][3]int // tries with the smaller error, whatever came before
			for seed := range uint64(runs) {
				log := w.play(t, ctx, seed)
				plain, weighted, both := w.judgements(t, ctx, log)
				for i, better := range [][]bool{plain, weighted, both} {
					k := 0
					for k < len(better) && !better[k] {
						k++
					}
					at[i][k]++
					for k, b := range better {
						if b {
							below[i][k]++
						}
					}
				}
			}
			t.Logf("of %d runs taken over at the first, second, third try, not: plain %d, weighted %d, both %d; below at each "+
				"try: %d, %d, %d", runs, at[0], at[1], at[2], below[0], below[1], below[2])
		})
	}
}
