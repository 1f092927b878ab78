package fold

import (
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

const (
	deferFrom = 128     // the dimension from which a choice of λ is deferred; below it takes a few milliseconds
	slice     = 1 << 22 // operations of updates in a step of Advance, some milliseconds
)

// policies keeps the policies of the models: which models have one, whether it is built or laid aside, and what it may
// leave to the caller.
type policies struct {
	models *registry

	// only, if not nil, are the models whose policies are kept. The others have none: a look at the past
	// of a few models needs no others.
	only      map[eventlog.ID]bool
	cast      *model.Compiled // every policy that is kept is this one, see History.Recast
	deferring bool            // see Defer
	shapes    model.Shapes    // of the configurations that were read
	shelf     *shelf.Shelf    // of the same; nil: in memory
}

// LayAside gives up the policy of a model and keeps its bytes. A model that lags stays as it is. TakeChanged has the
// model when its published version is to be replaced.
func (p *policies) LayAside(m *Model) error {
	if m.policy == nil || m.lagging {
		return nil
	}
	_, err := m.State()
	if err != nil {
		return err
	}
	other, err := m.layAside(p.shelf)
	if other {
		p.models.markChanged(m)
	}
	return err
}

// wake builds the policy of a model that was laid aside.
func (p *policies) wake(m *Model) error {
	built, err := m.wake(m.Compiled, m.Seed)
	if built {
		p.defers(m)
	}
	return err
}

// recast gives m, whose configuration is cfg, the policy of the fold's cast.
func (p *policies) recast(m *Model, cfg *model.Compiled) (err error) {
	if p.cast != nil && p.keeps(m.ID) {
		m.uncast = cfg
		m.Compiled, err = cfg.Config.As(p.cast.Config)
	}
	return err
}

// DropPolicies drops what the models have learned. The fold then follows names, configurations, windows and rewards and
// learns nothing: readers of a log that need only what counted save the policies' time and memory.
func (p *policies) DropPolicies() {
	p.only = map[eventlog.ID]bool{}
	for _, m := range p.models.byID {
		m.drop()
	}
}

// Defer lets models lag from here on. The caller looks for Lagging models after every Apply, does the work that
// Advance returns, and calls Advance again until it says that the model is there.
func (p *policies) Defer() {
	p.deferring = true
	for _, m := range p.models.byID {
		p.defers(m)
	}
}

// defers tells the policy of m whether it may leave a choice of λ to others.
func (p *policies) defers(m *Model) {
	if a := m.deferrer(); a != nil && p.deferring && m.Compiled.Dim >= deferFrom {
		a.Defer(true)
	}
}

// Advance does a slice of what a lagging model waits for. done is the work that it returned last, which the caller has
// finished; nil at first. It returns more work, to be done without the fold, or nil: then the caller calls it again,
// unless the model does not lag any more.
func (p *policies) Advance(m *Model, done bandit.Work) bandit.Work {
	a := m.deferrer()
	if !m.lagging || a == nil {
		m.settled()
		return nil
	}
	if c := a.Pending(); c != nil && c != done {
		return c
	}
	a.Finish() // takes what was chosen
	d := m.Compiled.Dim
	for n := max(1, slice/(d*d)); n > 0 && len(m.waiting) > 0; n-- {
		u := m.next()
		m.update(u, bandit.Action{X: u.x.X, Index: bandit.NoIndex}, nil)
		if c := a.Pending(); c != nil {
			return c
		}
	}
	if len(m.waiting) == 0 {
		m.settled()
		p.models.markChanged(m)
	}
	return nil
}

// Settle lets a model catch up at once.
func (p *policies) Settle(m *Model) {
	if m.lagging {
		m.settle()
		p.models.markChanged(m)
	}
}

// begin gives a model its policy before the first event.
func (p *policies) begin(m *Model) (err error) {
	if p.keeps(m.ID) {
		if m.policy, err = m.Compiled.NewPolicy(m.Seed); err == nil {
			p.defers(m)
		}
	}
	return err
}

// keeps reports whether the model with an id has a policy.
func (p *policies) keeps(id eventlog.ID) bool { return p.only == nil || p.only[id] }
