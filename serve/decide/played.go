package decide

import (
	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/model"
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
