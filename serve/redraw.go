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
	config uint64 // version of the configuration
}

// Redraw draws the decisions of the models of this name anew, in the order of the log, and gives each to each; what it
// is given is valid until the next one. Left out are decisions that played a baseline, that had one candidate, under
// the hard stop of a budget, with floors of actions that have entered, or whose law or candidates are not in the log.
// It reads the log once to find the states that decided, and folds it to be in them. The error is a *NotFreshError
// where a policy does not draw its members for each decision.
//
// Cost: for each decision First + Further calls of Select, on Workers processors; a copy of the state for each entry
// that decisions were made on. Memory: the states that later decisions of the log still use, and 32 bytes for each
// state.
func (s *exports) Redraw(ctx context.Context, name string, o RedrawOptions, each func(*Redrawn) error) error {
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
	r := &redrawing{name: name, o: o, each: each, past: s.past, draws: rng.NewKey(o.Seed).Child("redraw"),
		crew: newRedrawers(max(o.Workers, 1))}
	if !r.choose(s.state) {
		return noModel(name)
	}
	defer r.release()
	r.base = s.past.Base.Load()
	if err := r.survey(ctx, s.nodes.chain(s.past, s.past.First.Load())); err != nil {
		return &Error{Code: Unavailable, Want: "the decisions cannot be drawn anew", Err: err}
	}
	f, chain, err := s.past.Fold(r.only, max(r.oldest, r.base))
	if err != nil {
		return &Error{Code: Unavailable, Want: "the decisions cannot be drawn anew", Err: err}
	}
	for m := range f.Models() {
		if err := r.keep(m, f.Seq()); err != nil {
			return err
		}
	}
	r.tell(0)
	return r.past.Log.Replay(chain, r.end, func(d eventlog.Delivery) error {
		if err := r.entry(d); err != nil {
			return err
		}
		if _, err := f.Apply(d); err != nil {
			return err
		}
		f.TakeOpened()
		for _, m := range f.TakeChanged() {
			if err := r.keep(m, f.Seq()); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// redrawing is a call of Redraw under way.
type redrawing struct {
	name string
	o    RedrawOptions
	each func(*Redrawn) error
	past *fold.History

	// The models of the name, with those that they come from, which are folded too; the last entry, and the base of the
	// log.
	mine, only map[eventlog.ID]bool
	end, base  uint64

	// What the survey found: up to which entry each state is wanted, the oldest of them, and how many decisions there
	// are.
	last   map[played]uint64
	oldest uint64
	all    int

	states map[played]*choose.Version // that later decisions still use
	fresh  map[*model.Compiled]bool   // known to draw their members for each decision
	crew   redrawers
	draws  rng.Key
	out    Redrawn
	done   int
}

// choose finds the models of the name. It is false where there is none.
func (r *redrawing) choose(s *state) bool {
	r.mine, r.only = map[eventlog.ID]bool{}, map[eventlog.ID]bool{}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r.end = s.fold.Seq()
	for m := range s.fold.Models() {
		if m.Name() != r.name {
			continue
		}
		r.mine[m.ID] = true
		for _, id := range s.fold.Lineage(m) {
			r.only[id] = true
		}
	}
	return len(r.mine) > 0
}

// wants returns a record as a decision that is drawn anew, or nil.
func (r *redrawing) wants(d eventlog.Delivery, record eventlog.Record) *eventlog.Decision {
	x, ok := record.(*eventlog.Decision)
	if !ok || d.Repeat || d.Seq <= r.o.From || !r.mine[x.Model] || len(x.Law) == 0 || len(x.Full) == 0 ||
		x.Play == eventlog.PlayStop || x.Mode != eventlog.Online && x.Mode != eventlog.Frozen {
		return nil
	}
	return x
}

// survey reads the log for the states that decided.
func (r *redrawing) survey(ctx context.Context, chain *eventlog.Chain) error {
	r.last, r.oldest = map[played]uint64{}, r.end
	r.states, r.fresh = map[played]*choose.Version{}, map[*model.Compiled]bool{}
	return r.past.Log.Replay(chain, r.end, func(d eventlog.Delivery) error {
		for _, record := range d.Events() {
			if x := r.wants(d, record); x != nil && x.BasisSeq >= r.base {
				r.all++
				r.last[played{x.Model, x.BasisDigest, x.Config}] = d.Seq
				r.oldest = min(r.oldest, x.BasisSeq)
			}
		}
		return ctx.Err()
	})
}

// keep holds the state of a model after entry seq where later decisions were made on it.
func (r *redrawing) keep(m *fold.Model, seq uint64) error {
	if !r.mine[m.ID] || !m.HasPolicy() {
		return nil
	}
	v, err := choose.VersionOf(m, seq)
	if err != nil {
		return err
	}
	at := played{m.ID, v.Digest, v.Number}
	if r.last[at] <= seq || r.states[at] != nil || !v.State.Hold() {
		return nil
	}
	if !r.fresh[v.Compiled] {
		if err := v.Fresh(); err != nil {
			v.State.Release()
			return &NotFreshError{r.name, err}
		}
		r.fresh[v.Compiled] = true
	}
	r.states[at] = v
	return nil
}

// release lets go of the states that are still held.
func (r *redrawing) release() {
	for _, v := range r.states {
		v.State.Release()
	}
}

// tell says that n more decisions are drawn.
func (r *redrawing) tell(n int) {
	if r.done += n; r.o.Progress != nil {
		r.o.Progress(r.done, r.all)
	}
}

// entry draws the decisions of an entry and lets go of the states that no later one was made on.
func (r *redrawing) entry(d eventlog.Delivery) error {
	for i, record := range d.Events() {
		if x := r.wants(d, record); x != nil {
			if err := r.decision(d.Key(i), d.Seq, x); err != nil {
				return fmt.Errorf("entry %d, record %d: %w", d.Seq, i, err)
			}
		}
	}
	for at, v := range r.states {
		if r.last[at] <= d.Seq {
			v.State.Release()
			delete(r.states, at)
		}
	}
	return nil
}

// decision draws one anew and hands it on. One that was made on a state before the base is left out.
func (r *redrawing) decision(key eventlog.Event, seq uint64, x *eventlog.Decision) error {
	v := r.states[played{x.Model, x.BasisDigest, x.Config}]
	if v == nil || !v.Redraws(x.Play) || x.Group != eventlog.NoGroup {
		return nil
	}
	set, err := candidates.Parse(x.Full)
	if err != nil || set.K != len(x.Law) {
		return err
	}
	r.out.Key, r.out.Seq = key, seq
	numbers := r.draws.At(uint64(key.Epoch)).Stream(rng.Select).Round(key.Batch*eventlog.MaxEvents + uint64(key.Index))
	nonce := func(i int) eventlog.ID { return eventlog.ID(numbers.Uint64(i)) }
	if err := r.crew.draw(&r.out, v, x, &set, &r.o, nonce); err != nil {
		return err
	}
	r.tell(1)
	return r.each(&r.out)
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

// draw fills in Counts and Further. Which of the workers makes a draw does not matter: its numbers are those of its
// place.
func (c redrawers) draw(out *Redrawn, v *choose.Version, x *eventlog.Decision, set *candidates.Set, o *RedrawOptions,
	nonce func(i int) eventlog.ID) error {
	n := o.First + o.Further
	took := make([]uint32, n)
	share := func(k int) error {
		w, err := v.Worker(c[k][x.Model])
		if err != nil {
			return err
		}
		c[k][x.Model] = w
		if err := w.Offer.Recorded(set); err != nil {
			return err
		}
		w.Offer.SetCosts(x.Costs)
		w.Price(x.Price)
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
