package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog"
	"troupe/eventlog/segment"
)

// ErrRecovering: a recovery of this directory was interrupted. Recover completes it.
var ErrRecovering = errors.New("raftlog: a recovery was interrupted; recover again completes it")

// marker is what makes a directory a node.
type marker struct {
	cluster eventlog.ID
	id      uint64
	shards  uint16
	before  uint64 // raft id before a recovery that is not complete, otherwise 0
}

func (m marker) text() string {
	s := fmt.Sprintf("troupe replicated log, format 2\ncluster %v\nnode %d\nshards %d\nrecovers %d\n", m.cluster, m.id, m.shards, m.before)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

// readMarker reads the marker of a directory. Without one there is no log (eventlog.ErrNoLog); one that is not readable is a
// *segment.DamageError.
func readMarker(fs segment.FS, dir string) (m marker, err error) {
	b, err := segment.ReadFile(fs, filepath.Join(dir, eventlog.ReplicaMarker))
	if errors.Is(err, os.ErrNotExist) {
		return m, fmt.Errorf("raftlog: %s: %w", dir, eventlog.ErrNoLog)
	} else if err != nil {
		return m, err
	}
	var sum uint32
	var cluster uint64
	_, err = fmt.Sscanf(string(b), "troupe replicated log, format 2\ncluster %x\nnode %d\nshards %d\nrecovers %d\ncrc32c %x\n", &cluster, &m.id, &m.shards,
		&m.before, &sum)
	if m.cluster = eventlog.ID(cluster); err != nil || m.text() != string(b) {
		return m, damage(eventlog.ReplicaMarker, "it is not readable")
	}
	return m, nil
}

// Identity returns the cluster and the raft id of a directory. Without a node the error wraps eventlog.ErrNoLog; a recovery that was
// interrupted is ErrRecovering, beside both.
func Identity(dir string) (cluster eventlog.ID, id uint64, err error) {
	m, err := readMarker(segment.OS, dir)
	if err == nil && m.before != 0 {
		err = fmt.Errorf("raftlog: %s: %w", dir, ErrRecovering)
	}
	return m.cluster, m.id, err
}

// Recovered is what Recover has made.
type Recovered struct {
	Before Options // of the node that the directory was
	Shards []RecoveredShard
}

// RecoveredShard is the end of the log that was taken over.
type RecoveredShard struct {
	Applied uint64   // up to here this node knew entries to be committed; Last when an interrupted recovery was completed
	Last    uint64   // the newest entry that was taken over; those behind Applied may never have been acknowledged
	Batches uint64   // how many batches there are up to Last
	Members []Member // that the log had
}

// Recover makes a new cluster of one out of the directory of a node whose log has lost the majority of its voters for good. The node
// gets the raft id and the name of self, and the log the id of the new cluster, so the nodes that were lost are refused when they come
// back, and refuse it. All entries of the directory are taken over, also those of which it is not known whether they were
// acknowledged. What was acknowledged and is not in it is lost: choose the directory whose last entry has the highest term, and
// among these the highest index (Verify).
//
// The other nodes of the log must be stopped, for good, before: this is the operator's word, which nothing can check. After an
// interruption the same call completes it. Options say the directory; the others are not used.
func Recover(o Options, cluster eventlog.ID, self Member) (r Recovered, err error) {
	if o.fs == nil {
		o.fs = segment.OS
	}
	if err := self.check(); err != nil {
		return r, err
	}
	if cluster == 0 {
		return r, errors.New("raftlog: cluster = 0, want the id of the new cluster")
	}
	if o.fs == segment.OS {
		lock, err := eventlog.LockDir(o.Dir)
		if err != nil {
			return r, err
		}
		defer lock.Close()
	}
	m, err := readMarker(o.fs, o.Dir)
	if err != nil {
		return r, err
	}
	before := m.before
	switch {
	case before != 0 && (m.cluster != cluster || m.id != self.ID):
		return r, fmt.Errorf("raftlog: %s: a recovery as node %d of cluster %v was interrupted, want the same again", o.Dir, m.id, m.cluster)
	case before == 0 && (m.cluster == cluster || m.id == self.ID):
		return r, fmt.Errorf("raftlog: %s is node %d of cluster %v, want another id for both", o.Dir, m.id, m.cluster)
	case before == 0:
		before = m.id
	}
	r.Before = Options{Dir: o.Dir, Cluster: m.cluster, ID: before, Shards: m.shards}
	o.Cluster, o.ID, o.Shards = cluster, before, m.shards
	write := func(m marker) error {
		return errors.Join(segment.WriteFile(o.fs, filepath.Join(o.Dir, eventlog.ReplicaMarker), []byte(m.text())), o.fs.SyncDir(o.Dir))
	}
	// From here on nothing opens the directory but Recover.
	if m.before == 0 {
		for n := range m.shards { // before anything is changed
			st, err := openStore(o.store(n))
			if err != nil {
				return r, fmt.Errorf("shard %d: %w", n, err)
			}
			if err := st.close(true); err != nil {
				return r, err
			}
		}
	}
	if err := write(marker{cluster, self.ID, m.shards, before}); err != nil {
		return r, err
	}
	for n := range m.shards {
		x, err := recoverStore(o.store(n), self)
		if err != nil {
			return r, fmt.Errorf("shard %d: %w", n, err)
		}
		r.Shards = append(r.Shards, x)
	}
	return r, write(marker{cluster, self.ID, m.shards, 0})
}

// recoverStore makes self the only member of a store, which is that of the node o.id. It may be called again after an error.
//
//  1. The log gets a change of members from all that there were to self, with both halves of a joint change, so that a node that
//     joins and reads it finds self, too. They have a term of their own.
//  2. All entries are noted as applied, with self as the only member.
//  3. The vote file gets the raft id of self, without a vote. Until then the store is that of the node before.
func recoverStore(o storeOptions, self Member) (r RecoveredShard, err error) {
	done, v, err := openSlots(o.fs, o.group0(), voteFile, 'V', o.group, 24)
	if err != nil {
		return r, err
	}
	if err := done.f.Close(); err != nil {
		return r, err
	}
	if binary.LittleEndian.Uint64(v) == self.ID {
		o.id = self.ID
	}
	s, err := openStore(o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close(err == nil)) }()
	c, err := makeCore(s) // also of one that was removed
	if err != nil {
		return r, err
	}
	defer c.catch(&err)
	r.Applied = s.noted
	last, _ := s.seg.Last()
	for i := s.noted + 1; i <= last; i++ {
		e, err := s.seg.Get(i)
		if err != nil {
			return r, err
		}
		if e.Kind == segment.Members {
			var cc pb.ConfChangeV2
			if err := proto.Unmarshal(e.Data, &cc); err != nil {
				return r, err
			}
			c.mem = c.mem.after(i, &cc, c.raw.ApplyConfChange(&cc))
		}
	}
	r.Last, r.Members = last, c.mem.book
	if r.Batches, err = s.seg.Seq(last); err != nil {
		return r, err
	}
	lastTerm, err := s.Term(last)
	if err != nil || o.id == self.ID {
		return r, err
	}
	term := max(s.hard.term, lastTerm) + 1
	alone := func() bool {
		conf := c.mem.conf
		return len(conf.GetVoters()) == 1 && conf.GetVoters()[0] == self.ID && !c.mem.joint() && len(conf.GetLearners()) == 0
	}
	for !alone() {
		cc := &pb.ConfChangeV2{}
		if !c.mem.joint() {
			cc.Context = appendBook(nil, []Member{self})
			cc.Changes = []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: &self.ID}}
			for _, id := range slices.Concat(c.mem.conf.GetVoters(), c.mem.conf.GetLearners()) {
				if id != self.ID {
					cc.Changes = append(cc.Changes, &pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: &id})
				}
			}
		}
		data, err := (proto.MarshalOptions{Deterministic: true}).Marshal(cc)
		if err != nil {
			return r, err
		}
		last++
		index, at := last, term
		if err := s.save(&write{hard: &hard{term: term}, entries: []*pb.Entry{{Index: &index, Term: &at, Type: pb.EntryConfChangeV2.Enum(), Data: data}}}); err != nil {
			return r, err
		}
		c.mem = c.mem.after(last, cc, c.raw.ApplyConfChange(cc))
	}
	c.mem.known = nil
	m := c.mem
	m.index = last
	if err := s.save(&write{members: &m, applied: last, sync: true}); err != nil {
		return r, err
	}
	if err := createSlots(o.fs, o.group0(), voteFile, 'V', o.group, hard{term: term}.encode(self.ID)); err != nil {
		return r, err
	}
	return r, o.fs.SyncDir(o.group0())
}
