package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
[[agent]]
kind = "ensemble"
m = 2
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
	if len(all) != 1 || len(all[0].Sizes) != 2 || len(all[0].Agents) != 3 {
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
	if _, ok := s.Cells[1][1].Median(); ok || s.Cells[1][1].text(false) != "–" {
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
	if _, err := Write(run, t.TempDir(), Options{}); err != nil { // paints the figures for a paper, too
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := compose(run, Options{}).writePage(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Episodes until deep-sea is solved", "Episode k", "deep_sea/analysis.py", "150 episodes",
		"Why: what the members hope for, deep-sea(size=10)", "ensemble, episode 100",
		">6 of 6</td>", ">0 of 6</td>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestMemberValues: the file of values is read as it was written, the figure has a panel for the first and the last episode
// with the median member, and what was changed is refused with its line.
func TestMemberValues(t *testing.T) {
	run := &Run{Manifest: sim.Manifest{Environments: []sim.EnvironmentRow{{Name: "sea", Kind: "deep-sea"}},
		Policies: []sim.PolicyRow{{Name: "ensemble"}}}}
	good := sim.ValuesHeader + `
sea,ensemble,1,1,1,0,0.5,0
sea,ensemble,1,1,1,1,0.25,0
sea,ensemble,1,1,2,0,1.5,0
sea,ensemble,1,1,2,1,-1,0
sea,ensemble,1,5,1,0,9,9
sea,ensemble,1,5,1,1,9,3
sea,ensemble,1,10,1,0,0.75,9
sea,ensemble,1,10,1,1,2,3
`
	if err := run.parseValues("values.csv", []byte(good)); err != nil {
		t.Fatal(err)
	}
	f := run.valuesFigure(0)
	if f == nil || len(f.Panels) != 2 || len(f.Panels[0].Marks) != 3 || len(f.Panels[1].Marks) != 4 {
		t.Fatalf("%+v", f)
	}
	p := f.Panels[1]
	if p.Title != "ensemble, episode 10" || p.Marks[1].Y[1] != 2 || p.Marks[2].Y[0] != 0.75 || p.Marks[3].X[0] != 1 || f.Panels[0].Marks[1].Y[0] != 1 || p.Y.Lo > -0.8 || p.Y.Hi < 2 {
		t.Errorf("%+v", p)
	}
	for bad, want := range map[string]string{
		"sea,ensemble,1,1,1,0,0.5": "wrong number of fields", "lake,ensemble,1,1,1,0,0.5,0": `line 2: environment "lake"`,
		"sea,ensemble,1,1,1,0,NaN,0": `line 2: the value is "NaN"`, "sea,ensemble,1,1,2,0,1,0": "line 2: model 2",
		"sea,ensemble,1,1,0,1,1,0":   "line 2: model 0, step 1",
		"sea,ensemble,1,x,1,0,0.5,0": `line 2: column 4 is "x"`,
	} {
		run.values = nil
		err := run.parseValues("values.csv", []byte(sim.ValuesHeader+"\n"+bad+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", bad, err, want)
		}
	}
}

// A run of many sizes writes no figures of each size unless it is asked to, and the page links to none.
func TestEachSize(t *testing.T) {
	spec := "horizon = 60\nreplications = 2\n[[agent]]\nkind = \"uniform\"\n"
	for n := 4; n < 8; n++ {
		spec += fmt.Sprintf("[[environment]]\nkind = \"deep-sea\"\nsize = %d\n", n)
	}
	x, err := sim.Parse("x.toml", spec, sim.Kinds())
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
	for _, each := range []bool{false, true} {
		dir := t.TempDir()
		paths, err := Write(run, dir, Options{Each: each})
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(paths.Figures, func(f string) bool { return strings.HasSuffix(f, "size-5-regret.svg") })
		page, err := os.ReadFile(paths.Page)
		if err != nil {
			t.Fatal(err)
		}
		if has != each {
			t.Errorf("asked %v: figures of a size are there: %v (%d files)", each, has, len(paths.Figures))
		}
		for _, m := range regexp.MustCompile(`href="((?:figures|tables)/[^"]*)"`).FindAllStringSubmatch(string(page), -1) {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("asked %v: the page links to %s", each, m[1])
			}
		}
	}
}
