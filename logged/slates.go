package logged

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// The arrays of obp's slates: a row is a position of a list (slate_id), rows of one list follow each other. pscore is the probability of
// the whole list, pscore_cascade that of the entries up to the row, pscore_item_position that of the entry at its position; the same of a
// target with evaluation_policy_ before them. Other names are left alone.
var npzListNames = []string{"slate_id", "action", "position", "reward", "pscore", "pscore_cascade", "pscore_item_position",
	"evaluation_policy_pscore", "evaluation_policy_pscore_cascade", "evaluation_policy_pscore_item_position", "context",
	"action_context"}

// slates makes lists of rows.
type slates struct {
	r       *Reader
	k       int
	actions [][]float64
	pull    func() (map[string]float64, error) // the next row, io.EOF after the last
	context func(e *Event) error               // of the next list, nil: none
	close_  func() error
	at      func() (line, row int) // of the row that was read last
	ahead   map[string]float64     // that row, nil: none
	first   [2]int                 // where the list began
	failed  error                  // of the row after a list
}

func (s *slates) close() error { return s.close_() }

func (s *slates) place() (line, column, row int) { return s.first[0], 0, s.first[1] }

// listShapes checks the arrays of slates.
func (s *npzSource) listShapes() error {
	fault := func(name, found, want string) error {
		return &Error{Field: name, Found: found, Want: want, fatal: true}
	}
	for _, name := range []string{"action", "position", "reward"} {
		if s.a[name] == nil {
			return fault(name, "no such array", "one beside slate_id")
		}
	}
	if s.a["pscore"] == nil && s.a["pscore_cascade"] == nil && s.a["pscore_item_position"] == nil {
		return fault("pscore", "no such array", "pscore, pscore_cascade or pscore_item_position beside slate_id")
	}
	s.n = -1
	for _, name := range npzListNames {
		a := s.a[name]
		switch {
		case a == nil:
			continue
		case name == "action_context":
			if len(a.shape) != 2 || a.shape[0] > MaxActions {
				return fault(name, fmt.Sprint("shape ", a.shape), "(actions, numbers)")
			}
			for range a.shape[0] {
				x, err := a.next()
				if err != nil {
					return err
				}
				s.actions = append(s.actions, slices.Clone(x))
			}
			s.k = a.shape[0]
			continue
		case name == "context": // a row for each list
			if len(a.shape) != 2 {
				return fault(name, fmt.Sprint("shape ", a.shape), "(lists, numbers)")
			}
			continue
		case len(a.shape) > 1 && a.width == 1:
			a.shape = a.shape[:1]
		}
		if len(a.shape) != 1 || s.n >= 0 && a.shape[0] != s.n {
			return fault(name, fmt.Sprint("shape ", a.shape), "(rows,), as slate_id has")
		}
		s.n = a.shape[0]
	}
	if s.k == 0 {
		s.k = s.r.o.Actions
	}
	if s.k == 0 {
		return fault("actions", "their number is nowhere", "--actions K, or action_context")
	}
	return nil
}

// row reads the next row of the arrays.
func (s *npzSource) listRow() (map[string]float64, error) {
	if s.row == s.n {
		return nil, io.EOF
	}
	s.row++
	out := map[string]float64{}
	for name, a := range s.a {
		if name == "action_context" || name == "context" {
			continue
		}
		x, err := a.next()
		if err != nil {
			return nil, err
		}
		out[name] = x[0]
	}
	return out, nil
}

// slates reads the arrays as lists.
func (s *npzSource) slates() *slates {
	out := &slates{r: s.r, k: s.k, actions: s.actions, pull: s.listRow, close_: s.close, at: func() (int, int) { return 0, s.row }}
	if a := s.a["context"]; a != nil {
		out.context = func(e *Event) error {
			x, err := a.next()
			if err == nil {
				e.Context = e.numbers(len(x))
				copy(e.Context, x)
			}
			return err
		}
	}
	return out
}

// slates reads a table with a column slate_id as lists.
func (t *table) slates() (source, error) {
	columns := map[string]int{}
	for _, name := range npzListNames {
		if i := slices.Index(t.header, name); i >= 0 {
			columns[name] = i
		}
	}
	for _, name := range []string{"action", "position", "reward"} {
		if _, is := columns[name]; !is {
			return nil, &Error{Line: 1, Field: name, Found: "no such column", Want: "one beside slate_id", fatal: true}
		}
	}
	if t.r.o.Actions == 0 {
		return nil, &Error{Line: 1, Field: "actions", Found: "their number is nowhere", Want: "--actions K", fatal: true}
	}
	return &slates{r: t.r, k: t.r.o.Actions, close_: func() error { return nil },
		at: func() (int, int) { line, _, _ := t.place(); return line, 0 },
		pull: func() (map[string]float64, error) {
			if err := t.next(); err != nil {
				return nil, err
			}
			out := map[string]float64{}
			for name, c := range columns {
				x, err := t.number(name, -1, c)
				if err != nil {
					return nil, err
				}
				out[name] = x
			}
			return out, nil
		}}, nil
}

func (s *slates) next(e *Event) error {
	var err error
	if s.ahead == nil {
		if s.failed != nil {
			err, s.failed = s.failed, nil
			return err
		}
		if s.ahead, err = s.pull(); err != nil {
			return err
		}
	}
	id := s.ahead["slate_id"]
	s.first[0], s.first[1] = s.at()
	var rows []map[string]float64
	for {
		rows = append(rows, s.ahead)
		if len(rows) > mostRows {
			return &Error{Line: s.first[0], Row: s.first[1], Field: "slate_id", Found: "more than 1000 rows of one list", Want: "at most 1000", fatal: true}
		}
		if s.ahead, err = s.pull(); err != nil {
			s.ahead, s.failed = nil, err
			break
		}
		if s.ahead["slate_id"] != id {
			break
		}
	}
	if s.context != nil {
		if err := s.context(e); err != nil {
			return err
		}
	}
	if fault := s.list(e, rows); fault != nil {
		fault.Line, fault.Row = s.first[0], s.first[1]
		return fault
	}
	return nil
}

// mostRows bounds a list.
const mostRows = 1000

// list makes one event of rows.
func (s *slates) list(e *Event, rows []map[string]float64) *Error {
	e.K, e.Position = s.k, NoPosition
	for _, x := range s.actions {
		e.action().X = x
	}
	slices.SortStableFunc(rows, func(a, b map[string]float64) int { return int(a["position"]) - int(b["position"]) })
	var above []int
	for l, row := range rows {
		at := "slots[" + strconv.Itoa(l) + "]"
		for _, name := range []string{"slate_id", "action", "position"} {
			if v := row[name]; v != math.Trunc(v) || math.Abs(v) > 1<<53 {
				return bad(at+"."+name, number(v), "a whole number")
			}
		}
		a := int(row["action"])
		switch {
		case a < 0 || a >= s.k:
			return bad(at+".action", strconv.Itoa(a), "an index from 0 to %d", s.k-1)
		case slices.Contains(above, a):
			return bad(at+".action", strconv.Itoa(a), "no action twice in a list (JSON lines say which actions a position may have)")
		case l > 0 && row["position"] == rows[l-1]["position"]:
			return bad(at+".position", number(row["position"]), "each position once")
		}
		o := Slot{Allowed: []int{a}, Reward: row["reward"], Prefix: row["pscore_cascade"], Marginal: row["pscore_item_position"]}
		for b := range s.k {
			if b != a && !slices.Contains(above, b) {
				o.Allowed = append(o.Allowed, b)
			}
		}
		if l == len(rows)-1 && row["pscore"] != 0 {
			if o.Prefix != 0 && math.Abs(o.Prefix-row["pscore"]) > Tolerance*o.Prefix+1e-15 {
				return bad("pscore", number(row["pscore"]), "%s, the pscore_cascade of the last position", number(o.Prefix))
			}
			o.Prefix = row["pscore"]
		}
		t := &Standing{}
		t.Clear()
		for _, x := range []struct {
			name string
			into *float64
		}{{"evaluation_policy_pscore_cascade", &t.Prefix}, {"evaluation_policy_pscore_item_position", &t.Marginal}} {
			if v, is := row[x.name]; is {
				if !(v >= 0 && v <= 1) {
					return bad(x.name, number(v), "a probability")
				}
				*x.into = v
				o.Target = t
			}
		}
		if v, is := row["evaluation_policy_pscore"]; is && l == len(rows)-1 {
			if !(v >= 0 && v <= 1) {
				return bad("evaluation_policy_pscore", number(v), "a probability")
			}
			t.Prefix, o.Target = v, t
		}
		if _, is := row["evaluation_policy_pscore"]; is {
			o.Target = t
		}
		above = append(above, a)
		e.Slots = append(e.Slots, o)
	}
	return e.check(&s.r.o)
}
