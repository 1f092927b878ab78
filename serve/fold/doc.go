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
// A fold is the wiring of its parts (fold.go). No two files need each other, directly or through others:
//
//   - What a model keeps: lineage.go, memory.go, budget.go, guard.go, learning.go, state.go, aside.go (its policy,
//     built or laid aside), lag.go (what it has not learned yet); model.go, and beside.go (what its configuration
//     makes of these).
//   - All models: registry.go (by id and by name), policies.go (which are kept, and how).
//   - Events: windows.go and keys.go (what is open, and idempotency keys), features.go, teach.go (how a model learns),
//     spend.go, guarding.go, events.go (decisions, rewards, ends of windows).
//   - Acts: act.go, nodes.go and trim.go (several writers), imports.go, copies.go (clones and rollbacks), acts.go. checks.go compares digests.
//   - The bytes: wire.go, config.go, image.go, modelbytes.go, laid.go, saved.go (a model without its past), bytes.go
//     (the format).
//   - The log behind a fold: past.go (what it asks), requests.go and fit.go; above it history.go and files.go.
package fold
