package fold

import (
	"math"
	"slices"

	"troupe/eventlog"
	"troupe/serve/model"
)

// namedOf returns what an open event has of rewards with names, nil for none.
func (w *windows) namedOf(key eventlog.Event) *openNamed { return w.named[key] }

func (w *windows) openNamed(key eventlog.Event, o *openNamed) {
	if w.named == nil {
		w.named = map[eventlog.Event]*openNamed{}
	}
	w.named[key] = o
}

// NamedRewards is what is known of the rewards with names of an event with an open window, by their place in
// model.Config.Rewards.
type NamedRewards struct {
	Given  []bool
	Values []float64 // 0 where there is none
	Total  float64   // the weighted sum
}

// RewardsOf returns what an event with an open window has of rewards with names, not ok where there is none yet.
func (w *windows) RewardsOf(key eventlog.Event) (n NamedRewards, ok bool) {
	o := w.named[key]
	if o == nil {
		return n, false
	}
	for i := range int(o.n) {
		n.Given = append(n.Given, o.has(i))
	}
	n.Values = slices.Clone(o.y[:o.n])
	if _, e := w.lookup(key); e != nil {
		n.Total = e.y
	}
	return n, true
}

// RewardsAfter returns what would count of an open event after another reward of these names: the weighted sum, and known where
// nothing would change. An event whose window is over has only that reward.
func (w *windows) RewardsAfter(key eventlog.Event, of model.Rewards, mask uint64, values []float64, id eventlog.ID) (total float64,
	known bool) {
	o := openNamed{n: uint8(len(of))}
	rule := model.First
	_, e := w.lookup(key)
	if e != nil {
		rule = e.state.rule()
		if have := w.named[key]; have != nil {
			o = *have
		}
	}
	counts := o.take(rule, mask, values)
	return of.Sum(o.y[:o.n]), e != nil && (!counts || id != 0 && slices.Contains(w.rewardKeys[key], id))
}

// named writes rewards with names.
func (w *writer) named(o *openNamed) {
	w.b = append(w.b, namedWindow, o.n, o.given)
	w.bool(o.learned)
	for _, y := range o.y[:o.n] {
		w.fixed(math.Float64bits(y))
	}
}

func (r *reader) named() *openNamed {
	o := &openNamed{n: r.byte(), given: r.byte(), learned: r.bool()}
	if o.n == 0 || o.n > eventlog.MaxNamed || o.given == 0 || uint(o.given)>>o.n != 0 {
		r.fail("rewards of no names")
		return nil
	}
	for i := range o.y[:o.n] {
		o.y[i] = math.Float64frombits(r.fixed())
	}
	return o
}
