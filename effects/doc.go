// Package effects is the learner of models without a schema: one Gaussian model whose coefficients come in groups, one
// group for the actions, one for each field of the requests, one for each pair of small fields. Each group has one prior
// variance, which is learned from all actions together, so that a useless field gets a variance near 0. Nothing is
// chosen and nothing leaves.
//
// A [Model] is a deterministic fold of decisions and rewards: [Model.Decided] notes a decision, [Model.Learn] its
// reward, in any order and at any time, [Model.Dropped] that there is none. [Model.Votes] draws 64 times from the
// posterior and counts which action each draw prefers: this is the exact law of a decision. policy.Effects is a
// model as a bandit.Policy.
//
// A Model belongs to one goroutine. [Model.Share] gives its state to readers in others, which [Model.Adopt] it.
package effects
