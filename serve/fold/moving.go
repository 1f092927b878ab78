package fold

import (
	"crypto/sha256"

	"troupe/eventlog"
)

// Moving is a model that goes to another server: closed, and then gone. A closed model decides nothing and learns nothing, and
// its windows do not close, so its parcel stays the same.
type Moving struct {
	Move eventlog.ID // number of the move
	Seq  uint64      // entry of the act
	To   string      // address of the other server
	Gone bool
}

// Came is how a model came from another server.
type Came struct {
	Move eventlog.ID
	Seq  uint64            // entry of the last piece of its parcel
	Sum  [sha256.Size]byte // of the parcel
}
