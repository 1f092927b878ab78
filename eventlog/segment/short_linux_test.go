package segment

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"troupe/internal/powerfs"
)

// TestShortWrite: the disk is full in the middle of the last record of a segment, and then has room. Nothing of that
// record is left behind the shorter one that takes its place, so the sealed file is the one that was written, also
// after a loss of power.
func TestShortWrite(t *testing.T) {
	p := powerfs.Mount(t)
	o := Options{Dir: p.Dir + "/g", Size: small}
	s := must2(Open(o))
	s.noRoom = true // nothing is allocated ahead, so the write itself meets the full disk
	n := uint64(0)
	for s.size < small-400 { // a record has at most 317 bytes, so the segment is not full then
		n++
		fill(t, s, n, n)
	}
	full := false
	p.Fail(func(op powerfs.Op) powerfs.Fault {
		if op.Kind != powerfs.Write || !strings.HasSuffix(op.Name, segmentSuffix) {
			return powerfs.None
		}
		if !full {
			full = true
			return powerfs.Short
		}
		return powerfs.Full
	})
	if _, err := s.Append(1, Batch, make([]byte, 3000), []byte("the end")); !errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*SyncError)) {
		t.Fatalf("a full disk: %v", err)
	}
	p.Fail(nil)
	fill(t, s, n+1, n+40)
	if len(s.pieces) < 2 {
		t.Fatal("nothing was sealed")
	}
	same(t, s, 1, n+40)
	o.Acked = acked(s)
	if err := s.closeFiles(); err != nil {
		t.Fatal(err)
	}
	p.Lose(t, nil)
	s, found, err := Open(o)
	if err != nil || len(found.Rebuilt) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	same(t, s, 1, n+40)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
