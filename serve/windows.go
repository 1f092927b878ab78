package serve

import (
	"cmp"
	"container/heap"
	"sync"

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
