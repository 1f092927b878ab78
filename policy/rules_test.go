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

// rulesWorld lets a policy learn 40 events of a field with 40 values, then as many of the same field as a number; all
// rewards are 0 but every third.
func rulesWorld(t testing.TB, h *Hashed) *feature.HashedBatch {
	t.Helper()
	enc, err := feature.NewHashed(feature.HashedOptions{Bits: 12, Fields: true, List: true})
	if err != nil {
		t.Fatal(err)
	}
	b := feature.NewHashedBatch(enc, nil)
	var seen feature.Observer
	var stats *feature.Statistics
	learn := func(context string, y float64) {
		if err := b.Begin([]byte(context)); err != nil {
			t.Fatal(err)
		}
		if err := b.Add("a", nil); err != nil {
			t.Fatal(err)
		}
		var a bandit.Action
		at, x := b.Nonzeros(0)
		a.SetSparse(at, x, 0)
		if err := h.Update(a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		for _, s := range seen.Look(b, stats) {
			if stats, err = stats.With(s); err != nil {
				t.Fatal(err)
			}
		}
		b.Use(stats)
	}
	for i := range 40 {
		learn(fmt.Sprintf(`{"page":"p%d"}`, i), float64(i%3/2))
	}
	for i := range 40 {
		learn(fmt.Sprintf(`{"page":%d.5}`, i), float64(i%3/2))
	}
	return b
}

// readsOf returns how many coefficients the model of all fields has for a context.
func readsOf(t testing.TB, h *Hashed, b *feature.HashedBatch, context string) int {
	t.Helper()
	if err := b.Begin([]byte(context)); err != nil {
		t.Fatal(err)
	}
	if err := b.Add("a", nil); err != nil {
		t.Fatal(err)
	}
	at, x := b.Nonzeros(0)
	if _, ok := h.mix.list(at, x); !ok {
		t.Fatal("no list of atoms")
	}
	for _, s := range h.mix.smalls {
		if s.kind == smallLinear {
			h.mix.terms(s)
		}
	}
	return len(h.mix.phi)
}

// TestRulesFields: of a field with 40 values rules 2 read the first 32, and its numbers; rules 1 read none. A snapshot
// is that of its rules: it restores to the same bytes and law, and is refused under other rules.
func TestRulesFields(t *testing.T) {
	for k, want := range map[[2]int][3]int{{1, 0}: {1, 1, 1}, {2, 0}: {2, 1, 2}, {1, 500}: {1, 1, 1}, {2, 500}: {2, 1, 2}} {
		rules := k[0]
		newRules := func(t testing.TB, rules int) *Hashed { return newFadingRules(t, rules, float64(k[1])) }
		h := newRules(t, rules)
		b := rulesWorld(t, h)
		got := [3]int{readsOf(t, h, b, `{"page":"p31"}`), readsOf(t, h, b, `{"page":"p32"}`), readsOf(t, h, b, `{"page":7}`)}
		if got != want {
			t.Errorf("rules %d read %d, want %d: an early value, a late one, a number", rules, got, want)
		}
		snapshot := mustBytes(t, h)
		same, other := newRules(t, rules), newRules(t, 3-rules)
		if err := same.Restore(snapshot); err != nil || !bytes.Equal(mustBytes(t, same), snapshot) || same.Digest() != h.Digest() {
			t.Errorf("rules %d: restored it has another state, %v", rules, err)
		}
		if other.Restore(snapshot) == nil {
			t.Errorf("a snapshot of rules %d was taken by the others", rules)
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

// TestRulesPlay: by rules 2 no sparse model plays before it has predicted better; by rules 1 some do from the first event.
func TestRulesPlay(t *testing.T) {
	for rules, want := range map[int]bool{1: true, 2: false} {
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

// TestRulesBytes: by rules 2, too, the same events give the same state on every machine.
func TestRulesBytes(t *testing.T) {
	h, w := newRules(t, 2), newMixtureWorld(t, 2)
	w.learn(t, h, 0, 700)
	w.turn = 2
	w.learn(t, h, 700, 360)
	if got, want := fmt.Sprintf("%x", h.Digest()), "be01057b94b8dcbd8bd816bbaf6a05f2"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

// TestRulesRefused: rules are 1 or 2, and are of small models.
func TestRulesRefused(t *testing.T) {
	p := Problem{Dim: 3 << 12, Sigma: 1, Init: rng.NewKey(1).Stream(rng.Init)}
	for _, o := range []HashedOptions{{Rules: 3}, {Rules: -1}, {Rules: 2, Small: "no"}} {
		if _, err := NewHashed(o, p); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
