package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/logged"
	"troupe/ope"
	"troupe/report"
	"troupe/serve"
	"troupe/serve/joined"
	"troupe/spec"
)

// logReader is what an evaluation reads: a file, or the log of a server.
type logReader interface {
	ope.Source
	Format() string
	Skipped() map[string]int
	Bad() (int, []string)
	BadBy() map[string]int
	Warnings() []string
	Close() error
}

// directoryReader reads the log of a server.
type directoryReader struct {
	j      *joined.Joiner
	events chan *logged.Event
	stop   context.CancelFunc
	first  *logged.Event
	err    error // read after events is closed
	sent   bool
	reward [2]float64 // the range at the first event
}

var errStopped = errors.New("stopped")

// openDirectory joins the event log of a data directory.
func (e *evaluation) openDirectory() (*filtered, error) {
	labels, err := serve.ReadLabels(e.source)
	if err != nil {
		return nil, err
	}
	e.skipLearned(func(id eventlog.ID) bool {
		name, ok := labels.Names[id]
		return ok && (e.in.Model == "" || name == e.in.Model)
	})
	o := joined.Options{Model: e.in.Model, ID: labels.EventID, Base: serve.BaseOf(e.source), From: e.after, Outcome: e.read.Outcome}
	return e.openLog(o, func(ctx context.Context, each func(eventlog.Delivery) error) error {
		report, err := eventlog.Scan(source.Dir(e.source), source.Keys(e.source), each)
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
	})
}

// openLog joins the entries that scan gives.
func (e *evaluation) openLog(o joined.Options, scan func(ctx context.Context,
	each func(eventlog.Delivery) error) error) (*filtered, error) {
	ctx, stop := context.WithCancel(context.Background())
	d := &directoryReader{j: joined.New(o), events: make(chan *logged.Event, 256), stop: stop}
	var redraws *redrawReader
	if e.redrawn != "" {
		var err error
		if redraws, err = openRedraws(e.redrawn, e.redraws); err != nil {
			stop()
			return nil, err
		}
	}
	ending := false
	emit := func(settled *joined.Decided) error {
		ev, err := d.j.Event(settled)
		if none := (*joined.NoOutcomeError)(nil); errors.As(err, &none) {
			return term.Misuse(fmt.Errorf("--outcome %s: %w", none.Outcome, err))
		}
		if err != nil || ev == nil {
			return err
		}
		ev.Early = ending
		if r := e.read.Rewards; e.ranged() && !(ev.Reward >= r[0] && ev.Reward <= r[1]) {
			return term.Misuse(fmt.Errorf("entry %d, record %d: reward: %g, expected a reward in [%g, %g] "+
				"(%s)", settled.Seq, settled.Key.Index, ev.Reward, r[0], r[1], e.rangeFlag()))
		}
		if redraws != nil {
			if ev.Redraws, err = redraws.of(settled); err != nil {
				return err
			}
		}
		if !d.sent {
			d.sent, d.reward = true, d.j.Range
		}
		select {
		case d.events <- ev:
			return nil
		case <-ctx.Done():
			return errStopped
		}
	}
	go func() {
		defer close(d.events)
		defer redraws.close()
		err := scan(ctx, func(x eventlog.Delivery) error { return d.j.Apply(x, emit) })
		if err == nil {
			err = d.j.Gap()
		}
		if err == nil {
			ending = true
			err = d.j.End(emit)
		}
		if err == nil && e.plan.on {
			err = openLaws(d.j, emit)
		}
		if f := d.j.Fold(); err == nil && f != nil { // the directory may have no snapshot that says whose log it is
			for _, p := range e.learned {
				if e.after < p.origin.Seq && slices.ContainsFunc(p.origin.Models,
					func(id eventlog.ID) bool { return f.Model(id) != nil }) {
					err = term.Misuse(fmt.Errorf("--target %s: it has learned entries up to %d of this log, and is "+
						"not evaluated on them", p.target, p.origin.Seq))
				}
			}
		}
		if !errors.Is(err, errStopped) {
			d.err = err
		}
	}()
	// The first event tells the range of rewards; it comes behind the record that made the model.
	ev, ok := <-d.events
	if !ok {
		if d.err == nil {
			d.err = term.Misuse(fmt.Errorf("%s: %s", e.source, d.nothing(e.in.Model, e.after)))
		}
		stop()
		return nil, d.err
	}
	d.first = ev
	return &filtered{r: d, from: e.began, until: e.until}, nil
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

// ended is what the log of a server says beside its decisions, nil for a file. It is whole when the log was read.
func (e *evaluation) ended(f *filtered) *joined.Ended {
	if d, ok := f.r.(*directoryReader); ok {
		return d.j.Ended()
	}
	return e.log
}

// ranged reports whether the flags say the range of rewards: a server's is that of what its model learns.
func (e *evaluation) ranged() bool { return e.in.Rewards != "" || e.read.Outcome != "" }

// rangeFlag is the flag that says it.
func (e *evaluation) rangeFlag() string {
	if name := e.read.Outcome; name != "" {
		return "--outcome " + name + "=MIN:MAX"
	}
	return "--rewards"
}

// serverRange takes the range of rewards of the model.
func (e *evaluation) serverRange(f *filtered, o *ope.Options) {
	reward := ope.Pair{}
	if d, ok := f.r.(*directoryReader); ok {
		reward = d.reward
	} else if e.log != nil {
		reward = e.log.Range
	} else {
		return
	}
	o.Adaptive = "yes"
	if !e.ranged() {
		o.Rewards = &reward
	}
}

// serverDoubts takes sequences back that the server's log does not allow.
func (e *evaluation) serverDoubts(f *filtered, r *ope.Result) {
	l := e.ended(f)
	if l == nil {
		return
	}
	if d, ok := f.r.(*directoryReader); ok {
		r.Log.Model = &d.j.Model
	}
	why := ""
	switch {
	case (l.Ranges > 1 || l.Widened) && !e.ranged():
		why = "the range of rewards was changed while the log was written; --rewards min,max fixes one"
	case l.Activation != "":
		why = l.Activation
	case r.Log.Units > 0 && e.trimmed(f) > 0:
		why = fmt.Sprintf("units may have decided before entry %d, where the trimmed log begins, and their draws were known then",
			e.trimmed(f))
	case e.after > 0 && r.Log.Units > 0:
		why = fmt.Sprintf("units may have decided before entry %d of the log already, and their draws were known then", e.after)
	}
	if !l.Declared && !l.Widened && !e.ranged() {
		r.Warnings = append(r.Warnings, undeclared(r.Rewards))
	}
	if why == "" {
		return
	}
	for _, t := range r.Targets {
		r.Unsure(t, why)
	}
	r.Coin, r.Control = nil, nil // their intervals are sequences
	r.Warnings = append(r.Warnings, "no sequence: "+why)
}

// trimmed is the entry of the base of a directory's log, 0 where it is whole.
func (e *evaluation) trimmed(f *filtered) uint64 {
	if d, ok := f.r.(*directoryReader); ok {
		return d.j.Base()
	}
	return 0
}

// page writes the page.
func (e *evaluation) page(r *ope.Result) (string, error) {
	return report.BuildEvaluation(e.pageDir(r.Log.Model), r, e.pageMeta())
}

// pageDir is where the page goes; its name says what was evaluated.
func (e *evaluation) pageDir(model *string) string {
	if e.out != "" {
		return e.out
	}
	name := strings.Trim(strings.TrimSuffix(filepath.Base(e.source), filepath.Ext(e.source)), "*?-")
	if e.source == "-" || name == "" {
		name = "log"
	}
	if model != nil {
		name = *model
	}
	return filepath.Join("runs", "evaluate-"+name)
}

func (e *evaluation) pageMeta() report.EvaluateMeta {
	return report.EvaluateMeta{When: time.Now().Format("2 January 2006"), Command: term.Line(os.Args[1:])}
}
