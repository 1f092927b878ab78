package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func played(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, errs.String())
	}
	return regexp.MustCompile(`(?m) +[0-9]+$`).ReplaceAllString(out.String(), "") // the microseconds
}

// TestTable: all players on two kinds; a second run, one world at a time, prints the same table.
func TestTable(t *testing.T) {
	args := []string{"-kinds", "ids,held-cold", "-players", "uniform,table,lints,effects", "-worlds", "3", "-T", "300", "-spans", "200-300"}
	got := played(t, args...)
	if again := played(t, append(args, "-jobs", "1")...); again != got {
		t.Errorf("a second run printed\n%s\nafter\n%s", again, got)
	}
	for _, want := range []string{
		`(?m)^kind +player +250 +200-300 +worst \(seed\) +stated +µs$`,
		`(?m)^ids +table +\.\d\d ± \.\d\d +`,
		`(?m)^held-cold +effects +`,
		`(?m)^means over 2 kinds$`,
		`(?m)^effects over the better rival: `,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}

// TestData: the rows of a file are the decisions; the share is that of the right answers above chance.
func TestData(t *testing.T) {
	var text strings.Builder
	text.WriteString("city,class\n")
	for i := range 400 {
		fmt.Fprintf(&text, "c%d,%s\n", i%4, []string{"red", "green"}[i%2])
	}
	file := filepath.Join(t.TempDir(), "taste.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	got := played(t, "-data", file, "-players", "effects,uniform", "-worlds", "2", "-T", "800", "-marks", "800")
	for _, want := range []string{`(?m)^taste.csv +effects +\.[89]\d ± `, `(?m)^taste.csv +uniform +(−?\.0\d) ± `} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}

// TestNumbersTable: models of two kinds of numbers, with and without actions; a second run, one world at a time, prints the same
// table. Seeds are fixed: the median of the models of a parabola is .4 at least after 150 decisions.
func TestNumbersTable(t *testing.T) {
	args := []string{"-numbers", "broad,mixed", "-worlds", "1", "-models", "3", "-marks", "50,150"}
	got := played(t, args...)
	if again := played(t, append(args, "-jobs", "1")...); again != got {
		t.Errorf("a second run printed\n%s\nafter\n%s", again, got)
	}
	for _, want := range []string{
		`(?m)^kind +after +mean +median +5% +1% +worst +models$`,
		`(?m)^broad +50 +`,
		`(?m)^broad +150 +0\.\d+ +0\.[4-9]`,
		`(?m)^mixed +150 +`,
		`(?m)^all +150 +0\.\d+ `,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}

func TestMisuse(t *testing.T) {
	for flag, args := range map[string][]string{
		"kinds:":   {"-kinds", "nothing"},
		"data:":    {"-data", "nothing.csv"},
		"players:": {"-players", "anyone"},
		"client:":  {"-clients", "now,tomorrow"},
		"worlds,":  {"-worlds", "0"},
		"marks:":   {"-marks", "ten"},
		"spans:":   {"-spans", "10-5"},
		"wild:":    {"-wild", "10"},
		"models:":  {"-models", "0"},
		"is no":    {"ids"},
	} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 2 || !strings.Contains(errs.String(), flag) || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %q, %q", args, code, errs.String(), out.String())
		}
	}
}

// TestWild: a value of 10⁶ as the first reward spoils a table's mean, and uniform play not at all.
func TestWild(t *testing.T) {
	got := played(t, "-kinds", "ids", "-players", "uniform,table", "-clients", "now,late", "-worlds", "3", "-T", "1400", "-wild", "1e6@1,-10@150")
	for _, want := range []string{
		`(?m)^kind +client +player +1e6@1 +-10@150 +stated +without it$`,
		`(?m)^uniform: one wild value costs \.00 in the mean of 4 cells, \.00 in the worst; 0 cells`,
		`(?m)^table: one wild value costs \.[3-9]\d in the mean of 4 cells`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}
