package cli

import (
	"bytes"
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

// TestEvaluateKnob: numbers as actions with segments, in words, in JSON and on the page; what does not go together or is not in the
// table is refused and named, and no page is left.
func TestEvaluateKnob(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "prices.csv"), filepath.Join(dir, "out")
	draw := rand.New(rand.NewPCG(7, 7))
	var table bytes.Buffer
	fmt.Fprintln(&table, "city,size,price,f,profit,new")
	for i := range 3000 {
		city := []string{"Oslo", "Bergen<b>", "Oslo"}[i%3]
		e := draw.Float64() - draw.Float64()
		price := 5 + 2*e
		profit := max(0, 1-math.Abs(price-map[string]float64{"Oslo": 6, "Bergen<b>": 4}[city])/2)
		fmt.Fprintf(&table, "%s,%d,%v,%v,%v,6\n", city, 1+i%90, price, (1-math.Abs(e))/2, profit)
	}
	if err := os.WriteFile(file, table.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(code int, args ...string) (string, string) {
		t.Helper()
		var text, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate", file, "--knob", "price,density=f,reward=profit", "--out", out}, args...), &text, &errs); got != code {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, code, &text, &errs)
		}
		return text.String(), errs.String()
	}
	for _, x := range []struct{ by, word string }{
		{"cty", `--by: the table has no column cty; did you mean "city"?`}, {"city=Oslo|Rome", `no event is in the segment "Rome"`},
		{"city=0:1", `prices.csv:2: city is "Oslo", expected a number`}, {"size=200:300:", "no event has a size between the edges"}, {"=", "expected a value of the context"},
	} {
		if _, errs := run(2, "--target", "new", "--bandwidth", "1", "--by", x.by); !strings.Contains(errs, x.word) {
			t.Errorf("--by %s: %s, want %q", x.by, errs, x.word)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a page was written")
	}
	text, _ := run(0, "--target", "new", "--target", "4.5", "--by", "context.city")
	for _, word := range []string{"by city   ", "segments  in Oslo better by ", ", in Bergen<b> worse by ", "if --by was fixed without looking", "report    "} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.HasPrefix(line, "report") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "evaluate.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"2 targets against what ran", "For whom: in Oslo better by ", "Bergen&lt;b&gt; worse by", "The difference by bandwidth", "The value by bandwidth",
		"of the smoothed target", "4.5, smoothed by ", "if the segments were chosen before looking"} {
		if !strings.Contains(string(page), word) {
			t.Errorf("no %q on the page", word)
		}
	}
	for _, bad := range []string{"Bergen<b>", "NaN", "http://", "https://"} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, name := range []string{"segments.svg", "difference.csv", "2-values.png"} {
		if _, err := os.Stat(filepath.Join(out, "figures", name)); err != nil {
			t.Error(err)
		}
	}
	text, _ = run(0, "--target", "new", "--by", "size=0:30:60:", "--json")
	var r ope.KnobResult
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Targets[0].Segments.Rows) != 4 || r.Targets[0].Segments.Rows[1].Name != "size from 60" {
		t.Errorf("%v, %s", err, text)
	}
}

// TestEvaluateCells: JSON lines and Vowpal Wabbit's ca lines are read without columns; a row in the wrong form is refused with its line.
func TestEvaluateCells(t *testing.T) {
	dir := t.TempDir()
	run := func(code int, name, text string, args ...string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate", file, "--json"}, args...), &out, &errs); got != code {
			t.Fatalf("%s: exit code %d, want %d\n%s%s", name, got, code, &out, &errs)
		}
		return out.String() + errs.String()
	}
	var steps, cells, ca strings.Builder
	draw := rand.New(rand.NewPCG(3, 3))
	for range 400 {
		price, reward := 1+draw.IntN(4), 0
		if draw.IntN(5) >= price {
			reward = 1
		}
		fmt.Fprintf(&steps, `{"numbers":{"price":%d},"propensity":0.25,"reward":%d,"new":2}`+"\n", price, reward)
		fmt.Fprintf(&cells, `{"numbers":{"price":%v},"density":0.25,"cell":{"price":[%d,%d]},"reward":%d,"new":2.7}`+"\n", float64(price)+draw.Float64(), price, price+1, reward)
		fmt.Fprintf(&ca, "ca %v:%d:0.25 | a b\n", float64(price)+draw.Float64(), -reward)
	}
	value := func(text string) (v float64) {
		var r struct {
			Targets []struct{ Bandwidths []struct{ Value float64 } }
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return r.Targets[0].Bandwidths[0].Value
	}
	a, b := value(run(0, "steps.jsonl", steps.String(), "--knob", "price", "--target", "new")), value(run(0, "cells.jsonl", cells.String(), "--knob", "price", "--target", "new"))
	if a != b || math.Abs(a-.6) > .15 {
		t.Errorf("%v and %v, want both about .6", a, b)
	}
	if v := value(run(0, "ca.vw", ca.String(), "--knob", "a", "--target", "2.5", "--bandwidth", "0.5")); math.Abs(v-.6) > .2 {
		t.Errorf("ca: %v", v)
	}
	const open = `{"numbers":{"price":3},"propensity":0.25,"reward":null,"new":2}` + "\n"
	late := run(0, "open.jsonl", open+steps.String()+open, "--knob", "price", "--target", "new")
	if v := value(late); v != a || !strings.Contains(late, `"pending": 2`) {
		t.Errorf("with two decisions that wait for their reward %v, want %v\n%s", v, a, late)
	}
	for text, want := range map[string]string{
		open: "1 decision, and none has a reward yet",
		`{"numbers":{"price":null},"propensity":0.25,"reward":1,"new":2}`:                 "numbers.price is null, expected a number",
		`{"numbers":{"price":2},"propensity":0.25,"new":2}`:                               ":1: reward is missing",
		`{"numbers":{"price":2},"propensity":0,"reward":1,"new":2}`:                       ":1: propensity is 0",
		`{"numbers":{"price":2,"bid":1},"propensity":0.5,"reward":1,"new":2}`:             "a decision of one number",
		`{"numbers":{"price":2},"density":0.5,"cell":{"price":[3,2]},"reward":1,"new":2}`: "the smaller one first",
		`{"numbers":{"price":5},"density":0.5,"cell":{"price":[2,3]},"reward":1,"new":2}`: "expected a number in its cell",
		"ca 1:2 | a": "label", "ca 1:0:0.5 2:0:0.5 | a": "one action:cost:density",
	} {
		args := []string{"--knob", "price", "--target", "2"}
		if got := run(2, "bad", text+"\n", args...); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}

// TestBenchmarkLists: evaluate --benchmark lists has a row for each estimator in each of four worlds.
func TestBenchmarkLists(t *testing.T) {
	for _, args := range [][]string{{"--benchmark", "lists"}, {"--benchmark=lists"}} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), append([]string{"evaluate", "--json"}, args...), &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, &errs)
		}
		var r struct{ Errors []ope.ListErrors }
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Errors) != 4*7 {
			t.Errorf("%v: %d rows, %v", args, len(r.Errors), err)
		}
	}
}
