package serve

import (
	"fmt"

	"troupe/eventlog"
	"troupe/serve/choose"
)

// Observe implements decide.Model.
func (e *entry) Observe(w *choose.Worker, r *eventlog.Decision) {
	if e.broken.Load() != nil {
		e.mends()
	}
	if w.Alike() {
		r.Notes |= eventlog.NoteAlike
	}
	if b := w.Offer.Schema(); b != nil {
		r.Notes |= e.observed.met(b)
	}
	if b := w.Offer.Batch(); b != nil {
		r.Notes |= e.observed.hashed(b, w, int(r.Index))
	}
}

// warned is for how many decisions with a note the answer has a warning.
const warned = 10

// Warnings implements decide.Model: none when enough decisions had the same.
func (e *entry) Warnings(n eventlog.Notes, v *choose.Version) (out []string) {
	before := &v.Notes
	for i := range noteTexts {
		text := noteText(i, v.Compiled)
		if n&(1<<i) == 0 || before[i] >= warned {
			continue
		}
		if names := e.observed.named()[i]; names != "" {
			text += " (seen in " + names + ")"
		}
		out = append(out, text)
	}
	return out
}

// Worker implements decide.Model.
func (e *entry) Worker(v *choose.Version) (*choose.Worker, error) {
	if !e.used.Load() {
		e.used.Store(true)
	}
	for {
		w, err := e.workers.Take(v)
		if err == nil {
			return w, nil
		}
		if err != choose.ErrOld {
			return nil, e.Broken(v, err)
		}
		v = e.state.publishedOf(e)
		if err := usable(v); err != nil {
			return nil, err
		}
	}
}

// Broken implements decide.Model.
func (e *entry) Broken(v *choose.Version, err error) error {
	name := v.Compiled.Config.ID
	want := fmt.Sprintf("its policy fails: %v; take it back to before what it learned last (POST /v1/models/%s:rollback "+
		"with a to_seq below %d), or make another model", err, name, v.Seq)
	if e.broken.Swap(&want) == nil {
		e.state.broken.Add(1)
	}
	return &Error{Code: ModelFailed, Field: "model", Value: name, Want: want, Err: err}
}

// failed returns why the model cannot decide, empty while it can: the newest try counts.
func (e *entry) failed() string {
	if s := e.broken.Load(); s != nil {
		return *s
	}
	return ""
}

// Done implements decide.Model.
func (e *entry) Done(w *choose.Worker) { e.workers.Put(w) }

// usable returns why a version does not decide.
func usable(v *choose.Version) error {
	switch {
	case v.Paused:
		return errorf(Paused, "the model is paused")
	}
	return nil
}
