package fold

import "troupe/eventlog"

// acts folds what people do: control records. It makes models of its own and leaves other acts to the parts that they
// are about.
type acts struct {
	at       *position
	models   *registry
	policies *policies
	teacher  *teacher
	*cluster
	*trims
	*imports
	moves *Moves
	copies
}

// actTable has a row for each act.
var actTable = [...]func(*acts, *act) (Outcome, error){
	eventlog.Create:       (*acts).create,
	eventlog.Configure:    ofModel((*acts).configure),
	eventlog.Pause:        ofModel((*acts).pause),
	eventlog.Resume:       ofModel((*acts).resume),
	eventlog.Clone:        (*acts).clone,
	eventlog.Rollback:     (*acts).rollback,
	eventlog.Delete:       remove,
	eventlog.RaiseVersion: accepted,
	eventlog.Import:       (*acts).importing,
	eventlog.Trim:         (*acts).trim,
	eventlog.Members:      (*acts).members,
	eventlog.VoidEntry:    accepted, // readers have looked for it where they could not use the entry
	eventlog.Depart:       func(a *acts, x *act) (Outcome, error) { return a.moves.depart(x) },
	eventlog.Stay:         func(a *acts, x *act) (Outcome, error) { return a.moves.stay(x) },
	eventlog.Gone:         func(a *acts, x *act) (Outcome, error) { return a.moves.leave(x) },
	eventlog.Arrive:       func(a *acts, x *act) (Outcome, error) { return a.moves.arrive(x) },
	eventlog.Turn:         func(a *acts, x *act) (Outcome, error) { return a.moves.turn(x) },
}

// control folds a control record. An act on a model that is gone, or whose name is taken, is a Conflict:
// two callers may have written at the same time.
func (a *acts) control(r *eventlog.Control) (Outcome, error) {
	var x act
	if err := x.read(r, a.at.seq, &a.policies.shapes); err != nil {
		return None, err
	}
	return actTable[r.Act](a, &x) // a record with another act cannot be read
}

// accepted is the row of acts that change nothing here.
func accepted(*acts, *act) (Outcome, error) { return Accepted, nil }

// ofModel is the row of acts on a model that is there.
func ofModel(do func(*acts, *Model, *act) (Outcome, error)) func(*acts, *act) (Outcome, error) {
	return func(a *acts, x *act) (Outcome, error) {
		m := a.models.byID[x.r.Model]
		if m == nil || m.Deleted || !m.present() || m.Moving != nil {
			return Conflict, nil
		}
		return do(a, m, x)
	}
}

// create makes a model that has learned nothing.
func (a *acts) create(x *act) (Outcome, error) {
	if a.models.taken(x.r) || x.cfg == nil {
		return Conflict, nil
	}
	seed, err := decodeSeed(x.seed)
	if err != nil {
		return None, err
	}
	m := &Model{ID: x.r.Model, Compiled: x.cfg, Version: 1, Seed: seed, Created: x.at, Changed: x.at,
		Lineage: Lineage{Since: a.at.seq, Root: x.r.Model}}
	if err := a.policies.recast(m, x.cfg); err != nil {
		return None, err
	}
	if err := a.policies.begin(m); err != nil {
		return None, err
	}
	a.models.install(m)
	return Accepted, a.policies.LayAside(m)
}

// configure replaces a configuration.
func (a *acts) configure(m *Model, x *act) (Outcome, error) {
	if x.r.Base != 0 && x.r.Base != m.Version { // made from a configuration that is not the present one
		return Conflict, nil
	}
	if x.cfg == nil || m.ownConfig().SameShape(x.cfg) != nil {
		return Conflict, nil
	}
	a.policies.Settle(m) // decisions with the new configuration replay on a state of this entry
	was := m.Compiled
	m.Compiled = x.cfg
	m.beginBudget(was.Config.Budget)
	m.beginGuard(&was.Config)
	if err := a.policies.recast(m, x.cfg); err != nil {
		return None, err
	}
	m.Version++
	a.changed(m, x)
	if was.Remembers() != m.Compiled.Remembers() { // the digest of the state is another one from here on
		if err := a.teacher.touch(m); err != nil {
			return None, err
		}
	}
	return Accepted, a.teacher.priors(m, was)
}

func (a *acts) pause(m *Model, x *act) (Outcome, error) {
	m.Paused = true
	return a.changed(m, x)
}

func (a *acts) resume(m *Model, x *act) (Outcome, error) {
	m.Paused = false
	return a.changed(m, x)
}

// remove removes a model, or what the log remembers of one that has gone.
func remove(a *acts, x *act) (Outcome, error) {
	if a.moves.forget(x.r) {
		return Accepted, nil
	}
	return ofModel((*acts).remove)(a, x)
}

func (a *acts) remove(m *Model, x *act) (Outcome, error) {
	a.models.remove(m)
	return a.changed(m, x)
}

// changed notes the last act on a model.
func (a *acts) changed(m *Model, x *act) (Outcome, error) {
	m.Changed = x.at
	a.models.markChanged(m)
	return Accepted, nil
}
