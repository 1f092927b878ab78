package api

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"troupe/serve"
)

// search is what the form above the decisions asks for.
type search struct {
	Find, State string
	States      []string
	Text        string // what was found
	Rows        []decisionRow
}

// searchStates are the choices of the form; the first stands for all.
var searchStates = []string{"any state", "rewarded", "default", "no reward", "waiting", "not activated"}

// maxFound bounds the rows of a search.
const maxFound = 100

// searched looks for decisions among those that were read, and for an event with this id among all. It returns nil when
// nothing is asked.
func searched(ctx context.Context, svc serve.EventService, q url.Values, m *serve.Model, h *modelHistory) *search {
	s := &search{Find: strings.TrimSpace(q.Get("find")), State: q.Get("state"), States: searchStates}
	if !slices.Contains(searchStates, s.State) {
		s.State = searchStates[0]
	}
	if s.Find == "" && s.State == searchStates[0] {
		return s
	}
	found := 0
	var rows []*past
	for _, d := range slices.Backward(h.decisions) {
		if s.Find != "" && d.action != s.Find && !strings.Contains(d.action, s.Find) &&
			!strings.HasSuffix(d.id, strings.TrimPrefix(s.Find, "…")) {
			continue
		}
		if s.State != searchStates[0] && d.state() != s.State {
			continue
		}
		if found++; len(rows) < maxFound {
			rows = append(rows, d)
		}
	}
	s.Rows = rowsOf(rows)
	s.Text = fmt.Sprintf("%s of the %s decisions read", grouped(uint64(found)), grouped(uint64(len(h.decisions))))
	if found > maxFound {
		s.Text += fmt.Sprintf("; the newest %d are shown", maxFound)
	}
	s.Text += "."
	if found == 0 && s.Find != "" {
		if v, err := svc.Event(ctx, s.Find); err == nil && v.Model == m.Name {
			d := &past{
				id: v.EventID, action: v.Action.ID, num: v.Decision.Num, den: v.Decision.Den,
				offered: v.Decision.Offered, mode: v.Decision.Mode,
				context: v.Decision.Context, candidates: v.Decision.Candidates, time: v.Decision.Time,
				closed: v.Status == "closed", inactive: v.Status == "inactive", rewarded: v.Value != nil,
			}
			if v.Value != nil {
				d.y = *v.Value
			}
			s.Rows, s.Text = rowsOf([]*past{d}),
				"This event is older than the decisions read. Its reward is known while its window is open."
		}
	}
	return s
}
