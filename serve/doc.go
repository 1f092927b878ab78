// Package serve is the decision server without HTTP: models that choose actions, learn from rewards, and lose
// neither. The edge (package api: HTTP, keys, pages) talks to it through [Service]; [Open] returns the [Server]
// of a data directory.
//
// Six nouns are the whole package.
//
//   - A model is a policy with a configuration ([ModelConfig], package model) and a public name. Its life is a
//     sequence of control records; each time its state begins anew (created, cloned, rolled back) it
//     is another incarnation with an id of its own.
//   - The log is the truth. Every decision, reward, activation, expiry and control act is a record
//     of package eventlog, and is durable before its caller gets an answer.
//   - The fold (package fold) is the only way in which a record changes a model: the same function runs
//     live, in recovery, and when the past is read. It never reads a clock.
//   - A version (package choose) is what the server publishes after each entry: an immutable policy state with
//     the sequence that it is the state of. Decisions are made on versions, never on the fold itself.
//   - An event is a decision waiting for its reward. Its key (writer, batch, index) names it for
//     ever and is the round of the policy's random targets U_t^j, so a restart computes them again.
//   - A snapshot only shortens the fold. A state that was restored and one that was folded from the
//     first record are equal, bit for bit.
//
// # The way of a call
//
// A decision: [Server.Decide] → package decide (the newest version, a worker that encodes the candidates and draws, the
// record) → append (durable) → answer. A reward: [Server.Reward] → package recent (the decision, from memory or the
// log) → append → applied (the fold has it). The applier follows the log: fold.Apply → publish → the waiting callers.
//
// # What is random
//
// Each model has a secret seed, written in its create record. The ensemble's first members come
// from it (stream Init), the targets of an event from it and the event's key (stream Perturb), and
// the draw of a decision from it and a nonce of 64 bits that the server takes from the operating
// system and writes into the decision (stream Select). So a draw cannot be predicted from outside, and
// Replay computes any decision again, member and propensity included.
package serve
