package api

import (
	"unicode/utf8"

	"troupe/serve"
)

// scan reads the bodies of the hot routes (hot.go) in one pass, without copying what package feature reads again. It
// knows plain JSON only: what it does not accept is not an error but left to decodeJSON, which decides and names the
// field. What it accepts, decodeJSON accepts with the same values; TestPathsAgree and FuzzPathsAgree hold it to that.
// Raw values and what it returns belong to the body.
type scan struct {
	in plainJSON // the body

	ids       []byte  // text of the ids that were read
	pieces    []piece // their places
	actions   []serve.Action
	available []bool
	numbers   []float64
	decides   []serve.DecideRequest
	rewards   []serve.RewardRequest
}

// piece is an id: ids[from:to], for a place that is a string.
type piece struct {
	from, to int
	into     *string
}

// begin prepares for a body. It reports whether the body is UTF-8.
func (s *scan) begin(body []byte) bool {
	s.in.b, s.in.i, s.in.names = body, 0, s.in.names[:0]
	s.ids, s.pieces, s.actions, s.available, s.numbers = s.ids[:0], s.pieces[:0], s.actions[:0], s.available[:0],
		s.numbers[:0]
	s.decides, s.rewards = s.decides[:0], s.rewards[:0]
	return utf8.Valid(body)
}

// end forgets the texts of a body, so that the scanner can wait for the next one.
func (s *scan) end() {
	s.in.b = nil
	clear(s.pieces)
	clear(s.actions)
	clear(s.decides)
	clear(s.rewards)
}

// id reads an id of printable ASCII. It is stored when all are read, by settle.
func (s *scan) id(into *string) bool {
	t, ok := s.in.text()
	for _, c := range t {
		if c < ' ' || c > '~' {
			return false
		}
	}
	s.pieces = append(s.pieces, piece{len(s.ids), len(s.ids) + len(t), into})
	s.ids = append(s.ids, t...)
	return ok
}

// settle stores the ids, which share one string.
func (s *scan) settle() {
	all := string(s.ids)
	for _, p := range s.pieces {
		*p.into = all[p.from:p.to]
	}
}

// idList reads a list of ids.
func (s *scan) idList(into *[]string, depth, most int) bool {
	first := len(s.pieces)
	if !s.in.list(depth, func() bool { return len(s.pieces)-first < most && s.id(nil) }) {
		return false
	}
	*into = make([]string, len(s.pieces)-first)
	for i := range *into {
		s.pieces[first+i].into = &(*into)[i]
	}
	return true
}

var decideFields = []string{"context", "actions", "packed", "ids", "available", "exclude", "baseline", "mode",
	"defer_activation", "min_seq", "explain", "costs", "numbers"}

// decide reads a decideBody.
func (s *scan) decide(r *serve.DecideRequest, depth, most int) bool {
	return s.in.fields(depth, decideFields, func(field int) bool {
		switch field {
		case 0:
			return s.in.raw(&r.Context, depth+1)
		case 1:
			first, at := len(s.actions), len(s.pieces)
			if !s.in.list(depth+1, func() bool { return len(s.actions)-first < most && s.action(depth+2) }) {
				return false
			}
			if r.Actions = s.actions[first:len(s.actions):len(s.actions)]; r.Actions == nil {
				r.Actions = []serve.Action{}
			}
			for i := range r.Actions { // stay where they are from now on
				if a := &r.Actions[i]; a.ID != "" {
					s.pieces[at].into = &a.ID
					at++
				}
			}
			return true
		case 2:
			return s.in.raw(&r.Packed, depth+1)
		case 3:
			return s.idList(&r.IDs, depth+1, most)
		case 4:
			first := len(s.available)
			if !s.in.list(depth+1, func() bool {
				var v bool
				ok := s.in.truth(&v)
				s.available = append(s.available, v)
				return ok && len(s.available)-first <= most
			}) {
				return false
			}
			if r.Available = s.available[first:len(s.available):len(s.available)]; r.Available == nil {
				r.Available = []bool{}
			}
			return true
		case 5:
			return s.idList(&r.Exclude, depth+1, most)
		case 6:
			n, ok := s.in.whole()
			at := int(n)
			r.Baseline = &at
			return ok && n < 1<<31
		case 7:
			t, ok := s.in.text()
			for _, m := range []serve.Mode{serve.Online, serve.Apprentice, serve.Shadow, serve.Frozen, serve.Guarded} {
				if string(t) == string(m) {
					r.Mode = m
					return ok
				}
			}
			return false
		case 8:
			return s.in.truth(&r.Deferred)
		case 9:
			n, ok := s.in.whole()
			r.MinSeq = n
			return ok
		case 11:
			first := len(s.numbers)
			if !s.in.list(depth+1, func() bool {
				_, ok := s.cost()
				return ok && len(s.numbers)-first <= most
			}) {
				return false
			}
			if r.Costs = s.numbers[first:len(s.numbers):len(s.numbers)]; r.Costs == nil {
				r.Costs = []float64{}
			}
			return true
		case 12:
			r.Numbers = []serve.NumberAsk{}
			return s.in.list(depth+1, func() bool {
				r.Numbers = append(r.Numbers, serve.NumberAsk{})
				return len(r.Numbers) <= mostNumbers && s.numberAsk(&r.Numbers[len(r.Numbers)-1], depth+2)
			})
		}
		t, ok := s.in.text()
		r.Explain = string(t) == "full"
		return ok && r.Explain
	})
}

// mostNumbers is how many numbers a request may have.
const mostNumbers = 3

var numberFields = []string{"name", "min", "max", "step", "cyclic", "log"}

// numberAsk reads what a request says of a number.
func (s *scan) numberAsk(n *serve.NumberAsk, depth int) bool {
	return s.in.fields(depth, numberFields, func(field int) (ok bool) {
		switch field {
		case 0:
			n.Name, ok = s.in.printable()
			return ok && n.Name != ""
		case 1:
			n.Min, ok = s.cost()
		case 2:
			n.Max, ok = s.cost()
		case 3:
			n.Step, ok = s.cost()
		case 4:
			n.Cyclic = new(bool)
			ok = s.in.truth(n.Cyclic)
		case 5:
			n.Log = new(bool)
			ok = s.in.truth(n.Log)
		}
		return ok
	})
}

// someID takes the place of an id that is read and not yet stored.
const someID = "?"

var actionFields = []string{"id", "features", "cost", "numbers"}

// action reads a candidate.
func (s *scan) action(depth int) bool {
	var a serve.Action
	ok := s.in.fields(depth, actionFields, func(field int) bool {
		switch field {
		case 1:
			return s.in.raw(&a.Features, depth+1)
		case 2:
			c, ok := s.cost()
			a.Cost = c
			return ok
		case 3:
			a.Numbers = []string{}
			return s.in.list(depth+1, func() bool {
				t, ok := s.in.printable()
				a.Numbers = append(a.Numbers, t)
				return ok && len(a.Numbers) <= mostNumbers
			})
		}
		n := len(s.ids)
		if !s.id(nil) {
			return false
		}
		if len(s.ids) == n { // refused, with its field
			return false
		}
		a.ID = someID
		return true
	})
	s.actions = append(s.actions, a)
	return ok
}

// oneDecide reads a whole body of :decide.
func (s *scan) oneDecide(most int) bool {
	s.decides = append(s.decides, serve.DecideRequest{})
	if !s.decide(&s.decides[0], 0, most) || !s.in.over() {
		return false
	}
	s.settle()
	return true
}

// manyDecides reads a whole body of :decideBatch.
func (s *scan) manyDecides(most, requests int) bool {
	ok := s.in.fields(0, []string{"requests"}, func(int) bool {
		return s.in.list(1, func() bool {
			if len(s.decides) == requests {
				return false
			}
			s.decides = append(s.decides, serve.DecideRequest{})
			return s.decide(&s.decides[len(s.decides)-1], 2, most)
		})
	})
	if !ok || !s.in.over() || len(s.decides) == 0 {
		return false
	}
	s.settle()
	return true
}

// cost reads a number. Its place stays as it is until the next body.
func (s *scan) cost() (*float64, bool) {
	var v float64
	ok := s.in.float(&v)
	s.numbers = append(s.numbers, v)
	return &s.numbers[len(s.numbers)-1], ok
}

var rewardFields = []string{"value", "cost", "key", "event_id"}

// reward reads a reward, with its event in a batch. Its value or its cost must be there.
func (s *scan) reward(r *serve.RewardRequest, depth, fields int) bool {
	value := false
	r.OnlyCost = true
	ok := s.in.fields(depth, rewardFields[:fields], func(field int) bool {
		switch field {
		case 0:
			value, r.OnlyCost = true, false
			return s.in.float(&r.Value)
		case 1:
			c, ok := s.cost()
			value, r.Cost = true, c
			return ok
		case 2:
			t, ok := s.in.text()
			r.Key = string(t)
			return ok
		}
		t, ok := s.in.text()
		r.EventID = string(t)
		return ok
	})
	return ok && value
}

// oneReward reads a whole body of :reward.
func (s *scan) oneReward() bool {
	s.rewards = append(s.rewards, serve.RewardRequest{})
	return s.reward(&s.rewards[0], 0, 3) && s.in.over()
}

// manyRewards reads a whole body of rewards:batch.
func (s *scan) manyRewards(most int) bool {
	ok := s.in.fields(0, []string{"rewards"}, func(int) bool {
		return s.in.list(1, func() bool {
			if len(s.rewards) == most {
				return false
			}
			s.rewards = append(s.rewards, serve.RewardRequest{})
			return s.reward(&s.rewards[len(s.rewards)-1], 2, 4)
		})
	})
	return ok && s.in.over() && len(s.rewards) > 0
}
