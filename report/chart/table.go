package chart

import (
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Table is every table of the report: one content, four writers (HTML, CSV, booktabs, Text), so a
// number on the page is the number in the files. CSV carries full precision, the others the
// column's decimals.
type Table struct {
	ID    string // file name without ending
	Title string
	Note  string // how to read it, plain text
	Cols  []Column
	Rows  []Row

	plain bool // see Plain
}

// Column says how one column is named and written.
type Column struct {
	Key   string // header in the CSV file
	Head  string // header for people; "" continues the column before it
	Text  bool   // words, aligned left; otherwise numbers, aligned on the point
	Dec   int    // decimals of the numbers
	Plus  bool   // positive numbers carry a plus
	Pct   bool   // a share, written in per cent
	PM    bool   // stands after its neighbour with ±
	Range bool   // upper end of the interval whose lower end is the neighbour
	Extra bool   // left out where room is short
	Only  string // "csv": only in the CSV file
}

// Row is one line of a table.
type Row struct {
	Look  int  // whose look the row wears, −1 for none
	Best  bool // drawn with weight
	Cells []Cell
}

// Cell is one value: a number, or words when the column is Text.
type Cell struct {
	V     float64
	S     string
	Empty bool
	Bound int // −1: the number is an upper bound only (≤), +1: a lower bound only (≥)
}

// Num is the number v.
func Num(v float64) Cell { return Cell{V: v} }

// TextCell is the words s.
func TextCell(s string) Cell { return Cell{S: s} }

// Empty is a cell without a value, which pages and CSV leave blank.
func Empty() Cell { return Cell{Empty: true} }

// AtLeast is v as a lower bound: ≥ v.
func AtLeast(v float64) Cell { return Cell{V: v, Bound: 1} }

// AtMost is v as an upper bound: ≤ v.
func AtMost(v float64) Cell { return Cell{V: v, Bound: -1} }

// Show writes a cell for the page: true minus, thin spaces.
func (t *Table) Show(row int, key string) string {
	for c := range t.Cols {
		if t.Cols[c].Key == key {
			return t.show(row, c)
		}
	}
	panic("report: Table.Show: no such column")
}

func (t *Table) show(row, col int) string {
	c, x := t.Cols[col], t.Rows[row].Cells[col]
	switch {
	case x.Empty:
		return ""
	case c.Text:
		return x.S
	}
	var s string
	switch {
	case c.Pct && c.Plus && x.V > 0:
		s = "+" + Percent(x.V)
	case c.Pct:
		s = Percent(x.V)
	case c.Plus && x.V > 0:
		s = "+" + Number(x.V, c.Dec)
	default:
		s = Number(x.V, c.Dec)
	}
	switch {
	case x.Bound > 0:
		return "≥" + Narrow + s
	case x.Bound < 0:
		return "≤" + Narrow + s
	}
	return s
}

// ascii is show for a terminal or a LaTeX file: hyphen for minus, ordinary spaces, and numbers without commas, which would
// cost a terminal of 80 columns one of the table's.
func (t *Table) ascii(row, col int) string {
	s := AsciiNumbers.Replace(t.show(row, col))
	if t.Cols[col].Text {
		return s
	}
	return ungrouped(s)
}

// plainNumbers replaces the typography of numbers: a space before a unit, a hyphen for minus.
type plainNumbers struct{}

func (plainNumbers) Replace(s string) string {
	return strings.NewReplacer(Narrow, " ", Minus, "-").Replace(s)
}

// AsciiNumbers makes the numbers of a terminal without Unicode.
var AsciiNumbers plainNumbers

// CSV writes the table with full precision, one header line, LF line ends.
func (t *Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rec := make([]string, len(t.Cols))
	for c, col := range t.Cols {
		rec[c] = col.Key
	}
	if err := out.Write(rec); err != nil {
		return err
	}
	for _, row := range t.Rows {
		for c, x := range row.Cells {
			switch {
			case x.Empty:
				rec[c] = ""
			case t.Cols[c].Text:
				rec[c] = x.S
			default:
				rec[c] = strconv.FormatFloat(x.V, 'g', -1, 64)
			}
		}
		if err := out.Write(rec); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// Booktabs writes the table as a LaTeX tabular for the booktabs package.
func (t *Table) Booktabs(w io.Writer) error {
	var b strings.Builder
	b.WriteString("% needs the packages booktabs and amssymb\n")
	fmt.Fprintf(&b, "%% %s\n", strings.ReplaceAll(AsciiNumbers.Replace(t.Title), "\n", " "))
	if t.Note != "" {
		fmt.Fprintf(&b, "%% %s\n", strings.ReplaceAll(AsciiNumbers.Replace(t.Note), "\n", " "))
	}
	if t.beyond() {
		b.WriteString("% has letters for XeLaTeX or LuaLaTeX, with a font that has them\n")
	}
	b.WriteString("\\begin{tabular}{")
	var cols []int
	for c, col := range t.Cols {
		if col.Only != "" {
			continue
		}
		cols = append(cols, c)
		switch {
		case col.Text:
			b.WriteString("l")
		case col.PM:
			b.WriteString("@{${}\\pm{}$}r")
		case col.Range:
			b.WriteString("@{ to }r")
		default:
			b.WriteString("r")
		}
	}
	b.WriteString("}\n\\toprule\n")
	// A value and its ±, and the two ends of an interval, share a head and vanish together.
	paired := func(i int) bool {
		return i+1 < len(cols) && (t.Cols[cols[i+1]].PM || t.Cols[cols[i+1]].Range)
	}
	for i := 0; i < len(cols); i++ {
		if i > 0 {
			b.WriteString(" & ")
		}
		if paired(i) {
			head := strings.TrimSpace(t.Cols[cols[i]].Head + " " + t.Cols[cols[i+1]].Head)
			b.WriteString("\\multicolumn{2}{c}{" + TeX(head) + "}")
			i++
			continue
		}
		b.WriteString(TeX(t.Cols[cols[i]].Head))
	}
	b.WriteString(" \\\\\n\\midrule\n")
	for r, row := range t.Rows {
		for i := 0; i < len(cols); i++ {
			c := cols[i]
			if i > 0 {
				b.WriteString(" & ")
			}
			switch s := t.ascii(r, c); {
			case paired(i) && row.Cells[cols[i+1]].Empty:
				if !row.Cells[c].Empty {
					s = "$" + texMath.Replace(s) + "$"
				}
				b.WriteString("\\multicolumn{2}{c}{" + s + "}")
				i++
			case row.Cells[c].Empty:
			case t.Cols[c].Text:
				b.WriteString(TeX(t.show(r, c)))
			default:
				b.WriteString("$" + texMath.Replace(s) + "$")
			}
		}
		b.WriteString(" \\\\\n")
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

var texMath = strings.NewReplacer("≥ ", `\ge `, "≤ ", `\le `, " %", `\,\%`, "%", `\%`)

// beyond tells whether the table has letters that pdfLaTeX does not know.
func (t *Table) beyond() bool {
	for c, col := range t.Cols {
		for r := range t.Rows {
			if col.Only == "" && col.Text && beyondTeX(t.Rows[r].Cells[c].S) {
				return true
			}
		}
	}
	return false
}

// HTML writes the table as a <table> for the page: numbers right, words left, extra columns marked
// so that narrow screens can leave them out.
func (t *Table) HTML(looks []string) template.HTML {
	var b strings.Builder
	b.WriteString(`<table class="plain"><thead><tr>`)
	for _, col := range t.Cols {
		if col.Only != "" {
			continue
		}
		fmt.Fprintf(&b, `<th scope="col"%s>%s</th>`, cellClass(col), template.HTMLEscapeString(col.Head))
	}
	b.WriteString("</tr></thead><tbody>")
	for r, row := range t.Rows {
		class := ""
		if row.Look >= 0 {
			class = looks[row.Look]
		}
		if row.Best {
			class += " best"
		}
		fmt.Fprintf(&b, `<tr class="%s">`, strings.TrimSpace(class))
		for c, col := range t.Cols {
			if col.Only != "" {
				continue
			}
			s := template.HTMLEscapeString(t.show(r, c))
			switch {
			case c == 0 && row.Look >= 0:
				fmt.Fprintf(&b, `<th scope="row"><i class="sw"></i>%s</th>`, s)
				continue
			case c == 0:
				fmt.Fprintf(&b, `<th scope="row">%s</th>`, s)
				continue
			case col.PM && s != "":
				s = "±" + Narrow + s
			case col.Range && s != "":
				s = "to " + s
			}
			fmt.Fprintf(&b, "<td%s>%s</td>", cellClass(col), s)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table>")
	return template.HTML(b.String()) // every value above went through HTMLEscapeString
}

func cellClass(c Column) string {
	var class []string
	if c.Text {
		class = append(class, "v")
	}
	if c.PM || c.Range {
		class = append(class, "pm")
	}
	if c.Extra {
		class = append(class, "opt")
	}
	if class == nil {
		return ""
	}
	return ` class="` + strings.Join(class, " ") + `"`
}

// NameWidth is the longest name a terminal table shows; longer ones are cut in the middle.
const NameWidth = 24

// Shorten writes a name in at most width runes. The name of a swept policy loses the keys of its words first, and
// then its kind: ensemble(m=20, targets=uniform) is m=20, uniform. Any other is cut in the middle.
func Shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if kind, in, ok := strings.Cut(strings.TrimSuffix(s, ")"), "("); ok && strings.HasSuffix(s, ")") {
		parts := strings.Split(in, ", ")
		for i, p := range parts {
			if _, v, ok := strings.Cut(p, "="); ok && v != "" && strings.Trim(v, "abcdefghijklmnopqrstuvwxyz-") == "" &&
				v != "true" && v != "false" {
				parts[i] = v
			}
		}
		if short := strings.Join(parts, ", "); short != in {
			if s = kind + "(" + short + ")"; utf8.RuneCountInString(s) > width {
				s = short
			}
		}
	}
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	tail := width / 3
	return string(r[:width-tail-1]) + "…" + string(r[len(r)-tail:])
}

// Text writes the table for a terminal of the given width in cells: two spaces between columns, no
// boxes, numbers aligned on the point. Columns are left out until the table fits: those marked Extra, last first, then
// standard errors, then intervals. With color the best row is bold and what follows a ± is dim; colour never carries
// meaning of its own. Names longer than 24 runes are cut in the middle and listed in full below.
func (t *Table) Text(w io.Writer, width int, color bool) error {
	l := t.layout(width)
	var b strings.Builder
	end := func(line string, bold bool) {
		s := strings.TrimRight(line, " ")
		if bold && color {
			s = "\x1b[1m" + s + "\x1b[0m"
		}
		b.WriteString(s + "\n")
	}
	end(l.heads(), false)
	var cut []string
	for r, row := range t.Rows {
		line := ""
		for i, c := range l.cols {
			s := t.cell(r, c)
			if t.Cols[c].Text && c <= 1 && s != t.ascii(r, c) {
				cut = append(cut, s+"  "+t.ascii(r, c))
			}
			gap := l.gaps[i]
			if row.Cells[c].Empty {
				gap = strings.ReplaceAll(gap, "..", "  ")
			}
			s = pad(s, l.widths[i], !t.Cols[c].Text)
			if color && !row.Best && (t.Cols[c].PM || t.Cols[c].Range) {
				s = "\x1b[2m" + s + "\x1b[0m"
			}
			line += gap + s
		}
		end(line, row.Best)
	}
	if cut != nil {
		b.WriteString("\n")
		for _, s := range cut {
			b.WriteString(s + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell is what Text writes of a cell.
func (t *Table) cell(r, c int) string {
	s := t.ascii(r, c)
	if t.Cols[c].Text && c <= 1 {
		s = Shorten(s, NameWidth)
		if t.plain {
			s = strings.ReplaceAll(s, "…", "~")
		}
	}
	return s
}

// layout is how wide Text writes which columns.
type layout struct {
	t      *Table
	cols   []int
	widths []int    // in cells
	gaps   []string // before each
}

// layout leaves out columns until the table fits.
func (t *Table) layout(width int) *layout {
	l := &layout{t: t}
	for c, col := range t.Cols {
		if col.Only == "" {
			l.cols = append(l.cols, c)
		}
	}
	last := func(of func(i int) bool) int {
		for i := len(l.cols) - 1; i >= 0; i-- {
			if of(i) {
				return i
			}
		}
		return -1
	}
	for l.measure() > width {
		n := 1
		drop := last(func(i int) bool { return t.Cols[l.cols[i]].Extra })
		if drop < 0 {
			drop = last(func(i int) bool { return t.Cols[l.cols[i]].PM })
		}
		if drop < 0 {
			drop, n = last(l.spreads), 2
		}
		if drop < 0 {
			break
		}
		l.cols = slices.Delete(l.cols, drop, drop+n)
	}
	return l
}

func (l *layout) head(i int) string { return AsciiNumbers.Replace(l.t.Cols[l.cols[i]].Head) }

// spreads reports whether the header of a column stands above the next one, too: that of an interval does.
func (l *layout) spreads(i int) bool { return i+1 < len(l.cols) && l.t.Cols[l.cols[i+1]].Range }

// widest is that of a column's cells.
func (l *layout) widest(i int) int {
	n := 0
	for r := range l.t.Rows {
		n = max(n, Cells(l.t.cell(r, l.cols[i])))
	}
	return n
}

// measure sets widths and gaps, and returns their sum.
func (l *layout) measure() (total int) {
	l.widths, l.gaps = l.widths[:0], l.gaps[:0]
	for i, c := range l.cols {
		n, gap := l.widest(i), "  "
		switch {
		case i == 0:
			gap = ""
		case l.t.Cols[c].Range:
			gap = " .. "
		case i == 1 && l.t.Cols[l.cols[0]].Head == "": // a mark before the name
			gap = " "
		}
		if !l.t.Cols[c].Range {
			need := Cells(l.head(i))
			if l.spreads(i) {
				need -= l.widest(i+1) + 4
			}
			n = max(n, need)
		}
		l.widths, l.gaps = append(l.widths, n), append(l.gaps, gap)
		total += len(gap) + n
	}
	return total
}

// heads is the line above the rows.
func (l *layout) heads() string {
	line := ""
	for i := 0; i < len(l.cols); i++ {
		line += strings.ReplaceAll(l.gaps[i], "..", "  ")
		if l.spreads(i) {
			line += pad(l.head(i), l.widths[i]+4+l.widths[i+1], false)
			i++
			continue
		}
		line += pad(l.head(i), l.widths[i], !l.t.Cols[l.cols[i]].Text)
	}
	return line
}

// Plain returns the table with marks that every locale can show: * ~ ^ > for ◆ ≈ △ ▲.
func (t *Table) Plain() *Table {
	u := *t
	u.plain = true
	plain := strings.NewReplacer("◆", "*", "≈", "~", "▲", ">", "△", "^", "†", "#", "±", "+-", "’", "'", "µ", "u", "×",
		"x")
	u.Cols = append([]Column(nil), t.Cols...)
	for i := range u.Cols {
		u.Cols[i].Head = plain.Replace(u.Cols[i].Head)
	}
	u.Rows = append([]Row(nil), t.Rows...)
	for i := range u.Rows {
		u.Rows[i].Cells = append([]Cell(nil), u.Rows[i].Cells...)
		for j := range u.Rows[i].Cells {
			u.Rows[i].Cells[j].S = plain.Replace(u.Rows[i].Cells[j].S)
		}
	}
	return &u
}

// Cells returns how many cells of a terminal a text takes: two for a wide letter such as 策, none for an accent that
// stands on the letter before it, one for any other.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && (width.LookupRune(r).Kind() == width.EastAsianWide ||
			width.LookupRune(r).Kind() == width.EastAsianFullwidth):
			n += 2
		default:
			n++
		}
	}
	return n
}

func pad(s string, n int, right bool) string {
	k := n - Cells(s)
	if k <= 0 {
		return s
	}
	if right {
		return strings.Repeat(" ", k) + s
	}
	return s + strings.Repeat(" ", k)
}
