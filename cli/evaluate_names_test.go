package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/ope"
)

// answer runs troupe evaluate --json.
func answer(t *testing.T, args ...string) *ope.Result {
	t.Helper()
	var out, errs bytes.Buffer
	if code := command(context.Background(), append([]string{"evaluate", "--json"}, args...), &out, &errs); code != 0 {
		t.Fatalf("%q: exit %d: %s", args, code, &errs)
	}
	var r ope.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// valueOf is an estimate of the first target.
func valueOf(t *testing.T, r *ope.Result, estimator string) float64 {
	t.Helper()
	for _, x := range r.Targets[0].Estimates {
		if x.Estimator == estimator && x.Value != nil {
			return *x.Value
		}
	}
	t.Fatalf("no %s in %+v", estimator, r.Targets[0].Estimates)
	return 0
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEvaluateColumnsAsText: twelve actions, 11·12 uniform decisions, action 10 pays 1 and the others 0; the target is
// always 10. Σ 12·r·[a = 10]/n = 12·11/132 = 1, in whatever order the columns are. By their places it would be 0.
func TestEvaluateColumnsAsText(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9}, {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}} {
		var b strings.Builder
		b.WriteString("action,reward,propensity")
		for _, k := range order {
			fmt.Fprintf(&b, ",target_%d", k)
		}
		b.WriteString("\n")
		for i := range 132 {
			fmt.Fprintf(&b, "%d,%d,%v", i%12, max(0, 1-(i%12-10)*(i%12-10)), 1/12.0)
			for _, k := range order {
				fmt.Fprintf(&b, ",%d", max(0, 1-(k-10)*(k-10)))
			}
			b.WriteString("\n")
		}
		r := answer(t, write(t, "t.csv", b.String()), "--target", "column")
		if v := valueOf(t, r, "ips"); math.Abs(v-1) > 1e-12 {
			t.Errorf("order %v: ips %v, want 1", order, v)
		}
	}
}

// TestEvaluateArms: 200 uniform decisions between two arms, 75 of 100 of arm 1 pay and 25 of 100 of arm 0. "Always 1" earns
// Σ 2r over the rows of arm 1 / 200 = 150/200 = .75, logged is .5; the first row is of arm 1. By first sight it was .25 and
// "sure: worse".
func TestEvaluateArms(t *testing.T) {
	table := func(one, zero string) string {
		var b strings.Builder
		b.WriteString("action,reward,propensity\n")
		for i := range 100 {
			first, second := 0, 0
			if i%4 != 3 {
				first = 1
			}
			if i%4 == 3 {
				second = 1
			}
			fmt.Fprintf(&b, "%s,%d,0.5\n%s,%d,0.5\n", one, first, zero, second)
		}
		return b.String()
	}
	always := write(t, "second.toml", "kind = \"fixed\"\np = [0, 1]\n")
	for _, c := range []struct{ one, zero, target string }{
		{"1", "0", always}, {"1.0", "0.0", always}, {"01", "00", always}, {"sport", "news", always},
		{"sport", "news", write(t, "sport.toml", "kind = \"fixed\"\naction = \"sport\"\n")},
		{"news", "sport", write(t, "news.toml", "kind = \"fixed\"\np = { news = 1, sport = 0 }\n")},
		{"1.0", "0.0", write(t, "number.toml", "kind = \"fixed\"\naction = 1\n")},
	} {
		r := answer(t, write(t, "t.csv", table(c.one, c.zero)), "--actions", "2", "--target", c.target)
		if v := valueOf(t, r, "ips"); math.Abs(v-0.75) > 1e-12 {
			t.Errorf("%+v: ips %v, want .75", c, v)
		}
		if want := c.one == "sport" || c.one == "news"; want != (r.Log.Names != nil) {
			t.Errorf("%+v: names %q", c, r.Log.Names)
		}
	}
	named := write(t, "named.csv", table("sport", "news"))
	var out, errs bytes.Buffer
	code := command(context.Background(), []string{"evaluate", named, "--actions", "2", "--target", always, "--out", t.TempDir()}, &out, &errs)
	if code != 0 || !strings.Contains(out.String(), "\nactions   0 news, 1 sport\n") {
		t.Errorf("exit %d: the answer does not say which action is which:\n%s%s", code, &out, &errs)
	}
	out.Reset()
	if code := command(context.Background(), []string{"lint", named}, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "\n  action      0 news\n  action      1 sport\n") {
		t.Errorf("exit %d: lint does not say which action is which:\n%s", code, &out)
	}
	for _, c := range []struct{ file, target, want string }{
		{named, "kind = \"fixed\"\naction = \"sprot\"\n", `no action "sprot", expected one of news, sport`},
		{write(t, "numbers.csv", table("1", "0")), "kind = \"fixed\"\naction = \"sport\"\n", "the actions of the log are numbers, expected the ids"},
		{named, "kind = \"fixed\"\naction = 2\n", "2 actions, expected more than 2"},
		{named, "kind = \"fixed\"\naction = -1\n", "t.toml:2:1: action is -1, expected the id of an action or its number from 0"},
		{named, "kind = \"fixed\"\np = { news = 0.5 }\n", "t.toml:2:1: p sums to 0.5, expected 1"},
		{named, "kind = \"fixed\"\naction = \"news\"\np = [1, 0]\n", "unknown key"},
	} {
		errs.Reset()
		code := command(context.Background(), []string{"evaluate", c.file, "--actions", "2", "--target", write(t, "t.toml", c.target)}, &out, &errs)
		if code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit %d: %s\nwant 2 and %s", c.target, code, &errs, c.want)
		}
	}
}

// call runs a command.
func call(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = command(context.Background(), args, &o, &e)
	return o.String(), e.String(), code
}

// TestEvaluateLogger: --logger FILE gives a table the law of its logger: dr has an interval that holds then, and lint says so; a
// law that contradicts a propensity, a file that is none, and the log of a server are refused with exit code 2.
func TestEvaluateLogger(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	table := "action,reward,propensity\n"
	for i := range 600 {
		a := []int{0, 0, 1, 2}[i%4]
		table += fmt.Sprintf("%d,%d,%g\n", a, i/3%2, []float64{.5, .25, .25}[a])
	}
	log := write("log.csv", table)
	law := write("law.toml", "kind = \"fixed\"\np = [0.5, 0.25, 0.25]\n")
	out, errs, code := call(t, "evaluate", log, "--actions", "3", "--target", "uniform", "--logger", law, "--json")
	if code != 0 || !strings.Contains(out, `"law": true`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	out, errs, code = call(t, "lint", log, "--actions", "3", "--logger", law)
	if code != 0 || !strings.Contains(out, "the logger's whole law") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, x := range []struct{ logger, source, want string }{
		{write("other.toml", "kind = \"fixed\"\np = [0.5, 0.3, 0.2]\n"), log, "(300 of 600 propensities contradict it"},
		{write("learns.toml", "kind = \"linucb\"\n"), log, "a policy without start has learned nothing"},
		{filepath.Join(dir, "none.toml"), log, "expected uniform, or a file"},
		{law, dir, "--logger is for files"},
	} {
		if out, errs, code := call(t, "evaluate", x.source, "--actions", "3", "--target", "uniform", "--logger", x.logger, "--json"); code != 2 || out != "" || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit %d\n%s%s", x.want, code, out, errs)
		}
	}
}

// TestEvaluateAtEnd: the terminal shows both intervals, and the verdict says which one it is from; the page has it, too.
func TestEvaluateAtEnd(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("action,reward,propensity\n")
	for i := range 900 {
		reward := 0
		if i%3 == 1 && i%9 < 6 || i%27 == 0 {
			reward = 1
		}
		fmt.Fprintf(&b, "%d,%d,0.3333333333\n", i%3, reward)
	}
	log, law := filepath.Join(dir, "log.csv"), filepath.Join(dir, "second.toml")
	for name, text := range map[string]string{log: b.String(), law: "kind = \"fixed\"\naction = 1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"evaluate", log, "--actions", "3", "--logger", "uniform", "--target", law, "--at-end", "--out", filepath.Join(dir, "page")}
	out, errs, code := call(t, args...)
	for _, want := range []string{"95% for this n", "95% at every look", "verdict   sure for this n: better", "if 900 decisions were fixed"} {
		if code != 0 || !strings.Contains(strings.ReplaceAll(out, "\n          ", " "), want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "page", "evaluate.html"))
	if err != nil || !strings.Contains(string(page), "difference, for this n") {
		t.Error("the page does not have it", err)
	}
	for _, line := range strings.Split(out, "\n") {
		if n := len([]rune(line)); n > 80 && !strings.Contains(line, dir) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestEvaluateUnit: --unit names the column of persons, errors count them and the interval that holds takes the first decision of
// each; with --split those of persons of the first part are left out of it. A column that is not there is refused with the nearest one.
func TestEvaluateUnit(t *testing.T) {
	var b strings.Builder
	b.WriteString("action,reward,propensity,person,law_0,law_1\n")
	for i := range 1200 {
		person := i % 300
		fmt.Fprintf(&b, "%d,%d,0.5,p%d,0.5,0.5\n", person/2%2, (i*7+person)%3/2, person)
	}
	log := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(log, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	law := filepath.Join(filepath.Dir(log), "second.toml")
	if err := os.WriteFile(law, []byte("kind = \"fixed\"\naction = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := answer(t, log, "--target", law, "--unit", "person")
	u := r.Targets[0].Uplift
	if r.Log.Units != 300 || u.Sequence == nil || !strings.Contains(*u.Why, "first decisions of 300 units") {
		t.Errorf("%d units, %+v", r.Log.Units, u)
	}
	alone := answer(t, log, "--target", law)
	if *u.SE < 1.2**alone.Targets[0].Uplift.SE {
		t.Errorf("errors %v with persons, %v without", *u.SE, *alone.Targets[0].Uplift.SE)
	}
	half := answer(t, log, "--target", law, "--unit", "person", "--split", "0.2") // 240 of 300 persons are in the first part
	if s := half.Targets[0].Uplift; !strings.Contains(*s.Why, "first decisions of 60 units") {
		t.Errorf("%s", *s.Why)
	}
	if _, errs, code := call(t, "evaluate", log, "--target", law, "--unit", "persons", "--json"); code != 2 || !strings.Contains(errs, "--unit persons") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestEvaluateEstimate: without propensities a log is refused, with the way; with --propensities estimate the answer has the model of the
// logger, no interval that holds, and a verdict that says what it rests on; a log that has propensities is refused then.
func TestEvaluateEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	var b, with strings.Builder
	b.WriteString("action,reward,context_0\n")
	with.WriteString("action,reward,context_0,propensity\n")
	for range 1500 {
		x := r.NormFloat64()
		p := 1 / (1 + math.Exp(-x))
		action, reward := 0, 0
		if r.Float64() < p {
			action = 1
		}
		if r.Float64() < .3+.3*float64(action) {
			reward = 1
		}
		fmt.Fprintf(&b, "%d,%d,%g\n", action, reward, x)
		fmt.Fprintf(&with, "%d,%d,%g,0.5\n", action, reward, x)
	}
	dir := t.TempDir()
	log, both, law := filepath.Join(dir, "log.csv"), filepath.Join(dir, "both.csv"), filepath.Join(dir, "second.toml")
	for name, text := range map[string]string{log: b.String(), both: with.String(), law: "kind = \"fixed\"\naction = 1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"evaluate", log, "--actions", "2", "--target", law, "--out", filepath.Join(dir, "page")}
	if _, errs, code := call(t, args...); code != 2 || !strings.Contains(errs, "evaluate --propensities estimate where it was not recorded") {
		t.Errorf("exit %d: %s", code, errs)
	}
	out, errs, code := call(t, append(args, "--propensities", "estimate")...)
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"verdict looks better, by", "if the logger chose by what is in the log; hidden confounding of Γ =", "logger estimated: a multinomial logit", "estimated from to mean played z"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "page", "evaluate.html"))
	if err != nil {
		t.Fatal(err)
	}
	got := answer(t, log, "--actions", "2", "--target", law, "--propensities", "estimate")
	for _, d := range got.Propensities.Deciles { // the page has the ten rows of the terminal
		if row := fmt.Sprintf("<td>%.3f</td><td>%.3f</td>", d.Mean, d.Played); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks %s", row)
		}
	}
	if !strings.Contains(string(page), "Do the estimated propensities fit?") || !strings.Contains(string(page), "changes the odds of an action by Γ = ") {
		t.Error("the page does not say how far the estimated propensities can be trusted")
	}
	if got.Propensities == nil || got.Propensities.Rows != 1500 || got.Targets[0].Uplift.Sequence != nil || got.Targets[0].Sensitivity.Gamma == nil {
		t.Errorf("%+v", got.Targets[0])
	}
	args[1] = both
	if _, errs, code := call(t, append(args, "--propensities", "estimate")...); code != 2 || !strings.Contains(errs, "propensity: 0.5, expected none, with --propensities estimate") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestEvaluateOutcomes: several rewards of one table, Parquet file or JSON lines have the intervals that each has alone at the shared level,
// and guards that hold, that do not and that are open are said so. One level for all (the planted fault) would be another interval. Without
// --outcome such a log is refused with the names, and convert does not lose the other rewards without a word.
func TestEvaluateOutcomes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	var table, lines strings.Builder
	table.WriteString("action,propensity,reward.click,reward.latency,law_0,law_1\n")
	for i := range 4000 {
		a := i % 2
		click, latency := 0, .4+.1*r.Float64()+.1*float64(a)
		if r.Float64() < .2+.15*float64(a) {
			click = 1
		}
		fmt.Fprintf(&table, "%d,.5,%d,%.6f,.5,.5\n", a, click, latency)
		fmt.Fprintf(&lines, `{"action":%d,"propensity":0.5,"law":[0.5,0.5],"reward":{"latency":%.6f,"click":%d}}`+"\n", a, latency, click)
	}
	dir := t.TempDir()
	csv, jsonl, law := filepath.Join(dir, "log.csv"), filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "second.toml")
	for name, text := range map[string]string{csv: table.String(), jsonl: lines.String(), law: "kind = \"fixed\"\naction = 1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, log := range []string{csv, jsonl} {
		out, errs, code := call(t, "evaluate", log, "--target", law, "--outcome", "click", "--outcome", "latency", "--guard", "latency=+20%", "--guard", "latency=+0.001",
			"--guard", "latency=+10%", "--json")
		var got struct {
			Each     float64
			Outcomes []struct {
				Name   string
				Result ope.Result
			}
			Targets []struct {
				Verdict string
				Guards  []struct{ Holds *bool }
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Each != .975 {
			t.Fatalf("exit %d, %v: %s", code, err, errs)
		}
		for i, name := range []string{"click", "latency"} {
			one := answer(t, log, "--target", law, "--outcome", name, "--level", "0.975")
			if a, b := *got.Outcomes[i].Result.Targets[0].Uplift.Sequence, *one.Targets[0].Uplift.Sequence; a != b || got.Outcomes[i].Name != name {
				t.Errorf("%s: %v, alone %v", name, a, b)
			}
			if wrong := answer(t, log, "--target", law, "--outcome", name); *wrong.Targets[0].Uplift.Sequence == *one.Targets[0].Uplift.Sequence {
				t.Error("the level changes nothing")
			}
		}
		x := got.Targets[0]
		if g := x.Guards; len(g) != 3 || g[0].Holds == nil || !*g[0].Holds || g[1].Holds == nil || *g[1].Holds || g[2].Holds != nil {
			t.Errorf("guards %+v", g)
		}
		if !strings.HasPrefix(x.Verdict, "more click; latency has not risen by more than 20%; latency HAS risen by more than 0.001; cannot say yet whether latency has risen by more than 10%") {
			t.Error(x.Verdict)
		}
	}
	if out, errs, code := call(t, "evaluate", csv, "--target", law, "--outcome", "click", "--outcome", "latency", "--out", filepath.Join(dir, "page")); code != 0 || !strings.Contains(out, "verdict   more click") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, x := range []struct {
		want string
		args []string
	}{
		{"several: click, latency, expected --outcome NAME", []string{"evaluate", csv, "--target", law}},
		{"several: latency, click, expected --outcome NAME", []string{"evaluate", jsonl, "--target", law}},
		{"did you mean \"click\"?", []string{"evaluate", csv, "--target", law, "--outcome", "clicks"}},
		{"no --outcome speed", []string{"evaluate", csv, "--target", law, "--outcome", "click", "--outcome", "latency", "--guard", "speed=+1%"}},
		{"expected a number with its sign", []string{"evaluate", csv, "--target", law, "--outcome", "click", "--outcome", "latency", "--guard", "latency=5%"}},
		{"expected NAME=MIN:MAX with MIN below MAX", []string{"evaluate", csv, "--target", law, "--outcome", "click=1:0"}},
		{"the other rewards", []string{"convert", csv, filepath.Join(dir, "out.jsonl"), "--outcome", "click"}},
	} {
		if _, errs, code := call(t, x.args...); code != 2 || !strings.Contains(errs, x.want) {
			t.Errorf("%q: exit %d: %s", x.args, code, errs)
		}
	}
	if _, errs, code := call(t, "convert", csv, filepath.Join(dir, "out.parquet"), "--outcome", "click", "--lossy"); code != 0 || !strings.Contains(errs, "the other rewards") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
