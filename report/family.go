package report

import (
	"slices"

	"troupe/internal/infer"
	"troupe/rng"
)

// family is what is said about all pairs of policies in all environments of a run: it is printed together, so its
// intervals hold together.
type family struct {
	pairs  int // of all environments
	byEnv  map[int]map[[2]int]infer.Interval
	factor map[int]float64 // by environment; none where no interval exists
}

// estimand is what the spec fixed before the run.
func (run *Run) estimand() infer.Estimand {
	e, _ := infer.Named(run.Manifest.Estimand) // checked by checkManifest
	return e
}

// stream is the stream of resampling that belongs to a name.
func (run *Run) stream(name string) rng.Stream {
	return rng.NewKey(run.Manifest.Seed).Child("report").Child(name).Stream(rng.Resample)
}

// drawFrom draws resamples from a stream, each of them together. It is for one goroutine.
func drawFrom(stream rng.Stream) infer.Draw {
	var drawn []int
	last := -1
	return func(_, b, i, n int) int {
		if b != last || n != len(drawn) {
			drawn, last = slices.Grow(drawn[:0], n)[:n], b
			stream.Round(uint64(b)).Intns(drawn, n)
		}
		return drawn[i]
	}
}

// bySize draws for each number of replications by its own.
func bySize(draws map[int]infer.Draw) infer.Draw {
	return func(reps, b, i, n int) int { return draws[reps](reps, b, i, n) }
}

// family computes the intervals of all pairs. It is made once.
func (run *Run) family() *family {
	run.once.Do(func() {
		if run.choice != nil {
			run.all = run.choice.family(run)
			return
		}
		run.all = run.compareAll()
	})
	return run.all
}

func (run *Run) compareAll() *family {
	f := &family{byEnv: map[int]map[[2]int]infer.Interval{}, factor: map[int]float64{}}
	type place struct{ env, i, j int }
	var places []place
	var contrasts []infer.Contrast
	first := map[int]string{} // the environment that names the stream, by number of replications
	for e := range run.Envs {
		a := prepare(run, e)
		if a == nil {
			continue
		}
		if first[a.R()] == "" {
			first[a.R()] = a.Name
		}
		f.byEnv[e] = map[[2]int]infer.Interval{}
		for i := range a.Policies {
			for j := range i {
				if !a.Rounded[i] && !a.Rounded[j] {
					places = append(places, place{e, i, j})
					contrasts = append(contrasts, infer.Contrast{X: a.value(i), Y: a.value(j), Group: e, Most: a.most()})
				}
			}
		}
	}
	f.pairs = len(contrasts)
	draws := map[int]infer.Draw{}
	for n, name := range first {
		draws[n] = drawFrom(run.stream(name))
	}
	all := infer.Simultaneous(run.estimand(), contrasts, level, bySize(draws))
	for k, p := range places {
		i := all.Each[k]
		f.byEnv[p.env][[2]int{p.i, p.j}] = i
		if all.Factor[k] > 0 {
			f.factor[p.env] = all.Factor[k]
		}
	}
	return f
}

// pairsOf is what the family says about an environment. The places and the differences follow from it.
func pairsOf(a *Analysis, f *family) Pairs {
	out := Pairs{each: f.byEnv[a.Env]}
	out.Factor, out.OK = f.factor[a.Env]
	pairs := f.pairs
	if a.Sequential() { // its replications end where each environment is settled
		pairs = a.Compared() * (a.Compared() - 1) / 2
	}
	out.Level = (1 - level) / float64(max(pairs, 1))
	out.SignLevel = behindLevel / float64(max(pairs, 1))
	return out
}

// placesOf returns the places that each policy may have, from 1; nil without intervals.
func placesOf(a *Analysis) [][2]int {
	if a.R() < a.Estimand.Least() || a.Compared() < 2 {
		return nil
	}
	out := make([][2]int, len(a.Policies))
	var in []int
	for i := range a.Policies {
		if !a.Rounded[i] {
			in = append(in, i)
		}
	}
	for n, i := range in {
		from, to := infer.Places(n, len(in), func(x, y int) infer.Interval { return standing(a, in[x], in[y]) })
		out[i] = [2]int{from, to}
	}
	return out
}

// standing is between, by betting where what was seen decided the number of replications.
func standing(a *Analysis, i, j int) infer.Interval {
	x := a.between(i, j)
	if a.Sequential() && !x.Same {
		x.Lo, x.Hi, x.OK = a.betting(a.paired(i, j, len(a.Rounds)-1))
	}
	return x
}

// between is the interval of the estimand of policy i minus that of policy j; without an interval where one of them is
// rounding.
func (a *Analysis) between(i, j int) infer.Interval {
	if i >= j {
		if x, ok := a.Pairs.each[[2]int{i, j}]; ok {
			return x
		}
	} else if x, ok := a.Pairs.each[[2]int{j, i}]; ok {
		x.Value, x.Lo, x.Hi = -x.Value, -x.Hi, -x.Lo
		return x
	}
	x := infer.Simultaneous(a.Estimand, []infer.Contrast{{X: a.value(i), Y: a.value(j)}}, level, nil).Each[0]
	x.OK = false
	return x
}
