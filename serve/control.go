package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// control makes, changes and removes models, one act at a time.
type control struct {
	*state
	*writer
	admin     *sync.Mutex // one control act at a time
	recasting sync.Mutex  // one copy with another policy at a time
	aside     *aside      // makes room for a model
}

// change runs a control act: it admits the call, waits for its turn, writes the record that make returns and
// waits for its outcome. make runs alone and sees the state after all earlier acts; it returns nil when there
// is nothing to do.
func (s *control) change(ctx context.Context, make func() (*eventlog.Control, error)) error {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.admin.Lock()
	defer s.admin.Unlock()
	return s.changeLocked(ctx, make)
}

func (s *control) changeLocked(ctx context.Context, make func() (*eventlog.Control, error)) error {
	r, err := make()
	if err != nil || r == nil {
		return refused(err)
	}
	r.Time = s.opt.Clock.Now().UnixNano()
	out, _, err := s.write(ctx, r)
	if err == nil && out != fold.Accepted {
		err = errMeanwhile
	}
	return err
}

// CreateModel implements Service.
func (s *control) CreateModel(ctx context.Context, config ModelConfig, caller string) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		cfg, err := config.Admit(s.opt.Limits.model())
		if err != nil {
			return nil, err
		}
		if err := s.free("config.id", config.ID); err != nil {
			return nil, err
		}
		if err := s.aside.room("config", fold.StartSize(cfg)); err != nil {
			return nil, err
		}
		seed := randomSeed()
		b, err := fold.ControlConfig(cfg.Config, &seed)
		if err != nil {
			return nil, err
		}
		return &eventlog.Control{Act: eventlog.Create, Model: random(), Name: config.ID, Config: b, Caller: caller}, nil
	})
	if err == errMeanwhile {
		err = cmp.Or(s.free("config.id", config.ID), err)
	}
	if err != nil {
		return Model{}, err
	}
	return s.view(config.ID)
}

// CreateModelFrom implements Service.
func (s *control) CreateModelFrom(ctx context.Context, name string, saved []byte, caller string) (Model, error) {
	from, err := fold.ReadSaved(saved)
	if err != nil {
		return Model{}, invalid("snapshot", fmt.Sprintf("%d bytes", len(saved)), "%v", err)
	}
	done, err := s.beginWrite(ctx)
	if err != nil {
		return Model{}, err
	}
	defer done()
	s.admin.Lock()
	defer s.admin.Unlock()
	config := from.Compiled.Config
	config.ID = name
	if _, err := config.Admit(s.opt.Limits.model()); err != nil {
		return Model{}, refused(err)
	}
	if err := s.free("config.id", name); err != nil {
		return Model{}, err
	}
	if err := s.aside.room("snapshot", from.Size()); err != nil {
		return Model{}, err
	}
	records, err := from.Records(random(), name, caller, s.opt.Clock.Now().UnixNano(), eventlog.MaxData)
	if err != nil {
		return Model{}, refused(err)
	}
	for _, r := range records {
		out, _, err := s.write(ctx, r)
		if err == nil && out != fold.Accepted {
			err = errorf(Conflict, "the import was interrupted; nothing was made, send it again")
		}
		if err != nil {
			return Model{}, err
		}
	}
	return s.view(name)
}

// free refuses a name that is taken, and one model too many.
func (s *control) free(field, name string) error {
	if m := s.away.of(name); m != nil && m.Gone {
		return &Error{Code: Conflict, Field: field, Value: name, Want: "the model of this name went to " + m.To + ", and calls for it " +
			"are sent there; delete it here to use the name again"}
	}
	if s.names.entry(name) != nil {
		return &Error{Code: Conflict, Field: field, Value: name, Want: "there is a model with this name"}
	}
	if s.names.len() >= s.opt.Limits.Models {
		return &Error{Code: TooBusy, Field: field, Want: "there are as many models as are allowed"}
	}
	return nil
}

// ConfigureModel implements Service.
func (s *control) ConfigureModel(ctx context.Context, name string, version uint64, config ModelConfig,
	caller string) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		if err := s.caughtUp(ctx, name); err != nil {
			return nil, err
		}
		return s.configure(name, version, config, caller)
	})
	if err == errMeanwhile && version != 0 {
		err = errOldVersion
	}
	if err != nil {
		return Model{}, err
	}
	return s.view(name)
}

// errOldVersion answers a change of a configuration that is not the present one.
var errOldVersion = &Error{Code: Conflict, Field: "version", Want: "the configuration has changed since; read it again"}

func (s *control) configure(name string, version uint64, config ModelConfig, caller string) (*eventlog.Control, error) {
	_, v, err := s.model(name)
	if err != nil {
		return nil, err
	}
	if version != 0 && version != v.Number {
		return nil, errOldVersion
	}
	asked := config
	config.Keep(v.Compiled.Config)
	cfg, err := config.Change(s.opt.Limits.model())
	if err != nil {
		return nil, err
	}
	if err := v.Compiled.SameShape(cfg); err != nil {
		return nil, err
	}
	if err := asked.Lost(cfg.Config); err != nil {
		return nil, err
	}
	if !model.SameJSON(v.Compiled.Config.Actions, cfg.Config.Actions) {
		if err := cfg.CheckCatalogue(); err != nil {
			return nil, err
		}
	}
	if cfg.Config.Budget != v.Compiled.Config.Budget || !model.SameJSON(v.Compiled.Config.Actions, cfg.Config.Actions) {
		if err := cfg.CheckBudget(); err != nil {
			return nil, err
		}
	}
	if err := cfg.CheckHalfLife(); err != nil {
		return nil, err
	}
	b, err := fold.ControlConfig(cfg.Config, nil)
	if err != nil {
		return nil, err
	}
	c := &eventlog.Control{Act: eventlog.Configure, Model: v.ID, Name: name, Config: b, Caller: caller}
	if s.nodes != nil { // the mutex of this process does not hold up other nodes; the fold does
		c.Base = v.Number
	}
	return c, nil
}

// DeleteModel implements Service.
func (s *control) DeleteModel(ctx context.Context, name, caller string) error {
	return s.change(ctx, func() (*eventlog.Control, error) {
		s.mu.RLock()
		gone := s.fold.Moves.GoneModel(name)
		s.mu.RUnlock()
		if gone != nil {
			return &eventlog.Control{Act: eventlog.Delete, Model: gone.ID, Name: name, Caller: caller}, nil
		}
		_, v, err := s.model(name)
		if err != nil {
			return nil, err
		}
		return &eventlog.Control{Act: eventlog.Delete, Model: v.ID, Name: name, Caller: caller}, nil
	})
}

// PauseModel implements Service.
func (s *control) PauseModel(ctx context.Context, name, caller string) (Model, error) {
	return s.pause(ctx, name, caller, true)
}

// ResumeModel implements Service.
func (s *control) ResumeModel(ctx context.Context, name, caller string) (Model, error) {
	return s.pause(ctx, name, caller, false)
}

func (s *control) pause(ctx context.Context, name, caller string, pause bool) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(name)
		if err != nil || v.Paused == pause {
			return nil, err
		}
		act := eventlog.Resume
		if pause {
			act = eventlog.Pause
		}
		return &eventlog.Control{Act: act, Model: v.ID, Name: name, Caller: caller}, nil
	})
	if err != nil {
		return Model{}, err
	}
	return s.view(name)
}

// CloneModel implements Service.
func (s *control) CloneModel(ctx context.Context, r CloneRequest) (Model, error) {
	if r.Change != nil {
		done, err := s.begin(ctx)
		if err != nil {
			return Model{}, err
		}
		defer done()
		if !s.recasting.TryLock() {
			return Model{}, &Error{Code: TooBusy, Want: "another copy learns from the log", RetryAfter: 5 * time.Second}
		}
		defer s.recasting.Unlock()
		if r.AtSeq == 0 {
			r.AtSeq = s.progress.applied.Load()
		}
		if _, _, err := s.recast(&r); err != nil { // before the turn of control acts; the result is kept
			return Model{}, err
		}
		ctx = context.WithoutCancel(ctx)
	}
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(r.From)
		if err != nil {
			return nil, err
		}
		if err := model.CheckName("name", r.Name); err != nil {
			return nil, err
		}
		if err := s.free("name", r.Name); err != nil {
			return nil, err
		}
		if r.Change != nil {
			cfg, digest, err := s.recast(&r)
			if err != nil {
				return nil, err
			}
			if err := s.aside.room("from", fold.StartSize(cfg)); err != nil {
				return nil, err
			}
			c := &eventlog.Control{Act: eventlog.Clone, Model: random(), Name: r.Name, From: v.ID, AtSeq: r.AtSeq,
				Digest: digest, Caller: r.Caller}
			c.Config, err = fold.ControlConfig(cfg.Config, nil)
			return c, err
		}
		config := v.Compiled.Config.Settled()
		config.ID = r.Name
		cfg, err := config.Compile(s.opt.Limits.model())
		if err != nil {
			return nil, err
		}
		c := &eventlog.Control{Act: eventlog.Clone, Model: random(), Name: r.Name, From: v.ID, AtSeq: r.AtSeq,
			Caller: r.Caller}
		if err := s.caughtUp(ctx, r.From); err != nil {
			return nil, err
		}
		if err := s.from(c, "at_seq"); err != nil {
			return nil, err
		}
		s.mu.RLock()
		size := s.fold.Model(v.ID).Size()
		s.mu.RUnlock()
		if err := s.aside.room("from", size); err != nil {
			return nil, err
		}
		c.Config, err = fold.ControlConfig(cfg.Config, nil)
		return c, err
	})
	if err == errMeanwhile {
		err = cmp.Or(s.free("name", r.Name), err)
	}
	if err != nil {
		return Model{}, err
	}
	return s.view(r.Name)
}

// recast returns the configuration of a copy with another policy, and the digest of the state that it begins with.
func (s *control) recast(r *CloneRequest) (*model.Compiled, eventlog.ID, error) {
	s.mu.RLock()
	m := s.fold.Named(r.From)
	if m == nil {
		s.mu.RUnlock()
		return nil, 0, missing(s.state, r.From)
	}
	if m.Moving != nil {
		s.mu.RUnlock()
		return nil, 0, leaving(r.From, m.Moving)
	}
	for x := range s.fold.Models() {
		if x.Came != nil && x.Root == m.Root {
			s.mu.RUnlock()
			return nil, 0, &Error{Code: Gone, Field: "policy", Want: "another policy learns from the log since the model began, and " +
				"the model came from another server, which has that log"}
		}
	}
	chain, own, seed, began := s.fold.Lineage(m), m.Compiled, m.Seed, m.Created.Seq
	lo, hi := m.Range()
	s.mu.RUnlock()
	cfg, err := r.Change.Recast(own.Config, lo, hi, s.opt.Limits.model())
	if err != nil {
		return nil, 0, refused(err)
	}
	cfg.Config = cfg.Config.Settled()
	cfg.Config.ID = r.Name
	if cfg, err = cfg.Config.Compile(s.opt.Limits.model()); err != nil {
		return nil, 0, refused(err)
	}
	if applied := s.progress.applied.Load(); r.AtSeq < began || r.AtSeq > applied {
		return nil, 0, invalid("at_seq", r.AtSeq,
			"expected a sequence from %d, where the model began, to %d, the present", began, applied)
	}
	if own.SameState(cfg) == nil {
		return nil, 0, invalid("policy", cfg.Config.Policy.Raw["kind"],
			"is what the model has; leave it out to copy the state")
	}
	var past fold.Past
	if base := s.based.Load(); base > 0 { // the entries may be here still, and go at any time
		err = &fold.TrimmedError{Base: base}
	} else {
		past, err = s.past.Recast(chain, r.AtSeq, cfg)
	}
	var trimmed *fold.TrimmedError
	switch {
	case errors.As(err, &trimmed):
		return nil, 0, &Error{Code: Gone, Field: "policy",
			Want: "another policy learns from the log since the model began, and the log was trimmed", Err: err}
	case err != nil:
		return nil, 0, &Error{Code: Unavailable, Want: "the log cannot be read again", Err: err}
	}
	digest, err := past.DigestUnder(cfg, seed)
	return cfg, digest, err
}

// RollbackModel implements Service.
func (s *control) RollbackModel(ctx context.Context, r RollbackRequest) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(r.Name)
		if err != nil {
			return nil, err
		}
		c := &eventlog.Control{Act: eventlog.Rollback, Model: random(), Name: r.Name, From: v.ID, AtSeq: r.ToSeq,
			KeepLater: r.KeepLater, Caller: r.Caller}
		if c.AtSeq == 0 {
			return nil, invalid("to_seq", 0, "expected a sequence of the log")
		}
		if err := s.caughtUp(ctx, r.Name); err != nil {
			return nil, err
		}
		return c, s.from(c, "to_seq")
	})
	if err != nil {
		return Model{}, err
	}
	return s.view(r.Name)
}

// from checks the sequence of a clone or a rollback and states the digest of what it will find there,
// so that the fold can confirm it. A model's past begins where it was created or cloned.
func (s *control) from(c *eventlog.Control, field string) error {
	applied := s.progress.applied.Load()
	if c.AtSeq == 0 {
		c.AtSeq = applied
	}
	s.mu.RLock()
	m := s.fold.Model(c.From)
	chain := s.fold.Lineage(m)
	oldest := m.Created.Seq
	present := m.Last <= c.AtSeq && m.Since <= c.AtSeq
	v := s.entries[m.ID].version.Load()
	s.mu.RUnlock()
	began := "the model began"
	if base := max(s.past.Base.Load(), s.based.Load()); base > oldest {
		oldest, began = base, "the log that is kept begins"
	}
	if c.AtSeq > applied || c.AtSeq < oldest {
		return invalid(field, c.AtSeq, "expected a sequence from %d, where %s, to %d, the present", oldest, began,
			applied)
	}
	if present {
		c.Digest = v.Digest
		return nil
	}
	past, err := s.past.PolicyAt(chain, c.AtSeq)
	if err != nil {
		return &Error{Code: Unavailable, Want: "the state of that time cannot be computed", Err: err}
	}
	c.Digest, err = past.DigestUnder(v.Compiled, v.Seed)
	return err
}
