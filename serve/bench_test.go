package serve

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/spec"
	"troupe/timing"
)

// benchModel is the model of the bars: K = 20, d = 32, m = 32, packed features.
func benchModel() ModelConfig {
	return vectors("m", 32, func(c *ModelConfig) {
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "ensemble", "m": int64(32)}, Options: &policy.EnsembleOptions{M: 32}}
	})
}

// benchRequests are packed matrices of random vectors in the unit ball, as float32.
func benchRequests() []DecideRequest {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]DecideRequest, 64)
	for i := range out {
		var raw []byte
		for range 20 * 32 {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(r.NormFloat64()/10)))
		}
		out[i].Packed = fmt.Appendf(nil, `{"dtype":"float32","shape":[20,32],"data":%q}`, base64.StdEncoding.EncodeToString(raw))
	}
	return out
}

// BenchmarkChoose is the CPU time of a decision without the log: features, draw, exact propensity,
// record.
func BenchmarkChoose(b *testing.B) {
	s := open(b, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(context.Background(), benchModel(), ""))
	e, v, err := s.model("m")
	if err != nil {
		b.Fatal(err)
	}
	rs := benchRequests()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if _, err := s.decider.Choose(context.Background(), e, v, &rs[n%len(rs)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDurable is decide and reward over the real log, every event synced to the disk before it is
// answered, with the disk's own time to append and sync a batch of the same size measured before and after it.
// Events per second count decisions and rewards; p50 and p99 are those of decisions.
//
// Callers without a rate call again as soon as they are answered, so that their number alone makes the
// latency: n callers at e events a second wait n/e on the average. With a rate, pairs arrive at random
// (a Poisson process), n is the most that are open at once, and a latency is counted from the arrival, so that
// a pair that had to wait for a caller is not forgotten.
//
// Threads and garbage collection are Go's defaults unless GOMAXPROCS and GOGC are set.
func BenchmarkDurable(b *testing.B) {
	for _, load := range []struct{ callers, rate int }{{1, 0}, {64, 0}, {512, 0}, {64, 10_000}, {512, 50_000}} {
		for _, kept := range []string{"full", "none"} {
			name := fmt.Sprintf("callers=%d/candidates=%s", load.callers, kept)
			if load.rate > 0 {
				name = fmt.Sprintf("callers=%d/rate=%d/candidates=%s", load.callers, load.rate, kept)
			}
			b.Run(name, func(b *testing.B) { durable(b, load.callers, load.rate, kept) })
		}
	}
}

func durable(b *testing.B, callers, rate int, kept string) {
	ctx := context.Background()
	dir := b.TempDir()
	s, err := Open(ctx, Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	c := benchModel()
	c.LogCandidates = kept
	must(s.CreateModel(ctx, c, ""))
	rs := benchRequests()
	disk := syncTimes(b, dir, benchBatch)
	arrivals := make([]time.Duration, b.N+1)
	if rate > 0 { // a pair has two events
		r := rand.New(rand.NewPCG(3, 4))
		var at float64
		for i := range arrivals {
			at += r.ExpFloat64() * 2 / float64(rate)
			arrivals[i] = time.Duration(at * 1e9)
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	cpu, start := processorTime(), time.Now()
	for range callers {
		wg.Go(func() {
			var mine []time.Duration
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				begin := time.Now()
				if rate > 0 {
					begin = start.Add(arrivals[n])
					time.Sleep(time.Until(begin)) // when it is due
				}
				d, err := s.Decide(ctx, "m", rs[n%int64(len(rs))])
				if err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(begin))
				if _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}); err != nil {
					b.Error(err)
					return
				}
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/pair")
	slices.Sort(took)
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "decide-p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "decide-p99-µs")
	batches := float64(s.Health().Committer.Batches)
	b.ReportMetric(2*float64(b.N)/batches, "events/batch")
	size := int(float64(must(s.log.Info(ctx, 0)).Bytes) / batches)
	disk = append(disk, syncTimes(b, dir, size)...)
	slices.Sort(disk)
	b.ReportMetric(float64(size)/1024, "KiB/batch")
	b.ReportMetric(float64(disk[len(disk)/2].Microseconds()), "fsync-p50-µs")
	b.ReportMetric(float64(disk[len(disk)*99/100].Microseconds()), "fsync-p99-µs")
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// processorTime is what this process has used so far, on all processors; 0 where nobody knows.
var processorTime = func() time.Duration { return 0 }

// benchBatch is about what a batch of 64 callers has.
const benchBatch = 64 << 10

// syncTimes measures 200 appends of a number of bytes with a sync each: the disk alone.
func syncTimes(b *testing.B, dir string, size int) (took []time.Duration) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, size)
	for range 200 {
		begin := time.Now()
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	return took
}

// BenchmarkRecover folds a log of rewards from zero: the time of a restart without a snapshot.
func BenchmarkRecover(b *testing.B) {
	ctx := context.Background()
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(b, log, &fakeClock{}, func(o *Options) { o.Limits.InFlight = 1 << 20 })
	c := benchModel()
	c.LogCandidates = "none"
	must(s.CreateModel(ctx, c, ""))
	rs := benchRequests()
	const n = 4096
	for k := 0; k < n; k += 256 {
		items := must(s.DecideBatch(ctx, "m", slices.Concat(rs, rs, rs, rs)))
		rewards := make([]RewardRequest, len(items))
		for i, it := range items {
			rewards[i] = RewardRequest{EventID: it.Decision.EventID, Value: 0.5}
		}
		must(s.RewardBatch(ctx, rewards))
	}
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		s, err := Open(ctx, Options{Log: log, Keys: testKeys, ExpireEvery: -1})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/reward")
}

// BenchmarkRewardFromLog pays for decisions that the server has not made since it started: each is read
// from the log, out of an entry with about 150 others and their candidates. The processor's time is that
// of a reward, its share of a batch and a sync included.
func BenchmarkRewardFromLog(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	s := must(Open(ctx, Options{Dir: dir}))
	must(s.CreateModel(ctx, benchModel(), ""))
	rs := benchRequests()
	rs = slices.Concat(rs, rs, rs, rs)
	var ids []string
	for len(ids) < b.N {
		for _, it := range must(s.DecideBatch(ctx, "m", rs)) {
			ids = append(ids, it.Decision.EventID)
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
	s = must(Open(ctx, Options{Dir: dir}))
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	cpu := processorTime()
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
				if _, err := s.Reward(ctx, RewardRequest{EventID: ids[n], Value: 0.5}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/reward")
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkExpire closes the windows of decisions that got no reward, in a model with a default reward:
// their vectors are read from the log.
func BenchmarkExpire(b *testing.B) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := must(Open(ctx, Options{Dir: b.TempDir(), Clock: timing.At(clock.now), ExpireEvery: -1, SnapshotEvery: -1}))
	c := benchModel()
	c.Reward.Default = Maybe{Set: true, Value: 0}
	must(s.CreateModel(ctx, c, ""))
	rs := benchRequests()
	rs = slices.Concat(rs, rs, rs, rs)
	for n := 0; n < b.N; n += len(rs) {
		for _, it := range must(s.DecideBatch(ctx, "m", rs[:min(len(rs), b.N-n)])) {
			must(s.progress.until(ctx, it.Decision.Seq))
		}
	}
	clock.forward(time.Hour)
	b.ResetTimer()
	cpu := processorTime()
	if n := must(s.Expire(ctx)); n != b.N {
		b.Fatalf("%d windows were closed", n)
	}
	b.StopTimer()
	b.ReportMetric(float64((processorTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/event")
	if err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLateReward pays for decisions that the server has forgotten, in the order in which they were
// made and in any: what a reward costs that comes after the newest 40,000 decisions. 64 callers.
func BenchmarkLateReward(b *testing.B) {
	ctx := context.Background()
	for _, kept := range []string{"full", "none"} {
		for _, order := range []string{"in-order", "random", "known"} {
			b.Run(order+"/candidates="+kept, func(b *testing.B) {
				s, err := Open(ctx, Options{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close(ctx)
				c := benchModel()
				c.LogCandidates = kept
				must(s.CreateModel(ctx, c, ""))
				rs := benchRequests()
				ids := make([]string, 0, b.N)
				for len(ids) < b.N { // batches of 64, as 64 callers have them
					for _, it := range must(s.DecideBatch(ctx, "m", rs[:min(64, b.N-len(ids))])) {
						ids = append(ids, it.Decision.EventID)
					}
				}
				if order != "known" {
					s.recent.Forget()
				}
				if order == "random" {
					rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				cpu := processorTime()
				for range 64 {
					wg.Go(func() {
						for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
							if r, err := s.Reward(ctx, RewardRequest{EventID: ids[n], Value: 0.5}); err != nil || r.Status != Accepted {
								b.Error(r, err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64((processorTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/reward")
			})
		}
	}
}

// BenchmarkDecideFeatures compares what a decision costs before it is written: five features, hashed and with
// the ensemble on a declared schema that was the default of version 0.1; and hashed features of the shape of pendigits.
func BenchmarkDecideFeatures(b *testing.B) {
	schema := `{"id": "schema", "policy": {"kind": "ensemble"}, "features": {"features": [
		{"feature": "context.age", "kind": "number", "range": [0, 100]}, {"feature": "context.city", "kind": "category", "levels": ["c0", "c1", "c2", "c3"]},
		{"feature": "context.device", "kind": "category", "levels": ["d0", "d1", "d2"]}, {"feature": "action.price", "kind": "number", "range": [0, 5]},
		{"feature": "action.kind", "kind": "category", "levels": ["k0", "k1", "k2"]}], "crosses": [["context.city", "action.kind"], ["context.device", "action.kind"], ["context.age", "action.kind"]]}}`
	const pairs = `"features": {"model": "hashed", "pairs": "yes"}}`
	for _, config := range []string{schema, `{"id": "hashed"}`, `{"id": "digits"}`, `{"id": "levels-pairs", ` + pairs, `{"id": "digits-pairs", ` + pairs} {
		var c ModelConfig
		if err := json.Unmarshal([]byte(config), &c); err != nil {
			b.Fatal(err)
		}
		b.Run(c.ID, func(b *testing.B) {
			ctx := context.Background()
			s := open(b, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
			must(s.CreateModel(ctx, c, ""))
			request := func(n int) *DecideRequest {
				if c.ID != "schema" && c.ID != "hashed" { // the shape of pendigits: 16 numbers, or levels, and ten actions with ids and nothing else
					r := &DecideRequest{Context: []byte("{")}
					for k := range 16 {
						if v := (37*n + 11*k*k) % 101; c.ID == "levels-pairs" {
							r.Context = fmt.Appendf(r.Context, `"x%d": "%d",`, k, v/10)
						} else {
							r.Context = fmt.Appendf(r.Context, `"x%d": %d,`, k, v)
						}
					}
					r.Context[len(r.Context)-1] = '}'
					for k := range 10 {
						r.Actions = append(r.Actions, Action{ID: fmt.Sprint(k)})
					}
					return r
				}
				r := &DecideRequest{Context: fmt.Appendf(nil, `{"age": %d, "city": "c%d", "device": "d%d"}`, n%90, n%4, n%3)}
				for k := range 5 {
					r.Actions = append(r.Actions, Action{ID: fmt.Sprint(k), Features: fmt.Appendf(nil, `{"price": %d, "kind": "k%d"}`, k, k%3)})
				}
				return r
			}
			for n := range 200 {
				d := must(s.Decide(ctx, c.ID, *request(n)))
				must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n % 2)}))
			}
			e, v, err := s.model(c.ID)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var requests []*DecideRequest
			for n := range 64 {
				requests = append(requests, request(n))
			}
			start := processorTime()
			for n := 0; b.Loop(); n++ {
				if _, err := s.decider.Choose(context.Background(), e, v, requests[n%64]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime()-start).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}
