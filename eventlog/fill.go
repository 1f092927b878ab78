package eventlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/timing"
)

// A node whose files are damaged cannot have its whole replica made anew while another node's files are damaged, too,
// or another node is away (heal.go). It takes the single entries that it lacks from whichever node has them whole, and
// puts them into its block files while its engine rests:
//
//  1. findHoles: where the block files have bytes that are no record, or lack entries.
//  2. gather: each other node reads these entries from its own files. The engine writes the same record at every
//     node, but for the checksum, which depends on the number of the block file.
//  3. The engine stops. Block files are written beside the old ones, with the records in their places, and all files are
//     read with them: the rolling hash in each batch vouches for what was put in. Only then do they take the places of
//     the old ones. The engine makes its index anew from them.
//
// Nothing is taken away from a log by it, so it is safe at several nodes at once; they take turns all the same, because
// an engine that rests is one less for a majority.

const (
	fillDir   = "filled"         // in the directory of a node: block files on their way
	fillMost  = 256 << 20        // bytes of entries that are put in at once
	fillAsk   = 10 * time.Second // for some entries
	beginAsk  = time.Minute      // for where a log begins: the other node reads all files
	fillStart = 10 * time.Second // how long a start waits for nodes that have what is missing
	fillAfter = 5 * time.Second  // how long a start waits before for the others to be ready to give it all
	indexFile = "index.db"       // the engine's own, beside the block files
)

// hole is a place of a block file where records are missing.
type hole struct {
	file        string
	number      uint32
	from, to    int64  // the bytes that are no record; equal for none
	first, last uint64 // the entries that belong there; last < first for none
}

// end reports that no record follows the hole: it is a write that was cut off, or damage.
func (h *hole) end() bool { return h.last == math.MaxUint64 }

// findHoles returns the holes of a replica whose log begins with entry begin; 0 is where the first record stands, or
// the last trim ended. first is where it begins then.
func findHoles(dir string, begin uint64) (holes []hole, first uint64, err error) {
	names, numbers, err := blockFiles(filepath.Join(streamDir(dir, 0), "msgs"))
	if err != nil {
		return nil, 0, err
	}
	if begin == 0 {
		if begin, err = replicaFirst(names, numbers, func() error { return nil }); err != nil || begin == 0 {
			return nil, 0, err
		}
	}
	want, under := begin, []hole(nil) // the next entry, and holes before it that no record ends yet
	var before hole                   // the end of the block before
	for block := range readBlocks(names, numbers, 0, false, nil) {
		if block.err != nil {
			return nil, 0, block.err
		}
		last := before
		for _, p := range block.parts {
			at := hole{file: block.name, number: block.number, from: p.offset, to: p.offset + p.size, first: 1}
			switch {
			case p.size == 0:
				at.to = p.at
				under = append(under, at)
			case p.tomb || p.seq < want:
			case p.erased:
				under = append(under, at)
			default:
				if p.seq > want && len(under) == 0 {
					if last.file == "" { // it stands in this block
						last = at
					}
					last.to = last.from
					under = append(under, last)
				}
				if len(under) > 0 {
					under[0].first, under[0].last = want, p.seq-1
					holes, under = append(holes, under...), nil
				}
				want, last = p.seq+1, hole{}
			}
		}
		before = hole{file: block.name, number: block.number, from: block.size, to: block.size}
	}
	for _, h := range under {
		h.first, h.last = want, math.MaxUint64
		holes = append(holes, h)
	}
	return holes, begin, nil
}

// leastRecord is the size of the smallest record.
func leastRecord() int64 { return int64(blockHead + len(subjectName(0)) + blockHash) }

// wanted are the entries that belong into holes; of the end as many as there may be.
func wanted(holes []hole) (ranges [][2]uint64) {
	end := int64(0)
	for i, h := range holes {
		if h.end() {
			if end += h.to - h.from; i < len(holes)-1 {
				continue
			}
			h.last = h.first + uint64(end/leastRecord())
		}
		if h.first <= h.last {
			ranges = append(ranges, [2]uint64{h.first, h.last})
		}
	}
	return ranges
}

// entriesAsk asks a node for entries of its files, and Begin for the first entry of its log.
type entriesAsk struct {
	Entries [][2]uint64 `json:"entries,omitempty"`
	Begin   bool        `json:"begin,omitempty"`
	// Snapshot asks for a snapshot as new as this one instead, see snapshot.go.
	Snapshot *groupSnapshot `json:"snapshot,omitempty"`
}

// entriesAnswer is the first line of an answer; records follow, with the checksums of block 0. They are some of those
// that the node has.
type entriesAnswer struct {
	Begin   uint64 `json:"begin,omitempty"`
	Repairs bool   `json:"repairs,omitempty"` // the node repairs its own files
	Engine  string `json:"engine,omitempty"`  // drawn at each start of its engine
	Error   string `json:"error,omitempty"`
	// Snapshot is the one that follows instead of records.
	Snapshot *groupSnapshot `json:"snapshot,omitempty"`
}

func entriesSubject(node string) string { return "troupe.entries." + hex.EncodeToString([]byte(node)) }

// answerEntries lets the other nodes ask for entries of this node's files.
func (n *Node) answerEntries() error {
	_, err := n.nc.Subscribe(entriesSubject(n.name), func(m *nats.Msg) {
		a := entriesAnswer{Repairs: n.intends.Load(), Engine: n.srv.Load().ID()}
		var ask entriesAsk
		var records []byte
		err := json.Unmarshal(m.Data, &ask)
		if err == nil && ask.Begin {
			_, a.Begin, err = findHoles(n.dir, 0)
		}
		if err == nil && len(ask.Entries) > 0 {
			records, err = wholeRecords(n.dir, ask.Entries)
		}
		if err == nil && ask.Snapshot != nil {
			var s groupSnapshot
			if s, records, err = wholeSnapshot(n.dir, *ask.Snapshot); records != nil {
				a.Snapshot = &s
			}
		}
		if err != nil {
			a.Error = err.Error()
		}
		if head, err := json.Marshal(a); err == nil {
			_ = m.Respond(append(append(head, '\n'), records...))
		}
	})
	return err
}

// wholeRecords returns the first of some entries that the block files have whole: MaxBatch bytes, or one record more.
func wholeRecords(dir string, entries [][2]uint64) (records []byte, err error) {
	names, numbers, err := blockFiles(filepath.Join(streamDir(dir, 0), "msgs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	begins := make([]uint64, len(names)+1)
	for i, name := range names {
		begins[i] = blockBegin(name)
	}
	for i := range names {
		if next := begins[i+1]; !slices.ContainsFunc(entries, func(r [2]uint64) bool {
			return r[1] >= begins[i] && (next == 0 || r[0] < next)
		}) {
			continue
		}
		for block := range readBlocks(names[i:i+1], numbers[i:i+1], 0, false, nil) {
			if block.err != nil {
				return nil, block.err
			}
			for _, p := range block.parts {
				if p.size == 0 || p.tomb || p.erased || !slices.ContainsFunc(entries, func(r [2]uint64) bool {
					return r[0] <= p.seq && p.seq <= r[1]
				}) {
					continue
				}
				if len(records) > 0 && len(records)+len(p.raw) > MaxBatch {
					return records, nil
				}
				records = sealRecord(records, p.raw, 0)
			}
		}
	}
	return records, nil
}

// blockBegin returns the entry of the first record of a block file, 0 when its head does not say.
func blockBegin(name string) uint64 {
	f, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	var b [blockHead]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0
	}
	if seq := binary.LittleEndian.Uint64(b[4:]); seq&(erasedBit|tombBit) == 0 {
		return seq
	}
	return 0
}

// sealRecord appends a record of the log with the checksum that it has in a block.
func sealRecord(dst, raw []byte, block uint32) []byte {
	from := len(dst)
	dst = append(dst, raw...)
	b := dst[from:]
	copy(b[len(b)-blockHash:], recordSum(blockSum(streamName(0), block), b))
	return dst
}

// askEntries asks one node.
func (n *Node) askEntries(ctx context.Context, node string, ask entriesAsk) (a entriesAnswer, records []byte,
	err error) {
	limit := fillAsk
	if ask.Begin {
		limit = beginAsk
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := json.Marshal(ask)
	if err != nil {
		return a, nil, err
	}
	m, err := n.nc.RequestWithContext(ctx, entriesSubject(node), b)
	if err != nil {
		return a, nil, err
	}
	head, records, _ := bytes.Cut(m.Data, []byte("\n"))
	if err := json.Unmarshal(head, &a); err != nil {
		return a, nil, err
	}
	if a.Error != "" {
		return a, nil, errors.New(a.Error)
	}
	return a, records, nil
}

// gather asks all nodes that are there for entries, one node after the other, until none is missing. It returns the
// records, with the checksums of block 0, and the names of the nodes that answered.
func (n *Node) gather(ctx context.Context, ranges [][2]uint64) (got map[uint64][]byte, asked []string, err error) {
	got = map[uint64][]byte{}
	size := 0
	for _, node := range n.Peers() {
		for len(ranges) > 0 {
			_, records, err := n.askEntries(ctx, node, entriesAsk{Entries: ranges})
			if err != nil {
				n.logf("%s does not say which entries it has: %v", node, err)
				break
			}
			if !slices.Contains(asked, node) {
				asked = append(asked, node)
			}
			before := len(got)
			scanBlock(records, streamName(0), 0, subjectName(0), func(r blockRecord) {
				if _, ok := got[r.seq]; !ok && !r.tomb && !r.erased {
					got[r.seq] = r.raw
					size += len(r.raw)
				}
			}, func(int64, int64) {})
			if len(got) == before {
				break
			}
			if size > fillMost {
				return nil, asked, fmt.Errorf("more than %d bytes of entries are missing", fillMost)
			}
			ranges = without(ranges, got)
		}
	}
	return got, asked, ctx.Err()
}

// without takes entries that are there out of ranges.
func without(ranges [][2]uint64, got map[uint64][]byte) (left [][2]uint64) {
	for _, r := range ranges {
		open := uint64(0)
		for seq := r[0]; seq <= r[1]; seq++ {
			_, ok := got[seq]
			switch {
			case !ok && open == 0:
				open = seq
			case ok && open > 0:
				left, open = append(left, [2]uint64{open, seq - 1}), 0
			}
		}
		if open > 0 {
			left = append(left, [2]uint64{open, r[1]})
		}
	}
	return left
}

// errNoHoles: the block files have all entries.
var errNoHoles = errors.New("no entry is missing")

// lacking returns the holes of this node's files.
func (n *Node) lacking(ctx context.Context) (holes []hole, err error) {
	holes, first, err := findHoles(n.dir, 0)
	if err != nil || first == 0 {
		return nil, errors.Join(errNoHoles, err)
	}
	if first > 1 && !trimmedTo(n.dir, first-1) { // the beginning may be damaged
		begin := uint64(0)
		for _, node := range n.Peers() {
			if a, _, err := n.askEntries(ctx, node, entriesAsk{Begin: true}); err == nil && a.Begin > 0 &&
				(begin == 0 || a.Begin < begin) {
				begin = a.Begin
			}
		}
		if begin == 0 {
			return nil, errors.New("no other node says where the log begins")
		}
		if holes, _, err = findHoles(n.dir, min(begin, first)); err != nil {
			return nil, err
		}
	}
	if len(holes) == 0 {
		return nil, errNoHoles
	}
	return holes, nil
}

// trimmedTo reports whether the files say that the log was trimmed up to an entry.
func trimmedTo(dir string, entry uint64) bool {
	names, numbers, err := blockFiles(filepath.Join(streamDir(dir, 0), "msgs"))
	if err != nil {
		return false
	}
	for block := range readBlocks(names, numbers, 0, false, nil) {
		for _, p := range block.parts {
			if p.tomb && p.seq >= entry {
				return true
			}
		}
	}
	return false
}

// fill puts the entries that the files of this node lack into their places. running says whether the node has an
// engine, which stops meanwhile. An error means that the files are as they were, or, when several block files had holes
// and the process ended, that some holes are filled.
func (n *Node) fill(ctx context.Context, damage string, running bool) error {
	holes, err := n.lacking(ctx)
	if err != nil {
		return err
	}
	got, asked, err := n.gather(ctx, wanted(holes))
	if err != nil {
		return err
	}
	holes, err = n.filled(holes, got, asked)
	if err != nil {
		return err
	}
	if !running {
		return n.putIn(holes, got)
	}
	done, err := n.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	n.restart.Lock()
	defer n.restart.Unlock()
	n.repairing.Store(&RepairingError{n.time.Now(), damage})
	stopServer(n)
	err = n.putIn(holes, got)
	if began := n.beginAgain(ctx); began != nil {
		return began
	}
	n.repairing.Store(nil)
	return err
}

// filled returns the holes that the records fill, which must be all. The end of the files is one when the records have
// its size; otherwise it is a write that was cut off, which the engine mends.
func (n *Node) filled(holes []hole, got map[uint64][]byte, asked []string) (fills []hole, err error) {
	var missing [][2]uint64
	end := uint64(0) // the first entry of the next hole without end
	for _, h := range holes {
		if h.end() {
			h.first = max(h.first, end)
			seq, size := h.first, int64(0)
			for ; len(got[seq]) > 0 && size < h.to-h.from; seq++ {
				size += int64(len(got[seq]))
			}
			if size != h.to-h.from {
				break
			}
			h.last, end = seq-1, seq
		} else {
			missing = append(missing, without([][2]uint64{{h.first, h.last}}, got)...)
		}
		fills = append(fills, h)
	}
	if len(missing) == 0 && len(fills) > 0 {
		return fills, nil
	} else if len(missing) == 0 {
		return nil, errNoHoles
	}
	texts := make([]string, len(missing))
	for i, r := range missing {
		texts[i] = span(r[0], r[1])
	}
	what := "entries " + strings.Join(texts, ", ") + " are whole neither here"
	if len(asked) > 0 {
		what += " nor at " + strings.Join(asked, " and ")
	}
	if away := n.others() - len(asked); away > 0 {
		return nil, fmt.Errorf("%s, and %d other nodes do not answer: start them", what, away)
	}
	return nil, fmt.Errorf("%s; troupe cluster export DIR --until %d copies what is before them, and troupe cluster init "+
		"--import begins a cluster with that", what, missing[0][0]-1)
}

// turn says that this node repairs its files until done is called, once no other node does. Of two at once the one
// whose name comes first goes on.
func (n *Node) turn(ctx context.Context) (done func(), err error) {
	n.intends.Store(true) // first: of two that ask each other, one sees it
	for t := newTurn(n.name, n.time.Mark()); ; {
		busy, peers := "", n.Peers()
		away := len(peers) < n.others()
		for _, node := range peers {
			switch a, _, err := n.askEntries(ctx, node, entriesAsk{}); {
			case errors.Is(err, nats.ErrNoResponders): // its engine is back, and its connection is not
				away = true
			case err != nil || a.Repairs: // its engine may be about to rest
				busy = node
			}
		}
		switch t.step(n.time.Mark(), busy, away) {
		case turnComes:
			return func() { n.intends.Store(false) }, nil
		case turnEnds:
			n.intends.Store(false)
			return nil, fmt.Errorf("%s repairs its files first", busy)
		}
		if !n.time.Sleep(ctx, healEvery) {
			n.intends.Store(false)
			return nil, ctx.Err()
		}
	}
}

// turnStep is what a node that wants to repair its files does.
type turnStep int

const (
	turnWaits turnStep = iota
	turnComes          // it repairs them
	turnEnds           // it leaves the turn to another node
)

// fillTurn is a node's wait for its turn.
type fillTurn struct {
	self  string
	since timing.Instant // it waits
	seen  timing.Instant // all other nodes were there last; their wait begins with its own
}

func newTurn(self string, now timing.Instant) *fillTurn { return &fillTurn{self, now, now} }

// step decides by what the others say: busy is one that repairs its files, and away says that one is not there. That
// one may repair its files, too, while its engine rests: it has fillStart from when it was seen last, however long this
// node has waited before.
func (t *fillTurn) step(now timing.Instant, busy string, away bool) turnStep {
	if !away {
		t.seen = now
	}
	switch {
	case away && now.Sub(t.seen) < fillStart:
		return turnWaits
	case busy == "":
		return turnComes
	case busy < t.self || now.Sub(t.since) > healCurrent:
		return turnEnds
	}
	return turnWaits
}

// putIn writes block files with the records in their places, reads all files with them, and lets them take the places
// of the old ones. No engine runs.
func (n *Node) putIn(holes []hole, got map[uint64][]byte) error {
	beside := filepath.Join(n.dir, fillDir)
	if err := errors.Join(os.RemoveAll(beside), os.Mkdir(beside, 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(beside)
	instead, err := withRecords(beside, holes, got)
	if err != nil {
		return err
	}
	r, err := replicaWith(n.dir, n.keys, instead, nil, func() error { return nil })
	switch {
	case err != nil:
		return err
	case !r.entriesWhole():
		return fmt.Errorf("with the entries of the others the files are not whole: %v", r.Damage[len(r.Damage)-1])
	}
	msgs := filepath.Join(streamDir(n.dir, 0), "msgs")
	if err := os.Remove(filepath.Join(msgs, indexFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for old, name := range instead {
		if err := os.Rename(name, old); err != nil {
			return err
		}
	}
	return syncDir(msgs)
}

// withRecords writes the block files that have holes into another directory, with the records in their places, and
// returns their names by those of the old ones.
func withRecords(dir string, holes []hole, got map[uint64][]byte) (instead map[string]string, err error) {
	instead = map[string]string{}
	for len(holes) > 0 {
		some := holes
		if i := slices.IndexFunc(holes, func(h hole) bool { return h.file != holes[0].file }); i > 0 {
			some = holes[:i]
		}
		holes = holes[len(some):]
		old, err := os.ReadFile(some[0].file)
		if err != nil {
			return nil, err
		}
		var b []byte
		at := int64(0)
		for _, h := range some {
			if h.from < at || h.to > int64(len(old)) {
				return nil, fmt.Errorf("%s has changed meanwhile", h.file)
			}
			b = append(b, old[at:h.from]...)
			for seq := h.first; seq <= h.last; seq++ {
				b = sealRecord(b, got[seq], h.number)
			}
			at = h.to
		}
		name := filepath.Join(dir, filepath.Base(some[0].file))
		if err := writeFileSync(name, append(b, old[at:]...)); err != nil {
			return nil, err
		}
		instead[some[0].file] = name
	}
	return instead, nil
}

// takeMissing takes what is damaged from the other nodes where a node without an engine can: snapshots of the engine's
// groups, and entries. It is errNoHoles when there is nothing of the kind, and an error when some of it is left.
func (n *Node) takeMissing(ctx context.Context, damage string) error {
	mended, err := n.mendSnapshots(ctx)
	filled := n.fill(ctx, damage, false)
	if mended > 0 || filled == nil {
		n.noteFilled(damage)
	}
	if errors.Is(filled, errNoHoles) && (mended > 0 || err != nil) {
		filled = nil
	}
	return errors.Join(err, filled)
}

// startFilled is the start of a node that may start with damaged files: a server without an engine runs, takes what is
// missing from the others while they answer, and one with an engine takes its place. With a snapshot of the engine that
// is still damaged it does not start, because the engine does not.
func (n *Node) startFilled(ctx context.Context, damage string) error {
	var everywhere *lostSnapshotError // the others may have ended for the same reason in the meantime
	for since := n.time.Mark(); ; {
		err := n.takeMissing(ctx, damage)
		if err == nil {
			break
		}
		if lost := (*lostSnapshotError)(nil); errors.As(err, &lost) && lost.everywhere {
			everywhere = lost
		}
		if n.time.Since(since) > fillStart || errors.Is(err, errNoHoles) || !n.time.Sleep(ctx, lastRetry) {
			if _, what, serr := checkSnapshots(n.dir); serr != nil || what != "" {
				if everywhere != nil {
					err = n.lostEverywhere(everywhere)
				}
				return errors.Join(err, serr)
			}
			n.logf("the node starts with files that are damaged: %v", err)
			break
		}
	}
	stopServer(n)
	return n.begin(ctx)
}

// noteFilled notes that the files were repaired.
func (n *Node) noteFilled(damage string) {
	now := n.time.Now().UTC().Truncate(time.Second)
	n.noteCare(func(c *Care) { c.Repairs, c.Repaired, c.Damage = c.Repairs+1, now, damage })
	n.logf("what was damaged is taken from the others, piece by piece: %s", damage)
}
