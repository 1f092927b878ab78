package report

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

// The score by kind of difficulty is the suite's score over the environments of the kind, with intervals for all of it,
// and names the policies that may be first.
func TestDifficulty(t *testing.T) {
	run := withEnsemble(t)
	d := DifficultyOf(run)
	if d == nil || !slices.Equal(d.Kinds, []string{plainWorld, dimension, manyArms, noisy, changing, delayed, fewMembers}) {
		t.Fatalf("%+v", d)
	}
	s, _ := Scores(run)
	for _, r := range d.Rows {
		i := slices.IndexFunc(s.Rows, func(x ScoreRow) bool { return x.Policy == r.Policy })
		each := s.Rows[i].Each // few arms, dimension 30, 1000 arms, small gaps, correlated, ball, cube, changing sets, heavy, misspecified, drift, delay
		for kind, want := range map[string]float64{dimension: each[1], manyArms: (each[2] + each[5] + each[6]) / 3,
			noisy: (each[3] + each[8] + each[9]) / 3, changing: each[10], delayed: each[11], plainWorld: (each[0] + each[4] + each[7]) / 3} {
			if got := r.Score[kind]; math.Abs(got.Value-want) > 1e-12 || !got.OK || !(got.Lo < want && want < got.Hi) {
				t.Errorf("%s, %s: %+v, expected %v", r.Policy, kind, got, want)
			}
		}
		if few, ok := r.Score[fewMembers]; ok != strings.HasPrefix(r.Policy, "ensemble") || ok && math.Abs(few.Value-s.Rows[i].Mean) > 1e-12 {
			t.Errorf("%s with few members: %+v", r.Policy, few)
		}
	}
	for _, k := range d.Kinds[:6] {
		if n := len(d.First[k]); n == 0 || n > 2 {
			t.Errorf("%s: %q may be first", k, d.First[k])
		}
	}
	var b bytes.Buffer
	if err := d.WriteHTML(&b); err != nil || !strings.Contains(b.String(), "Which policies may be first, by kind of difficulty") {
		t.Errorf("the page: %v", err)
	}
	if few := suiteRun(t, func(s string) string { return s }); DifficultyOf(few) != nil {
		t.Error("three replications have a score by difficulty")
	}
}

// Many runs of one experiment are compared with the first at once: wider than two alone, never narrower.
func TestCompareMany(t *testing.T) {
	a, b, c := asked(t, troupeOfSeven()[:3], 60, ""), asked(t, troupeOfSeven()[:3], 60, ""), asked(t, troupeOfSeven()[:3], 60, "")
	for p := range c.Envs[0].Cells {
		for _, cell := range c.Envs[0].Cells[p] {
			for k := range cell.Regret {
				cell.Regret[k] = cell.Regret[k]*float64(1+p) + 1
			}
		}
	}
	s := CompareMany([]*Run{a, b, c}, []string{"one", "two", "three"})
	if same := s.Each[0].Rows[0]; same.mark(s.Each[0].Estimand) != "=" {
		t.Errorf("equal runs: %+v", same)
	}
	alone, many := compareRuns(a, c), s.Each[1]
	for i, r := range many.Rows {
		if x := alone.Rows[i]; x.OK != r.OK || x.Mean != r.Mean || r.Lo > x.Lo || r.Hi < x.Hi {
			t.Errorf("row %d: %+v alone, %+v among many", i, x, r)
		}
	}
	head, lead := s.Verdict()
	if head.String() != "One of 2 runs differs from the first by more than chance." ||
		lead[0].String() != "Against one, two has the same numbers in all 6 rows." {
		t.Errorf("%s %s", head, lead)
	}
	var b2 bytes.Buffer
	if err := s.WriteHTML(&b2); err != nil || !strings.Contains(b2.String(), "3 runs compared") {
		t.Error(err)
	}
	_ = b
}
