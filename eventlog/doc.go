// Package eventlog is the durable memory of the decision server: what was decided, what it earned,
// in an order that never changes. The log is the truth; every other state is a fold over it.
//
// Five nouns are the whole package.
//
//   - A [Record] is one event: a decision, a reward, an expiry, a control act.
//   - A batch is what reaches the disk with one fsync: records of one writer, with that writer's
//     number, the hash of the batch before, and a checksum. docs/reference/eventlog.md is its format.
//   - A [Log] keeps batches of a shard in order, under sequence numbers 1, 2, 3, …. [JetStream]
//     is the one that ships; package eventlogtest has one in memory that fails on command. Neither is
//     trusted.
//   - A [Committer] packs waiting records into batches, one in flight, and answers a caller only
//     when the record is durable.
//   - A [Chain] reads batches back and checks that nothing is missing, changed, doubled or out of
//     order. It stops at the first doubt and says where: a learner must not learn from a log with
//     holes.
//
// A record that was acknowledged is in the log exactly once, after a killed process and after a
// loss of power. A record whose call ended with [ErrUnknown] is in the log once or not at all.
//
// The chain cannot see that the end of the log is gone, so [JetStream] keeps a witness file beside
// it: the last sequence it acknowledged and a checksum of what is there. [Verify] reads a data
// directory without the engine and without writing to it. [Repair] rebuilds a damaged one; what
// could not be saved stays visible as [Loss] records at the very sequence numbers that were lost.
package eventlog
