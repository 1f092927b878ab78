package eventlog_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/eventlog"
)

// TestBases: a base comes back as it was stored, also one that was written twice; one that lacks a piece, or has other bytes, is an error; old ones go.
func TestBases(t *testing.T) {
	eventlog.Beside(t)
	ctx := t.Context()
	n, err := eventlog.StartNode(ctx, eventlog.NodeOptions{Dir: filepath.Join(t.TempDir(), "log"), Cluster: "c", Name: "a", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l, err := eventlog.OpenStream(ctx, n.Conn(), eventlog.StreamOptions{Create: true, MaxBytes: 1 << 24, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if list, err := l.Bases(ctx); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	var stored []eventlog.Base
	for i, size := range []int{0, 1, 512 << 10, 1<<20 + 7} {
		data := bytes.Repeat([]byte{byte(i + 1)}, size)
		b := eventlog.Base{Seq: uint64(10 * (i + 1)), Record: 7, Size: int64(size), Sum: sha256.Sum256(data)}
		for range 2 {
			if err := l.PutBase(ctx, b, data); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := l.GetBase(ctx, b); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, size)
		}
		stored = append(stored, b)
	}
	list, err := l.Bases(ctx)
	if err != nil || len(list) != 4 || list[0] != stored[3] || list[3] != stored[0] {
		t.Fatalf("%+v, %v", list, err)
	}
	other := stored[3]
	other.Sum[0] ^= 1
	if _, err := l.GetBase(ctx, other); err == nil || !strings.Contains(err.Error(), "the log says") {
		t.Errorf("another base: %v", err)
	}
	js, err := jetstream.New(n.Conn())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, "TROUPE_BASE")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config; got.Storage != jetstream.FileStorage || got.MaxMsgsPerSubject != 1 {
		t.Errorf("%+v", got)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject("troupe.base.40.2")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.GetBase(ctx, stored[3]); !errors.Is(err, eventlog.ErrNotFound) || !strings.Contains(err.Error(), "piece 2") {
		t.Errorf("a piece is gone: %v", err)
	}
	if _, err := js.Publish(ctx, "troupe.base.5.0", []byte("of a node that was killed")); err != nil {
		t.Fatal(err)
	}
	if err := l.DropBases(ctx, 30); err != nil {
		t.Fatal(err)
	}
	if list, err := l.Bases(ctx); err != nil || len(list) != 2 || list[1] != stored[2] {
		t.Errorf("%+v, %v", list, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("troupe.base.5.>"))
	if err != nil || len(info.State.Subjects) != 0 {
		t.Errorf("pieces without a head stay: %+v, %v", info.State.Subjects, err)
	}
}

// TestStreamLimit: the limit of a log grows with the largest that a node is started with, and never shrinks. A full log goes on.
func TestStreamLimit(t *testing.T) {
	ctx := t.Context()
	n, err := eventlog.StartNode(ctx, eventlog.NodeOptions{Dir: filepath.Join(t.TempDir(), "log"), Cluster: "c", Name: "a", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	entry := make([]byte, 10_000)
	for i, c := range []struct{ ask, want int64 }{{1 << 15, 1 << 15}, {1 << 14, 1 << 15}, {1 << 17, 1 << 17}, {1 << 16, 1 << 17}} {
		l, err := eventlog.OpenStream(ctx, n.Conn(), eventlog.StreamOptions{Create: i == 0, MaxBytes: c.ask, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := l.Info(ctx, 0); err != nil || info.Limit != uint64(c.want) {
			t.Errorf("start %d asks for %d bytes: limit %d, want %d, error %v", i, c.ask, info.Limit, c.want, err)
		}
		k := 0
		for ; err == nil && k < 4; k++ {
			_, _, err = l.Append(ctx, 0, strconv.Itoa(10*i+k), entry)
		}
		if full := errors.Is(err, eventlog.ErrFull); full != (c.want == 1<<15) {
			t.Errorf("start %d with %d bytes: error %v after %d entries", i, c.want, err, k)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
