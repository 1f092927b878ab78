package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"

	"troupe/eventlog/segment"
)

// memFS is a file system in memory that loses what was not synced, as a disk without power does, and fails where it is told
// to. What was written and not synced survives a loss of power in any part of 512 bytes, or not; names survive up to any
// operation in their directory.
type memFS struct {
	rng  *rand.Rand
	root *inode
	ops  int // until the process is killed in the middle of an operation; -1 for never

	failSync bool // the next sync of a file fails, and what it should have written is lost and still shown
	noSync   bool // plant: a sync does nothing
	skipDirs bool // plant: a sync of a directory does nothing
	same     bool // plant: a write of the bytes that are there does nothing, so nothing is written anew
	noRoom   bool // writes fail
	dead     bool
	epoch    int
}

var (
	errKilled = errors.New("the process is killed")
	errDisk   = errors.New("input/output error")
)

type inode struct {
	dir      bool
	children map[string]*inode // as programs see them
	durable  map[string]*inode // as the disk has them
	names    []nameOp          // since the last sync

	now, disk []byte
	writes    []writeOp // since the last sync
}

type nameOp struct {
	remove, set string
	to          *inode
}

// writeOp is a write, or a new length when data is nil.
type writeOp struct {
	at   int64
	data []byte
}

func newMemFS(rng *rand.Rand) *memFS {
	return &memFS{rng: rng, root: newDir(), ops: -1}
}

func newDir() *inode {
	return &inode{dir: true, children: map[string]*inode{}, durable: map[string]*inode{}}
}

func (fs *memFS) find(name string) (*inode, error) {
	n := fs.root
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			continue
		}
		if n = n.children[part]; n == nil {
			return nil, fmt.Errorf("%s: %w", name, os.ErrNotExist)
		}
	}
	return n, nil
}

// step counts an operation that changes something. It returns an error when the process is dead or dies with it.
func (fs *memFS) step() error {
	switch {
	case fs.dead:
		return errKilled
	case fs.ops > 0:
		fs.ops--
	case fs.ops == 0:
		fs.dead = true
		return errKilled
	}
	return nil
}

func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

func (fs *memFS) change(dir string, op nameOp) error {
	n, err := fs.find(dir)
	if err != nil {
		return err
	}
	if err := fs.step(); err != nil {
		return err
	}
	op.apply(n.children)
	n.names = append(n.names, op)
	return nil
}

func (op nameOp) apply(names map[string]*inode) {
	if op.remove != "" {
		delete(names, op.remove)
	}
	if op.set != "" {
		names[op.set] = op.to
	}
}

func (fs *memFS) MkdirAll(dir string) error {
	if fs.dead {
		return errKilled
	}
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		if part == "" {
			continue
		}
		if _, err := fs.find(at + "/" + part); err != nil {
			if err := fs.change(at, nameOp{set: part, to: newDir()}); err != nil {
				return err
			}
		}
		at += "/" + part
	}
	return nil
}

func (fs *memFS) Open(name string, flag int) (segment.File, error) {
	if fs.dead {
		return nil, errKilled
	}
	n, err := fs.find(name)
	if errors.Is(err, os.ErrNotExist) && flag&os.O_CREATE != 0 {
		n = &inode{}
		dir, base := split(name)
		if err := fs.change(dir, nameOp{set: base, to: n}); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	f := &memFile{fs, n, fs.epoch}
	if flag&os.O_TRUNC != 0 && len(n.now) > 0 {
		return f, f.Truncate(0)
	}
	return f, nil
}

func (fs *memFS) ReadDir(dir string) ([]string, error) {
	if fs.dead {
		return nil, errKilled
	}
	n, err := fs.find(dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.children)), nil
}

func (fs *memFS) Rename(from, to string) error {
	n, err := fs.find(from)
	if err != nil {
		return err
	}
	dir, a := split(from)
	dir2, b := split(to)
	if dir != dir2 {
		panic("a rename into another directory")
	}
	return fs.change(dir, nameOp{remove: a, set: b, to: n})
}

func (fs *memFS) Remove(name string) error {
	if fs.dead {
		return errKilled
	}
	if _, err := fs.find(name); err != nil {
		return err
	}
	dir, base := split(name)
	return fs.change(dir, nameOp{remove: base})
}

func (fs *memFS) RemoveAll(dir string) error {
	err := fs.Remove(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (fs *memFS) SyncDir(dir string) error {
	n, err := fs.find(dir)
	if err != nil {
		return err
	}
	if err := fs.step(); err != nil {
		return err
	}
	if !fs.noSync && !fs.skipDirs {
		n.durable, n.names = maps.Clone(n.children), nil
	}
	return nil
}

type memFile struct {
	fs    *memFS
	n     *inode
	epoch int
}

func (f *memFile) check() error {
	if f.fs.dead || f.epoch != f.fs.epoch {
		return errKilled
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if at >= int64(len(f.n.now)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.now[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.fs.noRoom {
		return 0, syscall.ENOSPC
	}
	if f.fs.same && at+int64(len(b)) <= int64(len(f.n.now)) && bytes.Equal(f.n.now[at:at+int64(len(b))], b) {
		return len(b), nil
	}
	if err := f.fs.step(); err != nil {
		b = b[:f.fs.rng.IntN(len(b)+1)]
		f.n.write(at, b)
		return len(b), err
	}
	f.n.write(at, b)
	return len(b), nil
}

func (n *inode) write(at int64, b []byte) {
	op := writeOp{at, append([]byte{}, b...)}
	n.now = op.apply(n.now)
	n.writes = append(n.writes, op)
}

func (op writeOp) apply(b []byte) []byte {
	if op.data == nil {
		return resize(b, op.at)
	}
	if end := op.at + int64(len(op.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[op.at:], op.data)
	return b
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func (f *memFile) Close() error { return nil }

func (f *memFile) Size() (int64, error) { return int64(len(f.n.now)), f.check() }

func (f *memFile) Truncate(size int64) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	op := writeOp{at: size}
	f.n.now = op.apply(f.n.now)
	f.n.writes = append(f.n.writes, op)
	return nil
}

func (f *memFile) Allocate(at, n int64) bool {
	if f.check() != nil || at+n <= int64(len(f.n.now)) {
		return false
	}
	return f.Truncate(at+n/4096) == nil // a little, so that there are zeros behind the end
}

func (f *memFile) Sync() error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.fs.step(); err != nil {
		return err
	}
	if f.fs.failSync && len(f.n.writes) > 0 {
		f.fs.failSync = false
		f.n.lose(f.fs.rng)
		return errDisk
	}
	if !f.fs.noSync {
		for _, op := range f.n.writes {
			f.n.disk = op.apply(f.n.disk)
		}
		f.n.writes = nil
	}
	return nil
}

func (f *memFile) SyncData() error { return f.Sync() }

// lose brings any part of what was not synced to the disk.
func (n *inode) lose(rng *rand.Rand) {
	mode := rng.IntN(4) // nothing, all, a prefix, any sectors
	stop := rng.IntN(len(n.writes) + 1)
	for i, op := range n.writes {
		switch {
		case mode == 0 || mode == 2 && i >= stop:
			continue
		case mode < 3 || op.data == nil && rng.IntN(2) == 0:
			n.disk = op.apply(n.disk)
			continue
		}
		for k := 0; k < len(op.data); {
			to := min(len(op.data), k+512-int(op.at+int64(k))%512)
			if rng.IntN(2) == 0 {
				n.disk = writeOp{op.at + int64(k), op.data[k:to]}.apply(n.disk)
			}
			k = to
		}
	}
	n.writes = nil
}

// kill ends the process. With power lost, what was not synced is lost too.
func (fs *memFS) kill(power bool) {
	fs.epoch++
	fs.dead, fs.ops, fs.failSync, fs.noRoom = false, -1, false, false
	if power {
		fs.root.powerLoss(fs.rng)
	}
}

func (n *inode) powerLoss(rng *rand.Rand) {
	if !n.dir {
		n.lose(rng)
		n.now = slices.Clone(n.disk)
		return
	}
	for _, op := range n.names[:rng.IntN(len(n.names)+1)] {
		op.apply(n.durable)
	}
	n.names, n.children = nil, maps.Clone(n.durable)
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		n.children[name].powerLoss(rng)
	}
}
