package decide

import (
	"context"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// errNumberBaseline refuses the modes that play the caller's own choice where numbers are played.
var errNumberBaseline = model.Invalid("baseline", "", "is not there yet for numbers: play them in the modes online and frozen")

// playedNumbers are the numbers of a choice, as its record has them.
func playedNumbers(o *choose.Offer, c choose.Choice) (out []eventlog.Number) {
	g := o.Grid()
	for _, cell := range o.Cells(c.Index) {
		out = append(out, eventlog.Number{Name: g.Numbers[cell.Number].Name, Value: cell.At(c.Point[cell.Number]), Low: cell.Low,
			High: cell.High})
	}
	return out
}

func valuesOf(list []eventlog.Number) (out []float64) {
	for _, n := range list {
		out = append(out, n.Value)
	}
	return out
}

// tellNumbers fills in the numbers of a record, with a density in place of the propensity where one of them has no steps.
func (d *Decision) tellNumbers(r *eventlog.Decision) {
	if len(r.Numbers) == 0 {
		return
	}
	d.Numbers = map[string]float64{}
	for _, n := range r.Numbers {
		d.Numbers[n.Name] = n.Value
		if n.High == n.Low {
			continue
		}
		if d.Density == nil {
			d.Density, d.Propensity = &Density{Num: r.Num, Den: r.Den, Cell: map[string][2]float64{}}, choose.Fraction{}
		}
		d.Density.Cell[n.Name] = [2]float64{n.Low, n.High}
	}
}

// declares reports whether a request declares the numbers of a model that has none.
func (r *Request) declares(v *choose.Version) bool {
	return len(r.Numbers) > 0 && len(v.Compiled.Config.Numbers) == 0
}

// declare fixes the numbers of a model by a request that could be decided with them.
func (d *Decider) declare(ctx context.Context, name string, v *choose.Version, r *Request) error {
	list, err := numbers.Declared(r.Numbers)
	if err != nil {
		return fault.Refused(model.NumberError("numbers", err))
	}
	config := v.Compiled.Config
	config.Numbers = list
	with, err := config.Logged()
	if err != nil {
		return fault.Refused(err)
	}
	q := r.candidates()
	q.Late = ctx.Err
	if err := choose.Readable(with, &q, d.opt.Limits.Actions); err != nil {
		return fault.Refused(err)
	}
	return d.declarer.Declare(ctx, name, list, r.Caller)
}
