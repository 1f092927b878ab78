package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// singleLog makes the log of a single machine with n entries, of which one is stored twice.
func singleLog(t *testing.T, dir string, n int) *Disk {
	t.Helper()
	l, err := OpenDisk(t.Context(), dir, DiskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := newCommitter(t, l, CommitterOptions{})
	for i := range n - 1 {
		if _, err := c.Append(t.Context(), event(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := must(l.Get(t.Context(), 0, uint64(n-1)))
	if _, _, err := l.Append(t.Context(), 0, "again", last.Data); err != nil {
		t.Fatal(err)
	}
	return l
}

// soleNode is a node of a cluster that is alone.
func soleNode(t *testing.T, dir string) *Node {
	t.Helper()
	n, err := StartNode(t.Context(), NodeOptions{Dir: dir, Cluster: "c", Name: "a", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// sameEntries compares two logs byte by byte.
func sameEntries(t *testing.T, a, b Log, last uint64) {
	t.Helper()
	for seq := uint64(1); seq <= last; seq++ {
		x, err1 := a.Get(t.Context(), 0, seq)
		y, err2 := b.Get(t.Context(), 0, seq)
		if err1 != nil || err2 != nil || !bytes.Equal(x.Data, y.Data) {
			t.Fatalf("entry %d: %d and %d bytes, errors %v, %v", seq, len(x.Data), len(y.Data), err1, err2)
		}
	}
}

// incomplete fails when a node opens a log whose import is not complete. The engine may answer late.
func incomplete(t *testing.T, node *Node) {
	t.Helper()
	for wait := 200 * time.Millisecond; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := OpenStream(ctx, node.Conn(), StreamOptions{Await: true})
		cancel()
		switch {
		case err == nil || wait > time.Minute:
			t.Fatalf("a log whose import is not complete: %v", err)
		case strings.Contains(err.Error(), "not complete"):
			return
		}
	}
}

// TestImportLog: an import that was interrupted goes on; nodes wait for its end; another log, or one that has gone on
// since, is refused; and the entries come back by a Builder.
func TestImportLog(t *testing.T) {
	beside(t)
	ctx := t.Context()
	const n = 300
	dir := t.TempDir()
	from := singleLog(t, dir, n)
	node := soleNode(t, t.TempDir())
	js := must(jetstream.New(node.Conn()))
	want := streamConfig(0, 0, streamDuplicates)
	want.FirstSeq, want.Metadata = 1, map[string]string{importOf: from.ID().String()}
	s, _, err := importStream(ctx, js, want, StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	half := &Stream{nc: node.Conn(), js: js, opt: StreamOptions{Logf: t.Logf}, streams: []jetstream.Stream{s}, seen: make([]atomic.Uint64, 1)}
	half.ctx, half.stop = context.WithCancel(ctx)
	if err := half.copyEntries(ctx, from, 1, 100, func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	incomplete(t, node)
	other := singleLog(t, t.TempDir(), 20)
	if _, err := ImportLog(ctx, node.Conn(), other, nil, nil, StreamOptions{}, nil); err == nil || !strings.Contains(err.Error(), "has a log already") {
		t.Errorf("another log: %v", err)
	}
	for range 2 { // the second time nothing is left to do
		if info, err := ImportLog(ctx, node.Conn(), from, nil, nil, StreamOptions{}, nil); err != nil || info.Last != n {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	l, err := OpenStream(ctx, node.Conn(), StreamOptions{Await: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Imported() != n {
		t.Errorf("imported up to %d, want %d", l.Imported(), n)
	}
	sameEntries(t, from, l, n)
	c := newCommitter(t, from, CommitterOptions{})
	if _, err := c.Append(ctx, event(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportLog(ctx, node.Conn(), from, nil, nil, StreamOptions{}, nil); err == nil || !strings.Contains(err.Error(), "it has gone on") {
		t.Errorf("a log that has gone on: %v", err)
	}

	// Back, with an interruption.
	back := t.TempDir()
	for _, end := range []uint64{120, n} {
		b, err := OpenBuilder(ctx, back, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		for seq := b.Last() + 1; seq <= end; seq++ {
			if err := b.Add(ctx, must(l.Get(ctx, 0, seq))); err != nil {
				t.Fatal(err)
			}
		}
		if !b.Has(ctx, must(l.Get(ctx, 0, end))) {
			t.Errorf("entry %d is not there", end)
		}
		if end == n {
			if err := b.Add(ctx, must(l.Get(ctx, 0, 5))); err == nil {
				t.Error("an entry that does not fit was added")
			}
			if err := b.Finish(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Verify(back, nil)
	if err != nil || !r.OK() || r.Shards[0].Last != n || r.Shards[0].Repeats != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := OpenBuilder(ctx, back, nil, 1); !errors.As(err, new(*OtherKindError)) {
		t.Errorf("a builder in a directory with a log: %v", err)
	}
	works(t, back)
}

// TestImportTrimmed: a log that was trimmed is imported with its base. An import that was interrupted goes on, and has no base before all
// entries are there; afterwards the node has both, also after a restart.
func TestImportTrimmed(t *testing.T) {
	beside(t)
	ctx := t.Context()
	const first, n = 50, 120
	from := singleLog(t, t.TempDir(), n)
	if err := from.Trim(ctx, 0, first-1); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	node := soleNode(t, dir)
	state := &ImportBase{Seq: 60, State: bytes.Repeat([]byte("state"), basePiece/4)}
	for _, bad := range []*ImportBase{nil, {Seq: first - 2, State: state.State}, {Seq: n + 1, State: state.State}, {Seq: 60}} {
		if _, err := ImportLog(ctx, node.Conn(), from, nil, bad, StreamOptions{}, nil); err == nil || !strings.Contains(err.Error(), "needs the state after one of them") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	broken, cancel := context.WithCancel(ctx)
	if _, err := ImportLog(broken, node.Conn(), from, nil, state, StreamOptions{}, func(uint64, uint64) { cancel() }); err == nil {
		t.Error("the import was not interrupted")
	}
	incomplete(t, node)
	if info, err := ImportLog(ctx, node.Conn(), from, nil, state, StreamOptions{}, nil); err != nil || info.First != first || info.Last != n {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	node = soleNode(t, dir)
	l, err := OpenStream(ctx, node.Conn(), StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := l.ImportedBase()
	if info := must(l.Info(ctx, 0)); info.First != first || info.Last != n || l.Imported() != n || b.Seq != state.Seq {
		t.Errorf("%+v, imported up to %d, base %+v", info, l.Imported(), b)
	}
	if list := must(l.Bases(ctx)); len(list) != 1 || list[0] != b {
		t.Errorf("stored are %+v, the stream says %+v", list, b)
	}
	if got := must(l.GetBase(ctx, b)); !bytes.Equal(got, state.State) {
		t.Error("the base is another one")
	}
	for seq := uint64(first); seq <= n; seq++ {
		if x, y := must(from.Get(ctx, 0, seq)), must(l.Get(ctx, 0, seq)); !bytes.Equal(x.Data, y.Data) {
			t.Errorf("entry %d differs", seq)
		}
	}
	for _, text := range []string{"60 5", "0 5 00", "60 5 zz", "60 5 00", "60 0 " + strings.Repeat("0", 64)} {
		if b, err := importedBase(jetstream.StreamConfig{Metadata: map[string]string{importBase: text}}); err == nil {
			t.Errorf("%q: %+v", text, b)
		}
	}
}

// TestCheckReplica: the files of a stopped node are read as they are; what is missing at the end is no damage, a bit
// that was flipped is.
func TestCheckReplica(t *testing.T) {
	beside(t)
	ctx := t.Context()
	dir := t.TempDir()
	from := singleLog(t, t.TempDir(), 200)
	node := soleNode(t, dir)
	if _, err := ImportLog(ctx, node.Conn(), from, nil, nil, StreamOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckReplica(dir, nil, nil); !errors.As(err, new(*LockedError)) {
		t.Errorf("a node that runs: %v", err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	read := 0
	r, err := CheckReplica(dir, nil, func(e Entry) error { read++; return nil })
	if err != nil || r.First != 1 || r.Last != 200 || read != 200 || r.Damage != nil {
		t.Fatalf("%+v, %v, %d entries", r, err, read)
	}
	names, _, err := blockFiles(filepath.Join(streamDir(dir, 0), "msgs"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	whole := must(os.ReadFile(names[0]))
	write := func(b []byte) {
		if err := os.WriteFile(names[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole[:len(whole)-50])
	if r, err := CheckReplica(dir, nil, nil); err != nil || r.Last != 199 || r.Damage != nil {
		t.Errorf("cut short: %+v, %v", r, err)
	}
	for at := 100; at < len(whole)-200; at += sized(1001, 101) {
		b := bytes.Clone(whole)
		b[at] ^= 4
		write(b)
		if r, err := CheckReplica(dir, nil, nil); err != nil || len(r.Damage) == 0 {
			t.Errorf("byte %d: %+v, %v", at, r, err)
		}
	}
	o := NodeOptions{Dir: dir, Cluster: "c", Name: "a"}
	if n, err := StartNode(ctx, o); !errors.As(err, new(*DamagedReplicaError)) {
		t.Errorf("a node with damaged files starts: %v", err)
		_ = n.Close()
	}
	refused := errors.New("no")
	o.Damaged = func(e *DamagedReplicaError) error { return fmt.Errorf("%w: %w", refused, e) }
	if _, err := StartNode(ctx, o); !errors.Is(err, refused) {
		t.Errorf("asked, and refused: %v", err)
	}
}
