package logged

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// textFile writes a log for a test.
func textFile(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// refused fails unless reading ends with an error that has a text.
func refused(t *testing.T, file string, o Options, want string) {
	t.Helper()
	if all, _, err := readAll(file, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v after %d events\nwant an error with %s", filepath.Base(file), err, len(all), want)
	}
}

// TestColumnsByNumber: of columns with an end, the number or the name decides which action they are of, in any order of the
// header: the law of every row gives action k the probability (k + 1)/Σ, so a column read by its place is another number.
func TestColumnsByNumber(t *testing.T) {
	ends := func(n, from int, format string) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i+from))
		}
		return out
	}
	asText := func(ends []string) []string { return slices.Sorted(slices.Values(ends)) }
	backwards := func(ends []string) []string {
		ends = slices.Clone(ends)
		slices.Reverse(ends)
		return ends
	}
	for _, c := range []struct {
		name   string
		arms   []string // the end of each action's column
		header []string // as the file has them
		prefix string
		o      Options
		warns  string
	}{
		{"in order", ends(12, 0, "%d"), ends(12, 0, "%d"), "target_", Options{}, ""},
		{"as text", ends(12, 0, "%d"), asText(ends(12, 0, "%d")), "target_", Options{}, ""},
		{"as text, 101 of them", ends(101, 0, "%d"), asText(ends(101, 0, "%d")), "target_", Options{}, ""},
		{"backwards", ends(12, 0, "%d"), backwards(ends(12, 0, "%d")), "target_", Options{}, ""},
		{"from 1, as text", ends(12, 1, "%d"), asText(ends(12, 1, "%d")), "target_", Options{}, "count from 1 and actions from 0"},
		{"from 1, actions too", ends(12, 1, "%d"), asText(ends(12, 1, "%d")), "target_", Options{IDs: "1"}, ""},
		{"with zeros", ends(12, 0, "%03d"), backwards(ends(12, 0, "%03d")), "target_", Options{}, ""},
		{"as floats", ends(12, 0, "%d.0"), asText(ends(12, 0, "%d.0")), "target_", Options{}, ""},
		{"--columns", ends(12, 0, "%d"), asText(ends(12, 0, "%d")), "pi_", Options{Columns: map[string][]string{"target": {"pi_*"}}}, ""},
		{"--columns without a bar", ends(12, 0, "_%d"), asText(ends(12, 0, "_%d")), "pi", Options{Columns: map[string][]string{"target": {"pi*"}}}, ""},
		{"names", []string{"news", "sport", "tech"}, []string{"tech", "news", "sport"}, "target_",
			Options{Names: []string{"news", "sport", "tech"}}, ""},
		{"numbers below 0", []string{"-1", "0", "1"}, []string{"1", "-1", "0"}, "target_", Options{Names: []string{"-1", "0", "1"}}, ""},
		{"behind hyphens", ends(12, 0, "-%d"), asText(ends(12, 0, "-%d")), "pi", Options{Columns: map[string][]string{"target": {"pi*"}}}, ""},
		{"numbers that are names", []string{"7", "30", "104"}, []string{"104", "30", "7"}, "target_", Options{Names: []string{"7", "30", "104"}}, ""},
	} {
		k, sum := len(c.arms), len(c.arms)*(len(c.arms)+1)/2
		for _, format := range []string{"csv", "parquet"} {
			action := "0"
			if c.o.IDs == "1" {
				action = "1"
			}
			if c.o.Names != nil {
				action = c.o.Names[0]
			}
			columns, values := []string{"action", "reward", "propensity"}, []string{action, "1", "0.5"}
			for _, end := range c.header {
				columns = append(columns, c.prefix+end)
				values = append(values, fmt.Sprint(float64(slices.Index(c.arms, end)+1)/float64(sum)))
			}
			file := textFile(t, "t.csv", strings.Join(columns, ",")+"\n"+strings.Join(values, ",")+"\n")
			if format == "parquet" {
				file = parquetTable(t, columns, values)
			}
			all, r, err := readAll(file, c.o)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, format, err)
				continue
			}
			for i := range k {
				if got, want := all[0].Target[i], float64(i+1)/float64(sum); got != want || all[0].Chosen != 0 {
					t.Errorf("%s, %s: action %d has %v, want %v; played %d", c.name, format, i, got, want, all[0].Chosen)
					break
				}
			}
			if said := strings.Join(r.Warnings(), "\n"); c.warns != "" && !strings.Contains(said, c.warns) || c.warns == "" && said != "" {
				t.Errorf("%s, %s: warnings %q, want %q", c.name, format, said, c.warns)
			}
		}
	}
	// q, laws and groups as well.
	all := mustRead(t, textFile(t, "q.csv", "action,reward,propensity,q_1,q_0,law_1,law_0,group_1,group_0,context_10,context_9\n"+
		"1,1,0.75,1,0,0.75,0.25,b,a,10,9\n"), Options{})
	want := Event{K: 2, Chosen: 1, Reward: 1, Propensity: 0.75, Q: []float64{0, 1}, Law: []float64{0.25, 0.75}, Group: []string{"a", "b"},
		Context: []float64{9, 10}, Position: NoPosition}
	if diff := cmp.Diff(want, all[0], sameEvent); diff != "" {
		t.Error(diff)
	}

	head := "action,reward,propensity,"
	for _, c := range []struct {
		header, action string
		o              Options
		want           string
	}{
		{"target_0,target_1,target_sum", "0", Options{}, `1: target_sum: "sum" is no action's number, expected numbers at the end, as target_0 has`},
		{"target_0,target_1,target_01", "0", Options{}, "target_01: the column of action 1, as target_1, expected one column for each action"},
		{"target_0,target_2,target_3", "1", Options{}, `action: "1", expected one of 0, 2, 3, as the columns target_0 … say`},
		{"target_a,target_b,target_c", "d", Options{}, `action: "d", expected one of a, b, c, as the columns target_a … say`},
		{"target_a,target_b,target_c", "1", Options{}, `action: "1", expected one of a, b, c`},
		{"target_a,target_b,target_c", "a", Options{Names: []string{"a", "b"}}, `target_c: "c" is no action`},
		{"target_a,target_b,target_x", "a", Options{Names: []string{"a", "b", "c"}}, `target: no column of action "c" among target_a, target_b, target_x, expected one for each of a, b, c`},
		{"target_0,target_1,target_2", "a", Options{}, `action: "a", expected a number: nothing says which column`},
		{"law_a,law_b,q_c", "a", Options{}, `q: no column of action "a" among q_c`},
	} {
		refused(t, textFile(t, "r.csv", head+c.header+"\n"+c.action+",1,0.5,0.5,0.5,0\n"), c.o, c.want)
	}
}

// parquetTable writes one row of a Parquet file: texts where a value is no number.
func parquetTable(t *testing.T, columns, values []string) string {
	t.Helper()
	group := parquet.Group{}
	row := map[string]any{}
	for i, name := range columns {
		if x, ok := parseFloat([]byte(values[i])); ok && name != "action" {
			group[name], row[name] = parquet.Leaf(parquet.DoubleType), x
		} else {
			group[name], row[name] = parquet.String(), values[i]
		}
	}
	file := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[map[string]any](f, parquet.NewSchema("t", group))
	if _, err := w.Write([]map[string]any{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestArms: a whole number in any spelling is an action's number, and names are ids with numbers that do not depend on the
// order of the rows.
func TestArms(t *testing.T) {
	table := func(arms ...string) string {
		return "action,reward,propensity\n" + strings.Join(arms, ",1,0.5\n") + ",1,0.5\n"
	}
	played := func(all []Event) (out []int) {
		for i := range all {
			out = append(out, all[i].Chosen)
		}
		return out
	}
	for _, c := range []struct {
		arms []string
		o    Options
		want []int
		ids  []string
	}{
		{[]string{"1.0", "0.0", "1.0"}, Options{Actions: 2}, []int{1, 0, 1}, nil},
		{[]string{"1.0", "0", "01", "+1", "1e0", "0.00"}, Options{Actions: 2}, []int{1, 0, 1, 1, 1, 0}, nil},
		{[]string{" 1", "0 ", "2"}, Options{}, []int{1, 0, 2}, nil},
		{[]string{"2.0", "1.0"}, Options{IDs: "1", Actions: 2}, []int{1, 0}, nil},
		{[]string{"sport", "news", "sport"}, Options{}, []int{1, 0, 1}, []string{"news", "sport"}},
		{[]string{"news", "sport", "news"}, Options{}, []int{0, 1, 0}, []string{"news", "sport"}},
		{[]string{"sport", "news"}, Options{Actions: 3}, []int{1, 0}, []string{"news", "sport"}},
		{[]string{"sport", "news"}, Options{Names: []string{"sport", "tech", "news"}}, []int{0, 2}, []string{"sport", "tech", "news"}},
		{[]string{"104", "7.0"}, Options{Names: []string{"7", "104"}}, []int{1, 0}, []string{"7", "104"}},
		{[]string{"1.5", "x"}, Options{}, []int{0, 1}, []string{"1.5", "x"}},
	} {
		file := textFile(t, "t.csv", table(c.arms...))
		all, r, err := readAll(file, c.o)
		if err != nil || !slices.Equal(played(all), c.want) || !slices.Equal(r.Arms(), c.ids) {
			t.Errorf("%q: actions %v, names %q, %v; want %v, %q", c.arms, played(all), r.Arms(), err, c.want, c.ids)
			continue
		}
		for i := range all {
			if c.ids != nil && all[i].Actions[all[i].Chosen].ID != c.ids[c.want[i]] {
				t.Errorf("%q: row %d has the ids %+v", c.arms, i, all[i].Actions)
			}
		}
	}
	for _, c := range []struct {
		text string
		o    Options
		want string
	}{
		{table("0", "unknown"), Options{}, `:3:1: action: "unknown", expected a number, as in the rows before (--actions NAME,NAME,…`},
		{table("unknown", "0"), Options{}, `:2:1: action: "unknown" and, in line or row 3, "0", expected either numbers or names`},
		{table("a", "b", "c"), Options{Actions: 2}, ":2:1: action: 3 names: a, b, c, expected at most 2, as --actions says"},
		{table("a", "b", "c"), Options{Names: []string{"a", "b"}}, `:4:1: action: "c", expected one of a, b, as --actions says`},
		{table("0.5", "1"), Options{}, "expected either numbers or names"},
		{table("0", "1e300"), Options{}, `action: "1e300", expected a number`},
	} {
		refused(t, textFile(t, "t.csv", c.text), c.o, c.want)
	}
	r, err := NewReader("t.csv", strings.NewReader(table("a", "b")), Options{})
	if err == nil {
		var e Event
		err = r.Read(&e)
	}
	if err == nil || !strings.Contains(err.Error(), "--actions NAME,NAME,… with all names: a stream cannot be looked through") {
		t.Errorf("names in a stream: %v", err)
	}

	// Names go through every format that can say them.
	named := mustRead(t, textFile(t, "t.csv", table("sport", "news")), Options{Logger: even{}})
	for _, format := range []string{"jsonl", "parquet", "csv"} {
		if diff := cmp.Diff(named, roundTrip(t, t.TempDir(), format, named, Options{}), sameEvent); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
	}
	for _, format := range []string{"npz", "export", "obd"} {
		w, err := Create(filepath.Join(t.TempDir(), "out"), WriteOptions{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&named[0]); err == nil || !strings.Contains(err.Error(), "cannot say") {
			t.Errorf("%s takes names: %v", format, err)
		}
		w.Abort()
	}
	// JSON lines without a list of actions.
	line := `{"action":"b","reward":1,"propensity":0.5}` + "\n"
	refused(t, textFile(t, "t.jsonl", line), Options{}, `1:11: action: "b", expected an index, or an id (--actions NAME,NAME,…`)
	all := mustRead(t, textFile(t, "t.jsonl", line), Options{Names: []string{"a", "b"}})
	if all[0].Chosen != 1 || all[0].K != 2 || all[0].Actions[1].ID != "b" {
		t.Errorf("%+v", all[0])
	}
}
