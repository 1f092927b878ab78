package raftlog

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// live returns the nodes that are up.
func (s *sim) live() (up []*simNode) {
	for _, n := range s.nodes {
		if n.up {
			up = append(up, n)
		}
	}
	return up
}

// fault does the next fault, and plans the one after it.
func (s *sim) fault() {
	if s.now >= s.quietEnd {
		s.heal()
		return
	}
	s.after(s.between(50*time.Millisecond, 1500*time.Millisecond), s.fault)
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	for range 3 { // the leader is where faults hurt
		if n.up && n.core.leader {
			break
		}
		n = s.nodes[s.rng.IntN(len(s.nodes))]
	}
	long := s.between(50*time.Millisecond, 4*time.Second)
	count := func(what string) {
		s.counts[what]++
		s.note("%s: node %d, %v", what, n.id, long)
	}
	switch s.rng.IntN(16) {
	case 0, 1:
		if n.up {
			power := s.rng.IntN(2) == 0
			count("killed")
			n.kill(power)
			s.after(long, n.boot)
		}
	case 2:
		if n.up {
			count("to be killed in the middle of a write")
			n.fs.ops = s.rng.IntN(12)
		}
	case 3:
		count("all killed")
		power := s.rng.IntN(2) == 0
		for _, n := range s.live() {
			n.kill(power)
			s.after(s.between(0, 500*time.Millisecond), n.boot)
		}
	case 4, 5:
		if n.up && !n.paused {
			count("paused")
			n.paused = true
			life := n.life
			s.after(long, func() {
				if n.life == life && n.up {
					n.resume()
				}
			})
		}
	case 6, 7:
		count("cut off")
		s.sever(n, true, true, long)
	case 8, 9:
		out := s.rng.IntN(2) == 0
		count("half cut off")
		s.sever(n, out, !out, long)
	case 10:
		count("slow disk")
		n.slow = s.between(20*time.Millisecond, 2*time.Second)
		s.after(long, func() { n.slow = 0 })
	case 11:
		if n.up {
			count("failed sync")
			n.fs.failSync = true
		}
	case 12:
		if n.up {
			count("full disk")
			n.fs.noRoom = true
			fs := n.fs
			s.after(long, func() { fs.noRoom = false })
		}
	case 13:
		s.trim()
	case 14:
		s.rot(n)
	case 15:
		switch {
		case s.sick != nil || s.swap != nil || s.rng.IntN(2) == 0:
		case s.opt.reused:
			count("lost disk, the same raft id again")
			n.kill(true)
			n.fs = newMemFS(s.rng)
			var voters []uint64
			for id := range uint64(s.opt.nodes) {
				voters = append(voters, id+1)
			}
			if err := n.fs.MkdirAll("/log"); err != nil {
				panic(err)
			}
			if err := createStore(n.options(), voters); err != nil {
				panic(err)
			}
			n.fs.root.flush()
			n.promised, n.hard, n.checked = 0, hard{}, 0
			s.after(long, n.boot)
		default:
			if s.rng.IntN(2) == 0 {
				count("lost disk")
				n.kill(true)
				n.broken = true
				s.sick = n
			} else {
				count("replaced")
				s.sick = n
			}
		}
	}
}

// durable is how far a node that comes back has its log at least: what it has applied is durable, and is never cut.
func (n *simNode) durable() uint64 {
	if n.broken {
		return 0
	}
	return n.checked
}

func (n *simNode) resume() {
	n.paused = false
	backlog := n.backlog
	n.backlog = nil
	for _, do := range backlog {
		if !n.up {
			return
		}
		do()
	}
}

func (s *sim) sever(n *simNode, out, in bool, long time.Duration) {
	slot := n.slot
	set := func(on bool) {
		for other := range s.nodes {
			if other != slot {
				if out {
					s.cut[[2]int{slot, other}] = on
				}
				if in {
					s.cut[[2]int{other, slot}] = on
				}
			}
		}
	}
	set(true)
	s.after(long, func() { set(false) })
}

// heal ends all faults.
func (s *sim) heal() {
	s.note("no more faults")
	clear(s.cut)
	s.lossy, s.late, s.doubled = 0, 0, 0
	for _, n := range s.nodes {
		n.slow, n.fs.noRoom, n.fs.failSync, n.fs.ops = 0, false, false, -1
		if n.up && n.paused {
			n.resume()
		}
		s.after(s.between(0, 100*time.Millisecond), n.boot)
	}
}

// trim lets nodes forget the beginning of their logs.
func (s *sim) trim() {
	if len(s.committed) < 20 {
		return
	}
	first := uint64(1 + s.rng.IntN(len(s.committed)))
	// A voter that lacks what others have trimmed is replaced, as one whose disk is lost. One at a time.
	ends := slices.Clone(s.nodes)
	slices.SortFunc(ends, func(a, b *simNode) int {
		return cmp.Or(cmp.Compare(a.durable(), b.durable()), cmp.Compare(a.id, b.id))
	})
	if first > ends[0].durable() {
		if s.sick != nil || s.swap != nil || s.rng.IntN(3) > 0 {
			first = ends[0].durable()
		} else if first = min(first, ends[1].durable()); first > ends[0].durable() {
			s.counts["trims beyond a voter"]++
			s.sick = ends[0]
		}
	}
	for _, n := range s.live() {
		if s.rng.IntN(4) > 0 && !n.paused && first <= n.core.applied {
			s.counts["trims"]++
			s.note("node %d may forget what is before entry %d", n.id, first)
			n.do(func() { n.core.trim(first, nil) })
		}
	}
}

// rot flips a bit on the disk of a node, in a file that was durable for a while. While one node is sick, no other falls ill.
func (s *sim) rot(n *simNode) {
	if s.sick != nil || s.swap != nil || n.gone {
		return
	}
	names, err := n.fs.ReadDir("/log/g0000")
	if err != nil || len(names) == 0 {
		return
	}
	name := names[s.rng.IntN(len(names))]
	f, err := n.fs.find("/log/g0000/" + name)
	if err != nil || len(f.disk) == 0 || len(f.writes) > 0 {
		return
	}
	at := s.rng.IntN(len(f.disk))
	if strings.HasSuffix(name, ".seg") {
		// A bit in an entry of the last second before a loss of power looks like an interrupted write; see ADR 48.
		acked, err := segment.ReadAcked(n.fs, "/log/g0000", 0)
		w, err2 := n.fs.find("/log/g0000/acked")
		if err != nil || err2 != nil || len(w.writes) > 0 || at >= endOf(f.disk, acked.Last) {
			return
		}
	}
	s.counts["bit rot"]++
	s.note("bit rot: node %d, %s, byte %d", n.id, name, at)
	f.disk[at] ^= 1 << s.rng.IntN(8)
	if at < len(f.now) {
		f.now = slices.Clone(f.now)
		f.now[at] = f.disk[at]
	}
	n.rotten = true
	s.sick = n // it is replaced when it has found out, and at the end
}

// endOf returns where the entries of a segment file up to an index end.
func endOf(b []byte, index uint64) int {
	le := binary.LittleEndian
	at := 64
	for at+segment.HeadSize <= len(b) {
		n := int(le.Uint32(b[at:]))
		if n == 0 || le.Uint64(b[at+8:]) > index {
			break
		}
		at += segment.HeadSize + n - 1
	}
	return min(at, len(b))
}

// operate is what an operator does: a node whose disk is gone or wrong is replaced by one with another raft id.
func (s *sim) operate() {
	if s.err != nil {
		return
	}
	s.after(50*time.Millisecond, s.operate)
	if s.sick == nil && s.swap == nil {
		for _, n := range s.nodes {
			if n.behind > 0 && n.up {
				s.note("node %d is too far behind", n.id)
				s.counts["too far behind"]++
				s.sick = n
				break
			}
		}
	}
	if n := s.sick; n != nil && s.swap == nil {
		if n.rotten && !n.broken && s.now < s.quietEnd {
			return // it has not noticed
		}
		s.nextID++
		x := s.place(n.slot, s.nextID, nil)
		s.swap = &swap{old: n, new: x, since: s.now}
		x.boot()
		s.note("node %d takes the place of node %d", x.id, n.id)
	}
	if s.swap != nil {
		s.goOn()
	}
}

// goOn takes a change of members one step on, at the leader, if there is one.
func (s *sim) goOn() {
	w := s.swap
	if !w.new.up && !w.new.broken && s.now-w.new.busy > time.Second {
		w.new.boot()
	}
	if w.old.rotten && w.old.up && s.now-w.since > 20*time.Second {
		// The new node refuses what this one sends, and says so; the others may have trimmed the file.
		s.note("node %d is stopped, its files are damaged", w.old.id)
		s.counts["stopped for a damaged file"]++
		w.old.kill(false)
		w.old.broken = true
	}
	var l *simNode
	for _, n := range s.all {
		if n.up && !n.paused && n.core.leader && (l == nil || n.core.term > l.core.term) {
			l = n
		}
	}
	if l == nil {
		return
	}
	conf := l.core.conf
	has := func(ids []uint64, id uint64) bool { return slices.Contains(ids, id) }
	switch {
	case len(conf.VotersOutgoing) > 0:
	case !has(conf.Learners, w.new.id) && !has(conf.Voters, w.new.id):
		l.do(func() {
			_ = l.core.change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: &w.new.id}}})
		})
	case has(conf.Voters, w.old.id) && l.core.match(w.new.id)+10 >= l.core.applied:
		l.do(func() {
			_ = l.core.change(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: &w.new.id},
				{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: &w.old.id}}})
		})
	case has(conf.Voters, w.new.id) && !has(conf.Voters, w.old.id):
		s.note("node %d has taken the place of node %d", w.new.id, w.old.id)
		s.counts["members replaced"]++
		w.old.kill(true)
		w.old.gone = true
		w.new.client = w.old.client
		s.nodes[w.old.slot] = w.new
		s.swap, s.sick = nil, nil
		if c := w.new.client; c.open {
			s.resend(w.new.slot, c.no)
		} else {
			s.after(s.between(0, 100*time.Millisecond), w.new.think)
		}
	}
}
