package logged

import (
	"math"
	"slices"
	"strconv"

	"troupe/spec"
)

// Standing is what a law says of the entry of a slot. What it does not say is NaN, or an empty slice.
type Standing struct {
	Conditional float64   // P(this action stands here | the entries above it)
	Prefix      float64   // P(the list begins with the entries up to this one)
	Marginal    float64   // P(this action stands here)
	Law         []float64 // the conditional law over Slot.Allowed
	Marginals   []float64 // P(action a stands here) of all K actions
}

// Clear says that nothing is known, and keeps the storage.
func (s *Standing) Clear() {
	*s = Standing{math.NaN(), math.NaN(), math.NaN(), s.Law[:0], s.Marginals[:0]}
}

// ListLaw is a law of whole lists: list j with the probability P[j], and with the rest, Floor, every permitted list alike.
// A policy of N members with a floor has one: each list that a member plays, and the floor.
//
// Permitted are the lists of different actions where all slots choose from one set, and all combinations where no action
// is in the sets of two slots. A floor above 0 needs one of these cases.
type ListLaw struct {
	Lists [][]int
	P     []float64
	Floor float64
}

// Sets is how the sets of the slots of a list lie.
type Sets int

const (
	SetsOverlap Sets = iota // in another way
	SetsShared              // one set, and no action twice
	SetsOwn                 // no action is in two sets
)

// Sets says how the sets of the slots lie, and how many actions each slot has to choose from at first.
func (e *Event) Sets() (sets Sets, n int) {
	first := e.Slots[0].Allowed
	shared, own, total := true, true, 0
	for l := range e.Slots {
		a := e.Slots[l].Allowed
		total += len(a)
		if shared = shared && len(a)+l == len(first); shared {
			for _, x := range a {
				shared = shared && slices.Contains(first, x)
			}
			for h := range l {
				shared = shared && !slices.Contains(a, e.Slots[h].Allowed[0])
			}
		}
	}
	if shared {
		return SetsShared, len(first)
	}
	seen := make(map[int]int, total)
	for l := range e.Slots {
		for _, x := range e.Slots[l].Allowed {
			if at, is := seen[x]; is && at != l {
				own = false
			}
			seen[x] = l
		}
	}
	if own {
		return SetsOwn, 0
	}
	return SetsOverlap, 0
}

// check looks at a law of the lists of an event.
func (w *ListLaw) check(field string, e *Event) *Error {
	if len(w.P) != len(w.Lists) {
		return bad(field+".p", strconv.Itoa(len(w.P))+" entries", "%d, one for each list", len(w.Lists))
	}
	if !(w.Floor >= 0 && w.Floor <= 1) {
		return bad(field+".floor", number(w.Floor), "a probability")
	}
	sum := w.Floor
	for j, p := range w.P {
		if !(p >= 0 && p <= 1) {
			return bad(field+".p["+strconv.Itoa(j)+"]", number(p), "a probability")
		}
		sum += p
		at := field + ".lists[" + strconv.Itoa(j) + "]"
		if len(w.Lists[j]) != len(e.Slots) {
			return bad(at, strconv.Itoa(len(w.Lists[j]))+" actions", "%d, one for each slot", len(e.Slots))
		}
		for _, a := range w.Lists[j] {
			if a < 0 || a >= e.K {
				return bad(at, "action "+strconv.Itoa(a), "an index from 0 to %d", max(e.K-1, 0))
			}
		}
	}
	if math.Abs(sum-1) > Tolerance {
		return bad(field, "p and floor sum to "+strconv.FormatFloat(sum, 'g', 9, 64), "1")
	}
	if sets, _ := e.Sets(); w.Floor > 0 && sets == SetsOverlap {
		return bad(field+".floor", number(w.Floor), "0 where the sets of the slots overlap in part")
	}
	return nil
}

// Stand stores what the law says of a slot of the event's list.
func (w *ListLaw) Stand(s *Standing, e *Event, slot int) {
	sets, n := e.Sets()
	allowed := e.Slots[slot].Allowed
	floor := func(l int) float64 { // P(first l entries) of a uniform list
		p := 1.0
		for j := range l {
			if sets == SetsShared {
				p /= float64(n - j)
			} else {
				p /= float64(len(e.Slots[j].Allowed))
			}
		}
		return p
	}
	s.Marginals = zeros(s.Marginals, e.K)
	s.Law = zeros(s.Law, len(allowed))
	above := 0.0
	for j, list := range w.Lists {
		s.Marginals[list[slot]] += w.P[j]
		same := true
		for h := range slot {
			same = same && list[h] == e.Slots[h].Allowed[0]
		}
		if !same {
			continue
		}
		above += w.P[j]
		if at := slices.Index(allowed, list[slot]); at >= 0 {
			s.Law[at] += w.P[j]
		}
	}
	if w.Floor > 0 {
		above += float64(w.Floor * floor(slot))
		each := float64(w.Floor * floor(slot+1))
		for i := range s.Law {
			s.Law[i] += each
		}
		from, of := e.Slots[0].Allowed, n
		if sets == SetsOwn {
			from, of = allowed, len(allowed)
		}
		for _, a := range from {
			s.Marginals[a] += w.Floor / float64(of)
		}
	}
	s.Prefix, s.Marginal, s.Conditional = s.Law[0], s.Marginals[allowed[0]], 0
	for i := range s.Law {
		if above > 0 {
			s.Law[i] /= above
		}
	}
	s.Conditional = s.Law[0]
}

// Pair is P(action a stands at slot l and action b at slot h), l ≠ h.
func (w *ListLaw) Pair(e *Event, sets Sets, n, l, a, h, b int) float64 {
	p := 0.0
	for j, list := range w.Lists {
		if list[l] == a && list[h] == b {
			p += w.P[j]
		}
	}
	switch {
	case w.Floor == 0:
	case sets == SetsShared && a != b && slices.Contains(e.Slots[0].Allowed, a) && slices.Contains(e.Slots[0].Allowed, b):
		p += w.Floor / float64(n*(n-1))
	case sets == SetsOwn && slices.Contains(e.Slots[l].Allowed, a) && slices.Contains(e.Slots[h].Allowed, b):
		p += w.Floor / float64(len(e.Slots[l].Allowed)*len(e.Slots[h].Allowed))
	}
	return p
}

func zeros(x []float64, n int) []float64 {
	x = slices.Grow(x[:0], n)[:n]
	clear(x)
	return x
}

// clone returns a copy that shares nothing.
func (w *ListLaw) clone() *ListLaw {
	if w == nil {
		return nil
	}
	c := &ListLaw{P: slices.Clone(w.P), Floor: w.Floor, Lists: slices.Clone(w.Lists)}
	for j := range c.Lists {
		c.Lists[j] = slices.Clone(c.Lists[j])
	}
	return c
}

// clone returns a copy that shares nothing.
func (s *Standing) clone() *Standing {
	if s == nil {
		return nil
	}
	c := *s
	c.Law, c.Marginals = slices.Clone(s.Law), slices.Clone(s.Marginals)
	return &c
}

// lawsOfLists fills what a law of the list says of its slots, and refuses slots that say otherwise.
func (e *Event) lawsOfLists() *Error {
	if w := e.ListLaw; w != nil {
		if err := w.check("list_law", e); err != nil {
			return err
		}
		var s Standing
		for l := range e.Slots {
			o := &e.Slots[l]
			w.Stand(&s, e, l)
			at := "slots[" + strconv.Itoa(l) + "]."
			for _, x := range []struct {
				name string
				had  *float64
				is   float64
			}{{"propensity", &o.Propensity, s.Conditional}, {"prefix", &o.Prefix, s.Prefix}, {"marginal", &o.Marginal, s.Marginal}} {
				if *x.had != 0 && math.Abs(*x.had-x.is) > Tolerance {
					return bad(at+x.name, number(*x.had), "%s, as list_law says", number(x.is))
				}
				*x.had = x.is
			}
			if o.Law == nil {
				o.Law = slices.Clone(s.Law)
			}
			o.Marginals = slices.Clone(s.Marginals)
		}
	}
	if w := e.TargetListLaw; w != nil {
		if err := w.check("target_list_law", e); err != nil {
			return err
		}
		for l := range e.Slots {
			e.Slots[l].Target = &Standing{}
			w.Stand(e.Slots[l].Target, e, l)
		}
	}
	return nil
}

// checkStanding looks at the laws of a slot beside the conditional one. before is the prefix probability of the slot above, 0
// where it is not known.
func (e *Event) checkStanding(l int, before float64, o *Options) *Error {
	s, at := &e.Slots[l], "slots["+strconv.Itoa(l)+"]."
	// obp may have the probability of the whole list alone, which stands at the last position
	if s.Propensity == 0 && s.Prefix == 0 && s.Marginal == 0 && (l == len(e.Slots)-1 || e.Slots[len(e.Slots)-1].Prefix == 0) {
		return bad(at+"propensity", "missing", "propensity, prefix or marginal of what stands there")
	}
	for _, x := range []struct {
		name string
		p    float64
	}{{"propensity", s.Propensity}, {"prefix", s.Prefix}, {"marginal", s.Marginal}} {
		if x.p != 0 {
			if err := checkPropensity(at+x.name, x.p); err != nil {
				return err
			}
		}
	}
	loose := 1 + 1e-6
	switch {
	case s.Prefix > 0 && before > 0 && s.Prefix > before*loose:
		return bad(at+"prefix", number(s.Prefix), "at most %s, that of the slot above", number(before))
	case s.Prefix > 0 && s.Marginal > 0 && s.Prefix > s.Marginal*loose:
		return bad(at+"marginal", number(s.Marginal), "at least the prefix %s, which is rarer", number(s.Prefix))
	case s.Prefix > 0 && s.Propensity > 0 && s.Prefix > s.Propensity*loose:
		return bad(at+"propensity", number(s.Propensity), "at least the prefix %s, which is rarer", number(s.Prefix))
	case s.Hidden && s.Reward != 0:
		return bad(at+"reward", number(s.Reward), "0 where shown is false")
	}
	if s.Marginals == nil {
		return nil
	}
	if len(s.Marginals) != e.K {
		return bad(at+"marginals", strconv.Itoa(len(s.Marginals))+" entries", "%d, one for each action", e.K)
	}
	p := s.Marginal
	if p == 0 {
		p = s.Marginals[s.Allowed[0]]
	}
	var err *Error
	if s.Marginal, err = e.checkPlayed(at+"marginals.", s.Marginals, s.Allowed[0], p, o); err != nil {
		return err
	}
	return checkPropensity(at+"marginal", s.Marginal)
}

// standing reads what the target says of a slot.
func standing(w value, e *Event, at string) (*Standing, *Error) {
	if w.kind() != '{' {
		return nil, w.wrong(at, "an object with propensity, prefix, marginal, law or marginals")
	}
	s := &Standing{}
	s.Clear()
	return s, w.fields(func(key []byte, f value) (err *Error) {
		p := (*float64)(nil)
		switch string(key) {
		case "propensity":
			p = &s.Conditional
		case "prefix":
			p = &s.Prefix
		case "marginal":
			p = &s.Marginal
		case "law":
			s.Law, err = f.list(e, at+".law")
			return err
		case "marginals":
			s.Marginals, err = f.list(e, at+".marginals")
			return err
		default:
			err = bad(at+"."+shown(key), "an unknown key"+spec.Suggest(string(key),
				[]string{"propensity", "prefix", "marginal", "law", "marginals"}), "")
			err.Column, err.Reason = f.at+1, "unknown key"
			return err
		}
		if *p, err = f.number(at + "." + string(key)); err == nil && !(*p >= 0 && *p <= 1) {
			err = f.wrong(at+"."+string(key), "a probability")
		}
		return err
	})
}

// checkTarget looks at what the target says of slot l.
func (e *Event) checkTarget(l int, o *Options) *Error {
	s, at := &e.Slots[l], "slots["+strconv.Itoa(l)+"].target."
	t := s.Target
	if t == nil {
		return nil
	}
	for _, x := range []struct {
		name string
		p    []float64
		n    int
		at   int
		one  *float64
	}{{"law", t.Law, len(s.Allowed), 0, &t.Conditional}, {"marginals", t.Marginals, e.K, s.Allowed[0], &t.Marginal}} {
		if len(x.p) == 0 {
			continue
		}
		if len(x.p) != x.n {
			return bad(at+x.name, strconv.Itoa(len(x.p))+" entries", "%d, one for each action", x.n)
		}
		total := 0.0
		for _, p := range x.p {
			total += p
		}
		if x.name == "law" && total == 0 { // after entries that the target does not play
			*x.one = 0
			continue
		}
		if err := e.checkLaw(at+x.name, x.p, o); err != nil {
			return err
		}
		if !math.IsNaN(*x.one) && math.Abs(*x.one-x.p[x.at]) > Tolerance {
			return bad(at+x.name, number(x.p[x.at]), "%s, the number beside it", number(*x.one))
		}
		*x.one = x.p[x.at]
	}
	return nil
}

// listLaw reads a law of lists.
func listLaw(w value, e *Event, field string) (*ListLaw, *Error) {
	if w.kind() != '{' {
		return nil, w.wrong(field, "an object with lists, p and floor")
	}
	out := &ListLaw{}
	return out, w.fields(func(key []byte, f value) (err *Error) {
		switch string(key) {
		case "floor":
			out.Floor, err = f.number(field + ".floor")
		case "p":
			out.P, err = f.list(e, field+".p")
		case "lists":
			if f.kind() != '[' {
				return f.wrong(field+".lists", "a list of lists of indices")
			}
			return f.each(func(j int, v value) *Error {
				at := field + ".lists[" + strconv.Itoa(j) + "]"
				if v.kind() != '[' {
					return v.wrong(at, "a list of indices")
				}
				var list []int
				bad := v.each(func(_ int, a value) *Error {
					n, err := a.whole(at)
					list = append(list, n)
					return err
				})
				out.Lists = append(out.Lists, list)
				return bad
			})
		default:
			err = bad(field+"."+shown(key), "an unknown key"+spec.Suggest(string(key), []string{"lists", "p", "floor"}), "")
			err.Column, err.Reason = f.at+1, "unknown key"
		}
		return err
	})
}

// appendListLaw writes a law of lists.
func appendListLaw(b []byte, w *ListLaw) []byte {
	b = append(b, `{"lists":[`...)
	for j, list := range w.Lists {
		if j > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for k, a := range list {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(a), 10)
		}
		b = append(b, ']')
	}
	b = appendList(append(b, `],"p":`...), w.P)
	return append(appendNumber(append(b, `,"floor":`...), w.Floor), '}')
}

// appendStanding writes what a target says of a slot.
func appendStanding(b []byte, s *Standing) []byte {
	b = append(b, '{')
	key := func(name string) {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), '"', ':')
	}
	for _, x := range []struct {
		name string
		p    float64
	}{{"propensity", s.Conditional}, {"prefix", s.Prefix}, {"marginal", s.Marginal}} {
		if !math.IsNaN(x.p) {
			key(x.name)
			b = appendNumber(b, x.p)
		}
	}
	for _, x := range []struct {
		name string
		p    []float64
	}{{"law", s.Law}, {"marginals", s.Marginals}} {
		if len(x.p) > 0 {
			key(x.name)
			b = appendList(b, x.p)
		}
	}
	return append(b, '}')
}
