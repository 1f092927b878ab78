package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/recent"
	"troupe/serve/shelf"
)

// aside lays models aside that are not used, so that all take at most limit bytes where there is a limit.
type aside struct {
	*state
	shelf  *shelf.Shelf // of the fold, nil without a data directory
	limit  int64
	crowd  int64 // crowded
	logger *slog.Logger
	recent *recent.Decisions
	freed  func(bytes int64) // nil for none
}

// crowded is how many bytes the models that are not laid aside may take before those that are not used are laid aside four times as
// soon. To build a model again that takes 60 kB costs a millisecond of a processor.
const crowded = 32 << 20

// asideLoop lays models aside that are not used, and forgets their newest decisions.
func (s *aside) asideLoop(ctx context.Context, every time.Duration) {
	tick := s.time.Ticker(every)
	defer tick.Stop()
	soon := s.time.Ticker(max(every/4, 1))
	defer soon.Stop()
	look := make(<-chan time.Time) // at the bound
	if s.limit > 0 {
		t := s.time.Ticker(min(every, time.Second))
		defer t.Stop()
		look = t.C
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, err = s.layAside()
		case <-soon.C:
			_, err = s.layAsideSoon()
		case <-look:
			_, err = s.layAsideTo(s.limit)
		}
		if err != nil {
			s.logger.Error("a model cannot be laid aside", "error", err.Error())
		}
	}
}

// layAside lays the models aside that have neither decided nor learned since the last call, and returns how many.
func (s *aside) layAside() (int, error) {
	s.mu.RLock()
	entries := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		entries = append(entries, e)
	}
	s.mu.RUnlock()
	for _, e := range entries {
		if !e.used.Swap(false) {
			e.workers.Drop()
		}
	}
	bytes := int64(0)
	idle := s.awake(func(m *fold.Model) bool {
		if m.TakeUsed() {
			return false
		}
		size := m.Size()
		bytes += size.Used - size.Aside
		return true
	})
	if len(idle) == 0 {
		return 0, nil
	}
	err := s.layDown(idle)
	s.recent.Keep(s.awakeNow())
	if s.freed != nil && err == nil {
		s.freed(bytes)
	}
	return len(idle), err
}

// layAsideSoon is layAside while models take more than crowded.
func (s *aside) layAsideSoon() (int, error) {
	if s.spare() <= s.crowd {
		return 0, nil
	}
	return s.layAside()
}

// spare returns about how many bytes it would free to lay all models aside.
func (s *aside) spare() (bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for m := range s.fold.Models() {
		if m.Awake() {
			size := m.Size()
			bytes += size.Used - size.Aside
		}
	}
	return bytes
}

// awakeNow returns whether a model was awake when it was called.
func (s *aside) awakeNow() func(model eventlog.ID) bool {
	now := map[eventlog.ID]bool{}
	s.awake(func(m *fold.Model) bool {
		now[m.ID] = true
		return false
	})
	return func(model eventlog.ID) bool { return now[model] }
}

// layAsideTo lays models aside, those first that have not learned for longest, until all models take at most limit
// bytes.
func (s *aside) layAsideTo(limit int64) (int, error) {
	bytes, _ := s.modelBytes()
	if bytes <= limit {
		return 0, nil
	}
	type known struct {
		m    *fold.Model
		last uint64
		less int64
	}
	var all []known
	s.awake(func(m *fold.Model) bool {
		size := m.Size()
		all = append(all, known{m, m.Last, size.Used - size.Aside})
		return false
	})
	slices.SortFunc(all, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.last, b.last),
			cmp.Compare(a.m.ID, b.m.ID))
	})
	var down []*fold.Model
	for _, k := range all {
		if bytes <= limit {
			break
		}
		down, bytes = append(down, k.m), bytes-k.less
	}
	return len(down), s.layDown(down)
}

// awake returns the models whose policies are built and that are wanted.
func (s *aside) awake(want func(*fold.Model) bool) (out []*fold.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.fold.Models() {
		if m.Awake() && want(m) {
			out = append(out, m)
		}
	}
	return out
}

// layDown lays models aside, some at a time, so that calls do not wait for all of them. What the shelf does not take
// stays in memory, and the error says why.
func (s *aside) layDown(models []*fold.Model) error {
	for some := range slices.Chunk(models, 16) {
		if err := s.laySome(some); err != nil {
			return err
		}
	}
	if err := s.shelf.Status().Err; err != nil && len(models) > 0 {
		return fmt.Errorf("its state stays in memory: %w", err)
	}
	return nil
}

func (s *aside) laySome(models []*fold.Model) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range models {
		if err := s.fold.LayAside(m); err != nil {
			return fmt.Errorf("model %v: %w", m.ID, err)
		}
	}
	return s.publish()
}

// room refuses a model of this size when it does not fit beside the others.
func (s *aside) room(field string, size fold.Size) error {
	limit := s.limit
	if limit == 0 {
		return nil
	}
	if size.Used > limit {
		return &Error{Code: TooBusy, Field: field,
			Want: fmt.Sprintf("the model takes about %d bytes while it is used, and all models may take %d "+
				"(--max-model-bytes): take fewer members or coordinates, or raise the bound", size.Used, limit)}
	}
	now, _ := s.modelBytes()
	if now+size.Used > limit {
		if _, err := s.layAsideTo(limit - size.Used); err != nil {
			return &Error{Code: Internal, Want: "a model cannot be laid aside", Err: err}
		}
		now, _ = s.modelBytes()
	}
	if now+size.Used > limit {
		return &Error{Code: TooBusy, Field: field,
			Want: fmt.Sprintf("the models take about %d bytes, this one takes %d more while it is used, and all may "+
				"take %d (--max-model-bytes): delete models, or raise the bound", now, size.Used, limit)}
	}
	return nil
}
