package logged

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnits: the unit of a decision is read from the key or column unit, from a column that --unit names, and from a path of the
// context; it goes through the formats that can say it, and the others refuse it by name.
func TestUnits(t *testing.T) {
	want := []string{"ann", "bob", "ann", ""}
	of := func(all []Event) (units []string) {
		for i := range all {
			units = append(units, all[i].Unit)
		}
		return units
	}
	jsonl := `{"action":0,"reward":1,"propensity":0.5,"unit":"ann","law":[0.5,0.5]}
{"action":1,"reward":0,"propensity":0.5,"unit":"bob","law":[0.5,0.5]}
{"action":0,"reward":1,"propensity":0.5,"unit":"ann","law":[0.5,0.5]}
{"action":0,"reward":1,"propensity":0.5,"unit":null,"law":[0.5,0.5]}
`
	context := `{"action":0,"reward":1,"propensity":0.5,"context":{"user":{"id":"ann"}}}
{"action":1,"reward":0,"propensity":0.5,"context":{"user":{"id":"bob"}}}
{"action":0,"reward":1,"propensity":0.5,"context":{"user":{"id":"ann"}}}
{"action":0,"reward":1,"propensity":0.5,"context":{"user":{}}}
`
	csv := "action,reward,propensity,person\n0,1,.5,ann\n1,0,.5,bob\n0,1,.5,ann\n0,1,.5,\n"
	dsjson := `{"_label_cost":-1,"_label_probability":0.5,"_label_Action":1,"_labelIndex":0,"a":[1,2],"p":[0.5,0.5],"c":{"_multi":[{},{}]},"unit":"ann"}
{"_label_cost":0,"_label_probability":0.5,"_label_Action":2,"_labelIndex":1,"a":[2,1],"p":[0.5,0.5],"c":{"_multi":[{},{}]},"unit":"bob"}
{"_label_cost":-1,"_label_probability":0.5,"_label_Action":1,"_labelIndex":0,"a":[1,2],"p":[0.5,0.5],"c":{"_multi":[{},{}]},"unit":"ann"}
{"_label_cost":-1,"_label_probability":0.5,"_label_Action":1,"_labelIndex":0,"a":[1,2],"p":[0.5,0.5],"c":{"_multi":[{},{}]}}
`
	file := textFile(t, "a.jsonl", jsonl)
	for _, x := range []struct {
		file string
		o    Options
	}{{file, Options{}}, {textFile(t, "b.jsonl", context), Options{Unit: "user.id", Actions: 2}},
		{textFile(t, "c.csv", csv), Options{Unit: "person", Actions: 2}}, {textFile(t, "d.csv", strings.Replace(csv, "person", "unit", 1)), Options{Actions: 2}},
		{textFile(t, "e.csv", csv), Options{Columns: map[string][]string{"unit": {"person"}}, Actions: 2}}, {textFile(t, "f.dsjson", dsjson), Options{}}} {
		if got := of(mustRead(t, x.file, x.o)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", filepath.Base(x.file), got, want)
		}
	}
	for _, to := range []string{"jsonl", "parquet", "csv", "dsjson", "npz", "vw-json", "obd"} {
		out := filepath.Join(t.TempDir(), "out."+to)
		w, err := Create(out, WriteOptions{Format: to})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range mustRead(t, file, Options{}) {
			if to == "dsjson" { // it must have actions
				e.Actions = []Action{{Named: []byte("{}")}, {Named: []byte("{}")}}
				e.Named = []byte("{}")
			}
			if err = w.Write(&e); err != nil {
				break
			}
		}
		if err == nil {
			err = w.Close()
		}
		w.Abort()
		switch to {
		case "npz", "vw-json", "obd":
			if err == nil || !strings.Contains(err.Error(), "units") {
				t.Errorf("%s: %v", to, err)
			}
		default:
			if err != nil {
				t.Errorf("%s: %v", to, err)
			} else if got := of(mustRead(t, out, Options{Repeats: true})); !slices.Equal(got, want) {
				t.Errorf("%s: %q", to, got)
			}
		}
	}
	// Numbers are units, too, in Parquet a column that --unit names; what is neither is refused, and so is a name that no event has.
	if got := of(mustRead(t, textFile(t, "n.jsonl", `{"action":0,"reward":1,"propensity":0.5,"unit":9007199254740993}`+"\n"), Options{})); got[0] != "9007199254740993" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{`"unit":""`: "unit: \"\"", `"unit":1.5`: "unit: 1.5", `"unit":[1]`: "unit: [1]"} {
		if _, _, err := readAll(textFile(t, "bad.jsonl", `{"action":0,"reward":1,"propensity":0.5,`+text+"}\n"), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := readAll(textFile(t, "g.jsonl", context), Options{Unit: "user.ids", Actions: 2}); err == nil || !strings.Contains(err.Error(), "--unit user.ids") || !strings.Contains(err.Error(), "user.id") {
		t.Error(err)
	}
}
