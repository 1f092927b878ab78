// Package ope estimates from a log of decisions what another policy would have earned.
//
// Event i has a context x, offered actions 1 … K, the action a that was played with propensity p = π_b(a|x), a reward
// r, and where the log has it the logger's whole law π_b(·|x). The target is π_e, its weight w = π_e(a|x)/p, q(x, a) a
// reward model and DM = Σ_a π_e(a|x) q(x, a). An event that came through a queue that drops with probability d counts
// v = 1/(1 − d) times; N = Σ v and mean[f] = Σ v f/N.
//
// Three nouns:
//
//   - a Target has a law for every event; a Learner is one that learns on the way;
//   - an estimator is a row of Keys: the value, its standard error, and intervals;
//   - the log-mixture sequence is the interval that holds: at every n at once, for loggers and targets that learn, for
//     drift and for missing support (docs/design/ope.md has the theorem; Sequence is the bare one).
//
// Evaluate reads a log once. Rewards lie in a range; the sequence and the estimators es, ix and ls work on
// r' = (r − min)/(max − min) and map back. Reward models are fitted on the past only.
package ope
