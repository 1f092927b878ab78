package report

import (
	"html/template"
	"io"

	"troupe/report/chart"
)

// Sheet is a page in the shell of the report that is not one run's report: two runs compared, the
// statements of the paper verified. Everything in it is a Prose, a Figure or a Table.
type Sheet struct {
	Title    string // of the browser's tab and the header
	When     string
	Head     Prose
	Lead     []Prose
	Careful  []Prose // folded: how sure this is
	Facts    []string
	Sections []Section
	Foot     string
}

// Section is one part of a sheet; what is nil is left out.
type Section struct {
	ID, Title, How string
	Figure         *chart.Figure
	Table          *chart.Table
	Pre            string // text as it is, for commands and specs
	Fold           bool   // it is closed at first, and stands after the others
}

var sheetTemplate = parsed(pageFiles, "sheet.html")

// WriteHTML writes the sheet as one self-contained page. Rows and marks wear looks[Policy]; looks
// may be nil when nothing does.
func (s *Sheet) WriteHTML(w io.Writer, looks []chart.Look) error {
	type section struct {
		ID, Title, How, Pre string
		Figure, Table       template.HTML
		Note                string
		Fold                bool
	}
	names := make([]string, len(looks))
	for i := range names {
		names[i] = chart.ClassOf(i)
	}
	view := struct {
		Tab          string
		About, Image string
		Style        template.CSS
		*Sheet
		Parts, Folds []section
	}{Tab: s.Title + " · troupe", Style: newShell("", looks, 0, 0).Style, Sheet: s}
	if len(s.Lead) > 0 {
		view.About = s.Lead[0].String()
	}
	for _, x := range s.Sections {
		p := section{ID: x.ID, Title: x.Title, How: x.How, Pre: x.Pre, Figure: x.Figure.HTML(), Fold: x.Fold}
		if x.Table != nil {
			p.Table, p.Note = x.Table.HTML(names), x.Table.Note
		}
		if x.Fold {
			view.Folds = append(view.Folds, p)
			continue
		}
		view.Parts = append(view.Parts, p)
	}
	return sheetTemplate().Execute(w, view)
}
