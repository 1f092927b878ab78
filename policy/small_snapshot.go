package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// A snapshot of hashed with small models is: "TRS2", the length (u32) and the bytes of the snapshot of its sparse
// models (TRS1), then the mixture: events u64, sum f64, count f64; count of sparse models (u16), for each its log
// likelihood f64 and 1 when it has left (u8); fields (u16), for each its number u32, flags u8 (1 of actions, 2 a
// number, 4 too many values), values (u8) and as many u32; ids (u8; 255: too many) and as many u32; small models (u8),
// for each kind u8, field u32, gone u8, events u64, rss and log likelihood f64, blocks (u16), for each block key and
// used u64, coefficients D (u16), D keys and D events u64 in the order of places, D means and D(D+1)/2 covariances f64;
// then CRC-32C of all before. Everything is little-endian. docs/reference/formats.md describes it.
//
// With restarts it begins with "TRS3". Behind the blocks of a small model are then: σ̂² and the number of events that
// it is the mean of, f64; of its first start: events before it began u64, its first mean, the sum of its rewards and
// its log weight f64; the number of its other starts (u8), for each what was said of the first one, its events u64 and
// its blocks as above. At the end: how many different rewards were met (u8, at most 2), these two f64, the number of
// others u64, what prior variances are multiplied by f64, and of the last change that was stated: at and seen u64,
// posterior, mean before and after f64.
//
// With a half-life it begins with "TRS4", and behind the covariances of a block are D prior variances and the clock
// until which it has faded, f64.
//
// With rules 2 it begins with "TRS5", "TRS6" with restarts or "TRS7" with a half-life, too, and a field with too many
// values has the first 32. With rules 3 it begins with "TRS8", "TRS9" or "TRSA" and has the kinds of small_ranges.go.

// mixtureMagics are what snapshots begin with, by their rules: without restarts, with them, and with a half-life.
var mixtureMagics = [...][3]string{{"TRS2", "TRS3", "TRS4"}, {"TRS5", "TRS6", "TRS7"}, {"TRS8", "TRS9", "TRSA"}}

// magic is what a snapshot begins with.
func (x *mixture) magic() string {
	magics := &mixtureMagics[x.fields.rules-1]
	switch {
	case x.fade != nil:
		return magics[2]
	case x.changes.on:
		return magics[1]
	}
	return magics[0]
}

var little = binary.LittleEndian

func appendFloat(b []byte, v float64) []byte { return little.AppendUint64(b, math.Float64bits(v)) }

// stateOf is 0 of a model that learns, 1 of one that has left, 2 of one that came back lately.
func stateOf(gone, trial bool) byte {
	switch {
	case gone:
		return 1
	case trial:
		return 2
	}
	return 0
}

// state reads what stateOf has written; only with restarts models come back.
func (r *byteReader) state(restarts bool) (gone, trial bool) {
	v := r.u8()
	r.bad = r.bad || v > 2 || v == 2 && !restarts
	return v == 1, v == 2
}

// append appends the mixture after the snapshot of the sparse models, which begins at start in b.
func (x *mixture) append(b []byte) []byte {
	b = little.AppendUint64(b, x.n)
	b = appendFloat(appendFloat(b, x.sum), x.count)
	b = little.AppendUint16(b, uint16(len(x.likes)))
	for k, l := range x.likes {
		b = append(appendFloat(b, l), stateOf(x.gone[k], x.trial[k]))
	}
	b = little.AppendUint16(b, uint16(len(x.fields.entries)))
	for i := range x.fields.entries {
		e := &x.fields.entries[i]
		b = little.AppendUint32(b, e.field)
		var flags byte
		for k, on := range []bool{e.action, e.number, e.out} {
			if on {
				flags |= 1 << k
			}
		}
		b = append(b, flags, byte(len(e.levels)))
		for _, l := range e.levels {
			b = little.AppendUint32(b, l)
		}
	}
	if x.fields.manyIDs {
		b = append(b, manyIDs)
	} else {
		b = append(b, byte(len(x.fields.ids)))
	}
	for _, id := range x.fields.ids {
		b = little.AppendUint32(b, id)
	}
	b = append(b, byte(len(x.smalls)))
	for _, s := range x.smalls {
		if b = s.append(b); x.changes.on {
			b = s.appendStarts(b)
		}
	}
	if c := &x.changes; c.on {
		b = appendFloat(appendFloat(append(b, byte(c.met)), c.low), c.high)
		b = appendFloat(little.AppendUint64(b, c.odd), c.unit)
		b = little.AppendUint64(little.AppendUint64(b, c.last.At), c.last.Seen)
		b = appendFloat(appendFloat(appendFloat(b, c.last.Posterior), c.means[0]), c.means[1])
	}
	return b
}

func (s *smallModel) appendStarts(b []byte) []byte {
	b = appendFloat(appendFloat(b, s.noise), s.heard)
	for i := range s.starts() {
		t := s.start(i)
		b = little.AppendUint64(b, t.born)
		b = appendFloat(appendFloat(appendFloat(b, t.first), t.sum), t.trust)
		if i == 0 {
			b = append(b, byte(len(s.later)))
			continue
		}
		b = t.appendBlocks(little.AppendUint64(b, t.n))
	}
	return b
}

const manyIDs = 255

func (s *smallModel) append(b []byte) []byte {
	b = append(b, byte(s.kind))
	b = append(little.AppendUint32(b, s.field), stateOf(s.gone, s.trial))
	b = little.AppendUint64(b, s.n)
	b = appendFloat(appendFloat(b, s.rss), s.like)
	return s.appendBlocks(b)
}

func (s *smallStart) appendBlocks(b []byte) []byte {
	b = little.AppendUint16(b, uint16(len(s.blocks)))
	for _, k := range s.blocks {
		b = little.AppendUint64(little.AppendUint64(b, k.key), k.used)
		b = little.AppendUint16(b, uint16(len(k.mean)))
		at := len(b)
		b = append(b, make([]byte, 8*len(k.keys))...)
		for i, key := range k.keys {
			little.PutUint64(b[at+8*int(k.pos[i]):], key)
		}
		for _, n := range k.last {
			b = little.AppendUint64(b, n)
		}
		for _, v := range k.mean {
			b = appendFloat(b, v)
		}
		for _, v := range k.cov {
			b = appendFloat(b, v)
		}
		if k.prior != nil {
			for _, v := range k.prior {
				b = appendFloat(b, v)
			}
			b = appendFloat(b, k.faded)
		}
	}
	return b
}

// byteReader takes numbers from the front of bytes; after the first that is missing it gives zeros.
type byteReader struct {
	b     []byte
	bad   bool
	fades bool // blocks have priors
}

func (r *byteReader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *byteReader) u8() int     { return int(r.take(1)[0]) }
func (r *byteReader) u16() int    { return int(little.Uint16(r.take(2))) }
func (r *byteReader) u32() uint32 { return little.Uint32(r.take(4)) }
func (r *byteReader) u64() uint64 { return little.Uint64(r.take(8)) }
func (r *byteReader) has(n int) int { // n when that many bytes are left
	if n > len(r.b) {
		r.bad = true
		return 0
	}
	return n
}

// float reads a finite number.
func (r *byteReader) float() float64 {
	v := math.Float64frombits(r.u64())
	if v-v != 0 {
		r.bad = true
		return 0
	}
	return v
}

var errMixture = errors.New("policy: the small models of the snapshot are cut short or not sound")

// splitMixture checks the frame of a snapshot and returns its two parts.
func splitMixture(b []byte, magic string) (sparse, rest []byte, err error) {
	if len(b) < 12 || string(b[:4]) != magic {
		return nil, nil, fmt.Errorf("policy: not a snapshot of hashed with small models (it begins with %q, expected %q)",
			b[:min(len(b), 4)], magic)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != little.Uint32(b[len(b)-4:]) {
		return nil, nil, errors.New("policy: snapshot is damaged (checksum)")
	}
	n := little.Uint32(b[4:])
	if int64(n) > int64(len(body)-8) {
		return nil, nil, errMixture
	}
	return body[8 : 8+n], body[8+n:], nil
}

// SnapshotParts returns how many bytes of a snapshot of sparse or hashed are of sparse models, and of small ones. Bytes
// that are no such snapshot count as the first.
func SnapshotParts(b []byte) (sparse, small int) {
	if len(b) < 8 || !slices.ContainsFunc(mixtureMagics[:], func(m [3]string) bool {
		return slices.Contains(m[:], string(b[:4]))
	}) {
		return len(b), 0
	}
	sparse = int(min(int64(little.Uint32(b[4:])), int64(len(b)-8)))
	return sparse, len(b) - sparse
}

// readMixture reads what append has written.
func readMixture(b []byte, first uint32, folds int, restarts bool, rules int, fade *fading) (*mixture, error) {
	r := &byteReader{b: b, fades: fade != nil}
	x := newMixture(first, folds, restarts, rules, fade)
	x.n, x.sum, x.count = r.u64(), r.float(), r.float()
	if n := r.u16(); !r.bad && n != folds {
		return nil, fmt.Errorf("policy: snapshot has %d sparse models, expected %d", n, folds)
	}
	for k := range folds {
		x.likes[k] = r.float()
		x.gone[k], x.trial[k] = r.state(restarts)
	}
	x.fields = readFields(r, rules)
	n := r.u8()
	if n == 0 || n > mostSmalls {
		return nil, errMixture
	}
	x.smalls = x.smalls[:0]
	for range n {
		s := r.small(restarts, rules)
		if restarts {
			r.starts(s, x.n)
		}
		if r.bad || slices.ContainsFunc(x.smalls, func(o *smallModel) bool { return o.kind == s.kind && o.field == s.field }) {
			return nil, errMixture
		}
		x.smalls = append(x.smalls, s)
	}
	if restarts {
		r.changes(&x.changes, x.n)
	}
	if r.bad || len(r.b) > 0 || !(x.count >= 0) || !slices.Contains(x.gone, false) {
		return nil, errMixture
	}
	return x, nil
}

func readFields(r *byteReader, rules int) *fieldTable {
	f := &fieldTable{rules: rules}
	full := 0 // values of a field that has more
	if rules >= 2 {
		full = mostLevels
	}
	n := r.u16()
	if r.bad = r.bad || n > mostFields; r.bad {
		return f
	}
	for range n {
		e := fieldEntry{field: r.u32()}
		flags := r.u8()
		e.action, e.number, e.out = flags&1 > 0, flags&2 > 0, flags&4 > 0
		e.levels = readLevels(r, r.u8(), mostLevels)
		if r.bad = r.bad || flags > 7 || e.out && len(e.levels) != full || f.of(e.field, e.action) != nil; r.bad {
			return f
		}
		f.entries = append(f.entries, e)
	}
	if ids := r.u8(); ids == manyIDs {
		f.manyIDs = true
	} else {
		f.ids = readLevels(r, ids, mostIDs)
	}
	return f
}

// readLevels reads n ascending numbers.
func readLevels(r *byteReader, n, most int) (out []uint32) {
	if r.bad = r.bad || n > most; r.bad {
		return nil
	}
	for i := range n {
		v := r.u32()
		if r.bad = r.bad || i > 0 && v <= out[i-1]; r.bad {
			return nil
		}
		out = append(out, v)
	}
	return out
}

func (r *byteReader) small(restarts bool, rules int) *smallModel {
	s := &smallModel{smallStart: smallStart{kind: smallKind(r.u8()), gen: 1, listed: 1}, field: r.u32()}
	s.gone, s.trial = r.state(restarts)
	s.n, s.rss, s.like = r.u64(), r.float(), r.float()
	if r.bad = r.bad || s.kind >= smallKinds || s.kind >= smallRange && rules < 3 || !s.kind.single() && s.field != 0 ||
		!(s.rss >= 0); r.bad {
		return s
	}
	r.blocks(&s.smallStart)
	r.bad = r.bad || s.gone && len(s.blocks) > 0
	return s
}

// blocks reads those of a start.
func (r *byteReader) blocks(s *smallStart) {
	n := r.u16()
	if r.bad = r.bad || n > mostBlocks || s.shared() && n > 1; r.bad {
		return
	}
	for range n {
		b := r.block(s)
		i, twice := slices.BinarySearch(s.keys, b.key)
		if r.bad = r.bad || twice; r.bad {
			return
		}
		s.keys = slices.Insert(s.keys, i, b.key)
		s.places = slices.Insert(s.places, i, int32(len(s.blocks)))
		s.blocks = append(s.blocks, b)
		s.cells += len(b.cov)
		s.digest += b.sum()
	}
	if s.cells > mostCells+sharedLimit*sharedLimit {
		r.bad = true
	}
}

// starts reads what appendStarts has written; the mixture has learned now events.
func (r *byteReader) starts(s *smallModel, now uint64) {
	s.noise, s.heard = r.float(), r.float()
	r.bad = r.bad || !(s.noise >= 0) || !(s.heard >= 1 && s.heard <= startNoise)
	numbers := func(t *smallStart) {
		t.born, t.first, t.sum, t.trust = r.u64(), r.float(), r.float(), r.float()
		r.bad = r.bad || t.born > now
	}
	numbers(&s.smallStart)
	n := r.u8()
	if r.bad = r.bad || n >= mostStarts || s.gone && n > 0; r.bad {
		return
	}
	for range n {
		t := smallStart{kind: s.kind, gen: 1, listed: 1}
		numbers(&t)
		t.n = r.u64()
		r.blocks(&t)
		if r.bad = r.bad || t.born <= s.start(len(s.later)).born; r.bad {
			return
		}
		s.later = append(s.later, t)
	}
}

func (r *byteReader) changes(c *changes, now uint64) {
	c.met, c.low, c.high, c.odd, c.unit = r.u8(), r.float(), r.float(), r.u64(), r.float()
	c.last.At, c.last.Seen, c.last.Posterior = r.u64(), r.u64(), r.float()
	c.means = [2]float64{r.float(), r.float()}
	r.bad = r.bad || c.met > 2 || c.met == 2 && !(c.low < c.high) || !(c.unit > 0) || c.last.At > c.last.Seen || c.last.Seen > now ||
		!(c.last.Posterior >= 0 && c.last.Posterior <= 1)
}

func (r *byteReader) block(s *smallStart) *smallBlock {
	b := &smallBlock{gen: 1, key: r.u64(), used: r.u64()}
	d := r.u16()
	if r.bad = r.bad || d == 0 || d > s.limit() || s.shared() && b.key != 0; r.bad {
		return b
	}
	if r.has(24*d+4*d*(d+1)) == 0 {
		return b
	}
	for i := range d {
		key := r.u64()
		k, twice := slices.BinarySearch(b.keys, key)
		if r.bad = r.bad || twice; r.bad {
			return b
		}
		b.keys, b.pos = slices.Insert(b.keys, k, key), slices.Insert(b.pos, k, int32(i))
	}
	for range d {
		b.last = append(b.last, r.u64())
	}
	for range d {
		b.mean = append(b.mean, r.float())
	}
	for i := range d {
		for range i + 1 {
			b.cov = append(b.cov, r.float())
		}
		if b.cov[len(b.cov)-1] < -1e-9 {
			r.bad = true
		}
	}
	if !r.fades {
		return b
	}
	b.prior = []float64{}
	for range d {
		v := r.float()
		b.prior = append(b.prior, v)
		r.bad = r.bad || !(v > 0)
	}
	b.faded = r.float()
	r.bad = r.bad || !(b.faded >= 0)
	return b
}

// sum is the block's part of the digest: of keys, means and variances. Covariances show in the means of the next event.
func (b *smallBlock) sum() uint64 {
	h := (b.key ^ b.used*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	mix := func(v uint64) {
		h = (h ^ v) * 0xc4ceb9fe1a85ec53
		h ^= h >> 29
	}
	for i, key := range b.keys {
		p := int(b.pos[i])
		mix(key)
		mix(b.last[p])
		mix(math.Float64bits(b.mean[p]))
		mix(math.Float64bits(b.cov[p*(p+1)/2+p]))
	}
	if b.prior != nil {
		mix(math.Float64bits(b.faded))
	}
	return h
}

// mixDigest passes what the mixture is to f.
func (x *mixture) mixDigest(f func(uint64)) {
	f(x.n)
	f(math.Float64bits(x.sum))
	for k, l := range x.likes {
		f(math.Float64bits(l))
		if x.gone[k] {
			f(1)
		}
		if x.trial[k] {
			f(2)
		}
	}
	f(uint64(len(x.fields.entries)))
	for _, s := range x.smalls {
		if s.trial {
			f(2)
		}
		f(s.digest)
		f(math.Float64bits(s.like))
		f(math.Float64bits(s.rss))
		if x.changes.on {
			f(math.Float64bits(s.noise))
			for i := range s.starts() {
				t := s.start(i)
				f(t.born)
				f(t.digest)
				f(math.Float64bits(t.sum))
				f(math.Float64bits(t.trust))
			}
		}
	}
	if c := &x.changes; c.on {
		f(c.odd)
		f(c.last.Seen)
		f(math.Float64bits(c.last.Posterior))
	}
}

// bytes is the length of the mixture in a snapshot, nearly.
func (x *mixture) bytes() (n int) {
	for _, s := range x.smalls {
		n += 40
		for i := range s.starts() {
			for _, b := range s.start(i).blocks {
				n += 18 + 24*len(b.mean) + 8*len(b.cov) + 8*len(b.prior)
			}
			if i > 0 {
				n += 42
			}
		}
	}
	return n + 8*len(x.fields.entries) + 64
}
