package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/cli/evaluate"
	"troupe/ope"
)

// TestEvaluateSets: several targets, segments and plans from the command line: the words, the JSON, the page, what is refused, and no line of more
// than 80 columns.
func TestEvaluateSets(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(7, 7))
	var log, bare bytes.Buffer
	for i := range 1500 {
		city, a, y := []string{"Oslo", "Rome"}[i%2], r.IntN(2), 0
		if r.Float64() < 0.5+0.35*float64(1-2*(i%2))*(float64(a)-0.5) {
			y = 1
		}
		head := fmt.Sprintf(`{"time":"2026-05-04T10:%02d:%02dZ","context":{"city":%q,"price":%d},"actions":[{"id":"a"},{"id":"b"}],"action":%d,"propensity":0.5,"law":[0.5,0.5]`, i/60%60, i%60, city, i%90, a)
		fmt.Fprintf(&log, "%s,\"reward\":%d}\n", head, y)
		fmt.Fprintf(&bare, "%s}\n", head)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	events, without := file("log.jsonl", log.String()), file("bare.jsonl", bare.String())
	var targets []string
	for i := range 7 {
		targets = append(targets, "--target", file(fmt.Sprintf("t%d.toml", i), fmt.Sprintf("kind = \"fixed\"\nname = \"t%d\"\np = [%g, %g]\n", i, 1-float64(i)/6, float64(i)/6)))
	}
	run := func(code int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate"}, args...), &out, &errs); got != code {
			t.Fatalf("%v: exit code %d, want %d:\n%s%s", args, got, code, &out, &errs)
		}
		if code == 2 && out.Len() > 0 {
			t.Errorf("%v: stdout has %q", args, &out)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if utf8.RuneCountInString(line) > 80 && !strings.Contains(line, filepath.Dir(dir)) && !slices.Contains(args, "--json") {
				t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
		return out.String() + errs.String()
	}
	contains := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
	page := t.TempDir()
	contains(run(0, append([]string{events, "--by", "context.city", "--out", page}, targets...)...), "above what ran, each for itself", "may be best (", "t6, by city: in Oslo better by ", "in Rome worse by ", "was fixed without looking")
	html, err := os.ReadFile(filepath.Join(page, "evaluate.html"))
	if err != nil {
		t.Fatal(err)
	}
	contains(string(html), "Which may be best", "For whom: in Oslo better by", "The difference in each segment by city")
	contains(run(0, append([]string{events, "--by", "price=0:50:", "--out", page}, targets[:2]...)...), "segments by price: too close to call in every segment", "price 0 to 50", "price from 50", "all rows hold together")
	var answer ope.Result
	if err := json.Unmarshal([]byte(run(0, append([]string{events, "--json", "--by", "city"}, targets[:6]...)...)), &answer); err != nil {
		t.Fatal(err)
	}
	if c := answer.Candidates; c == nil || len(c.Rows) != 3 || len(answer.Pairs) != 3 || len(answer.Targets[0].Segments.Rows) != 3 {
		t.Errorf("%+v", answer)
	}
	contains(run(0, without, "--target", targets[1], "--plan", "--rate", "0.3"), "from the laws of 1,500 decisions", "0.3 to 0.33", "today's rate", "decisions a day")
	contains(run(0, "--plan", "--actions", "10", "--floor", "0.1", "--rate", "0.05", "--difference", "20%,0.1"), "0.05 to 0.06", "0.05 to 0.15", "% uniform")
	var plan evaluate.PlanAnswer
	if err := json.Unmarshal([]byte(run(0, events, "--target", targets[1], "--plan", "--json", "--split", "0.5", "--difference", "0.05")), &plan); err != nil {
		t.Fatal(err)
	}
	if x := plan.Targets[0].Plans[0]; plan.Decisions != 750 || x.Decisions < 100 || x.Time <= 0 || plan.Rewards != (ope.Pair{0, 1}) {
		t.Errorf("%+v %+v", plan, x)
	}
	for want, args := range map[string][]string{
		"no event has context.citty; did you mean \"city\"?": {events, "--by", "citty"},
		"expected a number: --by city=0:1 has edges":         {events, "--by", "city=0:1"},
		"--by \"price=2:1\": edge 2":                         {events, "--by", "price=2:1"},
		"no number of decisions settles a difference of 0":   {events, "--plan", "--difference", "0"},
		"two targets are called t0":                          {events, "--target", targets[1], "--target", targets[1]},
		"--rate is for --plan":                               {events, "--rate", "0.2"},
		"--floor 0: expected a share":                        {"--plan", "--actions", "4"},
		"--actions 0: expected 2":                            {"--plan"},
		"plays what the logger plays":                        {events, "--plan"},
		"--by and --plan: one at a time":                     {events, "--plan", "--by", "city"},
		"201 targets, expected at most 200":                  append([]string{events}, strings.Fields(strings.Repeat("--target uniform ", 201))...),
	} {
		contains(run(2, args...), want)
	}
}
