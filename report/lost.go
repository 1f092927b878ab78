package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/theory"
)

// lostSweep is what the law of lost runs speaks about: accumulated ensembles of several sizes on orthogonal unit arms.
type lostSweep struct {
	arms           int
	best, other    float64 // means of the best arm and of the others
	gap, lambda, r float64
	at             []lostAt // by m
}

// lostAt is one ensemble: how many of its runs were lost.
type lostAt struct {
	m    float64
	pol  int // index in the manifest
	lost int
}

// lostSweep returns the ensembles of an environment that theory.Few.LostAmong speaks about, nil where there are not two: a
// linear environment with unit noise whose arms are the basis, one of them better than the others by the same gap;
// Gaussian targets, members drawn from the prior, one constant scale and one λ.
func (pa painter) lostSweep() *lostSweep {
	env := pa.a.Run.Manifest.Environments[pa.a.Env]
	text := func(o map[string]any, path, want string) bool {
		v, ok := option(o, path)
		return ok && v == want
	}
	sigma, _ := option(env.Options, "noise.sigma")
	if env.Kind != "linear" || !text(env.Options, "theta", "given") || !text(env.Options, "set.kind", "basis") ||
		!text(env.Options, "noise.kind", "gaussian") || number(sigma) != 1 {
		return nil
	}
	values, _ := option(env.Options, "value")
	list, _ := values.([]any)
	if len(list) < 2 {
		return nil
	}
	means := make([]float64, len(list))
	for i, v := range list {
		means[i] = number(v)
	}
	slices.Sort(means)
	n := len(means) - 1
	s := &lostSweep{arms: n + 1, best: means[n], other: means[0], gap: means[n] - means[0]}
	if !(s.gap > 0) || means[n-1] != means[0] {
		return nil
	}
	half := s.gap * float64(pa.a.T) / 2
	for i, p := range pa.a.Policies {
		o := pa.a.Run.Manifest.Policies[p].Options
		m, _ := option(o, "m")
		lambda, _ := option(o, "lambda")
		r, _ := option(o, "scale.value")
		if pa.a.Run.Manifest.Policies[p].Kind != "ensemble" || !text(o, "targets", "gaussian") || !text(o, "init", "prior") ||
			!text(o, "scale.kind", "constant") || pa.a.Rounded[i] {
			continue
		}
		if len(s.at) == 0 {
			s.lambda, s.r = number(lambda), number(r)
		}
		if !(number(m) >= 1) || number(lambda) != s.lambda || number(r) != s.r {
			return nil
		}
		final := pa.a.Summary[i].Sorted
		first, _ := slices.BinarySearch(final, half)
		s.at = append(s.at, lostAt{number(m), p, len(final) - first})
	}
	slices.SortStableFunc(s.at, func(x, y lostAt) int { return cmp.Compare(x.m, y.m) })
	if len(s.at) < 2 || s.at[0].m == s.at[len(s.at)-1].m || !(s.lambda > 0 && s.r > 0) ||
		float64(pa.a.T) < theory.Learned(s.arms, s.r, s.gap) {
		return nil
	}
	return s
}

// number returns a number of a manifest, NaN for anything else.
func number(v any) float64 {
	switch x := v.(type) {
	case float64:
		return x
	case int:
		return float64(x)
	case int64:
		return float64(x)
	}
	return math.NaN()
}

// lostFigure returns the share of lost runs against m with its intervals, and the law of it; nil where the law does not
// speak.
func (pa painter) lostFigure(id string) *chart.Figure {
	s := pa.lostSweep()
	if s == nil || pa.a.R() < minReps {
		return nil
	}
	first, last := s.at[0].m, s.at[len(s.at)-1].m
	const steps = 24
	law := chart.Mark{Kind: chart.Guide, Look: -1, Name: "law"}
	for k := range steps + 1 {
		m := math.Round(first * math.Pow(last/first, float64(k)/steps))
		if n := len(law.X); n > 0 && law.X[n-1] == m {
			continue
		}
		f := theory.Few{Best: s.best, Other: s.other, Lambda: s.lambda, R: s.r, Draws: m}
		share, err := f.LostAmong(s.arms, float64(pa.a.T))
		if err != nil {
			return nil
		}
		law.X, law.Y = append(law.X, m), append(law.Y, share)
	}
	lo, hi := chart.LogRange(min(slices.Min(law.Y)/2, 0.5/float64(pa.a.R())), 1)
	end, y := len(law.Y)-1, law.Y
	p := &chart.Panel{Look: -1,
		X: chart.Axis{Caption: "Members m (log)", Log: true, Lo: first / 1.3, Hi: last * 1.3,
			Ticks: chart.LogTicks(first/1.3, last*1.3)},
		Y:     chart.Axis{Caption: "Share of lost runs (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)},
		Marks: []chart.Mark{law}, Ends: []chart.End{{Look: -1, Y: max(y[end], lo), Label: "law"}}}
	none := 0
	for _, x := range s.at {
		l, h := stats.ClopperPearson(x.lost, pa.a.R(), 1-level)
		share := float64(x.lost) / float64(pa.a.R())
		if x.lost == 0 {
			none++
		}
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Interval, Look: x.pol, Name: pa.a.Run.Manifest.Policies[x.pol].Name,
			X: []float64{x.m}, Y: []float64{max(share, lo)}, Lo: []float64{max(l, lo)}, Hi: []float64{h}})
	}
	how := fmt.Sprintf("Share of replications that lost as much as the worse arm in half of the rounds, a regret of %s or "+
		"more, with 95%% intervals (Clopper–Pearson, one at a time). Dotted: the law of that share, to which nothing was "+
		"fitted here (price-of-few, section 8).", chart.Amount(s.gap*float64(pa.a.T)/2, 0))
	if none > 0 {
		how += " A point on the lower edge is a share of 0."
	}
	return &chart.Figure{ID: id, Title: "Lost runs against m", Low: true, How: how, Panels: []*chart.Panel{p}}
}
