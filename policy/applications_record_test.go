package policy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"troupe/bandit"
)

// request is one request of an application: what the model sees, and what only the test knows.
type request struct {
	context string
	offers  []offered
	cell    int // what the means depend on besides the action
}

// offered is an action of a request.
type offered struct {
	id       string
	features string // "" without
	told     int    // its arm for the sampler that is told the cells
	blind    int    // and for the one that ignores the context
	mean     float64
}

// application is a family of worlds like those of an application, in process.
type application struct {
	name   string
	world  func(r *rand.Rand) func(n int, r *rand.Rand) request
	reward func(mean float64, r *rand.Rand) float64 // nil: a click
	late   func(y float64) int                      // after how many decisions a reward comes; nil: at once
}

// tabled is a world whose means are those of a table, drawn uniformly from [lo, hi].
func tabled(cells, arms int, lo, hi float64, context func(c, n int, r *rand.Rand) string) func(
	*rand.Rand) func(int, *rand.Rand) request {
	return func(r *rand.Rand) func(int, *rand.Rand) request {
		means := meansOf(&stream{cells: cells, arms: arms, lo: lo, hi: hi}, r)
		return func(n int, r *rand.Rand) request {
			c := r.IntN(cells)
			out := request{context: context(c, n, r), cell: c}
			for a, m := range means[c] {
				out.offers = append(out.offers, offered{"a" + strconv.Itoa(a), "", a, a, m})
			}
			return out
		}
	}
}

func segmentOnly(c, _ int, _ *rand.Rand) string { return fmt.Sprintf(`{"segment":"s%d"}`, c) }

func noContext(int, int, *rand.Rand) string { return "" }

// numberIn is a number in range c of four.
func numberIn(c int, r *rand.Rand) float64 { return 25*float64(c) + 25*r.Float64() }

// manyFields has one field that matters.
func manyFields(c, n int, r *rand.Rand) string {
	return fmt.Sprintf(`{"segment":"s%d","age":"%d","vip":%t,"cents":%d,"items":["i%d","i%d"],"at":%d,"campaign":null}`,
		c, 18+r.IntN(62), r.IntN(2) == 0, 100+r.IntN(20000), r.IntN(12), 12+r.IntN(12), 1_790_000_000+60*n+r.IntN(60))
}

// tags are a tag that matters beside three of 30 others.
func tags(c, _ int, r *rand.Rand) string {
	list := []string{"t" + strconv.Itoa(c)}
	for _, i := range r.Perm(30)[:3] {
		list = append(list, "junk"+strconv.Itoa(i))
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	b, err := json.Marshal(map[string]any{"tags": list})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// articles: eight at a time, every 60 decisions a new one in place of the oldest; a click is likely where the topic is
// the reader's.
func articles(r *rand.Rand) func(int, *rand.Rand) request {
	const topics, at = 5, 8
	means := meansOf(&stream{cells: 4, arms: topics, lo: .05, hi: .6}, r)
	topic := make([]int, 2000)
	for i := range topic {
		topic[i] = r.IntN(topics)
	}
	return func(n int, r *rand.Rand) request {
		c := r.IntN(len(means))
		out := request{context: fmt.Sprintf(`{"reader":"r%d"}`, c), cell: c}
		for a := n / 60; a < n/60+at; a++ {
			t := topic[a]
			out.offers = append(out.offers, offered{"article" + strconv.Itoa(a), fmt.Sprintf(`{"topic":"t%d"}`, t), t, a, means[c][t]})
		}
		return out
	}
}

// pricesInBudget: five new offers in each request; the best is the dearest that the budget allows.
func pricesInBudget(*rand.Rand) func(int, *rand.Rand) request {
	return func(n int, r *rand.Rand) request {
		budget := 1000 + r.IntN(4000)
		out := request{context: fmt.Sprintf(`{"budget":%d}`, budget), cell: budget / 1000}
		for a := range 5 {
			price := 500 + r.IntN(5000)
			mean := .05
			if price <= budget {
				mean = .1 + .4*float64(price)/float64(budget)
			}
			out.offers = append(out.offers, offered{fmt.Sprintf("o%d-%d", n, a), fmt.Sprintf(`{"price":%d}`, price),
				price / 1000, 5*n + a, mean})
		}
		return out
	}
}

// someMissing: three fields, of which two matter, and 30 % of the values are not sent. Told knows what was sent.
func someMissing(r *rand.Rand) func(int, *rand.Rand) request {
	const arms = 5
	var parts [2][][]float64
	for i := range parts {
		parts[i] = meansOf(&stream{cells: 3, arms: arms, lo: .05, hi: .6}, r)
	}
	return func(_ int, r *rand.Rand) request {
		var fields []string
		var out request
		var at [2]int
		for i := range 3 {
			v := r.IntN(3)
			if i < 2 {
				at[i] = v
				out.cell *= 4
			}
			if r.Float64() < .3 {
				continue
			}
			if i < 2 {
				out.cell += 1 + v
			}
			fields = append(fields, fmt.Sprintf(`"f%d":"v%d"`, i, v))
		}
		out.context = "{" + strings.Join(fields, ",") + "}"
		for a := range arms {
			out.offers = append(out.offers, offered{"a" + strconv.Itoa(a), "", a, a, (parts[0][at[0]][a] + parts[1][at[1]][a]) / 2})
		}
		return out
	}
}

// manyOffers are 300 actions, of so many brands, or each of its own.
func manyOffers(brands int, lo, hi float64) func(*rand.Rand) func(int, *rand.Rand) request {
	return func(r *rand.Rand) func(int, *rand.Rand) request {
		var out request
		means := meansOf(&stream{cells: 1, arms: max(brands, 300), lo: lo, hi: hi}, r)[0]
		for a := range 300 {
			o := offered{"a" + strconv.Itoa(a), "", a, a, means[a]}
			if brands > 0 {
				b := r.IntN(brands)
				o.features, o.told, o.mean = fmt.Sprintf(`{"brand":"b%d"}`, b), b, means[b]
			}
			out.offers = append(out.offers, o)
		}
		return func(int, *rand.Rand) request { return out }
	}
}

// applications are the 22 streams of docs/record/does-it-learn.md.
func applications() []application {
	four := func(context func(c, n int, r *rand.Rand) string) func(*rand.Rand) func(int, *rand.Rand) request {
		return tabled(4, 5, .05, .6, context)
	}
	zerosLate := func(y float64) int {
		if y > 0 {
			return 0
		}
		return 300
	}
	return []application{
		{name: "4 segments", world: four(segmentOnly)},
		{name: "a segment among six other fields", world: four(manyFields)},
		{name: "age as a number, 4 ranges", world: four(func(c, _ int, r *rand.Rand) string {
			return fmt.Sprintf(`{"age":%d}`, 18+15*c+r.IntN(15))
		})},
		{name: "age as text, 4 ranges", world: four(func(c, _ int, r *rand.Rand) string {
			return fmt.Sprintf(`{"age":"%d"}`, 18+15*c+r.IntN(15))
		})},
		{name: "a tag beside three of 30 others", world: four(tags)},
		{name: "8 articles that come and go, by topic", world: articles},
		{name: "a segment beside 10,000 ids as text", world: four(func(c, _ int, r *rand.Rand) string {
			return fmt.Sprintf(`{"country":"c%d","user":"u%d"}`, c, r.IntN(10_000))
		})},
		{name: "a segment beside 10,000 ids as numbers", world: four(func(c, _ int, r *rand.Rand) string {
			return fmt.Sprintf(`{"country":"c%d","user":%d}`, c, r.IntN(10_000))
		})},
		{name: "Unix time and the hour, 4 ranges", world: four(func(c, n int, r *rand.Rand) string {
			return fmt.Sprintf(`{"at":%d,"hour":%d}`, 1_790_000_000+60*n, 6*c+r.IntN(6))
		})},
		{name: "price in cents × budget, ids always new", world: pricesInBudget},
		{name: "a number, 4 ranges", world: four(func(c, _ int, r *rand.Rand) string {
			return fmt.Sprintf(`{"score":%.3f}`, numberIn(c, r))
		})},
		{name: "a number, 4 ranges, one 10⁹ among the first", world: four(func(c, n int, r *rand.Rand) string {
			if n == 20 {
				return `{"score":1e9}`
			}
			return fmt.Sprintf(`{"score":%.3f}`, numberIn(c, r))
		})},
		{name: "three fields, 30 % of values missing", world: someMissing},
		{name: "dollars with a heavy tail", world: four(segmentOnly), reward: func(m float64, r *rand.Rand) float64 {
			if r.Float64() >= m {
				return 0
			}
			return min(500, 20*math.Exp(1.2*r.NormFloat64()))
		}},
		{name: "always negative", world: four(segmentOnly), reward: func(m float64, r *rand.Rand) float64 {
			return -(1 - m) * (.5 + r.Float64())
		}},
		{name: "rewards 300 decisions late", world: four(segmentOnly), late: func(float64) int { return 300 }},
		{name: "2 actions, 4 segments", world: tabled(4, 2, .05, .6, segmentOnly)},
		{name: "5 actions, no context", world: tabled(1, 5, .05, .6, noContext)},
		{name: "300 actions", world: manyOffers(0, .05, .6)},
		{name: "300 actions of 12 brands", world: manyOffers(12, .05, .6)},
		{name: "clicks of 1 to 7 %, 4 segments", world: tabled(4, 5, .01, .07, segmentOnly)},
		{name: "the same, zeros 300 decisions late", world: tabled(4, 5, .01, .07, segmentOnly), late: zerosLate},
	}
}

// sampler is Gaussian Thompson sampling with a mean for each arm of each cell, with the mean and the deviation of all
// rewards as those of an arm before its first event.
type sampler struct {
	sums, counts    map[[2]int]float64
	n, sum, squares float64
	r               *rand.Rand
}

func newSampler(seed uint64) *sampler {
	return &sampler{map[[2]int]float64{}, map[[2]int]float64{}, 0, 0, 0, rand.New(rand.NewPCG(seed, 5))}
}

func (s *sampler) choose(keys [][2]int) int {
	best, most := 0, math.Inf(-1)
	mean, deviation := 0., .5
	if s.n > 1 {
		mean = s.sum / s.n
		deviation = math.Sqrt(max(s.squares/s.n-mean*mean, 1e-6))
	}
	for i, k := range keys {
		n := 1 + s.counts[k]
		if v := (mean+s.sums[k])/n + deviation/math.Sqrt(n)*s.r.NormFloat64(); v > most {
			best, most = i, v
		}
	}
	return best
}

func (s *sampler) learn(k [2]int, y float64) {
	s.sums[k] += y
	s.counts[k]++
	s.n, s.sum, s.squares = s.n+1, s.sum+y, s.squares+y*y
}

// due is a reward that has not come yet.
type due struct {
	at    int
	learn func()
}

// playApplication plays a world with a model, and with the two samplers: shares in blocks of 250 decisions.
func (x *application) play(t testing.TB, w *service, seed uint64, rounds int) (model, told, blind played) {
	r := rand.New(rand.NewPCG(seed, 41))
	next := x.world(r)
	samplers := [2]*sampler{newSampler(seed), newSampler(seed + 1<<32)}
	out := [3]*played{&model, &told, &blind}
	for _, p := range out {
		p.got, p.most = make([]float64, (rounds+249)/250), make([]float64, (rounds+249)/250)
	}
	var waiting []due
	keys := [2][][2]int{}
	for n := range rounds {
		q := next(n, r)
		luck := r.Uint64()
		reward := func(i int) float64 {
			l := rand.New(rand.NewPCG(luck, uint64(i)))
			if x.reward != nil {
				return x.reward(q.offers[i].mean, l)
			}
			if l.Float64() < q.offers[i].mean {
				return 1
			}
			return 0
		}
		waiting = slices.DeleteFunc(waiting, func(d due) bool {
			if d.at <= n {
				d.learn()
			}
			return d.at <= n
		})
		best, uniform := math.Inf(-1), 0.
		keys[0], keys[1] = keys[0][:0], keys[1][:0]
		for _, o := range q.offers {
			best = max(best, o.mean)
			uniform += o.mean / float64(len(q.offers))
			keys[0], keys[1] = append(keys[0], [2]int{q.cell, o.told}), append(keys[1], [2]int{0, o.blind})
		}
		a := w.offer(t, q)
		a.At, a.X = slices.Clone(a.At), slices.Clone(a.X)
		chosen := [3]int{a.Index, samplers[0].choose(keys[0]), samplers[1].choose(keys[1])}
		for p, i := range chosen {
			out[p].got[n/250] += q.offers[i].mean - uniform
			out[p].most[n/250] += best - uniform
			y := reward(i)
			learn := func() { w.reward(t, a, y) }
			if p > 0 {
				k := keys[p-1][i]
				learn = func() { samplers[p-1].learn(k, y) }
			}
			if x.late == nil || x.late(y) == 0 {
				learn()
				continue
			}
			waiting = append(waiting, due{n + x.late(y), learn})
		}
	}
	return model, told, blind
}

// offer is decide for actions with features.
func (w *service) offer(t testing.TB, q request) bandit.Action {
	w.features = w.features[:0]
	ids := make([]string, len(q.offers))
	for i, o := range q.offers {
		ids[i] = o.id
		w.features = append(w.features, o.features)
	}
	return w.decide(t, q.context, ids)
}

// TestApplicationsRecord measures the table of 22 streams in docs/record/does-it-learn.md.
func TestApplicationsRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play the streams: three minutes of a processor")
	}
	const from, worlds, rounds = 31_000, 24, 2500
	near, below, count := 0, 0, 0
	for _, x := range applications() {
		t.Run(x.name, func(t *testing.T) {
			var sums [3][4]float64
			var square, worst float64 = 0, 1
			for k := range uint64(worlds) {
				model, told, blind := x.play(t, newFields(t, from+k, "restarts"), from+k, rounds)
				for i, p := range []played{model, told, blind} {
					for j, v := range []float64{p.share(0, 500), p.share(0, 1000), p.share(0, rounds), p.share(1750, rounds)} {
						sums[i][j] += v / worlds
					}
				}
				v := model.share(0, 1000)
				square, worst = square+v*v/worlds, min(worst, v)
			}
			at, told, blind := sums[0], sums[1], sums[2]
			if count++; at[1] >= .85*told[1] {
				near++
			}
			if at[1] < blind[1]-.03 {
				below++
			}
			t.Logf("%.2f · %.2f ± %.2f · %.2f · %.2f, told %.2f · %.2f, blind %.2f · %.2f, worst %.2f, of told %.2f",
				at[0], at[1], math.Sqrt(max(0, square-at[1]*at[1])/(worlds-1)), at[2], at[3], told[1], told[2], blind[1], blind[2],
				worst, at[1]/told[1])
		})
	}
	t.Logf("of %d streams %d have .85 of told at 1,000, and %d are below blind by more than .03", count, near, below)
}
