package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"troupe/rng"
	"troupe/sim"
)

// player is a made-up policy: regret a·g·(t^b) with a lognormal g of spread s, and with probability
// fail a replication that loses rate in every round from some round on. The law has the shape of
// bandit runs: heavy tails made of replications that got stuck.
type player struct {
	name, kind string
	options    map[string]any
	swept      []string
	a, b, s    float64
	fail, rate float64
}

// troupeOfSeven is shaped like the tour: three ensembles, two rivals, a baseline that explores and
// one that does not.
func troupeOfSeven() []player {
	m := func(m int) map[string]any { return map[string]any{"m": m, "lambda": 1.0} }
	return []player{
		{"ensemble(m=4)", "ensemble", m(4), []string{"m"}, 6.5, 0.22, 0.5, 0.12, 0.14},
		{"ensemble(m=16)", "ensemble", m(16), []string{"m"}, 7.5, 0.23, 0.45, 0.03, 0.09},
		{"ensemble(m=64)", "ensemble", m(64), []string{"m"}, 10, 0.24, 0.4, 0.01, 0.04},
		{"ts", "ts", map[string]any{}, nil, 13.5, 0.24, 0.3, 0, 0},
		{"linucb", "linucb", map[string]any{}, nil, 5.5, 0.24, 0.5, 0.05, 0.11},
		{"epsilon-greedy(epsilon=0.02)", "epsilon-greedy", map[string]any{"epsilon": 0.02}, nil, 3.2, 0.54, 0.6, 0.02, 0.1},
		{"greedy", "greedy", map[string]any{}, nil, 1.5, 0.4, 0.8, 0.85, 0.29},
	}
}

// checkpoints are log-spaced as sim writes them, about n of them up to T.
func checkpoints(T, n int) []int {
	var ts []int
	for i := range n {
		t := int(math.Round(math.Pow(float64(T), float64(i+1)/float64(n))))
		if len(ts) == 0 || t > ts[len(ts)-1] {
			ts = append(ts, t)
		}
	}
	return ts
}

// regretAt is the made-up law.
func (p player) regretAt(ts []int, env, rep int, scale float64) (regret []float64) {
	key := rng.NewKey(7).At(uint64(env)).At(uint64(rep))
	common := key.Stream(rng.Instance).Round(0).Normal(0)
	own := key.Child(p.name).Stream(rng.Select).Round(0)
	g := math.Exp(p.s*(0.3*common+0.95*own.Normal(0)) - p.s*p.s/2)
	stuck, from := own.Float64(1) < p.fail, 20+300*own.Float64(2)
	rate := p.rate * math.Exp(0.6*own.Normal(3))
	for _, t := range ts {
		r := p.a * scale * g * math.Pow(float64(t), p.b)
		if t <= 5 {
			r = scale * 0.4 * float64(t)
		}
		if stuck && float64(t) > from {
			r += rate * scale * (float64(t) - from)
		}
		// Three decimals: the last bits of a power or a normal may differ between machines.
		regret = append(regret, math.Round(r*1000)/1000)
	}
	return regret
}

// write makes a result directory of environments × players × replications.
func write(t testing.TB, dir string, envs []sim.EnvironmentRow, players []player, reps, T, points int) {
	t.Helper()
	ts := checkpoints(T, points)
	m := sim.Manifest{
		Troupe: "0.1.0", Commit: "0123456789abcdef0123456789abcdef01234567", Go: "go1.26.8", OS: "linux", Arch: "amd64", CPUs: 2,
		Command: "troupe run tour", Experiment: "tour", Hypothesis: "Sixteen members are enough: ensemble(m=64) is not better.\n\nGreedy gets stuck.", Seed: 1, Horizon: T, Replications: reps, Workers: 2,
		Started: "2026-11-20T16:08:00Z", Seconds: 9.2, Status: "complete",
		Spec:         "name = \"tour\"\nseed = 1\nhorizon = 10_000\n\n[[environment]]\nkind = \"linear\"\nd = 10\n\n[[policy]]\nkind = \"ensemble\"\nm = [4, 16, 64]\n",
		Environments: envs, Cells: len(envs) * len(players) * reps, Done: len(envs) * len(players) * reps,
	}
	b := []byte(sim.ResultsHeader + "\n")
	for e, env := range envs {
		scale := 1 + 0.5*float64(e)
		if d, ok := env.Options["d"].(int); ok {
			scale = float64(d) / 10
		}
		for _, p := range players {
			head := quote(env.Name) + "," + quote(p.name) + ","
			for r := range reps {
				regret := p.regretAt(ts, e, r, scale)
				for k, round := range ts {
					b = append(b, head...)
					b = strconv.AppendInt(append(strconv.AppendInt(b, int64(r+1), 10), ','), int64(round), 10)
					b = strconv.AppendFloat(append(b, ','), regret[k], 'g', 17, 64)
					b = strconv.AppendFloat(append(b, ','), 0.7*float64(round)-regret[k], 'g', 17, 64)
					b = append(b, '\n')
				}
			}
		}
	}
	for i, p := range players {
		m.Policies = append(m.Policies, sim.PolicyRow{Name: p.name, Kind: p.kind, Options: p.options, Swept: p.swept,
			Rounds: len(envs) * reps * T, Seconds: float64(len(envs)*reps*T) * float64(1+i) * 0.7e-6})
	}
	sum := sha256.Sum256(b)
	m.ResultsSHA = hex.EncodeToString(sum[:])
	save(t, filepath.Join(dir, "results.csv"), b)
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "manifest.json"), raw)
}

func quote(s string) string {
	if strings.ContainsAny(s, ",\"") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

func save(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// linearEnv is an environment's entry in the manifest.
func linearEnv(name string, d int, set map[string]any, swept ...string) sim.EnvironmentRow {
	return sim.EnvironmentRow{Name: name, Kind: "linear", Dim: d, Swept: swept,
		Options: map[string]any{"d": d, "set": set, "noise": map[string]any{"kind": "gaussian", "sigma": 1.0}}}
}

func ball() map[string]any { return map[string]any{"kind": "ball"} }
func arms() map[string]any {
	return map[string]any{"kind": "random-sphere", "arms": 50, "redraw": false}
}

// Reports of every shape are built: one environment and several, sweeps, too few replications, a
// single one. When TROUPE_SAMPLES names a directory they stay there for people to look at. The one has 60 replications
// and the grid 20, 200 and 40 with TROUPE_LONG or TROUPE_SAMPLES.
func TestSample(t *testing.T) {
	dir := os.Getenv("TROUPE_SAMPLES")
	look := dir != ""
	if !look {
		dir = t.TempDir()
	}
	one, each := 60, 20
	if look || os.Getenv("TROUPE_LONG") != "" {
		one, each = 200, 40
	}
	grid := []player{}
	for _, m := range []int{2, 8, 32, 128} {
		for _, s := range []float64{0.5, 1, 2} {
			loss := 1 + math.Abs(math.Log2(s))*0.4
			grid = append(grid, player{fmt.Sprintf("ensemble(m=%d,scale.value=%g)", m, s), "ensemble",
				map[string]any{"m": m, "scale": map[string]any{"kind": "constant", "value": s}}, []string{"m", "scale.value"},
				6 * loss * (1 + 2/float64(m)), 0.25, 0.4, 0.3 / float64(m), 0.1})
		}
	}
	grid = append(grid, troupeOfSeven()[3:]...)
	for _, s := range []struct {
		name    string
		envs    []sim.EnvironmentRow
		players []player
		reps    int
	}{
		{"one", []sim.EnvironmentRow{linearEnv("arms-50", 10, arms())}, troupeOfSeven(), one},
		{"two", []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())}, troupeOfSeven(), 50},
		{"grid", []sim.EnvironmentRow{linearEnv("d=5", 5, ball(), "d"), linearEnv("d=10", 10, ball(), "d"), linearEnv("d=20", 20, ball(), "d"), linearEnv("d=40", 40, ball(), "d")}, grid, each},
		{"few", []sim.EnvironmentRow{linearEnv("arms-50", 10, arms())}, troupeOfSeven(), 5},
		{"single", []sim.EnvironmentRow{linearEnv("arms-50", 10, arms())}, troupeOfSeven()[1:2], 1},
	} {
		t.Run(s.name, func(t *testing.T) {
			out := filepath.Join(dir, s.name)
			write(t, out, s.envs, s.players, s.reps, 10_000, 54)
			paths, err := Build(out, Options{NoFigures: !look})
			if err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(paths.Page)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes, %d figures", s.name, st.Size(), len(paths.Figures))
		})
	}
}
