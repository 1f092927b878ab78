package logged

import (
	"strings"
	"testing"
)

// TestTakenByVowpalWabbit: input that Vowpal Wabbit 9 takes (parse_example.cc, parse_example_json.cc). A feature without a
// name is its number in its namespace, from 0 (_channel_hash + _anon++), names of a label's parts are compared without case
// (_stricmp), both values of a key are features, and a line of dsjson that does not begin with { is skipped.
func TestTakenByVowpalWabbit(t *testing.T) {
	one := func(name, text string) Event {
		t.Helper()
		all, _, err := readAll(textFile(t, name, text), Options{})
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		return all[0]
	}
	for _, c := range []struct{ line, want string }{
		{"|f :1 :2", `{"f":{"0":1,"1":2}}`}, {"|f :1 a:3 :2", `{"f":{"0":1,"a":3,"1":2}}`}, {"| :0.5", `{"0":0.5}`},
		{"|f:2 :1.5", `{"f":{"0":3}}`}, {"|f :1 |g :4", `{"f":{"0":1},"g":{"0":4}}`}, {"|f :1 0:2", `{"f":{"0":3}}`},
	} {
		if e := one("a.vw", "shared "+c.line+"\n|x b\n0:-1:0.5 |x c\n\n"); string(e.Named) != c.want {
			t.Errorf("%s is %s, want %s", c.line, e.Named, c.want)
		}
	}
	refused(t, textFile(t, "b.vw", "|f :x\n0:-1:0.5 |x c\n\n"), Options{}, ":1:4: feature: :x, expected name")

	multi := `,"u":{"x":1},"_multi":[{"a":1},{"b":1}]}`
	for _, label := range []string{`"_label_cost":-1,"_label_probability":0.5,"_label_action":2`, `"_label_Cost":-1,"_label_Probability":0.5,"_label_Action":2`,
		`"_labelIndex":1,"_label_COST":-1,"_label_PROBABILITY":0.5`, `"_label":{"Action":2,"Cost":-1,"Probability":0.5}`, `"_label":{"action":2,"cost":-1,"probability":0.5}`} {
		if e := one("c.json", "{"+label+multi); e.Chosen != 1 || e.Reward != 1 || e.Propensity != 0.5 || string(e.Named) != `{"u":{"x":1}}` {
			t.Errorf("%s: %+v", label, e)
		}
	}
	slots := `{"_outcomes":[{"_id":7,"_label_cost":-1,"_a":[1,0],"_p":[0.5,0.5]},{"_label_cost":0,"_a":[0],"_p":[1]}],"c":{"_multi":[{"_tag":3,"x":1},{"x":2}],"_slots":[{"_id":0,"top":1},{"_id":1,"top":0}]}}`
	if e := one("d.dsjson", slots); len(e.Slots) != 2 || e.Slots[0].ID != "7" || string(e.Slots[1].Named) != `{"top":0}` || e.Actions[0].ID != "3" {
		t.Errorf("%+v", e)
	}

	head := `{"_label_cost":-1,"_label_probability":0.5,"_label_Action":2,"_labelIndex":1,"a":[2,1],"p":[0.5,0.5],"c":{`
	for _, c := range []struct{ context, want string }{
		{`"u":1,"u":2,"_multi":[{"a":1},{"b":1}]`, `{"u":3}`}, {`"u":{"x":1},"u":{"y":2,"x":4},"_multi":[{"a":1},{"b":1}]`, `{"u":{"x":5,"y":2}}`},
		{`"u":"p","u":"q","_multi":[{"a":1},{"b":1}]`, `{"u":["p","q"]}`}, {`"u":{"a":{"x":1,"x":1}},"_multi":[{"a":1},{"b":1}]`, `{"u":{"a":{"x":2}}}`},
	} {
		file := textFile(t, "e.dsjson", head+c.context+"}}\n")
		all, r, err := readAll(file, Options{})
		if err != nil || string(all[0].Named) != c.want || len(r.Warnings()) != 1 || !strings.Contains(r.Warnings()[0], "a key comes twice") {
			t.Errorf("%s: %+v, %v, want %s", c.context, all, err, c.want)
		}
	}
	refused(t, textFile(t, "f.dsjson", head+`"u":1,"u":"q","_multi":[{"a":1},{"b":1}]}}`), Options{}, "duplicate object member name")
	refused(t, textFile(t, "g.jsonl", `{"action":0,"action":1,"reward":1,"propensity":0.5}`), Options{}, "duplicate object member name")

	good := dsHead + "}\n"
	all, r, err := readAll(textFile(t, "h.dsjson", good+"[checkpoint] position 10\n"+good+"# end\n"), Options{})
	if bad, _ := r.Bad(); err != nil || len(all) != 2 || bad != 0 || r.Skipped()["no event: a line that does not begin with {"] != 2 {
		t.Errorf("%d events, %d bad, skipped %v, %v", len(all), bad, r.Skipped(), err)
	}
	refused(t, textFile(t, "i.jsonl", okLine+"[checkpoint]\n"), Options{}, ":2:")
	refused(t, textFile(t, "j.dsjson", good+`{"_label_cost":-1,`+"\n"), Options{}, ":2:")
}

// TestOtherTables: what tools write beside plain CSV is read, or refused with the command that mends it.
func TestOtherTables(t *testing.T) {
	for _, c := range []struct {
		text    string
		rewards []float64
		want    string
	}{
		{"action,reward,propensity\n0,True,0.5\n1,False,0.5\n", []float64{1, 0}, ""},
		{"action,reward,propensity\n0,true,0.5\n1,FALSE,0.5\n", []float64{1, 0}, ""},
		{"action,reward,propensity\n0,yes,0.5\n", nil, `:2:3: reward: "yes", expected a finite number`},
		{"action, reward, propensity\n0, 1, 0.5\n1, 0, 0.5\n", []float64{1, 0}, ""},
		{" action ; reward ; propensity \n 0 ; True ; 0.5 \n", []float64{1}, ""},
		{"action, action ,reward,propensity\n0,1,1,0.5\n", nil, `two columns "action"`},
		{"[{\"action\":0,\"reward\":1,\"propensity\":0.5}]", nil, "one JSON array, expected one object a line (jq -c '.[]' "},
		{"[\n  {\"action\":0}\n]\n", nil, "one JSON array"},
		{"\xff\xfea\x00c\x00t\x00", nil, "UTF-16 text, expected UTF-8 (iconv -f UTF-16 -t UTF-8 "},
		{"\xfe\xff\x00a\x00c\x00t", nil, "UTF-16 text"},
	} {
		file := textFile(t, "t.txt", c.text)
		if c.want != "" {
			refused(t, file, Options{}, c.want)
			continue
		}
		all, _, err := readAll(file, Options{})
		if err != nil || len(all) != len(c.rewards) {
			t.Errorf("%q: %d events, %v", c.text, len(all), err)
			continue
		}
		for i := range all {
			if all[i].Reward != c.rewards[i] || all[i].Chosen != i {
				t.Errorf("%q: row %d is %+v", c.text, i, all[i])
			}
		}
	}
}
