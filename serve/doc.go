// Package serve is the decision server without its wire: models that choose actions, learn from
// rewards and never lose either. The edge (HTTP, keys, pages) talks to it through [Service].
//
// Six nouns are the whole package.
//
//   - A model is a policy with a configuration ([ModelConfig]) and a public name. Its life is a
//     sequence of control records; each time its state begins anew (created, cloned, rolled back) it
//     is another incarnation with an id of its own.
//   - The log is the truth. Every decision, reward, activation, expiry and control act is a record
//     of package eventlog, and is durable before its caller hears of it.
//   - The fold (fold.go) is the only way in which a record changes a model: the same function runs
//     live, in recovery, and when the past is looked at. It never reads a clock.
//   - A version is what the fold publishes after each batch: an immutable policy state with the
//     sequence that it is the state of. Decisions are made on versions, never on the fold itself.
//   - An event is a decision waiting for its reward. Its key (writer, batch, index) names it for
//     ever and is the round of the policy's random targets U_t^j, so a restart computes them again.
//   - A snapshot only shortens the fold. A state that was restored and one that was folded from the
//     first record are equal, bit for bit.
//
// # What is random
//
// Each model has a secret seed, written in its create record. The ensemble's first members come
// from it (stream Init), the targets of an event from it and the event's key (stream Perturb), and
// the draw of a decision from it and a nonce of 64 bits that the server takes from the operating
// system and writes into the decision (stream Select). So nobody outside can predict a draw, and
// Replay computes any decision again, member and propensity included.
//
// # Propensities
//
// An ensemble of m symmetric members picks one of 2m models: the propensity of an action is a count
// c/2m. Under an exploration floor ε = a/b over K actions it is
//
//	((b−a)·c·K + a·2m) / (b·2m·K),
//
// still a quotient of two integers. A policy whose law is not a count gets the denominator 2⁵³.
package serve
