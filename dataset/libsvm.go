package dataset

import (
	"math"
	"strconv"
	"strings"

	"troupe/spec"
)

// parseLIBSVM reads "label index:value …" lines. Indices ascend strictly within a line. They count
// from 1, or from 0 if the index 0 occurs.
func parseLIBSVM(data []byte, o Options) (*Table, error) {
	if o.Class != "" && o.Class != "auto" && o.Class != "first" {
		return nil, spec.Errorf("class", "is %q, but in LIBSVM text the class is the label that begins the line",
			o.Class)
	}
	type entry struct {
		row, index int32
		value      float64
	}
	var entries []entry
	label := builder{name: "class", kind: codes, class: true}
	least, most := 1, 0
	rows := 0
	var words []field
	for lines := (scanner{rest: data}); lines.next(); {
		text, _, _ := strings.Cut(lines.text, "#")
		words = split(words[:0], text, lines.line)
		if len(words) == 0 {
			continue
		}
		if strings.Contains(words[0].text, ":") {
			return nil, words[0].at.errorf("the line begins with %s, expected a label", show(words[0].text))
		}
		if strings.Contains(words[0].text, ",") {
			return nil, words[0].at.errorf("the label is %s: examples with several labels are not supported",
				show(words[0].text))
		}
		if err := label.add(words[0]); err != nil {
			return nil, err
		}
		last := -1
		for _, w := range words[1:] {
			left, right, ok := strings.Cut(w.text, ":")
			if !ok {
				return nil, w.at.errorf("%s, expected index:value", show(w.text))
			}
			if left == "qid" {
				return nil, w.at.errorf("%s: ranking data (qid) are not supported", show(w.text))
			}
			i, err := strconv.Atoi(left)
			if err != nil || i < 0 {
				return nil, w.at.errorf("the index is %s, expected a whole number from 0 or 1", show(left))
			}
			if i > maxColumns {
				return nil, w.at.errorf("the index is %d, expected at most %d: the table is stored densely", i,
					maxColumns)
			}
			if i <= last {
				return nil, w.at.errorf("index %d follows %d, expected ascending indices without repetition", i, last)
			}
			v, ok := number(right)
			if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
				at := place{w.at.line, w.at.col + len(left) + 1}
				return nil, at.errorf("feature %d: the value is %s, expected a finite number", i, show(right))
			}
			last = i
			entries = append(entries, entry{int32(rows), int32(i), v})
			least, most = min(least, i), max(most, i)
		}
		rows++
		if err := checkSize(words[0].at, rows, most-least+1); err != nil {
			return nil, err
		}
	}
	if rows == 0 {
		return nil, place{}.errorf("the file has no rows of data")
	}
	if most < least {
		return nil, place{}.errorf("the file has no features")
	}
	t := &Table{Rows: rows, Class: label.column(), Columns: make([]Column, most-least+1)}
	block := make([]float64, rows*len(t.Columns))
	for j := range t.Columns {
		t.Columns[j] = Column{Name: "feature " + strconv.Itoa(least+j), Values: block[j*rows : (j+1)*rows]}
	}
	for _, e := range entries {
		t.Columns[int(e.index)-least].Values[e.row] = e.value
	}
	return t, nil
}
