package eventlog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unreadable is a range of bytes in a block file that are no record, with no record after them so far.
// It is only an unfinished write if none follows.
type unreadable struct {
	file     string
	from, to int64
}

// streamDir is where the engine of a node keeps the files of a shard.
func streamDir(dir string, shard uint16) string {
	return filepath.Join(dir, filepath.FromSlash(nodeStorePrefix), streamName(shard))
}

// ReplicaReport is what CheckReplica found in the files of a stopped node.
type ReplicaReport struct {
	First, Last uint64   // entries; Last < First for none
	Damage      []Damage // entries that are not what was written; what is missing at the end is none
}

// CheckReplica reads the files of a cluster's node without the engine and gives f, if it is not nil, every entry that
// the chain accepts until the first damage. A replica may end before what was answered: its engine has the rest in
// another file, and the other nodes have it. A directory that a process uses is a *LockedError. keys are those of
// the cluster.
func CheckReplica(dir string, keys *BatchKeys, f func(Entry) error) (*ReplicaReport, error) {
	if !exists(filepath.Join(dir, nodeMarker)) {
		return nil, fmt.Errorf("%s: no replica of a cluster's log here", dir)
	}
	lock, err := lockDir(dir, false)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return readReplica(dir, keys, f)
}

// readReplica is CheckReplica for the holder of the lock.
func readReplica(dir string, keys *BatchKeys, f func(Entry) error) (*ReplicaReport, error) {
	return pacedReplica(dir, keys, f, func() error { return nil })
}

// entriesWhole reports whether no entry is damaged, although another file of the engine may be.
func (r *ReplicaReport) entriesWhole() bool {
	// the kind of a file of the engine is the end of its name
	return !slices.ContainsFunc(r.Damage, func(d Damage) bool { return strings.HasSuffix(d.File, ".blk") })
}

// pacedReplica is readReplica that calls pace after each block file. An error of pace ends it.
func pacedReplica(dir string, keys *BatchKeys, f func(Entry) error, pace func() error) (*ReplicaReport, error) {
	return replicaWith(dir, keys, nil, f, pace)
}

// replicaWith is pacedReplica with other files instead of some.
func replicaWith(dir string, keys *BatchKeys, instead map[string]string, f func(Entry) error,
	pace func() error) (*ReplicaReport, error) {
	r := &ReplicaReport{First: 1}
	stream := streamDir(dir, 0)
	names, numbers, err := blockFiles(filepath.Join(stream, "msgs"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = cmp.Or(instead[name], name)
	}
	damaged := func(file string, at int64, seq uint64, format string, a ...any) {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			name = file
		}
		d := Damage{File: filepath.ToSlash(name), Offset: at, What: fmt.Sprintf(format, a...)}
		if seq > 0 {
			d.First, d.Last = seq, seq
		}
		r.Damage = append(r.Damage, d)
	}
	if file, err := checkMeta(stream, streamName(0)); err != nil {
		damaged(file, 0, 0, "%v", err)
	}
	if file, what, err := checkSnapshots(dir); err != nil {
		return nil, err
	} else if what != "" {
		damaged(file, 0, 0, "%s", what)
	}
	first, err := replicaFirst(names, numbers, pace)
	if err != nil {
		return nil, err
	}
	if r.First, r.Last = first, first-1; first == 0 {
		r.First, r.Last = 1, 0
		return r, nil
	}
	var unread *unreadable // at the end it is a write that was cut off
	chain := NewChain(0, first).Trust(keys)
	for block := range readBlocks(names, numbers, 0, true, keys) {
		if block.err == nil {
			block.err = pace()
		}
		if block.err != nil {
			return nil, block.err
		}
		for _, p := range block.parts {
			switch {
			case p.size == 0:
				if unread == nil {
					unread = &unreadable{block.name, p.offset, p.at}
				}
				continue
			case p.tomb, p.seq < first:
				continue
			}
			if unread != nil {
				damaged(unread.file, unread.from, chain.Last()+1, "bytes %d to %d are not readable", unread.from,
					unread.to)
				return r, nil
			}
			if p.erased {
				damaged(block.name, p.offset, p.seq, "it was erased")
				return r, nil
			}
			_, _, err := chain.next(p.seq, p.batch, p.parsed)
			if err != nil && chain.forgiveIn(names, numbers) {
				_, _, err = chain.next(p.seq, p.batch, p.parsed)
			}
			if err != nil {
				if later := (*VersionError)(nil); errors.As(err, &later) {
					return nil, err
				}
				damaged(block.name, p.offset, chain.Last()+1, "%v", err)
				return r, nil
			}
			r.Last = chain.Last()
			if f != nil {
				if err := f(Entry{p.seq, bytes.Clone(p.data)}); err != nil {
					return nil, err
				}
			}
		}
	}
	if unread != nil && unread.file != names[len(names)-1] {
		damaged(unread.file, unread.from, chain.Last()+1, "bytes %d to %d are not readable", unread.from, unread.to)
	}
	return r, nil
}

// replicaFirst returns the entry at which a replica begins, 0 when it is empty: the first behind what was trimmed.
func replicaFirst(names []string, numbers []uint32, pace func() error) (uint64, error) {
	var first, trimmed uint64
	for block := range readBlocks(names, numbers, 0, false, nil) {
		if block.err == nil {
			block.err = pace()
		}
		if block.err != nil {
			return 0, block.err
		}
		for _, p := range block.parts {
			switch {
			case p.size == 0:
			case p.tomb:
				trimmed = max(trimmed, p.seq)
			case p.erased:
			case first == 0 && p.seq > trimmed:
				first = p.seq
			}
		}
	}
	if first > 0 && trimmed >= first {
		first = trimmed + 1
	}
	return first, nil
}
