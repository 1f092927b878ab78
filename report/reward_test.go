package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"troupe/internal/stats"
)

// The page has the reward beside the regret: the numbers are those of the cells, accuracy is named where a reward is 0 or 1, and the
// switch shows one of the two.
func TestReward(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven()[:3], 25, 1000, 20)
	a := Analyze(run, 0)
	figure, table := painter{a}.rewardFigure("")
	if len(table.Rows) != 3 || len(figure.Panels[0].Ends) != 3 {
		t.Fatalf("%d rows, %d labels", len(table.Rows), len(figure.Panels[0].Ends))
	}
	above := math.Inf(1)
	for r, row := range table.Rows {
		i := -1
		for k := range a.Policies {
			if a.Label(k) == row.Cells[0].S {
				i = k
			}
		}
		var x []float64
		for _, rep := range a.Reps {
			c := run.Envs[0].Cells[a.Policies[i]][rep]
			x = append(x, c.Reward[len(c.Reward)-1]/1000)
		}
		if got, want := row.Cells[1].V, stats.Mean(x); math.Abs(got-want) > 1e-12 || got > above {
			t.Errorf("row %d: reward %v, want %v, below %v", r, got, want, above)
		}
		if got, want := row.Cells[2].V, stats.StdErr(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("row %d: standard error %v, want %v", r, got, want)
		}
		above = row.Cells[1].V
	}
	var b bytes.Buffer
	if err := compose(run, Options{}).writePage(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`class="to-reward">Reward per round<`, "Reward per round against time", `href="tables/reward.csv"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for kind, want := range map[string]string{"classification": "Accuracy", "one-hot": "Accuracy", "clicks": "Clicks per round", "linear": "Reward per round"} {
		e := &run.Manifest.Environments[0]
		e.Kind = kind
		if name, _ := (painter{a}).rewardName(); name != want {
			t.Errorf("%s: %s, want %s", kind, name, want)
		}
		if e.Options = map[string]any{"reward": "mushroom"}; kind == "classification" {
			if name, _ := (painter{a}).rewardName(); name != "Reward per round" {
				t.Errorf("the game of mushrooms has %s", name)
			}
		}
		e.Options = nil
	}
}

// One policy is compared with nothing: no differences, no verdict, no common random numbers.
func TestAlone(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven()[:1], 25, 1000, 20)
	var page, text, tex bytes.Buffer
	if err := compose(run, Options{}).writePage(&page); err != nil {
		t.Fatal(err)
	}
	table := Leader(run, 0)
	if err := table.Text(&text, 80, false); err != nil {
		t.Fatal(err)
	}
	if err := table.Booktabs(&tex); err != nil {
		t.Fatal(err)
	}
	body := page.String()[strings.Index(page.String(), "<main"):]
	for _, word := range []string{"lowest mean", "all pairs", "ommon random numbers", "What was compared", "click to hide"} {
		if strings.Contains(body, word) || strings.Contains(text.String()+tex.String(), word) {
			t.Errorf("one policy, and still %q", word)
		}
	}
}
