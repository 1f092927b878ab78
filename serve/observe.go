package serve

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// This file watches the features of requests: what a hashed encoder measures of them becomes records of the
// log, and what a model cannot use becomes notes and warnings.

// observed is what the requests of one model have shown. It is no state: after a restart it begins anew.
type observed struct {
	numbers feature.Observer

	mu       sync.Mutex
	requests uint64
	features map[string]*sight        // by name, the first maxKinds
	names    [len(noteTexts)][]string // features that a note was made of, the first maxNames, in order
	words    vocabulary
	pairs    int    // the most that the context of a request had
	sampled  uint64 // requests with more pairs than are read
}

// sight is what the requests had of one feature.
type sight struct {
	kind     byte   // the first one: as feature.Given, 0 with a schema but for numbers
	last     uint64 // request that had it last
	requests uint64
	numbers  uint64 // values that are numbers
	low      float64
	high     float64
	newest   float64
	rises    uint64 // numbers that are not below the one before
	whole    uint64 // whole numbers
	outside  uint64 // numbers that a hashed encoder cut at ±3
	met      [noteType + 1]uint64

	feature uint64 // hash of the name with hashed features
	common  common // its values
}

// Hashed features cut some values of any number: of a normal one 1 in 370, and more where its first values lay close
// together. They are noted from the tenth on, when they are more than one of twenty.
const (
	cutOften = 20
	cutSome  = 10
)

// maxKinds bounds observed.features, maxNames each list of observed.names.
const (
	maxKinds = 4096
	maxNames = 8
)

// Observe implements decide.Model.
func (e *entry) Observe(w *choose.Worker, r *eventlog.Decision, now int64) (out decide.Measured) {
	if w.Alike() {
		r.Notes |= eventlog.NoteAlike
	}
	if b := w.Schema(); b != nil {
		r.Notes |= e.observed.met(b)
	}
	b := w.Batch()
	if b == nil {
		return nil
	}
	r.Notes |= e.observed.hashed(b, w, int(r.Index))
	if r.Mode == eventlog.Frozen || r.Mode == eventlog.Shadow {
		return nil
	}
	for _, s := range e.observed.numbers.Look(b, w.Version.State.Statistics()) {
		out = append(out, decide.Measure{Record: fold.Measured(r.Model, s, now),
			Forget: func() { e.observed.numbers.Forget([]feature.Standard{s}) }})
	}
	return out
}

// sight counts a value of the present request, and returns its feature, nil when there are too many. The caller holds
// mu.
func (o *observed) sight(v *feature.Given) *sight {
	x, ok := o.features[string(v.Name)]
	if !ok {
		if len(o.features) >= maxKinds {
			return nil
		}
		if o.features == nil {
			o.features = map[string]*sight{}
		}
		x = &sight{kind: v.Kind, feature: v.Feature}
		o.features[string(v.Name)] = x
	}
	if x.last != o.requests {
		x.last = o.requests
		x.requests++
	}
	if v.Number {
		if x.numbers++; x.numbers == 1 {
			x.low, x.high = v.X, v.X
		}
		x.low, x.high = min(x.low, v.X), max(x.high, v.X)
		if x.numbers > 1 && v.X >= x.newest {
			x.rises++
		}
		if x.newest = v.X; v.X == math.Floor(v.X) {
			x.whole++
		}
	}
	return x
}

// hashed returns the notes of a request that a hashed encoder has read. A feature that has another type than at first
// is one: a number sent as text, a truth value sent as a number. Nulls are none. candidate is the one that is played.
func (o *observed) hashed(b *feature.HashedBatch, w *choose.Worker, candidate int) (n eventlog.Notes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	if p := b.Pairs(); p > feature.MaxPairs {
		o.pairs = max(o.pairs, p)
		o.sampled++
	}
	counts := o.counts()
	if counts {
		o.chosen(w, candidate)
	}
	b.Values(func(v feature.Given) {
		switch v.Kind {
		case '0':
			return
		case 't': // a text of several words is a string
			v.Kind = 's'
		}
		x := o.sight(&v)
		if x == nil {
			return
		}
		if x.kind != v.Kind {
			n |= eventlog.NoteType
			x.met[noteType]++
			o.name(noteType, v.Name)
		}
		if counts && v.Atom != 0 {
			room := maxAllOf - o.words.levels
			before := len(x.common.atoms)
			x.common.count(v.Atom, &v, maxLevels, &room)
			o.words.levels += len(x.common.atoms) - before
		}
		if v.Outside {
			if x.outside++; x.outside >= cutSome && x.outside*cutOften > x.numbers {
				n |= eventlog.NoteClamped
				o.name(noteClamped, v.Name)
			}
		}
	})
	return n
}

// The places of notes in the order of their bits.
const (
	noteIgnored = iota
	noteClamped
	noteAlike
	noteType
)

// noteOf is the note of what a schema met.
var noteOf = [...]struct {
	met  feature.Met
	note eventlog.Notes
	at   int
}{
	{feature.MetIgnored, eventlog.NoteIgnored, noteIgnored},
	{feature.MetClamped, eventlog.NoteClamped, noteClamped},
	{feature.MetType, eventlog.NoteType, noteType},
}

// met returns the notes of what a schema met in a request.
func (o *observed) met(b *feature.Batch) (n eventlog.Notes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	b.Values(func(v feature.Given) { o.sight(&v) })
	if b.Met() == 0 {
		return 0
	}
	for _, x := range noteOf {
		if b.Met()&x.met != 0 {
			n |= x.note
		}
	}
	b.EachMet(func(what feature.Met, name []byte) {
		for _, x := range noteOf {
			if what != x.met {
				continue
			}
			o.name(x.at, name)
			if s := o.sight(&feature.Given{Name: name}); s != nil {
				s.met[x.at]++
			}
		}
	})
	return n
}

// FeatureView is what the requests of a model had of a feature, since the server started.
type FeatureView struct {
	Name string `json:"name"`
	// number, string or boolean, as it came first; absent for a feature of a schema that is no number
	Kind     string   `json:"kind,omitempty"`
	Requests uint64   `json:"requests"`          // that had it
	Low      *float64 `json:"low,omitempty"`     // smallest number
	High     *float64 `json:"high,omitempty"`    // largest number
	Outside  uint64   `json:"outside,omitzero"`  // numbers that hashed features cut at ±3 standard deviations
	Ignored  uint64   `json:"ignored,omitzero"`  // requests in which it, or its level, was ignored
	Clamped  uint64   `json:"clamped,omitzero"`  // requests in which it was clamped
	Mistyped uint64   `json:"mistyped,omitzero"` // values of another type
	// Weight is the largest one of the feature, in spreads of the members, with hashed features; absent while there is
	// none.
	Weight *WeightView `json:"weight,omitempty"`
}

// kinds are those of sights.
var kinds = map[byte]string{'n': "number", 's': "string", 'b': "boolean"}

// SeenView is what the requests of a model had, since the server started.
type SeenView struct {
	Requests uint64        `json:"requests"`
	Features []FeatureView `json:"features"`      // by name, the first 200
	More     int           `json:"more,omitzero"` // features that are not listed
}

// maxSeen bounds SeenView.Features.
const maxSeen = 200

// seen returns the counts of features, nil when there was no request.
func (o *observed) seen() *SeenView {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests == 0 {
		return nil
	}
	out := &SeenView{Requests: o.requests, Features: []FeatureView{}}
	for _, name := range slices.Sorted(maps.Keys(o.features)) {
		if len(out.Features) == maxSeen {
			out.More = len(o.features) - maxSeen
			break
		}
		x := o.features[name]
		f := FeatureView{Name: name, Kind: kinds[x.kind], Requests: x.requests, Outside: x.outside,
			Ignored: x.met[noteIgnored], Clamped: x.met[noteClamped], Mistyped: x.met[noteType]}
		if x.numbers > 0 {
			low, high := x.low, x.high
			f.Low, f.High = &low, &high
		}
		out.Features = append(out.Features, f)
	}
	return out
}

// name remembers a feature that a note was made of. The caller holds mu.
func (o *observed) name(note int, name []byte) {
	list := &o.names[note]
	if len(*list) < maxNames && !slices.Contains(*list, string(name)) {
		*list = append(*list, string(name))
	}
}

// named returns the features of the notes since the server began, in quotes and with commas.
func (o *observed) named() (out [len(noteTexts)]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, list := range o.names {
		quoted := make([]string, len(list))
		for j, name := range list {
			quoted[j] = strconv.Quote(name)
			if x := o.features[name]; i == noteClamped && x != nil {
				quoted[j] += x.advice()
			}
		}
		out[i] = strings.Join(quoted, ", ")
		if len(list) == maxNames {
			out[i] += " and perhaps others"
		}
	}
	return out
}

// advice says what to send in place of a number that is cut, by what its values look like.
func (x *sight) advice() string {
	clock := false
	for _, unit := range []float64{1, 1e3, 1e6, 1e9} { // seconds, …, nanoseconds: 2000 to 2100
		clock = clock || x.numbers > 0 && x.low >= 9.4e8*unit && x.high <= 4.1e9*unit
	}
	switch {
	case clock:
		return ", a Unix time: send what matters of it, such as the hour, the weekday or an age in days, or leave it out"
	case x.numbers >= 20 && 10*x.rises >= 9*x.numbers:
		return ", which grows from request to request: send by how much, or leave it out"
	case x.whole == x.numbers && x.low >= 0 && x.high >= 1000 && x.high > 30*max(x.low, 1):
		return ", whole numbers of very different size, such as prices in cents: send their logarithm"
	}
	return ""
}

// warned is for how many decisions with a note the answer has a warning.
const warned = 10

// noteTexts say what a note means, in the order of the bits.
var noteTexts = [5]string{
	"a feature or a level was ignored, because the schema does not name it (an unknown level is read as (other) " +
		"where the schema has that): make a model with a schema that has it, or with hashed features",
	"a number was clamped to the range of the schema, so that the model cannot tell such numbers apart: make a model " +
		"with a wider range",
	"candidates have equal features, so the model cannot tell them apart; they share their probability: give each an " +
		"id or features of its own",
	"a value has another type than before (a number as text, a truth value as a number); it was read, but it may not " +
		"be the same feature to the model: send one type",
	"the request was too large to be stored",
}

// cutText is noteTexts[noteClamped] for hashed features.
const cutText = "a number was cut at three standard deviations, so that the model cannot tell such numbers apart; " +
	"its scale is measured anew when a fifth of a thousand values lie outside: send a number whose scale does not change"

// noteText returns the text of a note for a model.
func noteText(i int, c *model.Compiled) string {
	if i == noteClamped && c.Hashed != nil {
		return cutText
	}
	return noteTexts[i]
}

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

// enoughEqual is how many equal rewards a model warns of while windows are open.
const enoughEqual = 10

// noticedFor is for how many learned events a warning says that the rewards changed.
const noticedFor = 1000

// sampledPairs warns of requests with more pairs than are read, empty for none or where no pairs are read.
func (o *observed) sampledPairs(c *model.Compiled) string {
	h := c.Config.Features.Hashed
	if h == nil || h.Pairs == "no" {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sampled == 0 {
		return ""
	}
	return fmt.Sprintf("in %d of %d requests since the server started the context has more than %d pairs of values, up "+
		"to %d; of them a fixed part is read, chosen by hash: send fewer values, or set features.pairs to no where "+
		"values matter one by one", o.sampled, o.requests, feature.MaxPairs, o.pairs)
}

// modelWarnings says what a model ignores, cannot tell apart, or has assumed. seen are the features of the notes, as
// far as they are known.
func modelWarnings(m *fold.Model, seen *observed) []string {
	out := append([]string(nil), m.Compiled.Warnings...)
	var names [len(noteTexts)]string
	if seen != nil {
		names = seen.named()
	}
	for i, n := range m.Notes {
		if n > 0 {
			text := fmt.Sprintf("in %d of %d decisions: %s", n, m.Counts.Decisions, noteText(i, m.Compiled))
			if names[i] != "" {
				text += " (since the server started: " + names[i] + ")"
			}
			out = append(out, text)
		}
	}
	if seen != nil {
		if text := seen.sampledPairs(m.Compiled); text != "" {
			out = append(out, text)
		}
	}
	r, x := m.Compiled.Config.Reward, &m.Memory
	if x.Adopted {
		out = append(out, fmt.Sprintf("an event without a reward counts as %v since entry %d, because nothing was "+
			"said and the data look as if only successes were sent (all rewards were equal, or more than %d windows "+
			"closed without one); set reward.default to a number, or to none", x.Default, x.AdoptedSeq,
			fold.EnoughMissed))
	}
	_, answered := m.MissingReward()
	switch {
	case !answered && r.Default.Word != "auto" && m.Counts.Expired > 100 && 2*m.Counts.Expired > m.Counts.Decisions:
		out = append(out, fmt.Sprintf("%d of %d decisions got no reward in their window and taught nothing; set "+
			"reward.default, or a longer reward.window", m.Counts.Expired, m.Counts.Decisions))
	case !x.Adopted && r.Default.Word == "auto" && x.Seen >= enoughEqual && !x.Differ && x.First > 0 && m.Counts.Open > 0:
		out = append(out, fmt.Sprintf("all %d rewards so far are %v, and %d decisions wait for one: where only successes "+
			"are sent, nothing is learned before reward.window, %v, is over; send the other rewards too, or set "+
			"reward.default to what a decision without a reward is worth, or a shorter window", x.Seen, x.First,
			m.Counts.Open, time.Duration(r.Window)))
	case r.Default.Word != "auto" && !r.Default.Set && x.Seen >= 100 && !x.Differ:
		out = append(out, fmt.Sprintf("all %d rewards were %v, so there is nothing to learn from; send the other "+
			"rewards too, or set reward.default", x.Seen, x.First))
	}
	if x.RangeSeq > 0 {
		lo, hi := m.Range()
		out = append(out, fmt.Sprintf("rewards outside [%v, %v] widened the range to [%v, %v], last in entry %d; "+
			"give reward.min and reward.max where they are known", r.Min, r.Max, lo, hi, x.RangeSeq))
	}
	if c := m.Noticed(); c.Seen > 0 && m.Counts.Learned < c.Seen+noticedFor {
		text := fmt.Sprintf("the rewards changed at about event %d (posterior %.2f)", c.At, c.Posterior)
		if c.Before != c.After {
			text += fmt.Sprintf("; their mean was %.3g and is %.3g since", c.Before, c.After)
		}
		out = append(out, text+"; what was learned since then plays, and actions are tried again: look whether the world "+
			"or what the client sends has changed")
	}
	if m.Counts.Late > 100 && 2*m.Counts.Late > m.Counts.Rewards {
		out = append(out, fmt.Sprintf("%d rewards came after their window and did not count; set a longer "+
			"reward.window", m.Counts.Late))
	}
	return out
}

// kindOf names the features of a configuration.
func kindOf(c *model.Compiled) string {
	switch {
	case c.Hashed != nil:
		return "hashed"
	case c.Config.Dim != 0:
		return "vector"
	case c.Encoder != nil:
		return "schema"
	}
	return "learn"
}
