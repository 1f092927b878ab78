// Package numbers has the numbers that decisions play: their ranges, the cells into which a range is divided, and the cells
// as candidates of a decision.
//
// A [Range] is declared by a model or by its first request. A [Grid] is what one request plays: the model's ranges, each
// perhaps narrowed. [Grid.Expand] turns actions into candidates, one for each cell.
package numbers

import (
	"fmt"
	"math"
	"strconv"

	"troupe/bandit"
	"troupe/feature"
	"troupe/internal/logs"
	"troupe/spec"
)

// The limits of a request.
const (
	Most      = 3    // numbers
	MaxSteps  = 1000 // of a number
	MaxCells  = 4096 // of all actions of a decision
	maxName   = 64   // bytes
	largest   = 1e15 // size of a bound
	leastPart = 1e-9 // of the size of its bounds, a range
)

// parts is into how many cells a number without steps is divided, by how many numbers are played together.
var parts = [Most + 1]int{0, 64, 16, 8}

// Range is a number that decisions play.
type Range struct {
	Name   string  `key:"name" json:"name" doc:"name of the number, at most 64 bytes"`
	Min    float64 `key:"min" json:"min" doc:"smallest value"`
	Max    float64 `key:"max" json:"max" doc:"largest value"`
	Step   float64 `key:"step" json:"step,omitempty" doc:"only min, min + step, … are played; 0: any number of the range"`
	Cyclic bool    `key:"cyclic" json:"cyclic,omitempty" doc:"max is min again: an hour, a weekday"`
	Log    bool    `key:"log" json:"log,omitempty" doc:"the range is divided evenly in logarithms"`
}

// DecodeSpec implements spec.Decoder.
func (r *Range) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with name, min and max", spec.Show(v))
	}
	for _, key := range []string{"name", "min", "max"} {
		if raw[key] == nil {
			return spec.Errorf(spec.Join(path, key), "is missing")
		}
	}
	*r = Range{}
	return spec.DecodeStruct(r, raw, path)
}

// ExpandSpec implements spec.Decoder: a number has no sweeps.
func (r *Range) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Error says what is wrong with a field of a Range.
type Error struct {
	Field string // "" for the range itself
	Value any
	Want  string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v: %s", e.Field, e.Value, e.Want) }

func wrong(field string, value any, format string, a ...any) *Error {
	return &Error{field, value, fmt.Sprintf(format, a...)}
}

// Check refuses a range that no decision could play. The error is an *Error.
func (r *Range) Check() error {
	finite := func(x float64) bool { return math.Abs(x) <= largest }
	switch {
	case r.Name == "" || len(r.Name) > maxName:
		return wrong("name", r.Name, "expected a name of 1 to %d bytes", maxName)
	case !finite(r.Min):
		return wrong("min", r.Min, "expected a number in [%v, %v]", -largest, largest)
	case !finite(r.Max):
		return wrong("max", r.Max, "expected a number in [%v, %v]", -largest, largest)
	case r.Min >= r.Max:
		return wrong("min", r.Min, "expected less than max, which is %v", r.Max)
	case r.Max-r.Min < leastPart*max(math.Abs(r.Min), math.Abs(r.Max)):
		return wrong("max", r.Max, "is too near to min, which is %v", r.Min)
	case r.Step < 0 || r.Step-r.Step != 0:
		return wrong("step", r.Step, "expected a number above 0, or none")
	case r.Cyclic && r.Log:
		return wrong("log", r.Log, "does not go with cyclic")
	case r.Log && r.Min <= 0:
		return wrong("min", r.Min, "expected more than 0 with log")
	case r.Step == 0:
		return nil
	}
	if n := r.steps(); n < 2 {
		return wrong("step", r.Step, "leaves one value of [%v, %v]; expected at most %v", r.Min, r.Max, (r.Max-r.Min)/2)
	} else if n > MaxSteps {
		return wrong("step", r.Step, "makes %.0f values of [%v, %v], and %d are allowed: expected %v at least", n, r.Min, r.Max, MaxSteps,
			round((r.Max-r.Min)/(MaxSteps-1)*1.0000001, 6))
	}
	return nil
}

// round returns x with so many significant digits.
func round(x float64, digits int) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x
	}
	return v
}

// steps is how many values a number with steps has.
func (r *Range) steps() float64 {
	n := math.Floor(float64((r.Max-r.Min)/r.Step)+1e-9) + 1
	if r.Cyclic && r.step(n-1) >= r.Max-float64(1e-9*r.Step) {
		n--
	}
	return n
}

// step is value number k: decimal fractions stay what a person would write.
func (r *Range) step(k float64) float64 { return round(r.Min+float64(k*r.Step), 14) }

// Cells is how many cells the range has, where so many numbers are played together.
func (r *Range) Cells(together int) int {
	if r.Step > 0 {
		return int(r.steps())
	}
	return parts[together]
}

// Bounds are those of cell c, of n: one value of a number with steps.
func (r *Range) Bounds(c, n int) (lo, hi float64) {
	if r.Step > 0 {
		v := r.step(float64(c))
		return v, v
	}
	return r.bound(c, n), r.bound(c+1, n)
}

func (r *Range) bound(c, n int) float64 {
	switch u := float64(c) / float64(n); {
	case c == 0:
		return r.Min
	case c == n:
		return r.Max
	case r.Log:
		a, b := logs.Log(r.Min), logs.Log(r.Max)
		return logs.Exp(a + float64(u*(b-a)))
	default:
		return r.Min + float64(u*(r.Max-r.Min))
	}
}

// Place is where a value lies in the range, from 0 to 1.
func (r *Range) Place(v float64) float64 {
	if r.Log {
		a, b := logs.Log(r.Min), logs.Log(r.Max)
		return min(max((logs.Log(v)-a)/(b-a), 0), 1)
	}
	return min(max((v-r.Min)/(r.Max-r.Min), 0), 1)
}

// Atom is the hash of the atom of the number in a request (bandit.PlayedRole). It is the same for two numbers of one name.
func (r *Range) Atom() uint64 { return feature.PlayedAtom(r.Name, r.Cyclic) }

// Same reports whether two ranges have the same cells.
func (r *Range) Same(o *Range) bool { return *r == *o }

// CheckAll checks the numbers of a model. The error is an *Error, whose field begins with the place of the number: [0].min.
func CheckAll(list []Range) error {
	if len(list) > Most {
		return wrong("", len(list), "expected at most %d numbers", Most)
	}
	all := 1.
	for i := range list {
		r := &list[i]
		if err := r.Check(); err != nil {
			e := err.(*Error)
			e.Field = fmt.Sprintf("[%d].%s", i, e.Field)
			return e
		}
		for k := range i {
			if list[k].Name == r.Name {
				return wrong(fmt.Sprintf("[%d].name", i), r.Name, "is the name of two numbers")
			}
			if fieldOf(list[k].Atom()) == fieldOf(r.Atom()) {
				return wrong(fmt.Sprintf("[%d].name", i), r.Name, "has the hash of another name by chance: take another name")
			}
		}
		all *= float64(r.Cells(len(list)))
	}
	if all > MaxCells {
		return wrong("", all, "are cells of all numbers together, expected at most %d: take larger steps, or none", MaxCells)
	}
	return nil
}

func fieldOf(atom uint64) uint32 {
	f, _ := bandit.FieldOf(atom >> 11)
	return f
}
