package fold

import "troupe/eventlog"

// openList is what the window of a list has beside that of an action. A list is learned as a whole, because what a reward
// at a position says depends on the rewards above it: by a rule that settles as soon as every position that was shown has its
// reward, otherwise when the window closes. The reward of the event, openEvent.y, is the sum of those of the positions.
type openList struct {
	k       uint8
	shown   uint8 // positions that were on the screen
	whole   bool  // the list has one reward, which is that of the event
	learned bool
	given   uint64 // bit p: position p has a reward
	y       []float64
}

func newOpenList(l *eventlog.List) *openList {
	o := &openList{k: uint8(l.K()), shown: uint8(l.K()), whole: l.Whole}
	if !o.whole {
		o.y = make([]float64, l.K())
	}
	return o
}

func (l *openList) has(p int) bool { return l.given>>p&1 == 1 }

// settled reports whether every position that was shown has its reward.
func (l *openList) settled() bool {
	all := uint64(1)<<l.shown - 1
	return !l.whole && l.given&all == all
}

// see notes how many positions were on the screen: 1 + that, 0 for nothing said. The smallest wins.
func (l *openList) see(shown uint32) {
	if shown > 0 {
		l.shown = min(l.shown, uint8(min(shown-1, 255)))
	}
}
