package choose

import (
	"slices"
	"sync"
)

// Pool keeps the idle workers of one model, at most 16. The zero value is empty. Safe for concurrent use.
type Pool struct {
	mu   sync.Mutex
	free []*Worker
}

// Take returns a worker in the state of v, or ErrOld. It prefers one that is in this state already.
func (p *Pool) Take(v *Version) (*Worker, error) {
	p.mu.Lock()
	var w *Worker
	if n := len(p.free); n > 0 {
		at := n - 1
		for i := range p.free {
			if p.free[i].Version == v {
				at = i
			}
		}
		w = p.free[at]
		p.free = slices.Delete(p.free, at, at+1)
	}
	p.mu.Unlock()
	ready, err := v.Worker(w)
	if err == ErrOld && w != nil {
		p.Put(w)
	}
	return ready, err
}

// Drop gives the idle workers up.
func (p *Pool) Drop() {
	p.mu.Lock()
	p.free = nil
	p.mu.Unlock()
}

// Put gives a worker back.
func (p *Pool) Put(w *Worker) {
	w.Release()
	p.mu.Lock()
	if len(p.free) < 16 {
		p.free = append(p.free, w)
	}
	p.mu.Unlock()
}
