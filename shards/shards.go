// Package shards divides an experiment into parts for many machines: which cells a part has, which part a job of a
// scheduler is, and scripts that submit all parts. It plays nothing and reads no files; package sim does.
package shards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Most is the largest number of parts.
const Most = 1_000_000

// Part is one of so many parts, counted from 1. The zero value is the whole experiment.
type Part struct {
	Index, Of int
}

// Whole reports whether p is the whole experiment, undivided.
func (p Part) Whole() bool { return p == Part{} }

// String is "3/16", as --shard takes it.
func (p Part) String() string { return fmt.Sprintf("%d/%d", p.Index, p.Of) }

// Words is "part 3 of 16".
func (p Part) Words() string { return fmt.Sprintf("part %d of %d", p.Index, p.Of) }

// Dir is the name of the part's directory inside shards/: "3-of-16".
func (p Part) Dir() string { return fmt.Sprintf("%d-of-%d", p.Index, p.Of) }

// FromDir reads the name of a part's directory; false for any other name.
func FromDir(name string) (Part, bool) {
	i, n, ok := strings.Cut(name, "-of-")
	if !ok {
		return Part{}, false
	}
	p, err := Parse(i + "/" + n)
	return p, err == nil && p.Dir() == name
}

// Parse reads "3/16": a part from 1 to n, and n from 1 to Most. The error has no name of a flag in front.
func Parse(text string) (Part, error) {
	i, n, ok := strings.Cut(text, "/")
	if !ok {
		return Part{}, fmt.Errorf("expected I/N such as 3/16, auto, or auto/N")
	}
	of, err := number(n)
	if err != nil {
		return Part{}, fmt.Errorf("the number of parts is %q, expected 1 to %d", n, Most)
	}
	index, err := number(i)
	if err != nil || index > of {
		return Part{}, fmt.Errorf("the part is %q, expected 1 to %d", i, of)
	}
	return Part{index, of}, nil
}

// number reads a decimal number from 1 to Most without sign or leading zeros.
func number(text string) (int, error) {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > Most || strconv.Itoa(v) != text {
		return 0, fmt.Errorf("%q is no number from 1 to %d", text, Most)
	}
	return v, nil
}

// List prints numbers as sbatch --array takes them: 3,7,12-14. The numbers are sorted and printed once.
func List(numbers []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	var runs []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			runs = append(runs, strconv.Itoa(sorted[i]))
		case 1:
			runs = append(runs, strconv.Itoa(sorted[i]), strconv.Itoa(sorted[j]))
		default:
			runs = append(runs, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(runs, ",")
}
