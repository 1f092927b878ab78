package logged

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlColumns: the columns of a control group are read from an export, an early reward is told, and what cannot be is
// refused by field.
func TestControlColumns(t *testing.T) {
	const row = `{"event":"a/1/0","model":"m","mode":"online","row":1,"offered":2,"num":1,"den":2,"propensity":0.5,"basis_seq":1,"law":[0.5,0.5],` +
		`"reward":1,"reward_state":"early","group":"control","control":0.2,"control_plays":"first","active":true}`
	read := func(text string) (Event, error) {
		t.Helper()
		name := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(name, Options{Format: "export"})
		if err != nil {
			return Event{}, err
		}
		defer r.Close()
		var e Event
		return e, r.Read(&e)
	}
	e, err := read(row)
	if err != nil || !e.Early || e.Control == nil || *e.Control != (Control{Share: .2, First: true, In: true}) {
		t.Fatalf("%+v %+v %v", e, e.Control, err)
	}
	model, control := e.Control.Groups(nil, e.Law)
	if math.Abs(model[0]-.375) > 1e-12 || math.Abs(model[1]-.625) > 1e-12 || control[0] != 1 || control[1] != 0 {
		t.Errorf("laws %v %v, want .8·(.375, .625) + .2·(1, 0) = (.5, .5)", model, control)
	}
	for _, x := range []struct{ from, to, want string }{
		{`"group":"control"`, `"group":"other"`, "group: other, expected model or control"},
		{`"control":0.2`, `"control":0.7`, "control: 0.7, expected the share"},
		{`"control_plays":"first"`, `"control_plays":"last"`, "control_plays: last, expected uniform or first"},
		{`"group":"control",`, ``, "group, expected model or control"},
		{`"law":[0.5,0.5]`, `"law":[0.1,0.9]`, "law[0]: 0.1, expected 0.2 at least"},
	} {
		text := strings.Replace(row, x.from, x.to, 1)
		if x.from[1] == 'l' {
			text = strings.Replace(text, `"propensity":0.5`, `"propensity":0.9`, 1)
		}
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", x.to, err, x.want)
		}
	}
	if e, err = read(strings.NewReplacer(`"early"`, `"paid"`, `"group":"control","control":0.2,"control_plays":"first",`, "").Replace(row)); err != nil || e.Early || e.Control != nil {
		t.Errorf("without a control group: %+v %v", e, err)
	}
}
