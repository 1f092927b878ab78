package serve

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A backup that follows says with each question under which name it asks, and so what it has. What it does not have is
// not trimmed, with two bounds: a follower that has not asked for followFor is not waited for, and none is while the
// log has more than nine tenths of its limit. It is no state: a server that was started again knows its followers when
// they ask again. In a cluster the node that is asked waits with its base, and the entries go when all nodes have it.

const (
	followFor  = time.Hour
	followKept = 24 * time.Hour // how long it is shown
	followMost = 16             // names; further ones are not waited for
)

// Follower is a backup that follows the log.
type Follower struct {
	Name string    `json:"name"`
	Last uint64    `json:"last"` // the entry up to which it has the log
	Time time.Time `json:"time"` // when it asked last
	// Waited is false when the log is trimmed without it: it has not asked for an hour, or the log is nearly full.
	Waited bool `json:"waited"`
}

// followers are those of the last day, by name.
type followers struct {
	space *space
	mu    sync.Mutex
	of    map[string]Follower
}

// note takes a question for the entries from one on.
func (f *followers) note(name string, from uint64, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]Follower{}
	}
	for n, x := range f.of {
		if now.Sub(x.Time) > followKept {
			delete(f.of, n)
		}
	}
	if _, known := f.of[name]; known || len(f.of) < followMost {
		f.of[name] = Follower{Name: name, Last: from - 1, Time: now}
	}
}

// list returns them, by name.
func (f *followers) list(now time.Time) (out []Follower) {
	bytes, limit := f.space.bytes.Load(), f.space.limit.Load()
	full := limit > 0 && bytes > limit/10*9
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.of {
		if now.Sub(x.Time) <= followKept {
			x.Waited = !full && now.Sub(x.Time) <= followFor
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Follower) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// behind returns the follower that has the least of what goes up to an entry: nil when none lacks any of it. It splits
// those that are waited for from those that are not.
func (f *followers) behind(to uint64, now time.Time) (waits, lacks *Follower) {
	for _, x := range f.list(now) {
		if x.Last >= to {
			continue
		}
		if x.Waited && (waits == nil || x.Last < waits.Last) {
			waits = &x
		} else if !x.Waited && (lacks == nil || x.Last < lacks.Last) {
			lacks = &x
		}
	}
	return waits, lacks
}

// drop forgets a follower that the log does not wait for.
func (f *followers) drop(x Follower) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.of[x.Name]
	delete(f.of, x.Name)
	return known
}
