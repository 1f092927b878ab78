package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func someEntries(first, last, term uint64) (all []*pb.Entry) {
	for i := first; i <= last; i++ {
		id := hashID(fmt.Sprint(i, "/", term))
		all = append(all, &pb.Entry{Index: &i, Term: &term, Data: append(id[:], bytes.Repeat([]byte{byte(i)}, int(i%5)*60)...)})
	}
	return all
}

// sender is a store with more entries, and a snapshot of it.
func sender(t *testing.T) (*store, *pb.Snapshot) {
	t.Helper()
	o := storeOptions{fs: newMemFS(rand.New(rand.NewPCG(1, 1))), dir: "/log", id: 2, size: 700, keep: 20}
	if err := errors.Join(o.fs.MkdirAll(o.dir), createStore(o, people(1, 2), nil)); err != nil {
		t.Fatal(err)
	}
	s := must(openStore(o))
	for _, w := range []*write{{entries: someEntries(3, 20, 2)}, {entries: someEntries(21, 40, 5), applied: 20}, {applied: 40, trim: 15}} {
		if err := s.save(w); err != nil {
			t.Fatal(err)
		}
	}
	s.current.Store(&members{index: 40, conf: &pb.ConfState{Voters: []uint64{1, 2}}})
	return s, must(s.Snapshot())
}

// TestEveryOperation: a process is killed in the middle of each operation on its disk, with and without a loss of power, during writes
// of all kinds. It is started again, writes more, and loses its power. What was durable is there each time. The control does not
// make the names of files durable at a start.
func TestEveryOperation(t *testing.T) {
	from, snap := sender(t)
	play := func(k int, power bool, seed uint64, control bool) (finished bool, err error) {
		fs := newMemFS(rand.New(rand.NewPCG(seed, uint64(k))))
		o := storeOptions{fs: fs, dir: "/log", id: 1, size: 700, keep: 20}
		if err := errors.Join(fs.MkdirAll(o.dir), createStore(o, people(1, 2), nil)); err != nil {
			return false, err
		}
		fs.root.flush()
		s := must(openStore(o))
		var promised uint64
		var link segment.Link
		var h hard
		var under *write
		save := func(s *store, w *write) error {
			if under = w; w.snapshot != nil { // it is fetched first
				g, err := newStage(o, &pb.Message{Snapshot: snap})
				for err == nil {
					first, at, n := g.want()
					if n == 0 {
						break
					}
					b := make([]byte, n)
					if err = from.read(first, b, at); err == nil {
						err = g.add(b)
					}
				}
				if err == nil {
					err = g.verify(0, segment.Link{})
				}
				if err != nil {
					return err
				}
				w.snapshot = g
			}
			if err := s.save(w); err != nil {
				return err
			}
			promised, link = s.seg.Last()
			if w.hard != nil {
				h = *w.hard
			}
			return nil
		}
		check := func(s *store) error {
			if len(under.entries) > 0 && under.entries[0].GetIndex() <= promised || under.snapshot != nil { // may have begun to cut or to replace
				if last, _ := s.seg.Last(); under.snapshot == nil && last < under.entries[0].GetIndex()-1 {
					return fmt.Errorf("the log ends at %d", last)
				}
			} else if r, err := s.seg.Get(promised); promised > 0 && (err != nil || r.Link != link) {
				return fmt.Errorf("entry %d was durable: %v", promised, err)
			}
			if s.hard.term < h.term || s.hard.term == h.term && s.hard.vote != h.vote {
				return fmt.Errorf("%+v was promised, %+v is known", h, s.hard)
			}
			return nil
		}
		reopen := func(power bool) (*store, error) {
			fs.kill(power)
			fs.skipDirs = control
			s, err := openStore(o)
			fs.skipDirs = false
			if err != nil {
				return nil, err
			}
			return s, check(s)
		}
		fs.ops = k
		for _, w := range []*write{{hard: &hard{2, 1}}, {entries: someEntries(3, 9, 2)}, {entries: someEntries(10, 12, 2), applied: 8}, {hard: &hard{3, 2}},
			{entries: someEntries(9, 11, 3)}, {applied: 11, members: &members{index: 11, conf: &pb.ConfState{Voters: []uint64{1, 2}}}},
			{entries: someEntries(12, 16, 3), applied: 11}, {applied: 14, trim: 9}, {sync: true, applied: 15}, {snapshot: &stage{}},
			{entries: someEntries(41, 44, 5), applied: 40}} {
			if err = save(s, w); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, errKilled) {
			return false, err
		}
		finished = err == nil
		if s, err = reopen(power); err != nil {
			return finished, fmt.Errorf("after the kill: %w", err)
		}
		last, _ := s.seg.Last()
		if err = save(s, &write{hard: &hard{9, 1}, entries: someEntries(last+1, last+2, 9)}); err != nil {
			return finished, err
		}
		if s, err = reopen(true); err != nil {
			return finished, fmt.Errorf("after the loss of power: %w", err)
		}
		var x ids
		return finished, x.read(s)
	}
	for _, control := range []bool{false, true} {
		failed, operations := 0, 0
		for _, power := range []bool{false, true} {
			for k := 0; ; k++ {
				all := true
				for seed := range uint64(8) {
					finished, err := play(k, power, seed, control)
					if all = all && finished; err != nil {
						if failed++; !control {
							t.Fatalf("killed in operation %d, power lost %v, seed %d: %v", k, power, seed, err)
						}
					}
				}
				if operations++; all {
					break
				}
			}
		}
		if t.Logf("control %v: %d operations, %d plays fail", control, operations, failed); control && failed == 0 {
			t.Error("the control has lost nothing")
		}
	}
}

// TestDamagedID: a bit that flipped in the id of a batch, in a segment that a start does not read otherwise, ends the start. With a wrong
// id a leader would take the batch a second time.
func TestDamagedID(t *testing.T) {
	s, _ := sender(t)
	segments := must(s.seg.Segments(40))
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	if _, err := newCore(s); err != nil {
		t.Fatal(err)
	}
	old := segments[len(segments)-2]
	n := must(s.opt.fs.(*memFS).find("/log/g0000/" + segment.SegmentName(old.First)))
	n.now[64+segment.HeadSize+3] ^= 1 // in the first id of a sealed segment
	s.opt.fs.(*memFS).kill(false)
	again, err := openStore(s.opt)
	if err != nil {
		t.Fatalf("the heads of the files are whole: %v", err)
	}
	var d *segment.DamageError
	if _, err := newCore(again); !errors.As(err, &d) || d.First != old.First {
		t.Errorf("started with %v", err)
	}
}
