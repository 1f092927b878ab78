package report

import (
	"bytes"
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"troupe/sim"
)

// constant is a recorder that observes the round, times −2.
type constant struct{ t int }

func (c *constant) Round(r sim.Round) error    { c.t = r.T; return nil }
func (c *constant) Values(dst []float64) error { dst[0] = -2 * float64(c.t); return nil }

// Of reads from memory what Load reads from files, recorders included; the page has a figure and a table of a
// recorder's column.
func TestOf(t *testing.T) {
	kinds := sim.Kinds()
	kinds.Recorders["mine"] = sim.Recorder{Doc: "minus two for each round", Columns: []string{"minus_two"}, New: func(sim.RecordedCell) sim.Probe { return new(constant) }}
	x, err := sim.Parse("x.toml", `
horizon = 50
replications = 3
record = ["mine", "actions"]
[[environment]]
kind = "linear"
d = 2
set = { kind = "random-sphere", arms = 3 }
[[policy]]
kind = "ts"
[[policy]]
kind = "uniform"
`, kinds)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	out, err := sim.Run(context.Background(), x, sim.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := Of(out)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(memory.Envs, files.Envs) || len(memory.Envs) != 1 {
		t.Error("the results in memory are not those of the files")
	}
	for _, column := range []string{"minus_two", "action_1"} {
		if v := memory.Envs[0].Also[1][2][column]; len(v) == 0 {
			t.Errorf("no column %s in memory", column)
		}
	}
	if v := memory.Envs[0].Also[0][0]["minus_two"]; v[len(v)-1] != -100 {
		t.Errorf("minus_two ends at %v", v)
	}
	paths, err := Write(files, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(append(paths.Figures, paths.Tables...), " "); !strings.Contains(all, "minus-two.svg") || !strings.Contains(all, "minus-two.tex") {
		t.Errorf("no figure or table of the recorder among %s", all)
	}
	var b bytes.Buffer
	if err := compose(files, Options{}).writePage(&b); err != nil || !strings.Contains(b.String(), "Minus two for each round; mean over 3") {
		t.Errorf("the page lacks the recorder, error %v", err)
	}
}
