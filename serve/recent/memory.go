package recent

import (
	"encoding/binary"
	"math"
	"sync"

	"troupe/eventlog"
	"troupe/internal/compact"
)

// memory keeps decisions. It has parts, so that the callers of one batch do not queue for one mutex.
type memory [16]part

// newestBytes bounds the newest decisions, rereadBytes those that were read again. Each part has an equal share. A decision with
// five values takes some 130 bytes.
const (
	newestBytes = 16 << 20
	rereadBytes = 8 << 20
)

func (m *memory) put(key eventlog.Event, k Known, limit int) {
	m.of(key).put(key, k, limit/len(m))
}

func (m *memory) get(key eventlog.Event) (Known, bool) { return m.of(key).get(key) }

// of returns the part of a decision: batches of one decision, and every other batch, use all parts alike.
func (m *memory) of(key eventlog.Event) *part {
	return &m[(key.Batch+uint64(key.Index))*golden>>32%uint64(len(m))]
}

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ times the golden section: multiples of it are spread evenly

// part is a memory of its own. Rows have no pointers, so that the garbage collector does not visit them; what differs in size stands
// in chunks of bytes, in the order of the rows. A chunk goes when its last row does, and is never written twice: what was read from it
// stays valid.
type part struct {
	mu     sync.Mutex
	rows   compact.Arena[row]
	index  compact.Index         // of rows by their keys
	order  compact.Deque[uint32] // places of rows, the oldest first
	chunks compact.Deque[chunk]
	first  uint32 // number of the first chunk
	bytes  int
}

// row is a decision.
type row struct {
	key      eventlog.Event
	deferred bool
	seq      uint64
	model    eventlog.ID
	chunk    uint32 // its number
	at       uint32 // in the chunk: the atoms, the coordinates, the list
	atoms    uint32 // bytes
	x        uint32 // coordinates
	list     uint32 // bytes of what is known of a list, behind the coordinates
}

type chunk struct {
	b    []byte
	rows int
}

const (
	chunkBytes = 16 << 10
	rowBytes   = 80 + 12 // of a row, and of its places in index and order
)

func (r *row) size() int { return int(r.atoms) + 8*int(r.x) + int(r.list) }

func hashOf(k eventlog.Event) uint64 {
	h := (uint64(k.Epoch) ^ k.Batch*golden + uint64(k.Index)) * golden
	h ^= h >> 32
	h *= golden
	return h ^ h>>29
}

func (c *part) put(key eventlog.Event, k Known, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, k)
	for c.bytes > limit {
		c.forget()
	}
}

func (c *part) add(key eventlog.Event, k Known) {
	if _, known := c.find(key); known { // it is the same
		return
	}
	if c.order.Len() == 0 {
		c.index = compact.NewIndex(func(at uint32) uint64 { return hashOf(c.rows.At(at).key) })
	}
	list := k.List.append(nil)
	at, r := c.rows.New()
	*r = row{key: key, deferred: k.Deferred, seq: k.Seq, model: k.Model, atoms: uint32(len(k.Atoms)),
		x: uint32(len(k.X)), list: uint32(len(list))}
	to := c.room(r)
	to = append(to, k.Atoms...)
	for _, x := range k.X {
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(x))
	}
	to = append(to, list...)
	last := c.chunks.At(c.chunks.Len() - 1)
	last.b, last.rows = to, last.rows+1
	c.index.Add(at)
	c.order.Push(at)
	c.bytes += rowBytes + r.size()
}

// room gives a row its place in the last chunk, and returns that.
func (c *part) room(r *row) []byte {
	n := c.chunks.Len()
	if n > 0 {
		if b := c.chunks.At(n - 1).b; cap(b)-len(b) >= r.size() {
			r.chunk, r.at = c.first+uint32(n-1), uint32(len(b))
			return b
		}
	}
	c.chunks.Push(chunk{b: make([]byte, 0, max(chunkBytes, r.size()))})
	r.chunk, r.at = c.first+uint32(n), 0
	return c.chunks.At(n).b
}

// forget drops the oldest row.
func (c *part) forget() {
	at := c.order.Shift()
	r := c.rows.At(at)
	c.bytes -= rowBytes + r.size()
	c.chunks.At(int(r.chunk-c.first)).rows--
	for c.chunks.Len() > 1 && c.chunks.At(0).rows == 0 { // the last one is still filled
		c.chunks.Shift()
		c.first++
	}
	c.index.Remove(at)
	c.rows.Free(at)
}

func (c *part) find(key eventlog.Event) (at uint32, ok bool) {
	if c.order.Len() == 0 {
		return 0, false
	}
	return c.index.Find(hashOf(key), func(at uint32) bool { return c.rows.At(at).key == key })
}

func (c *part) get(key eventlog.Event) (Known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.find(key)
	if !ok {
		return Known{}, false
	}
	return c.known(c.rows.At(at)), true
}

// known is what a row says. Its atoms are those of the chunk.
func (c *part) known(r *row) Known {
	b := c.chunks.At(int(r.chunk - c.first)).b[r.at:][:r.size()]
	k := Known{Seq: r.seq, Model: r.model, Deferred: r.deferred}
	if r.atoms > 0 {
		k.Atoms = b[:r.atoms:r.atoms]
	}
	if b = b[r.atoms:]; r.x > 0 {
		k.X = make([]float64, r.x)
		for i := range k.X {
			k.X[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		}
	}
	k.List = listOf(b[8*r.x:])
	return k
}

// append appends what is known of a list, nothing of nil.
func (l *KnownList) append(b []byte) []byte {
	if l == nil {
		return b
	}
	flags := byte(0)
	if l.Whole {
		flags |= 1
	}
	if len(l.Slots) > 0 {
		flags |= 2
	}
	b = append(b, flags)
	for _, names := range [][]string{l.IDs, l.Slots} {
		for _, s := range names {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return b
}

// listOf is the inverse of append.
func listOf(b []byte) *KnownList {
	if len(b) == 0 {
		return nil
	}
	l := &KnownList{Whole: b[0]&1 > 0}
	named := b[0]&2 > 0
	for b = b[1:]; len(b) > 0; {
		n, k := binary.Uvarint(b)
		l.IDs, b = append(l.IDs, string(b[k:k+int(n)])), b[k+int(n):]
	}
	if named {
		half := len(l.IDs) / 2
		l.IDs, l.Slots = l.IDs[:half:half], l.IDs[half:]
	}
	return l
}

// keep forgets the decisions of all models but some.
func (c *part) keep(keep func(model eventlog.ID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := &part{rows: c.rows, order: c.order, chunks: c.chunks, first: c.first}
	c.empty()
	for i := range old.order.Len() {
		if r := old.rows.At(*old.order.At(i)); keep(r.model) {
			c.add(r.key, old.known(r))
		}
	}
}

// empty forgets all. The caller holds mu.
func (c *part) empty() {
	c.rows, c.index, c.order = compact.Arena[row]{}, compact.Index{}, compact.Deque[uint32]{}
	c.chunks, c.first, c.bytes = compact.Deque[chunk]{}, 0, 0
}
