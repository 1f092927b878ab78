package decide

import (
	"context"
	"sync"
	"time"

	"troupe/eventlog"
)

// Turns shares the processors among the models. As many short decisions choose at once as there are processors, and half as
// many long ones beside them, so that short ones always find a processor soon. Whoever finds no place waits in the line of
// its model, and the models take turns: a model with many callers does not keep the others waiting. Safe for concurrent use.
type Turns struct {
	mu          sync.Mutex
	short, long lane
}

// long is the estimated work from which a decision is a long one.
const long = 5 * time.Millisecond

// lane is the decisions of one kind.
type lane struct {
	free  int
	lines map[eventlog.ID][]chan struct{} // of those that wait, by model; an entry is closed when its turn has come
	order []eventlog.ID                   // the models with a line, the next one first
}

// NewTurns returns the turns of so many processors.
func NewTurns(processors int) *Turns {
	t := &Turns{}
	t.short = lane{free: processors, lines: map[eventlog.ID][]chan struct{}{}}
	t.long = lane{free: max(1, processors/2), lines: map[eventlog.ID][]chan struct{}{}}
	return t
}

// Enter waits for the turn of a decision of a model with so much estimated work, until ctx ends. leave ends the turn.
func (t *Turns) Enter(ctx context.Context, model eventlog.ID, work time.Duration) (leave func(), err error) {
	l := &t.short
	if work > long {
		l = &t.long
	}
	leave = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		l.next()
	}
	t.mu.Lock()
	if l.free > 0 {
		l.free--
		t.mu.Unlock()
		return leave, nil
	}
	turn := make(chan struct{})
	if len(l.lines[model]) == 0 {
		l.order = append(l.order, model)
	}
	l.lines[model] = append(l.lines[model], turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn: // both at once
		l.next()
	default:
		l.away(model, turn)
	}
	return nil, ctx.Err()
}

// next gives a place to the front of the next model's line, or makes it free.
func (l *lane) next() {
	if len(l.order) == 0 {
		l.free++
		return
	}
	model := l.order[0]
	l.order = l.order[1:]
	line := l.lines[model]
	close(line[0])
	if line = line[1:]; len(line) == 0 {
		delete(l.lines, model)
		return
	}
	l.lines[model] = line
	l.order = append(l.order, model)
}

// away takes one that waits out of its line.
func (l *lane) away(model eventlog.ID, turn chan struct{}) {
	line := l.lines[model]
	for i, c := range line {
		if c == turn {
			line = append(line[:i:i], line[i+1:]...)
			break
		}
	}
	if l.lines[model] = line; len(line) > 0 {
		return
	}
	delete(l.lines, model)
	for i, id := range l.order {
		if id == model {
			l.order = append(l.order[:i:i], l.order[i+1:]...)
			break
		}
	}
}
