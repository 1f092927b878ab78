// Package raftlog is an event log that several machines keep together: the segment files of package segment, replicated by
// the consensus of go.etcd.io/raft. Package raftnode makes the log of a server of it.
//
// [Create] makes the directory of the first node, once. [Open] starts the node in it. [Log] is an eventlog.Log; its [Log.Ready] waits
// until all that was committed before can be read here. A [Network] carries what the nodes send each other.
//
// A log grows: [Join] makes a directory, Open starts it, and [Log.Add] at any node of the log takes it in. [Log.Replace] and
// [Log.Remove] are the other changes of members. [Recover] is for a log that has lost the majority of its nodes. [Log.Check] and
// [Repair] fetch damaged segments from other nodes; [Verify] says what a directory has.
//
// The package has four parts. store keeps entries, term, vote and notes on a disk; its function save is what safety rests on.
// core is a node as a state machine without disk, network and clock. Log puts goroutines around both. The simulator, in the
// tests, plays whole clusters of cores and stores from one seed.
package raftlog
