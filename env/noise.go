package env

import (
	"fmt"
	"math"

	"troupe/rng"
	"troupe/spec"
)

// Law is a noise family: the law of a reward given its mean.
type Law interface {
	spec.Documented
	// Check refuses parameters without meaning, as a *spec.Error.
	Check() error
	// Pay returns a reward with the given mean from the numbers 0 and 1 of the round's source. A
	// mean outside Means is a misuse.
	Pay(mean float64, draw rng.Source) float64
	// Sigma returns the subgaussian constant of the reward minus its mean, as in Noisy.
	Sigma() (sigma float64, ok bool)
	// Means returns the interval of means that the law can pay.
	Means() (lo, hi float64)
	// Notes says what is outside the assumption.
	Notes() []string
}

// Laws is the registry of noise families; adding one is one line.
var Laws = spec.Registry[Law]{
	"gaussian":   func() Law { return &Gaussian{Std: 1} },
	"uniform":    func() Law { return &Uniform{} },
	"rademacher": func() Law { return &Rademacher{Std: 1} },
	"bernoulli":  func() Law { return &Bernoulli{Values: "plus-minus"} },
	"student-t":  func() Law { return &StudentT{DF: 5, Scale: 1} },
	"none":       func() Law { return &None{} },
}

// Noise is one table such as { kind = "gaussian", sigma = 1.0 }: the option `noise`.
type Noise struct {
	Kind string
	Law

	kinds *spec.Kinds // where its kind is looked up; nil for Laws
}

// BindKinds implements spec.Binder.
func (n *Noise) BindKinds(kinds *spec.Kinds) { n.kinds = kinds }

// DecodeSpec reads the table v at path.
func (n *Noise) DecodeSpec(v any, path string) error {
	law, err := spec.DecodeTable(spec.In(n.kinds, Laws), v, path)
	if err != nil {
		return err
	}
	if err := law.Check(); err != nil {
		return spec.Under(path, err)
	}
	n.Kind, n.Law = v.(spec.Raw)["kind"].(string), law
	return nil
}

// ExpandSpec multiplies out the sweeps in the table v.
func (n *Noise) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(spec.In(n.kinds, Laws), v) }

// String returns the kind.
func (n Noise) String() string { return n.Kind }

// check refuses a noise that was put together wrongly.
func (n Noise) check() error {
	if n.Law == nil {
		return wrong("noise", "is missing")
	}
	if err := n.Check(); err != nil {
		return spec.Under("noise", err)
	}
	return nil
}

// deviation refuses a standard deviation that is not positive.
func deviation(v float64) error {
	if v == 0 {
		return wrong("sigma", "is 0, expected a positive number; kind = \"none\" is no noise")
	}
	return positive("sigma", v)
}

func positive(key string, v float64) error {
	if !(v > 0) || math.IsInf(v, 0) {
		return wrong(key, "is %v, expected a positive number", v)
	}
	return nil
}

// unlimited is the Means and Notes of noise that is added to the mean.
type unlimited struct{}

// Means returns the whole line.
func (unlimited) Means() (lo, hi float64) { return math.Inf(-1), math.Inf(1) }

// Notes has nothing to say.
func (unlimited) Notes() []string { return nil }

// Gaussian is N(0, σ²).
type Gaussian struct {
	unlimited
	Std float64 `key:"sigma" doc:"standard deviation σ, which is also the subgaussian constant"`
}

// Doc says what the kind is.
func (*Gaussian) Doc() string { return "normal noise N(0, σ²)" }

// Check implements Law.
func (g *Gaussian) Check() error { return deviation(g.Std) }

// Pay implements Law.
func (g *Gaussian) Pay(mean float64, draw rng.Source) float64 {
	return mean + float64(g.Std*draw.Normal(0))
}

// Sigma returns σ.
func (g *Gaussian) Sigma() (float64, bool) { return g.Std, true }

// Uniform is the uniform law on [−h, h]. Its standard deviation h/√3 is also its subgaussian
// constant: E exp(sZ) = sinh(sh)/(sh) ≤ exp(s²h²/6), term by term in the two power series, since
// (2k+1)! ≥ 6^k k!.
type Uniform struct {
	unlimited
	HalfWidth float64 `key:"half_width" doc:"the noise is uniform on [-half_width, half_width]; 0: see sigma, and 1 if that is 0 too"`
	Std       float64 `key:"sigma" doc:"standard deviation, instead of half_width = √3·sigma"`
}

// Doc says what the kind is.
func (*Uniform) Doc() string { return "uniform noise on [-half_width, half_width]" }

// Check implements Law.
func (u *Uniform) Check() error {
	switch {
	case u.HalfWidth != 0 && u.Std != 0:
		return wrong("sigma", "is %v beside half_width = %v, expected one of them", u.Std, u.HalfWidth)
	case u.Std != 0:
		return positive("sigma", u.Std)
	case u.HalfWidth != 0:
		return positive("half_width", u.HalfWidth)
	}
	return nil
}

func (u *Uniform) half() float64 {
	switch {
	case u.HalfWidth != 0:
		return u.HalfWidth
	case u.Std != 0:
		return math.Sqrt(3) * u.Std
	}
	return 1
}

// Pay implements Law.
func (u *Uniform) Pay(mean float64, draw rng.Source) float64 {
	return mean + float64(u.half()*draw.Uniform(0))
}

// Sigma returns half_width/√3.
func (u *Uniform) Sigma() (float64, bool) { return u.half() / math.Sqrt(3), true }

// Rademacher is ±σ with equal probability: the noise that is hardest among those bounded by σ. It
// is σ-subgaussian, since cosh(s) ≤ exp(s²/2).
type Rademacher struct {
	unlimited
	Std float64 `key:"sigma" doc:"the noise is +sigma or -sigma"`
}

// Doc says what the kind is.
func (*Rademacher) Doc() string { return "a sign: +sigma or -sigma with probability 1/2" }

// Check implements Law.
func (r *Rademacher) Check() error { return deviation(r.Std) }

// Pay implements Law.
func (r *Rademacher) Pay(mean float64, draw rng.Source) float64 {
	return mean + float64(r.Std*draw.Sign(0))
}

// Sigma returns σ.
func (r *Rademacher) Sigma() (float64, bool) { return r.Std, true }

// Bernoulli pays one of two values, with the linear mean ⟨x, θ*⟩ in either case, so that no policy
// needs an intercept:
//
//	plus-minus   +1 with probability (1 + ⟨x, θ*⟩)/2, otherwise −1; possible for |⟨x, θ*⟩| ≤ 1,
//	             hence for every x and θ* in the unit ball. It is 2B − 1 for a coin B ∈ {0, 1} with
//	             mean (1 + ⟨x, θ*⟩)/2, whose own mean would need an intercept.
//	zero-one     1 with probability ⟨x, θ*⟩, otherwise 0; possible for 0 ≤ ⟨x, θ*⟩ ≤ 1 only.
//
// An environment whose means leave the interval is refused, never clipped. By Hoeffding's lemma
// the subgaussian constant is half the distance of the two values.
type Bernoulli struct {
	Values string `key:"values" doc:"plus-minus: pays +1 with probability (1+⟨x,θ*⟩)/2, otherwise -1; zero-one: pays 1 with probability ⟨x,θ*⟩, otherwise 0, refused when a mean leaves [0, 1]"`
}

// Doc says what the kind is.
func (*Bernoulli) Doc() string { return "rewards with two values and a linear mean" }

// Check implements Law.
func (b *Bernoulli) Check() error { return oneOf("values", b.Values, "plus-minus", "zero-one") }

// Pay implements Law.
func (b *Bernoulli) Pay(mean float64, draw rng.Source) float64 {
	u := draw.Float64(0)
	if b.Values == "zero-one" {
		if u < mean {
			return 1
		}
		return 0
	}
	if u < (1+mean)/2 {
		return 1
	}
	return -1
}

// Sigma returns half the distance of the two values.
func (b *Bernoulli) Sigma() (float64, bool) {
	if b.Values == "zero-one" {
		return 0.5, true
	}
	return 1, true
}

// Means returns [−1, 1] or [0, 1].
func (b *Bernoulli) Means() (lo, hi float64) {
	if b.Values == "zero-one" {
		return 0, 1
	}
	return -1, 1
}

// Notes says how a reward is to be read.
func (b *Bernoulli) Notes() []string {
	if b.Values == "zero-one" {
		return nil
	}
	return []string{"Bernoulli rewards are coded +1 and -1, so that their mean is ⟨x, θ*⟩"}
}

// StudentT is scale times Student's t with df degrees of freedom, by Bailey's polar method (Math.
// Comp. 62, 1994): √(df·(U^(−2/df) − 1))·cos(2πV) for U, V uniform on (0, 1), exact for every
// df > 0. It has no subgaussian constant: only moments of order below df exist.
type StudentT struct {
	DF    float64 `key:"df" doc:"degrees of freedom, above 1 so that there is a mean; the variance is infinite up to 2"`
	Scale float64 `key:"scale" doc:"what a standard t variable is multiplied by"`
	unlimited
}

// Doc says what the kind is.
func (*StudentT) Doc() string { return "Student's t noise, heavy tails: outside the assumption" }

// Check implements Law.
func (s *StudentT) Check() error {
	if !(s.DF > 1) || math.IsInf(s.DF, 0) {
		return wrong("df", "is %v, expected a number above 1, for a mean to exist", s.DF)
	}
	return positive("scale", s.Scale)
}

// Pay implements Law.
func (s *StudentT) Pay(mean float64, draw rng.Source) float64 {
	u, v := draw.Float64(0), draw.Float64(1)
	// U^(−2/df) − 1, without cancellation when df is large.
	q := math.Expm1(-2 / s.DF * math.Log(u))
	return mean + float64(s.Scale*math.Sqrt(s.DF*q)*math.Cos(2*math.Pi*v))
}

// Sigma returns the standard deviation, or the scale where that is infinite, and false.
func (s *StudentT) Sigma() (float64, bool) {
	if s.DF > 2 {
		return s.Scale * math.Sqrt(s.DF/(s.DF-2)), false
	}
	return s.Scale, false
}

// Notes marks the law.
func (s *StudentT) Notes() []string {
	return []string{fmt.Sprintf("outside the assumption: Student's t noise with %v degrees of freedom is not "+
		"subgaussian", s.DF)}
}

// None pays the mean.
type None struct{ unlimited }

// Doc says what the kind is.
func (*None) Doc() string { return "no noise: the reward is the mean" }

// Check implements Law.
func (*None) Check() error { return nil }

// Pay implements Law.
func (*None) Pay(mean float64, _ rng.Source) float64 { return mean }

// Sigma returns 0.
func (*None) Sigma() (float64, bool) { return 0, true }
