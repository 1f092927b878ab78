package policy_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
)

// table is a data set: rows of fields, labels.
type table struct {
	rows   [][]string
	label  []int
	k      int
	quoted bool
}

func load(t testing.TB, name string) *table {
	b, err := os.ReadFile("../../shared/data/" + name)
	if err != nil {
		t.Skipf("the data are absent: %v", err)
	}
	text := string(b)
	if i := strings.Index(strings.ToLower(text), "@data"); i >= 0 {
		text = text[i+5:]
	}
	r := csv.NewReader(strings.NewReader(strings.TrimSpace(text)))
	r.Comment = '%'
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	d := &table{quoted: name == "mushroom.data"}
	classes := map[string]int{}
	for _, row := range all {
		c := row[len(row)-1]
		if d.quoted {
			c, row = row[0], row[1:]
		} else {
			row = row[:len(row)-1]
		}
		if _, ok := classes[c]; !ok {
			classes[c] = len(classes)
		}
		d.rows = append(d.rows, row)
		d.label = append(d.label, classes[c])
	}
	d.k = len(classes)
	return d
}

// service plays requests as a server does for a model {"id": …}: decisions, rewards and records of standards
// in order.
type service struct {
	p     *policy.Hashed
	b     *feature.HashedBatch
	stats *feature.Statistics
	obs   feature.Observer
	n     uint64
	draw  rng.Stream

	features []string // of the actions of a request; one that is not there has none
}

func newService(t testing.TB, seed uint64) *service {
	e, err := feature.NewHashed(feature.HashedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(seed)
	p, err := policy.NewHashed(policy.HashedOptions{}, policy.Problem{Init: key.Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	return &service{p: p, b: feature.NewHashedBatch(e, nil), draw: key.Stream(rng.Select)}
}

// decide is a request with actions that have nothing but ids, under a floor of 1 % shared, the server's default.
func (w *service) decide(t testing.TB, context string, ids []string) bandit.Action {
	if err := w.b.Begin([]byte(context)); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		var features []byte
		if i < len(w.features) && w.features[i] != "" {
			features = []byte(w.features[i])
		}
		if err := w.b.Add(id, features); err != nil {
			t.Fatal(err)
		}
	}
	w.n++
	var a bandit.Action
	d := w.draw.Round(w.n)
	if err := w.p.Select(&a, w.b, d); err != nil {
		t.Fatal(err)
	}
	if e := d.Sub(9); e.Float64(0) < 0.01 {
		i := e.Intn(1, w.b.Len())
		at, x := w.b.Nonzeros(i)
		a.SetSparse(at, x, i)
	}
	for _, s := range w.obs.Look(w.b, w.stats) {
		w.stats, _ = w.stats.With(s)
		w.b.Use(w.stats)
	}
	return a
}

func (w *service) reward(t testing.TB, a bandit.Action, y float64) {
	if err := w.p.Update(a, y, rng.Source{}); err != nil {
		t.Fatal(err)
	}
}

// variant is what is done to the rows of a data set.
type variant struct {
	useless bool // 10 strings of 1000 levels and 10 normal numbers are added
	missing bool // 5 % of the values are left out
	smoke   bool // one request {"actions": [{"id": "x"}]} comes first
}

// classify plays one pass over the rows in random order, one reward at a time, and returns the share right
// over the first rows, for each of marks.
func classify(t testing.TB, d *table, seed uint64, v variant, marks ...int) []float64 {
	return newService(t, seed).classify(t, d, seed, v, marks...)
}

func (w *service) classify(t testing.TB, d *table, seed uint64, v variant, marks ...int) []float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	order := r.Perm(len(d.rows))
	if v.smoke {
		w.decide(t, "", []string{"x"})
	}
	most := slices.Max(marks)
	ids := make([]string, d.k)
	for i := range ids {
		ids[i] = fmt.Sprint("class", i)
	}
	right := 0
	var out []float64
	for n := 1; n <= most; n++ {
		at := order[(n-1)%len(order)]
		var s strings.Builder
		s.WriteString("{")
		sep := ""
		for i, f := range d.rows[at] {
			if v.missing && r.Float64() < 0.05 {
				continue
			}
			if d.quoted {
				f = strconv.Quote(f)
			}
			fmt.Fprintf(&s, `%s"f%d":%s`, sep, i, strings.TrimSpace(f))
			sep = ","
		}
		if v.useless {
			for i := range 10 {
				fmt.Fprintf(&s, `%s"s%d":"l%d","n%d":%g`, sep, i, r.IntN(1000), i, r.NormFloat64())
				sep = ","
			}
		}
		s.WriteString("}")
		a := w.decide(t, s.String(), ids)
		y := 0.0
		if a.Index == d.label[at] {
			y = 1
			right++
		}
		w.reward(t, a, y)
		for _, m := range marks {
			if n == m {
				out = append(out, float64(right)/float64(n))
			}
		}
	}
	link, pairs := w.p.Playing()
	t.Logf("order %d: %.3f after %d; %s model, pairs: %v", seed, out, marks, link, pairs)
	return out
}

// clicks plays a world of clicks at about 3 % with rewards in batches of 100, and returns the share of the way
// from uniform play to the best action of each context, over all and over the second half.
func clicks(t testing.TB, seed uint64, T int) (all, second float64) {
	r := rand.New(rand.NewPCG(seed, 11))
	const K, C, D = 10, 50, 3
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
	base := math.Log(0.03 / 0.97)
	prob := func(c, d, a int) float64 { return 1 / (1 + math.Exp(-(base + act[a] + city[c][a] + dev[d][a]))) }
	w := newService(t, seed)
	ids := make([]string, K)
	for i := range ids {
		ids[i] = fmt.Sprint("ad", i)
	}
	type pending struct {
		a bandit.Action
		y float64
	}
	var wait []pending
	var got, uni, best [2]float64
	for n := range T {
		c, d := r.IntN(C), r.IntN(D)
		ctx := fmt.Sprintf(`{"city":"c%d","device":"d%d","x":%g}`, c, d, r.NormFloat64())
		a := w.decide(t, ctx, ids)
		h := 2 * n / T
		m := 0.0
		for k := range K {
			p := prob(c, d, k)
			uni[h] += p / K
			m = max(m, p)
		}
		best[h] += m
		p := prob(c, d, a.Index)
		got[h] += p
		y := 0.0
		if r.Float64() < p {
			y = 1
		}
		wait = append(wait, pending{bandit.Action{X: append([]float64(nil), a.X...), At: append([]uint32(nil), a.At...), Index: a.Index}, y})
		if len(wait) == 100 {
			for _, p := range wait {
				w.reward(t, p.a, p.y)
			}
			wait = wait[:0]
		}
	}
	all = (got[0] + got[1] - uni[0] - uni[1]) / (best[0] + best[1] - uni[0] - uni[1])
	second = (got[1] - uni[1]) / (best[1] - uni[1])
	link, pairs := w.p.Playing()
	t.Logf("world %d: %.3f, second half %.3f; %s model, pairs: %v", seed, all, second, link, pairs)
	return all, second
}

// arms plays two arms with rewards N(0.5, 1) and N(0.2, 1).
func arms(t testing.TB, seed uint64, T int) (regret float64) {
	r := rand.New(rand.NewPCG(seed, 13))
	w := newService(t, seed)
	ids := []string{"good", "bad"}
	for range T {
		a := w.decide(t, "", ids)
		mu := []float64{0.5, 0.2}[a.Index]
		regret += 0.5 - mu
		w.reward(t, a, mu+r.NormFloat64())
	}
	return regret
}

// TestHashedLearns: the default learner on requests without a schema. The levels are those of the first rows of
// TestHashedBars, with room for another order. Five runs of two arms, ten with TROUPE_LONG.
func TestHashedLearns(t *testing.T) {
	if got := classify(t, load(t, "mushroom.data"), 1, variant{smoke: true}, 600); got[0] < 0.9 {
		t.Errorf("mushroom: %.3f right, expected 0.9", got)
	}
	if got := classify(t, load(t, "pendigits.arff"), 1, variant{}, 600); got[0] < 0.5 {
		t.Errorf("pendigits: %.3f right, expected 0.5", got)
	}
	for seed := range uint64(sized(5, 10)) {
		if g := arms(t, seed, 3000); g > 300 {
			t.Errorf("two arms, run %d: regret %.0f, expected less than 300", seed, g)
		}
	}
}

// TestHashedBars measures what docs/record/sparse.md shows. It takes some minutes of a processor.
func TestHashedBars(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play the data sets")
	}
	orders := []uint64{1, 2, 3}
	for _, c := range []struct {
		name, file string
		v          variant
		marks      []int
		least      []float64
	}{
		{"pendigits", "pendigits.arff", variant{}, []int{5000, 10000}, []float64{0.86, 0.90}},
		{"pendigits after a smoke test", "pendigits.arff", variant{smoke: true}, []int{5000, 10000}, []float64{0.97 * 0.86, 0.97 * 0.90}},
		{"pendigits, 5 % missing", "pendigits.arff", variant{missing: true}, []int{5000, 10000}, []float64{0.94 * 0.86, 0.94 * 0.90}},
		{"pendigits, 20 useless features", "pendigits.arff", variant{useless: true}, []int{5000, 10000}, []float64{0.82, 0.88}},
		{"letter", "letter.arff", variant{}, []int{10000, 20000}, []float64{0.50, 0.62}},
		{"mushroom", "mushroom.data", variant{}, []int{5000, 8000}, []float64{0.98, 0.985}},
		{"mushroom after a smoke test", "mushroom.data", variant{smoke: true}, []int{5000, 8000}, []float64{0.97 * 0.98, 0.97 * 0.985}},
		{"mushroom, 5 % missing", "mushroom.data", variant{missing: true}, []int{5000, 8000}, []float64{0.94 * 0.98, 0.94 * 0.985}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := load(t, c.file)
			for _, seed := range orders {
				for i, got := range classify(t, d, seed, c.v, c.marks...) {
					if got < c.least[i] {
						t.Errorf("order %d: %.3f right after %d, expected %.3f", seed, got, c.marks[i], c.least[i])
					}
				}
			}
		})
	}
	t.Run("clicks", func(t *testing.T) {
		for _, seed := range orders {
			if all, second := clicks(t, seed, 50_000); all < 0.62 || second < 0.74 {
				t.Errorf("world %d: %.3f, second half %.3f, expected 0.62 and 0.74", seed, all, second)
			}
		}
	})
	t.Run("two arms", func(t *testing.T) {
		const T, runs = 30_000, 1000
		stuck, sum := 0, 0.0
		for seed := range uint64(runs) {
			g := arms(t, seed, T)
			sum += g
			if g > 0.1*T*(0.5-0.2) {
				stuck++
			}
		}
		t.Logf("%d runs: mean regret %.1f, %d stuck", runs, sum/runs, stuck)
		if stuck > 2 {
			t.Errorf("%d of %d runs are stuck, expected at most 2", stuck, runs)
		}
	})
}
