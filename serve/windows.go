package serve

import (
	"cmp"
	"container/heap"
	"sync"

	"troupe/eventlog"
	"troupe/internal/compact"
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

// windowQueue is a heap. There is a window for each decision that came alone, so it stands in blocks.
type windowQueue struct {
	compact.Deque[fold.Window]
	ids []eventlog.ID // of models, by place
}

func (q *windowQueue) Less(i, j int) bool {
	a, b := q.At(i), q.At(j)
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(q.ids[a.Model], q.ids[b.Model])) < 0
}
func (q *windowQueue) Swap(i, j int) { a, b := q.At(i), q.At(j); *a, *b = *b, *a }
func (q *windowQueue) Push(x any)    { q.Deque.Push(x.(fold.Window)) }
func (q *windowQueue) Pop() any      { return q.Deque.Pop() }

// add takes the windows of new entries. The caller holds the fold.
func (w *windows) add(f *fold.Fold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range f.TakeOpened() {
		for k := len(w.queue.ids); k <= int(x.Model); k++ {
			w.queue.ids = append(w.queue.ids, f.ModelAt(uint32(k)).ID)
		}
		w.queue.Deque.Push(x)
		heap.Fix(&w.queue, w.queue.Len()-1) // heap.Push would allocate
	}
}

// due takes at most n windows that end by now.
func (w *windows) due(now int64, n int) (out []fold.Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.queue.Len() > 0 && w.queue.At(0).Deadline <= now && len(out) < n {
		out = append(out, heap.Pop(&w.queue).(fold.Window))
	}
	return out
}

func (w *windows) back(ws []fold.Window) {
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
