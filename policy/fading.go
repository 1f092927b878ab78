package policy

import (
	"math"
	"strconv"
	"strings"
	"time"

	"troupe/internal/logs"
	"troupe/internal/paged"
	"troupe/spec"
)

// This file is half_life of hashed: what was learned fades, so that what is not played becomes uncertain and is tried
// again. With γ = 2^(−1/h), h the half-life, every model has the discounted law of atoms and linucb: with each event
//
//	V ← γV + (1 − γ)Λ + xxᵀ,  b ← γ(b − Λm) + Λm + yx     Λ, m: precision and mean before the first event
//
// Members are not kept but computed from V and b of the moment, so their spread is that of the discounted posterior,
// and widens back to that of Λ; nothing is added to them.
//
// A sparse model has V = diag A and A_i = λ + a_i. Fading is a ← γa, w ← w·γ(λ + a)/(λ + γa), G ← γG. Neither ã = a/S,
// b̃ = w(λ + a)/S nor G̃ = G/S changes by it, S = γ^(clock − base) one number for all coordinates. So the table holds
// (b̃, ã, G̃), and no event touches a coordinate that it does not have. Every fadeRenew half-lives the table is written
// anew with S = 1; coordinates whose a is lost beside λ are left out of it. RSS and the number of events behind σ̂
// fade, too.
//
// A block of a small model keeps the prior variances P = Λ⁻¹ of its coefficients and fades when it is looked at: every
// startGap events, if it is then a fadeLag of a half-life old. With g what is left and B = gI + (1 − g)P^(−½)ΣP^(−½)
//
//	Σ ← P^½ (I − gB⁻¹) P^½/(1 − g),  μ ← m + g P^½ B⁻¹ P^(−½) (μ − m)
//
// is Σ⁻¹ ← gΣ⁻¹ + (1 − g)Λ without Σ⁻¹: all eigenvalues of B are at least g. m is the mean reward for an action's mean,
// as for a new action, and 0 for all else. Blocks are looked at in turn, one of startGap with each event.

// Constants of half_life. docs/record/change.md says what was measured.
const (
	fadeRenew = 64      // half-lives after which a table is written anew
	fadeLag   = 1. / 32 // of a half-life: a block that is younger does not fade yet
	fadeLost  = 1e-9    // what is left of a block below which it is as before its first event
)

// HalfLife is how long it takes until an event counts half: a number of events, or a time. The zero value is never.
type HalfLife struct {
	Events float64
	Time   time.Duration
}

// IsZero reports whether nothing is forgotten.
func (h HalfLife) IsZero() bool { return h == HalfLife{} }

// DecodeSpec implements spec.Decoder: a number of events, or a time such as "7d", "12h" or "1d12h".
func (h *HalfLife) DecodeSpec(v any, path string) error {
	if n, ok := spec.Number(v); ok {
		if !(n >= 0) || math.IsInf(n, 0) {
			return spec.Errorf(path, "is %v, expected a number of events that is not negative", n)
		}
		*h = HalfLife{Events: n}
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return spec.Errorf(path, `is %s, expected a number of events, or a time such as "7d"`, spec.Show(v))
	}
	t, ok := parseDays(s)
	if !ok || t <= 0 {
		return spec.Errorf(path, `is %q, expected a time such as "7d", "12h" or "1d12h", or a number of events`, s)
	}
	*h = HalfLife{Time: t}
	return nil
}

// mostDays bounds the days of a time.
const mostDays = 36_500

// parseDays reads a time with days before what time.ParseDuration reads.
func parseDays(s string) (time.Duration, bool) {
	var days float64
	if n, rest, ok := strings.Cut(s, "d"); ok {
		var err error
		if days, err = strconv.ParseFloat(n, 64); err != nil || !(days >= 0 && days <= mostDays) {
			return 0, false
		}
		if s = rest; s == "" {
			return time.Duration(days * float64(24*time.Hour)), true
		}
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 || t > mostDays*24*time.Hour {
		return 0, false
	}
	return time.Duration(days*float64(24*time.Hour)) + t, true
}

// ExpandSpec implements spec.Decoder.
func (h *HalfLife) ExpandSpec(v any) []spec.Choice {
	list, ok := v.([]any)
	if !ok {
		return []spec.Choice{{Value: v}}
	}
	var out []spec.Choice
	for _, e := range list {
		out = append(out, spec.Choice{Value: e, Swept: []spec.Setting{{Value: e}}})
	}
	return out
}

// String writes h as an option: 0, a number of events, or a time.
func (h HalfLife) String() string {
	if h.Time == 0 {
		return strconv.FormatFloat(h.Events, 'g', -1, 64)
	}
	out := ""
	day := 24 * time.Hour
	if n := h.Time / day; n > 0 {
		out = strconv.Itoa(int(n)) + "d"
	}
	if rest := h.Time % day; rest > 0 || out == "" {
		out += rest.String()
	}
	return out
}

// shown is h as a value of an error: a number, or a text.
func (h HalfLife) shown() any {
	if h.Time == 0 {
		return h.Events
	}
	return h.String()
}

// SpecType is the type of the option in listings.
func (HalfLife) SpecType() string { return "number or time" }

// check refuses a half-life that has no meaning. timed says that events have times, least is the smallest number of
// them and instead what else forgets.
func (h HalfLife) check(change string, timed bool, least int, instead string) error {
	switch {
	case h.IsZero():
		return nil
	case h.Time == 0 && !(h.Events >= float64(least) && h.Events <= 1<<50):
		return spec.Refuse("half_life", h.Events, "expected a number of events, at least %d", least)
	case change != restarts:
		return spec.Refuse("half_life", h.shown(), `but change is %q: expected change = "restarts"%s`, change, instead)
	case h.Time == 0:
		return nil
	case h.Time < time.Second || h.Events != 0:
		return spec.Refuse("half_life", h.shown(), "expected a time of at least 1s")
	case !timed:
		return spec.Refuse("half_life", h.shown(), "but nothing here says when an event came: expected a number of events")
	}
	return nil
}

// Forgetter is implemented by options with a half-life that may be a time.
type Forgetter interface {
	// Forgets returns the half-life.
	Forgets() HalfLife
}

// Forgets implements Forgetter.
func (o *HashedOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *AtomsOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *AutoOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *LinUCBOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *LogisticOptions) Forgets() HalfLife { return o.HalfLife }

// Clocked is implemented by policies that may forget by the times of events.
type Clocked interface {
	// Tick says at what time the events came that are learned next, in ns since 1970; 0 is not known. The policy's time
	// is the largest so far. It has no effect where the policy forgets nothing, or by the number of events.
	Tick(at int64)
	// Timed reports whether the policy forgets by the times of events.
	Timed() bool
	// SteppedBack returns how often a time was before an earlier one.
	SteppedBack() uint64
}

// fading is what a policy with a half-life keeps of it. It does not change.
type fading struct {
	half  float64 // in units of the clock
	timed bool    // the clock has seconds since 1970, otherwise events
}

func newFading(h HalfLife) *fading {
	switch {
	case h.IsZero():
		return nil
	case h.Time > 0:
		return &fading{half: h.Time.Seconds(), timed: true}
	}
	return &fading{half: h.Events}
}

// tick returns the time in seconds to which a policy at the time now is told to move, at in ns since 1970, and whether
// it is before now: then it stays.
func tick(now float64, at int64) (t float64, back bool) {
	t = float64(at) / 1e9
	return t, t < now
}

// lag is the time of which what has not faded yet may be out of date.
func (f *fading) lag() float64 { return float64(fadeLag * f.half) }

// left is what is left of an event after a time.
func (f *fading) left(age float64) float64 { return logs.Exp(-float64(math.Ln2 * float64(age/f.half))) }

// The numbers of Hashed with a half-life end with the clock, how often it stepped back, and for each sparse model the
// clock at which S was 1 and the discounted number of events.
func (h *Hashed) clockAt() int { return 2 + len(h.folds) }

// fadeNumbers is how many numbers a half-life adds.
func fadeNumbers(folds int) int { return 2 + 2*folds }

var _ Clocked = (*Hashed)(nil)

// Tick implements Clocked.
func (h *Hashed) Tick(at int64) {
	if !h.Timed() || at <= 0 {
		return
	}
	c := h.clockAt()
	if t, back := tick(h.numbers[c], at); back {
		h.numbers[c+1]++
	} else {
		h.pass(t)
	}
}

// Timed implements Clocked.
func (h *Hashed) Timed() bool { return h.fade != nil && h.fade.timed }

// SteppedBack implements Clocked.
func (h *Hashed) SteppedBack() uint64 {
	if h.fade == nil {
		return 0
	}
	return uint64(h.numbers[h.clockAt()+1])
}

// pass moves the clock on.
func (h *Hashed) pass(clock float64) {
	c := h.clockAt()
	before := h.numbers[c]
	h.numbers[c] = clock
	if h.fade.timed && before == 0 { // the first time: nothing was learned, or when is not known
		for k := range h.folds {
			h.numbers[c+2+2*k] = clock
		}
		before = clock
	}
	g := h.fade.left(clock - before)
	for k, f := range h.folds {
		f.rss *= g
		f.count *= g
		if base := &h.numbers[c+2+2*k]; clock-*base > float64(fadeRenew*h.fade.half) {
			f.scale = h.fade.left(clock - *base)
			f.renew()
			*base = clock
		}
	}
	h.note()
	h.aged()
}

// note writes the discounted numbers of events down.
func (h *Hashed) note() {
	for k, f := range h.folds {
		h.numbers[h.clockAt()+3+2*k] = f.count
	}
}

// aged makes the sparse models as old as the numbers say.
func (h *Hashed) aged() {
	if h.fade == nil {
		return
	}
	c := h.clockAt()
	for k, f := range h.folds {
		f.scale = h.fade.left(h.numbers[c] - h.numbers[c+2+2*k])
		f.count = h.numbers[c+3+2*k]
	}
	if h.mix != nil {
		h.mix.clock = h.numbers[c]
	}
}

// soundClock reports whether numbers of a snapshot can be.
func (h *Hashed) soundClock(numbers []float64) bool {
	if h.fade == nil {
		return true
	}
	c := h.clockAt()
	clock, back := numbers[c], numbers[c+1]
	if !(clock >= 0 && back >= 0 && back <= 1<<53) {
		return false
	}
	for k := range h.folds {
		base, count := numbers[c+2+2*k], numbers[c+3+2*k]
		if !(base >= 0 && base <= clock && clock-base <= float64(fadeRenew*h.fade.half) && count >= 0) {
			return false
		}
	}
	return true
}

// unfold turns a cell that is being edited into w, a and G; refold turns it back.
func (f *sparseFold) unfold(c *paged.Cell) {
	w, d := f.faded(c.W, c.A)
	c.W, c.A = w, d-f.lambda
	c.G *= f.scale
}

func (f *sparseFold) refold(c *paged.Cell) {
	c.W = float64(c.W*(f.lambda+c.A)) / f.scale
	c.A /= f.scale
	c.G /= f.scale
}

// faded returns w and λ + a of b̃ and ã.
func (f *sparseFold) faded(b, a float64) (w, d float64) {
	d = f.lambda + float64(f.scale*a)
	return float64(f.scale*b) / d, d
}

// gatherFaded is gather of a table that fades.
func (f *sparseFold) gatherFaded(c []float64, at []uint32, x []float64, scale float64, mask uint32) (z float64) {
	var b, a [paged.Together]float64
	for len(at) > 0 {
		n := min(len(at), paged.Together)
		f.cells.Read(b[:n], a[:n], at[:n], mask)
		for k, e := range x[:n] {
			w, d := f.faded(b[k], a[k])
			v := float64(e * scale)
			c[k] = v / math.Sqrt(d)
			z += float64(v * w)
		}
		c, at, x = c[n:], at[n:], x[n:]
	}
	return z
}

// predictFaded is predict of a table that fades.
func (f *sparseFold) predictFaded(at []uint32, x []float64, scale float64, mask uint32) (z, q float64) {
	var b, a [paged.Together]float64
	for len(at) > 0 {
		n := min(len(at), paged.Together)
		f.cells.Read(b[:n], a[:n], at[:n], mask)
		for k, e := range x[:n] {
			w, d := f.faded(b[k], a[k])
			v := float64(e * scale)
			z += float64(v * w)
			q += float64(v*v) / d
		}
		at, x = at[n:], x[n:]
	}
	return f.offset + z, q
}

// renew writes the table anew with S = 1.
func (f *sparseFold) renew() {
	old, s := f.cells, f.scale
	f.cells, f.scale = paged.New(old.Bits()), 1
	old.Each(func(i uint32, b, a, g float64) {
		if a = float64(a * s); f.lambda+a > f.lambda {
			f.cells.Set(i, float64(s*b), a, max(float64(s*g), math.SmallestNonzeroFloat64))
		}
	})
}

// fadeBlocks lets the blocks fade whose turn it is.
func (x *mixture) fadeBlocks() {
	for _, s := range x.smalls {
		for i := range s.starts() {
			t := s.start(i)
			for k := int(x.n % startGap); k < len(t.blocks); k += startGap {
				age := x.clock - t.blocks[k].faded
				if age < x.fade.lag() {
					continue
				}
				b := t.own(k)
				t.digest -= b.sum()
				b.fade(x.fade.left(age), x.offsetOf(t), !t.shared())
				b.faded = x.clock
				t.digest += b.sum()
			}
		}
	}
}

// fade lets g of what the block has learned be left. mean is that of an action, where the block has one.
func (b *smallBlock) fade(g, mean float64, own bool) {
	d := len(b.mean)
	first := -1
	if own {
		first = b.find(0)
	}
	if first >= 0 {
		b.mean[first] -= mean
	}
	if g < fadeLost {
		clear(b.mean)
		clear(b.cov)
		for i, p := range b.prior {
			b.cov[packedAt(i, i)] = p
		}
	} else {
		root := make([]float64, d)
		for i, p := range b.prior {
			root[i] = math.Sqrt(p)
			b.mean[i] /= root[i]
		}
		inverse := make([]float64, len(b.cov))
		for i := range d {
			for j := range i + 1 {
				k := packedAt(i, j)
				inverse[k] = float64((1-g)*b.cov[k]) / float64(root[i]*root[j])
			}
			inverse[packedAt(i, i)] += g
		}
		invert(inverse, d, g)
		b.mean = timesPacked(inverse, b.mean)
		for i := range d {
			b.mean[i] *= float64(g * root[i])
			for j := range i + 1 {
				k := packedAt(i, j)
				one := 0.0
				if i == j {
					one = 1
				}
				b.cov[k] = float64(float64(root[i]*root[j])*(one-float64(g*inverse[k]))) / (1 - g)
			}
			b.cov[packedAt(i, i)] = max(b.cov[packedAt(i, i)], 0)
		}
	}
	if first >= 0 {
		b.mean[first] += mean
	}
}

// timesPacked returns a symmetric matrix, of which a is the lower triangle by rows, times v.
func timesPacked(a, v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		row := a[i*(i+1)/2 : i*(i+1)/2+i+1]
		for j, r := range row[:i] {
			out[i] += float64(r * v[j])
			out[j] += float64(r * v[i])
		}
		out[i] += float64(row[i] * v[i])
	}
	return out
}

// invert turns the lower triangle by rows of a symmetric d×d matrix whose eigenvalues are at least least into that of
// its inverse: LLᵀ by Cholesky, then L⁻¹, then L⁻ᵀL⁻¹. Pivots are at least least, too, so a smaller one is rounding.
func invert(a []float64, d int, least float64) {
	row := func(i int) []float64 { return a[i*(i+1)/2 : i*(i+1)/2+i+1] }
	for i := range d {
		r := row(i)
		for j := range i {
			c := row(j)
			for k, v := range c[:j] {
				r[j] -= float64(r[k] * v)
			}
			r[j] /= c[j]
			r[i] -= float64(r[j] * r[j])
		}
		r[i] = math.Sqrt(max(r[i], least))
	}
	for i := range d { // row i of L⁻¹ is −(Σ_{k<i} L_ik · row k of L⁻¹)/L_ii, and 1/L_ii
		r := row(i)
		diagonal := r[i]
		for j := range i {
			sum := 0.0
			for k := j; k < i; k++ {
				sum += float64(r[k] * row(k)[j])
			}
			r[j] = -sum / diagonal
		}
		r[i] = 1 / diagonal
	}
	for i := range d { // entry (i, j) is Σ_{k ≥ i} (L⁻¹)_ki (L⁻¹)_kj
		r := row(i)
		for j := range i + 1 {
			sum := 0.0
			for k := i; k < d; k++ {
				c := row(k)
				sum += float64(c[i] * c[j])
			}
			r[j] = sum
		}
	}
}

// fadeClock is the clock that new blocks begin with, nil without a half-life.
func (x *mixture) fadeClock() *float64 {
	if x.fade == nil {
		return nil
	}
	return &x.clock
}
