package logged

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"troupe/dataset"
)

// TestGapsOfContexts: the texts that mark a missing value in a data set do so in the context of a table, in any column and
// row, with blanks around them or not; they are counted by column. A list of numbers has no missing values, and says so.
func TestGapsOfContexts(t *testing.T) {
	table := func(gap string, at int, city bool) string {
		b := "action,reward,propensity,context_age,context_city\n"
		for i := range 20 {
			age, place := fmt.Sprint(20+i), fmt.Sprint(i%3)
			if city {
				place = []string{"Oslo", "Rome", "Bonn"}[i%3]
			}
			if i == at {
				age = gap
			}
			b += fmt.Sprintf("%d,1,0.5,%s,%s\n", i%2, age, place)
		}
		return b
	}
	marks := append(slices.Clone(dataset.Gaps), "?", "", " ", " NA ", "-", "missing")
	for _, gap := range marks {
		o := Options{Actions: 2}
		if gap == "-" || gap == "missing" {
			o.Gaps = []string{gap}
		}
		for _, c := range []struct {
			at   int
			city bool
		}{{0, true}, {7, true}, {0, false}} {
			all, r, err := readAll(textFile(t, "t.csv", table(gap, c.at, c.city)), o)
			if err != nil {
				t.Fatalf("%q in row %d: %v", gap, c.at, err)
			}
			for i := range all {
				if age, ok := all[i].Feature("context_age"); ok == (i == c.at) || ok && age != fmt.Sprint(20+i) {
					t.Errorf("%q in row %d: the age of row %d is %q, %v", gap, c.at, i, age, ok)
				}
			}
			want := "column context_age: " + strings.TrimSpace(gap) + " is read as missing"
			if said := slices.Contains(r.Warnings(), want); said != (strings.TrimSpace(gap) != "") {
				t.Errorf("%q in row %d: %q", gap, c.at, r.Warnings())
			}
		}
		file := textFile(t, "t.csv", table(gap, 7, false)) // a list of numbers
		if o.Gaps == nil {
			refused(t, file, o, `t.csv:9:9: context_age: "`+strings.TrimSpace(gap)+`", a missing value, expected a number, as in the first row (--gap NA`)
			o.Gaps = []string{"NA"}
		}
		if all, _, err := readAll(file, o); err != nil || all[3].Named == nil {
			t.Errorf("%q with --gap: %v", gap, err)
		}
	}
	refused(t, textFile(t, "t.csv", table("old", 7, false)), Options{Actions: 2}, `context[0]: "old", expected a finite number`)
	all, _, err := readAll(textFile(t, "t.csv", table("Nan Madol", 7, true)), Options{Actions: 2})
	if age, _ := all[7].Feature("context_age"); err != nil || age != "Nan Madol" {
		t.Errorf("a text that is no mark: %q, %v", age, err)
	}
}
