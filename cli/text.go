package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"troupe/report/chart"
)

// lineWidth is the width of everything that is printed, also on wide terminals.
const lineWidth = 80

// grouped prints a count with thin groups of three: 10 000.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// many prints a number of things: 1 replication, 40 replications.
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(int64(n)) + " " + thing + "s"
}

// rate prints a number with two digits and a letter: 1.5 M, 420 k.
func rate(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= u.size {
			return twoDigits(v/u.size) + u.name
		}
	}
	return twoDigits(v)
}

func twoDigits(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// duration prints a time as a person would say it.
func duration(seconds float64) string {
	switch {
	case seconds < 9.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	case seconds < 99.5:
		return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
	case seconds < 99.5*60:
		return strconv.FormatFloat(seconds/60, 'f', 0, 64) + " min"
	}
	switch hours := seconds / 3600; {
	case hours < 48:
		return strconv.FormatFloat(hours, 'f', 1, 64) + " h"
	case hours < 2*365*24:
		return strconv.FormatFloat(hours/24, 'f', 0, 64) + " days"
	default:
		return strconv.FormatFloat(hours/24/365, 'f', 0, 64) + " years"
	}
}

// left is duration for an estimate of what remains: no decimals.
func left(seconds float64) string {
	if math.IsNaN(seconds) {
		return "–"
	}
	if seconds < 99.5 {
		return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
	}
	return duration(seconds)
}

// wrap breaks a text that starts in column indent into lines of lineWidth; the lines that follow
// start in that column too.
func wrap(text string, indent int) string {
	var b strings.Builder
	at := indent
	for i, word := range unbroken(strings.Fields(text)) {
		n := chart.Cells(word)
		switch {
		case i == 0:
		case at+1+n > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// unbroken joins words that belong on one line: the groups of digits of a number, and a number and its per cent.
func unbroken(words []string) []string {
	var out []string
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	for _, w := range words {
		if n := len(out); n > 0 {
			if last := out[n-1]; last[len(last)-1] >= '0' && last[len(last)-1] <= '9' &&
				(digits(w) == 3 || w[0] == '%') {
				out[n-1] += " " + w
				continue
			}
		}
		out = append(out, w)
	}
	return out
}

// shorten cuts a name in the middle.
func shorten(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	tail := (most - 1) / 2
	return string(r[:most-1-tail]) + "…" + string(r[len(r)-tail:])
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-chart.Cells(s)))
}

func padLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-chart.Cells(s))) + s
}

// columns prints rows of cells, each column as wide as its widest cell, the last one wrapped to the
// line.
func columns(w io.Writer, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], chart.Cells(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row[:len(row)-1] {
			line += "  " + padRight(cell, widths[i])
		}
		line += "  "
		last := wrap(row[len(row)-1], chart.Cells(line))
		fmt.Fprintln(w, strings.TrimRight(line+last, " "))
	}
}

// terminal describes where a stream of output goes.
type terminal struct {
	w     io.Writer
	live  bool // a terminal that can be repainted
	color bool
	plain bool // a locale that has no ◆
}

// checkColor refuses other values of --color than the three.
func checkColor(color string) error {
	switch color {
	case "auto", "always", "never":
		return nil
	}
	return misuse(fmt.Errorf("--color %s: expected auto, always or never", color))
}

// newTerminal looks at a stream and the environment. color is the flag: auto, always or never.
func newTerminal(w io.Writer, color string) terminal {
	t := terminal{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		width, _, err := term.GetSize(int(f.Fd()))
		t.live = err == nil && width >= 60 && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
		t.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	switch color {
	case "always":
		t.color = true
	case "never":
		t.color = false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			t.plain = !strings.Contains(v, "UTF-8") && !strings.Contains(v, "UTF8")
			break
		}
	}
	return t
}

// bold marks a line where colour is on. It never carries meaning of its own.
func (t terminal) bold(s string) string {
	if !t.color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}
