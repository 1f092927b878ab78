package policy

import (
	"math"

	"troupe/spec"
	"troupe/theory"
)

// Scale is the option `scale`: the size r_t of the exploration after t updates. The same table
// means the same in every policy that has it.
//
//	{ kind = "constant",  value = r }   r_t = r
//	{ kind = "beta",      value = c }   r_t = c·β_t^δ, with log det V_t kept incrementally
//	{ kind = "betatilde", value = c }   r_t = c·β̃_T^δ, the deterministic cap; needs the horizon
//
// where β_t^δ = √λ·S + σ√(2 log(1/δ) + log(det V_t/λ^d)) (eq:beta, for noise level σ and ‖θ*‖ ≤ S = norm; 0 means 1). A
// bare number is a constant. The zero value means the policy's default.
type Scale struct {
	Kind  string
	Value float64
	Norm  float64
}

// Constant is r_t = r.
func Constant(r float64) Scale { return Scale{Kind: "constant", Value: r} }

// betaScale is r_t = c·β_t.
func betaScale(c float64) Scale { return Scale{Kind: "beta", Value: c} }

type scaleValue struct {
	Value float64 `key:"value" doc:"the factor"`
	Norm  float64 `key:"norm" doc:"for beta and betatilde: S, a bound of ‖θ*‖" default:"1"`
}

var scaleKinds = spec.Registry[*scaleValue]{
	"constant":  func() *scaleValue { return &scaleValue{} },
	"beta":      func() *scaleValue { return &scaleValue{Value: 1} },
	"betatilde": func() *scaleValue { return &scaleValue{Value: 1} },
}

// DecodeSpec implements spec.Decoder.
func (s *Scale) DecodeSpec(v any, path string) error {
	value, norm, kind := 0.0, 0.0, "constant"
	if x, ok := spec.Number(v); ok {
		value = x
	} else {
		t, err := spec.DecodeTable(scaleKinds, v, path)
		if err != nil {
			return err
		}
		value, norm, kind = t.Value, t.Norm, v.(spec.Raw)["kind"].(string)
		switch at := spec.Join(path, "norm"); {
		case norm != 0 && kind == "constant":
			return spec.Errorf(at, "is %v, but a constant scale has no bound of θ*: expected beta or betatilde", norm)
		case norm != 0 && positive("norm", norm) != nil:
			return spec.Errorf(at, "is %v, expected a positive number", norm)
		}
		path = spec.Join(path, "value")
	}
	if err := positive("value", value); err != nil {
		return spec.Errorf(path, "is %v, expected a positive number", value)
	}
	*s = Scale{Kind: kind, Value: value, Norm: norm}
	return nil
}

// ExpandSpec implements spec.Decoder.
func (s *Scale) ExpandSpec(v any) []spec.Choice {
	list, ok := v.([]any)
	if !ok {
		return spec.ExpandTable(scaleKinds, v)
	}
	var out []spec.Choice
	for _, e := range list {
		out = append(out, spec.Choice{Value: e, Swept: []spec.Setting{{Value: e}}})
	}
	return out
}

// radius is a resolved Scale: r as a function of log det V_t/λ^d.
type radius struct {
	fixed         float64 // the value when coef is 0
	coef          float64 // c
	bias, root    float64 // √λ·S and √λ
	sigma, lambda float64
	delta         float64
}

// resolve returns the radius for a problem.
func (s Scale) resolve(p Problem, lambda, delta float64) (radius, error) {
	delta *= p.share()
	root := math.Sqrt(lambda)
	bias := root
	if s.Norm != 0 {
		if err := positive("scale.norm", s.Norm); err != nil {
			return radius{}, err
		}
		bias *= s.Norm
	}
	switch s.Kind {
	case "constant":
		return radius{fixed: s.Value}, positive("scale.value", s.Value)
	case "beta":
		return radius{coef: s.Value, bias: bias, root: root, sigma: p.sigma(), lambda: lambda, delta: delta},
			positive("scale.value", s.Value)
	case "betatilde":
		if p.Horizon == 0 {
			return radius{}, spec.Refuse("scale.kind", s.Kind, "which needs a known horizon")
		}
		cap := bias + float64(p.sigma()*(theory.BetaTilde(p.Dim, p.Horizon, lambda, delta)-root))
		return radius{fixed: s.Value * cap}, positive("scale.value", s.Value)
	}
	return radius{}, oneOf("scale.kind", s.Kind, spec.Names(scaleKinds)...)
}

// at returns r_t for log det V_t/λ^d = logDet.
func (r radius) at(logDet float64) float64 {
	if r.coef == 0 {
		return r.fixed
	}
	return r.coef * (r.bias + float64(r.sigma*(theory.Beta(r.lambda, r.delta, logDet)-r.root)))
}
