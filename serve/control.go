package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"

	"troupe/eventlog"
	"troupe/feature"
)

// random returns a number from the operating system that is not 0.
func random() eventlog.ID {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails: crypto/rand ends the program first
		if id := eventlog.ID(binary.LittleEndian.Uint64(b[:])); id != 0 {
			return id
		}
	}
}

// change is the frame of every control act: admission, one at a time, the record and its outcome.
// make returns the record, or nil when there is nothing to do; it runs alone and sees what all
// earlier acts have done.
func (s *Server) change(ctx context.Context, make func() (*eventlog.Control, error)) error {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.admin.Lock()
	defer s.admin.Unlock()
	return s.changeLocked(ctx, make)
}

func (s *Server) changeLocked(ctx context.Context, make func() (*eventlog.Control, error)) error {
	r, err := make()
	if err != nil || r == nil {
		return err
	}
	r.Time = s.opt.Now().UnixNano()
	out, _, err := s.write(ctx, r)
	if err == nil && out != accepted {
		err = errorf(Conflict, "the model has changed meanwhile")
	}
	return err
}

// CreateModel implements Service.
func (s *Server) CreateModel(ctx context.Context, config ModelConfig, caller string) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		cfg, err := config.admit(s.opt.Limits)
		if err != nil {
			return nil, err
		}
		if err := s.free("config.id", config.ID); err != nil {
			return nil, err
		}
		var seed [16]byte
		rand.Read(seed[:])
		b, err := encodeSecrets(secrets{cfg.config, encodeSeed(seedOf(seed))})
		if err != nil {
			return nil, err
		}
		return &eventlog.Control{Act: eventlog.Create, Model: random(), Name: config.ID, Config: b, Caller: caller}, nil
	})
	if err != nil {
		return Model{}, err
	}
	return s.view(config.ID)
}

// encodeSecrets returns the bytes of a control record's configuration, after reading them back as the
// fold will: what it could not read would stop the server for good.
func encodeSecrets(x secrets) ([]byte, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, configError("config", err)
	}
	var back secrets
	if err := json.Unmarshal(b, &back); err != nil {
		return nil, configError("config", err)
	}
	cfg, err := back.Config.logged()
	if err != nil {
		return nil, err
	}
	if again, err := json.Marshal(secrets{cfg.config, x.Seed}); err != nil || !bytes.Equal(b, again) {
		return nil, invalid("config", "", "does not read back to itself")
	}
	return b, nil
}

// free refuses a name that is taken, and one model too many.
func (s *Server) free(field, name string) error {
	names := *s.names.Load()
	if names[name] != nil {
		return &Error{Code: Conflict, Field: field, Value: name, Want: "there is a model with this name"}
	}
	if len(names) >= s.opt.Limits.Models {
		return &Error{Code: TooBusy, Field: field, Want: "there are as many models as are allowed"}
	}
	return nil
}

// ConfigureModel implements Service.
func (s *Server) ConfigureModel(ctx context.Context, name string, version uint64, config ModelConfig, caller string) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) { return s.configure(name, version, config, caller) })
	if err != nil {
		return Model{}, err
	}
	return s.view(name)
}

func (s *Server) configure(name string, version uint64, config ModelConfig, caller string) (*eventlog.Control, error) {
	_, v, err := s.model(name)
	if err != nil {
		return nil, err
	}
	if version != 0 && version != v.number {
		return nil, &Error{Code: Conflict, Field: "version", Want: "the configuration has changed since; read it again"}
	}
	// A configuration that says "learn", as it was written before, means what was learned since.
	if config.Features.Schema == nil && config.Dim == 0 {
		config.Features = v.cfg.config.Features
	}
	config.Policy.keep(v.cfg.config.Policy)
	cfg, err := config.compile(s.opt.Limits)
	if err != nil {
		return nil, err
	}
	if err := v.cfg.sameShape(cfg); err != nil {
		return nil, err
	}
	if v.cfg.encoder != nil && !sameJSON(v.cfg.config.Actions, cfg.config.Actions) {
		if err := cfg.tryCatalogue(); err != nil {
			return nil, err
		}
	}
	b, err := encodeSecrets(secrets{Config: cfg.config})
	if err != nil {
		return nil, err
	}
	return &eventlog.Control{Act: eventlog.Configure, Model: v.id, Name: name, Config: b, Caller: caller}, nil
}

// DeleteModel implements Service.
func (s *Server) DeleteModel(ctx context.Context, name, caller string) error {
	return s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(name)
		if err != nil {
			return nil, err
		}
		return &eventlog.Control{Act: eventlog.Delete, Model: v.id, Name: name, Caller: caller}, nil
	})
}

// PauseModel implements Service.
func (s *Server) PauseModel(ctx context.Context, name, caller string) (Model, error) {
	return s.pause(ctx, name, caller, true)
}

// ResumeModel implements Service.
func (s *Server) ResumeModel(ctx context.Context, name, caller string) (Model, error) {
	return s.pause(ctx, name, caller, false)
}

func (s *Server) pause(ctx context.Context, name, caller string, pause bool) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(name)
		if err != nil || v.paused == pause {
			return nil, err
		}
		act := eventlog.Resume
		if pause {
			act = eventlog.Pause
		}
		return &eventlog.Control{Act: act, Model: v.id, Name: name, Caller: caller}, nil
	})
	if err != nil {
		return Model{}, err
	}
	return s.view(name)
}

// CloneModel implements Service.
func (s *Server) CloneModel(ctx context.Context, r CloneRequest) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(r.From)
		if err != nil {
			return nil, err
		}
		if !isName(r.Name) {
			return nil, invalid("name", r.Name, wantName)
		}
		if err := s.free("name", r.Name); err != nil {
			return nil, err
		}
		config := v.cfg.config
		config.ID = r.Name
		cfg, err := config.compile(s.opt.Limits)
		if err != nil {
			return nil, err
		}
		c := &eventlog.Control{Act: eventlog.Clone, Model: random(), Name: r.Name, From: v.id, AtSeq: r.AtSeq, Caller: r.Caller}
		if err := s.from(c, "at_seq"); err != nil {
			return nil, err
		}
		c.Config, err = encodeSecrets(secrets{Config: cfg.config})
		return c, err
	})
	if err != nil {
		return Model{}, err
	}
	return s.view(r.Name)
}

// RollbackModel implements Service.
func (s *Server) RollbackModel(ctx context.Context, r RollbackRequest) (Model, error) {
	err := s.change(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(r.Name)
		if err != nil {
			return nil, err
		}
		c := &eventlog.Control{Act: eventlog.Rollback, Model: random(), Name: r.Name, From: v.id, AtSeq: r.ToSeq, KeepLater: r.KeepLater, Caller: r.Caller}
		if c.AtSeq == 0 {
			return nil, invalid("to_seq", 0, "expected a sequence of the log")
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
func (s *Server) from(c *eventlog.Control, field string) error {
	applied := s.progress.applied.Load()
	if c.AtSeq == 0 {
		c.AtSeq = applied
	}
	s.mu.RLock()
	m := s.fold.models[c.From]
	chain := s.fold.lineage(m)
	oldest := m.created.Seq
	present := m.last <= c.AtSeq && m.since <= c.AtSeq
	v := m.entry.version.Load()
	s.mu.RUnlock()
	began := "the model began"
	if base := s.past.base.Load(); base > oldest {
		oldest, began = base, "the log that is kept begins"
	}
	if c.AtSeq > applied || c.AtSeq < oldest {
		return invalid(field, c.AtSeq, "expected a sequence from %d, where %s, to %d, the present", oldest, began, applied)
	}
	if v.cfg.encoder == nil {
		return nil
	}
	if present {
		c.Digest = v.digest
		return nil
	}
	b, _, err := s.past.policyAt(chain, c.AtSeq)
	if err != nil {
		return &Error{Code: Unavailable, Want: "the state of that time cannot be computed", Err: err}
	}
	if b == nil { // before the features were learned
		p, err := v.cfg.newPolicy(v.seed)
		if err == nil {
			b, err = p.AppendSnapshot(nil)
		}
		if err != nil {
			return err
		}
	}
	c.Digest = digest(b)
	return nil
}

// learnFeatures gives a model the schema that its first request suggests. It returns when a version
// with a schema is there.
func (s *Server) learnFeatures(ctx context.Context, name string, r *DecideRequest) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	return s.changeLocked(ctx, func() (*eventlog.Control, error) {
		_, v, err := s.model(name)
		if err != nil || v.cfg.encoder != nil {
			return nil, err
		}
		sample := feature.Sample{Context: r.Context}
		if len(r.Packed) > 0 {
			return nil, invalid("packed", "", "expected actions: a model that learns its features reads the first request's")
		}
		actions := r.Actions
		if len(actions) == 0 {
			for _, a := range v.cfg.config.Actions {
				actions = append(actions, Action(a))
			}
		}
		if len(actions) == 0 {
			return nil, invalid("actions", "", "expected at least one action: the model has no catalogue")
		}
		for _, a := range actions {
			f := a.Features
			if i, ok := v.cfg.catalogue[a.ID]; ok && len(f) == 0 {
				f = v.cfg.config.Actions[i].Features
			}
			sample.Actions = append(sample.Actions, feature.SampleAction{ID: a.ID, Features: f})
		}
		p, err := feature.Learn([]feature.Sample{sample}, feature.LearnOptions{Limits: s.opt.Limits.Feature})
		if err != nil {
			return nil, requestError(err)
		}
		config := v.cfg.config
		config.Features.Schema = p.Schema
		s.opt.Logger.Info("features learned from the first request", "model", name, "schema", p.Schema.ID())
		return s.configure(name, v.number, config, r.Caller)
	})
}

// State implements Service.
func (s *Server) State(ctx context.Context, name string) (StateView, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return StateView{}, err
	}
	defer done()
	s.mu.RLock()
	m := s.fold.names[name]
	if m == nil {
		s.mu.RUnlock()
		return StateView{}, &Error{Code: NotFound, Field: "model", Value: name, Want: "there is no such model"}
	}
	v, learned := m.entry.version.Load(), m.counts.Learned
	out := StateView{Name: name, Incarnation: m.id, Seq: s.fold.seq, Digest: v.digest, Dim: v.cfg.dim, Learned: learned, Snapshot: bytes.Clone(v.state.data())}
	v.state.hold() // nothing is published while the fold is locked: v is the newest
	s.mu.RUnlock()
	defer v.state.release()
	if v.cfg.encoder == nil {
		return out, nil
	}
	w, err := v.prepare(nil)
	if err != nil {
		return out, &Error{Code: Internal, Want: "the state cannot be read", Err: err}
	}
	if r, ok := w.policy.(regression); ok {
		out.Theta, out.LogDet = append([]float64(nil), r.Ridge().Theta()...), r.Ridge().LogDetRatio()
	}
	out.Coordinates = make([]string, v.cfg.dim)
	for i := range out.Coordinates {
		out.Coordinates[i] = v.cfg.encoder.Coordinate(i)
	}
	return out, nil
}
