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

// promises are what the files of a shard beside its log say.
type promises struct {
	vote    []byte // nil: none
	applied segment.Link
	members members
	end     segment.Acked
}

func verifyShard(o storeOptions, mark marker) (v VerifiedShard, err error) {
	p, err := v.promises(o)
	if err != nil {
		return v, err
	}
	if err := v.entries(o, &p); err != nil {
		return v, err
	}
	v.agree(&p, mark)
	return v, nil
}

// bad notes what does not hold.
func (v *VerifiedShard) bad(file, format string, a ...any) {
	var d *segment.DamageError
	errors.As(damage(file, format, a...), &d)
	v.Damage = append(v.Damage, d.Damage)
}

// damaged notes an error that is damage, and returns others.
func (v *VerifiedShard) damaged(err error) error {
	var d *segment.DamageError
	if !errors.As(err, &d) {
		return err
	}
	v.Damage = append(v.Damage, d.Damage)
	return nil
}

// promises reads what the node has promised, and notes what cannot be read.
func (v *VerifiedShard) promises(o storeOptions) (p promises, err error) {
	dir := o.group0()
	slot := func(name string, kind byte) (value []byte, err error) {
		_, value, err = readSlots(o.fs, dir, name, kind, o.group, 24)
		if err != nil {
			return nil, v.damaged(err)
		}
		return value, nil
	}
	if p.vote, err = slot(voteFile, 'V'); err != nil {
		return p, err
	}
	applied, err := slot(appliedFile, 'X')
	if err != nil {
		return p, err
	}
	if applied != nil {
		v.Applied, p.applied = binary.LittleEndian.Uint64(applied), segment.Link(applied[8:24])
	}
	mem, err := readMembers(o)
	switch {
	case err == nil:
		v.Members, p.members = mem.book, mem
	case errors.Is(err, os.ErrNotExist):
		v.bad(membersFile, "is missing")
	default:
		if err := v.damaged(err); err != nil {
			return p, err
		}
	}
	ids, err := segment.ReadFile(o.fs, filepath.Join(dir, idsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return p, err
	}
	if _, ok := parseIDs(ids, o.group); !ok {
		v.bad(idsFile, "it is not readable")
	}
	if p.end, err = segment.ReadAcked(o.fs, dir, o.group); err != nil {
		err = v.damaged(err)
	}
	return p, err
}

// entries reads the log, and notes entries that are not those of the promises.
func (v *VerifiedShard) entries(o storeOptions, p *promises) error {
	e, err := segment.Walk(o.group0(), o.group, segment.Visitor{
		Damage: func(d segment.Damage) { v.Damage = append(v.Damage, d) },
		Record: func(_ string, _ int64, r segment.Record) error {
			if r.Kind == segment.Batch {
				v.Batches++
			}
			if r.Term < v.Term {
				v.bad(".", "entry %d has term %d, the one before it term %d", r.Index, r.Term, v.Term)
			}
			v.Term = max(v.Term, r.Term)
			if r.Index == v.Applied && r.Link != p.applied {
				v.bad(appliedFile, "entry %d is not the one that was applied", r.Index)
			}
			if r.Index == p.end.Last && r.Link != p.end.Link {
				v.bad(segment.AckedName, "entry %d is not the one that was acknowledged", r.Index)
			}
			return nil
		},
	})
	v.First, v.Last, v.Torn = e.First, e.Last, e.Torn
	return err
}

// agree notes promises that the log does not keep, and those of another node.
func (v *VerifiedShard) agree(p *promises, mark marker) {
	for _, x := range []struct {
		file string
		last uint64
	}{{segment.AckedName, p.end.Last}, {appliedFile, v.Applied}, {membersFile, p.members.index}} {
		if x.last > v.Last {
			v.bad(x.file, "it knows entry %d, the log ends at %d", x.last, v.Last)
		}
	}
	if p.vote == nil {
		return
	}
	le := binary.LittleEndian
	if id := le.Uint64(p.vote); id != mark.id && id != mark.before {
		v.bad(voteFile, "it is of node %d, the directory is of node %d", id, mark.id)
	}
	if term := le.Uint64(p.vote[8:]); term < v.Term {
		v.bad(voteFile, "it knows term %d, the log has term %d", term, v.Term)
	}
}
