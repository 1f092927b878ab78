package api

import (
	"fmt"
	"strconv"
)

// listsPage is what the page shows of lists: what each position earned.
type listsPage struct {
	Text string
	Rows []placeRow
}

// placeRow is a position: how many lists had it on the screen, how many of them have a final reward there, and the action that
// stood there most often.
type placeRow struct{ Position, Shown, Rewarded, Mean, Most string }

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
	whole, earned, ends := 0, 0.0, 0
	for _, l := range h.lists {
		if l.places[0].inactive {
			continue
		}
		if l.one != nil {
			whole++
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
	p = &listsPage{Text: fmt.Sprintf("%s lists were read; %s of them have all their rewards", grouped(uint64(len(h.lists))), grouped(uint64(ends)))}
	if known = ends > 0; known {
		mean = earned / float64(ends)
		p.Text += fmt.Sprintf(", and earned %s each in the mean", short(mean))
	}
	p.Text += "."
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
