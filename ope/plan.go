package ope

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"troupe/logged"
)

// Planner says before there are rewards how many decisions an evaluation needs, from the laws alone.
//
// It keeps laws of the logger and of the target (a part of the log, evenly spread). Rewards are taken to be 0 or 1 with
// a mean that depends on the action only through whether the target plays it more often than the logger, such that the
// logger earns the base rate and the target the difference more. For each λ and k of the sequence the logarithm of its
// factor at a difference of 0 then has a mean g and a variance v, and after n decisions the wealth is about
// mean over (λ, k) of exp(n g + √(n v) Z) with one normal Z. The difference is settled with probability p where that
// is 2/(1 − level) at the quantile 1 − p of Z. The reward model is the base rate, from the 257th decision on.
type Planner struct {
	o       PlanOptions
	laws    []planLaw
	every   int // of so many events one is kept
	n       int
	size    int // numbers kept
	first   time.Time
	last    time.Time
	differs bool
	units   int // decisions of a unit that had one before
	seen    unitSet
}

// PlanOptions are what is not in the laws.
type PlanOptions struct {
	Rate    float64 // of the rewards of what runs, as a share of their range; 0: 0.5, where rewards vary most
	Level   float64 // 0: 0.95
	Chance  float64 // 0: 0.8
	Rewards Pair    // their range; 0, 0: [0, 1]
	// Every is the time between decisions, 0: by the times of the log.
	Every time.Duration
	// Plain plans for the sequence of a log without laws, (w − 1) r ≥ −1.
	Plain bool
}

type planLaw struct {
	pb, pe []float64
	weight float64
}

// Planned is the answer for one difference. Decisions is 0 where more than 10¹² would be needed.
type Planned struct {
	Difference float64       `json:"difference"` // in units of the rewards
	From       float64       `json:"from"`       // reward of what runs
	To         float64       `json:"to"`         // reward of the target
	Decisions  float64       `json:"decisions"`
	Time       time.Duration `json:"time_ns"` // at today's rate; 0: not known
	// AtEnd is how many it takes where they are fixed beforehand and looked at once (Options.AtEnd), 0 beyond 10¹².
	AtEnd float64 `json:"decisions_at_end"`
	// Share is the share of uniform decisions that, mixed into the logger, would halve that; nil: none does. Least is
	// the smallest probability of an action then, Floor what it is now.
	Share *float64 `json:"halved_by_uniform_share"`
	Floor float64  `json:"least_probability"`
	Least *float64 `json:"least_probability_then"`
}

const (
	planNumbers = 20_000 // laws that are kept, as numbers
	mostPlanned = 1e12
)

// NewPlanner checks the options.
func NewPlanner(o PlanOptions) (*Planner, error) {
	for _, x := range []struct {
		v     *float64
		usual float64
		name  string
	}{{&o.Rate, 0.5, "rate"}, {&o.Level, 0.95, "level"}, {&o.Chance, 0.8, "chance"}} {
		if *x.v == 0 {
			*x.v = x.usual
		}
		if !(*x.v > 0 && *x.v < 1) {
			return nil, fmt.Errorf("%s is %v, expected a number between 0 and 1", x.name, *x.v)
		}
	}
	if o.Rewards == (Pair{}) {
		o.Rewards = Pair{0, 1}
	}
	if !(o.Rewards[0] < o.Rewards[1]) || !o.Rewards.known() || !finite(o.Rewards[1]-o.Rewards[0]) {
		return nil, fmt.Errorf("rewards are in [%v, %v], expected both ends of a range", o.Rewards[0], o.Rewards[1])
	}
	return &Planner{o: o, every: 1}, nil
}

// Add takes the laws of the logger and of the target for one decision. It copies them.
func (p *Planner) Add(pb, pe []float64) { p.AddWeighted(pb, pe, 1) }

// AddWeighted is Add for a decision that stands for so many, such as 1/p for one that is known with probability p.
func (p *Planner) AddWeighted(pb, pe []float64, weight float64) {
	p.n++
	for a := range pb {
		p.differs = p.differs || math.Abs(pb[a]-pe[a]) > 1e-9
	}
	if (p.n-1)%p.every != 0 {
		return
	}
	p.laws = append(p.laws, planLaw{append([]float64(nil), pb...), append([]float64(nil), pe...), weight})
	if p.size += len(pb); p.size <= planNumbers || len(p.laws) < 2 {
		return
	}
	kept := p.laws[:0]
	p.size, p.every = 0, 2*p.every
	for i, l := range p.laws {
		if i%2 == 0 {
			kept = append(kept, l)
			p.size += len(l.pb)
		}
	}
	p.laws = kept
}

// Read takes the laws of a log and of a target. The rewards are not looked at.
func (p *Planner) Read(src Source, t Target) error {
	var ev logged.Event
	var pe []float64
	for n := 1; ; n++ {
		err := src.Read(&ev)
		switch {
		case err == io.EOF && p.n == 0:
			return errors.New("an empty log")
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(ev.Slots) > 0:
			return &EventError{n, "", errors.New("a list of slots; a plan is for single decisions")}
		case ev.Law == nil:
			return &EventError{n, "", errors.New("the log does not have the logger's whole law, which a plan needs " +
				"(--logger uniform supplies it where the logger was uniform)")}
		}
		if p.seen.before(ev.Unit) || ev.Again { // no sequence takes it
			p.units++
			continue
		}
		pe = sized(pe, ev.K)
		if err := t.Law(pe, &ev, make([]float64, ev.K)); err != nil {
			return &EventError{n, t.Name(), err}
		}
		if l, ok := t.(Learner); ok {
			if err := l.Learn(&ev); err != nil {
				return &EventError{n, t.Name(), err}
			}
		}
		p.Add(ev.Law, pe)
		if !ev.Time.IsZero() {
			if p.first.IsZero() || ev.Time.Before(p.first) {
				p.first = ev.Time
			}
			if ev.Time.After(p.last) {
				p.last = ev.Time
			}
		}
	}
}

// Again is how many decisions Read left out because their unit had one before.
func (p *Planner) Again() int { return p.units }

// Events is how many decisions were added, the first of each unit.
func (p *Planner) Events() int { return p.n }

// PerDay is the rate of decisions of the log, 0 where it is not known.
func (p *Planner) PerDay() float64 {
	switch d := p.last.Sub(p.first); {
	case p.o.Every > 0:
		return float64(24*time.Hour) / float64(p.o.Every)
	case p.n > 1 && d > 0:
		return float64(p.n-1) * float64(24*time.Hour) / float64(d)
	}
	return 0
}

// Most is the largest difference that the laws allow with this base rate, in units of the rewards.
func (p *Planner) Most() float64 {
	if len(p.laws) == 0 {
		return 0
	}
	return (p.o.Rewards[1] - p.o.Rewards[0]) * p.most(p.laws)
}

// Plan says how many decisions settle a difference, which is in units of the rewards and above 0: the target is better.
// Cost: about 10⁷ logarithms.
func (p *Planner) Plan(difference float64) (*Planned, error) {
	scale := p.o.Rewards[1] - p.o.Rewards[0]
	x := difference / scale
	if len(p.laws) == 0 {
		return nil, errors.New("no laws")
	}
	switch most := p.most(p.laws); {
	case !(x > 0 && finite(x)):
		return nil, fmt.Errorf("difference is %v, expected a positive number in units of the rewards", difference)
	case !p.differs:
		return nil, errors.New("the target plays what the logger plays: there is no difference to settle")
	case x > most:
		return nil, fmt.Errorf("difference is %v, and with a base rate of %v these laws allow at most %s", difference,
			p.o.Rate, short(scale*most))
	}
	out := &Planned{Difference: difference, From: p.o.Rewards[0] + scale*p.o.Rate,
		To: p.o.Rewards[0] + scale*(p.o.Rate+x), Floor: least(p.laws)}
	out.AtEnd = p.settles(p.laws, x, true)
	if out.Decisions = p.settles(p.laws, x, false); out.Decisions == 0 {
		return out, nil
	}
	if day := p.PerDay(); day > 0 {
		if d := out.Decisions / day * float64(24*time.Hour); d < math.MaxInt64 {
			out.Time = time.Duration(d)
		}
	}
	half := func(share float64) bool {
		laws := mixed(p.laws, share)
		n := p.settles(laws, x, false)
		return n > 0 && n <= out.Decisions/2 && x <= p.most(laws)
	}
	lo, hi := 0.0, 1.0
	for s := 1.0 / 64; s <= 1; s *= 2 { // more exploration may also take away what the laws differ by
		if half(s) {
			hi, lo = s, s/2
			break
		}
		lo = s
	}
	if lo == 1 {
		return out, nil
	}
	for range 6 {
		if m := (lo + hi) / 2; half(m) {
			hi = m
		} else {
			lo = m
		}
	}
	out.Share, out.Least = &hi, ptr(least(mixed(p.laws, hi)))
	return out, nil
}

// least is the smallest probability of an action that is not 0.
func least(laws []planLaw) float64 {
	m := 1.0
	for _, l := range laws {
		for _, v := range l.pb {
			if v > 0 {
				m = min(m, v)
			}
		}
	}
	return m
}

// mixed are the laws with a share of uniform decisions.
func mixed(laws []planLaw, share float64) []planLaw {
	out := make([]planLaw, len(laws))
	for i, l := range laws {
		pb := make([]float64, len(l.pb))
		for a, v := range l.pb {
			pb[a] = (1-share)*v + share/float64(len(pb))
		}
		out[i] = planLaw{pb, l.pe, l.weight}
	}
	return out
}

// means are the mean rewards of the actions under a law: β above the others where the target plays more, the mean of
// the logger being the base rate. above is the probability of these actions for the logger.
func (l planLaw) means(rate, beta float64, dst []float64) (above float64) {
	for a, v := range l.pb {
		if l.pe[a] > v {
			above += v
		}
	}
	for a, v := range l.pb {
		dst[a] = rate - beta*above
		if l.pe[a] > v {
			dst[a] += beta
		}
	}
	return above
}

// apart is Σ_a (π_e − π_b)⁺ on average: the difference that β = 1 makes.
func apart(laws []planLaw) float64 {
	s, n := 0.0, 0.0
	for _, l := range laws {
		n += l.weight
		for a, v := range l.pb {
			s += l.weight * max(l.pe[a]-v, 0)
		}
	}
	return s / n
}

// most is the largest difference with all means in [0, 1].
func (p *Planner) most(laws []planLaw) float64 {
	beta := math.Inf(1)
	for _, l := range laws {
		above := 0.0
		for a, v := range l.pb {
			if l.pe[a] > v {
				above += v
			}
		}
		if above > 0 {
			beta = min(beta, p.o.Rate/above)
		}
		beta = min(beta, (1-p.o.Rate)/(1-above))
	}
	return beta * apart(laws)
}

// settles is the number of decisions, 0 above 10¹². At the end the bets are the best λ and k for n, and no mixture: the best of
// those before the first fit of the reward model, and of those behind it.
func (p *Planner) settles(laws []planLaw, x float64, atEnd bool) float64 {
	early, late := p.growth(laws, x, 0), p.growth(laws, x, p.o.Rate)
	want := math.Log(2 / (1 - p.o.Level))
	z := normalQuantile(p.o.Chance)
	enough := func(n float64) bool {
		first := min(n, firstFit)
		most, s := math.Inf(-1), 0.0
		if atEnd {
			return settlesAtEnd(early, late, first, n-first, z) >= want
		}
		t := make([]float64, len(early))
		for i := range t {
			t[i] = first*early[i].mean + (n-first)*late[i].mean -
				z*math.Sqrt(first*early[i].variance+(n-first)*late[i].variance)
			most = max(most, t[i])
		}
		for _, v := range t {
			s += math.Exp(v - most)
		}
		return most+math.Log(s/float64(len(t))) >= want
	}
	n := 1.0
	for !enough(n) {
		if n *= 1.1; n > mostPlanned {
			return 0
		}
	}
	lo, hi := n/1.1, n
	for range 12 {
		if m := (lo + hi) / 2; enough(m) {
			hi = m
		} else {
			lo = m
		}
	}
	return math.Ceil(hi)
}

// settlesAtEnd is the largest quantile of the logarithm of the capital.
func settlesAtEnd(early, late []factor, first, then, z float64) float64 {
	most := math.Inf(-1)
	for i := range early {
		for j := range late {
			if then == 0 && j > 0 {
				break
			}
			if i%steps != j%steps && then > 0 {
				continue // the same λ, about
			}
			most = max(most, first*early[i].mean+then*late[j].mean-z*math.Sqrt(first*early[i].variance+then*late[j].variance))
		}
	}
	return most
}

// factor is the mean and the variance of the logarithm of a factor of the wealth at a difference of 0.
type factor struct{ mean, variance float64 }

// growth is log((1 + λ(φ(k) − b + c))/(1 + λc)) for each k and λ, c = k + 2, with q everywhere the same: b = r then.
// With Plain it is that of k = 0 and c = 1.
func (p *Planner) growth(laws []planLaw, x, q float64) []factor {
	ks, more := clips[:], 2.0
	if p.o.Plain {
		ks, more, q = clips[:1], 1, 0
	}
	beta, n := x/apart(laws), 0.0
	out := make([]factor, len(ks)*steps)
	var mu []float64
	for _, l := range laws {
		mu = sized(mu, len(l.pb))
		l.means(p.o.Rate, beta, mu)
		n += l.weight
		var sum [len(clips)]float64
		for a, v := range l.pb {
			for k, c := range ks {
				sum[k] += min(l.pe[a]*q, c*v)
			}
		}
		for a, v := range l.pb {
			if v == 0 {
				continue
			}
			w := l.pe[a] / v
			for r, share := range [2]float64{l.weight * v * (1 - mu[a]), l.weight * v * mu[a]} {
				if share <= 0 {
					continue
				}
				for k, c := range ks {
					less := (w-1)*float64(r) - min(w*q, c) + sum[k] // φ(k) − b
					for j, lambda := range lambdas {
						g := math.Log1p(lambda * less / (1 + lambda*(c+more)))
						out[k*steps+j].mean += share * g
						out[k*steps+j].variance += share * g * g
					}
				}
			}
		}
	}
	for i := range out {
		x := &out[i]
		x.mean /= n
		x.variance = max(x.variance/n-x.mean*x.mean, 0)
	}
	return out
}
