package api

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/ope"
	"troupe/report/forest"
)

// segmentsView is for whom the model is better than the first candidate of each request.
type segmentsView struct {
	By, Refused string
	Sentence    string
	Notes       []string
	Rows        []segmentRow
	How         string
	Figure      template.HTML
}

type segmentRow struct{ Name, Decisions, Sure, Verdict string }

// firstCandidate is the baseline of a model as a target.
type firstCandidate struct{}

func (firstCandidate) Name() string { return "the first candidate" }

// Law implements ope.Target.
func (firstCandidate) Law(dst []float64, _ *logged.Event, _ []float64) error {
	clear(dst)
	dst[0] = 1
	return nil
}

// pastSource gives decisions as events.
type pastSource []logged.Event

func (s *pastSource) Read(e *logged.Event) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

// pageWords is a sentence of the command as the page says it.
func pageWords(s string) string {
	s = strings.NewReplacer("--by was fixed", "the field was chosen", "--by ", "").Replace(s)
	return strings.ToUpper(s[:1]) + s[1:]
}

// segments compares the model with the first candidate of each request in the segments that by asks for. The decisions
// and their rewards are those of the comparison without segments, see estimate.
func (h *modelHistory) segments(ctx context.Context, by string, t *terms) *segmentsView {
	v := &segmentsView{By: by}
	if by == "" {
		return v
	}
	refuse := func(err error) *segmentsView {
		v.Refused = pageWords(err.Error())
		return v
	}
	o := ope.Options{Targets: []ope.Target{firstCandidate{}}, Estimators: []string{"ips"},
		Rewards: &ope.Pair{t.min, t.max}, Adaptive: "yes"}
	var err error
	if o.By, err = ope.ParseBy(by); err != nil {
		return refuse(err)
	}
	var events pastSource
	for _, d := range h.decisions {
		y, final := h.value(d, t)
		switch {
		case !final:
			continue
		case y < t.min || y > t.max:
			return refuse(fmt.Errorf("no interval holds: a reward of %s is outside of [%s, %s], the present range",
				short(y), short(t.min), short(t.max)))
		case d.mode != eventlog.Online && d.mode != eventlog.Frozen, d.num == 0, d.index >= d.offered:
			continue
		}
		events = append(events, logged.Event{K: int(d.offered), Chosen: int(d.index), Reward: y, Atoms: d.event.Atoms,
			Unit: d.event.Unit, Propensity: float64(d.num) / float64(d.den), Position: logged.NoPosition})
	}
	if len(events) == 0 {
		return refuse(errors.New("the model's own choices have no final reward yet"))
	}
	r, err := ope.Evaluate(ctx, &events, o)
	if err != nil {
		return refuse(err)
	}
	if r.Targets[0].Segments == nil {
		return refuse(errors.New("no interval holds: decisions of one unit share a draw"))
	}
	s := r.Targets[0].Segments.Reversed()
	v.Sentence = s.Sentence
	for _, note := range append([]string{s.Rule}, s.Notes...) {
		v.Notes = append(v.Notes, pageWords(note)+".")
	}
	for _, x := range s.Rows {
		row := segmentRow{x.Name, grouped(uint64(x.Events)), "–", x.Verdict}
		if p := x.Sequence; p != nil {
			row.Sure = fmt.Sprintf("%s … %s", short(p[0]), short(p[1]))
		}
		v.Rows = append(v.Rows, row)
	}
	if f := forest.Segments(s); f != nil {
		v.How, v.Figure = f.How, f.HTML()
	}
	return v
}
