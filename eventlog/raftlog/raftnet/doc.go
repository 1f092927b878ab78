// Package raftnet carries the messages of a replicated log (package raftlog) between machines, over TLS 1.3 with certificates on
// both sides.
//
// [New] makes the network of a node, which raftlog.Open is given. [Net.Serve] then takes what the others send. A node has two
// connections to each other one, for messages with entries and for the rest, so that a large batch delays no heartbeat; a
// third one, while it fetches a snapshot. A question ([Net.Call]) has one of its own. docs/reference/eventlog.md has the bytes.
package raftnet
