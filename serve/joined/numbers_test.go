package joined

import (
	"testing"

	"troupe/eventlog"
)

// TestNumberColumns: steps have no density; of other numbers it is the probability of the cell divided by its width.
func TestNumberColumns(t *testing.T) {
	r := &eventlog.Decision{Num: 1, Den: 8, Numbers: []eventlog.Number{{Name: "price", Value: 9.5, Low: 9.5, High: 9.5}}}
	values, list, density, cell := NumberColumns(r)
	if len(list) != 1 || len(values) != 1 || values["price"] != 9.5 || density != nil || cell != nil {
		t.Errorf("%v, density %v, cell %v", values, density, cell)
	}
	r.Numbers = append(r.Numbers, eventlog.Number{Name: "bid", Value: .3, Low: .25, High: .5})
	values, list, density, cell = NumberColumns(r)
	if len(values) != 2 || len(list) != 2 || density == nil || *density != .5 || len(cell) != 1 || cell["bid"] != [2]float64{.25, .5} {
		t.Errorf("%v, density %v, cell %v", list, density, cell)
	}
	if values, list, density, _ := NumberColumns(&eventlog.Decision{Num: 1, Den: 2}); values != nil || list != nil || density != nil {
		t.Errorf("%v, density %v without numbers", list, density)
	}
}
