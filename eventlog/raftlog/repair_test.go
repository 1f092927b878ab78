package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"troupe/eventlog/eventlogtest"
	"troupe/eventlog/segment"
)

// liar is a network on which one node gives other bytes than it has.
type liar struct {
	*local
	node, lies atomic.Uint64
}

func (x *liar) Fetch(ctx context.Context, group uint16, node, first uint64, b []byte, at int64) error {
	err := x.local.Fetch(ctx, group, node, first, b, at)
	if node == x.node.Load() && len(b) > 0 {
		b[len(b)/2] ^= 1
		x.lies.Add(1)
	}
	return err
}

// three is a log of three nodes with 200 batches in each shard.
func three(t *testing.T) (*town, []*Log, *liar) {
	x := newTown(t)
	net := &liar{local: x.net}
	var all []*Log
	for id := uint64(1); id <= 3; id++ {
		o := x.options(id)
		o.Network = net
		if err := Create(o, people(1, 2, 3)...); err != nil {
			t.Fatal(err)
		}
		all = append(all, x.open(o))
	}
	x.append(all[0], 0, 200)
	for _, l := range all {
		for shard := range uint16(2) {
			if err := l.Ready(t.Context(), shard); err != nil {
				t.Fatal(err)
			}
		}
	}
	return x, all, net
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b := must(os.ReadFile(path))
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 8
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sealedOf(t *testing.T, dir string) (paths []string) {
	t.Helper()
	for _, end := range must(filepath.Glob(filepath.Join(dir, "g0001", "*.end"))) {
		paths = append(paths, strings.TrimSuffix(end, ".end"))
	}
	if slices.Sort(paths); len(paths) < 3 {
		t.Fatalf("%d sealed segments", len(paths))
	}
	return paths
}

// TestCheck: a check of a node that runs finds damage in sealed segments and their end files, and mends both, also where the first node
// that is asked gives other bytes. What no node has is an error that names it.
func TestCheck(t *testing.T) { synctest.Test(t, playCheck) }

func playCheck(t *testing.T) {
	x, all, net := three(t)
	l := all[1]
	dir := x.options(2).Dir
	segs := sealedOf(t, dir)
	want := map[string][]byte{}
	for _, path := range segs {
		want[path+".seg"], want[path+".end"] = must(os.ReadFile(path+".seg")), must(os.ReadFile(path+".end"))
	}
	idle := func(int64) error { return nil }
	if done, err := l.Check(t.Context(), idle); len(done) > 0 || err != nil {
		t.Fatalf("of whole files %v, %v", done, err)
	}
	flip(t, segs[0]+".seg", 300)
	flip(t, segs[1]+".end", -1)
	flip(t, segs[2]+".seg", 3) // its header
	flip(t, segs[2]+".end", 20)
	net.node.Store(1)
	done, err := l.Check(t.Context(), idle)
	if err != nil || len(done) != 3 || !done[0].Fetched || done[1].Fetched || !done[2].Fetched || done[2].Shard != 1 || net.lies.Load() == 0 {
		t.Fatalf("mended %+v, %v, %d lies", done, err, net.lies.Load())
	}
	for path, b := range want {
		if got := must(os.ReadFile(path)); !bytes.Equal(got, b) {
			t.Errorf("%s is not what was sealed", path)
		}
	}
	if got := contents(t, l, 1, 1, 200); got[3] != string(eventlogtest.Payload(0, 3, 100)) {
		t.Error("another content")
	}
	flip(t, segs[0]+".seg", 300)
	net.cutOff(1, 3)
	done, err = l.Check(t.Context(), idle)
	var d *segment.DamageError
	if len(done) > 0 || !errors.As(err, &d) || d.First != 1 || !errors.Is(err, errNotFetched) {
		t.Errorf("without other nodes: %v, %v", done, err)
	}
	if l.Err() != nil {
		t.Errorf("the node has ended: %v", l.Err())
	}
	stop := errors.New("stop")
	if _, err := l.Check(t.Context(), func(int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a pace that ends it: %v", err)
	}
}

// TestRepair: a node that is stopped, and cannot start with what its disk has made of three sealed segments, is repaired. The newest
// segment and the vote are not.
func TestRepair(t *testing.T) { synctest.Test(t, playRepair) }

func playRepair(t *testing.T) {
	x, _, net := three(t)
	x.stop(2)
	o := x.options(2)
	o.Network = net
	segs := sealedOf(t, o.Dir)
	flip(t, segs[0]+".seg", 3)   // its header
	flip(t, segs[1]+".seg", 200) // an entry
	flip(t, segs[1]+".end", 30)
	if err := os.Remove(segs[2] + ".seg"); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(o.Dir)
	if err != nil || len(v.Shards[1].Damage) == 0 || len(v.Shards[0].Damage) > 0 {
		t.Errorf("verified %+v, %v", v, err)
	}
	if _, err := Open(o); !errors.As(err, new(*segment.DamageError)) {
		t.Fatalf("opened with %v", err)
	}
	net.node.Store(1)
	done, err := Repair(t.Context(), o)
	if err != nil || len(done) != 3 || net.lies.Load() == 0 {
		t.Fatalf("repaired %+v, %v", done, err)
	}
	l := x.open(o)
	for i, e := range contents(t, l, 1, 1, 200) {
		if e != string(eventlogtest.Payload(0, i, 100)) {
			t.Fatalf("entry %d is another one", i+1)
		}
	}
	x.stop(2)
	if v, err := Verify(o.Dir); err != nil || len(v.Shards[1].Damage) > 0 || v.Shards[1].Batches != 200 || v.ID != 2 || !slices.Equal(v.Shards[0].Members, people(1, 2, 3)) {
		t.Errorf("verified %+v, %v", v, err)
	}
	vote := filepath.Join(o.Dir, "g0001", voteFile)
	flip(t, vote, 20)
	flip(t, vote, slotStride+20)
	if done, err := Repair(t.Context(), o); len(done) > 0 || err != nil {
		t.Errorf("of a vote: %v, %v", done, err)
	}
	if _, err := Open(o); !errors.As(err, new(*segment.DamageError)) {
		t.Errorf("opened with a lost vote: %v", err)
	}
}

// TestVerifySweep: a bit flips at many places of every file of a node (at all with TROUPE_SWEEP=1). Verify names a damage, or the node
// starts with the same content and the same promises.
func TestVerifySweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "node")
	o := Options{Dir: dir, Cluster: 7, ID: 1, segment: 2000, Network: nobody{}}
	if err := Create(o, people(1, 2, 3)...); err != nil {
		t.Fatal(err)
	}
	st := must(openStore(o.withFS().store(0)))
	for _, w := range []*write{{hard: &hard{3, 2}}, {entries: someEntries(4, 60, 3)}, {applied: 50, trim: 20}, {sync: true}} {
		if err := st.save(w); err != nil {
			t.Fatal(err)
		}
	}
	content := func(s *store) string {
		var b bytes.Buffer
		last, _ := s.seg.Last()
		for i := s.seg.Oldest(); i <= last; i++ {
			r, err := s.seg.Get(i)
			_, _ = fmt.Fprintln(&b, r, err)
		}
		_, _ = fmt.Fprintln(&b, s.hard, s.members.book, s.members.conf.GetVoters(), s.gone)
		return b.String()
	}
	want := content(st) // what was applied is a lower bound, of which the older slot has a lower one
	if err := st.close(true); err != nil {
		t.Fatal(err)
	}
	if v := must(Verify(dir)); len(v.Shards[0].Damage) > 0 || v.Shards[0].Last != 60 || v.Shards[0].Term != 3 || v.Shards[0].Applied != 50 {
		t.Fatalf("verified %+v", v)
	}
	group := filepath.Join(dir, "g0000")
	step := 151
	if os.Getenv("TROUPE_SWEEP") != "" {
		step = 1
	}
	named, same, flips := 0, 0, 0
	for _, f := range must(os.ReadDir(group)) {
		path := filepath.Join(group, f.Name())
		whole := must(os.ReadFile(path))
		for at := flips % step; at < len(whole); at += step {
			flips++
			b := bytes.Clone(whole)
			b[at] ^= 1 << (at % 8)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			v, err := Verify(dir)
			if err != nil {
				t.Fatalf("%s, byte %d: %v", f.Name(), at, err)
			}
			if len(v.Shards[0].Damage) > 0 {
				named++
				continue
			}
			fs := newMemFS(rand.New(rand.NewPCG(1, 1)))
			if err := fs.MkdirAll("/log/g0000"); err != nil {
				t.Fatal(err)
			}
			for _, f := range must(os.ReadDir(group)) {
				must(must(fs.Open("/log/g0000/"+f.Name(), os.O_CREATE)).WriteAt(must(os.ReadFile(filepath.Join(group, f.Name()))), 0))
			}
			s, err := openStore((&Options{Dir: "/log", ID: 1, fs: fs, segment: 2000}).store(0))
			if err != nil {
				t.Fatalf("%s, byte %d: nothing is named, and it does not open: %v", f.Name(), at, err)
			}
			if got := content(s); got != want {
				t.Fatalf("%s, byte %d: another content without a word", f.Name(), at)
			}
			same++
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d bits: %d named, %d without an effect", flips, named, same); named < flips/4 {
		t.Errorf("of %d bits %d are named", flips, named)
	}
}

func (o Options) withFS() *Options {
	o.fs = segment.OS
	return &o
}
