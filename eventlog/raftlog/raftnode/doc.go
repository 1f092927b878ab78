// Package raftnode is a node of a replicated log (package raftlog) for a server: with its network, and with what is between an empty
// directory and a log that answers.
//
// [New] listens. [Node.Open] returns when the node is a voter of the log and has all that was committed. [Node] is then the eventlog.Log
// of the server. What the nodes ask each other beside raft's messages goes over the same port, with the same certificates: who is
// there, to be taken in, how far the others are, and the bases of a trimmed log.
//
// Whoever has an empty directory asks the others first. A node joins where one of them has a log, under a new raft id, in the
// place of a node of its name. The first node of the list makes the log when all others say that they have none either. So an
// empty disk never takes part under an id that has promised something, and never makes a second log beside one that is there. All answers
// are those of nodes with a certificate of the cluster's authority.
package raftnode
