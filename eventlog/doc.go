// Package eventlog is the durable memory of the decision server: what was decided and what it earned, in
// an order that never changes. The log is the truth; every other state is a fold over it.
//
// Three calls are enough to use it. [OpenDisk] opens the log in a directory. [NewCommitter] writes
// behind its end: [Committer.Append] returns when the records are durable. [Follow] reads from any place
// and goes on with what is stored later.
//
// The parts, from the outside in:
//
//   - A [Record] is one event: a decision, a reward, an expiry, a control act, and a few more.
//   - A batch is what reaches the disk with one fsync: records of one writer, with that writer's number,
//     the hash of the batch before, and a checksum. docs/reference/eventlog.md has its bytes.
//   - A [Log] keeps the batches of a shard in order, under sequence numbers 1, 2, 3, …. [Disk] is the
//     one of a single machine; package eventlogtest has one in memory that fails on command, and the conformance
//     suite that every implementation passes. What a Log returns is checked and not trusted.
//   - A [Committer] packs waiting records into batches, one in flight, and answers a caller when its
//     records are durable.
//   - A [Chain] reads batches back and checks that nothing is missing, changed, doubled or out of order.
//     It stops at the first doubt and names the entry: a learner must not learn from a log with holes.
//
// A record that was acknowledged is in the log exactly once, after a killed process and after a loss of
// power. A record whose call ended with [ErrUnknown] is in the log once or not at all. After any other
// error it is not there.
//
// The chain cannot see that the end of the log is missing, so [Disk] keeps the acknowledged end beside its
// segments: the last sequence that it acknowledged, with the hash of all entries up to there. [Verify] reads a data
// directory without writing to it; [Scan] gives its batches. [Repair] rebuilds a damaged directory. What could not be
// saved stays visible as [Loss] records at the sequence numbers that were lost.
//
// [OpenStream] is a Log on a NATS connection, for several writers: batches of format 3, which name the rolling hash
// of the whole log. [StartNode] runs the server that keeps a node's replica inside this process.
//
// Records have a log version, which the header of their batch has. This code writes [LogVersion] and reads
// every version up to it.
package eventlog
