package ope

import (
	"context"
	"io"
	"math"
	"slices"
	"sync"

	"troupe/logged"
	"troupe/rng"
)

// ListWorlds are the kinds of feedback of ListBenchmark.
var ListWorlds = []string{"position-based", "cascade", "repeated category", "entry below matters"}

// ListErrors is how an estimator of lists did in one kind of feedback.
type ListErrors struct {
	World     string  `json:"world"`
	Estimator string  `json:"estimator"`
	Value     float64 `json:"value"` // the truth, mean over the runs
	Bias      float64 `json:"bias"`  // mean error
	RMSE      float64 `json:"rmse"`
	// Shares of the runs whose interval holds the truth, of those that have one; null without one. Doubt is the share of the runs in
	// which the normal one stands in brackets.
	Normal   *float64 `json:"normal"`
	Sequence *float64 `json:"sequence"`
	Doubt    float64  `json:"doubt"`
}

// Sizes of ListBenchmark.
const (
	benchItems, benchPlaces, benchMembers = 6, 3, 16
	benchFloor                            = .05
)

// listBench is one run: two laws of 16 members with a floor, and what items are worth.
type listBench struct {
	kind           string
	logger, target *logged.ListLaw
	p              [benchItems]float64
	key            rng.Stream
	n, at          int
}

func newListBench(kind string, key rng.Key, n int) *listBench {
	b := &listBench{kind: kind, key: key.Stream(rng.Reward), n: n}
	in, at := key.Stream(rng.Instance).Round(0), 0
	normal := func() float64 { at++; return in.Normal(at) }
	var base, moved [benchItems]float64
	for i := range base {
		base[i] = normal()
		moved[i] = base[i] + float64(.7*normal())
		b.p[i] = .05 + float64(.55*in.Float64(1000+i))
	}
	law := func(z [benchItems]float64, sd float64) *logged.ListLaw {
		w := &logged.ListLaw{Floor: benchFloor}
		for range benchMembers {
			score, order := z, make([]int, benchItems)
			for i := range score {
				score[i] += float64(sd * normal())
				order[i] = i
			}
			slices.SortFunc(order, func(a, c int) int {
				if score[a] > score[c] {
					return -1
				}
				return 1
			})
			w.Lists, w.P = append(w.Lists, order[:benchPlaces]), append(w.P, (1-benchFloor)/benchMembers)
		}
		return w
	}
	b.logger, b.target = law(base, 1), law(moved, .3)
	return b
}

// mean is the expected reward of position l, above whether something above was clicked, which only the cascade asks.
func (b *listBench) mean(L []int, l int) float64 {
	p := b.p[L[l]]
	switch b.kind {
	case "position-based":
		return float64(p * [benchPlaces]float64{1, .6, .3}[l])
	case "repeated category":
		for _, j := range L[:l] {
			if j%3 == L[l]%3 {
				return p / 4
			}
		}
	case "entry below matters":
		return float64(p * (1 - float64(.5*b.p[L[(l+1)%len(L)]])))
	}
	return p
}

// value is the truth: the mean over the target's law.
func (b *listBench) value() float64 {
	total := 0.0
	of := func(L []int) float64 {
		v, on := 0.0, 1.0
		for l := range L {
			q := float64(on * b.mean(L, l))
			if v += q; b.kind == "cascade" {
				on -= q
			}
		}
		return v
	}
	for j, L := range b.target.Lists {
		total += float64(b.target.P[j] * of(L))
	}
	lists := 0
	sum := 0.0
	for code := range benchItems * benchItems * benchItems {
		L := []int{code / (benchItems * benchItems), code / benchItems % benchItems, code % benchItems}
		if L[0] != L[1] && L[1] != L[2] && L[0] != L[2] {
			lists++
			sum += of(L)
		}
	}
	return total + float64(benchFloor*sum)/float64(lists)
}

// Read implements Source: the next list.
func (b *listBench) Read(e *logged.Event) error {
	if b.at == b.n {
		return io.EOF
	}
	b.at++
	d := b.key.Round(uint64(b.at))
	L := b.logger.Lists[d.Intn(0, benchMembers)]
	if d.Float64(1) < benchFloor {
		var rest []int
		for i := range benchItems {
			rest = append(rest, i)
		}
		L = nil
		for l := range benchPlaces {
			k := d.Intn(2+l, len(rest))
			L, rest = append(L, rest[k]), slices.Delete(rest, k, k+1)
		}
	}
	*e = logged.Event{K: benchItems, Position: logged.NoPosition, ListLaw: b.logger, TargetListLaw: b.target}
	for l, a := range L {
		s := logged.Slot{Allowed: []int{a}}
		for i := range benchItems {
			if !slices.Contains(L[:l+1], i) {
				s.Allowed = append(s.Allowed, i)
			}
		}
		e.Slots = append(e.Slots, s)
	}
	above := false
	for l := range L {
		s := &e.Slots[l]
		var st logged.Standing
		b.logger.Stand(&st, e, l)
		s.Propensity, s.Prefix, s.Marginal, s.Law, s.Marginals = st.Conditional, st.Prefix, st.Marginal, st.Law, st.Marginals
		s.Target = &logged.Standing{}
		b.target.Stand(s.Target, e, l)
		if !(b.kind == "cascade" && above) && d.Float64(10+l) < b.mean(L, l) {
			s.Reward, above = 1, true
		}
	}
	return nil
}

// ListBenchmark evaluates lists where the truth is known: runs logs of n lists of 3 of 6 items in each of four kinds of feedback. Logger
// and target are drawn anew for each run: 16 members and a floor of .05, with their laws in the log. The answer has the same bits for any
// number of workers.
func ListBenchmark(ctx context.Context, runs, n, workers int, seed uint64) ([]ListErrors, error) {
	type outcome struct {
		value float64
		rows  []Estimate
		err   error
	}
	var out []ListErrors
	for w, kind := range ListWorlds {
		all, next, wg := make([]outcome, runs), make(chan int, runs), sync.WaitGroup{}
		for i := range runs {
			next <- i
		}
		close(next)
		for range max(1, workers) {
			wg.Go(func() {
				for i := range next {
					if ctx.Err() != nil {
						return
					}
					b := newListBench(kind, rng.NewKey(seed).Child("lists").At(uint64(w*1_000_000+i)), n)
					r, err := Evaluate(ctx, b, Options{Targets: []Target{Column{}}})
					if all[i].err = err; err == nil {
						all[i].value, all[i].rows = b.value(), r.Targets[0].Estimates
					}
				}
			})
		}
		wg.Wait()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for k, key := range ListKeys() {
			if key == "logged" {
				continue
			}
			x := ListErrors{World: kind, Estimator: key}
			var held, of [2]float64
			for i := range all {
				if all[i].err != nil {
					return nil, all[i].err
				}
				e, v, m := &all[i].rows[k], all[i].value, float64(runs)
				x.Value += v / m
				if e.Value != nil {
					x.Bias += (*e.Value - v) / m
					x.RMSE += float64((*e.Value-v)*(*e.Value-v)) / m
				}
				for j, p := range []*Pair{e.Normal, e.Sequence} {
					if p == nil {
						continue
					}
					if of[j]++; p[0] <= v && v <= p[1] {
						held[j]++
					}
				}
				if e.Doubt != nil {
					x.Doubt += 1 / m
				}
			}
			x.RMSE = math.Sqrt(x.RMSE)
			for j, into := range []**float64{&x.Normal, &x.Sequence} {
				if of[j] > 0 {
					*into = ptr(held[j] / of[j])
				}
			}
			out = append(out, x)
		}
	}
	return out, nil
}
