package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"troupe/eventlog"
	"troupe/eventlog/segment"
)

// sealedList is the file in which a node lists its sealed segments: n u32, then n × segment.Info.
const sealedList = 1<<64 - 1

// getter reads from a file of another node, as Network.Fetch does.
type getter func(node, first uint64, b []byte, at int64) error

var errNotFetched = errors.New("no other node has it")

// fetchSealed gets a sealed segment from one of some nodes into a file beside it, durable and checked, and returns its name. A node that
// gives other bytes is passed over.
func fetchSealed(o storeOptions, x segment.Sealed, from []uint64, get getter) (name string, err error) {
	name = segment.SegmentName(x.First) + ".fetched.tmp" // a start removes it
	var why error
	for _, node := range from {
		ok, err := fetchFrom(o, x, name, node, get)
		if ok {
			return name, nil
		}
		if why = errors.Join(why, err); errors.As(err, new(*localError)) {
			break
		}
	}
	return "", errors.Join(fmt.Errorf("%s: %w", segment.SegmentName(x.First), errNotFetched), why)
}

// localError is an error of this node's disk.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

func fetchFrom(o storeOptions, x segment.Sealed, name string, node uint64, get getter) (ok bool, err error) {
	size := x.Size
	if size == 0 { // its end file is not readable
		if size, err = sizeAt(x, node, get); err != nil {
			return false, fmt.Errorf("node %d: %w", node, err)
		}
	}
	f, err := o.fs.Open(filepath.Join(o.group0(), name), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return false, &localError{err}
	}
	defer f.Close()
	b := make([]byte, chunk)
	for at := int64(0); at < size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), size-at)]
		if err := get(node, x.First, b, at); err != nil {
			return false, fmt.Errorf("node %d: %w", node, err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return false, &localError{err}
		}
	}
	if ok, err = x.Check(f, o.group); err != nil {
		return false, &localError{err}
	} else if !ok && !o.plant.anyFile {
		return false, fmt.Errorf("node %d: %w", node, errFile)
	}
	if err := f.Sync(); err != nil {
		return false, &localError{&segment.SyncError{Err: err}}
	}
	return true, nil
}

// sizeAt asks a node how large a segment is.
func sizeAt(x segment.Sealed, node uint64, get getter) (int64, error) {
	all, err := sealedAt(node, get)
	for _, y := range all {
		if y.First == x.First && y.Last == x.Last && y.Link == x.Link {
			return y.Size, nil
		}
	}
	return 0, errors.Join(err, segment.ErrNotFound)
}

// sealedAt returns the sealed segments of a node.
func sealedAt(node uint64, get getter) (all []segment.Info, err error) {
	var head [4]byte
	if err := get(node, sealedList, head[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxSegments {
		return nil, errFile
	}
	b := make([]byte, n*segment.InfoSize)
	if n > 0 {
		if err := get(node, sealedList, b, int64(len(head))); err != nil {
			return nil, err
		}
	}
	for ; len(b) > 0; b = b[segment.InfoSize:] {
		i := segment.ParseInfo(b)
		if i.First == 0 || i.Last < i.First || i.Size <= 0 || i.Size > maxFileSize {
			return nil, errFile
		}
		all = append(all, i)
	}
	return all, nil
}

// maxFileSize bounds a segment that a node asks for.
const maxFileSize = segment.DefaultSize + 2<<20

// listSealed is the file sealedList of this node.
func (s *store) listSealed() ([]byte, error) {
	seg := s.segments()
	last, _ := seg.Last()
	var b []byte
	if last >= seg.Oldest() {
		all, err := seg.Segments(last)
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if i.Sum != ([32]byte{}) {
				b = i.AppendTo(b)
			}
		}
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b)/segment.InfoSize)), b...), nil
}

// Mended is what a check or a repair did.
type Mended struct {
	Shard   uint16
	Segment segment.Info // that is what was sealed again
	Fetched bool         // from another node; otherwise only its end file was written anew
}

// Check compares every sealed segment with its SHA-256, oldest first, and fetches the ones that are damaged from other nodes, whose
// sealed segments have the same bytes. pace is called after each, with its size; an error of it ends the check. What cannot be mended is
// an error that wraps *segment.DamageError; the others are mended all the same.
func (l *Log) Check(ctx context.Context, pace func(bytes int64) error) (done []Mended, err error) {
	var left []error
	for _, s := range l.shards {
		if _, err := l.begin(s.n); err != nil {
			return done, err
		}
		m, bad, err := s.check(ctx, pace)
		l.calls.Done()
		done, left = append(done, m...), append(left, bad...)
		if err != nil {
			return done, errors.Join(append(left, err)...)
		}
	}
	return done, errors.Join(left...)
}

func (s *shard) check(ctx context.Context, pace func(int64) error) (done []Mended, left []error, err error) {
	for from := uint64(0); ; {
		x, ok, err := s.st.segments().Damaged(from, func(n int64) error { return errors.Join(ctx.Err(), pace(n)) })
		if err != nil || !ok {
			return done, left, err
		}
		from = x.First
		name := ""
		if !x.File {
			get := func(node, first uint64, b []byte, at int64) error {
				return s.log.opt.Network.Fetch(ctx, s.n, node, first, b, at)
			}
			if name, err = fetchSealed(s.st.opt, x, s.others(), get); err != nil {
				left = append(left, s.damaged(x, err))
				continue
			}
		}
		durable := make(chan struct{})
		if err := s.call(ctx, func(c *core) { c.mend(x, name, durable) }); err != nil {
			return done, left, err
		}
		select {
		case <-durable:
			done = append(done, Mended{s.n, x.Info, name != ""})
			s.log.opt.Logf("shard %d: the segment of entries %d to %d was damaged, and is mended", s.n, x.First, x.Last)
		case <-ctx.Done():
			return done, left, ctx.Err()
		case <-s.log.done:
			return done, left, eventlog.ErrClosed
		case <-s.log.ended:
			return done, left, s.log.Err()
		}
	}
}

func (s *shard) damaged(x segment.Sealed, why error) error {
	d := &segment.DamageError{Damage: segment.Damage{File: segment.SegmentName(x.First), First: x.First, Last: x.Last, What: "it is not the file that was sealed"}}
	return fmt.Errorf("shard %d: %w: %w", s.n, d, why)
}

// others returns the nodes to fetch from, voters first.
func (s *shard) others() (ids []uint64) {
	now := s.log.Status(s.n)
	for _, id := range slices.Concat(now.Voters, now.Learners) {
		if id != now.Node {
			ids = append(ids, id)
		}
	}
	return ids
}

// mend puts a file into the place of a damaged segment, between other writes.
func (c *core) mend(x segment.Sealed, name string, done chan struct{}) {
	if c.err == nil {
		c.give(&write{mend: &mend{x, name}, done: done})
	}
}

// mend is a segment that is replaced by a file with the bytes that it had when it was sealed.
type mend struct {
	segment.Sealed
	name string
}

// Repair fetches the damaged sealed segments of a node that is stopped, as Log.Check does of one that runs: a node may not start
// with them. Other files, and the newest segment, have promises of this node alone; when they are damaged the node must be replaced
// by one with another raft id. Options must have the directory and a network that reaches the members.
func Repair(ctx context.Context, o Options) (done []Mended, err error) {
	if o.fs == nil {
		o.fs = segment.OS
	}
	if err := o.readMarker(); err != nil {
		return nil, err
	}
	if o.fs == segment.OS {
		lock, err := eventlog.LockDir(o.Dir)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
	}
	var left []error
	for n := range o.Shards {
		st := o.store(n)
		m, err := readMembers(st)
		if err != nil {
			return done, fmt.Errorf("shard %d: %w", n, err)
		}
		var from []uint64
		for _, x := range append(slices.Clone(m.book), m.known...) {
			if x.ID != o.ID {
				from = append(from, x.ID)
			}
		}
		if net, ok := o.Network.(Peers); ok {
			if err := net.SetPeers(slices.DeleteFunc(append(slices.Clone(m.book), m.known...), func(x Member) bool { return x.ID == o.ID })...); err != nil {
				return done, err
			}
		}
		mended, err := repairStore(st, from, func(node, first uint64, b []byte, at int64) error { return o.Network.Fetch(ctx, n, node, first, b, at) })
		for _, x := range mended {
			done = append(done, Mended{n, x, true})
		}
		if err != nil {
			left = append(left, fmt.Errorf("shard %d: %w", n, err))
		}
	}
	return done, errors.Join(left...)
}

func readMembers(o storeOptions) (members, error) {
	b, err := segment.ReadFile(o.fs, filepath.Join(o.group0(), membersFile))
	if err != nil {
		return members{}, err
	}
	m, ok := parseMembers(b, o.group)
	if !ok {
		return m, damage(membersFile, "it is not readable")
	}
	return m, nil
}

// repairStore mends the sealed segments of a store that is closed. Their end files are written anew by the next start. A segment of
// which neither file is readable needs the one behind it, so it looks again after it has mended some.
func repairStore(o storeOptions, from []uint64, get getter) (done []segment.Info, err error) {
	for {
		all, err := segment.Inspect(o.fs, o.group0(), o.group)
		if err != nil {
			return done, err
		}
		var left []error
		before := len(done)
		for _, x := range all {
			if x.File {
				continue
			}
			name, err := fetchSealed(o, x, from, get)
			if err != nil {
				left = append(left, err)
				continue
			}
			if err := errors.Join(o.fs.Rename(filepath.Join(o.group0(), name), filepath.Join(o.group0(), segment.SegmentName(x.First))), o.fs.SyncDir(o.group0())); err != nil {
				return done, err
			}
			done = append(done, x.Info)
		}
		if len(left) == 0 || len(done) == before {
			return done, errors.Join(left...)
		}
	}
}
