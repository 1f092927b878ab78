package report

import (
	"cmp"
	"math"
	"slices"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/sim"
)

const (
	level     = 0.95 // of every interval
	resamples = 2000 // B of the simultaneous bands and quotients
	growthB   = 1000 // B of the growth exponents
	minReps   = infer.MinReps

	// A false △ has this probability in a run, beside 1 − level for a false ▲: both signs together are wrong in at most
	// 5.5 % of the runs.
	behindLevel = 0.01 // two-sided; the half of it below one half is never shown
	worst       = 0.05 // the share called "worst"
	contender   = 3    // a contender's mean is within this factor of the best
)

// Verdict is what the simultaneous intervals say about a policy against the one with the lowest
// mean. Rare large losses can leave a difference of means open that every look at the replications
// shows; Behind is that case: the exact interval for the share of replications in which the policy
// lost more lies above one half, for all pairs at once but for a probability of behindLevel/2.
type Verdict int

const (
	None     Verdict = iota // too few replications, or no interval exists
	Lowest                  // the lowest estimate: the reference
	Same                    // the same as the reference in every replication; so has the reference then
	Tied                    // the interval contains zero
	Behind                  // the interval contains zero, but it lost more in most replications
	Worse                   // the interval lies above zero
	Rounding                // the numbers are rounding: in no comparison
)

// Analysis is everything computed for one environment. Slices called by policy are indexed like
// Policies, in the order of the spec.
type Analysis struct {
	Run      *Run
	Env      int
	Name     string
	Policies []int  // indices into the manifest of the policies that are compared
	Missing  []int  // policies without a finished replication
	Rounded  []bool // by policy: its numbers are rounding (Manifest.Rounding) and in no verdict
	Reps     []int  // replications that all compared policies have finished, from 0
	Rounds   []int  // checkpoints
	T        int    // the last one

	X       [][][]float64 // regret by policy, checkpoint, replication
	Summary []Summary     // by policy
	Order   []int         // policies by the estimand, lowest first
	Dec     int           // decimals that suit these regrets

	Estimand infer.Estimand
	EstDec   int // decimals that suit its differences

	Pairs   Pairs    // by the estimand at T
	Band    Band     // of the gap over time
	Against Against  // the reference of the spec
	Fit     Fit      // of the exponents in Summary
	earned  []earned // by policy
}

// Pairs is what is known of all pairs of policies at T, at once.
type Pairs struct {
	Factor    float64 // intervals are mean ± Factor·s.e., for all pairs of the run
	OK        bool
	Diff      []Difference // by policy: against the best
	Saved     float64      // what pairing saved: the median of (s²_a + s²_b)/s²_D over pairs with the best
	Level     float64      // 1 − level of each Clopper–Pearson interval of "behind", and of each by betting
	SignLevel float64      // 1 − level of the one that △ is decided by
	Places    [][2]int     // by policy: the places that it may have, from 1; nil without intervals

	each map[[2]int]infer.Interval // of policy i minus policy j < i
}

// Band is the simultaneous band of the gap over time.
type Band struct {
	Rounds []int   // checkpoints (indices) at which the gap is drawn
	Factor float64 // over all pairs and all of Rounds
	OK     bool
}

// Against compares with the policy that the spec names.
type Against struct {
	Reference int           // −1 for none
	Ratios    []stats.Ratio // by policy: mean regret over the reference's; nil without one
	Factor    float64       // 0 when there are no intervals
}

// Fit is the window of the exponents, in rounds.
type Fit struct {
	From, To int

	draws *stats.Resamples // nil for one replication
}

// Summary is one policy's regret at T and its growth.
type Summary struct {
	Mean, SE           float64
	Sorted             []float64 // final regrets
	Median             float64
	MedianLo, MedianHi float64 // exact order-statistic interval
	Worst              float64 // mean of the worst 5 %
	RewardPerRound     float64
	Estimate           float64 // the estimand's value

	Exponent, ExpLo, ExpHi float64
	ExponentOK             bool
	// exponent over the decade before, where its interval and this one do not meet; 0 otherwise
	Before     float64
	NearLinear int // replications that are lost: regret stays linear (infer.Lost)

	lost []float64 // by replication: 1 for these, 0 for the others
}

// Difference is one policy against the one with the lowest estimate, paired by replication.
type Difference struct {
	Mean, SE           float64 // of the estimand
	Lo, Hi             float64 // simultaneous over all pairs; only if OK
	OK                 bool
	Moving             int // replications in which the two differ
	Behind             int // replications in which it lost more
	BehindLo, BehindHi float64
	// replications that would separate the two, if the difference is what it looks like; 0 if unknown
	Need             int
	Rare             stats.Rare // how rare a loss of the leader would reverse it; only for Worse
	ExactLo, ExactHi float64    // by betting, simultaneous over all pairs; only if Exact
	Exact            bool
	Verdict          Verdict
}

// clockCaption is the caption of the axis of time.
func clockCaption(a *Analysis) string {
	if a.Run.Manifest.Episodic {
		return "Episode k"
	}
	return "Round t"
}

// R returns the number of replications compared.
func (a *Analysis) R() int { return len(a.Reps) }

// Best returns the policy (an index like those of Order) with the lowest mean.
func (a *Analysis) Best() int { return a.Order[0] }

// Label returns the name of policy i of the analysis.
func (a *Analysis) Label(i int) string { return a.Run.Manifest.Policies[a.Policies[i]].Name }

// value returns what the estimand is about, by replication: the regrets at T of policy i, or which replications were
// lost.
func (a *Analysis) value(i int) []float64 {
	if a.Estimand == infer.ShareLost {
		return a.Summary[i].lost
	}
	return a.Final(i)
}

// same returns the compared policies that lost the same as policy i in every replication, with i, in the order of the
// spec.
func (a *Analysis) same(i int) (names []string) {
	for j := range a.Policies {
		if j == i || !a.Rounded[i] && !a.Rounded[j] && slices.Equal(a.value(i), a.value(j)) {
			names = append(names, a.Label(j))
		}
	}
	return names
}

// allSame reports whether two policies or more are compared and no two of them differ in any replication.
func (a *Analysis) allSame() bool { return a.Compared() > 1 && len(a.same(a.Best())) == a.Compared() }

// Contenders returns the policies whose mean is within three times the best, in the order of the
// spec: the linear axes belong to them.
func (a *Analysis) Contenders() []int {
	var in []int
	limit := contender * a.Summary[a.Best()].Mean
	for i := range a.Policies {
		if a.Summary[i].Mean <= limit || i == a.Best() {
			in = append(in, i)
		}
	}
	return in
}

// Analyze computes the analysis of environment env. The resampling stream is named by the run's seed and the
// environment, so equal files give equal numbers. Intervals and verdicts hold for all environments at once, so the
// first call reads all of them. It returns nil when no replication is complete. It is made once: a run that was
// analysed does not change. Safe for concurrent use; callers do not change what they get.
func Analyze(run *Run, env int) *Analysis {
	v, _ := run.analyses.LoadOrStore(env, new(analysed))
	x := v.(*analysed)
	x.once.Do(func() {
		if a := prepare(run, env); a != nil {
			judgePairs(a, run.family())
			x.a = a
		}
	})
	return x.a
}

// prepare reads an environment and sums it up, without comparing. It is made once.
func prepare(run *Run, env int) *Analysis {
	v, _ := run.prepared.LoadOrStore(env, new(analysed))
	x := v.(*analysed)
	x.once.Do(func() { x.a = summed(run, env) })
	return x.a
}

func summed(run *Run, env int) *Analysis {
	data := &run.Envs[env]
	a := &Analysis{Run: run, Env: env, Name: run.Manifest.Environments[env].Name, Rounds: data.Rounds,
		Estimand: run.estimand()}
	for p := range run.Manifest.Policies {
		if data.Finished(p) > 0 {
			a.Policies = append(a.Policies, p)
		} else {
			a.Missing = append(a.Missing, p)
		}
	}
	a.Rounded = rounding(a)
	a.Reps = data.Complete(a.Policies)
	if len(a.Reps) == 0 || len(a.Rounds) == 0 {
		return nil
	}
	a.T = a.Rounds[len(a.Rounds)-1]
	a.X = regrets(a, data)
	a.Summary = summaries(a, data)
	a.Order = byEstimate(a)
	a.Dec = decimals(a.Summary[a.Best()].SE, a.Summary[a.Best()].Mean)
	if a.EstDec = a.Dec; a.Estimand == infer.ShareLost {
		a.EstDec = 2
	}
	a.earned = earnings(a, data)
	return a
}

// judgePairs compares the policies by the intervals of the run. Each part is computed from those above it.
func judgePairs(a *Analysis, f *family) {
	a.Pairs = pairsOf(a, f)
	a.Pairs.Places = placesOf(a)
	a.Pairs.Diff, a.Pairs.Saved = differences(a)
	if a.R() < 2 {
		a.Against = against(a, nil)
		return
	}
	draw := drawFrom(a.Run.stream(a.Name))
	s := stats.NewResamples(a.R(), resamples, func(b, i, n int) int { return draw(a.R(), b, i, n) })
	a.Against = against(a, s)
	a.Band = bandOfGaps(a, s)
	a.Fit = fitExponents(a, s.First(growthB))
}

// rounding marks the policies whose numbers are rounding. When all are, none is: nothing else is there to
// compare with.
func rounding(a *Analysis) []bool {
	out := make([]bool, len(a.Policies))
	n := 0
	for i := range a.Policies {
		if slices.Contains(a.Run.Manifest.Rounding, sim.Pair{Environment: a.Name, Policy: a.Label(i)}) {
			out[i] = true
			n++
		}
	}
	if n == len(a.Policies) {
		clear(out)
	}
	return out
}

// Compared returns the number of policies that comparisons are about.
func (a *Analysis) Compared() (n int) {
	for _, out := range a.Rounded {
		n += 1 - b2i(out)
	}
	return n
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// regrets turns the cells round: regret by policy, checkpoint, replication.
func regrets(a *Analysis, data *EnvData) [][][]float64 {
	out := make([][][]float64, len(a.Policies))
	for i, p := range a.Policies {
		out[i] = make([][]float64, len(a.Rounds))
		flat := make([]float64, len(a.Rounds)*a.R())
		for k := range a.Rounds {
			out[i][k] = flat[k*a.R() : (k+1)*a.R()]
			for j, r := range a.Reps {
				out[i][k][j] = data.Cells[p][r].Regret[k]
			}
		}
	}
	return out
}

// Final returns the regrets at T of policy i, by replication.
func (a *Analysis) Final(i int) []float64 { return a.X[i][len(a.Rounds)-1] }

// summaries sums up each policy by itself. The exponents come later (fitExponents).
func summaries(a *Analysis, data *EnvData) []Summary {
	out := make([]Summary, len(a.Policies))
	half := infer.Halfway(a.Rounds)
	for i, p := range a.Policies {
		s := &out[i]
		x := a.Final(i)
		s.Mean = stats.Mean(x)
		if a.R() >= 2 {
			s.SE = stats.StdErr(x)
		}
		s.Sorted = slices.Sorted(slices.Values(x))
		s.Median = stats.Quantile(s.Sorted, 0.5)
		s.MedianLo, s.MedianHi = stats.QuantileInterval(s.Sorted, 0.5, 1-level)
		s.Worst = stats.WorstMean(s.Sorted, worst)
		for _, r := range a.Reps {
			s.RewardPerRound += data.Cells[p][r].Reward[len(a.Rounds)-1] / float64(a.T) / float64(a.R())
		}
		s.lost = make([]float64, len(x))
		for r, v := range x {
			if half >= 0 && infer.Lost(a.X[i][half][r], v, float64(a.T)/float64(a.Rounds[half])) {
				s.NearLinear++
				s.lost[r] = 1
			}
		}
		switch s.Estimate = s.Mean; a.Estimand {
		case infer.Mean:
		case infer.ShareLost:
			s.Estimate = a.Estimand.Of(s.lost)
		default:
			s.Estimate = a.Estimand.Of(x)
		}
	}
	return out
}

// byEstimate orders the policies by the estimand, lowest first.
func byEstimate(a *Analysis) []int {
	out := make([]int, len(a.Policies))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(i, j int) int {
		if a.Rounded[i] != a.Rounded[j] { // the first row is one that counts
			return b2i(a.Rounded[i]) - b2i(a.Rounded[j])
		}
		return cmp.Or(cmp.Compare(a.Summary[i].Estimate, a.Summary[j].Estimate),
			cmp.Compare(a.Summary[i].Mean, a.Summary[j].Mean))
	})
	return out
}

// decimals returns how many decimals show two digits of a standard error, at least one and at most
// six; without a standard error, those that show three digits of the mean.
func decimals(se, mean float64) int {
	d := 1
	switch {
	case se > 0:
		d = 1 - int(math.Floor(math.Log10(se)))
	case mean > 0:
		d = 2 - int(math.Floor(math.Log10(mean)))
	}
	return min(max(d, 1), 6)
}

// paired returns D_r = x_i − x_j at checkpoint k.
func (a *Analysis) paired(i, j, k int) []float64 {
	d := make([]float64, a.R())
	for r := range d {
		d[r] = a.X[i][k][r] - a.X[j][k][r]
	}
	return d
}

// pairs returns the contrasts of all pairs of policies at checkpoint k.
func (a *Analysis) pairs(k int) [][]float64 {
	var d [][]float64
	for i := range a.Policies {
		for j := range i {
			if !a.Rounded[i] && !a.Rounded[j] {
				d = append(d, a.paired(i, j, k))
			}
		}
	}
	return d
}

// differences reads the differences to the best at T from the intervals of the run, and what pairing saved in the median.
func differences(a *Analysis) (all []Difference, saving float64) {
	last, best := len(a.Rounds)-1, a.Best()
	all = make([]Difference, len(a.Policies))
	loss := largestLoss(a)
	var saved []float64
	for i := range a.Policies {
		d := &all[i]
		if i == best {
			d.Verdict = max(d.Verdict, Lowest)
			continue
		}
		x := a.paired(i, best, last)
		between := a.between(i, best)
		d.Mean = between.Value
		for _, v := range x {
			if v > 0 {
				d.Behind++
			}
			if v != 0 {
				d.Moving++
			}
		}
		d.BehindLo, d.BehindHi = stats.ClopperPearson(d.Behind, a.R(), a.Pairs.Level)
		if between.Same && !a.Rounded[i] { // nothing to tell apart, and nothing says that no other run would
			d.Verdict, all[best].Verdict = Same, Same
			continue
		}
		if a.R() < 2 {
			continue
		}
		d.SE = between.SE
		if a.Estimand == infer.Mean {
			if d.SE > 0 {
				saved = append(saved, (stats.Variance(a.Final(i))+stats.Variance(a.Final(best)))/stats.Variance(x))
			}
			d.ExactLo, d.ExactHi, d.Exact = a.betting(x)
		}
		if a.R() < a.Estimand.Least() {
			continue
		}
		d.decide(a, between)
		switch {
		case a.Estimand != infer.Mean:
		case a.Sequential() && d.Exact:
			d.Lo, d.Hi, d.OK, d.Need, d.Verdict = d.ExactLo, d.ExactHi, true, 0, Tied
			if d.Lo > 0 {
				d.Verdict = Worse
			}
		default:
			d.setRare(x, loss)
		}
		if a.Rounded[i] {
			d.Lo, d.Hi, d.OK, d.Need, d.Verdict = 0, 0, false, 0, Rounding
		}
		if d.Verdict == Tied && a.Estimand == infer.Mean {
			if most, _ := stats.ClopperPearson(d.Behind, a.R(), a.Pairs.SignLevel); most > 0.5 {
				d.Verdict = Behind
			}
		}
	}
	if len(saved) > 0 {
		slices.Sort(saved)
		saving = stats.Quantile(saved, 0.5)
	}
	return all, saving
}

// decide turns an interval into a verdict, and says how many replications would separate the two.
func (d *Difference) decide(a *Analysis, between infer.Interval) {
	d.Lo, d.Hi, d.OK, d.Verdict = between.Lo, between.Hi, between.OK, Tied
	switch {
	case !d.OK: // no interval: nothing separates them
	case between.SE == 0 && d.Lo == d.Hi: // every replication differs by the same amount
		d.Verdict = Worse
	case d.Lo > 0:
		d.Verdict = Worse
	case d.Mean > 0:
		c := (d.Hi - d.Mean) / d.Mean
		if a.Pairs.Factor > 0 && !between.Exact {
			c = a.Pairs.Factor * d.SE / d.Mean
		}
		if n := math.Ceil(c * c * float64(a.R())); n < 1e6 {
			d.Need = int(n)
		}
	}
}

// maxBands bounds the checkpoints at which the simultaneous band over time is computed.
const maxBands = 20

// bandOfGaps computes the factor that holds for all pairs at all drawn checkpoints at once. The last
// checkpoint is among them and the resamples are the same, so the factor is never below that of Pairs:
// the bands at T contain the table's intervals.
func bandOfGaps(a *Analysis, s *stats.Resamples) (out Band) {
	from := 1
	if a.T >= 1000 {
		from = 100
	} else if a.T >= 100 {
		from = 10
	}
	var ks []int
	for k, t := range a.Rounds {
		if t >= from {
			ks = append(ks, k)
		}
	}
	for len(ks) > maxBands { // every second one, the last kept
		var thin []int
		for i := (len(ks) + 1) % 2; i < len(ks); i += 2 {
			thin = append(thin, ks[i])
		}
		ks = thin
	}
	out.Rounds = ks
	if full := a.beforeChoice(); full != nil {
		out.Factor, out.OK = full.Band.Factor, full.Band.OK
		return out
	}
	if a.R() < minReps || a.Compared() < 2 {
		return out
	}
	var all [][]float64
	for _, k := range ks {
		all = append(all, a.pairs(k)...)
	}
	if out.Factor, out.OK = s.MaxT(all, level); a.Pairs.OK && a.Estimand == infer.Mean {
		out.Factor = math.Max(out.Factor, a.Pairs.Factor) // which holds for other environments, too
	}
	return out
}

// fitExponents fits exponents over the last decade of checkpoints, and writes them into the summaries.
func fitExponents(a *Analysis, s *stats.Resamples) Fit {
	window := func(from, to float64) (t []float64, ks []int) {
		for k, r := range a.Rounds {
			if v := float64(r); v >= from && v <= to {
				t, ks = append(t, v), append(ks, k)
			}
		}
		return t, ks
	}
	fit := func(i int, t []float64, ks []int) (b, lo, hi float64, ok bool) {
		curve := make([][]float64, len(ks))
		for n, k := range ks {
			curve[n] = a.X[i][k]
		}
		return s.Exponent(t, curve, level)
	}
	end := float64(a.T)
	t, ks := window(end/10, end)
	if len(t) < 3 {
		return Fit{draws: s}
	}
	t2, ks2 := window(end/100, end/10)
	for i := range a.Policies {
		p := &a.Summary[i]
		p.Exponent, p.ExpLo, p.ExpHi, p.ExponentOK = fit(i, t, ks)
		if !p.ExponentOK || len(t2) < 3 {
			continue
		}
		if b, lo, hi, ok := fit(i, t2, ks2); ok && (lo > p.ExpHi || hi < p.ExpLo) && math.Abs(b-p.Exponent) >= 0.1 {
			p.Before = b
		}
	}
	return Fit{From: int(t[0]), To: a.T, draws: s}
}

// Short names for what figures use all the time.
func mean(x []float64) float64                     { return stats.Mean(x) }
func stderr(x []float64) float64                   { return stats.StdErr(x) }
func quantile(sorted []float64, p float64) float64 { return stats.Quantile(sorted, p) }
func estimable(x []float64) bool                   { return stats.Estimable(x) }

func orderInterval(sorted []float64, p float64) (lo, hi float64) {
	return stats.QuantileInterval(sorted, p, 1-level)
}

func clopperPearson(k, n int) (lo, hi float64) { return stats.ClopperPearson(k, n, 1-level) }
