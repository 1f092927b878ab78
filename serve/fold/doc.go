// Package fold makes the state of a decision server from its log. It is the only code in which a record
// changes a model: the same function runs in a serving process, in its recovery, and when the past is read.
//
//   - [Fold] is the state after a sequence of the log. [Fold.Apply] folds one entry and returns the [Outcome]
//     of each of its records: what a reward did, whether an act came too late. It reads no clock and no
//     random source, so equal logs give equal states on every machine.
//   - [Model] is one incarnation of a model, [State] the snapshot of its policy.
//   - [Fold.AppendState] and [Restore] write and read the bytes of a fold; [Files] keeps them in a directory.
//     They only shorten the way: a state that was restored and one that was folded from the first record are
//     equal, bit for bit.
//   - [History] folds the log once more up to an earlier entry, for clones, rollbacks and replays.
//
// The files: fold.go (entries: a row for each kind of record), registry.go (models by id and by name), events.go
// (decisions, rewards, windows), control.go (one method for each act), saved.go (imports), keys.go (idempotency keys),
// nodes.go and trim.go (several writers). Of a model: model.go, lineage.go (copies and rollbacks), aside.go (its policy,
// built or laid aside), later.go (what it has not learned yet), memory.go, budget.go, learning.go, requests.go and fit.go
// (a schema that is learned), size.go. The bytes: bytes.go (the format), files.go; state.go, history.go.
package fold
