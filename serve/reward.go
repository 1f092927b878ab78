package serve

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/timing"
)

// Reward implements Service.
func (s *rewards) Reward(ctx context.Context, r RewardRequest) (RewardResult, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return RewardResult{}, err
	}
	defer done()
	p, err := s.prepareReward(ctx, &r)
	if len(p.records) == 0 {
		return p.result, err
	}
	receipt, err := s.append(ctx, p.records...)
	var out []fold.Outcome
	if err == nil {
		out, err = s.applied(ctx, receipt, len(p.records))
	}
	if err == nil {
		err = s.counted(&p, out)
	}
	if err != nil {
		return RewardResult{}, adviseReward(err, r.Key)
	}
	return p.answer(out, receipt.Seq), nil
}

// RewardBatch implements Service.
func (s *rewards) RewardBatch(ctx context.Context, rs []RewardRequest) ([]RewardItem, error) {
	if len(rs) == 0 || len(rs) > s.opt.Limits.Rewards {
		return nil, fault.Invalidf("rewards", len(rs), "expected 1 to %d rewards", s.opt.Limits.Rewards)
	}
	done, err := s.beginWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]RewardItem, len(rs))
	var records []eventlog.Record
	var at []int // items whose records these are
	var ready []prepared
	size, w := 0, beginBatch(s.opt.Limits.Work*3/2)
	defer w.end()
	flush := func() {
		if len(records) == 0 {
			return
		}
		receipt, err := s.append(ctx, records...)
		var os []fold.Outcome
		if err == nil {
			os, err = s.applied(ctx, receipt, len(records))
		}
		for k, i := range at {
			if out[i].Err = adviseReward(err, rs[i].Key); err == nil {
				n := len(ready[k].records)
				if out[i].Err = s.counted(&ready[k], os[:n]); out[i].Err == nil {
					out[i].Result = ready[k].answer(os[:n], receipt.Seq)
				}
				os = os[n:]
			}
		}
		records, at, ready, size, w.chunk = nil, nil, nil, 0, 0
	}
	for i := range rs {
		if w.over() {
			out[i].Err = w.left(i)
			continue
		}
		p, err := s.prepareReward(ctx, &rs[i])
		if w.add(rewardWork + p.learning); len(p.records) == 0 {
			out[i] = RewardItem{p.result, err}
			continue
		}
		n := p.size()
		if size+n > eventlog.MaxBatch/2 || len(records)+len(p.records) > eventlog.MaxEvents/2 || w.chunk > chunkWork {
			flush()
		}
		records, at, ready, size = append(records, p.records...), append(at, i), append(ready, p), size+n
	}
	flush()
	return out, nil
}

// batchWork is what a batch of rewards takes of a processor. Unlike a decision, a reward has no size that tells it: the cost of
// an event depends on what the model has learned, and is that of its last events (fold.Model.EventCost); a decision that is not
// in memory is read from the log. So a batch is taken until its work is done, and not refused as a whole.
type batchWork struct {
	most  time.Duration // ≤ 0: no bound
	all   time.Duration // what is learned, and rewardWork
	chunk time.Duration // of what is not written yet
	began time.Duration // processor time of the thread
	n     int
	full  bool
}

const (
	chunkWork  = 5 * time.Millisecond // other models' rewards wait so long for those of one entry
	rewardWork = 4 * time.Microsecond // of a reward in the committer and in the fold, without what is learned
)

// beginBatch counts from here on what the calling goroutine does, until end.
func beginBatch(most time.Duration) *batchWork {
	runtime.LockOSThread()
	return &batchWork{most: most, began: timing.Processor()}
}

func (w *batchWork) end() { runtime.UnlockOSThread() }

func (w *batchWork) add(d time.Duration) { w.all, w.chunk = w.all+d, w.chunk+d }

// over reports whether no more rewards are to be taken.
func (w *batchWork) over() bool {
	if w.n++; w.n%16 == 0 || w.all >= w.most {
		w.full = w.full || w.most > 0 && w.all+timing.Processor()-w.began >= w.most
	}
	return w.full
}

// left is the error of a reward that was not taken, the i-th of the batch.
func (w *batchWork) left(i int) error {
	return &Error{Code: TooBusy, Field: fmt.Sprintf("rewards[%d]", i), Want: fmt.Sprintf("was not taken, because the rewards before it "+
		"take %v of a processor, as much as one request may (one and a half times --max-work of the server); send it again", w.most),
		RetryAfter: time.Second}
}

// counted returns why the records of a reward do not count: their model was closed before them in the log.
func (s *rewards) counted(p *prepared, out []fold.Outcome) error {
	for i, o := range out {
		if r, ok := p.records[i].(*eventlog.Reward); ok && o == fold.Conflict {
			return closedModel(s.state, r.Model)
		}
	}
	return nil
}

// prepareReward checks a reward.
func (s *rewards) prepareReward(ctx context.Context, r *RewardRequest) (p prepared, err error) {
	if r.OnlyCost && r.Rewards == nil {
		r.Value = 0
	}
	cost, err := r.cost()
	if err != nil {
		return p, err
	}
	if err := model.RewardInput.Check("value", r.Value); err != nil {
		return p, fault.Refused(err)
	}
	if err := cmp.Or(model.CheckText("key", r.Key), model.CheckText("caller", r.Caller)); err != nil {
		return p, fault.Refused(err)
	}
	id, d, err := s.recent.Find(ctx, r.EventID)
	if err != nil {
		return p, err
	}
	at, err := r.places(d.List)
	if err != nil {
		return p, err
	}
	key := keyOf(r.Key)
	now := payeeOf(s.state, r, id.Event, d.Model, key)
	cfg := now.cfg
	if r.Allow != nil {
		name := ""
		if cfg != nil {
			name = cfg.Config.ID
		}
		if err := r.Allow(name); err != nil {
			return p, err
		}
	}
	if now.gone != nil {
		return p, now.gone
	}
	var of model.Rewards
	if cfg != nil {
		of = cfg.Config.Rewards
	}
	if err := r.unnamed(of); err != nil && cfg != nil {
		return p, err
	}
	if r.Rewards != nil {
		if cfg == nil { // the model is not known any more
			p.result = RewardResult{Status: Ignored, Seq: now.seq}
			return p, nil
		}
		p, err := s.prepareNamed(r, id, d, cfg, cost)
		p.learning = now.learning
		return p, err
	}
	if at != nil {
		p, err := s.prepareList(r, id, d, cfg, at, cost)
		p.learning = now.learning
		return p, err
	}
	if cfg != nil && !r.OnlyCost {
		of := cfg.Config.Reward.Rewards()
		if err := of.Check("value", r.Value); err != nil {
			return p, fault.Refused(err)
		}
		if of := cfg.Totals(); now.several && !now.known && !of.Has(now.total) {
			return p, fault.Invalidf("value", r.Value,
				"makes %v of the rewards of this event by the rule %s, expected %v", now.total, cfg.Config.Reward.Rule, of)
		}
	}
	if now.known {
		p.result = RewardResult{Status: Duplicate, Seq: now.seq}
		return p, nil
	}
	p.learning = now.learning
	p.records = []eventlog.Record{&eventlog.Reward{Event: id.Event, Model: d.Model, X: d.X, Atoms: d.Atoms, Y: r.Value, Source: r.Caller,
		Time: s.opt.Clock.Now().UnixNano(), Key: key, Cost: cost, Costed: r.Cost != nil, OnlyCost: r.OnlyCost, Shown: r.shown()}}
	return p, nil
}

// payee is what the fold knows of the model and the event of a reward, at one entry.
type payee struct {
	seq      uint64
	cfg      *model.Compiled // nil for a model that is not known any more
	gone     error           // why the model takes no rewards here
	known    bool            // the key was seen
	total    float64         // of the event's rewards with this one, by the rule of its model
	several  bool            // it has others
	learning time.Duration   // what an event takes to learn, about, where this one settles it
}

// payeeOf looks at the fold.
func payeeOf(s *state, r *RewardRequest, event eventlog.Event, of eventlog.ID, key eventlog.ID) payee {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := payee{seq: s.fold.Seq(), total: r.Value}
	m := s.fold.Model(of)
	if m == nil {
		return p
	}
	now := s.fold.Current(m)
	if now.Moving != nil {
		p.gone = leaving(now.Name(), now.Moving)
	}
	p.cfg, p.known = now.Compiled, s.fold.Known(event, key)
	if !r.OnlyCost && p.cfg.Config.Reward.Rule.Settles() {
		p.learning = now.EventCost()
	}
	p.total, p.several = s.fold.Total(event, r.Value)
	if r.OnlyCost {
		p.known = s.fold.KnownCost(event, key)
	}
	return p
}

// cost returns the cost in a reward, 0 where there is none.
func (r *RewardRequest) cost() (float64, error) {
	switch {
	case r.Cost == nil && r.OnlyCost && r.Shown != nil:
		return 0, nil
	case r.Cost == nil && r.OnlyCost:
		return 0, fault.Invalidf("cost", "", "is missing, expected a number")
	case r.Cost == nil:
		return 0, nil
	}
	if !model.CostInput.Has(*r.Cost) {
		return 0, fault.Invalidf("cost", *r.Cost, "is %v, expected %v", *r.Cost, model.CostInput)
	}
	return *r.Cost + 0, nil // −0 is 0
}

// Activate implements Service.
func (s *rewards) Activate(ctx context.Context, eventID, caller string) (ActivateResult, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return ActivateResult{}, err
	}
	defer done()
	id, d, err := s.recent.Find(ctx, eventID)
	if err != nil {
		return ActivateResult{}, err
	}
	if !d.Deferred {
		return ActivateResult{Duplicate, d.Seq}, nil
	}
	if err := leavingModel(s.state, d.Model); err != nil {
		return ActivateResult{}, err
	}
	out, seq, err := s.write(ctx, &eventlog.Activate{Event: id.Event, Time: s.opt.Clock.Now().UnixNano(), Model: d.Model})
	if err != nil {
		return ActivateResult{}, fault.Advise(err, againReward)
	}
	if out == fold.Conflict {
		return ActivateResult{}, closedModel(s.state, d.Model)
	}
	return ActivateResult{statuses[out], seq}, nil
}
