package logged

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRoundedLaws: a law whose sum is off by at most half a unit in the last digit of each number is scaled to 1, in every
// format, and is counted; beyond that it is refused with the option that takes it. The right numbers are v/Σv.
func TestRoundedLaws(t *testing.T) {
	repeat := func(x float64, n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = x
		}
		return out
	}
	for _, c := range []struct {
		law   []float64
		o     Options
		taken bool
		odd   bool
	}{
		{repeat(.333333, 3), Options{}, true, true},     // off 1e-6 ≤ 1.5e-6
		{repeat(.166667, 6), Options{}, true, true},     // off 2e-6 ≤ 3e-6
		{repeat(.33333, 3), Options{}, true, true},      // off 1e-5 ≤ 1.5e-5
		{repeat(.333, 3), Options{}, true, true},        // off .001 ≤ .0015
		{repeat(.3333333, 3), Options{}, true, false},   // within 1e-6: as it is
		{repeat(.0103093, 97), Options{}, true, true},   // six significant digits: off 2.1e-6 ≤ 97·½e-7 = 4.85e-6
		{[]float64{0, .999}, Options{}, true, true},     // off .001 ≤ 2·½·.001
		{[]float64{0, .998}, Options{}, false, false},   // off .002
		{repeat(.33, 3), Options{}, false, false},       // two digits are not enough
		{repeat(.332, 3), Options{}, false, false},      // off .004 > .0015
		{[]float64{.5, .4999}, Options{}, true, true},   // off 1e-4 ≤ 2·½·1e-4
		{[]float64{.5, .4998}, Options{}, false, false}, // off 2e-4
		{[]float64{.5, .49990001}, Options{}, false, false},
		{[]float64{.00123457, .998765}, Options{}, true, false}, // off 4.3e-7
		{[]float64{.5, .5002}, Options{}, false, false},
		{[]float64{.5, .4}, Options{LawTolerance: .1}, true, true},
		{[]float64{.5, .4}, Options{LawTolerance: .09}, false, false},
		{repeat(.001, 1020), Options{}, false, false}, // off .02: never more than .01
	} {
		sum := 0.0
		for _, v := range c.law {
			sum += v
		}
		k := len(c.law) - 1
		list := fmt.Sprint(c.law)
		list = strings.ReplaceAll(list, " ", ",")
		var columns, multi, ids, cells []string
		for i, v := range c.law {
			columns, multi, ids = append(columns, fmt.Sprintf("law_%d", i)), append(multi, `{"x":`+strconv.Itoa(i)+"}"), append(ids, strconv.Itoa((i+k)%(k+1)+1))
			cells = append(cells, number(v))
		}
		p := number(c.law[k])
		rotated := strings.ReplaceAll(fmt.Sprint(append([]float64{c.law[k]}, c.law[:k]...)), " ", ",")
		files := []string{
			textFile(t, "t.jsonl", fmt.Sprintf(`{"action":%d,"reward":1,"propensity":%s,"law":%s,"target":%s}`, k, p, list, list)),
			textFile(t, "t.dsjson", fmt.Sprintf(`{"_label_cost":-1,"_label_probability":%s,"_labelIndex":%d,"a":[%s],"p":%s,"c":{"_multi":[%s]}}`, p, k, strings.Join(ids, ","), rotated, strings.Join(multi, ","))),
			textFile(t, "t.csv", "action,reward,propensity,"+strings.Join(columns, ",")+"\n"+strconv.Itoa(k)+",1,"+p+","+strings.Join(cells, ",")+"\n"),
			textFile(t, "t.slots", fmt.Sprintf(`{"actions":[%s],"slots":[{"actions":[%s],"reward":1,"propensity":%s,"law":%s}]}`, strings.TrimSuffix(strings.Repeat("[1],", k+1), ","), slotList(k+1), number(c.law[0]), list)),
		}
		npz := filepath.Join(t.TempDir(), "t.npz")
		writeZip(t, npz, []member{array("action", "<i8", "1,", float64(k)), array("reward", "<f8", "1,", 1),
			array("pscore", "<f8", "1,", c.law[k]), array("pi_b", "<f8", fmt.Sprintf("1, %d, 1", k+1), c.law...)}...)
		for _, file := range append(files, npz) {
			if strings.HasSuffix(file, ".slots") && c.law[0] == 0 {
				continue
			}
			all, r, err := readAll(file, c.o)
			if !c.taken {
				if err == nil || !strings.Contains(err.Error(), "(--law-tolerance ") {
					t.Errorf("%s: %v is taken: %v", filepath.Base(file), c.law[max(0, k-3):], err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v: %v", filepath.Base(file), c.law[max(0, k-3):], err)
				continue
			}
			law, played := all[0].Law, all[0].Propensity
			if len(all[0].Slots) > 0 {
				law, played = all[0].Slots[0].Law, all[0].Slots[0].Propensity
			}
			at := k
			if len(all[0].Slots) > 0 {
				at = 0
			}
			for i, v := range c.law {
				want := v
				if c.odd {
					want = v / sum
				}
				if math.Abs(law[i]-want) > 1e-15 || i == at && math.Abs(played-want) > 1e-15 {
					t.Errorf("%s: %v: number %d is %v, propensity %v, want %v", filepath.Base(file), c.law[max(0, k-3):], i, law[i], played, want)
					break
				}
			}
			if all[0].Target != nil && math.Abs(all[0].Target[0]-law[0]) > 1e-15 {
				t.Errorf("%s: target %v, law %v", filepath.Base(file), all[0].Target, law)
			}
			if said := strings.Join(r.Warnings(), "; "); c.odd != strings.Contains(said, "rounded numbers does not sum to 1") {
				t.Errorf("%s: %v: said %q", filepath.Base(file), c.law[max(0, k-3):], said)
			}
		}
	}
	// A rounded propensity beside a law, or beside 1/K.
	for _, c := range []struct {
		text, want string
		o          Options
	}{
		{`{"action":0,"reward":1,"propensity":0.333,"law":[0.3333333333333333,0.3333333333333333,0.3333333333333333]}`, "", Options{}},
		{`{"action":0,"reward":1,"propensity":0.3333,"law":[0.333,0.333,0.333]}`, "", Options{}},
		{`{"action":0,"reward":1,"propensity":0.333}`, "", Options{Logger: even{}, Actions: 3}},
		{`{"action":0,"reward":1,"propensity":0.33,"law":[0.3333333333333333,0.3333333333333333,0.3333333333333333]}`, "law[0]: 0.3333333333333333, expected the propensity 0.33", Options{}},
		{`{"action":0,"reward":1,"propensity":0.334,"law":[0.3333333333333333,0.3333333333333333,0.3333333333333333]}`, "expected the propensity 0.334", Options{}},
		{`{"action":0,"reward":1,"propensity":0.33}`, "expected 1/3, as --logger uniform says", Options{Logger: even{}, Actions: 3}},
		{`{"action":0,"reward":1,"propensity":0.5}`, "expected 1/3, as --logger uniform says", Options{Logger: even{}, Actions: 3, LawTolerance: .5}},
		{`{"action":0,"reward":1,"propensity":0.5,"law":[0.5,0.4]}`, "law: sums to 0.9, expected 1, up to the rounding of its numbers (--law-tolerance 0.1 scales it to 1)", Options{}},
		{`{"action":0,"reward":1,"propensity":0.5,"law":[0.5,0.4]}`, "--law-tolerance: 0.6, expected a number from 0 to 0.5", Options{LawTolerance: .6}},
	} {
		file := textFile(t, "t.jsonl", c.text)
		if c.want != "" {
			refused(t, file, c.o, c.want)
			continue
		}
		all, r, err := readAll(file, c.o)
		if err != nil || math.Abs(all[0].Propensity-1/3.0) > 1e-15 || !strings.Contains(strings.Join(r.Warnings(), "; "), "propensity is rounded") {
			t.Errorf("%s: %+v, %v", c.text, all, err)
		}
	}
	// Null: laws of K numbers that were rounded to d decimals or digits, d from 3 to 6, are all taken, n = 4,000, seed 5.
	// Fault: a bound of half of it refuses some.
	r := rand.New(rand.NewPCG(5, 5))
	most := 0.0
	for range 4000 {
		k, d := 2+r.IntN(9), 3+r.IntN(4)
		p, sum := make([]float64, k), 0.0
		for i := range p {
			p[i] = r.ExpFloat64()
			sum += p[i]
		}
		form := byte('f')
		if r.IntN(2) == 0 {
			form = 'g'
		}
		rounded, total := make([]float64, k), 0.0
		for i := range p {
			rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(p[i]/sum, form, d, 64), 64)
			total += rounded[i]
		}
		off, bound := math.Abs(total-1), roundingOf(rounded)
		if off > Tolerance && off > bound+slack {
			t.Fatalf("%v: off %v, bound %v", rounded, off, bound)
		}
		if off > Tolerance {
			most = max(most, off/bound)
		}
	}
	if most < 0.7 {
		t.Errorf("the largest sum is %.2f of the bound away: the bound is not tried", most)
	}
}

func slotList(n int) string {
	var ids []string
	for i := range n {
		ids = append(ids, strconv.Itoa(i))
	}
	return strings.Join(ids, ",")
}

// TestSameActionTwice: one id for two actions of a list is refused with its line, as the server does.
func TestSameActionTwice(t *testing.T) {
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("%q", "a"+strconv.Itoa(i))
	}
	many[29] = `"a3"`
	for _, c := range []struct{ name, text, want string }{
		{"a.jsonl", `{"actions":["a","b"],"action":0,"reward":0,"propensity":0.5}` + "\n" + `{"actions":["news","news"],"action":0,"reward":0,"propensity":0.5}`,
			":2:12: actions[1].id: news, expected an id that no other action has, but actions[0] has it"},
		{"b.jsonl", `{"actions":[{"id":"x"},{"features":[1]},{"id":"x"}],"action":0,"reward":0,"propensity":0.5}`, ":1:12: actions[2].id: x"},
		{"c.jsonl", `{"actions":[` + strings.Join(many, ",") + `],"action":0,"reward":0,"propensity":0.5}`, "actions[29].id: a3, expected an id that no other action has, but actions[3]"},
		{"d.dsjson", strings.ReplaceAll(dsHead, `{"a":1},{"b":1}`, `{"_tag":"t"},{"_tag":"t"}`) + "}", ":1: actions[1].id: t"},
		{"e.vw", "'t|x b\n0:-1:0.5 't|x c\n\n", ":1: actions[1].id: t"},
		{"f.jsonl", `{"actions":["a","a"],"slots":[{"actions":[0,1],"reward":1,"propensity":0.5}]}`, "actions[1].id: a"},
	} {
		refused(t, textFile(t, c.name, c.text), Options{}, c.want)
	}
	for _, text := range []string{
		`{"actions":[{"features":[1]},{"features":[1]}],"action":0,"reward":0,"propensity":0.5}`, // no ids
		`{"actions":["a","a"],"slots":[{"actions":[0],"reward":1,"propensity":1},{"actions":[1],"reward":1,"propensity":1}]}`,
		`{"actions":["a","b"],"action":0,"reward":0,"propensity":0.5}` + "\n" + `{"actions":["b","a"],"action":0,"reward":0,"propensity":0.5}`,
	} {
		mustRead(t, textFile(t, "t.jsonl", text), Options{})
	}
	w, err := Create(filepath.Join(t.TempDir(), "t.jsonl"), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Write(&Event{K: 2, Actions: []Action{{ID: "a"}, {ID: "a"}}, Propensity: 0.5}); err == nil {
		t.Error("a file was written that no reader takes")
	}
}
