package raftlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
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
	if n.vacant {
		return
	}
	switch s.rng.IntN(19) {
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
		case s.sick != nil || s.swap != nil || s.small() || s.rng.IntN(2) == 0:
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
			if err := createStore(n.options(), people(voters...), nil); err != nil {
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
	case 16, 17:
		switch members := s.members(); {
		case s.sick != nil || s.swap != nil || s.opt.reused:
		case members > 3 && s.rng.IntN(2) == 0:
			count("to be removed")
			s.swap = &swap{old: n, since: s.now}
		case members < 6:
			s.grow()
		}
	case 18:
		if s.sick == nil && s.swap == nil && s.members() >= 3 && !s.opt.reused && s.rng.IntN(3) == 0 {
			s.loseMajority(n)
		}
	}
}

// members returns how many nodes there are.
func (s *sim) members() (n int) {
	for _, x := range s.nodes {
		if !x.vacant {
			n++
		}
	}
	return n
}

// small returns whether the operator adds nodes before he lets one fall ill.
func (s *sim) small() bool { return s.members() < 3 && !s.opt.calm }

// grow begins to add a node.
func (s *sim) grow() {
	slot := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.vacant })
	if slot < 0 {
		slot = len(s.nodes)
	}
	s.nextID++
	x := s.place(slot, s.nextID, nil, people(1))
	s.swap = &swap{new: x, since: s.now}
	x.boot()
	s.note("node %d is to be added", x.id)
}

// vacate empties a place. Its client goes with it.
func (s *sim) vacate(slot int) {
	n := s.nodes[slot]
	if c := n.client; c.open {
		s.leftIDs = append(s.leftIDs, c.id)
		s.left = append(s.left, operation{client: slot, call: c.sent})
	}
	no := n.client.no
	n.client = nil
	s.nodes[slot] = &simNode{s: s, h: s.h, slot: slot, fs: newMemFS(s.rng), gone: true, vacant: true, client: &client{no: no}}
}

// loseMajority: all nodes but one are lost, and the operator makes a new cluster out of that one. Some of the others come back.
func (s *sim) loseMajority(n *simNode) {
	if n.broken || n.rotten {
		return
	}
	s.counts["recoveries"]++
	s.note("all nodes but node %d are lost", n.id)
	old := s.h
	power := s.rng.IntN(2) == 0
	n.kill(power)
	n.gone = true
	s.nextID++
	id := s.nextID
	if s.opt.naive {
		id = n.id
	}
	for err := errKilled; err != nil; {
		if n.fs.ops = -1; s.rng.IntN(2) == 0 {
			n.fs.ops = s.rng.IntN(60)
		}
		if s.opt.naive {
			var st *store
			if st, err = openStore(n.options()); err == nil {
				m := members{conf: &pb.ConfState{Voters: []uint64{id}}}
				m.index, _ = st.seg.Last()
				err = errors.Join(st.save(&write{members: &m, applied: m.index, sync: true}), st.close(true))
			}
		} else {
			_, err = recoverStore(n.options(), Member{ID: id})
		}
		if err != nil && !errors.Is(err, errKilled) {
			s.fail("node %d is not recovered: %v", n.id, err)
			return
		} else if err != nil {
			s.counts["recoveries that were interrupted"]++
			n.fs.kill(s.rng.IntN(2) == 0)
		}
	}
	n.fs.kill(s.rng.IntN(2) == 0)
	s.h = newHistory()
	x := &simNode{s: s, h: s.h, slot: n.slot, id: id, fs: n.fs, chain: map[uint64]segment.Link{}, client: n.client, reads: map[uint64]question{}}
	if err := s.h.takeOver(old, x.options(), n.checked); err != nil {
		s.fail("node %d: %v", id, err)
		return
	}
	s.counts["acknowledged, and not in the directory that was recovered"] += len(old.claims) - len(s.h.claims)
	x.fs.kill(false)
	for slot, other := range s.nodes {
		if other == n || other.vacant {
			continue
		}
		other.kill(s.rng.IntN(2) == 0)
		s.vacate(slot)
		if s.rng.IntN(2) == 0 {
			s.counts["lost nodes that came back"]++
			s.after(s.between(0, 4*time.Second), other.boot)
		}
	}
	s.all[id], s.nodes[n.slot] = x, x
	s.after(s.between(0, time.Second), func() {
		x.boot()
		if c := x.client; c.open {
			s.resend(x.slot, c.no)
		} else {
			x.think()
		}
	})
}

// takeOver makes the history of a new cluster out of the directory that it was made of.
func (h *history) takeOver(old *history, o storeOptions, applied uint64) error {
	st, err := openStore(o)
	if err != nil {
		return err
	}
	oldest := st.seg.Oldest()
	last, _ := st.seg.Last()
	h.committed = slices.Clone(old.committed[:oldest-1])
	for id, at := range old.places {
		if at < oldest {
			h.places[id] = at
		}
	}
	for i := oldest; i <= last; i++ {
		r, err := st.seg.Get(i)
		if err != nil {
			return err
		}
		if i <= applied && r.Link != old.committed[i-1].link {
			return fmt.Errorf("entry %d was applied before the recovery, and is another one", i)
		}
		if err := h.commit(r); err != nil {
			return err
		}
	}
	for id, x := range old.claims {
		// A link is of the whole log up to its entry. With another one the batch is at its place by chance: what came before it,
		// and so its number, is not what was acknowledged.
		if h.places[id] == x.index && h.committed[x.index-1].link == old.committed[x.index-1].link {
			h.claims[id] = x
		} else if x.index <= applied {
			return fmt.Errorf("entry %d was acknowledged and applied before the recovery, and is gone", x.index)
		}
	}
	h.newest = min(old.newest, last)
	return nil
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
	if len(s.h.committed) < 20 {
		return
	}
	first := uint64(1 + s.rng.IntN(len(s.h.committed)))
	// A voter that lacks what others have trimmed is replaced, as one whose disk is lost. One at a time.
	ends := slices.DeleteFunc(slices.Clone(s.nodes), func(n *simNode) bool { return n.vacant })
	slices.SortFunc(ends, func(a, b *simNode) int {
		return cmp.Or(cmp.Compare(a.durable(), b.durable()), cmp.Compare(a.id, b.id))
	})
	if first > ends[0].durable() {
		if s.sick != nil || s.swap != nil || s.small() || s.rng.IntN(3) > 0 {
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
	if s.sick != nil || s.swap != nil || n.gone || s.small() {
		return
	}
	names, err := n.fs.ReadDir("/log/g0000")
	if err != nil || len(names) == 0 {
		return
	}
	name := names[s.rng.IntN(len(names))]
	if sealed := slices.DeleteFunc(slices.Clone(names), func(x string) bool { return !strings.HasSuffix(x, ".end") }); len(sealed) > 0 && s.rng.IntN(2) == 0 {
		name = strings.TrimSuffix(sealed[s.rng.IntN(len(sealed))], ".end") + ".seg"
	}
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
	n.rotten, n.rot = true, name
	s.sick = n // it is replaced when it has found out, and at the end
}

// others is how a node gets files of others, of which some do not answer, and some give other bytes.
func (n *simNode) others() (ids []uint64, get getter) {
	s := n.s
	for _, x := range s.nodes {
		if x != n && x.up {
			ids = append(ids, x.id)
		}
	}
	return ids, func(node, first uint64, b []byte, at int64) error {
		from := s.all[node]
		if from == nil || from.h != n.h || !from.up || from.paused || s.cut[[2]int{from.slot, n.slot}] || s.cut[[2]int{n.slot, from.slot}] || s.rng.IntN(20) == 0 {
			return errors.New("no answer")
		}
		err := from.st.read(first, b, at)
		if s.rng.IntN(10) == 0 && len(b) > 0 {
			b[s.rng.IntN(len(b))] ^= 1 << s.rng.IntN(8)
			s.counts["wrong bytes of another node"]++
		}
		return err
	}
}

// repair mends the segments of a node that is down, and returns whether the file that is rotten was one.
func (n *simNode) repair() bool {
	from, get := n.others()
	done, err := repairStore(n.options(), from, get)
	if errors.Is(err, errKilled) {
		n.s.counts["repairs that were interrupted"]++
		n.fs.kill(n.s.rng.IntN(2) == 0)
		return false
	}
	for _, x := range done {
		n.mended(x.First)
	}
	return !n.rotten
}

// checkSealed is a check of a node that runs.
func (n *simNode) checkSealed() {
	s := n.s
	x, ok, err := n.st.seg.Damaged(0, func(int64) error { return nil })
	if err != nil || !ok {
		if err == nil && strings.HasSuffix(n.rot, ".end") {
			n.healed() // a start wrote it anew
		}
		return
	}
	name := ""
	if !x.File {
		from, get := n.others()
		if name, err = fetchSealed(n.st.opt, x, from, get); errors.Is(err, errKilled) {
			s.counts["repairs that were interrupted"]++
			n.kill(s.rng.IntN(2) == 0)
			s.after(s.between(100*time.Millisecond, time.Second), n.boot)
			return
		} else if err != nil {
			s.counts["repairs without an answer"]++
			return
		}
	}
	n.do(func() { n.core.mend(x, name, nil) })
}

// mended: the segment that begins with an entry is what was sealed.
func (n *simNode) mended(first uint64) {
	n.s.counts["segments mended"]++
	n.s.note("node %d: the segment of entry %d is mended", n.id, first)
	if name := segment.SegmentName(first); n.rot == name || n.rot == strings.TrimSuffix(name, ".seg")+".end" {
		n.healed()
	}
}

func (n *simNode) healed() {
	s := n.s
	if n.rotten, n.rot = false, ""; s.sick == n && s.swap == nil {
		s.sick = nil
	}
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
	if n := s.sick; n != nil && n.rotten && n.up && !n.paused && s.rng.IntN(10) == 0 {
		n.checkSealed()
	}
	if n := s.sick; n != nil && s.swap == nil {
		if n.rotten && !n.broken && s.now < s.quietEnd {
			return // it has not noticed
		}
		s.nextID++
		x := s.place(n.slot, s.nextID, nil, people(1))
		s.swap = &swap{old: n, new: x, since: s.now}
		x.boot()
		s.note("node %d takes the place of node %d", x.id, n.id)
	}
	if s.swap == nil && s.sick == nil && s.small() {
		s.grow()
	}
	if s.swap != nil {
		s.goOn()
	}
}

// goOn has any node work for the change of members under way, and sees whether it is done.
func (s *sim) goOn() {
	w := s.swap
	if w.new != nil && !w.new.up && !w.new.broken && s.now-w.new.busy > time.Second {
		w.new.boot()
	}
	if w.old != nil && w.old.rotten && w.old.up && s.now-w.since > 20*time.Second {
		// The new node refuses what this one sends, and says so; the others may have trimmed the file.
		s.note("node %d is stopped, its files are damaged", w.old.id)
		s.counts["stopped for a damaged file"]++
		w.old.kill(false)
		w.old.broken = true
	}
	live := s.live()
	for _, n := range live {
		m := n.core.mem
		if (w.new == nil || slices.Contains(m.conf.GetVoters(), w.new.id)) && (w.old == nil || m.removed(w.old.id)) && !m.joint() {
			s.changed()
			return
		}
	}
	if len(live) == 0 || s.now-w.asked < 500*time.Millisecond {
		return
	}
	w.asked = s.now
	n := live[s.rng.IntN(len(live))]
	n.do(func() {
		for _, g := range n.core.goals { // what it was asked before
			n.core.abandon(g.no)
		}
		var add *Member
		remove := uint64(0)
		if w.new != nil {
			add = &people(w.new.id)[0]
		}
		if w.old != nil {
			remove = w.old.id
		}
		n.core.pursue(add, remove)
	})
}

// changed ends a change of members. A node that was removed, and perhaps does not know it, stays for a while.
func (s *sim) changed() {
	w := s.swap
	s.swap = nil
	if s.sick == w.old {
		s.sick = nil
	}
	switch {
	case w.old == nil:
		s.counts["members added"]++
	case w.new == nil:
		s.counts["members removed"]++
	default:
		s.counts["members replaced"]++
	}
	var c *client
	if old := w.old; old != nil {
		s.note("node %d is out", old.id)
		if c = old.client; w.new == nil {
			s.vacate(old.slot)
		}
		old.client = nil
		if old.broken || !old.up && s.rng.IntN(2) == 0 {
			old.kill(true)
			old.gone = true
		} else {
			s.after(s.between(0, time.Second), old.boot)
			s.after(s.between(0, 8*time.Second), func() {
				old.kill(true)
				old.gone = true
			})
		}
	}
	if x := w.new; x != nil {
		s.note("node %d is in", x.id)
		if c == nil {
			c = &client{}
		}
		x.client = c
		if x.slot == len(s.nodes) {
			s.nodes = append(s.nodes, x)
		} else {
			if at := s.nodes[x.slot]; at.vacant {
				c.no = at.client.no // numbers of batches are not used again
			}
			s.nodes[x.slot] = x
		}
		if c.open {
			s.resend(x.slot, c.no)
		} else {
			s.after(s.between(0, 100*time.Millisecond), x.think)
		}
	}
}
