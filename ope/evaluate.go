package ope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"troupe/logged"
	"troupe/rng"
)

// Source gives events in the order of the log; io.EOF ends it. A *logged.Reader is one.
type Source interface {
	Read(*logged.Event) error
}

// Options says what to estimate. The zero value estimates Defaults for no target.
type Options struct {
	Targets    []Target
	Learns     []string // of each target: no, log or replay; nil: no
	Estimators []string // keys; nil: Defaults, of lists ListKeys
	LeaveOut   bool     // an estimator that the log does not permit is null with the reason, and no error
	Q          string   // one of Models; "" is column where the log has q, else ridge
	Level      float64  // 0: 0.95
	Rewards    *Pair    // nil: [0, 1]. One end may be ±Inf: then sequences have the side that needs the other end only
	// Set fixes parameters by estimator; Grid replaces what SLOPE++ chooses from.
	Set  map[string]float64
	Grid map[string][]float64
	// Adaptive says whether the logger learned from this log: yes, no or unknown ("").
	Adaptive string
	// NoSequence, when it is not empty, is the reason why no sequence may be given, such as a range that was adapted.
	NoSequence string
	// Marginal adds the estimators ips-marginal and dr-marginal: events have Redraws.
	Marginal bool
	// AtEnd adds the intervals for a number of events that was fixed beforehand, in a world that does not change, and takes the
	// verdict from them. At most 16 targets.
	AtEnd bool
	// Estimated is where the laws of the events are from, when propensities were not recorded.
	Estimated *Fitted
	// By, when it is not nil, asks for the difference in each segment of the events too.
	By *By
	// Crossfit F ≥ 2 fits the reward model on F − 1 of F folds of consecutive events instead of on the past. Reopen
	// gives the log once more.
	Crossfit int
	// Examination tells pbm how often each position of a list is examined, on any scale; nil: it is learned from the log.
	Examination []float64
	Reopen      func() (Source, error)
	Workers     int    // 0: 1
	Seed        uint64 // of the bootstrap
	Progress    func(events int)
}

// plan is what the options compile to.
type plan struct {
	o          Options
	keys       []string
	level      float64
	z          float64
	rewards    Pair
	min, scale float64 // of r'; scale is 1 where an end is not known
	tallies    []tally // for each target, in this order
	needQ      bool
	needDR     bool
	mrdr       bool
	groups     bool
	stored     bool // el
	phi        bool // dr-stable
	boot       bool
	lists      bool
	basis      []int            // of each target, for lists
	slope      map[string][]int // estimator → tallies
	column     bool
}

func (o *Options) compile() (*plan, error) {
	p := &plan{o: *o, keys: o.Estimators, level: o.Level, slope: map[string][]int{}}
	if p.keys == nil {
		p.keys = Defaults
	}
	if p.level == 0 {
		p.level = 0.95
	}
	if !(p.level > 0 && p.level < 1) {
		return nil, fmt.Errorf("level is %v, expected a number in (0, 1)", p.level)
	}
	if o.Marginal {
		p.keys = append(slices.Clone(p.keys), marginalKeys...)
	}
	p.z = normalQuantile((1 + p.level) / 2)
	r := Pair{0, 1}
	if o.Rewards != nil {
		r = *o.Rewards
	}
	p.rewards = r
	switch p.min, p.scale = r[0], r[1]-r[0]; {
	case !(r[0] < r[1]) || !finite(r[0]) && !finite(r[1]) || r.known() && !finite(p.scale):
		return nil, fmt.Errorf("rewards are in [%v, %v], expected a range with one known end at least", r[0], r[1])
	case !finite(r[1]):
		p.scale = 1
	case !finite(r[0]):
		p.min, p.scale = r[1]-1, 1
	}
	if p.o.Workers < 1 {
		p.o.Workers = 1
	}
	if err := tooMany(o.Targets); err != nil {
		return nil, err
	}
	if o.AtEnd && len(o.Targets) > mostEnded {
		return nil, fmt.Errorf("at end: %d targets, expected at most %d", len(o.Targets), mostEnded)
	}
	for _, key := range p.keys {
		if slices.Contains(marginalKeys, key) && o.Marginal {
			p.needQ = p.needQ || key == "dr-marginal"
			continue
		}
		if !slices.Contains(Keys(), key) {
			if slices.Contains(ListKeys(), key) {
				continue
			}
			return nil, fmt.Errorf("no estimator %q; there are %v, and of lists %v", key, Keys(), ListKeys())
		}
		p.needQ = p.needQ || slices.Contains([]string{"dm", "dr", "sndr", "dr-stable"}, key)
		p.stored, p.phi, p.boot = p.stored || key == "el", p.phi || key == "dr-stable", p.boot || key == "bootstrap"
		i := slices.IndexFunc(means, func(e estimator) bool { return e.key == key })
		if i < 0 {
			continue
		}
		e := &means[i]
		p.needQ = p.needQ || e.needs&needsQ != 0
		p.groups = p.groups || e.needs&needsGroups != 0
		p.mrdr = p.mrdr || key == "mrdr"
		values := []float64{0}
		if e.parameter != "" {
			if v, ok := o.Set[key]; ok {
				values = []float64{v}
			} else if values = e.grid; o.Grid[key] != nil {
				values = o.Grid[key]
			}
		}
		for _, v := range values {
			p.slope[key] = append(p.slope[key], len(p.tallies))
			p.tallies = append(p.tallies, tally{parameter: v, e: e})
		}
	}
	p.needDR = p.needQ || slices.Contains(p.keys, "dr")
	if p.o.Q != "" && !slices.Contains(Models, p.o.Q) {
		return nil, fmt.Errorf("no reward model %q; there are %v", p.o.Q, Models)
	}
	if o.Estimated != nil && p.o.NoSequence == "" {
		p.o.NoSequence = NoSequence
	}
	if p.o.Adaptive == "" {
		p.o.Adaptive = "unknown"
	}
	for _, l := range o.Learns {
		if l != "" && l != "no" {
			p.o.Adaptive = "yes"
		}
	}
	return p, nil
}

// block is consecutive events that are processed together. Blocks grow with the log: their ends are multiples of
// their size, so a fit after 256, 512, … events falls between blocks. What is in a block depends on the log only.
type block struct {
	events []logged.Event
	n      int
	start  int
	laws   [][]float64 // of targets that learn: their laws, one after the other
	at     []int       // where the law of event i begins
	again  []bool      // the unit of event i had one before
	acc    *accumulator
	err    error
}

func blockSize(start int) int {
	size := 16
	for size < 4096 && size*32 <= start {
		size *= 2
	}
	return size
}

// blockBytes ends a block early: what its events hold is bounded.
const blockBytes = 4 << 20

// Evaluate reads a log once and estimates every target. The answer has the same bits for any number of workers.
//
// Memory: blocks of at most a few MiB for each worker, the sums of every target, 10⁶ bytes for the reward model; the
// estimators el and dr-stable keep 16 and 8 bytes for each event and refuse more than 5·10⁶.
func Evaluate(ctx context.Context, src Source, o Options) (*Result, error) {
	p, err := o.compile()
	if err != nil {
		return nil, err
	}
	if o.Crossfit != 0 && (o.Crossfit < 2 || o.Reopen == nil) {
		return nil, fmt.Errorf("crossfit is %d, expected at least 2 and a log that can be read again", o.Crossfit)
	}
	e := &engine{p: p, ctx: ctx, src: src, sums: &evidence{p: p}, scratches: make([]scratch, p.o.Workers)}
	if n := len(o.Targets); n <= allPairs {
		e.duels, e.chosen = everyPair(n), true
	}
	if err := e.run(ctx); err != nil {
		return nil, err
	}
	if err := e.noSegments(); err != nil {
		return nil, err
	}
	e.sums.addSegments()
	return e.answer().result(), nil
}

// evidence is what was added up of the events that were read: all that an answer is made of.
type evidence struct {
	p     *plan
	total *accumulator // nil before the first event
	cross []*model     // by fold, with Crossfit
}

// engine is one evaluation under way. Its phases: read blocks, let the targets that learn see them, process them
// in parallel, merge them in order, fit the reward model where one is due.
type engine struct {
	p         *plan
	ctx       context.Context
	src       Source
	sums      *evidence
	learner   *learner
	mr        []*learner
	first     []*logged.Event // the first 256, for the layout of the model
	scratches []scratch
	next      Point
	running   [][]Point
	seen      unitSet  // of all events that were read
	duels     [][2]int // the pairs of targets that are followed
	chosen    bool     // they are all: the references are chosen
	features  []string // of the first context, with By; none where it is hashed
	hashed    bool     // it is
	n         int      // events, with Crossfit
	listQ     listModel
	listModel *listModel // as it was after the last fit
}

func (e *engine) run(ctx context.Context) error {
	blocks := make(chan *block, 2)
	free := make(chan *block, 2*e.p.o.Workers+4)
	stop := make(chan struct{})
	var readErr error
	var reader sync.WaitGroup
	reader.Go(func() { readErr = e.read(blocks, free, stop) })
	defer reader.Wait()
	defer close(stop)
	at := 0
	var wave []*block
	ended := false
	for !ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, ok := <-blocks
		if !ok {
			ended = true
		} else {
			if at == 0 && b.n > 0 {
				if err := e.begin(b.events[:b.n]); err != nil {
					return err
				}
			}
			if err := e.teach(b); err != nil {
				return err
			}
			wave = append(wave, b)
			at += b.n
		}
		due := ok && fitAfter(at) // not once more at the end of the log
		if len(wave) < 2*e.p.o.Workers && !ended && !due {
			continue
		}
		if err := e.process(wave); err != nil {
			return err
		}
		for _, b := range wave {
			select {
			case free <- b:
			default:
			}
		}
		wave = wave[:0]
		if !e.chosen && e.sums.total != nil && (ended || due && at >= firstPairs) {
			e.choose()
		}
		if due {
			if err := e.fit(at); err != nil {
				return err
			}
		}
		if e.p.o.Progress != nil {
			e.p.o.Progress(at)
		}
	}
	reader.Wait()
	if readErr != nil {
		return readErr
	}
	if e.sums.total == nil {
		return errors.New("an empty log")
	}
	return nil
}

// read fills blocks.
func (e *engine) read(blocks chan<- *block, free <-chan *block, stop <-chan struct{}) error {
	defer close(blocks)
	start := 0
	for {
		var b *block
		select {
		case b = <-free:
		default:
			b = &block{}
		}
		b.start, b.n, b.err = start, 0, nil
		size, bytes := blockSize(start), 0
		end := start - start%size + size
		var err error
		for start < end && bytes < blockBytes {
			if b.n == len(b.events) {
				b.events = append(b.events, logged.Event{})
			}
			ev := &b.events[b.n]
			if err = e.src.Read(ev); err != nil {
				break
			}
			bytes += ev.Size()
			b.n++
			start++
		}
		if b.n > 0 {
			select {
			case blocks <- b:
			case <-stop:
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// begin decides what the first events decide.
func (e *engine) begin(events []logged.Event) error {
	p, first := e.p, &events[0]
	p.lists = len(first.Slots) > 0
	of, what := Keys(), "single decisions"
	if p.lists {
		of, what = ListKeys(), "lists"
	}
	for _, key := range p.o.Estimators {
		if !slices.Contains(of, key) && !p.o.LeaveOut {
			return fmt.Errorf("estimator %s: the log has %s, expected one of %s", key, what, strings.Join(of, ", "))
		}
	}
	if p.lists {
		if p.keys = ListKeys(); p.o.Estimators != nil && !p.o.LeaveOut {
			p.keys = p.o.Estimators
		}
		p.needQ, p.needDR, p.tallies, p.slope = false, false, nil, map[string][]int{}
		p.stored, p.phi, p.boot, p.mrdr = false, false, false, false
		e.chosen = true // of more than allPairs targets for lists none are compared, so there are no references to choose
		for _, t := range p.o.Targets {
			if _, ok := t.(ListTarget); !ok {
				return fmt.Errorf("target %s: the log has lists of slots, and %s has no law for a slot; uniform and column "+
					"have one", t.Name(), t.Name())
			}
		}
		w := newWorker(e, &scratch{})
		for _, t := range p.o.Targets {
			basis, err := w.basisOf(t, events)
			if err != nil {
				return err
			}
			p.basis = append(p.basis, basis)
		}
		p.o.Q = "none"
	}
	if p.o.Q == "" {
		switch {
		case first.Q != nil:
			p.o.Q = "column"
		case first.K == 0 || len(p.o.Targets) == 0:
			p.o.Q = "none"
		default:
			p.o.Q = "ridge"
		}
	}
	if p.o.Q == "column" && first.Q == nil {
		return errors.New("--q column: the log has no q")
	}
	if p.boot && p.o.Adaptive == "yes" {
		if !p.o.LeaveOut {
			return errors.New("--estimators bootstrap: " + adaptiveBoot)
		}
		p.boot = false
	}
	p.column = p.o.Q == "column"
	greedy := slices.ContainsFunc(p.o.Targets, func(t Target) bool { _, ok := t.(Greedy); return ok })
	if !p.needQ && !greedy && !p.column && !p.needDR {
		p.o.Q = "none"
	}
	if p.o.Q != "none" && p.o.Q != "column" && len(p.o.Targets) > 0 {
		if p.o.Crossfit == 0 {
			e.learner = &learner{kind: p.o.Q}
		} else {
			var err error
			if e.sums.cross, e.n, err = crossFit(e.ctx, p.o.Crossfit, p.o.Q, p.o.Reopen); err != nil {
				return err
			}
			if greedy && p.o.NoSequence == "" {
				p.o.NoSequence = "greedy follows a model that was fitted on later events too (--crossfit)"
			}
		}
	}
	if p.mrdr && len(p.o.Targets) > 0 {
		for range p.o.Targets {
			e.mr = append(e.mr, &learner{kind: "ridge"})
		}
	}
	if first.K == 0 && !p.lists && len(p.o.Targets) > 0 {
		return errors.New("the log does not say how many actions were offered, and a target needs that: --actions K")
	}
	if p.o.By != nil {
		e.features, e.hashed = first.Features(), len(first.Atoms) > 0
	}
	e.running = make([][]Point, len(p.o.Targets))
	return nil
}

// adaptiveBoot is why an adaptive log has no bootstrap.
const adaptiveBoot = "the log is adaptive (the logger or the target learns), and a bootstrap of events is for " +
	"independent ones; sequence holds"

// teach lets the targets that learn see a block, in the order of the log.
func (e *engine) teach(b *block) error {
	for len(b.laws) < len(e.p.o.Targets) {
		b.laws = append(b.laws, nil)
	}
	b.at, b.again = b.at[:0], b.again[:0]
	off := 0
	for i := range b.events[:b.n] {
		b.at = append(b.at, off)
		off += b.events[i].K
		b.again = append(b.again, e.seen.before(b.events[i].Unit) || b.events[i].Again)
	}
	for t, target := range e.p.o.Targets {
		l, ok := target.(Learner)
		if !ok {
			continue
		}
		b.laws[t] = slices.Grow(b.laws[t][:0], off)[:off]
		for i := range b.events[:b.n] {
			ev := &b.events[i]
			if err := l.Law(b.laws[t][b.at[i]:b.at[i]+ev.K], ev, nil); err != nil {
				return &EventError{b.start + i + 1, target.Name(), err}
			}
			if ev.BadReward {
				continue
			}
			if err := l.Learn(ev); err != nil {
				return &EventError{b.start + i + 1, target.Name(), err}
			}
		}
	}
	return nil
}

// EventError is an error of a target about one event.
type EventError struct {
	Event  int // from 1
	Target string
	Err    error
}

// Error says in one line what is wrong.
func (e *EventError) Error() string {
	if e.Target == "" {
		return fmt.Sprintf("event %d: %v", e.Event, e.Err)
	}
	return fmt.Sprintf("target %s: event %d: %v", e.Target, e.Event, e.Err)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *EventError) Unwrap() error { return e.Err }

// ExitCode is 2: the target does not fit the log.
func (e *EventError) ExitCode() int { return 2 }

// process computes the accumulators of blocks in parallel and merges them in order.
func (e *engine) process(wave []*block) error {
	var wg sync.WaitGroup
	work := make(chan *block, len(wave))
	for _, b := range wave {
		work <- b
	}
	close(work)
	for w := range min(e.p.o.Workers, len(wave)) {
		wg.Go(func() {
			s := newWorker(e, &e.scratches[w])
			for b := range work {
				b.acc = newAccumulator(e.p, e)
				b.err = s.block(b)
			}
		})
	}
	wg.Wait()
	for _, b := range wave {
		if b.err != nil {
			return b.err
		}
		if e.needsFirst() && b.start < firstFit {
			for i := range b.events[:b.n] {
				e.first = append(e.first, b.events[i].Clone())
			}
		}
		if e.sums.total == nil {
			e.sums.total = newAccumulator(e.p, e)
			for t := range e.sums.total.targets {
				if e.p.o.AtEnd && !e.p.lists {
					e.sums.total.targets[t].end = newEndSums(e.p.level)
				}
			}
		}
		e.sums.total.merge(b.acc)
		if e.p.o.By != nil {
			if err := e.p.o.By.fits(len(e.sums.total.segments), len(e.p.o.Targets)); err != nil {
				return err
			}
		}
		e.learned(b.acc)
		b.acc = nil
		e.point()
	}
	return nil
}

func (e *engine) needsFirst() bool { return e.learner != nil || len(e.mr) > 0 }

// learned adds the sums of a block to the models.
func (e *engine) learned(a *accumulator) {
	e.listQ.merge(&a.listQ)
	if e.learner != nil && e.learner.l != nil {
		e.learner.total.merge(&a.model)
	}
	for t, l := range e.mr {
		if l.l != nil {
			l.total.merge(&a.mr[t])
		}
	}
}

// fit fits the models after n events. The first fit decides the layout, and sees the first events again.
func (e *engine) fit(n int) error {
	if e.p.lists {
		e.listModel = e.listQ.clone()
		return nil
	}
	if !e.needsFirst() {
		return nil
	}
	if n == firstFit {
		l, err := newLayout(e.first)
		if err != nil {
			return err
		}
		all := slices.Clone(e.mr)
		if e.learner != nil {
			all = append(all, e.learner)
		}
		for _, m := range all {
			m.l = l
			m.total.keep = m.kind == "logistic"
		}
		var s scratch
		w := newWorker(e, &s)
		for i, ev := range e.first {
			z := []float64(nil)
			if e.learner == nil || e.learner.kind != "mean" || len(e.mr) > 0 {
				z = l.vectors(ev, &s)
			}
			if e.learner != nil {
				e.learner.total.add(l, e.learner.kind, ev, z, 1)
			}
			for t := range e.mr {
				weight, err := w.mrWeight(t, ev, i)
				if err != nil {
					return err
				}
				e.mr[t].total.add(l, "ridge", ev, z, weight)
			}
		}
		e.first = nil
	}
	if e.learner != nil {
		if err := e.learner.fit(); err != nil {
			return err
		}
	}
	for _, m := range e.mr {
		if err := m.fit(); err != nil {
			return err
		}
	}
	return nil
}

// point adds a point to the running estimates, about 10 % apart.
func (e *engine) point() {
	n := e.sums.total.n
	if n < e.next.N || len(e.p.o.Targets) > MostRunning {
		return
	}
	e.next.N = n + max(n/10, 64)
	for t := range e.p.o.Targets {
		e.running[t] = append(e.running[t], e.sums.total.running(e.p, t))
	}
}

// worker processes blocks with scratch space of its own.
type worker struct {
	e     *engine
	p     *plan
	s     *scratch
	q, pe []float64
	mq    []float64
	index int  // of the event, from 0
	again bool // its unit had one before: no sequence takes it
	known bool // q is a prediction, and not 0 for want of one
	// Σ_a π_b(a) q(a) of the event, of 1 − q, and that of q as the rewards are
	logs, logu, logq float64
	x                row
	phi              [len(clips)]float64
	clip             []clippedAction // of the event
	key              rng.Stream
	late             late
	laws             [][]float64 // π_e of the event of every target, where they are compared
	differs          []bool      // of every target: an event tells it from the logger

	lists     standings // of the list under way
	bases     [][2]float64
	listOf    listOf
	gamma     *gamma // the last one
	gammaSets []int
}

func newWorker(e *engine, s *scratch) *worker {
	n := len(e.p.o.Targets)
	return &worker{e: e, p: e.p, s: s, late: newLate(e.p), laws: make([][]float64, n), differs: make([]bool, n),
		key: rng.NewKey(e.p.o.Seed).Child("bootstrap").Stream(rng.Select)}
}

// row is one event under one target.
type row struct {
	v, w, p, pe, r, r01 float64
	q, dm, e            float64 // q of the played action, DM, r − q
	wg                  float64
	mrdm, mre           float64
	base                float64
	lo, up              [len(clips)]float64 // φ(k) of r', q' and of 1 − r', 1 − q'
	b01, b01r           float64             // b of both
}

func sized(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
}

// predict stores q of an event.
func (w *worker) predict(ev *logged.Event) {
	w.q = sized(w.q, ev.K)
	clear(w.q)
	w.known = false
	switch {
	case w.p.column:
		copy(w.q, ev.Q)
		w.known = true
	case w.e.sums.cross != nil:
		w.known = w.e.sums.cross[foldOf(w.index, w.e.n, len(w.e.sums.cross))].predict(w.q, ev, w.s)
	case w.e.learner != nil && w.e.learner.model != nil:
		w.known = w.e.learner.model.predict(w.q, ev, w.s)
	}
}

// block processes the events of a block.
func (w *worker) block(b *block) error {
	a := b.acc
	for i := range b.events[:b.n] {
		ev := &b.events[i]
		w.index, w.again = b.start+i, b.again[i]
		a.see(w.p, ev)
		if w.again {
			a.again++
		}
		if len(ev.Slots) > 0 != w.p.lists {
			return &EventError{b.start + i + 1, "", errors.New("a list among single decisions, or the other way round")}
		}
		if w.p.column && ev.Q == nil {
			return &EventError{b.start + i + 1, "", errors.New("q: missing, expected a list as in the events before")}
		}
		if w.p.lists {
			if err := w.list(a, ev, b.start+i); err != nil {
				return err
			}
			continue
		}
		w.predict(ev)
		w.clips(ev)
		if w.e.learner != nil && w.e.learner.l != nil {
			l := w.e.learner
			z := []float64(nil)
			if l.kind != "mean" {
				z = l.l.vectors(ev, w.s)
			}
			a.model.keep = l.kind == "logistic"
			a.model.add(l.l, l.kind, ev, z, 1)
		}
		for t, target := range w.p.o.Targets {
			if err := w.law(target, t, b, i, ev); err != nil {
				return &EventError{b.start + i + 1, target.Name(), err}
			}
			w.single(a, t, ev, b.start+i)
			if len(w.laws) > 1 && ev.Law != nil {
				w.laws[t] = append(w.laws[t][:0], w.pe...)
			}
		}
		if ev.Law != nil && !w.again {
			w.alike(a)
		}
		if err := w.later(a, ev, b.start+i); err != nil {
			return err
		}
		if len(w.p.o.Targets) == 0 && !ev.BadReward {
			v, u := 1/(1-ev.Drop), [variables]float64{vOne: 1, vR: ev.Reward}
			a.logger.add(v, &u)
			w.p.unit(&a.loggerUnits, ev.Unit, v, &u, false)
		}
	}
	w.late.flush(w.p, a)
	return nil
}

// alike compares the laws of every two targets at an event.
func (w *worker) alike(a *accumulator) {
	for i := range a.pairs {
		if d := &a.pairs[i]; !d.like.apart {
			d.like.add(variation(w.laws[d.first], w.laws[d.second]))
		}
	}
	if !a.keep {
		return
	}
	k := 0
	for i := range w.laws { // in the order of everyPair
		for j := range i {
			if l := &a.near[k]; !l.apart {
				l.add(variation(w.laws[j], w.laws[i]))
			}
			k++
		}
	}
}

// law stores π_e of an event in w.pe.
func (w *worker) law(target Target, t int, b *block, i int, ev *logged.Event) error {
	w.pe = sized(w.pe, ev.K)
	if _, ok := target.(Learner); ok {
		copy(w.pe, b.laws[t][b.at[i]:b.at[i]+ev.K])
		return nil
	}
	return target.Law(w.pe, ev, w.q)
}

// mrWeight is the weight of an event in the fit of mrdr: π_e(a)²(1 − p)/p².
func (w *worker) mrWeight(t int, ev *logged.Event, index int) (float64, error) {
	w.index = index
	w.predict(ev)
	w.pe = sized(w.pe, ev.K)
	target := w.p.o.Targets[t]
	if _, ok := target.(Learner); ok {
		return 1, nil
	}
	if err := target.Law(w.pe, ev, w.q); err != nil {
		return 0, err
	}
	return w.pe[ev.Chosen] * w.pe[ev.Chosen] * (1 - ev.Propensity) / (ev.Propensity * ev.Propensity), nil
}

// single adds one decision to the sums of a target.
func (w *worker) single(a *accumulator, t int, ev *logged.Event, index int) {
	x, ta := &w.x, &a.targets[t]
	c := ev.Chosen
	x.v = 1
	if ev.Drop != 0 {
		x.v = 1 / (1 - ev.Drop)
	}
	x.p, x.pe = ev.Propensity, w.pe[c]
	x.w = x.pe / x.p
	x.q = w.q[c]
	dm := 0.0
	for k, q := range w.q {
		dm += float64(w.pe[k] * q)
	}
	x.dm = dm
	w.clipped(ev)
	if w.again {
		ta.unlike = ta.unlike || ev.Law == nil || variation(w.pe, ev.Law) > 0
	} else {
		w.sequences(t, ev)
	}
	if ta.marginal != nil {
		w.marginal(ta.marginal, ev)
	}
	w.diagnose(ta, ev)
	if w.p.o.Estimated != nil {
		w.thin(ta, ev)
		for len(ta.played) < min(ev.K, 4096) {
			ta.played = append(ta.played, 0)
		}
		for k := range ta.played[:min(ev.K, len(ta.played))] {
			ta.played[k] += w.pe[k]
		}
	}
	second := w.expect(ta, ev)
	if w.p.o.AtEnd && !w.again {
		w.keepEnd(ta, t, ev, second)
	}
	ta.heavier(x.v*x.w, index, ev)
	if ev.BadReward {
		w.p.unit(&ta.units, ev.Unit, x.v, nil, false)
		return
	}
	x.r, x.r01 = ev.Reward, (ev.Reward-w.p.min)/w.p.scale
	x.e = x.r - x.q
	x.base = x.r
	if ev.Law != nil {
		x.base = x.r - x.q + w.logq
	}
	u := [variables]float64{1, x.r, x.w, x.w * x.r, x.dm, x.w * x.e, x.base}
	ta.m.add(x.v, &u)
	if w.known {
		ta.m.predicts(x.v)
	}
	w.p.unit(&ta.units, ev.Unit, x.v, &u, w.known)
	ta.top(x.v * u[vWR])
	if x.w == 1/x.p && x.pe == 1 {
		ta.matched++
		ta.replay.product(x.v, x.r)
		ta.replayV.add(x.v)
	} else if x.pe != 0 && x.pe != 1 {
		ta.random = true
	}
	if w.p.groups && ev.Group != nil && ev.Law != nil {
		g, pe, pb := ev.Group[c], 0.0, 0.0
		for k, h := range ev.Group {
			if h == g {
				pe += w.pe[k]
				pb += ev.Law[k]
			}
		}
		x.wg = pe / pb
	}
	if len(w.e.mr) > 0 {
		w.mrdr(a, t, ev)
	}
	for i := range ta.tallies {
		ta.tallies[i].add(x.v, x)
	}
	if w.p.stored && len(ta.w) < mostStored {
		ta.w, ta.wr = append(ta.w, x.w), append(ta.wr, u[vWR])
	}
	if w.p.phi && len(ta.phi) < mostStored {
		ta.phi = append(ta.phi, x.dm+u[vWE])
	}
	if w.p.boot {
		ta.bootstrap(x.v, x.dm+u[vWE], w.key.Round(round(ev, index)))
	}
}

func (w *worker) mrdr(a *accumulator, t int, ev *logged.Event) {
	m := w.e.mr[t]
	w.mq = sized(w.mq, ev.K)
	clear(w.mq)
	m.model.predict(w.mq, ev, w.s)
	dm := 0.0
	for k, q := range w.mq {
		dm += float64(w.pe[k] * q)
	}
	w.x.mrdm, w.x.mre = dm, ev.Reward-w.mq[ev.Chosen]
	if m.l != nil {
		z := m.l.vectors(ev, w.s)
		a.mr[t].add(m.l, "ridge", ev, z, w.x.pe*w.x.pe*(1-w.x.p)/(w.x.p*w.x.p))
	}
}

// clip makes q ≥ 0, which the lower side needs, and 1 − q ≥ 0, which the upper side needs.
func (p *plan) clip(q float64) float64 {
	if finite(p.rewards[0]) {
		q = max(q, 0)
	}
	if finite(p.rewards[1]) {
		q = min(q, 1)
	}
	return q
}

// clips keeps what φ(k) of all targets shares at an event: q in units of [0, 1], k π_b(a) and Σ_a π_b(a) q(a).
func (w *worker) clips(ev *logged.Event) {
	w.clip = w.clip[:0]
	w.logs, w.logu, w.logq = 0, 0, 0
	unit := w.p.min == 0 && w.p.scale == 1
	for a, p := range ev.Law {
		q := w.q[a]
		w.logq += float64(p * q)
		if !unit {
			q = (q - w.p.min) / w.p.scale
		}
		c := clippedAction{q: w.p.clip(q)}
		c.u = 1 - c.q
		w.logs += float64(p * c.q)
		w.logu += float64(p * c.u)
		for k := range c.most {
			c.most[k] = float64(clips[k+1] * p)
		}
		w.clip = append(w.clip, c)
	}
}

// clippedAction is an action at an event: q and 1 − q in units of [0, 1], and k π_b for the clips above 0.
type clippedAction struct {
	q, u float64
	most [len(clips) - 1]float64
}

// clipped computes φ(k) of both sides, and b, in units of [0, 1]. A damaged reward is 0 on both sides: the worst case
// of either. b takes the opposite.
func (w *worker) clipped(ev *logged.Event) {
	x := &w.x
	lower, upper := 0.0, 0.0 // r' and 1 − r'
	bl, bu := 1.0, 1.0
	if !ev.BadReward {
		r := (ev.Reward - w.p.min) / w.p.scale
		lower, upper, bl, bu = r, 1-r, r, 1-r
	}
	x.lo[0], x.up[0] = float64(x.w*lower), float64(x.w*upper)
	if ev.Law == nil {
		return
	}
	var sl, su [len(clips) - 1]float64
	for a := range w.clip {
		c, pe := &w.clip[a], w.pe[a]
		if pe == 0 && c.q >= 0 && c.u >= 0 {
			continue // min(0, k π_b) of both is 0
		}
		eq, eu := float64(pe*c.q), float64(pe*c.u)
		for k, most := range &c.most {
			sl[k] += min(eq, most)
			su[k] += min(eu, most)
		}
	}
	c := &w.clip[ev.Chosen]
	for k := range sl {
		if x.w == 0 {
			x.lo[k+1], x.up[k+1] = sl[k], su[k]
			continue
		}
		most := clips[k+1] / x.w
		x.lo[k+1] = float64(x.w*(lower-min(c.q, most))) + sl[k]
		x.up[k+1] = float64(x.w*(upper-min(c.u, most))) + su[k]
	}
	x.b01, x.b01r = bl-c.q+w.logs, bu-c.u+w.logu
}

// sequences leaves the terms of an event for the sequences of a target.
func (w *worker) sequences(t int, ev *logged.Event) {
	x, i := &w.x, w.late.n
	l := &w.late.targets[t]
	l.sides.lo[i], l.sides.up[i] = x.lo, x.up
	l.ips[0][i], l.ips[1][i] = x.lo[0], x.up[0]
	l.w[i], l.apart[i] = x.w, math.Inf(1)
	if ev.Law != nil && (w.p.o.By != nil || !w.differs[t]) {
		l.apart[i] = variation(w.pe, ev.Law)
		w.differs[t] = l.apart[i] > sameLaw
	}
	base := ev.Reward
	if ev.Law != nil {
		base += w.logq - x.q
	}
	l.paired[0][i], l.paired[1][i] = x.dm+float64(x.w*(ev.Reward-x.q))-base, float64((x.w-1)*ev.Reward)
	// Without the logger's law: (w − 1) r ≥ −1. A damaged reward takes the end that is worse: r' = 1 where w < 1.
	if ev.BadReward {
		l.plain[0][i], l.plain[1][i] = min(x.w-1, 0), min(x.w-1, 0)
	} else {
		r := (ev.Reward - w.p.min) / w.p.scale
		l.plain[0][i], l.plain[1][i] = float64((x.w-1)*r), float64((x.w-1)*(1-r))
	}
	if ev.Law == nil {
		return
	}
	for k := range clips {
		l.uplift[0][i][k], l.uplift[1][i][k] = x.lo[k]-x.b01, x.up[k]-x.b01r
	}
}
