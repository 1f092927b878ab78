package policy

import (
	"math"
	"slices"

	"troupe/internal/logs"
)

// This file is change = "restarts" of hashed. A small model then has up to mostStarts starts: copies of it that began
// at different times, each with what it has learned since. Start i is the hypothesis that the rewards follow one law
// since event born_i. Every startGap events one begins anew, with the prior weight of a change in that time. Starts
// are weighted by what they predicted (Adams & MacKay 2007; Fearnhead & Liu 2007), with three differences from
// Restarts:
//
//   - Which start gives way: one that is startDead behind, else the one whose neighbours are nearest in time,
//     relative to its age. So ages are spread as powers of two, and a start that needs long to win has that long.
//   - A change is stated when what was there before had eight events for each of its coefficients: a young start that
//     expects the mean everywhere is better than one that has seen most of 300 actions once.
//   - The noise is common to all starts of a model, and where rewards have two values a start is weighted by
//     y·log p + (1 − y)·log(1 − p), not as Gaussian: otherwise a run of equal rewards, common where clicks are rare,
//     would look like a change of the noise.
//
// The law is a count as before: the weight of a model, a multiple of 2⁻¹⁶, is split among its starts in such multiples.

// Constants of restarts. docs/record/change.md says how they were chosen.
const (
	mostStarts   = 6
	startGap     = 50        // events between two beginnings g
	startHazard  = 1. / 5000 // prior probability of a change at an event h
	startReach   = 20        // a model that is further behind the best one has one start
	startDead    = -20       // log weight of a start that gives way first
	startKept    = -3        // log weight above which a start does not give way
	startLow     = .1        // a start with a smaller weight does not play
	startSure    = .98       // posterior at which a change is stated
	startKnown   = 8         // events for each coefficient before a change that is stated
	startNoise   = 1000      // events that σ̂² is the mean of, nearly
	startFloor   = 1e-12     // least σ̂², for rewards that are equal for long
	startWidth   = 1e-6      // least difference of two rewards, in a range that others have widened
	startClip    = .002      // least probability of a reward with two values
	startOdd     = 100       // rewards have two values when at most one of so many has another one
	restartShare = 4         // a start that began later has a quarter of the entries of covariances
)

// changes is what a mixture with restarts knows of its rewards.
type changes struct {
	on        bool
	met       int // different rewards, at most 2
	low, high float64
	odd       uint64  // rewards that are neither
	unit      float64 // what prior variances are multiplied by

	last  Change // the change that was stated last
	means [2]float64
}

// MeanChange is what Hashed has noticed.
type MeanChange struct {
	Change
	Before, After float64 // mean rewards before and since
}

// Noticer is implemented by policies that may notice a change of the rewards.
type Noticer interface {
	// Changed returns the last change that was noticed; Seen is 0 without one. Before and After are 0 where the
	// policy does not know them.
	Changed() MeanChange
}

var (
	_ Noticer = (*Hashed)(nil)
	_ Noticer = (*Restarts)(nil)
)

// Changed implements Noticer.
func (r *Restarts) Changed() MeanChange { return MeanChange{Change: r.last} }

// Changed returns the last change that was noticed; Seen is 0 without one.
func (h *Hashed) Changed() MeanChange {
	if h.mix == nil {
		return MeanChange{}
	}
	c := MeanChange{Change: h.mix.changes.last}
	if width := h.numbers[1] - h.numbers[0]; c.Seen > 0 {
		c.Before = h.numbers[0] + float64(width*h.mix.changes.means[0])
		c.After = h.numbers[0] + float64(width*h.mix.changes.means[1])
	}
	return c
}

func (s *smallModel) starts() int { return 1 + len(s.later) }

// start returns one of them, oldest first. It is valid until one begins.
func (s *smallModel) start(i int) *smallStart {
	if i == 0 {
		return &s.smallStart
	}
	return &s.later[i-1]
}

// own gives the model starts of its own, which o has, too.
func (s *smallModel) own(o *smallModel, later []smallStart) {
	*s = *o
	s.later = append(later[:0], o.later...)
	s.age(1)
}

// age makes blocks of the starts be copied before they are changed (1), or takes that back (−1).
func (s *smallModel) age(by int) {
	for i := range s.starts() {
		s.start(i).gen += uint64(by)
	}
}

// likeliest returns the start with the largest weight.
func (s *smallModel) likeliest() int {
	best := 0
	for i := range s.later {
		if s.later[i].trust > s.start(best).trust {
			best = i + 1
		}
	}
	return best
}

// shares returns the weights of the starts; their sum is 1. Those below low are 0.
func (s *smallModel) shares(dst []float64, low float64) []float64 {
	dst = fit(dst, s.starts())
	best := s.likeliest()
	var sum, play float64
	for i := range dst {
		dst[i] = logs.Exp(max(s.start(i).trust-s.start(best).trust, -700))
		sum += dst[i]
	}
	for i, v := range dst {
		if v < float64(low*sum) && i != best {
			dst[i] = 0
		}
		play += dst[i]
	}
	for i := range dst {
		dst[i] /= play
	}
	return dst
}

// part is what plays with a weight: a model, in the order of weights, and its start.
type part struct {
	model, start int
	w            uint32
}

// parts returns what plays. The sum of the weights is weightTotal.
func (x *mixture) parts() []part {
	out := x.playing[:0]
	for k, w := range x.weights() {
		if w == 0 {
			continue
		}
		if k >= len(x.smalls) || len(x.smalls[k].later) == 0 {
			out = append(out, part{k, 0, w})
			continue
		}
		s := x.smalls[k]
		x.likely = s.shares(x.likely, startLow)
		left, most := w, len(out)
		for i, v := range x.likely {
			p := part{k, i, uint32(float64(v * float64(w)))}
			if left -= p.w; i == s.likeliest() {
				most = len(out)
			}
			out = append(out, p)
		}
		out[most].w += left
	}
	out = slices.DeleteFunc(out, func(p part) bool { return p.w == 0 })
	x.playing = out
	return out
}

// offsetOf returns the mean reward with which an action begins in a start.
func (x *mixture) offsetOf(t *smallStart) float64 {
	if t.born == 0 {
		return x.offset()
	}
	return t.sum / (1 + float64(t.n))
}

// meet learns which rewards there are.
func (c *changes) meet(y float64) {
	switch {
	case c.met == 0:
		c.met, c.low, c.high = 1, y, y
	case y == c.low || y == c.high:
	case c.met == 1:
		c.met, c.low, c.high = 2, min(c.low, y), max(c.high, y)
	default:
		c.odd++
	}
}

// evidence is a reward as it weighs starts.
type evidence struct {
	binary    bool
	none      bool // it says nothing
	hit       bool
	low, high float64 // in the units of the models
}

func (x *mixture) evidence(y, lo, hi float64) evidence {
	c := &x.changes
	e := evidence{binary: c.met < 2 || c.odd*startOdd <= x.n}
	if c.unit = 1; !e.binary {
		return e
	}
	e.none = c.met < 2 || y != c.low && y != c.high
	e.hit = y == c.high
	if e.low, e.high = (c.low-lo)/(hi-lo), (c.high-lo)/(hi-lo); c.met < 2 {
		return e
	}
	width := e.high - e.low
	if width < startWidth { // next to the range they are one
		return evidence{}
	}
	if x.fields.rules >= 2 && x.n < startOdd { // two rewards that differ are no sign yet that there are no others
		return e
	}
	c.unit = float64(width * width)
	return e
}

// like returns the log likelihood of the reward under a start that expects z; gauss is that of a normal one.
func (e *evidence) like(z, gauss float64) float64 {
	switch {
	case e.none:
		return 0
	case !e.binary:
		return gauss
	}
	p := min(max((z-e.low)/(e.high-e.low), startClip), 1-startClip)
	if !e.hit {
		p = 1 - p
	}
	return logs.Log(p)
}

// terms fills in φ of the atoms that list has read, or that were set, under a model, and returns the key of its
// block. With restarts, prior variances are in units of the squared difference of the rewards where these have two
// values: one that was far outside has widened the range for good, and would make all that begins later hard to tell
// from noise.
func (x *mixture) terms(s *smallModel) (block uint64) {
	block, x.phi = s.terms(x.phi[:0], &x.atoms, x.fields)
	if x.changes.on {
		for k := range x.phi {
			x.phi[k].prior *= x.changes.unit
		}
	}
	return block
}

// learnStarts folds a reward into all starts of a model, and returns the log likelihood under the likeliest. w is
// scratch space of at least sharedLimit.
func (x *mixture) learnStarts(s *smallModel, block uint64, y float64, e *evidence, w []float64) (like float64) {
	if len(x.phi) >= s.limit() {
		s.giveUp()
		return 0
	}
	best, variance := s.likeliest(), max(s.noise, startFloor)
	var square float64
	for i := range s.starts() {
		t := s.start(i)
		offset := x.offsetOf(t)
		_, z, q := t.predict(x.phi, block, offset)
		err, v := y-z, variance+q
		gauss := -float64(.5 * (logs.Log(v) + float64(err*err)/v))
		if i == best {
			like, square = gauss, float64(float64(err*err)*variance)/v
		}
		t.trust += e.like(z, gauss)
		t.sum += y
		t.fold(x.phi, block, offset, err, variance, w, x.fadeClock())
	}
	s.heard = min(s.heard+1, startNoise)
	s.noise += (square - s.noise) / s.heard
	s.rss += square
	return like
}

// restart begins a start in every model that is not far behind.
func (x *mixture) restart() {
	best := x.best()
	for _, s := range x.smalls {
		switch {
		case s.gone:
		case s.like < best-startReach:
			s.narrow()
		default:
			x.beginStart(s)
		}
	}
}

// best is the largest log likelihood of a model.
func (x *mixture) best() float64 {
	best := math.Inf(-1)
	for _, s := range x.smalls {
		if !s.gone {
			best = max(best, s.like)
		}
	}
	for k, l := range x.likes {
		if !x.gone[k] {
			best = max(best, l)
		}
	}
	return best
}

// narrow leaves the likeliest start alone.
func (s *smallModel) narrow() {
	s.smallStart = *s.start(s.likeliest())
	s.trust, s.later = 0, nil
}

func (x *mixture) beginStart(s *smallModel) {
	best := s.likeliest()
	var sum float64
	most := s.start(best).trust
	for i := range s.starts() {
		sum += logs.Exp(max(s.start(i).trust-most, -700))
	}
	total := most + logs.Log(sum)
	for i := range s.starts() {
		s.start(i).trust -= total
	}
	first := x.offsetOf(s.start(best))
	if s.starts() == mostStarts {
		s.give(x.n)
	}
	s.later = append(s.later, smallStart{kind: s.kind, born: x.n, first: first, sum: first,
		trust: logs.Log(startGap * startHazard), gen: s.gen, listed: s.gen})
}

// give takes a start away.
func (s *smallModel) give(now uint64) {
	least := 0
	for i := range s.starts() {
		if s.start(i).trust < s.start(least).trust {
			least = i
		}
	}
	if s.start(least).trust >= startDead {
		least = -1
		var density float64
		for i := 1; i < s.starts(); i++ {
			next := now
			if i < len(s.later) {
				next = s.start(i + 1).born
			}
			d := float64(next-s.start(i-1).born) / float64(now-s.start(i).born+startGap)
			if s.start(i).trust < startKept && (least < 0 || d < density) {
				least, density = i, d
			}
		}
		if least < 0 { // at most e³ have such weights
			least = len(s.later)
		}
	}
	if least == 0 {
		s.smallStart, least = s.later[0], 1
	}
	s.later = slices.Delete(s.later, least-1, least)
}

// coefficients is how many the start has.
func (t *smallStart) coefficients() (n int) {
	for _, b := range t.blocks {
		n += len(b.mean)
	}
	return n
}

// notice states a change once its posterior is large enough.
func (x *mixture) notice() {
	c := &x.changes
	lead := -1
	for k, s := range x.smalls {
		if !s.gone && (lead < 0 || s.like > x.smalls[lead].like) {
			lead = k
		}
	}
	if lead < 0 {
		return
	}
	s := x.smalls[lead]
	t := s.start(s.likeliest())
	if t.born <= c.last.Seen || t.returned() {
		return
	}
	best := x.best()
	var younger, all float64
	for _, o := range x.smalls {
		if o.gone || o.like < best-20 {
			continue
		}
		w := logs.Exp(o.like - best)
		all += w
		x.likely = o.shares(x.likely, 0)
		for i, v := range x.likely {
			if t := o.start(i); t.born > c.last.Seen && !t.returned() {
				younger += float64(w * v)
			}
		}
	}
	for k, l := range x.likes {
		if !x.gone[k] && l >= best-20 {
			all += logs.Exp(l - best)
		}
	}
	p := younger / all
	if p < startSure || t.born-c.last.At < startKnown*uint64(s.smallStart.coefficients()) {
		return
	}
	c.last = Change{At: t.born, Seen: x.n, Posterior: p}
	c.means = [2]float64{t.first, t.sum / (1 + float64(t.n))}
}
