package report

import (
	"fmt"
	"strings"

	"troupe/report/chart"
)

// floatsFile is the file with every figure and table as a float of LaTeX.
const floatsFile = "paper.tex"

// floats writes figures and tables as floats with \caption and \label. \troupedir is where the result
// directory is, as LaTeX sees it. where has the environment of a figure, where there are several.
func floats(figures []*chart.Figure, tables []*chart.Table, where map[*chart.Figure]string) []byte {
	var b strings.Builder
	b.WriteString(`% Every figure and table as a float. Copy what the paper needs, or set the directory and read all of them:
%   \newcommand{\troupedir}{runs/mine}
%   \input{runs/mine/paper.tex}
% Packages: graphicx, booktabs, amssymb. With the package pgf \input{….pgf} has the letters of the paper in place of
% \includegraphics{….pdf}. A table that is wider than the line is made smaller.
\providecommand{\troupedir}{.}
\providecommand{\troupefit}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{#1}}
`)
	for _, f := range figures {
		title := f.Title
		if name := where[f]; name != "" {
			title += ": " + name
		}
		fmt.Fprintf(&b, "\n\\begin{figure}\n\\centering\n\\troupefit{\\includegraphics{\\troupedir/figures/%s.pdf}} "+
			"%% or \\input{\\troupedir/figures/%[1]s.pgf}\n\\caption{%s}\n\\label{fig:%[1]s}\n\\end{figure}\n",
			f.ID, caption(title, f.How))
	}
	for _, t := range tables {
		fmt.Fprintf(&b, "\n\\begin{table}\n\\centering\n\\caption{%s}\n\\label{tab:%s}\n"+
			"\\troupefit{\\input{\\troupedir/tables/%[2]s.tex}}\n\\end{table}\n",
			caption(t.Title, t.Note), t.ID)
	}
	return []byte(b.String())
}

// caption is a title and how to read what is under it, as sentences.
func caption(title, how string) string {
	title = strings.TrimRight(strings.TrimSpace(title), ".")
	if how = strings.TrimSpace(how); how != "" {
		title += ". " + strings.TrimRight(how, ".")
	}
	return chart.TeX(strings.ReplaceAll(title, "\n", " ") + ".")
}
