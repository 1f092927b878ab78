package term

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

// Width is the width of what is printed where no terminal says another one.
const Width = 80

// Widths of terminals: narrower ones are written to as if they had the least, wider ones as if they had the most.
const (
	leastWidth = 40
	mostWidth  = 100
)

// Grouped prints a count with commas between thousands: 10,000.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Many prints a number and what it counts: 1 replication, 40 replications.
func Many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Grouped(int64(n)) + " " + thing + "s"
}

// Rate prints a number with two digits and a letter: 1.5 M, 420 k.
func Rate(v float64) string {
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

// Duration prints a time as a person would say it.
func Duration(seconds float64) string {
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

// Left is Duration for an estimate of what remains: no decimals.
func Left(seconds float64) string {
	if math.IsNaN(seconds) {
		return "–"
	}
	if seconds < 99.5 {
		return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
	}
	return Duration(seconds)
}

// Wrap breaks a text that starts in column indent into lines of Width; the lines that follow
// start in that column too.
func Wrap(text string, indent int) string { return wrap(text, indent, Width) }

// Wrap is the same for the width of the terminal.
func (t Terminal) Wrap(text string, indent int) string { return wrap(t.Words(text), indent, t.Width) }

// Note breaks a line for a terminal; in a pipe or a log it stays one line.
func (t Terminal) Note(line string) string {
	if !t.Live {
		return line
	}
	return wrap(line, 0, t.Width)
}

func wrap(text string, indent, width int) string {
	var b strings.Builder
	at := indent
	for i, word := range unbroken(strings.Fields(text)) {
		n := chart.Cells(word)
		switch {
		case i == 0:
		case at+1+n > width:
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

// Shorten cuts a name in the middle.
func Shorten(name string, most int) string {
	r := []rune(name)
	if len(r) <= most {
		return name
	}
	tail := (most - 1) / 2
	return string(r[:most-1-tail]) + "…" + string(r[len(r)-tail:])
}

// PadRight fills a text with spaces behind it, to n columns.
func PadRight(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-chart.Cells(s)))
}

// PadLeft fills a text with spaces before it, to n columns.
func PadLeft(s string, n int) string {
	return strings.Repeat(" ", max(0, n-chart.Cells(s))) + s
}

// Columns prints rows of cells, each column as wide as its widest cell, the last one wrapped to the
// line.
func Columns(w io.Writer, rows [][]string) {
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
			line += "  " + PadRight(cell, widths[i])
		}
		line += "  "
		last := Wrap(row[len(row)-1], chart.Cells(line))
		fmt.Fprintln(w, strings.TrimRight(line+last, " "))
	}
}

// Terminal describes where a stream of output goes.
type Terminal struct {
	W     io.Writer
	Width int  // columns of what is printed: those of a terminal, from 40 to 100; elsewhere Width
	Live  bool // a terminal that can be repainted
	Color bool // bold lines are bold
	Plain bool // a locale that has no ◆
}

// CheckColor refuses other values of --color than the three.
func CheckColor(color string) error {
	switch color {
	case "auto", "always", "never":
		return nil
	}
	return Misuse(fmt.Errorf("--color %s: expected auto, always or never", color))
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// New looks at a stream and the environment. color is the flag: auto, always or never.
func New(w io.Writer, color string) Terminal {
	t := Terminal{W: w, Width: Width}
	if IsTerminal(w) {
		width, _, err := term.GetSize(int(w.(*os.File).Fd()))
		if err == nil && width > 0 {
			t.Width = min(max(width, leastWidth), mostWidth)
		}
		t.Live = err == nil && width >= leastWidth && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
		t.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	switch color {
	case "always":
		t.Color = true
	case "never":
		t.Color = false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			t.Plain = !strings.Contains(v, "UTF-8") && !strings.Contains(v, "UTF8")
			break
		}
	}
	return t
}

// Bold marks a line where colour is on. It never carries meaning of its own.
func (t Terminal) Bold(s string) string {
	if !t.Color {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// Words adapts the page's typography to a terminal: its narrow spaces would break lines in odd
// places, and an old locale knows fewer characters.
func (t Terminal) Words(s string) string {
	s = strings.NewReplacer("\u202f", " ", "\u00a0", " ").Replace(s)
	if t.Plain {
		s = strings.NewReplacer("±", "+-", "’", "'", "–", "-", "−", "-", "×", "x", "…", "..", "≥", ">=", "≤", "<=",
			"◆", "*", "≈", "~", "△", "^", "▲", ">", "†", "#").Replace(s)
	}
	return s
}

// Numbered lists names with their numbers from 0: "0 news, 1 sport". Of more than 20 it has the first ones.
func Numbered(names []string) string {
	parts := make([]string, 0, min(len(names), 21))
	for i, n := range names {
		if i == 20 {
			parts = append(parts, "… ("+Grouped(int64(len(names)))+" in all)")
			break
		}
		parts = append(parts, strconv.Itoa(i)+" "+Shorten(n, 40))
	}
	return strings.Join(parts, ", ")
}
