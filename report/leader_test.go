package report

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLeaderOnce: the page has the columns of the leader table that have a heading for it, in their order around the drawn
// difference, but for those without a cell, and the files have all of them, with a cell in every row. The table of one policy
// has no comparison, and that of a few replications no verdict.
func TestLeaderOnce(t *testing.T) {
	for _, policies := range []string{"", `[[policy]]
kind = "uniform"
`, `[[policy]]
kind = "uniform"
[[policy]]
kind = "ts"
`} {
		enough := policies == ""
		run := (*Run)(nil)
		if enough {
			run = loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
		} else {
			run = suiteRun(t, func(text string) string {
				worlds, _, _ := strings.Cut(text, "[[policy]]")
				return worlds + policies
			})
		}
		alone := strings.Count(policies, "kind") == 1
		a := Analyze(run, 0)
		var own, rivals, keys []string
		for _, c := range (leaderTable{a}).leaderColumns() {
			if slices.Contains(keys, c.Key) {
				t.Errorf("two columns have the key %s", c.Key)
			}
			keys = append(keys, c.Key)
			switch {
			case !enough && (c.Key == "lo" || c.Key == "places"): // empty
			case c.page.head != "" && c.rivals:
				rivals = append(rivals, c.page.head)
			case c.page.head != "":
				own = append(own, c.page.head)
			}
		}
		table := a.Leader("leader")
		for _, row := range table.Rows {
			if len(row.Cells) != len(keys) || len(table.Cols) != len(keys) {
				t.Fatalf("%d cells of %d columns, want %d", len(row.Cells), len(table.Cols), len(keys))
			}
		}
		var b strings.Builder
		if err := compose(run, Options{}).writePage(&b); err != nil {
			t.Fatal(err)
		}
		_, page, _ := strings.Cut(b.String(), `<table class="leader"`)
		page, _, _ = strings.Cut(page, "</table>")
		var got []string
		for _, m := range regexp.MustCompile(`<th scope="col"[^>]*>([^<]*)</th>`).FindAllStringSubmatch(page, -1) {
			got = append(got, html.UnescapeString(m[1]))
		}
		want := append([]string{"Policy"}, own...)
		if !alone {
			want = append(want, rivals...)
		}
		if enough {
			want = append(want, "Verdict")
		}
		if !slices.Equal(got, want) {
			t.Errorf("alone %v: the page has the columns %q, want %q", alone, got, want)
		}
		first, _, _ := strings.Cut(page[strings.Index(page, "<tbody"):], "</tr>")
		if n := strings.Count(first, "<td role="); n != len(want)-1+b2i(!alone)+b2i(!alone && !enough) { // the forest, and what a phone shows
			t.Errorf("alone %v: %d cells below %d columns", alone, n, len(want))
		}
	}
}
