package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// RedrawOptions say how often decisions are drawn anew.
type RedrawOptions struct {
	First   int    // draws that are counted
	Further int    // draws whose actions are listed
	Seed    uint64 // of the numbers of these draws, which no decision of the log had
	From    uint64 // only decisions of later entries
	Workers int    // 0: 1; the draws of one decision are shared among them
	// Progress is told before the first decision, and after each, how many of how many are drawn.
	Progress func(done, of int)
}

// Redrawn is a decision of the log that was drawn anew from its candidates, in the state that decided.
type Redrawn struct {
	Key     eventlog.Event
	Seq     uint64
	Counts  []uint32 // how many of the first draws took each candidate
	Further []uint32 // candidates
}

// NotFreshError: a model's decisions share their members, so that the law without them is not the law given the past.
type NotFreshError struct {
	Model string
	Err   error
}

// Error says in one line what is wrong.
func (e *NotFreshError) Error() string { return fmt.Sprintf("the model %s: %v", e.Model, e.Err) }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *NotFreshError) Unwrap() error { return e.Err }

// played is a state that decisions of the log were made on.
type played struct {
	model  eventlog.ID
	digest eventlog.ID
}

// Redraw draws the decisions of the models of this name anew, in the order of the log, and gives each to each; what it
// is given is valid until the next one. Left out are decisions that played a baseline, that had one candidate, or whose
// law or candidates are not in the log. It reads the log once to find the states that decided, and folds it to be in
// them. The error is a *NotFreshError where a policy does not draw its members for each decision.
//
// Cost: for each decision First + Further calls of Select, on Workers processors; a copy of the state for each entry that
// decisions were made on. Memory: the states that later decisions of the log still use, and 32 bytes for each state.
func (s *Server) Redraw(ctx context.Context, name string, o RedrawOptions, each func(*Redrawn) error) error {
	release, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	info, err := s.log.Info(ctx, 0)
	if err == nil { // decisions are durable before they are applied
		_, err = s.progress.until(ctx, info.Last)
	}
	if err != nil {
		return &Error{Code: Unavailable, Want: "the log cannot be read", Err: err}
	}
	s.mu.RLock()
	only, end := map[eventlog.ID]bool{}, s.fold.Seq()
	mine := map[eventlog.ID]bool{}
	for m := range s.fold.Models() {
		if m.Name() != name {
			continue
		}
		mine[m.ID] = true
		for _, id := range s.fold.Lineage(m) {
			only[id] = true
		}
	}
	s.mu.RUnlock()
	if len(mine) == 0 {
		return noModel(name)
	}
	fail := func(err error) error {
		return &Error{Code: Unavailable, Want: "the decisions cannot be drawn anew", Err: err}
	}
	wants := func(d eventlog.Delivery, r eventlog.Record) *eventlog.Decision {
		x, ok := r.(*eventlog.Decision)
		if !ok || d.Repeat || d.Seq <= o.From || !mine[x.Model] || len(x.Law) == 0 || len(x.Full) == 0 ||
			x.Mode != eventlog.Online && x.Mode != eventlog.Frozen {
			return nil
		}
		return x
	}
	// Which states decided, and up to which entry each is wanted.
	last, oldest, all := map[played]uint64{}, end, 0
	base := s.past.Base.Load()
	err = s.past.Log.Replay(s.chainFrom(s.past.First.Load()), end, func(d eventlog.Delivery) error {
		for _, r := range d.Events() {
			if x := wants(d, r); x != nil && x.BasisSeq >= base {
				all++
				last[played{x.Model, x.BasisDigest}] = d.Seq
				oldest = min(oldest, x.BasisSeq)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return fail(err)
	}
	f, chain, err := s.past.Fold(only, max(oldest, base))
	if err != nil {
		return fail(err)
	}
	fresh := map[*model.Compiled]bool{}
	states, crew := map[played]*choose.Version{}, newRedrawers(max(o.Workers, 1))
	defer func() {
		for _, v := range states {
			v.State.Release()
		}
	}()
	keep := func(m *fold.Model) error {
		if !mine[m.ID] || !m.HasPolicy() {
			return nil
		}
		v, err := choose.VersionOf(m, f.Seq())
		if err != nil {
			return err
		}
		if at := (played{m.ID, v.Digest}); last[at] > f.Seq() && states[at] == nil && v.State.Hold() {
			if !fresh[v.Compiled] {
				if err := v.Fresh(); err != nil {
					v.State.Release()
					return &NotFreshError{name, err}
				}
				fresh[v.Compiled] = true
			}
			states[at] = v
		}
		return nil
	}
	for m := range f.Models() {
		if err := keep(m); err != nil {
			return err
		}
	}
	draws, done := rng.NewKey(o.Seed).Child("redraw"), 0
	tell := func(n int) {
		if done += n; o.Progress != nil {
			o.Progress(done, all)
		}
	}
	tell(0)
	out := &Redrawn{}
	redraw := func(key eventlog.Event, seq uint64, x *eventlog.Decision) error {
		v := states[played{x.Model, x.BasisDigest}]
		if v == nil {
			return nil // decided on a state before the base
		}
		set, err := candidates.Parse(x.Full)
		if err != nil || set.K != len(x.Law) {
			return err
		}
		out.Key, out.Seq = key, seq
		numbers := draws.At(uint64(key.Epoch)).Stream(rng.Select).Round(key.Batch*eventlog.MaxEvents +
			uint64(key.Index))
		nonce := func(i int) eventlog.ID { return eventlog.ID(numbers.Uint64(i)) }
		if err := crew.draw(out, v, x.Model, &set, &o, nonce); err != nil {
			return err
		}
		tell(1)
		return each(out)
	}
	err = s.past.Log.Replay(chain, end, func(d eventlog.Delivery) error {
		for i, r := range d.Events() {
			if x := wants(d, r); x != nil {
				if err := redraw(d.Key(i), d.Seq, x); err != nil {
					return fmt.Errorf("entry %d, record %d: %w", d.Seq, i, err)
				}
			}
		}
		for at, v := range states {
			if last[at] <= d.Seq {
				v.State.Release()
				delete(states, at)
			}
		}
		if _, err := f.Apply(d); err != nil {
			return err
		}
		f.TakeOpened()
		for _, m := range f.TakeChanged() {
			if err := keep(m); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return err
}

// redrawers draw one decision anew together.
type redrawers []map[eventlog.ID]*choose.Worker

func newRedrawers(n int) redrawers {
	out := make(redrawers, n)
	for i := range out {
		out[i] = map[eventlog.ID]*choose.Worker{}
	}
	return out
}

// draw fills in Counts and Further. Which of the workers makes a draw does not matter: its numbers are those of its place.
func (c redrawers) draw(out *Redrawn, v *choose.Version, model eventlog.ID, set *candidates.Set, o *RedrawOptions,
	nonce func(i int) eventlog.ID) error {
	n := o.First + o.Further
	took := make([]uint32, n)
	share := func(k int) error {
		w, err := v.Worker(c[k][model])
		if err != nil {
			return err
		}
		c[k][model] = w
		if err := w.Recorded(set); err != nil {
			return err
		}
		from, to := k*n/len(c), (k+1)*n/len(c)
		return w.Redraw(to-from, func(i int) eventlog.ID { return nonce(from + i) },
			func(i, candidate int) { took[from+i] = uint32(candidate) })
	}
	errs := make([]error, len(c))
	var wg sync.WaitGroup
	for k := 1; k < len(c); k++ {
		wg.Go(func() { errs[k] = share(k) })
	}
	errs[0] = share(0)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	out.Counts = append(out.Counts[:0], make([]uint32, set.K)...)
	for _, a := range took[:o.First] {
		out.Counts[a]++
	}
	out.Further = append(out.Further[:0], took[o.First:]...)
	return nil
}
