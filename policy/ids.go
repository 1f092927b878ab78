package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// IDSOptions configures information-directed sampling. The zero value is the default of a spec file.
type IDSOptions struct {
	// M is the number of posterior samples of a decision, from which gaps and information are computed; 0
	// means 64.
	M int `key:"m" doc:"number of posterior samples of a decision" default:"64"`
	// Lambda is the ridge parameter λ = σ²/prior variance; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ = σ²/prior variance" default:"1"`
	// Delta is the confidence level δ of beta and betatilde; 0 means 0.1.
	Delta float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	// Scale is the posterior scale r_t; the zero value means the constant σ.
	Scale Scale `key:"scale" doc:"posterior scale r_t" default:"constant σ"`
}

// Doc implements spec.Documented.
func (*IDSOptions) Doc() string {
	return "variance-based information-directed sampling, Gaussian linear (Russo & Van Roy 2018); the posterior " +
		"is replaced by m samples of it, and a set that cannot be listed by their best actions"
}

// New implements Options.
func (o *IDSOptions) New(p Problem) (bandit.Policy, error) { return NewIDS(*o, p) }

// IDS is variance-based information-directed sampling for the Gaussian linear bandit (Russo & Van Roy 2018,
// Operations Research 66(1), section 6.3, with the posterior replaced by m samples of it). With
// samples θ^k = θ̂_{t−1} + r_{t−1}L⁻ᵀz^k, V_{t−1} = LLᵀ, z^k ~ N(0, I), of which M_a have arm a as their best,
//
//	μ = mean of θ^k,  μ^a = mean of θ^k over those whose best arm is a,  p_a = M_a/m,
//	ρ* = Σ_a p_a⟨x_a, μ^a⟩,  Δ_a = ρ* − ⟨x_a, μ⟩,  v_a = Σ_b p_b⟨x_a, μ^b − μ⟩²,
//
// v_a being a lower bound of twice the information that arm a gives about the best arm, divided by the variance of a
// reward. The law π of the round minimises the ratio (Σπ_aΔ_a)²/Σπ_av_a. Some minimiser has at most two arms (their
// Proposition 6), on an edge of the upper hull of the points (Δ_a, v_a), where it has a closed form. Where no arm is
// informative, all samples have one best arm, and it is played.
//
// On a set that cannot be listed the arms are the best actions of the samples. Prob needs a list.
//
// The samples of a decision are functions of the number of its source and of the init stream, as the candidates of
// Atoms with key = "decision": given them the law is exact.
//
// Cost of a round: Select and Prob m·d²/2 + (m + number of best arms)·K·d + K log K, Update 6d².
type IDS struct {
	ts     Thompson
	m      int
	init   rng.Stream
	theta  []float64 // m×d: the samples
	mean   []float64 // d
	groups []float64 // K×d: sums of the samples whose best arm it is, where size is not 0
	size   []int     // K
	found  []int     // arms with size > 0, in the order of the samples
	gap    []float64 // Δ
	info   []float64 // v
	shown  shown     // the arms of a set that cannot be listed
	order  []int     // arms by Δ, then v
	hull   []int
	action bandit.Action
}

// idsArms bounds K·d, the numbers of scratch.
const idsArms = 1 << 26

// NewIDS returns the policy before round 1. The error names the option that is wrong.
func NewIDS(o IDSOptions, p Problem) (*IDS, error) {
	fill(&o.M, 64)
	ts, err := NewThompson(ThompsonOptions{Lambda: o.Lambda, Delta: o.Delta, Scale: o.Scale}, p)
	if err != nil {
		return nil, err
	}
	if err := checkMembers(o.M, p.Dim); err != nil {
		return nil, err
	}
	return &IDS{ts: *ts, m: o.M, init: p.Init, theta: make([]float64, o.M*p.Dim), mean: make([]float64, p.Dim)}, nil
}

// Ridge returns the state of the regression. It belongs to the policy.
func (s *IDS) Ridge() Regression { return s.ts.ridge }

// Scale returns r_t, the scale that the next Select uses.
func (s *IDS) Scale() float64 { return s.ts.Scale() }

// Samples returns the samples θ^k of a decision, m×d; decision is the number of its source. They belong to the
// policy and are valid until the next call of a method.
func (s *IDS) Samples(decision uint64) []float64 {
	d, r := s.ts.ridge.Dim(), s.ts.Scale()
	keyed := s.init.Sub(decision)
	for k := range s.m {
		keyed.Round(uint64(k)).Normals(s.theta[k*d:k*d+d], 0)
	}
	s.ts.factor.SolveLTRows(s.theta)
	hat := s.ts.ridge.Theta()
	for k := 0; k < len(s.theta); k += d {
		for i, v := range hat {
			s.theta[k+i] = v + float64(r*s.theta[k+i])
		}
	}
	return s.theta
}

// solve computes the law of a decision: arm a of f with probability p, arm b otherwise.
func (s *IDS) solve(set bandit.ActionSet, decision uint64) (f bandit.Finite, a, b int, p float64, err error) {
	d := s.ts.ridge.Dim()
	if err := checkSet(set, d); err != nil {
		return nil, 0, 0, 0, err
	}
	theta := s.Samples(decision)
	f, ok := set.(bandit.Finite)
	if !ok {
		s.shown.clear(d, s.m)
		for t := 0; t < len(theta); t += d {
			if _, err := s.shown.add(set, theta[t:t+d]); err != nil {
				return nil, 0, 0, 0, err
			}
		}
		f = &s.shown
	}
	k := f.Len()
	if k > idsArms/d {
		return nil, 0, 0, 0, fmt.Errorf("policy: ids: the set has %d arms, expected at most %d in dimension %d: %w", k,
			idsArms/d, d, bandit.ErrUnsupported)
	}
	if n := max(k, s.m); cap(s.size) < k { // where the arms are shown their number changes from round to round
		s.groups, s.size = make([]float64, n*d), make([]int, n)
		s.gap, s.info, s.order, s.hull = make([]float64, n), make([]float64, n), make([]int, n), make([]int, 0, n)
	}
	s.groups, s.size, s.gap, s.info, s.order = s.groups[:k*d], s.size[:k], s.gap[:k], s.info[:k], s.order[:k]
	clear(s.groups)
	clear(s.size)
	clear(s.mean)
	s.found = s.found[:0]
	for t := 0; t < len(theta); t += d {
		sample := theta[t : t+d]
		best, err := s.bestOf(f, set, sample)
		if err != nil {
			return nil, 0, 0, 0, err
		}
		if s.size[best]++; s.size[best] == 1 {
			s.found = append(s.found, best)
		}
		linalg.Axpy(1, sample, s.groups[best*d:best*d+d])
		linalg.Axpy(1/float64(s.m), sample, s.mean)
	}
	s.measure(f)
	a, b, p = s.minimise()
	return f, a, b, p, nil
}

// bestOf returns the place in f of a sample's best action.
func (s *IDS) bestOf(f bandit.Finite, set bandit.ActionSet, sample []float64) (int, error) {
	if f == bandit.Finite(&s.shown) {
		return s.shown.add(set, sample) // it is there
	}
	_, err := set.ArgMax(&s.action, sample)
	return s.action.Index, err
}

// measure computes Δ and v from the samples. Sums over the best arms go in the order of the samples, so that the
// order of the arms does not enter the law.
func (s *IDS) measure(f bandit.Finite) {
	d, star := len(s.mean), 0.0
	clear(s.info)
	for _, b := range s.found {
		n := s.size[b]
		sum := s.groups[b*d : b*d+d]
		star += linalg.Dot(f.At(b), sum) / float64(s.m)
		for i, v := range s.mean {
			sum[i] = sum[i]/float64(n) - v // μ^b − μ
		}
		for a := range s.info {
			c := linalg.Dot(f.At(a), sum)
			s.info[a] += float64(float64(n) / float64(s.m) * c * c)
		}
	}
	for a := range s.gap {
		s.gap[a] = star - linalg.Dot(f.At(a), s.mean)
	}
}

// minimise returns the two arms and the probability of the first that minimise the information ratio.
func (s *IDS) minimise() (a, b int, p float64) {
	least := 0
	for i := range s.gap {
		s.order[i] = i
		if s.gap[i] < s.gap[least] {
			least = i
		}
	}
	if len(s.found) == 1 || s.gap[least] <= 0 {
		return least, least, 1
	}
	slices.SortFunc(s.order, func(i, j int) int {
		switch {
		case s.gap[i] != s.gap[j]:
			if s.gap[i] < s.gap[j] {
				return -1
			}
			return 1
		case s.info[i] != s.info[j]:
			if s.info[i] > s.info[j] {
				return -1
			}
			return 1
		}
		return i - j
	})
	// The upper hull, from the smallest gap to the largest v: the ratio falls with v and rises with Δ.
	s.hull = s.hull[:0]
	for _, i := range s.order {
		if n := len(s.hull); n > 0 && s.info[i] <= s.info[s.hull[n-1]] {
			continue
		}
		for n := len(s.hull); n > 1; n-- {
			u, w := s.hull[n-2], s.hull[n-1]
			if float64((s.info[w]-s.info[u])*(s.gap[i]-s.gap[w])) > float64((s.info[i]-s.info[w])*(s.gap[w]-s.gap[u])) {
				break
			}
			s.hull = s.hull[:n-1]
		}
		s.hull = append(s.hull, i)
	}
	best := math.Inf(1)
	for n, i := range s.hull {
		if q := ratio(s.gap[i], s.info[i]); q < best {
			best, a, b, p = q, i, i, 1
		}
		if n == 0 {
			continue
		}
		// On the edge from h to i the ratio is g(q)²/w(q) with g = Δ_i + q(Δ_h − Δ_i), w likewise. Its
		// derivative is 0 where 2g'w = gw', which is linear in q.
		h := s.hull[n-1]
		dg, dv := s.gap[h]-s.gap[i], s.info[h]-s.info[i]
		q := s.gap[i]/dg - 2*s.info[i]/dv // 2 dg (v_i + q dv) = dv (Δ_i + q dg)
		if q > 0 && q < 1 {
			if r := ratio(s.gap[i]+float64(q*dg), s.info[i]+float64(q*dv)); r < best {
				best, a, b, p = r, h, i, q
			}
		}
	}
	return a, b, p
}

func ratio(gap, info float64) float64 { return gap * gap / info }

// Select implements bandit.Policy. It uses number 0 of the source; the samples of the decision come from
// the init stream.
func (s *IDS) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	f, a, b, p, err := s.solve(set, draw.At())
	if err != nil {
		return err
	}
	if draw.Float64(0) >= p {
		a = b
	}
	if f == bandit.Finite(&s.shown) {
		s.shown.set(dst, a)
		return nil
	}
	dst.Set(f.At(a), a)
	return nil
}

// Prob implements bandit.Prober on finite sets: the law given the samples of this decision.
func (s *IDS) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	if err := needsList("ids", set); err != nil {
		return err
	}
	f, a, b, p, err := s.solve(set, draw.At())
	if err != nil {
		return err
	}
	zeros(dst, f.Len())
	dst.Atoms[b].P = 1 - p
	dst.Atoms[a].P = p
	if a == b {
		dst.Atoms[a].P = 1
	}
	dst.Total = 0
	return nil
}

// Update implements bandit.Policy.
func (s *IDS) Update(a bandit.Action, y float64, draw rng.Source) error {
	return s.ts.Update(a, y, draw)
}

// AppendSnapshot implements bandit.Snapshotter.
func (s *IDS) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "ids", append(s.ts.ridge.State(), s.ts.factor.L())), nil
}

// Restore implements bandit.Snapshotter.
func (s *IDS) Restore(b []byte) error { return s.ts.restore(b, "ids") }

// Additive implements bandit.Additive.
func (s *IDS) Additive() error { return nil }
