package cli

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"troupe/cli/term"
	"troupe/episode"
	"troupe/report"
	"troupe/report/chart"
	"troupe/sim"
)

// bsuiteIDs are the sizes of bsuite's two sweeps of DeepSea by their number: deep_sea/0 is N = 10.
const (
	bsuiteFirst = 10
	bsuiteLast  = 50
	bsuiteStep  = 2
)

// bsuiteHeader is the first line of a file of bsuite's CSV logger for these environments.
var bsuiteHeader = []string{"steps", "episode", "total_return", "episode_len", "episode_return", "total_bad_episodes",
	"denoised_return"}

// checkBsuite refuses a run that has nothing for --bsuite, before it is played.
func checkBsuite(x *sim.Experiment, dir string) error {
	rows := 0
	for i := range x.Environments {
		c := &x.Environments[i]
		if _, ok := bsuiteID(sim.EnvironmentRow{Kind: c.Kind, Options: c.Table}); ok {
			rows++
		}
	}
	if rows == 0 {
		return term.Misuse(fmt.Errorf("--bsuite %s: no environment of %s is a task of bsuite: deep-sea or "+
			"deep-sea-stochastic of size 10, 12, … 50 with its own move_cost and mapping_seed", dir, x.Name))
	}
	if lacks(x.Record, "solved") {
		return term.Misuse(fmt.Errorf("--bsuite %s: record lacks \"solved\", which bsuite's files are made of", dir))
	}
	for _, k := range episode.LoggedUpTo(x.Horizon) {
		if lacks(x.Checkpoints, k) {
			return term.Misuse(fmt.Errorf("--bsuite %s: checkpoints lack episode %d, which bsuite logs; leave "+
				"checkpoints out", dir, k))
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Misuse(fmt.Errorf("--bsuite: %w", err))
	}
	known := make(map[string]bool)
	for i := range x.Policies {
		known[slug(x.Policies[i].Name)] = true
	}
	for _, f := range files {
		if !known[f.Name()] {
			return term.Misuse(fmt.Errorf("--bsuite %s: is not empty (%s); bsuite wants a folder of its own", dir,
				f.Name()))
		}
	}
	return nil
}

func lacks[T comparable](list []T, want T) bool {
	for _, v := range list {
		if v == want {
			return false
		}
	}
	return true
}

// bsuiteID returns the name of a task: deep_sea-0.
func bsuiteID(e sim.EnvironmentRow) (id string, ok bool) {
	n := sim.SizeOf(e)
	if n < bsuiteFirst || n > bsuiteLast || (n-bsuiteFirst)%bsuiteStep != 0 {
		return "", false
	}
	usual := episode.NewDeepSea()
	for key, want := range map[string]string{"move_cost": fmt.Sprint(usual.MoveCost),
		"mapping_seed": fmt.Sprint(usual.MappingSeed)} {
		if v, given := e.Options[key]; given && fmt.Sprint(v) != want {
			return "", false
		}
	}
	name := "deep_sea"
	if e.Kind == "deep-sea-stochastic" {
		name = "deep_sea_stochastic"
	}
	return fmt.Sprintf("%s-%d", name, (n-bsuiteFirst)/bsuiteStep), true
}

// writeBsuite writes DIR/AGENT/REPLICATION/bsuite_id_-_TASK.csv for each agent, replication and task: what bsuite's own
// CSV logger writes, a line for each episode that it logs. It returns the number of files.
func writeBsuite(dir string, run *report.Run) (int, error) {
	m := &run.Manifest
	files := 0
	for e, row := range m.Environments {
		id, ok := bsuiteID(row)
		if !ok {
			continue
		}
		for p := range m.Policies {
			for r, cell := range run.Envs[e].Cells[p] {
				if cell == nil {
					continue
				}
				text, err := bsuiteCSV(sim.SizeOf(row), run.Envs[e].Rounds, cell, run.Envs[e].Also[p][r])
				if err != nil {
					return files, err
				}
				in := filepath.Join(dir, slug(m.Policies[p].Name), strconv.Itoa(r+1))
				if err := os.MkdirAll(in, 0o755); err != nil {
					return files, err
				}
				if err := chart.WriteFile(filepath.Join(in, "bsuite_id_-_"+id+".csv"), text); err != nil {
					return files, err
				}
				files++
			}
		}
	}
	return files, nil
}

// bsuiteCSV is one file.
func bsuiteCSV(size int, episodes []int, cell *report.CellRun, also report.Also) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(bsuiteHeader) //nolint:errcheck // Flush and Error below
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for k, n := range episodes {
		if !episode.Logged(n) {
			continue // the last episode of a run that ends between
		}
		//nolint:errcheck
		w.Write([]string{strconv.Itoa(n * size), strconv.Itoa(n), number(cell.Reward[k]), strconv.Itoa(size),
			number(also["last_return"][k]), number(also["bad"][k]), number(also["treasure"][k])})
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
