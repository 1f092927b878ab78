package numbers

import "fmt"

// Ask is what a request says of a number: it declares a range, or narrows that of the model.
type Ask struct {
	Name   string   `json:"name" maxLength:"64" doc:"name of the number"`
	Min    *float64 `json:"min,omitempty" doc:"smallest value: of the range, or a larger one for this decision"`
	Max    *float64 `json:"max,omitempty" doc:"largest value: of the range, or a smaller one for this decision"`
	Step   *float64 `json:"step,omitempty" doc:"only min, min + step, … are played"`
	Cyclic *bool    `json:"cyclic,omitempty" doc:"max is min again: an hour, a weekday"`
	Log    *bool    `json:"log,omitempty" doc:"the range is divided evenly in logarithms"`
}

// Declared returns the ranges that a request declares for a model without numbers. The error is an *Error.
func Declared(asks []Ask) ([]Range, error) {
	if len(asks) > Most {
		return nil, wrong("", len(asks), "expected at most %d numbers", Most)
	}
	var out []Range
	for i, a := range asks {
		r := Range{Name: a.Name}
		for _, x := range []struct {
			name string
			from *float64
			to   *float64
		}{{"min", a.Min, &r.Min}, {"max", a.Max, &r.Max}, {"step", a.Step, &r.Step}} {
			switch {
			case x.from != nil && x.name == "step" && *x.from == 0:
				return nil, wrong(fmt.Sprintf("[%d].step", i), *x.from, "expected a number above 0, or none")
			case x.from != nil:
				*x.to = *x.from
			case x.name != "step":
				return nil, wrong(fmt.Sprintf("[%d].%s", i, x.name), "", "is missing: the model has no numbers yet, so the request declares the range")
			}
		}
		r.Cyclic, r.Log = a.Cyclic != nil && *a.Cyclic, a.Log != nil && *a.Log
		out = append(out, r)
	}
	return out, CheckAll(out)
}

// Asked returns what a request plays of a model's numbers: all of them, those that it names perhaps narrowed. The error is an
// *Error.
func Asked(list []Range, asks []Ask) (*Grid, error) {
	g := Whole(list)
	seen := 0
	for i, a := range asks {
		at := -1
		for k := range list {
			if list[k].Name == a.Name {
				at = k
			}
		}
		field := func(err error) error {
			e := err.(*Error)
			e.Field = fmt.Sprintf("[%d].%s", i, e.Field)
			return e
		}
		if at < 0 {
			return nil, field(wrong("name", a.Name, "is no number of the model, which has %s", Names(list)))
		}
		if seen>>at&1 != 0 {
			return nil, field(wrong("name", a.Name, "is given twice"))
		}
		seen |= 1 << at
		r := &list[at]
		switch {
		case a.Step != nil && *a.Step != r.Step:
			return nil, field(wrong("step", *a.Step, "cannot change, the model has %v", r.Step))
		case a.Cyclic != nil && *a.Cyclic != r.Cyclic:
			return nil, field(wrong("cyclic", *a.Cyclic, "cannot change, the model has %v", r.Cyclic))
		case a.Log != nil && *a.Log != r.Log:
			return nil, field(wrong("log", *a.Log, "cannot change, the model has %v", r.Log))
		}
		lo, hi := r.Min, r.Max
		if a.Min != nil {
			lo = *a.Min
		}
		if a.Max != nil {
			hi = *a.Max
		}
		if lo == r.Min && hi == r.Max {
			continue
		}
		if err := g.Narrow(at, lo, hi); err != nil {
			return nil, field(err)
		}
	}
	return g, nil
}

// Names lists the names of numbers.
func Names(list []Range) string {
	s := ""
	for i := range list {
		if i > 0 {
			s += ", "
		}
		s += list[i].Name
	}
	return s
}
