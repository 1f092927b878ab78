package model

import (
	"errors"

	"troupe/budget"
	"troupe/spec"
)

// Budget is what the decisions of a model may spend: Mean money for each decision, or Total money for each day of UTC.
// The zero value is none. Every action of a request then needs a cost.
type Budget struct {
	Mean    float64 `key:"mean" doc:"money for each decision, in the mean"`
	Total   float64 `key:"total" doc:"money for each day, instead of mean"`
	Per     string  `key:"per" doc:"decision (with mean) or day (with total)" default:"decision with mean, day with total"`
	Carry   bool    `key:"carry" doc:"a day begins with what the day before has left, or has spent too much"`
	OnEmpty string  `key:"on_empty" doc:"when no action is within what is left: cheapest plays the cheapest one, refuse answers 409. Without it the cheapest is played, and a budget below the cheapest action is refused" default:"cheapest"`
}

// What a model does when no action is within what its budget has left.
const (
	Cheapest = "cheapest"
	Refuse   = "refuse"
)

// IsZero returns whether there is no budget.
func (b Budget) IsZero() bool { return b == Budget{} }

// Limit returns the limit that package budget keeps.
func (b Budget) Limit() budget.Limit {
	return budget.Limit{Mean: b.Mean, Total: b.Total, Carry: b.Carry}
}

// Most returns the money of a decision or of a day, and which of them.
func (b Budget) Most() (float64, string) {
	if b.Total > 0 {
		return b.Total, "day"
	}
	return b.Mean, "decision"
}

// DecodeSpec implements spec.Decoder.
func (b *Budget) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with mean or total", spec.Show(v))
	}
	*b = Budget{}
	if err := spec.DecodeStruct(b, raw, path); err != nil {
		return err
	}
	for key, money := range map[string]float64{"mean": b.Mean, "total": b.Total} {
		if _, said := raw[key]; said && money == 0 {
			return spec.Errorf(spec.Join(path, key), "is 0, expected money, from %v to %v; without a budget leave it out",
				budget.Least, budget.Most)
		}
	}
	var fault *budget.Error
	if errors.As(b.Limit().Check(), &fault) {
		if fault.Field != "" {
			path = spec.Join(path, fault.Field)
		}
		return spec.Errorf(path, "%s", fault.Text)
	}
	_, per := b.Most()
	switch {
	case b.Per == "":
		b.Per = per
	case b.Per != per:
		key := "mean"
		if per == "day" {
			key = "total"
		}
		return spec.Errorf(spec.Join(path, "per"), "is %q, expected %q: %s is for a %s", b.Per, per, key, per)
	}
	if b.OnEmpty != "" && b.OnEmpty != Cheapest && b.OnEmpty != Refuse {
		return spec.Errorf(spec.Join(path, "on_empty"), "is %q, expected %s or %s", b.OnEmpty, Cheapest, Refuse)
	}
	return nil
}

// ExpandSpec implements spec.Decoder: a budget has no sweeps.
func (b *Budget) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (b *Budget) String() string { return "none" }

// table is the JSON form.
func (b Budget) table() map[string]any {
	t := map[string]any{"per": b.Per}
	if b.Mean > 0 {
		t["mean"] = b.Mean
	} else {
		t["total"], t["carry"] = b.Total, b.Carry
	}
	if b.OnEmpty != "" {
		t["on_empty"] = b.OnEmpty
	}
	return t
}

// Below returns an error when even the cheapest action costs more than the whole budget, and nothing is said of what to
// do then.
func (b Budget) Below(field, id string, cheapest float64) error {
	most, per := b.Most()
	if b.IsZero() || b.OnEmpty != "" || cheapest <= most {
		return nil
	}
	return Invalid(field, cheapest, "is that of the cheapest action, %s, and the budget is %v for a %s: raise the budget, "+
		"or say with budget.on_empty what is to happen, %s or %s", id, most, per, Cheapest, Refuse)
}
