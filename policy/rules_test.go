package policy

import (
	"bytes"
	"fmt"
	"testing"

	"troupe/bandit"
	"troupe/feature"
	"troupe/rng"
)

func newRules(t testing.TB, rules int) *Hashed {
	t.Helper()
	return newFadingRules(t, rules, 0)
}

func newFadingRules(t testing.TB, rules int, half float64) *Hashed {
	t.Helper()
	h, err := NewHashed(HashedOptions{Bits: 12, M: 4, Change: restarts, Rules: rules, HalfLife: HalfLife{Events: half}},
		Problem{Dim: 3 << 12, Sigma: 1, Init: rng.NewKey(1).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// fieldsWorld lets a policy learn requests of one action that the test writes.
type fieldsWorld struct {
	h     *Hashed
	batch *feature.HashedBatch
	seen  feature.Observer
	stats *feature.Statistics
}

func newFieldsWorld(t testing.TB, h *Hashed) *fieldsWorld {
	t.Helper()
	enc, err := feature.NewHashed(feature.HashedOptions{Bits: 12, Fields: true, List: true})
	if err != nil {
		t.Fatal(err)
	}
	return &fieldsWorld{h: h, batch: feature.NewHashedBatch(enc, nil)}
}

// action returns the only action of a request; features is "" without.
func (w *fieldsWorld) action(t testing.TB, context, features string) (a bandit.Action) {
	t.Helper()
	if err := w.batch.Begin([]byte(context)); err != nil {
		t.Fatal(err)
	}
	if err := w.batch.Add("a", []byte(features)); err != nil {
		t.Fatal(err)
	}
	at, x := w.batch.Nonzeros(0)
	a.SetSparse(at, x, 0)
	return a
}

func (w *fieldsWorld) learn(t testing.TB, context, features string, y float64) {
	t.Helper()
	if err := w.h.Update(w.action(t, context, features), y, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.seen.Look(w.batch, w.stats) {
		var err error
		if w.stats, err = w.stats.With(s); err != nil {
			t.Fatal(err)
		}
	}
	w.batch.Use(w.stats)
}

// reads returns how many coefficients the model of a kind has for a request, −1 without such a model.
func (w *fieldsWorld) reads(t testing.TB, kind smallKind, context, features string) int {
	t.Helper()
	a := w.action(t, context, features)
	if _, ok := w.h.mix.list(a.At, a.X); !ok {
		t.Fatal("no list of atoms")
	}
	for _, s := range w.h.mix.smalls {
		if s.kind == kind {
			w.h.mix.terms(s)
			return len(w.h.mix.phi)
		}
	}
	return -1
}

// rulesWorld lets a policy learn 40 events of a field with 40 values, then as many of the same field as a number; all
// rewards are 0 but every third.
func rulesWorld(t testing.TB, h *Hashed) *fieldsWorld {
	t.Helper()
	w := newFieldsWorld(t, h)
	for i := range 40 {
		w.learn(t, fmt.Sprintf(`{"page":"p%d"}`, i), "", float64(i%3/2))
	}
	for i := range 40 {
		w.learn(t, fmt.Sprintf(`{"page":%d.5}`, i), "", float64(i%3/2))
	}
	return w
}

// TestRulesFields: of a field with 40 values rules 2 and 3 read the first 32, and its numbers; rules 1 read none. A snapshot
// is that of its rules: it restores to the same bytes and law, and is refused under other rules.
func TestRulesFields(t *testing.T) {
	for k, want := range map[[2]int][3]int{{1, 0}: {1, 1, 1}, {2, 0}: {2, 1, 2}, {3, 0}: {2, 1, 2}, {1, 500}: {1, 1, 1},
		{2, 500}: {2, 1, 2}, {3, 500}: {2, 1, 2}} {
		rules := k[0]
		newRules := func(t testing.TB, rules int) *Hashed { return newFadingRules(t, rules, float64(k[1])) }
		h := newRules(t, rules)
		w := rulesWorld(t, h)
		var got [3]int
		for i, context := range []string{`{"page":"p31"}`, `{"page":"p32"}`, `{"page":7}`} {
			got[i] = w.reads(t, smallLinear, context, "")
		}
		if got != want {
			t.Errorf("rules %d read %d, want %d: an early value, a late one, a number", rules, got, want)
		}
		snapshot := mustBytes(t, h)
		same := newRules(t, rules)
		if err := same.Restore(snapshot); err != nil || !bytes.Equal(mustBytes(t, same), snapshot) || same.Digest() != h.Digest() {
			t.Errorf("rules %d: restored it has another state, %v", rules, err)
		}
		for other := 1; other <= 3; other++ {
			if other != rules && newRules(t, other).Restore(snapshot) == nil {
				t.Errorf("a snapshot of rules %d was taken by rules %d", rules, other)
			}
		}
		if sparse, small := SnapshotParts(snapshot); sparse == 0 || small == 0 {
			t.Errorf("rules %d: parts of %d and %d bytes", rules, sparse, small)
		}
		rulesWorld(t, same)
		rulesWorld(t, h)
		if !bytes.Equal(mustBytes(t, same), mustBytes(t, h)) {
			t.Errorf("rules %d: the restored policy learns otherwise", rules)
		}
		for i := range 300 { // flags and counts of values are in the first bytes behind the sparse models
			damaged := bytes.Clone(snapshot)
			damaged[len(snapshot)-1-i] ^= 1
			if newRules(t, rules).Restore(damaged) == nil {
				t.Fatalf("rules %d: byte %d from the end was changed and not noticed", rules, i+1)
			}
		}
	}
}

// TestRulesPlay: by rules 2 and 3 no sparse model plays before it has predicted better; by rules 1 some do from the first event.
func TestRulesPlay(t *testing.T) {
	for rules, want := range map[int]bool{1: true, 2: false, 3: false} {
		h := newRules(t, rules)
		playing := false
		for _, m := range h.Models() {
			playing = playing || !m.Small && m.Playing
		}
		if playing != want {
			t.Errorf("rules %d: a sparse model plays: %v", rules, playing)
		}
	}
}

// TestRulesBytes: by rules 2 and 3, too, the same events give the same state on every machine.
func TestRulesBytes(t *testing.T) {
	for rules, want := range map[int]string{2: "be01057b94b8dcbd8bd816bbaf6a05f2", 3: "82b8e3ceec53c383f6df66994d4f9724"} {
		h, w := newRules(t, rules), newMixtureWorld(t, 2)
		w.learn(t, h, 0, 700)
		w.turn = 2
		w.learn(t, h, 700, 360)
		if got := fmt.Sprintf("%x", h.Digest()); got != want {
			t.Errorf("rules %d: digest %s, want %s", rules, got, want)
		}
	}
}

// TestRulesRefused: rules are 1, 2 or 3, and are of small models.
func TestRulesRefused(t *testing.T) {
	p := Problem{Dim: 3 << 12, Sigma: 1, Init: rng.NewKey(1).Stream(rng.Init)}
	for _, o := range []HashedOptions{{Rules: 4}, {Rules: -1}, {Rules: 2, Small: "no"}, {Rules: 3, Small: "no"}} {
		if _, err := NewHashed(o, p); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
