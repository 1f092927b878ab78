//go:build linux

package powerfs

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"troupe/internal/scratch"
)

// Kind is what a call does.
type Kind uint8

const (
	Write    Kind = iota // some bytes of a file
	Sync                 // fsync of a file; a write to a file opened with O_SYNC is Write, then Sync
	Truncate             // or another change of attributes
	Create               // of a file
	Rename               // of a file or directory
	Remove               // of a file
	Mkdir                // of one directory
	Rmdir                // of an empty directory
)

// String returns the name of the call.
func (k Kind) String() string {
	return [...]string{"write", "sync", "truncate", "create", "rename", "remove", "mkdir", "rmdir"}[k]
}

// Op is one call that changes something.
type Op struct {
	Kind Kind
	Name string // path below the mount, of the file that is meant
	N    int    // how many calls there were, this one included, since Fail
}

// Fault is what a call does instead of what it should.
type Fault uint8

const (
	None  Fault = iota // the call does what it should
	EIO                // nothing happens; after a Sync the pages are clean and not durable, as Linux has it
	Full               // ENOSPC, nothing happens; a Sync works
	Short              // a Write stores half and says so; other calls work
	Lie                // a Sync answers well and does nothing; other calls work
)

// FS keeps a durable tree beside the live one. Bytes get there when their file is synced, names at once.
// Real disks may lose names, too; this is enough to find a program that does not sync.
type FS struct {
	Dir string // the mount

	live, durable string
	server        *fuse.Server

	mu    sync.Mutex
	dirty map[uint64]map[int64]bool // by inode of the live file: pages that are not durable
	fault func(Op) Fault
	calls int
}

const page = 4096

// Mount mounts an empty file system for the time of a test. Without FUSE the test is skipped with a
// message.
func Mount(t testing.TB) *FS {
	t.Helper()
	base := t.TempDir()
	p := &FS{live: base + "/live", durable: base + "/durable", Dir: base + "/mount", dirty: map[uint64]map[int64]bool{}}
	for _, d := range []string{p.live, p.durable, p.Dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.start(); err != nil {
		t.Skipf("no FUSE on this machine (%v); the tests with eventlogtest.Memory lose power in memory", err)
	}
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *FS) start() error {
	var st syscall.Stat_t
	if err := syscall.Stat(p.live, &st); err != nil {
		return err
	}
	root := &fs.LoopbackRoot{Path: p.live, Dev: uint64(st.Dev)}
	top := &node{&fs.LoopbackNode{RootData: root}, p}
	root.RootNode = top
	server, err := fs.Mount(p.Dir, top, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true,
		FsName: "power"}})
	p.server = server
	return err
}

func (p *FS) stop(t testing.TB) {
	t.Helper()
	for i := 0; ; i++ {
		err := p.server.Unmount()
		if err == nil {
			break
		}
		if i == 1000 { // the kernel may still hold files of a killed process
			t.Fatalf("unmount: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.server.Wait()
}

// Fail makes f decide about every call from now on. nil means no faults. f is called by one call at a
// time. It returns how many calls there were since the last Fail.
func (p *FS) Fail(f func(Op) Fault) (calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, p.calls, p.fault = p.calls, 0, f
	return calls
}

// ask returns the fault of a call.
func (p *FS) ask(kind Kind, path string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.fault == nil {
		return None
	}
	return p.fault(Op{kind, strings.TrimPrefix(strings.TrimPrefix(path, p.live), "/"), p.calls})
}

// errno is the fault of a call that is neither Write nor Sync.
func (p *FS) errno(kind Kind, path string) syscall.Errno {
	switch p.ask(kind, path) {
	case EIO:
		return syscall.EIO
	case Full:
		if kind == Create || kind == Mkdir || kind == Rename {
			return syscall.ENOSPC
		}
	}
	return 0
}

// Lose loses power and starts anew, without faults. No file may be open. With rnd, a random
// half of the pages that were not synced got to the disk by themselves, so that files are torn.
func (p *FS) Lose(t testing.TB, rnd *rand.Rand) {
	t.Helper()
	p.stop(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if rnd != nil {
		err := filepath.WalkDir(p.live, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			var st syscall.Stat_t
			if err := syscall.Stat(path, &st); err != nil {
				return err
			}
			pages := p.dirty[st.Ino]
			for off := range pages {
				if rnd.IntN(2) == 0 {
					delete(pages, off)
				}
			}
			return p.persist(path, st.Ino, false)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(p.live); err != nil {
		t.Fatal(err)
	}
	if err := scratch.Copy(p.live, p.durable); err != nil {
		t.Fatal(err)
	}
	p.dirty, p.fault, p.calls = map[uint64]map[int64]bool{}, nil, 0
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}

// Clear removes everything. No file may be open.
func (p *FS) Clear(t testing.TB) {
	t.Helper()
	p.Fail(nil)
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(p.Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// persist copies the dirty pages of a live file to its durable twin, and its length.
func (p *FS) persist(live string, ino uint64, length bool) error {
	twin := p.durable + strings.TrimPrefix(live, p.live)
	from, err := os.Open(live)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(twin, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	buf := make([]byte, page)
	for off := range p.dirty[ino] {
		n, err := from.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return err
		}
		if _, err := to.WriteAt(buf[:n], off); err != nil {
			return err
		}
	}
	delete(p.dirty, ino)
	if !length {
		return nil
	}
	st, err := from.Stat()
	if err != nil {
		return err
	}
	return to.Truncate(st.Size())
}

// node mirrors every change of names at once.
type node struct {
	*fs.LoopbackNode
	p *FS
}

func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{child.(*fs.LoopbackNode), n.p}
}

func (n *node) path(name string) string { return filepath.Join(n.p.live, n.Path(n.Root()), name) }
func (n *node) twin(name string) string { return filepath.Join(n.p.durable, n.Path(n.Root()), name) }

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if e := n.p.errno(Mkdir, n.path(name)); e != 0 {
		return nil, e
	}
	in, e := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if e == 0 {
		e = fs.ToErrno(os.MkdirAll(n.twin(name), 0o700))
	}
	return in, e
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	if e := n.p.errno(Remove, n.path(name)); e != 0 {
		return e
	}
	e := n.LoopbackNode.Unlink(ctx, name)
	if e == 0 {
		_ = os.Remove(n.twin(name))
	}
	return e
}

func (n *node) Rmdir(ctx context.Context, name string) syscall.Errno {
	if e := n.p.errno(Rmdir, n.path(name)); e != 0 {
		return e
	}
	e := n.LoopbackNode.Rmdir(ctx, name)
	if e == 0 {
		_ = os.RemoveAll(n.twin(name))
	}
	return e
}

func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string,
	flags uint32) syscall.Errno {
	if e := n.p.errno(Rename, n.path(name)); e != 0 {
		return e
	}
	to := filepath.Join(n.p.durable, parent.EmbeddedInode().Path(n.Root()), newName)
	e := n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
	if e == 0 {
		e = fs.ToErrno(os.Rename(n.twin(name), to))
	}
	return e
}

func (n *node) Setattr(ctx context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if e := n.p.errno(Truncate, n.path("")); e != 0 {
		return e
	}
	return n.LoopbackNode.Setattr(ctx, nil, in, out)
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode,
	fs.FileHandle, uint32, syscall.Errno) {
	if e := n.p.errno(Create, n.path(name)); e != 0 {
		return nil, nil, 0, e
	}
	in, fh, _, e := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if e != 0 {
		return in, fh, 0, e
	}
	if f, ok := fh.(fs.FileReleaser); ok {
		f.Release(ctx)
	}
	if f, err := os.OpenFile(n.twin(name), os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return in, nil, 0, fs.ToErrno(err)
	} else if err := f.Close(); err != nil {
		return in, nil, 0, fs.ToErrno(err)
	}
	h, e := n.p.open(n.path(name), flags&^uint32(os.O_CREATE|os.O_EXCL|os.O_TRUNC))
	return in, h, fuse.FOPEN_DIRECT_IO, e
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, e := n.p.open(n.path(""), flags)
	return h, fuse.FOPEN_DIRECT_IO, e
}

func (p *FS) open(path string, flags uint32) (*file, syscall.Errno) {
	f, err := os.OpenFile(path, int(flags)&(os.O_RDONLY|os.O_WRONLY|os.O_RDWR|os.O_TRUNC), 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	return &file{p: p, f: f, path: path, ino: st.Ino, sync: flags&syscall.O_SYNC != 0}, 0
}

// file has no more methods than these, so the kernel cannot pass it by.
type file struct {
	p    *FS
	f    *os.File
	path string // when it was opened; what is synced here is never renamed while open
	ino  uint64
	sync bool
}

func (h *file) Read(_ context.Context, dst []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := h.f.ReadAt(dst, off)
	if err != nil && err != io.EOF {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dst[:n]), 0
}

func (h *file) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	switch h.p.ask(Write, h.path) {
	case EIO:
		return 0, syscall.EIO
	case Full:
		return 0, syscall.ENOSPC
	case Short:
		data = data[:len(data)/2]
	}
	h.p.mu.Lock()
	n, err := h.f.WriteAt(data, off)
	pages := h.p.dirty[h.ino]
	if pages == nil {
		pages = map[int64]bool{}
		h.p.dirty[h.ino] = pages
	}
	for at := off / page * page; at < off+int64(n); at += page {
		pages[at] = true
	}
	h.p.mu.Unlock()
	if err == nil && h.sync {
		return uint32(n), h.Fsync(ctx, 0)
	}
	return uint32(n), fs.ToErrno(err)
}

func (h *file) Fsync(context.Context, uint32) syscall.Errno {
	fault := h.p.ask(Sync, h.path)
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	switch fault {
	case EIO:
		delete(h.p.dirty, h.ino)
		return syscall.EIO
	case Lie:
		return 0
	}
	return fs.ToErrno(h.p.persist(h.path, h.ino, true))
}

// Allocate makes a file longer, with zeros. The length is durable after a sync.
func (h *file) Allocate(_ context.Context, off, size uint64, _ uint32) syscall.Errno {
	switch h.p.ask(Write, h.path) {
	case EIO:
		return syscall.EIO
	case Full, Short:
		return syscall.ENOSPC
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	st, err := h.f.Stat()
	if err == nil && st.Size() < int64(off+size) {
		err = h.f.Truncate(int64(off + size))
	}
	return fs.ToErrno(err)
}

func (h *file) Flush(context.Context) syscall.Errno { return 0 }

func (h *file) Release(context.Context) syscall.Errno { return fs.ToErrno(h.f.Close()) }
