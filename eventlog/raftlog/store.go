package raftlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog/segment"
)

// Files in the directory of a group, beside its segments and the acknowledged end.
const (
	voteFile    = "vote"    // raft id, term, vote
	appliedFile = "applied" // an entry that was applied, and its link
	membersFile = "members" // the newest members that were applied, and the entry that made them
	idsFile     = "ids"     // of batches among the newest entries that were trimmed
)

// hard is what a node has promised about terms: the newest one that it knows, and whom it voted for in it.
type hard struct{ term, vote uint64 }

// storeOptions say where a store is.
type storeOptions struct {
	fs    segment.FS
	dir   string // with the directory of the group in it
	group uint16
	id    uint64 // raft id of the node
	size  int64  // of a segment, 0 for the default
	keep  int    // for how many batches a second copy is recognised

	plant plants
}

// plants are faults for the control runs of the simulator, which must find each.
type plants struct {
	forgetVote  bool // the vote is not written
	commitFirst bool // what is committed is noted before the entries are there
	cutApplied  bool // entries that were applied may be cut
	early       bool // messages leave before the term is durable
	twice       bool // the leader takes a batch that its log has
	anySnapshot bool // a snapshot is taken without a look at its links
	hearGone    bool // a node listens to one that was removed
	anyFile     bool // a segment is repaired with whatever another node sends
	large       bool // messages have up to 1 MiB from the first one on
}

// store is what a node keeps on its disk, in the directory of its group. Raft reads from it (raft.Storage); save writes.
//
// One goroutine at a time may call save and close. The other methods may be called from many.
type store struct {
	opt storeOptions

	mu      sync.RWMutex
	seg     *segment.Store
	newest  []*pb.Entry // the newest entries, one behind the other, at most newestBytes
	bytes   int
	gone    []placed                // batches among the newest entries that were trimmed, ascending
	current atomic.Pointer[members] // what Snapshot is of: the entry that is applied, and the members there

	// Only save uses these.
	acked   *segment.AckedFile
	vote    *slots
	applied *slots
	hard    hard
	noted   uint64 // entries up to here were applied
	members members
	torn    int64 // bytes of interrupted writes that were cut off at the start
}

// newestBytes is how much of the newest entries stays in memory, so that followers and the apply step do not read them
// from the disk.
const newestBytes = 4 << 20

func (o *storeOptions) group0() string { return filepath.Join(o.dir, segment.GroupDir(o.group)) }

// createStore makes the directory of a node. The first voters of a group all make theirs with the same voters, which become
// the first entries; a node that joins has none, and knows of some nodes.
func createStore(o storeOptions, voters, known []Member) error {
	names, err := o.fs.ReadDir(o.dir)
	if err == nil && slices.Contains(names, segment.GroupDir(o.group)) {
		return fmt.Errorf("raftlog: %s is there already", o.group0())
	}
	voters = slices.SortedFunc(slices.Values(voters), func(a, b Member) int { return compare(a.ID, b.ID) })
	for i, m := range voters {
		if m.ID == 0 || i > 0 && m.ID == voters[i-1].ID {
			return fmt.Errorf("raftlog: voters %v, want different ids that are not 0", voters)
		}
	}
	dir := o.group0() + ".new"
	if err := errors.Join(o.fs.RemoveAll(dir), o.fs.MkdirAll(dir)); err != nil {
		return err
	}
	seg, _, err := segment.Open(segment.Options{FS: o.fs, Dir: dir, Group: o.group, Size: o.size})
	if err != nil {
		return err
	}
	m, h := members{conf: &pb.ConfState{}, known: known}, hard{}
	for _, x := range voters {
		cc := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: &x.ID}}, Context: appendBook(nil, []Member{x})}
		data, err := (proto.MarshalOptions{Deterministic: true}).Marshal(cc)
		if err != nil {
			return err
		}
		index, err := seg.Append(firstTerm, segment.Members, data)
		if err != nil {
			return err
		}
		m, h.term = m.after(index, cc, &pb.ConfState{Voters: append(m.conf.GetVoters(), x.ID)}), firstTerm
	}
	if err := errors.Join(seg.Sync(), seg.Close()); err != nil {
		return err
	}
	last, link := seg.Last()
	if err := errors.Join(segment.WriteFile(o.fs, filepath.Join(dir, idsFile), encodeIDs(o.group, nil)),
		o.describe(dir, h, m, segment.Acked{First: 1, Last: last, Link: link})); err != nil {
		return err
	}
	return errors.Join(o.fs.Rename(dir, o.group0()), o.fs.SyncDir(o.dir))
}

// firstTerm is the term of the first members.
const firstTerm = 1

// describe writes the files beside the segments, of which all were applied.
func (o *storeOptions) describe(dir string, h hard, m members, end segment.Acked) error {
	return errors.Join(
		createSlots(o.fs, dir, voteFile, 'V', o.group, h.encode(o.id)),
		createSlots(o.fs, dir, appliedFile, 'X', o.group, encodeApplied(end.Last, end.Link)),
		segment.WriteFile(o.fs, filepath.Join(dir, membersFile), m.encode(o.group)),
		segment.CreateAcked(o.fs, dir, o.group, end),
		o.fs.SyncDir(dir))
}

func (h hard) encode(id uint64) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, id), h.term), h.vote)
}

func encodeApplied(index uint64, link segment.Link) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, index), link[:]...)
}

// openStore opens the directory of a node. Files that are not what was written are a *segment.DamageError: the node has
// perhaps forgotten a promise, and must not take part under its raft id again.
func openStore(o storeOptions) (*store, error) {
	names, err := o.fs.ReadDir(o.dir)
	if err != nil {
		return nil, err
	}
	// A snapshot takes the place of the directory in two renames.
	name := segment.GroupDir(o.group)
	has := func(suffix string) bool { return slices.Contains(names, name+suffix) }
	if has(".old") && !has("") && has(".new") {
		if err := errors.Join(o.fs.Rename(o.group0()+".new", o.group0()), o.fs.SyncDir(o.dir)); err != nil {
			return nil, err
		}
	}
	// The names that are there are durable before anything is written behind them, and before the old ones go.
	if err := o.fs.SyncDir(o.dir); err != nil {
		return nil, &segment.SyncError{Err: err}
	}
	if err := errors.Join(o.fs.RemoveAll(o.group0()+".old"), o.fs.RemoveAll(o.group0()+".new")); err != nil {
		return nil, err
	}
	s := &store{opt: o}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

func damage(file, format string, a ...any) error {
	return &segment.DamageError{Damage: segment.Damage{File: file, What: fmt.Sprintf(format, a...)}}
}

// open opens the files in the directory of the group.
func (s *store) open() (err error) {
	o, dir := &s.opt, s.opt.group0()
	var v, x []byte
	if s.vote, v, err = openSlots(o.fs, dir, voteFile, 'V', o.group, 24); err != nil {
		return err
	}
	le := binary.LittleEndian
	if id := le.Uint64(v); id != o.id {
		return fmt.Errorf("raftlog: %s is of the node %d, this is node %d", dir, id, o.id)
	}
	s.hard = hard{le.Uint64(v[8:]), le.Uint64(v[16:])}
	// After a sync that failed the system takes what it has in memory for durable, so it is written once more.
	if !o.plant.forgetVote {
		if err := s.vote.writeBoth(v); err != nil {
			return err
		}
	}
	if s.applied, x, err = openSlots(o.fs, dir, appliedFile, 'X', o.group, 24); err != nil {
		return err
	}
	b, err := segment.ReadFile(o.fs, filepath.Join(dir, membersFile))
	if err != nil {
		return err
	}
	var ok bool
	if s.members, ok = parseMembers(b, o.group); !ok {
		return damage(membersFile, "it is not readable")
	}
	if s.acked, err = segment.OpenAcked(o.fs, dir, o.group); err != nil {
		return err
	}
	if b, err = segment.ReadFile(o.fs, filepath.Join(dir, idsFile)); err != nil {
		return err
	}
	gone, ok := parseIDs(b, o.group)
	if !ok {
		return damage(idsFile, "it is not readable")
	}
	end := s.acked.End()
	if i := le.Uint64(x); i > end.Last && !o.plant.commitFirst { // applied, so it was durable
		end.Last, end.Link = i, segment.Link(x[8:24])
	}
	seg, found, err := segment.Open(segment.Options{FS: o.fs, Dir: dir, Group: o.group, Size: o.size, Acked: end, Grouped: true})
	if err != nil {
		return err
	}
	last, link := seg.Last()
	s.noted = max(le.Uint64(x), s.members.index)
	for _, trimmed := range []uint64{end.First, seg.Oldest()} { // what was trimmed had been applied, with the entry behind it
		if trimmed > 1 {
			s.noted = max(s.noted, trimmed)
		}
	}
	if s.noted > last || s.noted+1 < seg.Oldest() {
		return errors.Join(damage(appliedFile, "entry %d was applied, the log has %d to %d", s.noted, seg.Oldest(), last), seg.Abandon())
	}
	s.torn = found.Torn
	if err := s.acked.WriteBoth(segment.Acked{First: end.First, Last: last, Link: link}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seg, s.newest, s.bytes, s.gone = seg, nil, 0, gone
	now := s.members
	now.index = s.noted
	s.current.Store(&now)
	return nil
}

// write is work for the store: the parts that are set. Writes are done in the order in which a core gives them out.
type write struct {
	hard     *hard       // a term or a vote
	snapshot *stage      // takes the place of all entries
	entries  []*pb.Entry // take the places from the first one on
	members  *members    // were applied
	applied  uint64      // up to here entries were applied; they are durable
	trim     uint64      // entries before may go
	sync     bool        // makes durable what was only noted
	mend     *mend       // takes the place of a damaged segment

	done chan struct{} // closed when it is durable; it may be nil

	// The core keeps these.
	tick      uint64        // when it was given out
	held      []*pb.Message // that leave when it is done
	responses []*pb.Message // of raft to itself and to others, when it is done
}

// errCut: entries that were applied would be cut. Nothing that a node sends can be a reason for it.
var errCut = errors.New("raftlog: applied entries must not be cut")

// save makes a write durable. This order is what safety rests on:
//
//  1. Term and vote are durable before entries of that term. So the log never has a later term than the vote file.
//  2. Entries are durable, all with one sync. A later log is cut before, never below what was applied.
//  3. Only then are the members and the applied entry noted, so notes are never ahead of the log. What is committed is
//     not saved: the applied entry is, as a lower bound.
//
// The caller delivers the responses of the write after that, and not before.
//
// An error that is no *segment.SyncError, no *segment.DamageError and not errCut changed nothing that counts: the write may be
// tried again. After one of these the node must end.
func (s *store) save(w *write) error {
	if s.opt.plant.commitFirst && w.applied > s.noted {
		if err := s.applied.writeBoth(encodeApplied(w.applied, segment.Link{})); err != nil {
			return err
		}
	}
	if w.hard != nil && !s.opt.plant.forgetVote {
		if err := s.vote.writeBoth(w.hard.encode(s.opt.id)); err != nil {
			return err
		}
		s.hard = *w.hard
	}
	if w.snapshot != nil {
		if err := s.install(w.snapshot); err != nil {
			return err
		}
	}
	if w.mend != nil {
		if err := s.seg.Mend(w.mend.Sealed, w.mend.name); err != nil {
			return err
		}
	}
	if len(w.entries) > 0 {
		if err := s.append(w.entries); err != nil {
			return err
		}
	}
	return s.note(w)
}

// append makes entries durable in the places from the first one on.
func (s *store) append(entries []*pb.Entry) error {
	first := entries[0].GetIndex()
	switch last, _ := s.seg.Last(); {
	case first > last+1:
		return damage(".", "entry %d cannot stand behind entry %d", first, last)
	case first <= last:
		if first <= s.noted && !s.opt.plant.cutApplied {
			return fmt.Errorf("%w: entry %d, up to %d are applied", errCut, first, s.noted)
		}
		if err := s.cut(first - 1); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if _, err := s.seg.Append(e.GetTerm(), kindOf(e), e.GetData()); err != nil {
			var sync *segment.SyncError
			if !errors.As(err, &sync) {
				err = errors.Join(err, s.seg.Cut(first-1))
			}
			return err
		}
	}
	if err := s.seg.Sync(); err != nil {
		return err
	}
	s.remember(entries)
	return nil
}

// cut removes the entries behind last, which were never committed. The acknowledged end is lowered first: it must never be
// behind the log.
func (s *store) cut(last uint64) error {
	end := s.acked.End()
	if last < end.Last {
		end.Last, end.Link = last, segment.Link{}
		if last > 0 {
			r, err := s.seg.Get(last)
			if err != nil {
				return err
			}
			end.Link = r.Link
		}
		if err := s.acked.WriteBoth(end); err != nil {
			return err
		}
	}
	s.mu.Lock()
	for len(s.newest) > 0 && s.newest[len(s.newest)-1].GetIndex() > last {
		s.bytes -= len(s.newest[len(s.newest)-1].GetData())
		s.newest = s.newest[:len(s.newest)-1]
	}
	s.newest = slices.Clip(s.newest)
	s.mu.Unlock()
	return s.seg.Cut(last)
}

func (s *store) remember(entries []*pb.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.newest, s.bytes = append(s.newest, e), s.bytes+len(e.GetData())
	}
	for s.bytes > newestBytes && len(s.newest) > 1 {
		s.bytes -= len(s.newest[0].GetData())
		s.newest = s.newest[1:]
	}
}

// note writes what is known about durable entries.
func (s *store) note(w *write) error {
	last, link := s.seg.Last()
	if end := s.acked.End(); end.Last != last || end.Link != link {
		if err := s.acked.Write(segment.Acked{First: end.First, Last: last, Link: link}); err != nil {
			return err
		}
	}
	if w.members != nil {
		if err := segment.WriteFile(s.opt.fs, filepath.Join(s.opt.group0(), membersFile), w.members.encode(s.opt.group)); err != nil {
			return err
		}
		if err := s.opt.fs.SyncDir(s.opt.group0()); err != nil {
			return &segment.SyncError{Err: err}
		}
		s.members, s.noted = *w.members, max(s.noted, w.members.index)
	}
	if at := max(s.noted, w.applied); w.applied > s.noted || w.members != nil && at > 0 { // a node that joins has none
		s.noted = at
		r, err := s.seg.Get(s.noted)
		if err != nil {
			return err
		}
		if err := s.applied.write(encodeApplied(s.noted, r.Link)); err != nil {
			return err
		}
	}
	if w.sync || w.trim > 0 {
		if err := errors.Join(s.applied.sync(), s.acked.Sync()); err != nil {
			return err
		}
	}
	if w.trim > 0 && w.trim <= s.noted {
		if err := s.keepIDs(w.trim); err != nil {
			return err
		}
		end := s.acked.End()
		end.First = max(end.First, w.trim)
		if err := s.acked.WriteBoth(end); err != nil {
			return err
		}
		return s.seg.Trim(w.trim)
	}
	return nil
}

// keepIDs writes down the ids of batches that are about to be trimmed and are among the newest entries.
func (s *store) keepIDs(trim uint64) error {
	oldest, next := s.seg.Oldest(), s.seg.Trimmed(trim)
	if next == oldest {
		return nil
	}
	last, _ := s.seg.Last()
	from := last - min(last, uint64(s.opt.keep)) + 1
	gone := slices.DeleteFunc(s.trimmedIDs(), func(p placed) bool { return p.index < from })
	err := readIDs(s.seg, max(from, oldest), next-1, func(p placed) { gone = append(gone, p) })
	for i := range gone {
		if err == nil && gone[i].seq == 0 {
			gone[i].seq, err = s.seg.Seq(gone[i].index)
		}
	}
	if err != nil {
		return err
	}
	if err := segment.WriteFile(s.opt.fs, filepath.Join(s.opt.group0(), idsFile), encodeIDs(s.opt.group, gone)); err != nil {
		return err
	}
	if err := s.opt.fs.SyncDir(s.opt.group0()); err != nil {
		return &segment.SyncError{Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = gone
	return nil
}

func (s *store) trimmedIDs() []placed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.gone)
}

// read fills b from the segment that begins with an entry, from the ids when first is 0, or from the list of sealed segments.
func (s *store) read(first uint64, b []byte, at int64) (err error) {
	var x []byte
	switch first {
	case 0:
		x = encodeIDs(s.opt.group, s.trimmedIDs())
	case sealedList:
		if x, err = s.listSealed(); err != nil {
			return err
		}
	default:
		return s.segments().ReadSegment(first, b, at)
	}
	if at < 0 || at+int64(len(b)) > int64(len(x)) {
		return segment.ErrNotFound
	}
	copy(b, x[at:])
	return nil
}

func (s *store) segments() *segment.Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.seg
}

// start returns the entry before which all were trimmed. It is for the time before the first write.
func (s *store) start() uint64 { return s.acked.End().First }

func (s *store) close(clean bool) error {
	if clean {
		return errors.Join(s.seg.Close(), s.acked.Close(), s.vote.f.Close(), s.applied.f.Close())
	}
	return errors.Join(s.seg.Abandon(), s.acked.Abandon(), s.vote.f.Close(), s.applied.f.Close())
}

// kindOf is the kind that an entry of raft has in a segment.
func kindOf(e *pb.Entry) segment.Kind {
	switch {
	case e.GetType() != pb.EntryNormal:
		return segment.Members
	case len(e.GetData()) == 0:
		return segment.Empty
	}
	return segment.Batch
}

// valid returns whether a store can hold an entry.
func valid(e *pb.Entry) bool {
	n := len(e.GetData())
	switch e.GetType() {
	case pb.EntryNormal:
		return n == 0 || n >= idSize && n <= segment.MaxData
	case pb.EntryConfChangeV2:
		return n <= maxMembers
	}
	return false
}

// maxMembers is the largest change of members, in bytes.
const maxMembers = 4096

func entryOf(r segment.Record) *pb.Entry {
	e := &pb.Entry{Index: &r.Index, Term: &r.Term, Data: r.Data}
	if r.Kind == segment.Members {
		e.Type = pb.EntryConfChangeV2.Enum()
	}
	return e
}

// InitialState implements raft.Storage. What is committed at least is what was applied.
func (s *store) InitialState() (*pb.HardState, *pb.ConfState, error) {
	commit := s.noted
	return &pb.HardState{Term: &s.hard.term, Vote: &s.hard.vote, Commit: &commit}, s.members.conf, nil
}

// FirstIndex implements raft.Storage. Raft asks for the term of the entry before it, so that one is stored.
func (s *store) FirstIndex() (uint64, error) {
	if first := s.segments().Oldest(); first > 1 {
		return first + 1, nil
	}
	return 1, nil
}

// LastIndex implements raft.Storage.
func (s *store) LastIndex() (uint64, error) {
	last, _ := s.segments().Last()
	return last, nil
}

// Term implements raft.Storage.
func (s *store) Term(index uint64) (uint64, error) {
	if index == 0 {
		return 0, nil
	}
	seg := s.segments()
	term, err := seg.Term(index)
	if errors.Is(err, segment.ErrNotFound) {
		if index < seg.Oldest() {
			return 0, raft.ErrCompacted
		}
		return 0, raft.ErrUnavailable
	}
	return term, err
}

// Entries implements raft.Storage.
func (s *store) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	if first, _ := s.FirstIndex(); lo < first {
		return nil, raft.ErrCompacted
	}
	var out []*pb.Entry
	size := uint64(0)
	s.mu.RLock()
	seg, newest := s.seg, s.newest
	s.mu.RUnlock()
	for i := lo; i < hi; i++ {
		var e *pb.Entry
		if len(newest) > 0 && i >= newest[0].GetIndex() && i-newest[0].GetIndex() < uint64(len(newest)) {
			e = newest[i-newest[0].GetIndex()]
		} else {
			r, err := seg.Get(i)
			switch {
			case errors.Is(err, segment.ErrNotFound) && i < seg.Oldest():
				return nil, raft.ErrCompacted
			case errors.Is(err, segment.ErrNotFound):
				return nil, raft.ErrUnavailable
			case err != nil:
				return nil, err
			}
			e = entryOf(r)
		}
		if size += uint64(proto.Size(e)); size > maxSize && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// Snapshot implements raft.Storage: the segments up to the entry that is applied, and the ids of what was trimmed before them,
// as a list, which the receiver fetches; and the members.
func (s *store) Snapshot() (*pb.Snapshot, error) {
	now := s.current.Load()
	term, err := s.Term(now.index)
	if err != nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	segments, err := s.segments().Segments(now.index)
	if err != nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	data := binary.LittleEndian.AppendUint16(nil, uint16(len(segments)))
	for _, i := range segments {
		data = i.AppendTo(data)
	}
	ids := encodeIDs(s.opt.group, s.trimmedIDs())
	data = now.appendState(segment.Info{Size: int64(len(ids)), Sum: sha256.Sum256(ids)}.AppendTo(data))
	index := now.index
	return &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: now.conf}}, nil
}

// passes returns whether an error of save is want of room, handles or memory: nothing was stored, and it may be tried again.
func passes(err error) bool {
	var sync *segment.SyncError
	if errors.As(err, &sync) {
		return false
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
