package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// BinsOptions configures the table of bins.
type BinsOptions struct {
	Bins int `key:"bins" doc:"bins of the interval; of two numbers in all" default:"10, 16 of two numbers"`
}

// Doc implements spec.Documented.
func (*BinsOptions) Doc() string {
	return "a number by bins: the largest mean plus half a standard error times a normal draw, and a cell of the bin evenly"
}

// New implements Options.
func (o *BinsOptions) New(p Problem) (bandit.Policy, error) {
	if o.Bins < 0 || o.Bins > 4096 {
		return nil, spec.Errorf("bins", "is %d, expected 1 to 4096", o.Bins)
	}
	return newNumberer("bins", p, o.Bins, 0)
}

// ZoomingOptions configures the zooming algorithm.
type ZoomingOptions struct {
	Lipschitz float64 `key:"lipschitz" doc:"largest slope of the mean across the interval" default:"1"`
}

// Doc implements spec.Documented.
func (*ZoomingOptions) Doc() string {
	return "zooming (Kleinberg, Slivkins & Upfal 2008): a number that no played one covers with its radius σ√(2 log t/(n + 1)), else the largest p̂ + 2 radii"
}

// New implements Options.
func (o *ZoomingOptions) New(p Problem) (bandit.Policy, error) {
	if !(o.Lipschitz >= 0 && o.Lipschitz < 1e9) {
		return nil, spec.Errorf("lipschitz", "is %v, expected a positive number", o.Lipschitz)
	}
	l := o.Lipschitz
	if l == 0 {
		l = 1
	}
	return newNumberer("zooming", p, 0, l)
}

// Numberer is a policy for numbers (bandit.Numbers) by a table of segment and bin (bins) or cell (zooming). Its state is trials n and their
// rewards s.
//
// Cost of a round: the bins; zooming the square of the cells, most of it where few are played.
type Numberer struct {
	kind   string
	shape  bandit.NumberShape
	sigma  float64
	slope  float64
	cells  int
	places int   // bins, or cells
	bin    []int // of each cell
	n, s   []float64
	totals []float64 // rounds, Σ y, Σ y²
}

func newNumberer(kind string, p Problem, bins int, slope float64) (*Numberer, error) {
	if p.Numbers == nil {
		return nil, fmt.Errorf("policy: kind %q plays numbers (environment kind \"number\")", kind)
	}
	shape := *p.Numbers
	if err := p.check(); err != nil {
		return nil, err
	}
	r := &Numberer{kind: kind, shape: shape, slope: slope, cells: 1, totals: make([]float64, 3)}
	if r.sigma = p.Sigma; r.sigma == 0 {
		r.sigma = 1
	}
	for _, c := range shape.Cells {
		r.cells *= c
	}
	if bins == 0 {
		if bins = 10; len(shape.Cells) == 2 {
			bins = 16
		}
	}
	r.places = r.cells
	if kind == "bins" {
		each := bins
		if len(shape.Cells) == 2 {
			each = max(1, int(math.Round(math.Sqrt(float64(bins)))))
		}
		r.places = 1
		for _, c := range shape.Cells {
			r.places *= min(each, c)
		}
		for i := range r.cells {
			at, rest := 0, i
			for k := len(shape.Cells) - 1; k >= 0; k-- {
				c := shape.Cells[k]
				b := rest % c * min(each, c) / c
				rest /= c
				if k == 0 {
					at += b * r.places / min(each, shape.Cells[0])
				} else {
					at += b
				}
			}
			r.bin = append(r.bin, at)
		}
	}
	r.n, r.s = make([]float64, shape.Segments*r.places), make([]float64, shape.Segments*r.places)
	return r, nil
}

// Select implements bandit.Policy. bins uses number b of the source for bin b, and the one after the last for the cell.
func (r *Numberer) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	s, ok := set.(bandit.Numbers)
	if !ok || s.Len() != r.cells || s.Shape().Segments != r.shape.Segments || s.Shape().Features != r.shape.Features {
		return fmt.Errorf("policy: kind %q plays %d cells of an interval: %w", r.kind, r.cells, bandit.ErrUnsupported)
	}
	g, at := s.Segment(), 0
	n, sum := r.n[g*r.places:(g+1)*r.places], r.s[g*r.places:(g+1)*r.places]
	if r.kind == "zooming" {
		at = r.zoom(n, sum)
	} else {
		mean, sd := 0.0, 1.0
		if t := r.totals[0]; t > 0 {
			if mean = r.totals[1] / t; t > 3 {
				sd = math.Sqrt(max(r.totals[2]/t-float64(mean*mean), 1e-9))
			}
		}
		best, top := 0, math.Inf(-1)
		for b := range n {
			v := (sum[b]+mean)/(n[b]+1) + float64(float64(.5*sd)/math.Sqrt(n[b]+1)*draw.Normal(b))
			if v > top {
				best, top = b, v
			}
		}
		of := 0
		for _, b := range r.bin {
			if b == best {
				of++
			}
		}
		k := draw.Intn(r.places, of)
		for i, b := range r.bin {
			if b == best {
				if k == 0 {
					at = i
					break
				}
				k--
			}
		}
	}
	dst.Set(s.At(at), at)
	return nil
}

// zoom chooses a cell.
func (r *Numberer) zoom(n, sum []float64) int {
	log := logs.Log(r.totals[0] + 2)
	radius := func(i int) float64 { return float64(r.sigma * math.Sqrt(float64(2*log)/(n[i]+1))) }
	best, top := -1, math.Inf(-1)
	for i := range n {
		if n[i] == 0 {
			continue
		}
		if v := sum[i]/n[i] + float64(2*radius(i)); v > top {
			best, top = i, v
		}
	}
	for i := range n {
		covered := n[i] > 0
		for j := range n {
			if covered = covered || n[j] > 0 && float64(r.slope*r.distance(i, j)) <= radius(j); covered {
				break
			}
		}
		if !covered {
			return i
		}
	}
	return best
}

// distance is the largest difference of two cells in a number, in units of the interval.
func (r *Numberer) distance(i, j int) (far float64) {
	for k := len(r.shape.Cells) - 1; k >= 0; k-- {
		c := r.shape.Cells[k]
		d := math.Abs(float64(i%c-j%c)) / float64(c)
		if r.shape.Cyclic {
			d = min(d, 1-d)
		}
		far = max(far, d)
		i, j = i/c, j/c
	}
	return far
}

// Update implements bandit.Policy. An action that says no cell counts as the first one.
func (r *Numberer) Update(a bandit.Action, y float64, _ rng.Source) error {
	if y-y != 0 {
		return bandit.ErrNotFinite
	}
	for _, x := range a.X {
		if x-x != 0 {
			return bandit.ErrNotFinite
		}
	}
	if len(a.X) != r.shape.Segments*r.shape.Features {
		return fmt.Errorf("policy: the action has %d coordinates, expected %d", len(a.X), r.shape.Segments*r.shape.Features)
	}
	if a.Index >= r.cells {
		return fmt.Errorf("policy: the action's index is %d, expected a cell from 0 to %d", a.Index, r.cells-1)
	}
	at := max(a.Index, 0)
	if r.bin != nil {
		at = r.bin[at]
	}
	at += max(r.shape.Segment(a), 0) * r.places
	r.n[at]++
	r.s[at] += y
	r.totals[0]++
	r.totals[1] += y
	r.totals[2] += float64(y * y)
	return nil
}

func (r *Numberer) vectors() [][]float64 { return [][]float64{r.n, r.s, r.totals} }

// AppendSnapshot implements bandit.Snapshotter.
func (r *Numberer) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, r.kind, r.vectors()), nil
}

// Restore implements bandit.Snapshotter.
func (r *Numberer) Restore(b []byte) error {
	v, err := readSnapshot(b, r.kind, lengthsOf(r.vectors()))
	if err == nil {
		r.n, r.s, r.totals = slices.Clone(v[0]), slices.Clone(v[1]), slices.Clone(v[2])
	}
	return err
}
