package raftlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"os"
	"path/filepath"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

// stage is a snapshot that is being fetched into a directory of its own. When it is whole and verified it takes the place
// of the directory of the group.
type stage struct {
	msg      *pb.Message // the MsgSnap
	opt      storeOptions
	segments []segment.Info
	files    []segment.Info // the same, and the ids as the last one
	members  members        // book and removed nodes
	now      int            // the file that is being fetched
	at       int64
	tries    int // files that were not the ones of the list
	f        segment.File
	sum      hash.Hash
}

// chunk is how much of a segment is asked for at a time.
const chunk = 256 << 10

// maxSegments bounds the list of a snapshot: 256 GiB of segments of 64 MiB.
const maxSegments = 4096

// maxIDs bounds the file of ids.
const maxIDs = 64 << 20

// maxTries is how many files of a snapshot may have other bytes than its list says before it is given up.
const maxTries = 10

var (
	errSnapshot = errors.New("raftlog: the snapshot is not one of this log")
	errFile     = errors.New("raftlog: the file is not the one of the snapshot") // it is fetched again, from another node
)

// newStage begins to fetch what a snapshot lists.
func newStage(o storeOptions, m *pb.Message) (*stage, error) {
	data := m.GetSnapshot().GetData()
	if len(data) < 2 {
		return nil, errSnapshot
	}
	n := int(binary.LittleEndian.Uint16(data))
	if data = data[2:]; n == 0 || n > maxSegments || len(data) < (n+1)*segment.InfoSize {
		return nil, errSnapshot
	}
	g := &stage{msg: m, opt: o}
	for ; n > 0; n-- {
		i := segment.ParseInfo(data)
		data = data[segment.InfoSize:]
		if n := len(g.segments); i.First == 0 || i.Last < i.First || i.Size <= 0 || n > 0 && i.First != g.segments[n-1].Last+1 {
			return nil, errSnapshot
		}
		g.segments = append(g.segments, i)
	}
	ids := segment.ParseInfo(data)
	if ids.First != 0 || ids.Size <= 0 || ids.Size > maxIDs {
		return nil, errSnapshot
	}
	g.files = append(slices.Clip(g.segments), ids)
	if rest, ok := g.members.takeState(data[segment.InfoSize:]); !ok || len(rest) > 0 {
		return nil, errSnapshot
	}
	if g.segments[len(g.segments)-1].Last != m.GetSnapshot().GetMetadata().GetIndex() {
		return nil, errSnapshot
	}
	if err := errors.Join(o.fs.RemoveAll(g.dir()), o.fs.MkdirAll(g.dir()), g.open()); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *stage) dir() string { return g.opt.group0() + ".new" }

func (g *stage) open() (err error) {
	g.at, g.sum = 0, sha256.New()
	name := idsFile
	if first := g.files[g.now].First; first > 0 {
		name = segment.SegmentName(first)
	}
	g.f, err = g.opt.fs.Open(filepath.Join(g.dir(), name), os.O_RDWR|os.O_CREATE)
	return err
}

// want returns what is to be fetched next: n bytes of the segment that begins with an entry, or of the ids when first is 0.
// n is 0 when all is there.
func (g *stage) want() (first uint64, at int64, n int) {
	if g.now == len(g.files) {
		return 0, 0, 0
	}
	i := g.files[g.now]
	return i.First, g.at, int(min(chunk, i.Size-g.at))
}

// add takes the bytes that want asked for. After errFile want begins with the file again.
func (g *stage) add(b []byte) error {
	if _, _, n := g.want(); len(b) != n || n == 0 {
		return errSnapshot
	}
	if _, err := g.f.WriteAt(b, g.at); err != nil {
		return err
	}
	g.sum.Write(b)
	i := g.files[g.now]
	if g.at += int64(len(b)); g.at < i.Size {
		return nil
	}
	ok, err := [32]byte(g.sum.Sum(nil)) == i.Sum, error(nil)
	if g.now == len(g.segments)-1 { // not sealed at the sender, so its links vouch for it
		if ok, err = segment.CheckFile(g.f, g.opt.group, i); err != nil {
			return err
		}
	}
	if !ok {
		// Perhaps the disk of the node that sent it. Another node has the same file.
		g.at, g.sum = 0, sha256.New()
		if g.tries++; g.tries >= maxTries {
			return errSnapshot
		}
		return errFile
	}
	err = errors.Join(g.f.Sync(), g.f.Close())
	if g.f = nil; err != nil {
		return &segment.SyncError{Err: err}
	}
	if g.now++; g.now == len(g.files) {
		return nil
	}
	return g.open()
}

// verify checks what was fetched: all links up to the one that the snapshot names. With an entry that this node has applied
// the same entry must be in it, with the same link; 0 for a node that takes part in no decision yet.
func (g *stage) verify(applied uint64, link segment.Link) error {
	end := g.segments[len(g.segments)-1]
	seg, _, err := segment.Open(segment.Options{FS: g.opt.fs, Dir: g.dir(), Group: g.opt.group, Size: g.opt.size, Grouped: true,
		Acked: segment.Acked{First: g.segments[0].First, Last: end.Last, Link: end.Link}})
	if err != nil {
		return err
	}
	if applied > 0 && !g.opt.plant.anySnapshot {
		if r, e := seg.Get(applied); e != nil || r.Link != link {
			err = errSnapshot
		}
	}
	last, _ := seg.Last()
	if term, e := seg.Term(end.Last); last != end.Last || e != nil || term != g.msg.GetSnapshot().GetMetadata().GetTerm() {
		err = errSnapshot
	}
	return errors.Join(err, seg.Close())
}

func (g *stage) drop() error {
	var err error
	if g.f != nil {
		err = g.f.Close()
		g.f = nil
	}
	return errors.Join(err, g.opt.fs.RemoveAll(g.dir()))
}

// install puts a verified snapshot into the place of the directory of the group, in two renames that openStore completes.
func (s *store) install(g *stage) error {
	o := &s.opt
	meta := g.msg.GetSnapshot().GetMetadata()
	if last, _ := s.seg.Last(); s.noted >= meta.GetIndex() { // done, and tried again
		return nil
	} else if last < s.noted {
		return damage(".", "entry %d was applied, the log ends at %d", s.noted, last)
	}
	end := segment.Acked{First: g.segments[0].First, Last: meta.GetIndex(), Link: g.segments[len(g.segments)-1].Link}
	m := g.members
	m.index, m.conf = meta.GetIndex(), meta.GetConfState()
	m.known = m.unknown(s.members.known)
	if err := o.describe(g.dir(), s.hard, m, end); err != nil {
		return err
	}
	if err := o.fs.SyncDir(o.dir); err != nil {
		return &segment.SyncError{Err: err}
	}
	if err := s.close(false); err != nil {
		return &segment.SyncError{Err: err}
	}
	dir := o.group0()
	if err := errors.Join(o.fs.Rename(dir, dir+".old"), o.fs.Rename(dir+".new", dir), o.fs.SyncDir(o.dir), o.fs.RemoveAll(dir+".old"),
		s.open()); err != nil {
		return &segment.SyncError{Err: err} // it ends the node; the next start completes it
	}
	return nil
}
