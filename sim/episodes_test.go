package sim

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/episode"
)

const seaSpec = `
horizon = 100
replications = 3
[[environment]]
kind = "deep-sea"
size = [6, 8]
[[environment]]
kind = "river-swim"
[[agent]]
kind = "ensemble"
m = [2, 20]
[[agent]]
kind = "atoms"
[[agent]]
kind = "linear"
features = "one-hot"
m = 2
[[agent]]
kind = "uniform"
`

func playsSea(t *testing.T, text string, o Options) *Outcome {
	t.Helper()
	x, err := Parse("sea.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(context.Background(), x, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEpisodes: an episodic experiment has the same bytes for any number of workers, and when it grows in its
// directory by replications; the linear agent with one-hot features has the numbers of the tabular one; solved is what
// package episode says.
func TestEpisodes(t *testing.T) {
	one := playsSea(t, seaSpec, Options{Workers: 1})
	many := playsSea(t, seaSpec, Options{Workers: 5})
	if !bytes.Equal(one.Results, many.Results) || !bytes.Equal(one.Also, many.Also) {
		t.Error("one worker and five give other bytes")
	}
	dir := t.TempDir()
	playsSea(t, strings.Replace(seaSpec, "replications = 3", "replications = 2", 1), Options{Dir: dir})
	grown := playsSea(t, seaSpec, Options{Dir: dir})
	if grown.Played != 15 || grown.Reused != 30 {
		t.Errorf("%d cells were played and %d reused, expected 15 and 30", grown.Played, grown.Reused)
	}
	if !bytes.Equal(one.Results, grown.Results) || !bytes.Equal(one.Also, grown.Also) {
		t.Error("a directory that grew has other bytes")
	}
	again := playsSea(t, seaSpec, Options{Dir: dir})
	if again.Played != 0 {
		t.Errorf("%d cells were played again", again.Played)
	}
	for e := range 3 {
		if !slices.Equal(one.Final(e, 0), one.Final(e, 3)) {
			t.Errorf("environment %d: tabular %v, linear %v", e, one.Final(e, 0), one.Final(e, 3))
		}
	}
	if m := one.Manifest; !m.Episodic || m.Program != "engine 4" || !slices.Equal(m.Record, []string{"solved"}) ||
		SizeOf(m.Environments[1]) != 8 || SizeOf(m.Environments[2]) != 0 {
		t.Errorf("the manifest has episodic %v, program %q, record %v", m.Episodic, m.Program, m.Record)
	}
	x, err := Parse("sea.toml", seaSpec, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	key := x.Key(2)
	world, err := (&episode.DeepSeaOptions{Size: 6, MoveCost: 0.01, MappingSeed: 42}).Problem(key)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := episode.NewAtoms().Agent(episode.SettingOf(world, key, 100))
	if err != nil {
		t.Fatal(err)
	}
	w := follows{episode.Progress{Rule: episode.Deterministic}}
	if err := episode.Play(world, agent, key, 100, &w); err != nil {
		t.Fatal(err)
	}
	if got := one.cells[x.index(0, 2, 1)].Also["solved"]; w.Solved == 0 || got[len(got)-1] != float64(w.Solved) {
		t.Errorf("solved is %v, expected %d at the end", got, w.Solved)
	}
}

type follows struct{ episode.Progress }

func (f *follows) Episode(_ int, p episode.Played) error {
	f.Progress.Episode(p)
	return nil
}

// TestEpisodesRefuse: what does not go together is refused at its place.
func TestEpisodesRefuse(t *testing.T) {
	const env, agent = "[[environment]]\nkind = 'deep-sea'\n", "[[agent]]\nkind = 'uniform'\n"
	for want, text := range map[string]string{
		"x.toml:1:3: there are [[policy]] tables, too":                                 agent + "[[policy]]\nkind = 'ts'\n" + env,
		"x.toml:2:1: kind is \"deep-sea\", which is played in episodes":                env + "[[policy]]\nkind = 'ts'\n",
		"x.toml:4:1: kind is \"linear\", which is played in rounds":                    agent + "[[environment]]\nkind = 'linear'\n",
		"x.toml:5:1: size is 1, expected a whole number from 2":                        agent + env + "size = 1\n",
		"x.toml:5:1: feedback is for environments that are played in rounds":           agent + env + "feedback = { batch = 4 }\n",
		"x.toml:3:3: features is \"environment\", and the environment has no features": env + "[[agent]]\nkind = 'linear'\n",
		"x.toml:4:1: unknown kind \"ensembel\"; did you mean \"ensemble\"":             env + "[[agent]]\nkind = 'ensembel'\n",
		"x.toml:1:1: record is \"actions\", which nothing in this experiment has":      "record = ['actions']\n" + env + agent,
		"x.toml:1:1: record is \"solved\", which nothing in this experiment has":       "record = ['solved']\n[[environment]]\nkind = 'chain'\n" + agent,
		"x.toml:1:1: horizon is 0":                                                     "horizon = 0\n" + env + agent,
	} {
		x, err := Parse("x.toml", text, Kinds())
		if err == nil {
			_, err = Run(context.Background(), x, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected %q", err, want)
		}
	}
}

// TestEpisodesInterrupted: cells that were finished stay, and the same call ends with the bytes of one go.
func TestEpisodesInterrupted(t *testing.T) {
	whole := playsSea(t, seaSpec, Options{})
	dir := t.TempDir()
	x, err := Parse("sea.toml", seaSpec, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, err := Run(ctx, x, Options{Dir: dir, Workers: 1, Progress: func(p Progress) {
		if p.Done >= 7 {
			cancel()
		}
	}})
	if err == nil || out.Manifest.Status != Interrupted {
		t.Fatalf("the run is %s after its context was done: %v", out.Manifest.Status, err)
	}
	if _, err := os.Stat(filepath.Join(dir, JournalFile)); err != nil {
		t.Error(err)
	}
	end := playsSea(t, seaSpec, Options{Dir: dir})
	if end.Reused < 7 || !bytes.Equal(end.Results, whole.Results) || !bytes.Equal(end.Also, whole.Also) {
		t.Errorf("%d cells were kept; the bytes are the same: %v", end.Reused, bytes.Equal(end.Results, whole.Results))
	}
}
