package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/highwayhash"

	"troupe/timing"
)

// The engine keeps a snapshot of each of its groups of replicas, and does not start with one that is damaged. It is the
// state of the group up to an entry of the group's own log, up to which all is committed. So a node whose snapshot is
// damaged may take that of another node where it is as new or newer: the engine itself does the same with what a leader
// sends. An older one would lack what the node has vouched for.

// groupSnapshot names the snapshot of a group: up to which entry of its own log, and of which term that is.
type groupSnapshot struct {
	Group string `json:"group"`
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

func (s groupSnapshot) base() string { return fmt.Sprintf("snap.%d.%d", s.Term, s.Index) }

// since reports whether s is as new as t or newer.
func (s groupSnapshot) since(t groupSnapshot) bool { return s.Term >= t.Term && s.Index >= t.Index }

func (s groupSnapshot) compare(t groupSnapshot) int {
	return cmp.Or(cmp.Compare(s.Term, t.Term), cmp.Compare(s.Index, t.Index))
}

// snapshotFile reads the name of a file.
func snapshotFile(name string) (s groupSnapshot, ok bool) {
	s.Group = filepath.Base(filepath.Dir(filepath.Dir(name)))
	n, err := fmt.Sscanf(filepath.Base(name), "snap.%d.%d", &s.Term, &s.Index)
	return s, err == nil && n == 2 && s.base() == filepath.Base(name)
}

// whole reports whether b is the snapshot that s names.
func (s groupSnapshot) whole(b []byte) (bool, error) {
	key := sha256.Sum256([]byte(s.Group))
	hh, err := highwayhash.New64(key[:])
	if err != nil {
		return false, err
	}
	n := len(b) - blockHash
	if n < 20 || binary.LittleEndian.Uint64(b) != s.Term || binary.LittleEndian.Uint64(b[8:]) != s.Index {
		return false, nil
	}
	hh.Write(b[:n])
	return bytes.Equal(hh.Sum(nil), b[n:]), nil
}

// snapshots returns the newest snapshot of each group by the name of its file; of one group when it is named.
func snapshots(dir, group string) (map[string]groupSnapshot, error) {
	names, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "_js_", "*", "snapshots", "snap.*"))
	if err != nil {
		return nil, err
	}
	newest := map[string]string{} // by directory
	out := map[string]groupSnapshot{}
	for _, name := range names {
		s, ok := snapshotFile(name)
		if !ok || group != "" && s.Group != group { // the engine removes what it cannot read the name of
			continue
		}
		at := filepath.Dir(name)
		if old, ok := newest[at]; ok {
			if s.compare(out[old]) < 0 {
				continue
			}
			delete(out, old)
		}
		newest[at], out[name] = name, s
	}
	return out, nil
}

// readSnapshot returns a snapshot when the file is whole. One that is being written is read again; one in whose place
// is a newer one is nil without an error.
func readSnapshot(name string, s groupSnapshot) (b []byte, damaged bool, err error) {
	for try := range snapshotTries {
		if try > 0 {
			_ = (timing.Clock{}).Sleep(context.Background(), snapshotPause) // the file is the machine's
		}
		if b, err = os.ReadFile(name); errors.Is(err, os.ErrNotExist) {
			return nil, false, nil
		} else if err != nil {
			return nil, false, err
		}
		if ok, err := s.whole(b); ok || err != nil {
			return b, false, err
		}
	}
	return nil, true, nil
}

const (
	snapshotTries = 4
	snapshotPause = 100 * time.Millisecond
)

// checkSnapshots checks the engine's snapshots of its groups of replicas.
func checkSnapshots(dir string) (file, what string, err error) {
	all, err := snapshots(dir, "")
	for _, name := range slices.Sorted(maps.Keys(all)) { // the same file each time
		_, damaged, rerr := readSnapshot(name, all[name])
		if err = errors.Join(err, rerr); err == nil && damaged {
			return name, "it does not have the checksum at its end", nil
		}
	}
	return "", "", err
}

// wholeSnapshot returns the newest whole snapshot of a group that is as new as ask or newer, nil when there is none.
func wholeSnapshot(dir string, ask groupSnapshot) (s groupSnapshot, b []byte, err error) {
	all, err := snapshots(dir, ask.Group)
	for name, x := range all {
		if !x.since(ask) {
			continue
		}
		c, _, rerr := readSnapshot(name, x)
		if rerr != nil {
			return s, nil, rerr
		}
		if c != nil && len(c) <= MaxBatch {
			return x, c, nil
		}
	}
	return s, nil, err
}

// mendSnapshots puts the snapshots of other nodes into the places of those that are damaged here. No engine runs. It
// returns how many, and an error for one that no node has.
func (n *Node) mendSnapshots(ctx context.Context) (mended int, err error) {
	all, err := snapshots(n.dir, "")
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		_, damaged, err := readSnapshot(name, s)
		if err == nil && damaged {
			err = n.mendSnapshot(ctx, name, s)
			if err == nil {
				mended++
			}
		}
		errs = append(errs, err)
	}
	return mended, errors.Join(errs...)
}

// mendSnapshot asks one node after the other.
func (n *Node) mendSnapshot(ctx context.Context, name string, s groupSnapshot) error {
	var asked []string
	for _, node := range n.Peers() {
		a, b, err := n.askEntries(ctx, node, entriesAsk{Snapshot: &s})
		if err != nil {
			n.logf("%s does not say which snapshot it has: %v", node, err)
			continue
		}
		asked = append(asked, node)
		if a.Snapshot == nil || a.Snapshot.Group != s.Group || !a.Snapshot.since(s) {
			continue
		}
		if ok, err := a.Snapshot.whole(b); err != nil {
			return err
		} else if !ok {
			continue
		}
		at := filepath.Dir(name)
		if err := writeMarkerFile(at, a.Snapshot.base(), string(b)); err != nil {
			return err
		}
		if a.Snapshot.base() != filepath.Base(name) {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
		n.logf("the snapshot %s was damaged, and is taken from %s", filepath.Base(name), node)
		return syncDir(at)
	}
	file, err := filepath.Rel(n.dir, name)
	if err != nil {
		file = name
	}
	return &lostSnapshotError{n.name, filepath.ToSlash(file), asked, len(asked) >= n.others()}
}

// lostSnapshotError is why a node does not start: a snapshot of the engine is whole neither here nor at the nodes that
// were asked.
type lostSnapshotError struct {
	node, file string
	asked      []string
	everywhere bool // these were all others
}

// Error says in one line what is wrong, and what to do.
func (e *lostSnapshotError) Error() string {
	text := fmt.Sprintf("the engine does not start with %s, which is damaged, and no other node that answers has it whole",
		e.file)
	if len(e.asked) > 0 {
		text += " or a later one: " + strings.Join(e.asked, ", ")
	}
	return fmt.Sprintf("%s. Start the other nodes and this one at the same time; when the others are a majority: troupe "+
		"cluster rebuild %s", text, e.node)
}

// lostEverywhere is the error of a start without a snapshot that no node has. The engine keeps none of the log's
// entries in it, so they go on in another cluster.
func (n *Node) lostEverywhere(e *lostSnapshotError) error {
	r, err := readReplica(n.dir, n.keys, nil)
	if err != nil {
		return errors.Join(e, err)
	}
	text := fmt.Sprintf("the engine does not start with %s, which is damaged here and at %s, so every node has lost it. "+
		"The log is in other files", e.file, strings.Join(e.asked, " and "))
	if r.Last < r.First {
		return fmt.Errorf("%s, and no entry is whole here: look at the other nodes", text)
	}
	return fmt.Errorf("%s: entries %d to %d are whole here. At the node where these are the most: troupe cluster export "+
		"DIR --data DATA --until %[3]d, and then troupe cluster init --import DIR begins a cluster with them", text,
		r.First, r.Last)
}
