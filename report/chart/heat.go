package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Heat is a table of means over two swept options.
type Heat struct {
	ID, Title      string
	Rows, Columns  string // names of the options
	RowVal, ColVal []string
	Cell           [][]float64 // NaN-free: see Has
	Has            [][]bool
	Dec            int
}

// Table returns the map's numbers.
func (h *Heat) Table() *Table {
	t := &Table{ID: h.ID, Title: h.Title, Cols: []Column{{Key: h.Rows, Head: h.Rows + " \\ " + h.Columns, Text: true}}}
	for _, c := range h.ColVal {
		t.Cols = append(t.Cols, Column{Key: h.Columns + "=" + ungrouped(AsciiNumbers.Replace(c)), Head: c, Dec: h.Dec})
	}
	for r, v := range h.RowVal {
		row := Row{Look: -1, Cells: []Cell{TextCell(AsciiNumbers.Replace(v))}}
		for c := range h.ColVal {
			if h.Has[r][c] {
				row.Cells = append(row.Cells, Num(h.Cell[r][c]))
			} else {
				row.Cells = append(row.Cells, Empty())
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// HTML paints the map: shade by log of the mean, ink on top, the lowest framed.
func (h *Heat) HTML() template.HTML {
	lo, hi := math.Inf(1), 0.0
	for r := range h.Cell {
		for c, v := range h.Cell[r] {
			if h.Has[r][c] {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	t := h.Table()
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="scroll"><table class="heat"><caption>Mean by %s (down) and %s (across); `+
		`the lowest is framed</caption><thead><tr><td></td>`,
		template.HTMLEscapeString(h.Rows), template.HTMLEscapeString(h.Columns))
	for _, c := range h.ColVal {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, template.HTMLEscapeString(c))
	}
	b.WriteString("</tr></thead><tbody>")
	for r, v := range h.RowVal {
		fmt.Fprintf(&b, `<tr><th scope="row">%s</th>`, template.HTMLEscapeString(v))
		for c := range h.ColVal {
			if !h.Has[r][c] {
				b.WriteString("<td></td>")
				continue
			}
			shade := 0.0
			if lo > 0 && hi > lo {
				shade = math.Log(h.Cell[r][c]/lo) / math.Log(hi/lo)
			}
			class := ""
			if h.Cell[r][c] == lo {
				class = ` class="b"`
			}
			fmt.Fprintf(&b, `<td%s style="--s:%s">%s</td>`, class, PercentOf(0.04+0.51*shade), t.show(r, c+1))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</tbody></table></div>")
	return template.HTML(b.String()) // words went through HTMLEscapeString
}
