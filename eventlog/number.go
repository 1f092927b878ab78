package eventlog

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Number is a number that was played: its value, and the cell in which it lies, whose bounds are equal for a number with
// steps. A number without steps is uniform in its cell.
type Number struct {
	Name  string  `json:"name" doc:"name of the number"`
	Value float64 `json:"value" doc:"what was played"`
	Low   float64 `json:"low" doc:"lower bound of the cell; low = high for a number with steps"`
	High  float64 `json:"high" doc:"upper bound of the cell"`
}

// maxNumbers is how many numbers a decision plays at most.
const maxNumbers = 3

// Width is the product of the widths of the cells of numbers without steps: the density of a decision is Num/Den divided by
// it. It is 0 where there is no such number, and Num/Den is a probability.
func (r *Decision) Width() float64 {
	w := 0.
	for _, n := range r.Numbers {
		if n.High > n.Low {
			if w == 0 {
				w = 1
			}
			w *= n.High - n.Low
		}
	}
	return w
}

func (r *Decision) checkNumbers() error {
	if len(r.Numbers) > maxNumbers {
		return fmt.Errorf("decision: %d numbers, at most %d are allowed: %w", len(r.Numbers), maxNumbers, ErrMalformed)
	}
	for i, n := range r.Numbers {
		if err := checkText("decision: numbers", n.Name); err != nil {
			return err
		}
		if n.Name == "" || !(n.Low <= n.Value && n.Value <= n.High) || n.Low-n.Low != 0 || n.High-n.High != 0 {
			return fmt.Errorf("decision: numbers[%d]: %v is not in [%v, %v]: %w", i, n.Value, n.Low, n.High, ErrMalformed)
		}
	}
	return nil
}

// putNumbers writes numbers: each its name with its length, and three floats.
func putNumbers(b []byte, num uint32, list []Number) []byte {
	if len(list) == 0 {
		return b
	}
	var data []byte
	for _, n := range list {
		data = append(binary.AppendUvarint(data, uint64(len(n.Name))), n.Name...)
		for _, v := range []float64{n.Value, n.Low, n.High} {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
	}
	return putBytes(b, num, data)
}

func numbersOf(d *decoder) (out []Number) {
	b := d.bytes()
	for len(b) > 0 && len(out) <= maxNumbers {
		n, k := binary.Uvarint(b)
		if k != uvarintLen(n) || n > maxText || uint64(len(b)-k) < n+24 {
			d.fail("the numbers are cut short")
			return nil
		}
		b = b[k:]
		x := Number{Name: string(b[:n])}
		b = b[n:]
		for i, to := range []*float64{&x.Value, &x.Low, &x.High} {
			*to = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
		b = b[24:]
		out = append(out, x)
	}
	return out
}
