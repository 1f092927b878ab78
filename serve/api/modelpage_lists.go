package api

import (
	"fmt"
	"strconv"

	"troupe/eventlog"
	"troupe/serve"
)

// listsPage is what the page shows of lists: what each position earned.
type listsPage struct {
	Text string
	Rows []placeRow
	// Looked says whether the rows have Looked, and Notes what they are, and of what plays.
	Looked bool
	Notes  []string
	// Best are the best lists of today, by context.
	Best     []bestRow
	BestText string
}

// placeRow is a position: how many lists had it on the screen, how many of them have a final reward there, and the action that
// stood there most often.
type placeRow struct{ Position, Shown, Rewarded, Mean, Looked, Below, Most string }

// examined adds what the model has learned of the positions.
func (p *listsPage) examined(e *serve.ExplainedView) {
	if e == nil || len(e.Positions) == 0 {
		return
	}
	text := func(x float64, between *[2]float64) string {
		if between == nil {
			return short(x)
		}
		return fmt.Sprintf("%.2f (%.2f to %.2f)", x, between[0], between[1])
	}
	p.Looked = true
	for i := range p.Rows {
		row := &p.Rows[i]
		row.Looked, row.Below = "–", "–"
		for _, x := range e.Positions {
			if i < x.From || x.To != nil && i > *x.To {
				continue
			}
			row.Looked = text(x.Examination, x.Interval)
			if x.Below != nil {
				row.Below = text(*x.Below, x.BelowInterval)
			}
		}
	}
	p.Notes = append(p.Notes, "Looked at: what an action earns at the position, relative to the first one, as the model has learned it, with 95% intervals; below a reward: where an entry above had one. "+
		"A position that is looked at far more than the first one is looked at more than stands here, because estimates begin near 1.")
	if len(p.Rows) > 5 {
		p.Notes = append(p.Notes, "Positions 4 and 5, 6 to 8, and all from 9 on are learned together.")
	}
	if g := e.ItemsAtPositions; g.Plays {
		p.Notes = append(p.Notes, fmt.Sprintf("Positions want actions of their own, and the model plays them so: the log evidence for it is %.1f nats.", g.Nats))
	} else {
		p.Notes = append(p.Notes, fmt.Sprintf("Nothing shows that positions want actions of their own: the log evidence for it is %.1f nats, and the model would play them so from 3 on.", g.Nats))
	}
}

// listsOf returns what the lists that were read earned, nil without one. known: some have final rewards everywhere; mean is
// then what these earned, the sum of their positions.
func listsOf(h *modelHistory, t *terms) (p *listsPage, mean float64, known bool) {
	type sums struct {
		shown, rewarded int
		sum             float64
		slot            string
		played          map[string]int
	}
	if len(h.lists) == 0 {
		return nil, 0, false
	}
	var places []*sums
	whole, earned, ends, baselines := 0, 0.0, 0, 0
	for _, l := range h.lists {
		if l.places[0].inactive {
			continue
		}
		if l.one != nil {
			whole++
		}
		if m := l.places[0].mode; m == eventlog.Apprentice || m == eventlog.Shadow {
			baselines++
		}
		for i, d := range l.places {
			if i == len(places) {
				places = append(places, &sums{slot: strconv.Itoa(i), played: map[string]int{}})
			}
			s := places[i]
			if i < len(l.slots) && l.slots[i] != "" {
				s.slot = l.slots[i]
			}
			if s.played[d.action]++; i >= l.hidden {
				continue
			}
			s.shown++
			if y, final := h.value(d, t); final && l.one == nil {
				s.rewarded, s.sum = s.rewarded+1, s.sum+y
			}
		}
		total, final := 0.0, true
		for _, d := range l.rewarded() {
			y, ok := h.value(d, t)
			total, final = total+y, final && ok
		}
		if final {
			ends, earned = ends+1, earned+total
		}
	}
	read := "lists were read"
	if len(h.lists) == 1 {
		read = "list was read"
	}
	p = &listsPage{Text: fmt.Sprintf("%s %s; %s of them have all their rewards", grouped(uint64(len(h.lists))), read, grouped(uint64(ends)))}
	if known = ends > 0; known {
		mean = earned / float64(ends)
		p.Text += fmt.Sprintf(", and earned %s each in the mean", short(mean))
	}
	p.Text += "."
	if baselines > 0 {
		p.Text += fmt.Sprintf(" In %s of them the caller's own baseline was played.", grouped(uint64(baselines)))
	}
	if whole > 0 {
		p.Text += " A list has one reward here, so positions have none."
	}
	for _, s := range places {
		row := placeRow{Position: clipped(s.slot, 60), Shown: grouped(uint64(s.shown)), Rewarded: grouped(uint64(s.rewarded)), Mean: "–"}
		if s.rewarded > 0 {
			row.Mean = short(s.sum / float64(s.rewarded))
		}
		total, most := 0, ""
		for _, name := range sortedKeys(s.played) {
			if total += s.played[name]; s.played[name] > s.played[most] {
				most = name
			}
		}
		row.Most = fmt.Sprintf("%s, %s%%", clipped(most, 60), percent(s.played[most], total))
		p.Rows = append(p.Rows, row)
	}
	return p, mean, known
}
