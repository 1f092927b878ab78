package serve

import (
	"sync"

	"troupe/serve/fold"
)

// glance is what Health says of the fold.
type glance struct {
	bytes int64 // see state.modelBytes
	awake int
	nodes []fold.Node
}

// glances looks at the fold for Health, which must answer while the applier holds the fold and waits for the log.
type glances struct {
	state  *state
	writer *writer

	mu     sync.Mutex
	newest glance
	next   chan struct{} // closed when there is a newer one, nil while no call waits for it
}

// take returns what is in the fold now, or while the applier waits for the log, what was there before.
func (g *glances) take() glance {
	if g.state.mu.TryRLock() {
		g.look()
	} else {
		g.await(g.looking())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest
}

// look notes what is in the fold. It takes over the caller's hold on the state.
func (g *glances) look() {
	defer g.state.mu.RUnlock()
	var out glance
	out.bytes, out.awake = g.state.sizes()
	out.nodes = g.state.fold.Nodes()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.newest = out
}

// looking starts to look in a goroutine, which all calls share, and returns the channel that is closed at its end.
func (g *glances) looking() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.next
	if next != nil {
		return next
	}
	next = make(chan struct{})
	g.next = next
	go func() {
		g.state.mu.RLock()
		g.look()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.next = nil
		close(next)
	}()
	return next
}

// await returns when next is closed, or while the applier waits for the log.
func (g *glances) await(next <-chan struct{}) {
	tick := g.writer.opt.Clock.Ticker(readSlow)
	defer tick.Stop()
	for g.writer.lacks() == nil {
		select {
		case <-next:
			return
		case <-tick.C:
		}
	}
}
