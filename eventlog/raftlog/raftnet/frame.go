package raftnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"troupe/eventlog"
)

// A connection has frames: length u32, kind u8, content. The first one is a hello, which is answered.
const (
	frameHello   = 1 // "TRPN" | 1 u16 | lane u8 | cluster u64 | from u64 | to u64
	frameWelcome = 2 // empty
	frameMessage = 3 // group u16 | raftpb.Message
	framePing    = 4 // empty
	framePong    = 5 // empty
	frameFetch   = 6 // group u16 | first index u64 | offset u64 | length u32
	frameFile    = 7 // the bytes
	frameNone    = 8 // there are none
	frameCall    = 9 // a question, which has an answer of any length in frameFile, or in frameNone why there is none
)

// maxFrame is the largest content of a frame: a batch of 1 MiB in its message, or the list of a snapshot.
const maxFrame = 2 << 20

// lane is what a connection is for.
type lane uint8

const (
	laneControl lane = 1 // heartbeats, votes, answers
	laneEntries lane = 2
	laneFetch   lane = 3 // files of a snapshot
	laneCall    lane = 4 // one question, of a node that need not be a member, to one whose id the caller need not know
)

// hello says who calls whom, and what for.
type hello struct {
	lane     lane
	cluster  eventlog.ID
	from, to uint64
}

const helloSize = 4 + 2 + 1 + 3*8

func (h hello) encode() []byte {
	le := binary.LittleEndian
	b := append([]byte("TRPN\x01\x00"), byte(h.lane))
	b = le.AppendUint64(b, uint64(h.cluster))
	return le.AppendUint64(le.AppendUint64(b, h.from), h.to)
}

func parseHello(b []byte) (h hello, ok bool) {
	le := binary.LittleEndian
	if len(b) != helloSize || string(b[:6]) != "TRPN\x01\x00" {
		return h, false
	}
	h = hello{lane(b[6]), eventlog.ID(le.Uint64(b[7:])), le.Uint64(b[15:]), le.Uint64(b[23:])}
	return h, h.lane >= laneControl && h.lane <= laneCall
}

// fetch asks for a part of a file.
type fetch struct {
	group     uint16
	first, at uint64
	n         uint32
}

const fetchSize = 2 + 8 + 8 + 4

func (f fetch) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, f.group)
	return le.AppendUint32(le.AppendUint64(le.AppendUint64(b, f.first), f.at), f.n)
}

func parseFetch(b []byte) (f fetch, ok bool) {
	le := binary.LittleEndian
	if len(b) != fetchSize {
		return f, false
	}
	f = fetch{le.Uint16(b), le.Uint64(b[2:]), le.Uint64(b[10:]), le.Uint32(b[18:])}
	return f, f.n > 0 && f.n <= maxFrame && f.at < 1<<62
}

var errFrame = errors.New("raftnet: a frame that no node sends")

// writeFrame writes a frame in one call.
func writeFrame(w io.Writer, buf []byte, kind byte, content ...[]byte) ([]byte, error) {
	buf = append(buf[:0], 0, 0, 0, 0, kind)
	for _, c := range content {
		buf = append(buf, c...)
	}
	if len(buf)-5 > maxFrame {
		return buf, fmt.Errorf("raftnet: a frame of %d bytes, at most %d", len(buf)-5, maxFrame)
	}
	binary.LittleEndian.PutUint32(buf, uint32(len(buf)-5))
	_, err := w.Write(buf)
	return buf, err
}

// readFrame reads a frame. Its content is in buf, which grows to what the frame has and not beyond maxFrame.
func readFrame(r io.Reader, buf []byte) (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, buf, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFrame {
		return 0, buf, errFrame
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	_, err = io.ReadFull(r, buf[:n])
	return head[4], buf[:n], err
}
