//go:build linux

package eventlog

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
)

// powerFS is a pass-through file system that knows what a loss of power takes away. Beside the live
// tree it keeps a durable one: bytes get there when their file is synced (fsync, O_SYNC), names at
// once, which is kinder than real disks and enough to see who does not sync. Lose replaces the live
// tree by the durable one.
type powerFS struct {
	live, durable, mount string
	server               *fuse.Server

	mu     sync.Mutex
	dirty  map[uint64]map[int64]bool // by inode of the live file: pages that are not durable
	syncs  int                       // of block files
	failAt int                       // this sync and all later ones of the same file answer EIO, 0 for none
	failed uint64
	writes int // to block files
	fullAt int // this write stores half and all later ones nothing: ENOSPC, 0 for none
}

const page = 4096

func mountPower(t *testing.T) *powerFS {
	t.Helper()
	base := t.TempDir()
	p := &powerFS{live: base + "/live", durable: base + "/durable", mount: base + "/mount", dirty: map[uint64]map[int64]bool{}}
	for _, d := range []string{p.live, p.durable, p.mount} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.start(); err != nil {
		t.Skipf("no FUSE on this machine (%v); TestFaultAtEveryStep loses power in memory", err)
	}
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *powerFS) start() error {
	var st syscall.Stat_t
	if err := syscall.Stat(p.live, &st); err != nil {
		return err
	}
	root := &fs.LoopbackRoot{Path: p.live, Dev: uint64(st.Dev)}
	node := &powerNode{&fs.LoopbackNode{RootData: root}, p}
	root.RootNode = node
	server, err := fs.Mount(p.mount, node, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "power"}})
	p.server = server
	return err
}

func (p *powerFS) stop(t *testing.T) {
	t.Helper()
	for i := 0; ; i++ {
		err := p.server.Unmount()
		if err == nil {
			break
		}
		if i == 100 {
			t.Fatalf("unmount: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.server.Wait()
}

// lose loses power. With rnd, a random half of the pages that were not synced got to the disk by
// themselves.
func (p *powerFS) lose(t *testing.T, rnd *rand.Rand) {
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
	if err := os.CopyFS(p.live, os.DirFS(p.durable)); err != nil {
		t.Fatal(err)
	}
	p.dirty, p.failAt, p.failed, p.fullAt = map[uint64]map[int64]bool{}, 0, 0, 0
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}

// persist copies the dirty pages of a live file to its durable twin, and its length.
func (p *powerFS) persist(live string, ino uint64, length bool) error {
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

// powerNode mirrors every change of names at once.
type powerNode struct {
	*fs.LoopbackNode
	p *powerFS
}

func (n *powerNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &powerNode{child.(*fs.LoopbackNode), n.p}
}

func (n *powerNode) path(name string) string {
	return filepath.Join(n.p.live, n.Path(n.Root()), name)
}
func (n *powerNode) twin(name string) string {
	return filepath.Join(n.p.durable, n.Path(n.Root()), name)
}

func (n *powerNode) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	in, e := n.LoopbackNode.Mkdir(ctx, name, mode, out)
	if e == 0 {
		e = fs.ToErrno(os.MkdirAll(n.twin(name), 0o700))
	}
	return in, e
}

func (n *powerNode) Unlink(ctx context.Context, name string) syscall.Errno {
	e := n.LoopbackNode.Unlink(ctx, name)
	if e == 0 {
		_ = os.Remove(n.twin(name))
	}
	return e
}

func (n *powerNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	e := n.LoopbackNode.Rmdir(ctx, name)
	if e == 0 {
		_ = os.RemoveAll(n.twin(name))
	}
	return e
}

func (n *powerNode) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to := filepath.Join(n.p.durable, parent.EmbeddedInode().Path(n.Root()), newName)
	e := n.LoopbackNode.Rename(ctx, name, parent, newName, flags)
	if e == 0 {
		e = fs.ToErrno(os.Rename(n.twin(name), to))
	}
	return e
}

func (n *powerNode) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return n.LoopbackNode.Setattr(ctx, nil, in, out)
}

func (n *powerNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
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

func (n *powerNode) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, e := n.p.open(n.path(""), flags)
	return h, fuse.FOPEN_DIRECT_IO, e
}

func (p *powerFS) open(path string, flags uint32) (*powerFile, syscall.Errno) {
	f, err := os.OpenFile(path, int(flags)&(os.O_RDONLY|os.O_WRONLY|os.O_RDWR|os.O_TRUNC), 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	return &powerFile{p: p, f: f, path: path, ino: st.Ino, sync: flags&syscall.O_SYNC != 0}, 0
}

// powerFile has no more methods than these, so the kernel cannot pass it by.
type powerFile struct {
	p    *powerFS
	f    *os.File
	path string // when it was opened; block files and witnesses are never renamed while open
	ino  uint64
	sync bool
}

func (h *powerFile) Read(_ context.Context, dst []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := h.f.ReadAt(dst, off)
	if err != nil && err != io.EOF {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dst[:n]), 0
}

func (h *powerFile) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	h.p.mu.Lock()
	if strings.HasSuffix(h.path, ".blk") {
		h.p.writes++
		if at := h.p.fullAt; at > 0 && h.p.writes > at {
			h.p.mu.Unlock()
			return 0, syscall.ENOSPC
		} else if h.p.writes == at {
			data = data[:len(data)/2]
		}
	}
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

func (h *powerFile) Fsync(context.Context, uint32) syscall.Errno {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	block := strings.HasSuffix(h.path, ".blk")
	if block {
		h.p.syncs++
	}
	if block && h.p.failAt > 0 && h.p.syncs >= h.p.failAt && (h.p.failed == 0 || h.p.failed == h.ino) {
		h.p.failed = h.ino
		return syscall.EIO
	}
	return fs.ToErrno(h.p.persist(h.path, h.ino, true))
}

func (h *powerFile) Flush(context.Context) syscall.Errno { return 0 }

func (h *powerFile) Release(context.Context) syscall.Errno { return fs.ToErrno(h.f.Close()) }

// TestPowerLoss: a process under load is killed and everything that was not synced is gone (every
// second time a random half of the pages survives, so that files are torn). What was acknowledged is
// there, exactly once, and the next process opens the log. TROUPE_POWER_ROUNDS sets the rounds.
func TestPowerLoss(t *testing.T) {
	p := mountPower(t)
	dir := p.mount + "/data"
	h := newHistory()
	rnd := rand.New(rand.NewPCG(11, 11))
	n, total, stored := rounds("TROUPE_POWER_ROUNDS", 8), 0, 0
	for round := range n {
		c := startChild(t, "load", dir, int64(round)<<32)
		time.Sleep(time.Duration(20+rnd.IntN(100)) * time.Millisecond)
		acked, failed := h.note(t, c.kill())
		if len(failed) > 0 {
			t.Fatalf("round %d: %v", round, failed)
		}
		total += acked
		if round%2 == 0 {
			p.lose(t, nil)
		} else {
			p.lose(t, rnd)
		}
		var err error
		if stored, err = h.checkFiles(dir); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	works(t, dir)
	t.Logf("%d rounds: %d acknowledged, %d stored without an answer, 0 lost, 0 doubled", n, total, stored-total)
	if total < 10*n {
		t.Errorf("only %d events", total)
	}
}

// TestPowerLossControl: the same with an engine that does not sync. It must lose acknowledged
// events, or the harness does not work.
func TestPowerLossControl(t *testing.T) {
	p := mountPower(t)
	dir := p.mount + "/data"
	h := newHistory()
	c := startChild(t, "nosync", dir, 0)
	time.Sleep(100 * time.Millisecond)
	acked, _ := h.note(t, c.kill())
	p.lose(t, nil)
	if acked == 0 {
		t.Fatal("nothing was acknowledged")
	}
	if n, err := h.checkFiles(dir); err == nil {
		t.Errorf("%d acknowledged without a sync, and all %d are there", acked, n)
	} else {
		t.Logf("%d acknowledged; then: %v", acked, err)
	}
}

// TestDiskFails: a sync answers EIO, or the disk is full in the middle of a write. From then on
// nothing is acknowledged, callers learn it at once and not by a timeout, and after a loss of power
// what was acknowledged is there and the log works.
func TestDiskFails(t *testing.T) {
	p := mountPower(t)
	dir := p.mount + "/data"
	for round, c := range []struct {
		what string
		at   int
	}{{"sync", 1}, {"sync", 2}, {"sync", 7}, {"sync", 40}, {"write", 1}, {"write", 5}, {"write", 30}} {
		h := newHistory()
		p.mu.Lock()
		p.syncs, p.writes = 0, 0
		if c.what == "sync" {
			p.failAt = c.at
		} else {
			p.fullAt = c.at
		}
		p.mu.Unlock()
		start := time.Now()
		child := startChild(t, "load", dir, int64(round)<<32)
		var lines []string
		for line := range child.lines { // it ends by itself: every caller fails
			lines = append(lines, line)
		}
		_ = child.cmd.Wait()
		took := time.Since(start)
		if took > 10*time.Second {
			t.Errorf("%s %d: it took %v", c.what, c.at, took)
		}
		acked, failed := h.note(t, lines)
		if len(failed) != 16 {
			t.Errorf("%s %d: %d callers failed: %v", c.what, c.at, len(failed), failed)
		}
		unknown := 0
		for _, line := range failed {
			switch rest := strings.SplitN(line, " ", 3)[2]; {
			case strings.HasPrefix(rest, ErrUnknown.Error()):
				unknown++
			case !strings.HasPrefix(rest, ErrStopped.Error()):
				t.Errorf("%s %d: %s", c.what, c.at, line)
			}
		}
		if unknown == 0 {
			t.Errorf("%s %d: nobody was told that his outcome is unknown", c.what, c.at)
		}
		p.lose(t, nil)
		if _, err := h.checkFiles(dir); err != nil {
			t.Errorf("%s %d: %v", c.what, c.at, err)
		}
		works(t, dir)
		t.Logf("%s %d: %d acknowledged, then %d unknown and %d refused after %v", c.what, c.at, acked, unknown, len(failed)-unknown, took.Round(time.Millisecond))
	}
}
