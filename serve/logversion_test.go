package serve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestLogVersion: an empty log begins with version 2; a log of version 1 is raised once, by one record; a
// server that is asked for version 1 keeps it and refuses to go back.
func TestLogVersion(t *testing.T) {
	ctx := context.Background()
	keys := eventlog.IDKeys{Keys: map[byte][]byte{0: []byte("0123456789abcdef")}}
	start := func(log eventlog.Log, version uint16) (*Server, error) {
		return Open(ctx, Options{Dir: t.TempDir(), Log: log, Keys: keys, SnapshotAfter: -1, SnapshotEvery: -1,
			Committer: eventlog.CommitterOptions{Version: version}})
	}
	serveOnce := func(log eventlog.Log, version uint16) {
		t.Helper()
		s, err := start(log, version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.append(ctx, &eventlog.Checkpoint{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// batches lists the versions of the entries; with * where an entry raises the log.
	batches := func(log eventlog.Log) (list string) {
		t.Helper()
		info, err := log.Info(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for d, err := range eventlog.Replay(ctx, log, eventlog.NewChain(0, 1), info.Last) {
			if err != nil {
				t.Fatal(err)
			}
			list += string(rune('0' + d.Version))
			for _, r := range d.Events() {
				if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.RaiseVersion && c.Version == 2 {
					list += "*"
				}
			}
		}
		return list
	}
	fresh := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	serveOnce(fresh, 0)
	if got := batches(fresh); got != "2" {
		t.Errorf("an empty log: %s", got)
	}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	for range 2 {
		serveOnce(log, 1)
	}
	if got := batches(log); got != "11" {
		t.Errorf("a log that is kept at version 1: %s", got)
	}
	for range 2 {
		serveOnce(log, 0)
	}
	if got := batches(log); got != "112*22" {
		t.Errorf("a log that is raised: %s", got)
	}
	if _, err := start(log, 1); err == nil || !strings.Contains(err.Error(), "log version 1 was asked for, the log is of version 2") {
		t.Errorf("back to version 1: %v", err)
	}
	if _, err := start(log, 3); err == nil || !strings.Contains(err.Error(), "log version 3") {
		t.Errorf("a version of the future: %v", err)
	}
	// A record that version 1 does not have is refused.
	s, err := start(eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	_, err = s.append(ctx, &eventlog.Checkpoint{Seq: 1, Node: "a"})
	var e *Error
	if !errors.As(err, &e) || e.Code != Conflict || !errors.Is(err, eventlog.ErrVersion) {
		t.Errorf("a new field in version 1: %v", err)
	}
}
