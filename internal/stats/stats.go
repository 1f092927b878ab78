// Package stats turns replications into statements with a stated error rate.
//
// Five kinds of statement live here:
//
//   - summaries of one sample: mean and standard error, quantiles, the mean of the worst share
//     (summary.go);
//   - exact intervals that hold for every law with the assumption named: Clopper–Pearson for a
//     share, order statistics for a quantile (exact.go);
//   - exact intervals for the mean of a bounded variable, for a fixed number of observations and for
//     all numbers at once, and how rare a loss must be not to matter (betting.go);
//   - statements about many means at once, by resampling whole replications: the studentised
//     max-t factor, intervals for growth exponents (resample.go);
//   - probabilities that are too small for plain simulation, by splitting (splitting.go).
//
// The package imports nothing of ours and draws no random number itself: resampling takes a
// function that returns uniform integers. Arguments that are NaN or infinite are the caller's
// fault and are not looked for; wrong lengths panic.
package stats
