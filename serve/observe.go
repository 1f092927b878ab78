package serve

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/choose"
	"troupe/serve/model"
)

// This file watches the features of requests: what a model cannot use becomes notes and warnings.

// observed is what the requests of one model have shown. It is no state: after a restart it begins anew.
type observed struct {
	mu       sync.Mutex
	requests uint64
	features map[string]*sight        // by name, the first maxKinds
	names    [len(noteTexts)][]string // features that a note was made of, the first maxNames, in order
	words    vocabulary
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
	met      [noteType + 1]uint64

	feature uint64 // hash of the name, without a schema
	common  common // its values
}

// maxKinds bounds observed.features, maxNames each list of observed.names.
const (
	maxKinds = 4096
	maxNames = 8
)

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
func (o *observed) hashed(b *feature.AtomBatch, w *choose.Worker, candidate int) (n eventlog.Notes) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
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

// kinds are those of sights.
var kinds = map[byte]string{'n': "number", 's': "string", 'b': "boolean"}

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
		f := FeatureView{Name: name, Kind: kinds[x.kind], Requests: x.requests,
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
		}
		out[i] = strings.Join(quoted, ", ")
		if len(list) == maxNames {
			out[i] += " and perhaps others"
		}
	}
	return out
}

// noteTexts say what a note means, in the order of the bits.
var noteTexts = [5]string{
	"a feature or a level was ignored, because the schema does not name it (an unknown level is read as (other) " +
		"where the schema has that): make a model with a schema that has it, or without a schema",
	"a number was clamped to the range of the schema, so that the model cannot tell such numbers apart: make a model " +
		"with a wider range",
	"candidates have equal features, so the model cannot tell them apart; they share their probability: give each an " +
		"id or features of its own",
	"a value has another type than before (a number as text, a truth value as a number); it was read, but it may not " +
		"be the same feature to the model: send one type",
	"the request was too large to be stored",
}

// noteText returns the text of a note for a model.
func noteText(i int, _ *model.Compiled) string { return noteTexts[i] }

// fields returns the names of features by the numbers of their fields (feature.FieldNumber).
func (o *observed) fields() map[uint32]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make(map[uint32]string, len(o.features))
	for name, x := range o.features {
		if x.feature != 0 {
			names[feature.FieldNumber(x.feature)] = name
		}
	}
	return names
}

// counts returns whether the values of the present request are counted.
func (o *observed) counts() bool { return o.requests <= everyRequest || o.requests%everyEighth == 0 }

// chosen counts the action of a decision. The caller holds mu.
func (o *observed) chosen(w *choose.Worker, candidate int) {
	o.words.counted++
	if atom, id := w.Offer.ID(candidate); id != "" {
		room := maxIDs
		o.words.ids.count(atom, &feature.Given{Level: []byte(id)}, maxIDs, &room)
	}
}
