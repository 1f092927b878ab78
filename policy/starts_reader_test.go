package policy_test

import (
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// TestStartsReader: a reader that adopts each state, which is taken back before the next event, decides as the policy
// does through beginnings and a change.
func TestStartsReader(t *testing.T) {
	s := streams()["changes"]
	w, reader := newFields(t, 3, "restarts"), newFields(t, 3, "restarts")
	same := newFields(t, 3, "restarts")
	for n := range 1500 {
		c, arm := n%8, n/700
		context := []byte(`{"segment":"s` + string(rune('0'+c)) + `"}`)
		for _, x := range []*service{w, same} {
			if err := x.b.Begin(context); err != nil {
				t.Fatal(err)
			}
			for i := range s.arms {
				if err := x.b.Add("a"+string(rune('0'+i)), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := reader.p.Adopt(w.p.Share()); err != nil {
			t.Fatal(err)
		}
		draw := rng.NewKey(4).Stream(rng.Select).Round(uint64(n))
		var a, b bandit.Action
		var la, lb bandit.Law
		if err := reader.p.SelectProb(&a, &la, w.b, draw); err != nil {
			t.Fatal(err)
		}
		if err := same.p.SelectProb(&b, &lb, same.b, draw); err != nil {
			t.Fatal(err)
		}
		if a.Index != b.Index {
			t.Fatalf("event %d: %d and %d", n, a.Index, b.Index)
		}
		for i := range la.Atoms {
			if la.Atoms[i].Count != lb.Atoms[i].Count {
				t.Fatalf("event %d: laws %v and %v", n, la, lb)
			}
		}
		y := 0.0
		if (a.Index+c+arm)%s.arms == 0 || n%13 == 0 {
			y = 1
		}
		if n%3 > 0 {
			w.p.Reclaim()
		}
		for _, x := range []*service{w, same} {
			if err := x.p.Update(a, y, rng.Source{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.p.Digest() != same.p.Digest() || w.p.Changed().Seen == 0 {
		t.Errorf("another state, or no change: %+v", w.p.Changed())
	}
}
