package report

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"troupe/sim"
)

// TestSolved: tables and figure of an episodic run say what its diagnostics say.
func TestSolved(t *testing.T) {
	x, err := sim.Parse("sea.toml", `
horizon = 150
replications = 3
[[environment]]
kind = "deep-sea"
size = [8, 10]
[[agent]]
kind = "optimism"
[[agent]]
kind = "uniform"
`, sim.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Run(context.Background(), x, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := Of(out)
	if err != nil {
		t.Fatal(err)
	}
	all := SolvedBy(run)
	if len(all) != 1 || len(all[0].Sizes) != 2 || len(all[0].Agents) != 2 {
		t.Fatalf("%+v", all)
	}
	s := all[0]
	if s.Score[0] != 1 || s.Score[1] != 0 {
		t.Errorf("the scores are %v, expected 1 for optimism and 0 for uniform", s.Score)
	}
	ten := s.Cells[0][1]
	if v, ok := ten.Median(); !ok || v < 20 || v > 40 || len(ten.Rounded) != 3 || ten.Rounded[0] < ten.Solved[0] {
		t.Errorf("optimism on N = 10: %+v", ten)
	}
	if _, ok := s.Cells[1][1].Median(); ok || s.Cells[1][1].text(false) != "0/3" {
		t.Errorf("uniform on N = 10: %+v", s.Cells[1][1])
	}
	// By hand, from diagnostics.csv: the last line of the first replication of optimism on N = 10.
	last := ""
	for line := range strings.Lines(string(out.Also)) {
		if strings.HasPrefix(line, "deep-sea(size=10),optimism,1,150,") {
			last = line
		}
	}
	if want := strings.Split(strings.TrimSpace(last), ","); len(want) != 9 || want[8] == "0" {
		t.Errorf("the last line is %q", last)
	}
	f := s.Figure(&run.Manifest)
	if f == nil || !strings.Contains(f.How, "Without a curve: uniform") || f.Panels[0].Marks[0].Name != "2^N" {
		t.Errorf("the figure is %+v", f)
	}
	var page bytes.Buffer
	if err := compose(run, Options{}).writePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Episodes until deep-sea is solved", "Episode k", "deep_sea/analysis.py", "150 episodes"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
