package raftlog

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

// idSize is how many bytes of an entry's data are the id of its batch: the first bytes of the SHA-256 of its name.
const idSize = 16

type batchID [idSize]byte

func hashID(name string) batchID {
	sum := sha256.Sum256([]byte(name))
	return batchID(sum[:idSize])
}

// ids are the batches among the newest entries of the log of a node, committed or not. The leader takes no batch that its
// log has. So no log has a batch twice, as far back as ids reach: a new leader has the ids of all entries that it has.
type ids struct {
	keep  int
	place map[batchID]spot
	order []placed // ascending
}

// spot is where a batch is: its entry, and its sequence number where the entry was trimmed, otherwise 0.
type spot struct{ index, seq uint64 }

type placed struct {
	spot
	id batchID
}

// idsKept is for how many batches a second copy is recognised; after a start, for those of them in the newest idBytes.
const idsKept = 65_536

// add takes the next entries; entries that stood in their places go.
func (x *ids) add(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	x.cut(entries[0].GetIndex())
	for _, e := range entries {
		if kindOf(e) == segment.Batch && len(e.Data) >= idSize {
			x.put(placed{spot{e.GetIndex(), 0}, batchID(e.Data[:idSize])})
		}
	}
}

func (x *ids) put(p placed) {
	if _, ok := x.place[p.id]; ok {
		return
	}
	if x.place == nil {
		x.place = map[batchID]spot{}
	}
	x.place[p.id] = p.spot
	x.order = append(x.order, p)
	if len(x.order) > 2*x.keep {
		old := x.order[:len(x.order)-x.keep]
		for _, p := range old {
			delete(x.place, p.id)
		}
		x.order = append([]placed(nil), x.order[len(old):]...)
	}
}

// cut forgets the entries from an index on.
func (x *ids) cut(from uint64) {
	for n := len(x.order); n > 0 && x.order[n-1].index >= from; n-- {
		delete(x.place, x.order[n-1].id)
		x.order = x.order[:n-1]
	}
}

// read takes the ids of the newest entries of a store.
func (x *ids) read(s *store) error {
	*x = ids{keep: x.keep}
	for _, p := range s.trimmedIDs() {
		x.put(p)
	}
	seg := s.segments()
	last, _ := seg.Last()
	return readIDs(seg, max(seg.Oldest(), last-min(last, uint64(x.keep))+1), last, func(p placed) { x.put(p) })
}

// idBytes is how much of a log is read for ids at a start: whole records, because a bit that flipped in an id would let a second
// copy in.
const idBytes = 256 << 20

// readIDs passes on the ids of entries, ascending, of the newest ones that have idBytes.
func readIDs(seg *segment.Store, from, to uint64, put func(placed)) error {
	var all []placed
	for i, read := to, 0; i >= max(from, 1) && read < idBytes; i-- {
		r, err := seg.Get(i)
		if err != nil {
			return err
		}
		if read += segment.HeadSize + len(r.Data); r.Kind == segment.Batch && len(r.Data) >= idSize {
			all = append(all, placed{spot{i, 0}, batchID(r.Data[:idSize])})
		}
	}
	for _, p := range slices.Backward(all) {
		put(p)
	}
	return nil
}

const idEntry = 8 + 8 + idSize

func encodeIDs(group uint16, gone []placed) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, 12+len(gone)*idEntry)
	b = le.AppendUint16(append(b, "TRPI\x01\x00"...), group)
	for _, p := range gone {
		b = append(le.AppendUint64(le.AppendUint64(b, p.index), p.seq), p.id[:]...)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseIDs(b []byte, group uint16) (gone []placed, ok bool) {
	le := binary.LittleEndian
	if len(b) < 12 || (len(b)-12)%idEntry != 0 || string(b[:6]) != "TRPI\x01\x00" || le.Uint16(b[6:]) != group ||
		le.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return nil, false
	}
	for at := 8; at < len(b)-4; at += idEntry {
		gone = append(gone, placed{spot{le.Uint64(b[at:]), le.Uint64(b[at+8:])}, batchID(b[at+16 : at+idEntry])})
	}
	return gone, true
}
