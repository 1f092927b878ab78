package serve

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// windows is the queue of open windows by their ends. When one ends the server writes an Expire record, and
// the fold closes the window. Windows of one model that began in one log entry end
// together, with the last of them.
type windows struct {
	mu    sync.Mutex
	queue windowQueue
	halt  chan struct{}
	done  bool
	pass  sync.Mutex // one sweep at a time
}

type window struct {
	deadline int64
	entry    *fold.OpenEntry
	model    eventlog.ID
}

type windowQueue []window

func (q windowQueue) Len() int { return len(q) }
func (q windowQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].deadline, q[j].deadline), cmp.Compare(q[i].entry.Seq(), q[j].entry.Seq()),
		cmp.Compare(q[i].model, q[j].model)) < 0
}
func (q windowQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *windowQueue) Push(x any)   { *q = append(*q, x.(window)) }
func (q *windowQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// add takes entries with new open events. The caller holds the fold.
func (w *windows) add(entries []*fold.OpenEntry) {
	if len(entries) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		for model, end := range e.Windows() {
			w.queue = append(w.queue, window{end, e, model})
			heap.Fix(&w.queue, len(w.queue)-1) // heap.Push would allocate
		}
	}
}

// due takes at most n windows that end by now.
func (w *windows) due(now int64, n int) (out []window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.queue[0].deadline <= now && len(out) < n {
		out = append(out, heap.Pop(&w.queue).(window))
	}
	return out
}

func (w *windows) back(ws []window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range ws {
		heap.Push(&w.queue, x)
	}
}

func (w *windows) stopped() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.halt == nil {
		w.halt = make(chan struct{})
		if w.done {
			close(w.halt)
		}
	}
	return w.halt
}

func (w *windows) stop() {
	halt := w.stopped()
	w.mu.Lock()
	if !w.done {
		w.done = true
		select {
		case <-halt:
		default:
			close(w.halt)
		}
	}
	w.mu.Unlock()
	w.pass.Lock() // wait for the sweep under way
	defer w.pass.Unlock()
}

const sayAgain = time.Minute // what lasts is not logged more often

// expiry closes the windows that have ended.
type expiry struct {
	*lifetime
	*state
	*writer
}

func (s *expiry) expireLoop() {
	tick := time.NewTicker(s.opt.ExpireEvery)
	defer tick.Stop()
	said := time.Time{} // when it was logged that windows wait; zero while they do not
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.windows.stopped():
			return
		case <-tick.C:
		}
		_, err := s.expire(s.ctx)
		switch {
		case err == nil:
			said = time.Time{}
		case CodeOf(err) != Full && time.Since(said) >= sayAgain:
			s.opt.Logger.Warn("windows wait to be closed", "error", err.Error())
			said = time.Now()
		}
		if s.full.Load() {
			s.probe()
		}
	}
}

// probe finds out whether the log takes records again. A load balancer sends no calls to a server that is not
// ready, so the server itself must try.
func (s *expiry) probe() {
	_, _ = s.append(s.ctx, &eventlog.Checkpoint{Seq: s.progress.applied.Load(), Time: s.opt.Now().UnixNano()})
}

// expire is Server.Expire.
func (s *expiry) expire(ctx context.Context) (events int, err error) {
	if err := s.stopped(); err != nil {
		return 0, err
	}
	s.windows.pass.Lock()
	defer s.windows.pass.Unlock()
	for {
		select {
		case <-s.windows.stopped():
			return events, nil
		default:
		}
		now := s.opt.Now().UnixNano()
		if s.nodes != nil { // the fold closes by the cluster's clock; the next node waits for the one before it
			s.mu.RLock()
			now = s.fold.Clock() - int64(s.nodes.rank())*int64(2*time.Second)
			s.mu.RUnlock()
		}
		due := s.windows.due(now, 512)
		if len(due) == 0 {
			return events, nil
		}
		var records []eventlog.Record
		n := 0
		s.mu.RLock()
		for _, w := range due {
			if r, k := s.fold.Expiry(w.entry, w.model, now); r != nil {
				records = append(records, r)
				n += k
			}
		}
		s.mu.RUnlock()
		if len(records) == 0 {
			continue
		}
		receipt, err := s.append(ctx, records...)
		if err != nil {
			s.windows.back(due)
			return events, err
		}
		if _, err := s.applied(ctx, receipt, len(records)); err != nil {
			return events, err
		}
		events += n
	}
}
