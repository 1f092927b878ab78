package raftnode

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/raftlog"
	"troupe/eventlog/segment"
)

// The base of a trimmed log is a file at each node that has computed it. A node without one takes it from another.

const (
	baseSuffix = ".base"
	basePiece  = 1 << 20
	careFile   = "checks.json"
)

func (n *Node) baseFile(b eventlog.Base) string {
	return filepath.Join(n.opt.Bases, fmt.Sprintf("%d-%d-%x%s", b.Seq, b.Record, b.Sum, baseSuffix))
}

// PutBase implements eventlog.KeepsBases.
func (n *Node) PutBase(_ context.Context, b eventlog.Base, data []byte) error {
	if err := b.Verify(data); err != nil {
		return err
	}
	return writeDurably(n.opt.Bases, filepath.Base(n.baseFile(b)), data)
}

func writeDurably(dir, name string, data []byte) error {
	if err := segment.OS.MkdirAll(dir); err != nil {
		return err
	}
	return errors.Join(segment.WriteFile(segment.OS, filepath.Join(dir, name), data), segment.OS.SyncDir(dir))
}

// ownBases returns the bases at this node, newest first.
func (n *Node) ownBases() (all []eventlog.Base, err error) {
	files, err := os.ReadDir(n.opt.Bases)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		var b eventlog.Base
		name, ok := strings.CutSuffix(f.Name(), baseSuffix)
		parts := strings.Split(name, "-")
		if !ok || len(parts) != 3 {
			continue
		}
		_, err1 := fmt.Sscan(parts[0], &b.Seq)
		_, err2 := fmt.Sscan(parts[1], &b.Record)
		sum, err3 := hex.DecodeString(parts[2])
		info, err4 := f.Info()
		if errors.Join(err1, err2, err3, err4) != nil || len(sum) != len(b.Sum) {
			continue
		}
		b.Sum, b.Size = [len(b.Sum)]byte(sum), info.Size()
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b eventlog.Base) int { return -compare(a.Seq, b.Seq) })
	return all, err
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Bases implements eventlog.KeepsBases: the bases at this node, and those that only others have.
func (n *Node) Bases(ctx context.Context) ([]eventlog.Base, error) {
	all, err := n.ownBases()
	if err != nil {
		return nil, err
	}
	for _, m := range n.peers() {
		within, cancel := context.WithTimeout(ctx, askWithin)
		more, err := get[[]eventlog.Base](within, n, m, question{Do: doBases})
		cancel()
		if err != nil {
			continue
		}
		for _, b := range more {
			if !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b eventlog.Base) int { return -compare(a.Seq, b.Seq) })
	return all, ctx.Err()
}

// peers are the members beside this node.
func (n *Node) peers() []raftlog.Member {
	return slices.DeleteFunc(n.members(), func(m raftlog.Member) bool { return m.ID == n.id })
}

// GetBase implements eventlog.KeepsBases.
func (n *Node) GetBase(ctx context.Context, b eventlog.Base) ([]byte, error) {
	data, err := os.ReadFile(n.baseFile(b))
	if err == nil {
		err = b.Verify(data)
	}
	if err == nil {
		return data, nil
	}
	errs := []error{fmt.Errorf("base of entry %d: %w", b.Seq, eventlog.ErrNotFound)}
	for _, m := range n.peers() {
		if data, err = n.fetchBase(ctx, m, b); err == nil {
			return data, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// fetchBase takes a base from another node. A piece that is short is the last, and nothing is kept behind the size of the base.
func (n *Node) fetchBase(ctx context.Context, from raftlog.Member, b eventlog.Base) (data []byte, err error) {
	for {
		piece, err := n.call(ctx, from, question{Do: doBase, Base: b, At: int64(len(data))})
		if err != nil {
			return nil, err
		}
		data = append(data, piece...)
		if len(piece) < basePiece || int64(len(data)) > b.Size {
			return data, b.Verify(data)
		}
	}
}

// basePiece returns a part of a base at this node.
func (n *Node) basePiece(b eventlog.Base, at int64) ([]byte, error) {
	f, err := os.Open(n.baseFile(b))
	if err != nil {
		return nil, fmt.Errorf("it does not have the base of entry %d", b.Seq)
	}
	defer f.Close()
	piece := make([]byte, basePiece)
	k, err := f.ReadAt(piece, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return piece[:k], nil
}

// DropBases implements eventlog.KeepsBases, for the bases at this node.
func (n *Node) DropBases(_ context.Context, before uint64) error {
	all, err := n.ownBases()
	for _, b := range all {
		if b.Seq < before {
			err = errors.Join(err, os.Remove(n.baseFile(b)))
		}
	}
	return err
}

// Check reads all sealed segments, and fetches the ones that are damaged from other nodes. What is left is in the report.
func (n *Node) Check() (*eventlog.ReplicaReport, error) { return n.Walk(context.Background(), 1) }

// Walk is Check for a share of the time, in (0, 1].
func (n *Node) Walk(ctx context.Context, share float64) (*eventlog.ReplicaReport, error) {
	l := n.log.Load()
	since := n.opt.Clock.Mark()
	done, err := l.Check(ctx, func(int64) error {
		if share < 1 {
			n.opt.Clock.Sleep(ctx, time.Duration(float64(n.opt.Clock.Since(since))*(1/share-1)))
		}
		since = n.opt.Clock.Mark()
		return ctx.Err()
	})
	info, e := l.Info(ctx, 0)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	r := &eventlog.ReplicaReport{First: info.First, Last: info.Last}
	bad := (*segment.DamageError)(nil)
	switch {
	case errors.As(err, &bad):
		r.Damage = []eventlog.Damage{{File: bad.File, Offset: bad.Offset, First: bad.First, Last: bad.Last, What: bad.What}}
	case err != nil:
		return nil, err
	}
	n.note(func(c *eventlog.Care) {
		now := n.opt.Clock.Now()
		if len(done) > 0 {
			c.Repairs, c.Repaired, c.Damage = c.Repairs+uint64(len(done)), now, "a sealed segment was not what was written"
		}
		if len(r.Damage) == 0 {
			c.Verified, c.Entry = now, info.Last
		}
	})
	return r, nil
}

// Repair is Check, and an error where damage is left.
func (n *Node) Repair(ctx context.Context) error {
	r, err := n.Walk(ctx, 1)
	if err == nil && len(r.Damage) > 0 {
		err = errors.New(r.Damage[0].String())
	}
	return err
}

// Care returns what the node did for its files.
func (n *Node) Care() eventlog.Care {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.care
}

// note changes what is known of the files, and keeps it. Without the file nothing is lost but that.
func (n *Node) note(change func(*eventlog.Care)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.care)
	b, err := json.Marshal(n.care)
	if err == nil {
		err = writeDurably(n.opt.Bases, careFile, b)
	}
	if err != nil {
		n.opt.Logf("what a check of the files found is not kept: %v", err)
	}
}

func readCare(dir string) (c eventlog.Care, err error) {
	b, err := os.ReadFile(filepath.Join(dir, careFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, nil
	case err != nil:
		return c, err
	case json.Unmarshal(b, &c) != nil: // an interrupted write
		return eventlog.Care{}, nil
	}
	return c, nil
}
