package report

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/logged"
	"troupe/ope"
)

func evaluationOf(t *testing.T, targets ...ope.Target) *ope.Result {
	t.Helper()
	r, err := logged.Open(filepath.FromSlash("../logged/testdata/events.jsonl"), logged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := ope.Evaluate(context.Background(), r, ope.Options{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	out.Log.Skipped["a reason <b>"] = 3
	return out
}

// TestEvaluationPage: the page has the difference before the estimates, every figure, and nothing from outside; words
// of the log are escaped.
func TestEvaluationPage(t *testing.T) {
	dir := t.TempDir()
	r := evaluationOf(t, ope.Column{}, ope.Uniform{})
	path, err := BuildEvaluation(dir, r, EvaluateMeta{When: "4 May 2026", Command: "troupe evaluate events.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, want := range []string{"difference", "too close to call: between ", "Do the estimators agree?", "Do the logged propensities tell the truth?",
		"Reward by action", "Effective decisions", "a reason &lt;b&gt;", "column − uniform", "troupe evaluate events.jsonl"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if !strings.Contains(page, ">difference<") || strings.Index(page, ">difference<") > strings.Index(page, ">logged, what ran<") {
		t.Error("the difference is not the first row")
	}
	for _, bad := range []string{"http://", "https://", "NaN", "src="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, name := range []string{"difference.svg", "estimates.pdf", "weights.png", "running.csv", "ess.svg", "calibration.svg", "actions.csv", "2-difference.svg"} {
		if info, err := os.Stat(filepath.Join(dir, "figures", name)); err != nil || info.Size() == 0 {
			t.Errorf("figures/%s: %v", name, err)
		}
	}
	var again bytes.Buffer
	if err := WriteEvaluation(&again, r, EvaluateMeta{When: "4 May 2026", Command: "troupe evaluate events.jsonl"}); err != nil || again.String() != page {
		t.Errorf("the same result gives other bytes: %v", err)
	}
}

// TestEvaluationPageEmpty: a target that does not overlap has words and no numbers.
func TestEvaluationPageEmpty(t *testing.T) {
	r := evaluationOf(t, ope.Column{})
	r.Targets[0].Estimates, r.Targets[0].Uplift = nil, nil
	r.Targets[0].Overlap, r.Targets[0].Verdict = "hopeless", "this log cannot tell"
	var b bytes.Buffer
	if err := WriteEvaluation(&b, r, EvaluateMeta{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "this log cannot tell") || strings.Contains(b.String(), "(dr)</th>") {
		t.Error("a hopeless target has estimates on the page")
	}
}

// The headline of one target is by the interval that holds, and by the other one only where nothing doubts it; the picture
// of the estimate begins at a tenth of the log.
func TestEvaluationHeadline(t *testing.T) {
	r := evaluationOf(t, ope.Uniform{})
	u := r.Targets[0].Uplift
	head := func() string {
		var b bytes.Buffer
		if err := WriteEvaluation(&b, r, EvaluateMeta{}); err != nil {
			t.Fatal(err)
		}
		_, page, _ := strings.Cut(b.String(), "<h1>")
		page, _, _ = strings.Cut(page, "</h1>")
		return page
	}
	value, se, doubt := -0.1, 0.01, "few decisions carry the weight"
	u.Value, u.Plain, u.SE = &value, &value, &se
	for _, c := range []struct {
		sequence, normal ope.Pair
		doubt            *string
		want             string
	}{
		{ope.Pair{-0.2, -0.05}, ope.Pair{-0.12, -0.08}, &doubt, "uniform would have earned 0.1"},
		{ope.Pair{-0.3, 0.05}, ope.Pair{-0.12, -0.08}, nil, "uniform would probably have earned less"},
		{ope.Pair{-0.3, 0.05}, ope.Pair{-0.12, -0.08}, &doubt, "Too close to call between uniform and what ran."},
		{ope.Pair{-0.3, 0.05}, ope.Pair{-0.12, 0.08}, nil, "Too close to call between uniform and what ran."},
	} {
		u.Sequence, u.Normal, u.Doubt = &c.sequence, &c.normal, c.doubt
		if got := head(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v and %v, doubt %v: %q, want %q", c.sequence, c.normal, c.doubt != nil, got, c.want)
		}
	}
	all := []ope.Point{{N: 16}, {N: 99}, {N: 100}, {N: 500}, {N: 1000}}
	if got := lastNineTenths(all); len(got) != 3 || got[0].N != 100 {
		t.Errorf("from a tenth on: %+v", got)
	}
}
