package eventlog

import "context"

// What follows are optional abilities of a Log. A log that has one says so with an assertion of its own.

// StoresOnce is a Log in which no batch is twice, under any id. Readers of a part of it then need not look for a first copy before
// that part.
type StoresOnce interface {
	Log
	StoresOnce()
}

// Stops is a Log that can stop by itself. Err returns why it stores nothing at present, nil while it does. An error that wraps
// ErrBroken stays.
type Stops interface {
	Log
	Err() error
}

// Replicated is a Log that several servers have, of which one leads it.
type Replicated interface {
	Log
	// Replicas returns the servers that have shard 0, as the leader sees them: the leader first. It returns none where that is not known.
	Replicas(context.Context) ([]Replica, error)
}

// HandsOver is a Log whose server can let another one lead. HandOver returns when one does, at once where this one does not lead.
type HandsOver interface {
	Log
	HandOver(context.Context) error
}

// Grouped is a Log whose servers keep more than the log in agreement. Behind returns what each of the servers in names lacks of
// that, by name; a server that lacks nothing is not in it.
type Grouped interface {
	Log
	Behind(ctx context.Context, names []string) (map[string]string, error)
}

// KeepsBases is a Log beside which the servers keep the bases of a trimmed log, for one that has lost its disk.
type KeepsBases interface {
	Log
	// PutBase stores a base. It can be read when PutBase has returned nil.
	PutBase(ctx context.Context, b Base, data []byte) error
	// Bases returns the bases that are stored, newest first. They may be damaged: see GetBase.
	Bases(context.Context) ([]Base, error)
	// GetBase returns the bytes of a base, which are those that b's SHA-256 names.
	GetBase(ctx context.Context, b Base) ([]byte, error)
	// DropBases removes the bases before an entry.
	DropBases(ctx context.Context, before uint64) error
}

// TrimsOwn is a Log of which each server has files of its own: Trim removes the entries at this one.
type TrimsOwn interface {
	Log
	TrimsOwn()
}

var (
	_ StoresOnce = (*Disk)(nil)
	_ Stops      = (*Disk)(nil)
	_ Stops      = (*Stream)(nil)
	_ Replicated = (*Stream)(nil)
	_ HandsOver  = (*Stream)(nil)
	_ Grouped    = (*Stream)(nil)
	_ KeepsBases = (*Stream)(nil)
)
