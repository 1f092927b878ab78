package joined

import "troupe/eventlog"

// Number is a number that was played, and its cell; low = high for a step.
type Number struct {
	Name  string  `parquet:"name,dict"`
	Value float64 `parquet:"value"`
	Low   float64 `parquet:"low"`
	High  float64 `parquet:"high"`
}

// NumberColumns returns the numbers that a decision played, by name and with their cells, and where one of them has no steps the density at them and the cell in
// which they are uniform; nil without.
func NumberColumns(r *eventlog.Decision) (values map[string]float64, list []Number, density *float64, cell map[string][2]float64) {
	if len(r.Numbers) > 0 {
		values = map[string]float64{}
	}
	for _, n := range r.Numbers {
		values[n.Name], list = n.Value, append(list, Number(n))
	}
	if w := r.Width(); w > 0 {
		d := float64(r.Num) / float64(r.Den) / w
		density, cell = &d, map[string][2]float64{}
		for _, n := range r.Numbers {
			if n.High > n.Low {
				cell[n.Name] = [2]float64{n.Low, n.High}
			}
		}
	}
	return values, list, density, cell
}
