// Package vw is the environment of kind "vw": a log of Vowpal Wabbit as a bandit, with the hashed features of its
// lines. It stands apart from the other environments because it brings the readers of logs with it.
package vw

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/feature"
	"troupe/logged"
	"troupe/rng"
	"troupe/spec"
)

// Options are the options of kind "vw": a log of Vowpal Wabbit, played once. Each round shows the
// actions of one decision with VW's features at VW's indices; the policy says what it would play, and then
// learns the logged action and its reward, as VW does when it learns from a log. Rewards are −cost.
//
// The reward of a round is w·y and its regret w·(largest reward of the log − y), with w the probability
// that the policy plays the logged action over that with which it was logged (bandit.Logged). So the mean
// reward estimates what the policy would have earned that had learned from the decisions before, and
// differences between policies are those of their regrets. No event is shown twice: the horizon is at most
// the number of decisions, and that where the spec says none.
//
// Features have VW's hashes: of text (|User city=Oslo age:31) and of JSON ({"User": {"city": "Oslo"}}
// is the feature cityOslo). The vector of an action has norm 1; norm = "file" divides all by the largest
// norm of the file instead, so that lengths keep their meaning. It is for the policy kinds sparse and hashed.
type Options struct {
	Data         string    `key:"data" doc:"log with a line for each action: VW text in blocks, dsjson, VW JSON; the flag --data takes its place"`
	Format       string    `key:"format" doc:"vw, dsjson, vw-json, or auto"`
	IDs          string    `key:"ids" doc:"ids of actions in dsjson count from 0 or 1, where the file leaves it open; empty: found out"`
	Rewards      []float64 `key:"rewards" doc:"[min, max]: a reward outside is refused; missing: any number"`
	SkipBad      string    `key:"skip_bad" doc:"no, yes (bad events are left out and counted, at most 1% of all) or all"`
	Bits         int       `key:"bits" doc:"2^bits coordinates; VW's -b"`
	Hash         string    `key:"hash" doc:"strings (a name that is a whole number is its own hash) or all; VW's --hash"`
	Q            []string  `key:"q" doc:"pairs: first characters of two namespaces (\"UA\", \":A\", \"::\"), or names (\"User|Action\"); VW's -q"`
	Cubic        []string  `key:"cubic" doc:"triples, likewise; VW's --cubic"`
	Interactions []string  `key:"interactions" doc:"interactions of two to eight namespaces, likewise; VW's --interactions"`
	Ignore       []string  `key:"ignore" doc:"namespaces to leave out: first character or name; VW's --ignore"`
	Keep         []string  `key:"keep" doc:"leave out all namespaces but these; VW's --keep"`
	NoConstant   bool      `key:"noconstant" doc:"no constant feature; VW's --noconstant"`
	Norm         string    `key:"norm" doc:"action (every vector has norm 1) or file (all are divided by the largest norm)"`
	Order        string    `key:"order" doc:"shuffled (differently in each replication) or file"`
}

// New returns the defaults.
func New() *Options {
	return &Options{Format: "auto", SkipBad: "no", Bits: 18, Hash: "strings", Norm: "action", Order: "shuffled"}
}

// Doc says what the kind is.
func (*Options) Doc() string {
	return "a log of Vowpal Wabbit with its hashed features: policies learn the logged actions, weighed by propensity"
}

// DataFile implements FileReader.
func (o *Options) DataFile() string { return o.Data }

// oneOf refuses a word that is none of the valid ones.
func oneOf(key, v string, valid ...string) error {
	if slices.Contains(valid, v) {
		return nil
	}
	return spec.Errorf(key, "is %q%s", v, spec.Suggest(v, valid))
}

// maxLogged bounds the features of a log that are kept, interactions aside: about 1 GB.
const maxLogged = 1 << 26

// vwLog is a file with its features.
type vwLog struct {
	lines  *feature.VWLines
	events []vwEvent
	most   float64 // largest reward
	norm   float64 // largest norm
	notes  []string
}

type vwEvent struct {
	shared      *feature.VWLine
	actions     []*feature.VWLine
	chosen      int
	reward, prb float64
}

// Rounds implements Passes: the number of decisions in the file.
func (o *Options) Rounds(data env.DataSource) (int, error) {
	l, err := o.load(data)
	if err != nil {
		return 0, err
	}
	return len(l.events), nil
}

// Build implements Options.
func (o *Options) Build(key rng.Key, data env.DataSource) (bandit.Environment, error) {
	l, err := o.load(data)
	if err != nil {
		return nil, err
	}
	e := &vwWorld{log: l, bits: o.Bits, whole: o.Norm == "file", at: -1}
	if o.Order == "shuffled" {
		e.order = env.Shuffled(len(l.events), key)
	}
	return e, nil
}

func (o *Options) load(data env.DataSource) (*vwLog, error) {
	if o.Bits < 10 || o.Bits > 28 {
		return nil, spec.Refuse("bits", o.Bits, "expected 10 to 28")
	}
	for _, f := range []struct {
		key, v string
		valid  []string
	}{
		{"format", o.Format, []string{"auto", "vw", "dsjson", "vw-json"}}, {"hash", o.Hash, []string{"strings", "all"}},
		{"norm", o.Norm, []string{"action", "file"}}, {"order", o.Order, []string{"shuffled", "file"}},
		{"ids", o.IDs, []string{"", "0", "1"}}, {"skip_bad", o.SkipBad, []string{"no", "yes", "all"}},
	} {
		if err := oneOf(f.key, f.v, f.valid...); err != nil {
			return nil, err
		}
	}
	if o.Rewards != nil && !(len(o.Rewards) == 2 && o.Rewards[0] < o.Rewards[1] &&
		!math.IsInf(o.Rewards[1]-o.Rewards[0], 0)) {
		return nil, spec.Refuse("rewards", o.Rewards, "expected [min, max]")
	}
	if data == nil {
		return nil, fmt.Errorf("env: a log of Vowpal Wabbit needs a source of data")
	}
	shared := *o
	shared.Data, shared.Order = "", "" // replications share a file whatever its order
	l, err := data.Other(o.Data, fmt.Sprintf("vw %#v", shared), func(file string) (any, error) { return o.read(file) })
	if err != nil {
		return nil, err
	}
	return l.(*vwLog), nil
}

// read reads a file.
func (o *Options) read(file string) (*vwLog, error) {
	r, err := o.open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	lines, err := feature.NewVWLines(feature.VWOptions{
		VW: feature.VW{Bits: o.Bits, All: o.Hash == "all"}, Text: r.Format() == "vw",
		Quadratic: o.Q, Cubic: o.Cubic, Interactions: o.Interactions, Ignore: o.Ignore, Keep: o.Keep,
		NoConstant: o.NoConstant,
	})
	if err != nil {
		return nil, err
	}
	l := &vwLog{lines: lines, most: math.Inf(-1)}
	total, lists, damaged := 0, 0, 0
	known := map[string]*feature.VWLine{} // actions come again and again
	line := func(named []byte) (*feature.VWLine, error) {
		if v, ok := known[string(named)]; ok {
			return v, nil
		}
		v, err := lines.Line(named)
		if err != nil {
			return nil, err
		}
		if total += v.Len(); total > maxLogged {
			return nil, fmt.Errorf("the log has more than %d different features in its lines, expected at most that; "+
				"leave namespaces out with ignore", maxLogged)
		}
		if len(known) < 1<<16 {
			known[string(named)] = v
		}
		return v, nil
	}
	var e logged.Event
	for n := 1; ; n++ {
		switch err := r.Read(&e); {
		case errors.Is(err, io.EOF):
			return l, l.finish(r, lists, damaged)
		case err != nil:
			return nil, err
		case len(e.Slots) > 0:
			lists++
			continue
		case e.BadReward:
			damaged++
			continue
		}
		at := func(err error) error { return fmt.Errorf("%s: decision %d: %w", file, n, err) }
		v := vwEvent{chosen: e.Chosen, reward: e.Reward, prb: e.Propensity}
		if v.shared, err = line(e.Named); err != nil {
			return nil, at(err)
		}
		for i := range e.Actions {
			a, err := line(e.Actions[i].Named)
			if err != nil {
				return nil, at(err)
			}
			v.actions = append(v.actions, a)
		}
		l.most = max(l.most, v.reward)
		l.events = append(l.events, v)
	}
}

// open opens a log of a format whose lines are VW's.
func (o *Options) open(file string) (*logged.Reader, error) {
	options := logged.Options{IDs: o.IDs}
	if o.Format != "auto" {
		options.Format = o.Format
	}
	if o.SkipBad != "no" {
		options.SkipBad = o.SkipBad
	}
	if o.Rewards != nil {
		options.Rewards = &[2]float64{o.Rewards[0], o.Rewards[1]}
	}
	r, err := logged.Open(file, options)
	if err != nil {
		return nil, fmt.Errorf("%w; kind vw reads VW text in blocks, dsjson and VW JSON", err)
	}
	switch r.Format() {
	case "vw", "dsjson", "vw-json":
		return r, nil
	case "vw-flat":
		err = spec.Errorf("data", "is one-line VW text, in which actions have no features of their own; expected a "+
			"line for each action (--cb_adf)")
	default:
		err = spec.Errorf("data", "is %s, expected one of vw, dsjson, vw-json; troupe convert writes them", r.Format())
	}
	_ = r.Close() // it was only read
	return nil, err
}

// maxIdentities bounds the features that are counted for collisions.
const maxIdentities = 1 << 22

// finish looks at all features once: what VW's rules make of them, how many collide, how long they are.
func (l *vwLog) finish(r *logged.Reader, lists, damaged int) error {
	if err := l.lines.Ready(); err != nil {
		return err
	}
	if len(l.events) == 0 {
		return spec.Errorf("data", "has no decision with a label, expected at least one (%d lists of slots)", lists)
	}
	l.notes = append(l.notes,
		"a log: rewards are weighed by the policy's probability over the logged one, and policies learn the logged "+
			"actions; replications have the same events, so their spread is not that of another log",
		fmt.Sprintf("%d decisions of %s; namespaces %s; the regret of a round counts from the largest reward of the "+
			"log, %.6g", len(l.events), r.Format(), quoted(l.lines.Names()), l.most))
	ids, complete, alike, err := l.identities(r)
	if err != nil {
		return err
	}
	used := map[uint32]bool{}
	if l.norm == 0 {
		return spec.Errorf("data", "has no feature that is not 0")
	}
	if l.norm > 1e18 {
		return spec.Errorf("data", "has vectors of norm %.3g, expected at most 1e18", l.norm)
	}
	for _, at := range ids {
		used[at] = true
	}
	text := fmt.Sprintf("%d features on %d of 2^%d coordinates: %d collide with another", len(ids), len(used),
		bits.Len32(l.lines.Mask()), len(ids)-len(used))
	if !complete {
		text += fmt.Sprintf(" (of the first %d)", maxIdentities)
	}
	l.notes = append(l.notes, text)
	if n := l.lines.Twice(); n > 0 {
		l.notes = append(l.notes, fmt.Sprintf("warning: %d features are twice in a line, and are added", n))
	}
	if alike > 0 {
		l.notes = append(l.notes, fmt.Sprintf("warning: in %d decisions all actions have the same features", alike))
	}
	if lists > 0 {
		l.notes = append(l.notes, fmt.Sprintf("warning: %d lists of slots are left out", lists))
	}
	if damaged > 0 {
		l.notes = append(l.notes, fmt.Sprintf("warning: %d decisions with a damaged reward are left out", damaged))
	}
	for _, w := range r.Warnings() {
		l.notes = append(l.notes, "warning: "+w)
	}
	skipped := r.Skipped()
	for _, reason := range slices.Sorted(keysOf(skipped)) {
		l.notes = append(l.notes, fmt.Sprintf("%d left out: %s", skipped[reason], reason))
	}
	return nil
}

// identities reads the features of all actions: where each one is, whether all of them were looked at, in how many
// decisions all actions have the same, and the largest norm.
func (l *vwLog) identities(r *logged.Reader) (ids map[uint64]uint32, complete bool, alike int, err error) {
	ids = map[uint64]uint32{}
	complete = true
	var first uint64
	for i := range l.events {
		v := &l.events[i]
		vectors := map[uint64]int{}
		for a := range v.actions {
			n, square, sum := 0, 0.0, uint64(0)
			err := l.lines.Action(v.shared, v.actions[a], func(index uint32, x float64, id uint64) error {
				if n++; n > feature.MaxNonzeros {
					return fmt.Errorf("more than %d features with interactions, expected at most that",
						feature.MaxNonzeros)
				}
				square += float64(x * x)
				sum += id * math.Float64bits(x)
				if len(ids) >= maxIdentities {
					complete = false
					return nil
				}
				ids[id] = index
				return nil
			})
			if err != nil {
				return nil, false, 0, fmt.Errorf("%s: decision %d, action %d: %w", r.Format(), i+1, a+1, err)
			}
			l.norm = max(l.norm, math.Sqrt(square))
			vectors[sum]++
			if a == 0 {
				first = sum
			}
		}
		if len(v.actions) > 1 && len(vectors) == 1 && vectors[first] == len(v.actions) {
			alike++
		}
	}
	return ids, complete, alike, nil
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "none with a name"
	}
	if len(names) > 20 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:20], ", "), len(names)-20)
	}
	return strings.Join(names, ", ")
}

// vwWorld is the environment of kind "vw".
type vwWorld struct {
	log    *vwLog
	order  []int32 // nil: that of the file
	bits   int
	whole  bool // one norm for the file
	at     int  // event offered last
	set    *actionset.Sparse
	vector feature.Nonzeros
}

// Dim returns 2^bits.
func (e *vwWorld) Dim() int { return 1 << e.bits }

// Notes implements Noted.
func (e *vwWorld) Notes() []string { return e.log.notes }

// Offer implements bandit.Environment: round t shows event order[t−1]. There is no round after the last
// event.
func (e *vwWorld) Offer(draw rng.Source) (bandit.ActionSet, error) {
	t := draw.At()
	if t < 1 || t > uint64(len(e.log.events)) {
		return nil, fmt.Errorf("env: the log has %d decisions, and no round %d", len(e.log.events), t)
	}
	at := int(t - 1)
	if e.order != nil {
		at = int(e.order[at])
	}
	if at == e.at {
		return e.set, nil
	}
	v := &e.log.events[at]
	from := make([]int, 1, len(v.actions)+1)
	var index []uint32
	var x []float64
	for _, a := range v.actions {
		if err := e.vector.Reset(e.bits); err != nil {
			return nil, err
		}
		if err := e.log.lines.Action(v.shared, a, func(at uint32, x float64,
			_ uint64) error {
			return e.vector.Add("action", at, x)
		}); err != nil {
			return nil, err
		}
		norm := e.log.norm
		if !e.whole {
			square := 0.0
			for _, y := range e.vector.X {
				square += float64(y * y)
			}
			norm = math.Sqrt(square)
		}
		for k, y := range e.vector.X {
			if y != 0 { // and so norm > 0
				index, x = append(index, e.vector.At[k]), append(x, y/norm)
			}
		}
		from = append(from, len(index))
	}
	set, err := actionset.SparseOf(e.Dim(), from, index, x)
	if err != nil {
		return nil, err
	}
	e.at, e.set = at, set
	return set, nil
}

// Logged implements bandit.Logged.
func (e *vwWorld) Logged(dst *bandit.Action) (reward, loss, propensity float64) {
	if e.at < 0 {
		panic("env: an action before the first offer")
	}
	v := &e.log.events[e.at]
	at, x := e.set.Nonzeros(v.chosen)
	dst.SetSparse(at, x, v.chosen)
	return v.reward, e.log.most - v.reward, v.prb
}

// Reward implements bandit.Environment for the logged action; that of another is not known.
func (e *vwWorld) Reward(a bandit.Action, _ rng.Source) (float64, error) {
	r, err := e.Regret(a)
	return e.log.most - r, err
}

// Regret implements bandit.Environment for the logged action: what its reward lacks to the largest one of
// the log.
func (e *vwWorld) Regret(a bandit.Action) (float64, error) {
	if e.at < 0 {
		panic("env: an action before the first offer")
	}
	v := &e.log.events[e.at]
	if a.Index != v.chosen {
		return 0, fmt.Errorf("env: the log knows the reward of action %d in this round, not that of %d", v.chosen,
			a.Index)
	}
	return e.log.most - v.reward, nil
}

var (
	_ env.Noted     = (*vwWorld)(nil)
	_ bandit.Logged = (*vwWorld)(nil)
	_ env.Passes    = (*Options)(nil)
)
