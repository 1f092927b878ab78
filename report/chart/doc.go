// Package chart draws: figures, tables and their parts, for a page, a paper and a terminal. It knows
// no bandits: a mark, a row and a label wear a Look, which is a number into a list of colours.
//
//   - a Figure is numbers and words without a medium: panels with axes, ticks and marks. HTML paints
//     it as SVG for a page; WriteSVG, WritePDF, WritePNG and WritePGF paint the same numbers and ticks for a
//     paper with gonum/plot;
//   - a Table has columns, rows and cells; HTML, CSV, Booktabs and Text write it;
//   - a Heat is a table whose cells are shaded;
//   - number formats and ticks are functions: Number, Percent, LinearTicks, LogTicks.
//
// The same figure gives the same bytes. Nothing here is safe for concurrent use of one value, and
// nothing keeps what it is given.
package chart
