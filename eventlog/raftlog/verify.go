package raftlog

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"

	"troupe/eventlog"
	"troupe/eventlog/segment"
)

// Verified is what the directory of a node has.
type Verified struct {
	Cluster eventlog.ID
	ID      uint64
	Shards  []VerifiedShard
}

// VerifiedShard is what Verify found in a shard.
type VerifiedShard struct {
	First, Last uint64 // entries
	Term        uint64 // of the last one: with its index it says whose log is the newest
	Applied     uint64 // up to here the node knew entries to be committed
	Batches     uint64 // in the files
	Members     []Member
	Torn        int64            // bytes behind the last entry, of a write that was interrupted; a start removes them
	Damage      []segment.Damage // what is not as it was written
}

// Verify reads everything in the directory of a node that is stopped, and changes nothing: all records with their checksums and links, the
// end files with their SHA-256, and the files with what the node has promised. Damage is in the result; an error is about the attempt.
func Verify(dir string) (v Verified, err error) {
	m, err := readMarker(segment.OS, dir)
	if err != nil {
		return v, err
	}
	lock, err := eventlog.LockDir(dir)
	if err != nil {
		return v, err
	}
	defer lock.Close()
	v = Verified{Cluster: m.cluster, ID: m.id}
	o := Options{Dir: dir, fs: segment.OS}
	for n := range m.shards {
		x, err := verifyShard(o.store(n), m)
		if err != nil {
			return v, err
		}
		v.Shards = append(v.Shards, x)
	}
	return v, nil
}

func verifyShard(o storeOptions, mark marker) (v VerifiedShard, err error) {
	dir := o.group0()
	bad := func(file, format string, a ...any) {
		var d *segment.DamageError
		errors.As(damage(file, format, a...), &d)
		v.Damage = append(v.Damage, d.Damage)
	}
	le := binary.LittleEndian
	// What the node has promised.
	slot := func(name string, kind byte) ([]byte, error) {
		_, value, err := readSlots(o.fs, dir, name, kind, o.group, 24)
		var d *segment.DamageError
		switch {
		case errors.As(err, &d):
			v.Damage = append(v.Damage, d.Damage)
			return nil, nil
		case err != nil:
			return nil, err
		}
		return value, nil
	}
	vote, err := slot(voteFile, 'V')
	if err != nil {
		return v, err
	}
	applied, err := slot(appliedFile, 'X')
	if err != nil {
		return v, err
	}
	var appliedLink segment.Link
	if applied != nil {
		v.Applied, appliedLink = le.Uint64(applied), segment.Link(applied[8:24])
	}
	mem, err := readMembers(o)
	var d *segment.DamageError
	switch {
	case errors.As(err, &d):
		v.Damage = append(v.Damage, d.Damage)
	case errors.Is(err, os.ErrNotExist):
		bad(membersFile, "is missing")
	case err != nil:
		return v, err
	default:
		v.Members = mem.book
	}
	ids, err := segment.ReadFile(o.fs, filepath.Join(dir, idsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return v, err
	}
	if _, ok := parseIDs(ids, o.group); !ok {
		bad(idsFile, "it is not readable")
	}
	end, err := segment.ReadAcked(o.fs, dir, o.group)
	if errors.As(err, &d) {
		v.Damage = append(v.Damage, d.Damage)
	} else if err != nil {
		return v, err
	}
	// The entries.
	e, err := segment.Walk(dir, o.group, segment.Visitor{
		Damage: func(d segment.Damage) { v.Damage = append(v.Damage, d) },
		Record: func(_ string, _ int64, r segment.Record) error {
			if r.Kind == segment.Batch {
				v.Batches++
			}
			if r.Term < v.Term {
				bad(".", "entry %d has term %d, the one before it term %d", r.Index, r.Term, v.Term)
			}
			v.Term = max(v.Term, r.Term)
			if r.Index == v.Applied && r.Link != appliedLink {
				bad(appliedFile, "entry %d is not the one that was applied", r.Index)
			}
			if r.Index == end.Last && r.Link != end.Link {
				bad(segment.AckedName, "entry %d is not the one that was acknowledged", r.Index)
			}
			return nil
		},
	})
	if err != nil {
		return v, err
	}
	v.First, v.Last, v.Torn = e.First, e.Last, e.Torn
	for _, x := range []struct {
		file string
		last uint64
	}{{segment.AckedName, end.Last}, {appliedFile, v.Applied}, {membersFile, mem.index}} {
		if x.last > v.Last {
			bad(x.file, "it knows entry %d, the log ends at %d", x.last, v.Last)
		}
	}
	if vote != nil {
		if id := le.Uint64(vote); id != mark.id && id != mark.before {
			bad(voteFile, "it is of node %d, the directory is of node %d", id, mark.id)
		}
		if term := le.Uint64(vote[8:]); term < v.Term {
			bad(voteFile, "it knows term %d, the log has term %d", term, v.Term)
		}
	}
	return v, nil
}
