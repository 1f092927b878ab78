package report

import (
	"math"
	"strings"
	"testing"

	"troupe/sim"
)

// Regret 5·√m·g with a factor g of the replication alone: the exponent is 1/2 and, because all m share
// the replications, its interval is the point. With factors of their own the interval has a width and
// holds 1/2, not 1/3 nor 2/3. Both windows, both rounds.
func TestPowers(t *testing.T) {
	var players []player
	for _, m := range []float64{1, 4, 16, 64, 256} {
		players = append(players, player{name: "ensemble(m=" + valueLabel(m) + ")", kind: "ensemble",
			options: map[string]any{"m": m}, swept: []string{"m"}, a: 5e3 * math.Sqrt(m), b: 0.3, s: 0.3})
	}
	players = append(players, player{"ts", "ts", map[string]any{}, nil, 20, 0.3, 0.3, 0, 0})
	run := loaded(t, []sim.EnvironmentRow{linearEnv("ball", 5, ball())}, players, 60, 1000, 12)
	a := Analyze(run, 0)
	tables := swept{a}.powers("x-")
	if len(tables) != 1 || tables["x-sweep-ensemble-m"] == nil {
		t.Fatalf("tables %v, want one, of m", tables)
	}
	table := tables["x-sweep-ensemble-m"]
	if len(table.Rows) != 4 {
		t.Fatalf("%d rows, want 4: two rounds, all values and the upper half", len(table.Rows))
	}
	for i, row := range table.Rows {
		b, lo, hi := row.Cells[4].V, row.Cells[5].V, row.Cells[6].V
		if !(lo < 0.5 && 0.5 < hi && hi-lo > 0.005 && lo > 1./3 && hi < 2./3 && lo <= b && b <= hi) {
			t.Errorf("row %d: %v [%v, %v], want an interval around 1/2", i, b, lo, hi)
		}
		if from, round := row.Cells[2].V, row.Cells[1].V; from != []float64{1, 16, 1, 16}[i] || round != []float64{100, 100, 1000, 1000}[i] {
			t.Errorf("row %d: from m = %v after %v rounds", i, from, round)
		}
	}
	for i := range players[:5] { // replace by 5√m·g, the same g for every m
		for k := range a.X[i] {
			for r := range a.X[i][k] {
				a.X[i][k][r] = math.Sqrt(players[i].options["m"].(float64)) * a.X[5][k][r]
			}
		}
	}
	for i, row := range (swept{a}).powers("x-")["x-sweep-ensemble-m"].Rows {
		for _, c := range row.Cells[4:] {
			if math.Abs(c.V-0.5) > 1e-12 {
				t.Errorf("row %d, paired: %v, want exactly 1/2", i, c.V)
			}
		}
	}
	// A series goes by the spec's own name where it has one.
	if got := table.Rows[0].Cells[0].S; got != "ensemble" {
		t.Errorf("an unnamed series is called %q", got)
	}
	for i := range a.Policies[:5] {
		run.Manifest.Policies[i].Name = "wide" + strings.TrimPrefix(run.Manifest.Policies[i].Name, "ensemble")
	}
	if got := (swept{a}).powers("x-")["x-sweep-ensemble-m"].Rows[0].Cells[0].S; got != "wide" {
		t.Errorf("a named series is called %q, want wide", got)
	}
	// Two values, or a narrow range, make no power law.
	a.Policies, a.X = a.Policies[:2], a.X[:2]
	if got := (swept{a}).powers("x-"); len(got) != 0 {
		t.Errorf("two values of m have exponents: %v", got)
	}
}

// The hypothesis stands on the page under the answer, open, paragraph by paragraph and escaped; without one nothing is
// said.
func TestHypothesisOnPage(t *testing.T) {
	page := func(h string) string {
		run := loaded(t, []sim.EnvironmentRow{linearEnv("ball", 5, ball())}, troupeOfSeven(), 25, 1000, 10)
		run.Manifest.Hypothesis = h
		var b strings.Builder
		if err := compose(run, Options{}).writePage(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := page("m < d\nis worse.\n\nThe rest is not.")
	at, head := strings.Index(text, "<p class=\"body\">m &lt; d is worse.</p>\n<p class=\"body\">The rest is not.</p>"), strings.Index(text, "<h1>")
	if fold := strings.Index(text, "<details"); at < head || fold < at {
		t.Errorf("hypothesis at %d, headline at %d", at, head)
	}
	if !strings.Contains(text, "Exponent</th>") || !strings.Contains(text, "tables/powers-ensemble-m.csv") {
		t.Error("no table of exponents under the sweep")
	}
	if text := page(""); strings.Contains(text, "Stated before the run") {
		t.Error("a run without hypothesis speaks of one")
	}
}
