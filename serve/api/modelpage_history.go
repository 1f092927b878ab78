package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/serve"
	"troupe/serve/joined"
)

// How much of the log the page of a model reads, from the newest entry back. The first chunk has firstChunk entries
// and each older one has twice as many, so that a log with many decisions in an entry is not read further than
// needed. The bounds count entries, decisions and bytes and not time: the same log always gives the same page.
const (
	firstChunk    = 8
	pageEntries   = firstChunk * (1<<11 - 1)
	pageDecisions = 10_000
	pageBytes     = 12 << 20 // of entries, of all models: reading and checking takes some 5 ns of a processor a byte
)

// bounds say how much of a log is read, and whether the contexts of decisions, and their candidates, are kept.
type bounds struct {
	entries, decisions int
	contexts           bool
	candidates         bool
}

// past is a decision of the model and what became of it, as far as the entries say that were read.
type past struct {
	model               eventlog.ID
	seq                 uint64
	id, action          string
	num, den            uint64
	votes, voters       uint64
	offered, index      uint32 // how many candidates, and the place of the action among them
	mode                eventlog.Mode
	context, candidates eventlog.ID
	notes               eventlog.Notes
	time, deadline      int64 // ns since 1970
	unit                eventlog.ID

	numbers  []played
	features []byte // what the model read, where a number was played and there is room

	inactive bool // deferred, and neither activated nor rewarded
	rewarded bool
	closed   bool // its window
	fallback bool // closed without a reward, y is the default
	y        float64
	named    map[string]float64 // rewards with names; y is their weighted sum
	partial  bool               // one of them has not come
	keys     []eventlog.ID
	event    *logged.Event      // its hashed context, where it is asked for
	whole    *eventlog.Decision // its candidates and its law, where there is room
	rule     serve.Rule         // under which its rewards were learned; empty where the page cannot know it
}

// played is a number of a decision.
type played struct {
	name             string
	value, low, high float64
}

// pastList is a decision of a list, as far as the page shows it.
type pastList struct {
	places []*past // by position, each with its action and its rewards
	slots  []string
	one    *past // the list itself, where it has one reward
	hidden int   // positions from here on were not on the screen

	features []byte // what the model read of it, where there is room
}

// rewarded are the parts of a list that may have rewards.
func (l *pastList) rewarded() []*past {
	if l.one != nil {
		return []*past{l.one}
	}
	return l.places[:l.hidden]
}

// take counts what a record says of a list: the rewards of its positions, or its one reward.
func (l *pastList) take(r *eventlog.Reward) (late bool) {
	l.shown(r.Shown)
	if l.one != nil {
		return l.one.take(r.Key, r.Y)
	}
	for i, p := range r.Positions {
		if int(p) < len(l.places) {
			late = l.places[p].take(r.Key, r.Ys[i]) || late
		}
	}
	for _, d := range l.places {
		d.inactive = false
	}
	return late
}

// shown notes 1 + how many positions were on the screen, 0: nothing is said. The smallest counts.
func (l *pastList) shown(n uint32) {
	if n > 0 {
		l.hidden = min(l.hidden, int(n)-1)
	}
}

// take counts a reward, and reports whether it came after the window.
func (d *past) take(key eventlog.ID, y float64) (late bool) {
	switch {
	case d.closed:
		return true
	case key != 0 && slices.Contains(d.keys, key), d.rewarded && d.rule.Settles():
	default:
		if key != 0 {
			d.keys = append(d.keys, key)
		}
		d.y = d.rule.Fold(d.y, y, !d.rewarded)
		d.rewarded, d.inactive = true, false
	}
	return false
}

// takeNamed counts a reward with names, and reports whether it came after the window.
func (d *past) takeNamed(s *serve.LogRecord, key eventlog.ID, of serve.Rewards) (late bool) {
	if d.closed {
		return true
	}
	for _, k := range d.keys {
		if key != 0 && k == key {
			return false
		}
	}
	if d.named == nil {
		d.named = map[string]float64{}
	}
	counts := false
	for _, name := range sortedKeys(s.Reward) {
		old, had := d.named[name]
		if had && d.rule.Settles() {
			continue
		}
		d.named[name], counts = d.rule.Fold(old, s.Reward[name], !had), true
	}
	if !counts {
		return false
	}
	if key != 0 && !d.rule.Settles() {
		d.keys = append(d.keys, key)
	}
	values := make([]float64, len(of))
	for i := range of {
		values[i] = d.named[of[i].Name]
	}
	d.y, d.rewarded, d.inactive, d.partial = of.Sum(values), true, false, len(d.named) < len(of)
	return false
}

// close ends the window, with the default reward where there is one.
func (d *past) close(fallback bool, y float64) {
	d.closed = true
	if !d.rewarded && fallback && !d.inactive {
		d.fallback, d.y = true, y
	}
}

// what names what a decision played: its action, and its numbers.
func (d *past) what() string {
	var parts []string
	if d.action != "" {
		parts = append(parts, d.action)
	}
	for _, x := range d.numbers {
		parts = append(parts, x.name+" "+short(x.value))
	}
	return strings.Join(parts, ", ")
}

// policy reports whether the policy chose among several candidates.
func (d *past) policy() bool {
	return !d.inactive && d.offered > 1 && (d.mode == eventlog.Online || d.mode == eventlog.Frozen)
}

// state says how far a decision is, in a word or two.
func (d *past) state() string {
	switch {
	case d.fallback:
		return "default"
	case d.rewarded:
		return "rewarded"
	case d.closed:
		return "no reward"
	case d.inactive:
		return "not activated"
	}
	return "waiting"
}

// modelHistory is what the newest entries of the log say of a model.
type modelHistory struct {
	from, to  uint64 // the entries that were read
	first     uint64 // where the model's part of the log begins
	decisions []*past
	lists     []*pastList
	late      int
	changes   []*serve.LogRecord
	losses    []string
	clock     int64 // of the newest record
	broken    string

	contexts   bool // are kept
	candidates bool
	kept       int   // bytes of candidates, about
	foretold   int   // bytes of features
	read       int64 // bytes of entries, of all models
	of         serve.Rewards
	costs      bool // a decision says what its actions cost
	controlled bool // a decision has a control group
}

// step is one record on its way from the log to the join.
type step struct {
	at       serve.LogRecord
	decision *past
	list     *pastList
}

// waiting are the decisions that were read, by their events.
type waiting struct {
	decisions map[eventlog.Event]*past
	lists     map[eventlog.Event]*pastList
}

// readHistory reads the newest entries of the log of a model. A failure while it reads leaves what was read before.
func readHistory(ctx context.Context, log serve.RecordService, m *serve.Model, b bounds) (*modelHistory, error) {
	start, err := log.Log(ctx, m.Name, 0, 1)
	if err != nil {
		return nil, err
	}
	h := &modelHistory{first: max(start.From, m.Created.Seq), to: start.Applied, contexts: b.contexts, candidates: b.candidates,
		of: m.Config.Rewards}
	var chunks [][]step
	next, found := h.to+1, 0
	for size := uint64(firstChunk); size > 0 && next > h.first && int(h.to+1-next) < b.entries && found < b.decisions &&
		h.broken == ""; size = h.chunk(size, h.to+1-next) {
		from := max(h.first, next-min(next, size))
		page, err := log.Log(ctx, m.Name, from, int(next-from))
		if err != nil {
			return nil, err
		}
		var chunk []step
		for r, err := range page.Records {
			if err != nil {
				h.broken = problemOf(err).Detail
				break
			}
			s := h.step(r)
			if s.decision != nil || s.list != nil {
				found++
			}
			chunk = append(chunk, s)
		}
		if page.Read != nil {
			h.read += page.Read()
		}
		if h.broken == "" {
			next = from
			chunks = append(chunks, chunk)
		}
	}
	h.from = next
	for _, chunk := range slices.Backward(chunks) {
		for i := range chunk {
			if _, ok := chunk[i].at.Record.(*eventlog.Control); ok {
				h.changes = append(h.changes, &chunk[i].at)
			}
		}
	}
	h.outside(ctx, log, m)
	rules := h.rules(m)
	open := &waiting{map[eventlog.Event]*past{}, map[eventlog.Event]*pastList{}}
	for _, chunk := range slices.Backward(chunks) {
		for i := range chunk {
			for len(rules) > 1 && rules[1].seq <= chunk[i].at.Seq {
				rules = rules[1:]
			}
			h.join(&chunk[i], open, rules[0].rule)
		}
	}
	return h, nil
}

// chunk returns how many entries are read after a chunk of size, when so many were read in all: twice as many, as far as
// entries like these fit into pageBytes.
func (h *modelHistory) chunk(size, entries uint64) uint64 {
	if h.read >= pageBytes {
		return 0
	}
	each := max(1, uint64(h.read)/entries)
	return min(2*size, max(1, uint64(pageBytes-h.read)/each))
}

// ruleSince is the rule of rewards from an entry on, empty where it is not known.
type ruleSince struct {
	seq  uint64
	rule serve.Rule
}

// rules returns the rules that the model had, the oldest first, from what the page knows of its changes. The newest is
// the present one. The oldest holds from the beginning of what was read; it is not known when the configuration was
// changed between the model's creation and that entry, and a rollback leaves the rule unknown until the next change.
func (h *modelHistory) rules(m *serve.Model) []ruleSince {
	out := []ruleSince{{rule: m.Config.Reward.Rule}}
	configured := uint64(0) // in the entries that were read
	for _, r := range h.changes {
		c := r.Record.(*eventlog.Control)
		if c.Act == eventlog.Pause || c.Act == eventlog.Resume || c.Act == eventlog.Delete {
			continue
		}
		var x struct {
			Config struct {
				Reward struct {
					Rule serve.Rule `json:"rule"`
				} `json:"reward"`
			} `json:"config"`
		}
		if len(c.Config) > 0 {
			_ = json.Unmarshal(c.Config, &x) // the fold has read it; an empty rule is one that is not known
		}
		if r.Seq < h.from {
			out = []ruleSince{{rule: x.Config.Reward.Rule}}
			continue
		}
		configured++
		out = append(out, ruleSince{r.Seq, x.Config.Reward.Rule})
	}
	if h.from > m.Created.Seq && m.ConfigVersion > configured+1 {
		out[0].rule = ""
	}
	out[len(out)-1].rule = m.Config.Reward.Rule
	return out
}

// step keeps what the page needs of a record: no vectors.
func (h *modelHistory) step(r serve.LogRecord) step {
	switch x := r.Record.(type) {
	case *eventlog.Decision:
		d := &past{
			model: x.Model, seq: r.Seq, id: r.EventID, action: x.Action, num: x.Num, den: x.Den, voters: x.Voters,
			offered: x.Offered, index: x.Index, mode: x.Mode,
			context: x.Context, candidates: x.Candidates, notes: x.Notes, time: x.Time, deadline: x.Deadline,
			inactive: x.Deferred, unit: x.Unit,
		}
		for _, n := range x.Numbers {
			d.numbers = append(d.numbers, played{n.Name, n.Value, n.Low, n.High})
		}
		if int(x.Index) < len(x.Law) {
			d.votes = x.Law[x.Index]
		}
		if h.contexts {
			d.event = atomsOf(x)
		}
		h.clock, h.costs = max(h.clock, x.Time), h.costs || len(x.Costs) > 0
		h.controlled = h.controlled || x.Group != eventlog.NoGroup
		at := serve.LogRecord{Seq: r.Seq, Event: r.Event}
		if x.List != nil {
			l := listOf(d, x.List)
			l.features = h.keepFeatures(x.Atoms)
			return step{at: at, list: l}
		}
		if len(d.numbers) > 0 {
			d.features = h.keepFeatures(x.Atoms)
		}
		h.keepCandidates(d, x)
		return step{at: at, decision: d}
	case *eventlog.Reward:
		y := *x
		y.X, y.Atoms, y.Values = nil, nil, nil
		r.Record = &y
		h.clock = max(h.clock, x.Time)
	case *eventlog.Expire:
		h.clock = max(h.clock, x.Time)
	}
	return step{at: r}
}

// listOf is the list of a decision whose first entry d has.
func listOf(d *past, l *eventlog.List) *pastList {
	out := &pastList{slots: slices.Clone(l.Slots), hidden: l.K()}
	for i := range l.K() {
		one := *d
		one.action, one.event, one.numbers = l.IDs[i], nil, nil
		out.places = append(out.places, &one)
	}
	if l.Whole {
		one := *d
		out.one = &one
	}
	return out
}

// foretoldBytes bounds the features that are kept of the newest decisions.
const foretoldBytes = 8 << 20

// keepFeatures keeps what the model read of a decision, while there is room.
func (h *modelHistory) keepFeatures(b []byte) []byte {
	if h.foretold += len(b) + 24; h.foretold > foretoldBytes {
		return nil
	}
	return slices.Clone(b)
}

// candidateBytes bounds the candidates that are kept of the newest decisions.
const candidateBytes = 32 << 20

// keepCandidates keeps what joined.Event needs of a decision while there is room for it.
func (h *modelHistory) keepCandidates(d *past, x *eventlog.Decision) {
	if !h.candidates || len(x.Full) == 0 {
		return
	}
	if h.kept += len(x.Full) + 8*len(x.Law) + 200; h.kept > candidateBytes {
		return
	}
	d.whole = &eventlog.Decision{Time: x.Time, Offered: x.Offered, Index: x.Index, Num: x.Num, Den: x.Den,
		Full: slices.Clone(x.Full), Law: slices.Clone(x.Law), Voters: x.Voters, Groups: slices.Clone(x.Groups),
		Floor: x.Floor, Group: x.Group, Control: x.Control, ControlFirst: x.ControlFirst}
}

// atomsOf keeps the context of a decision whose features are hashed.
func atomsOf(d *eventlog.Decision) *logged.Event {
	e, err := joined.Event(&joined.Decided{Record: d})
	if err != nil {
		return &logged.Event{}
	}
	return &logged.Event{Atoms: e.Atoms, Unit: e.Unit}
}

// join adds one record, in the order of the log; rule is that of a decision at its place. The decisions of rewards that
// are older than what was read are not known; such rewards are left out.
func (h *modelHistory) join(s *step, open *waiting, rule serve.Rule) {
	if s.decision != nil {
		s.decision.rule = rule
		open.decisions[s.at.Event] = s.decision
		h.decisions = append(h.decisions, s.decision)
		return
	}
	if l := s.list; l != nil {
		for _, d := range append(slices.Clone(l.places), l.rewarded()...) {
			d.rule = rule
		}
		open.lists[s.at.Event] = l
		h.lists = append(h.lists, l)
		return
	}
	switch r := s.at.Record.(type) {
	case *eventlog.Activate:
		if d := open.decisions[r.Event]; d != nil {
			d.inactive = false
		}
		if l := open.lists[r.Event]; l != nil {
			l.shown(r.Shown)
			for _, d := range append(slices.Clone(l.places), l.rewarded()...) {
				d.inactive = false
			}
		}
	case *eventlog.Reward:
		late := false
		if d := open.decisions[r.Event]; d != nil {
			if len(s.at.Reward) > 0 {
				late = d.takeNamed(&s.at, r.Key, h.of)
			} else if r.Named == 0 {
				late = d.take(r.Key, r.Y)
			}
		}
		if l := open.lists[r.Event]; l != nil {
			late = l.take(r)
		}
		if late {
			h.late++
		}
	case *eventlog.Expire:
		for i := range r.Count {
			event := eventlog.Event{Epoch: r.Event.Epoch, Batch: r.Event.Batch, Index: r.Event.Index + i}
			if d := open.decisions[event]; d != nil && d.model == r.Model && !d.closed {
				d.close(r.Default, r.Y)
			}
			if l := open.lists[event]; l != nil && l.places[0].model == r.Model && !l.places[0].closed {
				for _, d := range append(slices.Clone(l.places), l.rewarded()...) {
					d.close(r.Default, r.Y)
				}
			}
		}
	case *eventlog.Loss:
		h.losses = append(h.losses, fmt.Sprintf("entries %d to %d: %s", r.First, r.Last, r.Reason))
	}
}

// outside adds the creation and the last change of the model, when they are older than what was read.
func (h *modelHistory) outside(ctx context.Context, log serve.RecordService, m *serve.Model) {
	var older []*serve.LogRecord
	for _, seq := range slices.Compact([]uint64{m.Created.Seq, m.Changed.Seq}) {
		if seq >= h.from || seq < h.first || seq == 0 {
			continue
		}
		page, err := log.Log(ctx, m.Name, seq, 1)
		if err != nil {
			continue // trimmed meanwhile
		}
		for r, err := range page.Records {
			if _, ok := r.Record.(*eventlog.Control); ok && err == nil {
				older = append(older, &r)
			}
		}
	}
	h.changes = append(older, h.changes...)
}

// terms are how the page reads rewards: the model's present rule, range and value of a missing reward. The rewards of a
// decision count by the rule of its own time.
type terms struct {
	rule       serve.Rule
	min, max   float64
	declared   bool // rewards outside are refused
	missing    bool // a missing reward counts as fallback
	fallback   float64
	unsettling bool // the value of a reward may change until the window is over
	learned    uint64
	noticed    *serve.NoticedView
}

func termsOf(m *serve.Model) terms {
	r := &m.Config.Reward
	t := terms{rule: r.Rule, min: r.Min, max: r.Max, declared: m.Range.Declared, missing: r.Default.Set,
		fallback: r.Default.Value, learned: m.Counts.Learned, noticed: m.Noticed}
	if m.Range.Max > m.Range.Min {
		t.min, t.max = m.Range.Min, m.Range.Max
	}
	if m.Missing != nil {
		t.missing, t.fallback = true, m.Missing.Value
	}
	t.unsettling = t.missing || !t.rule.Settles()
	return t
}

// value returns the reward of a decision when it is final. When a missing reward counts as something, the rewards of
// open windows wait: those that come early would otherwise count before those that never come. For the same reason it
// counts for all decisions, also for those from before it was set.
func (h *modelHistory) value(d *past, t *terms) (float64, bool) {
	over := d.closed || d.deadline != 0 && d.deadline <= h.clock
	switch {
	case d.inactive, d.rule == "":
		return 0, false
	case d.rewarded:
		return d.y, over || !t.missing && d.rule.Settles() && !d.partial // otherwise it may change until the window is over
	case d.fallback:
		return d.y, true
	}
	return t.fallback, d.closed && t.missing
}

// changeRow is one line of the history of a configuration.
type changeRow struct{ Time, Seq, Act, Who, What string }

// changesOf describes the control records, newest first.
func changesOf(records []*serve.LogRecord) (out []changeRow) {
	var before map[string]json.RawMessage
	for _, r := range records {
		c := r.Record.(*eventlog.Control)
		row := changeRow{Time: when(c.Time), Seq: grouped(r.Seq), Act: c.Act.String(), Who: c.Caller}
		if row.Who == "" {
			row.Who = "without a key"
		}
		var x struct {
			Config map[string]json.RawMessage `json:"config"`
		}
		if len(c.Config) > 0 && json.Unmarshal(c.Config, &x) == nil && x.Config != nil {
			if before != nil {
				row.What = differences(before, x.Config)
			}
			before = x.Config
		}
		if c.AtSeq > 0 {
			row.What = strings.TrimPrefix(row.What+fmt.Sprintf("; to the state after entry %d", c.AtSeq), "; ")
		}
		out = append(out, row)
	}
	slices.Reverse(out)
	return out
}

// differences names the members that changed.
func differences(before, after map[string]json.RawMessage) string {
	both := map[string]bool{}
	for k := range before {
		both[k] = true
	}
	for k := range after {
		both[k] = true
	}
	var out []string
	for _, k := range sortedKeys(both) {
		if !bytes.Equal(before[k], after[k]) {
			out = append(out, fmt.Sprintf("%s: %s → %s", k, clipped(string(before[k]), 120),
				clipped(string(after[k]), 120)))
		}
	}
	if len(out) == 0 {
		return "nothing differs from the change before"
	}
	return strings.Join(out, "; ")
}
