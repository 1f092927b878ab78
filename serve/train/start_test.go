package train

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// digits are the rows of pendigits: 16 numbers in [0, 1], and the class.
func digits(t *testing.T) (x [][]float64, class []int) {
	b, err := os.ReadFile("../../../shared/data/pendigits.arff")
	if err != nil {
		t.Skipf("the data are absent: %v", err)
	}
	text := string(b)
	r := csv.NewReader(strings.NewReader(strings.TrimSpace(text[strings.Index(strings.ToLower(text), "@data")+5:])))
	r.Comment = '%'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		v := make([]float64, 16)
		for i := range v {
			n, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			if err != nil {
				t.Fatal(err)
			}
			v[i] = n / 100
		}
		c, err := strconv.Atoi(strings.TrimSpace(row[16]))
		if err != nil {
			t.Fatal(err)
		}
		x, class = append(x, v), append(class, c)
	}
	return x, class
}

// digitArms are the ten actions of a row: one block of 17 coordinates each, of length at most 1.
func digitArms(x []float64) []float64 {
	const d = 17
	out := make([]float64, 10*10*d)
	for a := range 10 {
		block := out[a*10*d+a*d:]
		block[0] = .5
		for i, v := range x {
			block[1+i] = (v - .5) / 2.5
		}
	}
	return out
}

// TestStartRecord measures what a log as a start is worth: the regret after it over that of a cold start, where the log has 2,000 events
// of uniform play, and where its classes were permuted.
func TestStartRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("a record: TROUPE_RECORD=1")
	}
	x, class := digits(t)
	const logged, seeds, dim = 2000, 3, 170
	c := model.Default("m")
	c.Dim, c.Sigma, c.Floor = dim, .3, 0
	configs := map[string]*model.Compiled{}
	for _, change := range []string{"none", "restarts"} {
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": "atoms", "change": change}, "policy"); err != nil {
			t.Fatal(err)
		}
		var err error
		if configs[change], err = c.Admit(model.DefaultLimits); err != nil {
			t.Fatal(err)
		}
	}
	rounds := []int{1000, 5000}
	play := func(seed uint64, p model.Policy, order []int) (out []float64) {
		key, lost := rng.NewKey(seed), 0.
		for n, row := range order[:rounds[len(rounds)-1]] {
			set, err := actionset.FiniteOf(dim, digitArms(x[row]))
			if err != nil {
				t.Fatal(err)
			}
			var a bandit.Action
			if err := p.Select(&a, set, key.Stream(rng.Select).Round(uint64(n))); err != nil {
				t.Fatal(err)
			}
			y := 0.
			if a.Index == class[row] {
				y = 1
			}
			lost += 1 - y
			if err := p.Update(a, y, key.Stream(rng.Perturb).Round(uint64(n))); err != nil {
				t.Fatal(err)
			}
			if n+1 == rounds[len(out)] {
				out = append(out, lost)
			}
		}
		return out
	}
	type start struct {
		cap      int // 0: all count; −1: no log
		permuted bool
		change   string
	}
	starts := []start{
		{-1, false, "none"}, {0, false, "none"}, {1000, false, "none"}, {200, false, "none"}, {0, true, "none"}, {1000, true, "none"},
		{200, true, "none"}, {-1, false, "restarts"}, {0, false, "restarts"}, {0, true, "restarts"},
	}
	sums := make([][2]float64, len(starts))
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 30))
		order := r.Perm(len(x))
		for k, s := range starts {
			r, cfg := rand.New(rand.NewPCG(seed, 31)), configs[s.change]
			p, err := cfg.NewPolicy(rng.NewKey(seed))
			if err != nil {
				t.Fatal(err)
			}
			if s.cap >= 0 {
				tr, err := New(cfg, rng.NewKey(seed), Options{Cap: s.cap, Events: logged})
				if err != nil {
					t.Fatal(err)
				}
				for n, row := range order[:logged] {
					a, y, right := r.IntN(10), 0., class[row]
					if s.permuted {
						right = (right + 3) % 10
					}
					if a == right {
						y = 1
					}
					e := Event{X: digitArms(x[row])[a*dim : (a+1)*dim], Reward: y, Given: true, Draw: rng.NewKey(seed).Stream(rng.Reward).Round(uint64(n))}
					if err := tr.Add(e); err != nil {
						t.Fatal(err)
					}
				}
				saved, err := tr.Finish(fold.Memory{})
				if err != nil {
					t.Fatal(err)
				}
				p = restored(t, saved)
			}
			for i, v := range play(seed, p, order[logged:]) {
				sums[k][i] += v / seeds
			}
		}
	}
	cold := 0
	for k, s := range starts {
		if s.cap < 0 {
			cold = k
		}
		name := fmt.Sprintf("cap %d", s.cap)
		switch s.cap {
		case -1:
			name = "cold"
		case 0:
			name = "no cap"
		}
		t.Logf("change %-8s %-8s permuted %-5v regret after 1000: %4.0f (%.2f of cold), after 5000: %4.0f (%.2f)", s.change, name, s.permuted, sums[k][0],
			sums[k][0]/sums[cold][0], sums[k][1], sums[k][1]/sums[cold][1])
	}
}
