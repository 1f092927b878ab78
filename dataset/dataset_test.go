package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// realFile returns the path of one of the UCI files, which are not part of the project: in the
// directory TROUPE_DATA, or in a directory shared/data beside the checkout.
func realFile(t *testing.T, name string) string {
	t.Helper()
	dirs := []string{os.Getenv("TROUPE_DATA")}
	if wd, err := os.Getwd(); err == nil {
		for d := wd; ; d = filepath.Dir(d) {
			dirs = append(dirs, filepath.Join(d, "shared", "data"))
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	for _, d := range dirs {
		if d == "" {
			continue
		}
		if p := filepath.Join(d, name); exists(p) {
			return p
		}
	}
	t.Skipf("the UCI file %s is absent: set TROUPE_DATA to its directory", name)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The four UCI files load with the sizes that UCI states, their class counts, and no value lost:
// the sum of a column is checked against an independent count (awk).
func TestRealFiles(t *testing.T) {
	cases := []struct {
		file               string
		o                  Options
		format             string
		rows, columns      int
		classes            []string
		counts             []int // nil: not checked
		features, oneHot   int   // encoded without intercept
		missing            int
		first              []float64 // numeric values of the first row
		firstClass, origin string
	}{
		{file: "letter.arff", format: "arff", rows: 20000, columns: 16, features: 16,
			classes: strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")},
		{file: "pendigits.arff", format: "arff", rows: 10992, columns: 16, features: 16,
			classes: strings.Split("0123456789", ""),
			counts:  []int{1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055}},
		{file: "shuttle.trn", format: "space", rows: 43500, columns: 9, features: 9,
			classes: strings.Split("1234567", ""), counts: []int{34108, 37, 132, 6748, 2458, 6, 11},
			first: []float64{50, 21, 77, 0, 28, 0, 27, 48, 22}, firstClass: "2"},
		{file: "mushroom.data", o: Options{Class: "first"}, format: "csv", rows: 8124, columns: 22, features: 117,
			classes: []string{"e", "p"}, counts: []int{4208, 3916}, missing: 2480, firstClass: "p"},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			tab, err := Read(realFile(t, c.file), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if tab.Format != c.format || tab.Rows != c.rows || len(tab.Columns) != c.columns {
				t.Errorf("%v, format %s: want %d rows, %d features, format %s", tab, tab.Format, c.rows, c.columns, c.format)
			}
			if !slices.Equal(tab.Class.Levels, c.classes) {
				t.Errorf("classes %v, want %v", tab.Class.Levels, c.classes)
			}
			if got := tab.ClassCounts(); c.counts != nil && !slices.Equal(got, c.counts) {
				t.Errorf("class counts %v, want %v", got, c.counts)
			}
			missing := 0
			for i := range tab.Columns {
				col := &tab.Columns[i]
				missing += col.Missing()
				if n := len(col.Values) + len(col.Codes); n != c.rows {
					t.Errorf("column %s has %d values", col.Name, n)
				}
				if c.first != nil && col.Values[0] != c.first[i] {
					t.Errorf("column %s begins with %v, want %v", col.Name, col.Values[0], c.first[i])
				}
			}
			if missing != c.missing {
				t.Errorf("%d values are missing, want %d", missing, c.missing)
			}
			if got := tab.Class.Levels[tab.Class.Codes[0]]; c.firstClass != "" && got != c.firstClass {
				t.Errorf("the first class is %s, want %s", got, c.firstClass)
			}
			for _, enc := range []Encoding{{}, {Standardise: true}, {Normalise: true, Intercept: true}, {Standardise: true, Intercept: true, Normalise: true}} {
				e, err := tab.Encode(enc)
				if err != nil {
					t.Fatal(err)
				}
				want := c.features
				if enc.Intercept {
					want++
				}
				if e.Dim != want || len(e.Names) != want {
					t.Errorf("%+v: %d features with %d names, want %d", enc, e.Dim, len(e.Names), want)
				}
				checkUnitBall(t, e, enc)
			}
		})
	}
}

// checkUnitBall: every row is finite and in the unit ball, to the last bit; normalised rows have
// norm 1 to rounding, others keep their sizes and the largest has norm 1.
func checkUnitBall(t *testing.T, e *Encoded, enc Encoding) {
	t.Helper()
	var largest float64
	for i := range e.Rows {
		r := norm(e.Row(i))
		if !(r <= 1) {
			t.Fatalf("%+v: row %d has norm %v", enc, i, r)
		}
		if enc.Normalise && enc.Intercept && r < 1-1e-14 {
			t.Fatalf("%+v: row %d has norm %v, want 1", enc, i, r)
		}
		largest = max(largest, r)
	}
	if e.Factor < 1 && largest < 1-1e-14 {
		t.Errorf("%+v: the largest norm is %v after the factor %v, want 1", enc, largest, e.Factor)
	}
}

// small is what a Table says, in a form that is easy to write down.
type small struct {
	Columns map[string][]any
	Class   []string
}

func shrink(tab *Table) small {
	s := small{Columns: map[string][]any{}}
	for i := range tab.Columns {
		c := &tab.Columns[i]
		for _, v := range c.Values {
			if math.IsNaN(v) {
				s.Columns[c.Name] = append(s.Columns[c.Name], nil)
			} else {
				s.Columns[c.Name] = append(s.Columns[c.Name], v)
			}
		}
		for _, k := range c.Codes {
			if k == Missing {
				s.Columns[c.Name] = append(s.Columns[c.Name], nil)
			} else {
				s.Columns[c.Name] = append(s.Columns[c.Name], c.Levels[k])
			}
		}
	}
	for _, k := range tab.Class.Codes {
		s.Class = append(s.Class, tab.Class.Levels[k])
	}
	return s
}

// What each reader accepts, by example.
func TestParse(t *testing.T) {
	cases := []struct {
		name, file, data string
		o                Options
		want             small
	}{
		{"arff", "a.arff", "% comment\r\n@RELATION 'two words'\n\n@Attribute 'a b' REAL\n@attribute n integer % note\n" +
			"@attribute col {red, 'dark \\'blue', \"?\"}\n@attribute class {yes,no}\n@DATA\n1.5, -2 ,red,yes\n% gap\n?,7,'dark \\'blue',no % end\n1e3,\t0,'?',yes\n2,1,?,no",
			Options{}, small{map[string][]any{"a b": {1.5, nil, 1e3, 2.0}, "n": {-2.0, 7.0, 0.0, 1.0}, "col": {"red", "dark 'blue", "?", nil}}, []string{"yes", "no", "yes", "no"}}},
		{"arff class in front", "a.arff", "@relation r\n@attribute Class {a,b}\n@attribute x numeric\n@data\na,1\nb,2\n",
			Options{}, small{map[string][]any{"x": {1.0, 2.0}}, []string{"a", "b"}}},
		{"arff numeric class", "a.arff", "@relation r\n@attribute x numeric\n@attribute y numeric\n@data\n1,10\n2,9\n",
			Options{}, small{map[string][]any{"x": {1.0, 2.0}}, []string{"10", "9"}}},
		{"csv without header", "a.csv", "1,x,p\n2,y,q\n", Options{},
			small{map[string][]any{"column 1": {1.0, 2.0}, "column 2": {"x", "y"}}, []string{"p", "q"}}},
		{"csv class first", "a.csv", "p,1,x\nq,2,y\n", Options{ClassFirst: true},
			small{map[string][]any{"column 2": {1.0, 2.0}, "column 3": {"x", "y"}}, []string{"p", "q"}}},
		{"csv class first, but named", "a.csv", "u,CLASS,v\n1,a,2\n", Options{ClassFirst: true},
			small{map[string][]any{"u": {1.0}, "v": {2.0}}, []string{"a"}}},
		{"csv with header found", "a.csv", "w,colour,kind\n1, \"red, dark\",p\n,?,q\n\n3,blue,p\n", Options{},
			small{map[string][]any{"w": {1.0, nil, 3.0}, "colour": {"red, dark", nil, "blue"}}, []string{"p", "q", "p"}}},
		{"csv with header said", "a.csv", "u,v\na,b\nc,d\n", Options{Header: "yes", Class: "u"},
			small{map[string][]any{"v": {"b", "d"}}, []string{"a", "c"}}},
		{"csv header denied", "a.csv", "u,v\na,b\n", Options{Header: "no", Class: "1"},
			small{map[string][]any{"column 2": {"v", "b"}}, []string{"u", "a"}}},
		{"csv semicolons and a quoted line break", "a.csv", "a;b;class\n\"1\";\"x\ny\";k\n2;\"?\";l\n", Options{},
			small{map[string][]any{"a": {1.0, 2.0}, "b": {"x\ny", "?"}}, []string{"k", "l"}}},
		{"csv categorical numbers", "a.csv", "3,a\n5more,b\n", Options{Categorical: []string{"1"}},
			small{map[string][]any{"column 1": {"3", "5more"}}, []string{"a", "b"}}},
		{"csv leading gap", "a.csv", "?,1,a\n?,2,b\n4,3,a\n", Options{},
			small{map[string][]any{"column 1": {nil, nil, 4.0}, "column 2": {1.0, 2.0, 3.0}}, []string{"a", "b", "a"}}},
		{"csv byte order mark", "a.csv", "\xef\xbb\xbfx,class\n1,a\n", Options{},
			small{map[string][]any{"x": {1.0}}, []string{"a"}}},
		{"tabs by contents", "a.data", "1\t2\ta\n3\t4\tb\n", Options{},
			small{map[string][]any{"column 1": {1.0, 3.0}, "column 2": {2.0, 4.0}}, []string{"a", "b"}}},
		{"space", "a.trn", "  1   -2 a \r\n3 4 b", Options{},
			small{map[string][]any{"column 1": {1.0, 3.0}, "column 2": {-2.0, 4.0}}, []string{"a", "b"}}},
		{"libsvm", "a.txt", "+1 1:0.5 3:-2 # note\n\n-1 2:1\n1.0\n", Options{},
			small{map[string][]any{"feature 1": {0.5, 0.0, 0.0}, "feature 2": {0.0, 1.0, 0.0}, "feature 3": {-2.0, 0.0, 0.0}}, []string{"1", "-1", "1"}}},
		{"libsvm from zero", "a.svm", "2 0:1 1:3\n0 1:4\n", Options{},
			small{map[string][]any{"feature 0": {1.0, 0.0}, "feature 1": {3.0, 4.0}}, []string{"2", "0"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tab, err := Parse(c.file, []byte(c.data), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, shrink(tab)); d != "" {
				t.Errorf("want (-), got (+):\n%s", d)
			}
		})
	}
}

// Levels that are not declared are sorted, as numbers where they are numbers, whatever the order of
// the rows.
func TestLevelOrder(t *testing.T) {
	tab, err := Parse("a.csv", []byte("b,10\na,9\nc,-1\na,9\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := tab.Columns[0].Levels; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("levels %v", got)
	}
	if got := tab.Class.Levels; !slices.Equal(got, []string{"-1", "9", "10"}) {
		t.Errorf("classes %v", got)
	}
	if got := tab.Class.Codes; !slices.Equal(got, []int32{2, 1, 0, 1}) {
		t.Errorf("codes %v", got)
	}
}

// What each reader refuses, with the whole message: file, line, column, field, value, expectation.
func TestRefuse(t *testing.T) {
	const head = "@relation r\n@attribute x numeric\n@attribute k integer\n@attribute c {a,b}\n@data\n"
	cases := []struct {
		file, data string
		o          Options
		want       string
	}{
		{"f.arff", head + "1,2,a\n1,2,d\n", Options{}, `f.arff:7:5: column "c": the value is "d", expected one of the declared {a, b}`},
		{"f.arff", head + "1, 2x,a\n", Options{}, `f.arff:6:4: column "k": the value is "2x", expected a number`},
		{"f.arff", head + "1,2.5,a\n", Options{}, `f.arff:6:3: column "k": the value is "2.5", expected a whole number`},
		{"f.arff", head + "nan,2,a\n", Options{}, `f.arff:6:1: column "x": the value is "nan", expected a finite number`},
		{"f.arff", head + "1e999,2,a\n", Options{}, `f.arff:6:1: column "x": the value is "1e999", expected a finite number`},
		{"f.arff", head + "-Infinity,2,a\n", Options{}, `f.arff:6:1: column "x": the value is "-Infinity", expected a finite number`},
		{"f.arff", head + "0x1p3,2,a\n", Options{}, `f.arff:6:1: column "x": the value is "0x1p3", expected a number`},
		{"f.arff", head + "1,2\n", Options{}, `f.arff:6:1: 2 fields, expected 3`},
		{"f.arff", head + "1,2,a,{3}\n", Options{}, `f.arff:6:1: 4 fields, expected 3`},
		{"f.arff", head + "1,,a\n", Options{}, `f.arff:6:3: column "k": the value is empty, expected ? for a missing value`},
		{"f.arff", head + "1,2,?\n", Options{}, `f.arff:6:5: column "c": the class is missing`},
		{"f.arff", head + "{0 1, 2 a}\n", Options{}, `f.arff:6:1: a sparse row, which is not supported; write out the zeros`},
		{"f.arff", head + "1,2,'a\n", Options{}, `f.arff:6:5: a quoted value that does not end`},
		{"f.arff", head + "1,2,'a'b\n", Options{}, `f.arff:6:8: "b" after a quoted value, expected a comma`},
		{"f.arff", head, Options{}, `f.arff: the file has no rows of data`},
		{"f.arff", "@relation r\n@attribute x string\n", Options{}, `f.arff:2:14: attribute "x": the type string is not supported; expected numeric, integer, real or {levels}`},
		{"f.arff", "@relation r\n@attribute x number\n", Options{}, `f.arff:2:14: attribute "x": the type is "number", expected numeric, integer, real or {levels}`},
		{"f.arff", "@relation r\n@attribute x {a,a}\n", Options{}, `f.arff:2:17: attribute "x": the level "a" is declared twice`},
		{"f.arff", "@relation r\n@attribute x {a,,b}\n", Options{}, `f.arff:2:17: attribute "x": an empty level`},
		{"f.arff", "@relation r\n@attribute x {a,b\n", Options{}, `f.arff:2:18: attribute "x": the list of levels does not end with a brace`},
		{"f.arff", "@relation r\n@attribute x numeric\n@attribute x numeric\n@data\n1,2\n", Options{}, `f.arff:4:1: two attributes have the name "x"`},
		{"f.arff", "@relation r\n@attribute x numeric\n1,2\n", Options{}, `f.arff:3:1: "1,2", expected @relation, @attribute, @data or a comment`},
		{"f.arff", "@relation r\n@attribute x numeric\n", Options{}, `f.arff:2:1: the file ends before @data`},
		{"f.arff", head + "1,2,a\n", Options{Class: "d"}, `class: is "d", which is no column; did you mean "c"?`},
		{"f.arff", head + "1,2,a\n", Options{Class: "x"}, ""}, // whole numbers may be classes
		{"f.arff", head + "1.5,2,a\n", Options{Class: "x"}, `f.arff:6:1: column "x": the value is "1.5", expected a class: a whole number`},

		{"f.csv", "1,2,a\n1,2x,b\n", Options{}, `f.csv:2:3: column "column 2": the value is "2x", expected a number like the values above it (if the column holds names, list it as categorical; if this marks a missing value, --gap "2x" or gaps = ["2x"])`},
		{"f.csv", "1,u,a\n1,2,b\n", Options{}, `f.csv:2:3: column "column 2": the value is "2", expected "u" like all values above it (if that marks a missing value, --gap "u" or gaps = ["u"]; if the column holds names, list it as categorical)`},
		{"f.csv", "1,u,a\n1,v,b\n1,2,b\n", Options{}, `f.csv:3:3: column "column 2": the value is "2", expected text like the values above it (if the column holds names, list it as categorical)`},
		{"f.csv", "x,kind,label\n-,u,a\n1,v,b\n", Options{Class: "label"}, `f.csv:3:1: column "x": the value is "1", expected "-" like all values above it (if that marks a missing value, --gap "-" or gaps = ["-"]; if the column holds names, list it as categorical)`},
		{"f.csv", "x,kind,label\n.,u,a\n.,v,b\n1,v,b\n", Options{Categorical: []string{"kind"}}, `f.csv:4:1: column "x": the value is "1", expected "." like all values above it (if that marks a missing value, --gap "." or gaps = ["."]; if the column holds names, list it as categorical)`},
		{"f.csv", "1,2,a\n1,2\n", Options{}, `f.csv:2:1: 2 fields, expected 3`},
		{"f.csv", "1,2,a\n1,inf,b\n", Options{}, `f.csv:2:3: column "column 2": the value is "inf", expected a finite number`},
		{"f.csv", "1,2,NA\n1,3,b\n", Options{}, `f.csv:1:5: column "column 3": the class is missing`},
		{"f.csv", "\xff\xfe1\x00,\x00", Options{}, `f.csv: UTF-16 text, expected UTF-8 (iconv -f UTF-16 -t UTF-8 f.csv > OUT)`},
		{"f.json", "[{\"x\": 1}]", Options{}, `f.json: JSON, expected a table (in Python: pandas.read_json("f.json").to_csv(OUT, index=False))`},
		{"f.csv", "1,2,a\n1,\"2,b\n", Options{}, `f.csv:2:8: extraneous or missing " in quoted-field`},
		{"f.csv", "1,2,a\n1,2\"3,b\n", Options{}, `f.csv:2:4: bare " in non-quoted-field`},
		{"f.csv", "x,x,class\n1,2,a\n", Options{}, `f.csv:1:3: column 2 has the name "x" of an earlier column`},
		{"f.csv", "1,2,a\n1,2,\n", Options{}, `f.csv:2:5: column "column 3": the class is missing`},
		{"f.csv", "1,2,0.5\n", Options{}, `f.csv:1:5: column "column 3": the value is "0.5", expected a class: a name or a whole number`},
		{"f.csv", "1,2,a\n", Options{Class: "7"}, `class: is column 7, expected 1 to 3`},
		{"f.csv", "1,2,a\n", Options{Categorical: []string{"w"}}, `categorical: is "w", which is no column; expected one of column 1, column 2, column 3`},
		{"f.csv", "1;2;a\n", Options{Delimiter: ","}, `f.csv:1:1: one field, expected at least a feature and a class; is the delimiter right?`},
		{"f.csv", "1,\x00,a\n", Options{}, `f.csv:1:3: the byte 0x00, expected text`},
		{"f.csv", "a,b\n\xff,c\n", Options{Header: "no"}, `f.csv:2:1: column "column 1": the value is "\xff", expected valid UTF-8`},
		{"f.csv", " \n\n", Options{}, `f.csv: the file is empty`},
		{"f.csv", "1,a\n", Options{Format: "cvs"}, `format: is "cvs"; did you mean "csv"?`},
		{"f.csv", "1,a\n", Options{Header: "maybe"}, `header: is "maybe"; expected one of auto, no, yes`},
		{"f.csv", "1,a\n", Options{Delimiter: "|"}, `delimiter: is "|", expected ",", ";" or a tab`},

		{"f.trn", "1 2 a\n1  b c\n", Options{}, `f.trn:2:4: column "column 2": the value is "b", expected a number like the values above it (if the column holds names, list it as categorical; if this marks a missing value, --gap "b" or gaps = ["b"])`},
		{"f.trn", "1 2 a\n1 2 3 a\n", Options{}, `f.trn:2:1: 4 fields, expected 3`},

		{"f.svm", "1 1:2\n1 2:1 2:3\n", Options{}, `f.svm:2:7: index 2 follows 2, expected ascending indices without repetition`},
		{"f.svm", "1 3:2 2:1\n", Options{}, `f.svm:1:7: index 2 follows 3, expected ascending indices without repetition`},
		{"f.svm", "1 1:x\n", Options{}, `f.svm:1:5: feature 1: the value is "x", expected a finite number`},
		{"f.svm", "1 1:inf\n", Options{}, `f.svm:1:5: feature 1: the value is "inf", expected a finite number`},
		{"f.svm", "1 a:1\n", Options{}, `f.svm:1:3: the index is "a", expected a whole number from 0 or 1`},
		{"f.svm", "1 99999999:1\n", Options{}, `f.svm:1:3: the index is 99999999, expected at most 65536: the table is stored densely`},
		{"f.svm", "1 7\n", Options{}, `f.svm:1:3: "7", expected index:value`},
		{"f.svm", "1 qid:7 1:1\n", Options{}, `f.svm:1:3: "qid:7": ranking data (qid) are not supported`},
		{"f.svm", "1,2 1:1\n", Options{}, `f.svm:1:1: the label is "1,2": examples with several labels are not supported`},
		{"f.svm", "1:1 2:1\n", Options{}, `f.svm:1:1: the line begins with "1:1", expected a label`},
		{"f.svm", "0.5 2:1\n", Options{}, `f.svm:1:1: column "class": the value is "0.5", expected a class: a whole number`},
		{"f.svm", "1\n2\n", Options{}, `f.svm: the file has no features`},
		{"f.svm", "1 1:1\n", Options{Class: "last"}, `class: is "last", but in LIBSVM text the class is the label that begins the line`},
	}
	for _, c := range cases {
		_, err := Parse(c.file, []byte(c.data), c.o)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q %+v\n got %s\nwant %s", c.data, c.o, got, c.want)
		}
	}
}

// Encode by hand: means, deviations, levels, the missing level, imputation, the intercept.
func TestEncode(t *testing.T) {
	tab, err := Parse("a.csv", []byte("1,u,7,a\n3,?,7,b\n?,v,7,a\n5,u,7,b\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := tab.Encode(Encoding{Standardise: true, Intercept: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"column 1", "column 2=u", "column 2=v", "column 2=?", "column 3", "intercept"}; !slices.Equal(e.Names, want) {
		t.Errorf("names %q, want %q", e.Names, want)
	}
	// Column 1: values 1, 3, 5 with mean 3 and variance 8/3; the gap is the mean. The largest row
	// has squared norm 4/(8/3) + 1 + 1 = 3.5.
	z, f := 2/math.Sqrt(8./3), 1/math.Sqrt(3.5)
	want := []float64{
		-z * f, f, 0, 0, 0, f,
		0, 0, 0, f, 0, f,
		0, 0, f, 0, 0, f,
		z * f, f, 0, 0, 0, f,
	}
	for i, v := range e.X {
		if math.Abs(v-want[i]) > 1e-15 {
			t.Errorf("row %d, %s: %v, want %v", i/e.Dim, e.Names[i%e.Dim], v, want[i])
		}
	}
	if math.Abs(e.Factor-f) > 1e-15 {
		t.Errorf("factor %v, want %v", e.Factor, f)
	}
	if len(e.Notes) != 2 {
		t.Errorf("notes %q, want one on imputation and one on the factor", e.Notes)
	}
	// 0.1 has no exact mean: a constant column must still become exactly 0.
	tab, err = Parse("a.csv", []byte(strings.Repeat("0.1,1,a\n", 10)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e, err = tab.Encode(Encoding{Standardise: true, Normalise: true}); err != nil {
		t.Fatal(err)
	}
	for _, v := range e.X {
		if v != 0 {
			t.Errorf("a constant column became %v", v)
		}
	}
	tab, err = Parse("a.csv", []byte("1e308,a\n1e308,b\n-1e308,a\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tab.Encode(Encoding{Standardise: true}); err == nil || !strings.Contains(err.Error(), "overflow") {
		t.Errorf("overflow: error %v", err)
	}
}

// Rounding never leaves a row outside the unit ball: among 2000 rows of random numbers some hundred
// would be, if division by the norm were all.
func TestUnitBall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range 2000 {
		for range 7 {
			fmt.Fprintf(&b, "%v,", r.NormFloat64())
		}
		b.WriteString("a\n")
	}
	tab, err := Parse("a.csv", []byte(b.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, enc := range []Encoding{{}, {Normalise: true, Intercept: true}, {Standardise: true}} {
		e, err := tab.Encode(enc)
		if err != nil {
			t.Fatal(err)
		}
		checkUnitBall(t, e, enc)
	}
}

// A Source reads each file once and gives every caller the same tables.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	if err := os.WriteFile(path, []byte("1,a\n2,b\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var s Source
	var wg sync.WaitGroup
	got := make([]*Encoded, 8)
	for i := range got {
		wg.Go(func() {
			e, err := s.Encoded(path, Options{}, Encoding{Standardise: i%2 == 0})
			if err != nil {
				t.Error(err)
			}
			got[i] = e
		})
	}
	wg.Wait()
	for i := 2; i < len(got); i++ {
		if got[i] != got[i-2] {
			t.Errorf("request %d was encoded anew", i)
		}
	}
	if got[0] == got[1] || got[0].Table != got[1].Table {
		t.Error("two encodings must differ and share the table")
	}
	if err := os.WriteFile(path, []byte("1,a\n2,b\n3,b\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if tab, err := s.Load(path, Options{}); err != nil || tab.Rows != 2 {
		t.Errorf("%v %v: the file was read again", tab, err)
	}

	for _, c := range []struct{ override, path, want, fault string }{
		{"", path, path, ""},
		{"", "", "", "--data"},
		{path, "elsewhere.csv", path, ""},
		{path, "", path, ""},
		{dir, "a.csv", path, ""},
		{dir, "", "", "is a directory"},
		{dir + "/none", "a.csv", "", "--data"},
	} {
		s := Source{Override: c.override}
		got, err := s.Path(c.path)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("--data %q, data = %q: %q, %v", c.override, c.path, got, err)
		}
	}
	if _, err := s.Load(filepath.Join(dir, "none.csv"), Options{}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("an absent file: %v, want a hint", err)
	}
}

// fuzz: whatever the bytes, a reader returns a table that is consistent or an error that names the
// file; and what can be read can be encoded into the unit ball or is refused.
func fuzz(f *testing.F, format string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		tab, err := Parse("fuzz", data, Options{Format: format})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz:") {
				t.Fatalf("the error does not name the file: %v", err)
			}
			return
		}
		check := func(c *Column) {
			if c.Categorical() && len(c.Codes) != tab.Rows || !c.Categorical() && len(c.Values) != tab.Rows {
				t.Fatalf("column %q is not %d values long", c.Name, tab.Rows)
			}
			for _, k := range c.Codes {
				if k < Missing || int(k) >= len(c.Levels) {
					t.Fatalf("column %q: code %d of %d levels", c.Name, k, len(c.Levels))
				}
			}
			for _, v := range c.Values {
				if math.IsInf(v, 0) {
					t.Fatalf("column %q: %v", c.Name, v)
				}
			}
		}
		for i := range tab.Columns {
			check(&tab.Columns[i])
		}
		check(&tab.Class)
		if tab.Class.Missing() != 0 || tab.Rows < 1 {
			t.Fatalf("%d rows, %d without a class", tab.Rows, tab.Class.Missing())
		}
		if tab.Rows*len(tab.Columns) > 1<<16 {
			return
		}
		for _, enc := range []Encoding{{Standardise: true}, {Intercept: true, Normalise: true}} {
			if e, err := tab.Encode(enc); err == nil {
				checkUnitBall(t, e, enc)
			}
		}
	})
}

func FuzzARFF(f *testing.F) {
	fuzz(f, "arff", "@relation r\n@attribute 'x' numeric\n@attribute c {a,'b c'}\n@data\n1,a\n?,'b c'\n", "%\n@relation\n@attribute\n@data\n")
}

func FuzzCSV(f *testing.F) {
	fuzz(f, "csv", "a,b,class\n1,\"x\ny\",p\n2,?,q\n", "1;2;a\r\n\r\n3;4;b", "\xef\xbb\xbf1\t2\n")
}

func FuzzSpace(f *testing.F) {
	fuzz(f, "space", "50 21 77 2\n55 0 92 4\n", "a b\n1 2\n")
}

func FuzzLIBSVM(f *testing.F) {
	fuzz(f, "libsvm", "+1 1:0.5 3:-2 # n\n-1 2:1\n", "0 0:1e308 1:-1e308\n1\n")
}

func BenchmarkReadLetter(b *testing.B) {
	path := os.Getenv("TROUPE_DATA")
	if path == "" {
		b.Skip("the UCI files are absent: set TROUPE_DATA to their directory")
	}
	data, err := os.ReadFile(filepath.Join(path, "letter.arff"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse("letter.arff", data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestGaps: the texts that pandas.read_csv takes for a missing value are gaps in CSV and space-separated text, wherever they
// stand, are counted and are said once; other texts are with Options.Gaps. A quoted one is a text.
func TestGaps(t *testing.T) {
	for _, gap := range append(slices.Clone(Gaps), "", "?", "-") {
		for _, at := range []int{0, 1, 2} {
			rows := []string{"-0.26,Oslo,no", "1,Rome,yes", "2.5,Oslo,no"}
			rows[at] = gap + "," + gap + ",no"
			o := Options{}
			if gap == "-" {
				o.Gaps = []string{"-"}
			}
			tab, err := Parse("t.csv", []byte("x1,city,label\n"+strings.Join(rows, "\n")+"\n"), o)
			if err != nil {
				t.Errorf("%q in row %d: %v", gap, at, err)
				continue
			}
			x, city := tab.Columns[0], tab.Columns[1]
			if x.Categorical() || !math.IsNaN(x.Values[at]) || x.Missing() != 1 || !city.Categorical() || city.Codes[at] != Missing || city.Missing() != 1 {
				t.Errorf("%q in row %d: %+v, %+v", gap, at, x, city)
			}
			if want := map[bool]int{true: 0, false: 2}[gap == "" || gap == "?"]; tab.Gaps[gap] != want {
				t.Errorf("%q was counted %d times, want %d", gap, tab.Gaps[gap], want)
			}
			enc, err := tab.Encode(Encoding{})
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(enc.Notes, "; ")
			if said := strings.Contains(notes, "t.csv: read as missing: "+gap+" (2)"); said != (tab.Gaps[gap] > 0) {
				t.Errorf("%q: notes %q", gap, notes)
			}
		}
	}
	tab, err := Parse("t.csv", []byte("city,label\n\"NA\",no\nOslo,yes\n"), Options{Header: "yes"})
	if err != nil || tab.Columns[0].Missing() != 0 || !slices.Contains(tab.Columns[0].Levels, "NA") {
		t.Errorf("a quoted NA: %+v, %v", tab, err)
	}
	if _, err := Parse("t.csv", []byte("x,label\n1,no\n-,yes\n"), Options{}); err == nil || !strings.Contains(err.Error(), "gaps") {
		t.Errorf("a mark that is not known: %v", err)
	}
	// 1 and 1.0 are one class; a fraction is none.
	tab, err = Parse("t.csv", []byte("1.5,1\n2,1.0\n3,0\n4,0.00\n"), Options{})
	if err != nil || !slices.Equal(tab.Class.Levels, []string{"0", "1"}) || !slices.Equal(tab.ClassCounts(), []int{2, 2}) {
		t.Errorf("classes %+v, %v", tab, err)
	}
}
