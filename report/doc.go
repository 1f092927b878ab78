// Package report turns a result directory into something people can read: one HTML page that needs
// no network and no script, figures for papers and slides, tables as CSV and LaTeX, and the leader
// table of the terminal.
//
// Four nouns:
//
//   - a Run is what Load found in results.csv and manifest.json, strictly checked;
//   - an Analysis is everything that is computed for one environment, once; page, figures, tables
//     and sentences all read it, so no two places can disagree;
//   - a chart.Figure is numbers and words without a medium, a chart.Table is the one type behind
//     every table (package report/chart draws both);
//   - a Prose is a sentence chosen from the Analysis.
//
// Comparisons use only replications that every policy has finished. Differences are paired, and
// their intervals hold for all pairs of policies at once (internal/stats, MaxT). What a run says first is its Answer:
// package headline makes the sentence from the Analysis, by the intervals of the table under it.
package report
