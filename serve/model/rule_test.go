package model

import "testing"

// TestRules: what each rule makes of the rewards 0.25, −1 and 0.75, when it is known, and that codes fit two bits of the
// state of an event. A rule without a line here fails.
func TestRules(t *testing.T) {
	want := map[Rule]struct {
		value   float64
		settles bool
	}{First: {0.25, true}, Sum: {0, false}, Last: {0.75, false}}
	if len(rules) > 4 {
		t.Errorf("%d rules, and two bits for their codes", len(rules))
	}
	for i := range rules {
		r := RuleOf(i)
		w, ok := want[r]
		if !ok {
			t.Errorf("rule %s has no line in this test", r)
			continue
		}
		var y float64
		for k, reward := range []float64{0.25, -1, 0.75} {
			if k > 0 && r.Settles() {
				break // further rewards have no effect
			}
			y = r.Fold(y, reward, k == 0)
		}
		if r.Code() != i || r.Settles() != w.settles || y != w.value {
			t.Errorf("%s: code %d, settles %v, %v counts; expected %d, %v and %v", r, r.Code(), r.Settles(), y, i, w.settles, w.value)
		}
	}
	for _, r := range []Rule{"", "average", RuleOf(-1), RuleOf(4)} {
		if r.Known() || r.Settles() || r.Fold(1, 2, false) != 2 {
			t.Errorf("%q is a rule", r)
		}
	}
	if got := ruleNames(); got != "first, sum or last" {
		t.Errorf("an error names %s", got)
	}
}
