package report

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"troupe/report/chart"
)

// paper.tex has every figure and table as a float with a caption and a label of its own; the files that it reads are there.
func TestFloats(t *testing.T) {
	dir := t.TempDir()
	run := loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
	paths, err := Write(run, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(paths.Floats)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{}
	for _, m := range regexp.MustCompile(`\\label\{([^}]*)\}`).FindAllStringSubmatch(string(text), -1) {
		if labels[m[1]] {
			t.Errorf("two floats are called %s", m[1])
		}
		labels[m[1]] = true
	}
	files := regexp.MustCompile(`\\troupedir/([a-z]+/[^}]*)\}`).FindAllStringSubmatch(string(text), -1)
	if len(labels) < 8 || len(labels) != strings.Count(string(text), `\caption{`) || len(files) < len(labels) {
		t.Errorf("%d labels, %d captions, %d files", len(labels), strings.Count(string(text), `\caption{`), len(files))
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(dir, f[1])); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{`\label{fig:regret}`, `\label{tab:leader}`, `\caption{Regret after 1,000 rounds`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("paper.tex lacks %s", want)
		}
	}
	f := &chart.Figure{ID: "x", Title: "50% of β_t & more", How: "One line"}
	if got := string(floats([]*chart.Figure{f}, nil, map[*chart.Figure]string{f: "a_b"})); !strings.Contains(got, `\caption{50\% of $\beta$\_t \& more: a\_b. One line.}`) {
		t.Errorf("the caption is not escaped:\n%s", got)
	}
}
