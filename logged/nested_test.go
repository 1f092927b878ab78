package logged

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestNestedParquet: columns below structs are named with dots, as a warehouse writes them: a struct of rewards is several
// outcomes, and --columns and --unit reach into any struct; a list inside a struct is no column. A name that is not there is refused
// with those that are.
func TestNestedParquet(t *testing.T) {
	type inner struct {
		Arm  int32   `parquet:"arm"`
		Prob float64 `parquet:"prob"`
	}
	type row struct {
		Data struct {
			Choice inner     `parquet:"choice"`
			Seen   []float64 `parquet:"seen,list"`
		} `parquet:"data"`
		User *struct {
			ID string `parquet:"id"`
		} `parquet:"user,optional"`
		Reward struct {
			Click   float64  `parquet:"click"`
			Latency *float64 `parquet:"latency,optional"`
		} `parquet:"reward"`
	}
	slow := 2.5
	rows := make([]row, 2)
	for i := range rows {
		rows[i].Data.Choice = inner{int32(i), .25 + .5*float64(i)}
		rows[i].User = &struct {
			ID string `parquet:"id"`
		}{[]string{"ann", "bob"}[i]}
		rows[i].Reward.Click, rows[i].Reward.Latency = float64(i), &slow
	}
	name := filepath.Join(t.TempDir(), "nested.parquet")
	if err := parquet.WriteFile(name, rows); err != nil {
		t.Fatal(err)
	}
	columns := map[string][]string{"action": {"data.choice.arm"}, "propensity": {"data.choice.prob"}}
	for outcome, want := range map[string][2]float64{"click": {0, 1}, "latency": {2.5, 2.5}} {
		r, err := Open(name, Options{Columns: columns, Actions: 2, Outcome: outcome, Unit: "user.id"})
		if err != nil {
			t.Fatal(outcome, err)
		}
		var e Event
		for i := range rows {
			if err := r.Read(&e); err != nil {
				t.Fatal(outcome, err)
			}
			if e.Chosen != i || e.Propensity != .25+.5*float64(i) || e.Reward != want[i] || e.Unit != []string{"ann", "bob"}[i] || e.Outcomes != 2 {
				t.Errorf("%s, row %d: %+v", outcome, i, e)
			}
		}
		if err := r.Read(&e); err != io.EOF {
			t.Error(err)
		}
		r.Close()
	}
	columns["action"] = []string{"data.choice.army"}
	_, err := Open(name, Options{Columns: columns, Actions: 2, Outcome: "click"})
	if err == nil || !strings.Contains(err.Error(), "action=data.choice.army") || !strings.Contains(err.Error(), "data.choice.arm\"") {
		t.Errorf("a column that is not there: %v", err)
	}
}
