package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"troupe/report"
	"troupe/sim"
)

const bsuiteSpec = `
name = "sea"
horizon = 120
replications = 2
[[environment]]
kind = "deep-sea"
size = [10, 11, 12]
[[environment]]
kind = "deep-sea-stochastic"
[[agent]]
kind = "optimism"
[[agent]]
kind = "uniform"
`

// TestBsuite: the files are those of bsuite's tasks, with its columns, and its own analysis of the rows (the first logged
// episode by which the share of bad episodes is below 0.9) gives what the run recorded.
func TestBsuite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sea.toml")
	if err := os.WriteFile(file, []byte(bsuiteSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	out, to := filepath.Join(dir, "out"), filepath.Join(dir, "bsuite")
	var stdout, stderr bytes.Buffer
	run := func(args ...string) int {
		stdout.Reset()
		stderr.Reset()
		return execute(context.Background(), sim.Kinds(), args, &stdout, &stderr)
	}
	if code := run("run", file, "-o", out, "--no-report", "--bsuite", to); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	files, err := filepath.Glob(filepath.Join(to, "*", "*", "*"))
	if err != nil || len(files) != 12 { // N = 11 is no task of bsuite
		t.Fatalf("%d files: %v (%v)", len(files), files, err)
	}
	loaded, err := report.Load(out)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(to, "optimism", "1", "bsuite_id_-_deep_sea-1.csv")) // N = 12
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(rows[0], bsuiteHeader) || len(rows) != 25 {
		t.Fatalf("%d rows under %v", len(rows), rows[0])
	}
	solved := 0
	for _, row := range rows[1:] {
		episode, _ := strconv.ParseFloat(row[1], 64)
		bad, _ := strconv.ParseFloat(row[5], 64)
		if solved == 0 && bad/episode < 0.9 {
			solved = int(episode)
		}
	}
	want := loaded.Envs[2].Also[0][0]["solved_logged"]
	if solved == 0 || float64(solved) != want[len(want)-1] {
		t.Errorf("the rows are solved in episode %d, the run recorded %v", solved, want)
	}
	if code := run("run", file, "-o", out, "--no-report", "--bsuite", dir); code != 2 ||
		!strings.Contains(stderr.String(), "is not empty") {
		t.Errorf("a folder of others: exit code %d: %s", code, stderr.String())
	}
	if code := run("run", "deep/chain", "--bsuite", to); code != 2 || !strings.Contains(stderr.String(), "no environment of") {
		t.Errorf("a run without DeepSea: exit code %d: %s", code, stderr.String())
	}
}
