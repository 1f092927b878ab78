package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/joined"
	"troupe/spec"
)

// directory is the data directory of a stopped server.
type directory struct {
	dir     string
	model   string // "": the only one
	after   uint64 // only decisions behind this entry
	learned []learnedPart
	outcome string
	rewards *[2]float64 // the range that the flags give, nil: that of what the model learns
	flag    string      // the flag that gives it
	early   bool        // also decisions whose rewards may still come: a plan looks at no rewards
	redraws redrawFile
}

// directoryReader reads the log of a stopped server.
type directoryReader struct {
	j      *joined.Joiner
	events chan *logged.Event
	stop   context.CancelFunc
	first  *logged.Event
	err    error // read after events is closed
	sent   bool
	reward [2]float64 // the range at the first event
	after  uint64
}

var errStopped = errors.New("stopped")

// read joins the event log of the directory.
func (d directory) read() (logReader, error) {
	labels, err := serve.ReadLabels(d.dir)
	if err != nil {
		return nil, err
	}
	d.after = behind(d.after, d.learned, func(id eventlog.ID) bool {
		name, ok := labels.Names[id]
		return ok && (d.model == "" || name == d.model)
	})
	o := joined.Options{Model: d.model, ID: labels.EventID, Base: serve.BaseOf(d.dir), From: d.after, Outcome: d.outcome}
	ctx, stop := context.WithCancel(context.Background())
	r := &directoryReader{j: joined.New(o), events: make(chan *logged.Event, 256), stop: stop, after: d.after}
	redraws, err := d.redraws.open()
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer close(r.events)
		defer redraws.close()
		if err := d.join(ctx, r, redraws); !errors.Is(err, errStopped) {
			r.err = err
		}
	}()
	// The first event tells the range of rewards; it comes behind the record that made the model.
	ev, ok := <-r.events
	if !ok {
		if r.err == nil {
			r.err = term.Misuse(fmt.Errorf("%s: %s", d.dir, r.nothing(d.model, d.after)))
		}
		stop()
		return nil, r.err
	}
	r.first = ev
	return r, nil
}

// join sends the decisions of the log to r, in order.
func (d directory) join(ctx context.Context, r *directoryReader, redraws *redrawReader) error {
	ending := false
	emit := func(settled *joined.Decided) error {
		ev, err := d.event(r.j, settled, redraws)
		if err != nil || ev == nil {
			return err
		}
		ev.Early = ending
		if !r.sent {
			r.sent, r.reward = true, r.j.Range
		}
		select {
		case r.events <- ev:
			return nil
		case <-ctx.Done():
			return errStopped
		}
	}
	err := d.scan(func(x eventlog.Delivery) error { return r.j.Apply(x, emit) })
	if err == nil {
		err = r.j.Gap()
	}
	if err == nil {
		ending = true
		err = r.j.End(emit)
	}
	if err == nil && d.early {
		err = openLaws(r.j, emit)
	}
	if f := r.j.Fold(); err == nil && f != nil { // the directory may have no snapshot that says whose log it is
		for _, p := range d.learned {
			if d.after < p.origin.Seq && slices.ContainsFunc(p.origin.Models,
				func(id eventlog.ID) bool { return f.Model(id) != nil }) {
				err = term.Misuse(fmt.Errorf("--target %s: it has learned entries up to %d of this log, and is "+
					"not evaluated on them", p.target, p.origin.Seq))
			}
		}
	}
	return err
}

// event is a settled decision as an event, nil for one that is none.
func (d directory) event(j *joined.Joiner, settled *joined.Decided, redraws *redrawReader) (*logged.Event, error) {
	ev, err := j.Event(settled)
	if none := (*joined.NoOutcomeError)(nil); errors.As(err, &none) {
		return nil, term.Misuse(fmt.Errorf("--outcome %s: %w", none.Outcome, err))
	}
	if err != nil || ev == nil {
		return nil, err
	}
	if r := d.rewards; r != nil && !(ev.Reward >= r[0] && ev.Reward <= r[1]) {
		return nil, term.Misuse(fmt.Errorf("entry %d, record %d: reward: %g, expected a reward in [%g, %g] "+
			"(%s)", settled.Seq, settled.Key.Index, ev.Reward, r[0], r[1], d.flag))
	}
	if redraws != nil {
		ev.Redraws, err = redraws.of(settled)
	}
	return ev, err
}

// scan gives the entries of the log in order.
func (d directory) scan(each func(eventlog.Delivery) error) error {
	report, err := eventlog.Scan(source.Dir(d.dir), source.Keys(d.dir), each)
	switch {
	case err != nil:
		var locked *eventlog.LockedError
		if errors.As(err, &locked) {
			err = fmt.Errorf("%w; the log of a server that runs is at its address: troupe evaluate "+
				"http://HOST:PORT --model NAME", err)
		}
		return source.Error(err)
	case !report.OK():
		return source.Error(&eventlog.DamagedError{Report: report})
	}
	return nil
}

// openLaws emits the decisions whose rewards may still come: a plan looks at no rewards.
func openLaws(j *joined.Joiner, emit func(*joined.Decided) error) error {
	for x := range j.Rest() {
		if !x.Played() {
			continue
		}
		x.State = joined.None
		if err := emit(x); err != nil {
			return err
		}
	}
	return nil
}

// nothing says why there is no event.
func (d *directoryReader) nothing(model string, after uint64) string {
	if n := d.j.Pending(); n > 0 {
		var last time.Duration
		for x := range d.j.Rest() {
			last = max(last, time.Duration(x.Record.Deadline-x.Record.Time))
		}
		return fmt.Sprintf("%s of %s, and the first one has no final reward: its window (%v) was open at the last "+
			"entry of the log. There is nothing to evaluate yet; start the server once when the window is over, which "+
			"writes its end into the log", term.Many(n, "decision"), orAny(model), last)
	}
	if after > 0 {
		return fmt.Sprintf("no decision of %s after entry %d with a window that is over; a target has learned what "+
			"came before", orAny(model), after)
	}
	var names []string
	if f := d.j.Fold(); f != nil {
		names = f.Names()
	}
	text := "no decision of " + orAny(model)
	for _, k := range slices.Sorted(maps.Keys(d.j.Skipped)) {
		text += fmt.Sprintf("; %d left out (%s)", d.j.Skipped[k], k)
	}
	if model != "" && !slices.Contains(names, model) {
		text += spec.Suggest(model, names)
	}
	return text
}

func areLeft(n int) string {
	if n == 1 {
		return "1 is"
	}
	return term.Grouped(int64(n)) + " are"
}

func orAny(model string) string {
	if model == "" {
		return "any model"
	}
	return "the model " + model
}

func (d *directoryReader) Read(e *logged.Event) error {
	ev := d.first
	if d.first = nil; ev == nil {
		var ok bool
		if ev, ok = <-d.events; !ok {
			if d.err != nil {
				return d.err
			}
			return io.EOF
		}
	}
	*e = *ev
	return nil
}

func (d *directoryReader) Format() string { return "server" }

// Arms: the actions of a server have ids.
func (d *directoryReader) Arms() []string { return nil }

func (d *directoryReader) Model() string { return d.j.Model }

func (d *directoryReader) After() uint64 { return d.after }

func (d *directoryReader) Base() uint64 { return d.j.Base() }

func (d *directoryReader) Range() ope.Pair { return d.reward }

func (d *directoryReader) Ended() *joined.Ended { return d.j.Ended() }

func (d *directoryReader) Notes() []string { return d.j.Notes }

func (d *directoryReader) Skipped() map[string]int {
	out := map[string]int{}
	for k, n := range d.j.Skipped {
		if k != joined.CountedAsZero { // these are evaluated
			out[k] = n
		}
	}
	for x := range d.j.Rest() {
		if x.Played() {
			out["pending"]++
		} else {
			out[x.Baseline()]++
		}
	}
	return out
}

func (d *directoryReader) BadBy() map[string]int { return nil }

func (d *directoryReader) Bad() (int, []string) { return 0, nil }

func (d *directoryReader) Warnings() []string {
	out := endedWarnings(d.j.Ended(), d.j.Pending())
	if n := d.j.Skipped[joined.CountedAsZero]; n > 0 {
		text := "decisions without a reward and without a default count as reward 0"
		if n > 1 {
			text += fmt.Sprintf(" (%d events)", n)
		}
		out = append(out, text)
	}
	return out
}

// endedWarnings are the warnings of the log of a server.
func endedWarnings(l *joined.Ended, pending int) []string {
	out := l.Notes
	if l.Early == 0 {
		return out
	}
	text := term.Many(l.Early, "decision") + " at the end of the log count with their first reward, which is final, " +
		"before their windows are over"
	if pending > 0 {
		text += fmt.Sprintf("; from the first one without a reward on %s left out (a server that runs when the windows "+
			"are over writes their end into the log). What stands under \"sure\" holds for this end of the log; the "+
			"plain numbers lean towards what is paid soon", areLeft(pending))
	}
	return append(out, text)
}

func (d *directoryReader) Close() error {
	d.stop()
	for range d.events {
	}
	return nil
}
