package effects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
)

// magic begins a snapshot.
const magic = "TRE1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot appends the state, with the decisions that are not settled: 8 bytes for each number that Bytes counts. A model
// that is restored from it goes on with the same bits.
func (m *Model) AppendSnapshot(b []byte) []byte {
	start := len(b)
	c := codec{b: append(b, magic...), write: true}
	m.s.code(&c)
	m.trial.code(&c)
	return binary.LittleEndian.AppendUint32(c.b, crc32.Checksum(c.b[start:], castagnoli))
}

// Restore replaces the state by that of a snapshot. On an error it stays what it was.
func (m *Model) Restore(b []byte) error {
	if len(b) < len(magic)+4 || string(b[:len(magic)]) != magic {
		return fmt.Errorf("effects: the snapshot begins with %q, expected %q: it is of another kind of policy or of an "+
			"earlier version", b[:min(len(b), len(magic))], magic)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("effects: the snapshot is damaged: its checksum differs")
	}
	return m.decode(body[len(magic):])
}

// decode is Restore without the magic and the checksum.
func (m *Model) decode(b []byte) error {
	c := codec{b: b}
	var s state
	t := newTrial()
	s.code(&c)
	t.code(&c)
	if c.err == nil && len(c.b) > 0 {
		c.err = fmt.Errorf("%d bytes too many", len(c.b))
	}
	if c.err == nil {
		c.err = s.check()
	}
	if c.err != nil {
		return fmt.Errorf("effects: the snapshot is damaged: %w", c.err)
	}
	s.life = new(byte)
	m.s, m.trial, m.find, m.lent = s, t, newIndex(), nil
	m.find.follow(&m.s.lay)
	return nil
}

// check refuses a state whose parts do not fit together.
func (s *state) check() error {
	if len(s.h.tau) != len(s.lay.groups) || len(s.lay.coords) == 0 || len(s.lay.coords) > maxJoint {
		return errors.New("the layout is not one")
	}
	for _, c := range s.lay.coords {
		if int(c.group) >= len(s.lay.groups) || c.group < 0 {
			return errors.New("a coordinate has no group")
		}
	}
	for _, x := range append([]*sums{s.main}, s.copies...) {
		if len(x.blocks) > len(s.lay.ids) {
			return errors.New("a block has no action")
		}
		for _, b := range x.blocks {
			if b == nil {
				continue
			}
			d := len(b.b)
			if d > len(s.lay.coords) || len(b.a) != triangle(d) || len(b.post.p) != triangle(d) || len(b.post.m) != d {
				return errors.New("a block has another size")
			}
			if err := b.checkPlaces(d, s.h.lists != nil); err != nil {
				return err
			}
		}
		if n := len(x.tail.pages); n&(n-1) != 0 || n > maxPages {
			return errors.New("the tail has another size")
		}
		for _, p := range x.tail.pages {
			for i := range p.cells {
				if g := p.cells[i].group; g < 0 || int(g) >= len(s.lay.groups) {
					return errors.New("a value of the tail has no group")
				}
			}
		}
	}
	for _, list := range [][]record{s.extremes.top, s.extremes.low} {
		if len(list) > 2 || s.events > 0 && len(list) == 0 {
			return errors.New("the extremes are not there")
		}
		for _, r := range list {
			if r.block < 0 || int(r.block) >= len(s.lay.ids) || len(r.v.at) != len(r.v.x) {
				return errors.New("an extreme reward has no action")
			}
			last := int32(-1)
			for _, j := range r.v.at {
				if j <= last || int(j) >= len(s.lay.coords) {
					return errors.New("an extreme reward has no coordinates")
				}
				last = j
			}
			for _, l := range r.v.tail {
				if l.group < 0 || int(l.group) >= len(s.lay.groups) {
					return errors.New("an extreme reward has no group")
				}
			}
		}
	}
	if n := len(s.seen.keys); n&(n-1) != 0 || n > maxSketch {
		return errors.New("the sketch has another size")
	}
	if f := s.fit; f != nil && (len(f.tau) > len(s.lay.groups) || len(f.guess) != len(f.tau) || len(f.size) != len(f.tau) ||
		len(f.free) != len(f.tau) || f.block < 0) {
		return errors.New("the estimate under way has another size")
	}
	return nil
}

// codec writes values, or reads them: one function states the order of both. While it writes it changes none of them: a
// version that decides at the same time shares some. Numbers that are not finite are refused.
type codec struct {
	b     []byte
	write bool
	err   error
}

func (c *codec) fail(text string) {
	if c.err == nil {
		c.err = errors.New(text)
	}
}

func uint64s[T ~uint64 | ~uint32 | ~uint16 | ~uint8 | ~int | ~int32](c *codec, x *T) {
	if c.write {
		c.b = binary.AppendUvarint(c.b, uint64(*x))
		return
	}
	v, n := binary.Uvarint(c.b)
	if c.err != nil || n <= 0 || uint64(T(v)) != v {
		c.fail("a number is cut short or too large")
		return
	}
	*x, c.b = T(v), c.b[n:]
}

func (c *codec) fixed(x *uint64) {
	if c.write {
		c.b = binary.LittleEndian.AppendUint64(c.b, *x)
		return
	}
	if c.err != nil || len(c.b) < 8 {
		c.fail("a number is cut short")
		return
	}
	*x, c.b = binary.LittleEndian.Uint64(c.b), c.b[8:]
}

func (c *codec) float(x *float64) {
	if c.write {
		c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(*x))
		return
	}
	var v uint64
	c.fixed(&v)
	if *x = math.Float64frombits(v); *x-*x != 0 {
		c.fail("a number is not finite")
	}
}

func (c *codec) bool(x *bool) {
	n := uint8(0)
	if *x {
		n = 1
	}
	if uint64s(c, &n); c.write {
		return // x may be shared with a version that decides
	}
	if *x = n == 1; n > 1 {
		c.fail("a truth value is neither 0 nor 1")
	}
}

// list codes a list whose entries take at least one byte each.
func list2[T any](c *codec, x *[]T, one func(*T)) {
	n := len(*x)
	uint64s(c, &n)
	if !c.write {
		if c.err != nil || n > len(c.b) {
			c.fail("a list is cut short")
			return
		}
		*x = nil
		if n > 0 {
			*x = make([]T, n)
		}
	}
	for i := range *x {
		if one(&(*x)[i]); c.err != nil {
			return
		}
	}
}

func (c *codec) floats(x *[]float64) {
	n := len(*x)
	uint64s(c, &n)
	if !c.write {
		if c.err != nil || n > len(c.b)/8 {
			c.fail("a list is cut short")
			return
		}
		*x = make([]float64, n)
	}
	for i := range *x {
		c.float(&(*x)[i])
	}
}

func (s *state) code(c *codec) {
	c.bool(&s.lay.joint)
	c.bool(&s.lay.lists)
	list2(c, &s.lay.fields, func(f *field) {
		uint64s(c, &f.key)
		c.bool(&f.number)
		c.bool(&f.log)
		c.float(&f.mid)
		c.float(&f.width)
		uint64s(c, &f.levels)
	})
	list2(c, &s.lay.groups, func(g *group) {
		uint64s(c, &g.kind)
		uint64s(c, &g.a)
		uint64s(c, &g.b)
		if g.kind >= endOfKinds || g.kind < ofWaves && int(g.kind&(ofOwnFeatures-1)) >= len(bases) {
			c.fail("a group is of no kind")
		}
	})
	list2(c, &s.lay.coords, func(x *coord) { c.fixed(&x.key); uint64s(c, &x.group) })
	list2(c, &s.lay.ids, func(x *uint64) { c.fixed(x) })
	s.h.code(c)
	if !c.write {
		s.main = &sums{}
	}
	s.main.code(c)
	list2(c, &s.copies, func(x **sums) {
		if !c.write {
			*x = &sums{}
		}
		(*x).code(c)
	})
	under := s.fit != nil
	if c.bool(&under); under {
		if !c.write {
			s.fit = &fit{}
		}
		s.fit.code(c)
	}
	c.float(&s.offset)
	for _, x := range []*uint64{&s.events, &s.rewards, &s.n, &s.t, &s.next, &s.births[0], &s.births[1], &s.births[2], &s.births[3]} {
		uint64s(c, x)
	}
	list2(c, &s.extremes.top, func(r *record) { r.code(c) })
	list2(c, &s.extremes.low, func(r *record) { r.code(c) })
	s.codeNumbers(c)
	list2(c, &s.seen.keys, func(x *uint64) { c.fixed(x) })
	uint64s(c, &s.seen.used)
	list2(c, &s.early, func(e *event) {
		atoms := func(x *[]Atom) { list2(c, x, func(a *Atom) { c.fixed(&a.Hash); c.float(&a.Value) }) }
		atoms(&e.context)
		list2(c, &e.list, func(x *Entry) { atoms(&x.Action); c.float(&x.Y); c.bool(&x.Given) })
		c.bool(&e.whole)
		if atoms(&e.action); len(e.action) == 0 && len(e.list) == 0 {
			c.fail("an early event has no action")
		}
		c.float(&e.y)
		uint64s(c, &e.t)
	})
	c.bool(&s.grown)
	c.float(&s.clock.now)
	c.float(&s.clock.faded)
	uint64s(c, &s.clock.back)
	list2(c, &s.changes, func(x *Change) {
		uint64s(c, &x.Born)
		uint64s(c, &x.Seen)
		c.float(&x.Before)
		c.float(&x.Since)
	})
}

// codeNumbers codes the first values of numbers, by field.
func (s *state) codeNumbers(c *codec) {
	keys := slices.Sorted(maps.Keys(s.numbers))
	if !c.write {
		s.numbers = map[fieldKey][]float64{}
	}
	list2(c, &keys, func(k *fieldKey) {
		uint64s(c, k)
		v := s.numbers[*k]
		if c.floats(&v); !c.write {
			s.numbers[*k] = v
		}
	})
}

func (h *hyper) code(c *codec) {
	c.float(&h.mean)
	c.float(&h.variance)
	if c.float(&h.s2); !(h.s2 > 0) {
		c.fail("the noise is not positive")
	}
	c.floats(&h.tau)
	for _, t := range h.tau {
		if !(t > 0) {
			c.fail("a variance is not positive")
		}
	}
	there := h.lists != nil
	if c.bool(&there); there {
		if !c.write {
			h.lists = &scales{}
		}
		h.lists.code(c)
	}
}

func (s *sums) code(c *codec) {
	list2(c, &s.blocks, func(x **block) {
		there := *x != nil
		if c.bool(&there); !there {
			return
		}
		if !c.write {
			*x = &block{}
		}
		b := *x
		for _, v := range []*float64{&b.n, &b.sy, &b.syy, &b.post.mean, &b.post.s2} {
			c.float(v)
		}
		for _, v := range []*[]float64{&b.a, &b.b, &b.post.m, &b.post.p} {
			c.floats(v)
		}
		list2(c, &b.placed, func(x **placed) {
			there := *x != nil
			if c.bool(&there); !there {
				return
			}
			if !c.write {
				*x = &placed{}
			}
			(*x).code(c)
		})
		if !c.write && c.err == nil && len(b.post.p) == triangle(len(b.post.m)) {
			b.digest()
		}
	})
	list2(c, &s.tail.pages, func(x **page) {
		if !c.write {
			*x = &page{}
		}
		used := 0
		for i := range (*x).cells {
			if (*x).cells[i].key != 0 {
				used = i + 1
			}
		}
		if uint64s(c, &used); used > pageCells {
			c.fail("a page has too many values")
			return
		}
		for i := range used {
			e := &(*x).cells[i]
			c.fixed(&e.key)
			c.float(&e.n)
			c.float(&e.r)
			uint64s(c, &e.group)
			uint64s(c, &e.last)
			if !c.write && e.key != 0 {
				s.tail.used++
				s.tail.sum += e.digest()
			}
		}
	})
	uint64s(c, &s.born)
	if uint64s(c, &s.slot); s.slot >= 4 {
		c.fail("a copy has no place")
	}
	c.float(&s.weigh)
}

func (r *record) code(c *codec) {
	uint64s(c, &r.event)
	uint64s(c, &r.t)
	uint64s(c, &r.block)
	if uint64s(c, &r.place); r.place >= places {
		c.fail("an extreme reward has no place")
	}
	c.float(&r.weight)
	c.float(&r.raw)
	c.float(&r.y)
	list2(c, &r.v.at, func(x *int32) { uint64s(c, x) })
	c.floats(&r.v.x)
	list2(c, &r.v.tail, func(l *loose) { c.fixed(&l.key); uint64s(c, &l.group); c.float(&l.x); c.bool(&l.value) })
}

func (f *fit) code(c *codec) {
	for _, x := range []*float64{&f.mean, &f.variance, &f.s2, &f.rss, &f.dof} {
		c.float(x)
	}
	for _, x := range []*[]float64{&f.tau, &f.guess, &f.size, &f.free} {
		c.floats(x)
	}
	uint64s(c, &f.round)
	uint64s(c, &f.block)
	list2(c, &f.solving, func(x *int) { uint64s(c, x) })
	uint64s(c, &f.budget)
}

func (t *trial) code(c *codec) {
	list2(c, &t.queue, func(p *pending) {
		c.fixed(&p.key)
		uint64s(c, &p.t)
		for _, x := range []*float64{&p.y, &p.z, &p.q} {
			c.float(x)
		}
		for i := range p.copies {
			e := &p.copies[i]
			if uint64s(c, &e.born); e.born > 0 {
				uint64s(c, &e.slot)
				c.float(&e.z)
				c.float(&e.q)
			}
		}
		uint64s(c, &p.open)
		c.bool(&p.known)
		c.bool(&p.done)
		c.bool(&p.given)
		list2(c, &p.list, func(x *listExpected) { x.code(c) })
		judged := p.evidence != nil
		if c.bool(&judged); judged {
			if !c.write {
				p.evidence = new([4]float64)
			}
			for i := range p.evidence {
				c.float(&p.evidence[i])
			}
		}
	})
	uint64s(c, &t.first)
	uint64s(c, &t.decided)
	if !c.write {
		for i, p := range t.queue {
			t.at[p.key] = t.first + uint64(i)
			if !p.done {
				t.open++
			}
		}
	}
}
