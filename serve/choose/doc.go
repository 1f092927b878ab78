// Package choose draws actions from the versions of a model. It writes nothing and knows neither the log's
// writer nor HTTP.
//
//   - A [Version] is what the server publishes after each entry of the log: an immutable policy state.
//   - A [Pool] keeps [Worker]s, each a policy put into the state of one version, with scratch space. A
//     decision takes a worker, reads the candidates of its [Request] into the worker's [Offer], and draws.
//   - [Worker.Choose] depends on the version, the candidates and a nonce and on nothing else, so a recorded
//     decision can be computed again.
//
// # Propensities
//
// An ensemble of m symmetric members picks one of 2m models: the propensity of an action is a count
// c/2m. Under an exploration floor ε = a/b over K actions it is
//
//	((b−a)·c·K + a·2m) / (b·2m·K),
//
// still a quotient of two integers. Candidates that the policy cannot tell apart are a group: the policy chooses
// among groups, and the candidates of one share its probability equally. With g candidates in the group it is
//
//	((b−a)·c·K + a·2m·g) / (b·2m·g·K).
//
// The record of a decision has the votes and the group of every candidate. A policy whose law is not a count gets the
// denominator 2⁵³.
package choose
