package logged

import (
	"strings"
	"testing"
)

// TestRecognised: the format of JSON is decided by the keys of the first line, each at its place. Names in a context, in an
// action or in a text decide nothing, nor do lines that are cut.
func TestRecognised(t *testing.T) {
	for line, want := range map[string]string{
		`{"action":0,"reward":1,"propensity":0.5}`:                                                                       "jsonl",
		`{"context":{"_label":"x","_multi":1,"EventId":2,"c":3,"a":4},"action":0,"reward":1,"propensity":1}`:             "jsonl",
		`{"context":{"text":"\"_label_cost\": 1, \"_multi\": []"},"action":0,"reward":1,"propensity":1}`:                 "jsonl",
		`{"id":"_multi","action":"_label_cost","actions":["_label_cost","c"],"reward":1,"propensity":1}`:                 "jsonl",
		`{"_label_cost":0,"_label_probability":1,"_label_Action":1,"_labelIndex":0,"a":[1],"c":{"_multi":[{}]},"p":[1]}`: "dsjson",
		`{"_label_Cost":0,"_label_Probability":1,"_label_Action":1,"_multi":[{}]}`:                                       "vw-json",
		`{"_LABEL_COST":0,"u":{"x":1}}`:                             "vw-json",
		`{"EventId":"e","c":{"_multi":[{}],"_slots":[{}]}}`:         "dsjson", // nothing was decided yet
		`{"EventId":"e","c":[{"_multi":[{}]}]}`:                     "dsjson",
		`{"c":{"u":1,"_multi":[{"_slot_id":0}],"_slots":[{}]}}`:     "dsjson",
		`{"_multi":[{}],"c":{"x":1},"a":{"y":2},"p":{"z":3}}`:       "vw-json", // namespaces c, a and p
		`{"_multi":[{}],"_label":"1:0:1"}`:                          "vw-json",
		`{"EventId":"e","RewardValue":1}`:                           "dsjson",
		`{"EventId":"e","ActionTaken":true}`:                        "dsjson",
		`{"_outcomes":[],"c":{"_slots":[]}}`:                        "dsjson",
		`{"seq":1,"kind":"rewarded","event":"e"}`:                   "records",
		`{"_label_ca":{"action":1.5,"cost":0,"pdf_value":1},"a":1}`: continuous,
		`{"x":"` + "\\":    "jsonl",
		`{"_multi":[{"a`:   "vw-json",
		`{]]]}}}"_multi":`: "jsonl",
	} {
		if got := recognise([]byte(line)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestMistaken: files that are of no format are refused with the command that mends them.
func TestMistaken(t *testing.T) {
	table := "action,reward,propensity\n0,1,0.5\n"
	wide := func(low bool, mark string) string {
		out := []byte(mark)
		for _, c := range []byte(table) {
			if low {
				out = append(out, c, 0)
			} else {
				out = append(out, 0, c)
			}
		}
		return string(out)
	}
	for name, c := range map[string][2]string{
		"mark-le.csv":  {wide(true, "\xff\xfe"), "UTF-16 text, expected UTF-8 (iconv -f UTF-16 -t UTF-8 "},
		"mark-be.csv":  {wide(false, "\xfe\xff"), "UTF-16 text, expected UTF-8 (iconv -f UTF-16 -t UTF-8 "},
		"plain-le.csv": {wide(true, ""), "(iconv -f UTF-16LE -t UTF-8 "},
		"plain-be.csv": {wide(false, ""), "(iconv -f UTF-16BE -t UTF-8 "},
		"array.json":   {"[\n {\"action\": 0}]", "one JSON array, expected one object a line (jq -c '.[]' "},
		"array2.json":  {"\xef\xbb\xbf[{\"action\": 0}]", "one JSON array, expected one object a line (jq -c '.[]' "},
		"remark.csv":   {"# made by hand\n" + table, "a first line that begins with #, expected a header or an event (grep -v '^#' "},
		"remark2.csv":  {"# made, by hand\n" + table, "(grep -v '^#' "},
		"remark3.csv":  {"#made\n" + table, "(grep -v '^#' "},
		"remark.jsonl": {"# x\n{\"action\":0,\"reward\":1,\"propensity\":1}\n", "(grep -v '^#' "},
	} {
		refused(t, textFile(t, name, c[0]), Options{Actions: 2}, c[1])
	}
	o := Options{Actions: 2, Columns: map[string][]string{"action": {"#action"}}}
	if all, _, err := readAll(textFile(t, "header.csv", "#"+table), o); err != nil || len(all) != 1 {
		t.Errorf("a header that begins with #: %v", err)
	}
}

// TestWithoutLabels: a slate without labels is dsjson, and its lines are skipped for what they lack; labels of continuous
// actions are refused with the command that reads such logs.
func TestWithoutLabels(t *testing.T) {
	slate := `{"EventId":"e%","c":{"u":1,"_multi":[{"_slot_id":0},{"_slot_id":1}],"_slots":[{},{}]}}` + "\n"
	labelled := `{"EventId":"l","c":{"_multi":[{},{}],"_slots":[{}]},"_outcomes":[{"_label_cost":-1,"_a":[0,1],"_p":[0.5,0.5]}]}` + "\n"
	all, r, err := readAll(textFile(t, "slates.dsjson", strings.ReplaceAll(slate, "%", "1")+strings.ReplaceAll(slate, "%", "2")+labelled), Options{})
	if err != nil || len(all) != 1 || r.Skipped()["without a label"] != 2 || r.Format() != "dsjson" {
		t.Errorf("%d events, %v, %v", len(all), r.Skipped(), err)
	}
	refused(t, textFile(t, "slates.dsjson", slate), Options{}, "1 skipped: without a label")
	alone := `{"EventId":"e1","_label_cost":-1,"_label_probability":0.5,"_label_Action":2,"c":{"_multi":[{},{}]}}` + "\n"
	all, _, err = readAll(textFile(t, "alone.dsjson", alone), Options{}) // a label without a and p
	if err != nil || len(all) != 1 || all[0].Chosen != 1 || all[0].Reward != 1 || all[0].Law != nil {
		t.Errorf("%+v, %v", all, err)
	}
	for name, text := range map[string]string{
		"ca.txt":    "ca 185.121:0.657567:6.2e-05 | a b\nca 772.592:0.458316:6.2e-05 | b\n",
		"later.txt": "| a b\nca 772.592:0.458316:6.2e-05 | b\n",
		"ca.json":   `{"_label_ca":{"action":185.1,"cost":0.6,"pdf_value":6e-05},"a":1}` + "\n",
	} {
		for _, o := range []Options{{}, {Actions: 4}} {
			refused(t, textFile(t, name, text), o, "labels of continuous actions (ca), expected labels of one of K actions; troupe evaluate --knob")
		}
	}
}
