package effects

import (
	"math"
	"slices"
)

// exchanges is the part of a search that looks for better lists where values of candidates repeat.
type exchanges struct {
	again  [][]repeat // by candidate
	x      []float64  // what repeats add
	values int
	has    [][]held   // by candidate: its values, each once
	sums   []sumOf    // what values add
	adds   []float64  // of sums, for a draw
	terms  []int32    // places in x
	with   [][]int32  // by value: the candidates that have it
	stands []standing // by value
	mark   []uint32   // by value
	marks  uint32
	gain   float64 // no more do the values of a candidate add
	most   int     // values of a candidate, with repetition

	start, trial, left []int32
	taken              []bool
	now                []float64
}

// repeat is what a value of a candidate adds where an entry above has the value too.
type repeat struct {
	value int32 // from 0
	x     int32 // place in exchanges.x
}

// held is a value of a candidate, and what it adds: a place in exchanges.adds.
type held struct{ value, sum int32 }

// standing is where a value stands in a list: the first two positions whose entries have it, k where there are none, and what
// the value would add to the entry there if it were above, too.
type standing struct {
	at   [2]int32
	adds [2]float64
}

// sumOf is the sum of x at terms[from:to].
type sumOf struct{ from, to int32 }

// repeats prepares for a request.
func (s *exchanges) repeats(n int, again [][]repeat) {
	s.again, s.values, s.most = again, 0, 0
	s.terms, s.taken, s.sums = s.terms[:0], s.taken[:0], s.sums[:0]
	for len(s.has) < n {
		s.has = append(s.has, nil)
	}
	places := int32(0)
	for _, rs := range again {
		s.taken = append(s.taken, false)
		for _, r := range rs {
			s.values, places = max(s.values, int(r.value)+1), max(places, r.x+1)
		}
	}
	s.x = resize(s.x, int(places))
	if s.values == 0 {
		return
	}
	s.stands = slices.Grow(s.stands[:0], s.values)[:s.values]
	s.mark, s.marks = slices.Grow(s.mark[:0], s.values)[:s.values], 0
	clear(s.mark)
	for len(s.with) < s.values {
		s.with = append(s.with, nil)
	}
	for v := range s.with[:s.values] {
		s.with[v] = s.with[v][:0]
	}
	for i, rs := range again {
		s.has[i], s.most = s.has[i][:0], max(s.most, len(rs))
		for at, r := range rs {
			same := func(o repeat) bool { return o.value == r.value }
			if slices.ContainsFunc(rs[:at], same) {
				continue
			}
			from := len(s.terms)
			for _, o := range rs[at:] {
				if same(o) {
					s.terms = append(s.terms, o.x)
				}
			}
			s.has[i] = append(s.has[i], held{r.value, s.sum(r.value, from)})
			s.with[r.value] = append(s.with[r.value], int32(i))
		}
	}
	s.adds = resize(s.adds, len(s.sums))
}

// sum is the place of a sum of the terms from some place on: mostly that of the first candidate with the value.
func (s *exchanges) sum(value int32, from int) int32 {
	if with := s.with[value]; len(with) > 0 {
		for _, h := range s.has[with[0]] {
			if o := s.sums[h.sum]; h.value == value && slices.Equal(s.terms[o.from:o.to], s.terms[from:]) {
				s.terms = s.terms[:from]
				return h.sum
			}
		}
	}
	s.sums = append(s.sums, sumOf{int32(from), int32(len(s.terms))})
	return int32(len(s.sums) - 1)
}

// drawn computes what values add in a draw.
func (s *exchanges) drawn() {
	s.gain = 0
	for i, o := range s.sums {
		x := 0.
		for _, t := range s.terms[o.from:o.to] {
			x += s.x[t]
		}
		s.adds[i] = x
		s.gain = max(s.gain, x)
	}
	s.gain = float64(s.gain * float64(s.most))
}

// addsTo is what a value of a candidate that has it adds.
func (s *exchanges) addsTo(i, value int32) float64 {
	for _, h := range s.has[i] {
		if h.value == value {
			return s.adds[h.sum]
		}
	}
	return 0
}

func (s *exchanges) holds(i, value int32) bool {
	for _, h := range s.has[i] {
		if h.value == value {
			return true
		}
	}
	return false
}

// worth is the value of a list with its repeats.
func (s *listSearch) worth(list []int32) float64 {
	var sum float64
	s.marks++
	for l, i := range list {
		a := s.a[i]
		for _, r := range s.again[i] {
			if s.mark[r.value] == s.marks {
				a += s.x[r.x]
			}
		}
		for _, r := range s.again[i] {
			s.mark[r.value] = s.marks
		}
		sum += float64(s.e[l]*a) + s.extra[int(i)*s.k+l]
	}
	return sum
}

const (
	exchangeRounds = 4
	exchangeNear   = 12 // candidates beyond k that an exchange may bring in
)

// exchange betters a list where values repeat: from the list given, and from the one that takes, position by position, the
// best candidate after those above, the better; then it swaps two entries, or takes another candidate, as long as that gains.
//
// An exchange changes few terms of the value of a list. Their difference rules out an exchange that loses more than rounding;
// the others are compared by the value of the whole list, so that the same lists are found as without the difference.
func (s *listSearch) exchange(out []int32) {
	s.drawn()
	rounding := s.rounding()
	if !s.shape.Apart && s.shape.Allowed == nil {
		s.start = resizeInts(s.start, s.k)
		s.greedy(s.start, rounding)
		if s.worth(s.start) > s.worth(out) {
			copy(out, s.start)
		}
	}
	for _, i := range out {
		s.taken[i] = true
	}
	s.trial = append(s.trial[:0], out...)
	have, loss := s.worth(out), -rounding
	most := float64(slices.Max(s.e) * s.gain)
	s.stand(out)
	last := s.k // the position at which an exchange gained last
	for range exchangeRounds {
		gained := false
		for l := range s.k {
			for h := range l {
				if s.swapped(out, h, l) < loss || !s.allowed(h, int(out[l])) || !s.allowed(l, int(out[h])) {
					continue
				}
				x, y := out[h], out[l]
				s.trial[h], s.trial[l] = y, x
				if v := s.worth(s.trial); v > have {
					out[h], out[l], have, gained, last = y, x, v, true, l
					s.stand(out)
				} else {
					s.trial[h], s.trial[l] = x, y
				}
			}
			own := s.at(l, out[l])
			for q, i := range s.sorted {
				if !s.places && float64(s.e[l]*s.largest[q])+most-own < loss { // as are those behind it
					break
				}
				if s.taken[i] || s.at(l, i)-own < loss || !s.allowed(l, int(i)) {
					continue
				}
				was := out[l]
				s.trial[l] = i
				if v := s.worth(s.trial); v > have {
					s.taken[was], s.taken[i] = false, true
					out[l], have, gained, last = i, v, true, l
					s.stand(out)
					own = s.at(l, i)
				} else {
					s.trial[l] = was
				}
			}
			if !gained && l == last { // below it everything was tried on this list
				break
			}
		}
		if !gained {
			break
		}
	}
	for _, i := range out {
		s.taken[i] = false
	}
}

// rounding is more than the error of a difference of two values of lists: 8·(k + r)·2⁻⁵²·Σ of the largest terms, for r
// repeats of a candidate.
func (s *listSearch) rounding() float64 {
	var a, x, extra, e float64
	for _, v := range s.a[:s.n] {
		a = max(a, math.Abs(v))
	}
	for _, v := range s.x {
		x = max(x, math.Abs(v))
	}
	if s.places {
		for _, v := range s.extra {
			extra = max(extra, math.Abs(v))
		}
	}
	for _, v := range s.e {
		e += v
	}
	sum := float64(e*(a+float64(float64(s.most)*x))) + float64(float64(s.k)*extra)
	return float64(8 * float64(s.k+s.most+1) * 0x1p-52 * sum)
}

// stand notes where the values of a list stand.
func (s *listSearch) stand(list []int32) {
	none := int32(s.k)
	for v := range s.stands {
		s.stands[v] = standing{at: [2]int32{none, none}}
	}
	for l, i := range list {
		for _, h := range s.has[i] {
			v := &s.stands[h.value]
			for q, at := range v.at {
				if at == none {
					v.at[q], v.adds[q] = int32(l), float64(s.e[l]*s.adds[h.sum])
					break
				}
			}
		}
	}
}

// repeated is what one more entry with a value adds at position l to a list, in which the entry at position but does not count:
// to itself where one above has the value, otherwise to the one below that had it first.
func (s *listSearch) repeated(h held, l, but int) float64 {
	v := &s.stands[h.value]
	q := 0
	if int(v.at[0]) == but {
		q = 1
	}
	if int(v.at[q]) < l {
		return float64(s.e[l] * s.adds[h.sum])
	}
	return v.adds[q]
}

// at is what candidate i adds at position l to the value of a list without the entry there.
func (s *listSearch) at(l int, i int32) float64 {
	v := float64(s.e[l] * s.a[i])
	if s.places {
		v += s.extra[int(i)*s.k+l]
	}
	for _, h := range s.has[i] {
		v += s.repeated(h, l, l)
	}
	return v
}

// swapped is what a list gains where the entries at h < l are exchanged.
func (s *listSearch) swapped(list []int32, h, l int) float64 {
	x, y := list[h], list[l]
	v := float64((s.e[h] - s.e[l]) * (s.a[y] - s.a[x]))
	if s.places {
		at := func(i int32, l int) float64 { return s.extra[int(i)*s.k+l] }
		v += at(y, h) + at(x, l) - at(x, h) - at(y, l)
	}
	for _, of := range s.has[x] {
		if !s.holds(y, of.value) {
			v += s.repeated(of, l, h) - s.repeated(of, h, h)
			continue
		}
		more := s.addsTo(y, of.value) - s.adds[of.sum]
		v -= float64(s.e[l] * more)
		if int(s.stands[of.value].at[0]) < h {
			v += float64(s.e[h] * more)
		}
	}
	for _, of := range s.has[y] {
		if !s.holds(x, of.value) {
			v += s.repeated(of, h, l) - s.repeated(of, l, l)
		}
	}
	return v
}

// greedy fills the positions in their order with the best candidate after those above. It looks at the candidates of the largest
// attractions first, and at the others where what repeats may bring one of them ahead.
func (s *listSearch) greedy(out []int32, rounding float64) {
	s.now = append(s.now[:0], s.a[:s.n]...)
	s.left = append(s.left[:0], s.sorted...)
	s.marks++
	gain, end := 0., s.largest[len(s.largest)-1] // of a value above; no other candidate has more than end without
	for l := range s.k {
		best, at, e := math.Inf(-1), int32(-1), s.e[l]
		look := func(i int32) {
			v := float64(e * s.now[i])
			if s.places {
				v += s.extra[int(i)*s.k+l]
			}
			if at < 0 || v > best || v == best && i < at {
				best, at = v, i
			}
		}
		for _, i := range s.left {
			look(i)
		}
		if len(s.sorted) < s.n && (s.places || at < 0 || !(best > float64(e*(end+float64(gain*float64(s.most))))+rounding)) {
			best, at = math.Inf(-1), -1
			for i := range int32(s.n) {
				if !slices.Contains(out[:l], i) {
					look(i)
				}
			}
		}
		out[l] = at
		if q := slices.Index(s.left, at); q >= 0 {
			s.left = slices.Delete(s.left, q, q+1)
		}
		for _, h := range s.has[at] {
			if s.mark[h.value] == s.marks {
				continue
			}
			s.mark[h.value] = s.marks
			for _, j := range s.with[h.value] {
				a := s.a[j]
				for _, r := range s.again[j] {
					if s.mark[r.value] == s.marks {
						a += s.x[r.x]
					}
				}
				s.now[j] = a
				gain = max(gain, s.addsTo(j, h.value))
			}
		}
	}
}
