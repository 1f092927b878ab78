// Package process plays policies that are programs, in any language, over standard input and output.
//
// A spec names one as kind = "process" with its command (Options). The program meets the same instances and the same
// noise as every other policy, and gets its own random numbers as seeds, one for each cell and each round. It is
// started once for each worker: a program plays many cells, one after the other. docs/reference/process.md describes
// the messages.
//
// A program that ends, hangs, answers something else or prints other text to standard output fails its cell with a
// *spec.Error or an error that has the last lines of its standard error. A program never outlives the process that
// started it, on Linux also when that is killed.
package process

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// player is one cell of a program. It implements bandit.Policy and bandit.Prober; see Options.New.
type player struct {
	o     *Options
	p     policy.Problem
	turns policy.Turns // nil where the program plays one cell at a time
	c     *child       // nil before the first message, and after the last
	cell  uint32
	held  runtime.Cleanup
	err   error // once the program has failed, or the cell is over

	shown bandit.ActionSet // whose arms the program has
	body  []byte           // of a frame
	x     []float64        // an answer's vector or law
	began bool             // there was an update
}

// begin takes a program and tells it of the cell.
func (p *player) begin() error {
	if p.err != nil || p.c != nil {
		return p.err
	}
	c, ended, err := p.o.join(p.worker())
	if err != nil {
		return err
	}
	c.cells++
	p.c, p.cell = c, c.cells
	p.held = runtime.AddCleanup(p, release, held{p.o, c, p.cell, p.worker()})
	seed := p.p.Init.Round(0).Uint64(0) >> (64 - seedBits)
	about := &problem{Dim: p.p.Dim, Arms: p.p.Arms, Horizon: p.p.Horizon, Sigma: p.p.Sigma}
	if about.Sigma == 0 {
		about.Sigma = 1
	}
	if p.p.Low != 0 || p.p.High != 0 {
		about.Range = &[2]float64{p.p.Low, p.p.High}
	}
	options := map[string]any(p.o.Options)
	if options == nil {
		options = map[string]any{}
	}
	for _, cell := range ended {
		err = errors.Join(err, c.send(request{Type: "end", Cell: cell}))
	}
	if err == nil {
		err = c.send(request{Type: "init", Cell: p.cell, Seed: &seed, Problem: about, Options: options})
	}
	if err == nil {
		_, err = c.receive(p.cell, "ready")
	}
	return p.after("init", err)
}

// after ends the program when an error came from it.
func (p *player) after(during string, err error) error {
	if err == nil {
		return nil
	}
	p.held.Stop()
	p.err = p.c.kill(during, err)
	p.o.part(p.worker(), p.c, 0)
	p.c = nil
	return p.err
}

// worker is what the cells have in common that share a program and take turns, nil for a cell that has it alone.
func (p *player) worker() any {
	if p.turns == nil {
		return nil
	}
	return p.turns.Worker()
}

// Close tells the program that the cell is over, and leaves it to the next one.
func (p *player) Close() error {
	if p.c == nil {
		return nil
	}
	p.held.Stop()
	release(held{p.o, p.c, p.cell, p.worker()})
	p.c, p.shown, p.err = nil, nil, errors.New("process: the cell is over")
	return nil
}

// held is what a player holds of a program.
type held struct {
	o      *Options
	c      *child
	cell   uint32
	worker any
}

// release tells the program that the cell is over, at once or with what it is told next. It also serves a player that
// was dropped without Close, as the base of a wrapper is; that is on a goroutine of its own, which has the program to
// itself where no other cell uses it.
func release(h held) {
	ended, last := h.o.part(h.worker, h.c, h.cell)
	if !last || h.c.dead != nil {
		return
	}
	var err error
	for _, cell := range ended {
		err = errors.Join(err, h.c.send(request{Type: "end", Cell: cell}))
	}
	if err == nil {
		err = h.c.flush()
	}
	if err != nil {
		h.c.kill("end", err) //nolint:errcheck // the cell has its numbers
		return
	}
	h.o.give(h.c)
}

// Select implements bandit.Policy.
func (p *player) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	index, x, err := p.ask("select", frameSelect, set, draw)
	if err != nil {
		return err
	}
	if list, ok := set.(bandit.Finite); ok {
		if index < 0 || index >= list.Len() {
			return p.refuse(draw, fmt.Errorf("its action has index %d, expected one from 0 to %d", index, list.Len()-1))
		}
		dst.Set(list.At(index), index)
		return nil
	}
	square := 0.0
	for _, v := range x {
		square += float64(v * v)
	}
	if len(x) != set.Dim() || !(square <= 1+1e-9) {
		return p.refuse(draw, fmt.Errorf("its action is a vector of length %d and square norm %g, expected %d numbers of "+
			"norm at most 1", len(x), square, set.Dim()))
	}
	dst.Set(x, bandit.NoIndex)
	return nil
}

// refuse ends a program whose answer cannot be.
func (p *player) refuse(draw rng.Source, err error) error {
	return p.after(fmt.Sprintf("select of round %d", draw.At()), err)
}

// Prob implements bandit.Prober where the program knows its law, on finite sets.
func (p *player) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	list, ok := set.(bandit.Finite)
	h, err := p.o.greeting()
	switch {
	case err != nil:
		return err
	case !h.Law || !ok:
		return fmt.Errorf("a program without a law: %w", bandit.ErrUnsupported)
	}
	_, law, err := p.ask("law", frameLaw, set, draw)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, q := range law {
		if !(q >= 0 && q <= 1+1e-9) {
			sum = math.NaN()
		}
		sum += q
	}
	if len(law) != list.Len() || !(math.Abs(sum-1) <= 1e-9) {
		return p.after(fmt.Sprintf("law of round %d", draw.At()), fmt.Errorf(
			"its law has %d numbers with sum %g, expected %d probabilities with sum 1", len(law), sum, list.Len()))
	}
	dst.Atoms, dst.Total = dst.Atoms[:0], 0
	for i, q := range law {
		dst.Atoms = append(dst.Atoms, bandit.Atom{Action: bandit.Action{Index: i}, P: q})
	}
	return nil
}

// ask sends the set of a round, or that it is the one before, and reads the answer: an index and a vector, or a law.
func (p *player) ask(what string, kind byte, set bandit.ActionSet, draw rng.Source) (index int, x []float64, err error) {
	list, finite := set.(bandit.Finite)
	_, ball := set.(bandit.UnitBall)
	if !finite && !ball {
		return 0, nil, fmt.Errorf("a program plays finite dense sets and the unit ball: %w", bandit.ErrUnsupported)
	}
	if set.Dim() != p.p.Dim {
		return 0, nil, fmt.Errorf("the set has dimension %d, expected %d", set.Dim(), p.p.Dim)
	}
	if finite && 8*list.Len()*set.Dim() > mostBytes-1024 {
		return 0, nil, fmt.Errorf("%d arms in %d dimensions are more than the %d bytes of a message", list.Len(), set.Dim(),
			mostBytes)
	}
	if err := p.begin(); err != nil {
		return 0, nil, err
	}
	if p.c.hello.Packed {
		index, x, err = p.askPacked(kind, list, set, draw)
	} else {
		index, x, err = p.askText(what, list, set, draw)
	}
	p.shown = set
	if err != nil {
		return 0, nil, p.after(fmt.Sprintf("%s of round %d", what, draw.At()), err)
	}
	for _, v := range x {
		if v-v != 0 {
			return 0, nil, p.after(fmt.Sprintf("%s of round %d", what, draw.At()),
				fmt.Errorf("its answer has the number %v: %w", v, bandit.ErrNotFinite))
		}
	}
	return index, x, nil
}

// shortLaw bounds the laws that a program may answer while it is asked for other cells: their answers together fit into
// the smallest pipe, so that it never waits for a reader.
const shortLaw = 8

// yield lets other cells go on where the answer that is asked for is short.
func (p *player) yield(law bool, list bandit.Finite) {
	if p.turns != nil && list != nil && (!law || list.Len() <= shortLaw) {
		p.c.yield(p.cell, p.turns)
	}
}

func (p *player) askText(what string, list bandit.Finite, set bandit.ActionSet, draw rng.Source) (int, []float64,
	error) {
	seed := draw.Uint64(0) >> (64 - seedBits)
	r := request{Type: what, Cell: p.cell, Round: uint32(draw.At()), Seed: &seed}
	switch {
	case p.shown == set:
	case list == nil:
		r.Set = "ball"
	default:
		for i := range list.Len() {
			r.Arms = append(r.Arms, list.At(i))
		}
	}
	if err := p.c.send(r); err != nil {
		return 0, nil, err
	}
	p.yield(what == "law", list)
	want := "action"
	if what == "law" {
		want = "law"
	}
	a, err := p.c.receive(p.cell, want)
	if err != nil {
		return 0, nil, err
	}
	if what == "law" {
		return 0, a.Law, nil
	}
	if list == nil {
		return bandit.NoIndex, a.Vector, nil
	}
	if a.Index == nil {
		return 0, nil, errors.New("its action has no index")
	}
	return *a.Index, nil, nil
}

func (p *player) askPacked(kind byte, list bandit.Finite, set bandit.ActionSet, draw rng.Source) (int, []float64,
	error) {
	order := binary.LittleEndian
	b := order.AppendUint32(p.body[:0], p.cell)
	b = order.AppendUint32(b, uint32(draw.At()))
	b = order.AppendUint64(b, draw.Uint64(0)>>(64-seedBits))
	k := 0
	switch {
	case p.shown != set && list != nil:
		k = list.Len()
		b = order.AppendUint32(b, uint32(k))
	case p.shown != set && p.shown != nil:
		b = order.AppendUint32(b, ballAgain)
	default:
		b = order.AppendUint32(b, 0)
	}
	b = order.AppendUint32(b, uint32(set.Dim()))
	for i := range k {
		b = appendFloats(b, list.At(i))
	}
	p.body = b
	p.c.frame(kind, len(b))
	p.c.in.Write(b)
	p.yield(kind == frameLaw, list)
	body, err := p.c.receiveFrame(p.cell, kind+3)
	if err != nil {
		return 0, nil, err
	}
	if kind == frameLaw {
		if len(body) < 4 {
			return 0, nil, errors.New("its law has fewer than 8 bytes")
		}
		ok := false
		if p.x, ok = floats(p.x, body[4:], int(order.Uint32(body))); !ok {
			return 0, nil, errors.New("its law is not as long as it says")
		}
		return 0, p.x, nil
	}
	if len(body) < 8 {
		return 0, nil, errors.New("its action has fewer than 12 bytes")
	}
	index := int(int32(order.Uint32(body)))
	ok := false
	if p.x, ok = floats(p.x, body[8:], int(order.Uint32(body[4:]))); !ok {
		return 0, nil, errors.New("its vector is not as long as it says")
	}
	return index, p.x, nil
}

// Update implements bandit.Policy. The program does not answer; an error that it has comes with the next message.
func (p *player) Update(a bandit.Action, y float64, draw rng.Source) error {
	if y-y != 0 {
		return fmt.Errorf("reward %v: %w", y, bandit.ErrNotFinite)
	}
	if a.At != nil {
		return fmt.Errorf("a program learns dense actions: %w", bandit.ErrUnsupported)
	}
	if len(a.X) != p.p.Dim {
		return fmt.Errorf("the action has %d numbers, expected %d", len(a.X), p.p.Dim)
	}
	for _, v := range a.X {
		if v-v != 0 {
			return fmt.Errorf("the action has the number %v: %w", v, bandit.ErrNotFinite)
		}
	}
	if err := p.begin(); err != nil {
		return err
	}
	p.began = true
	seed := draw.Uint64(0) >> (64 - seedBits)
	known := a.Index >= 0 && p.shown != nil // the program has the arm
	var err error
	if p.c.hello.Packed {
		order := binary.LittleEndian
		b := order.AppendUint32(p.body[:0], p.cell)
		b = order.AppendUint32(b, uint32(draw.At()))
		b = order.AppendUint64(b, seed)
		b = order.AppendUint32(b, uint32(int32(a.Index)))
		b = order.AppendUint64(b, math.Float64bits(y))
		if known {
			b = order.AppendUint32(b, 0)
		} else {
			b = appendFloats(order.AppendUint32(b, uint32(len(a.X))), a.X)
		}
		p.body = b
		p.c.frame(frameUpdate, len(b))
		_, err = p.c.in.Write(b)
	} else {
		r := request{Type: "update", Cell: p.cell, Round: uint32(draw.At()), Seed: &seed, Reward: &y}
		if a.Index >= 0 {
			r.Index = &a.Index
		}
		if !known {
			r.X = a.X
		}
		err = p.c.send(r)
	}
	return p.after(fmt.Sprintf("update of round %d", draw.At()), err)
}

// keeper is a player whose program can save and restore a cell: a bandit.Snapshotter.
type keeper struct{ *player }

// AppendSnapshot implements bandit.Snapshotter.
func (k *keeper) AppendSnapshot(b []byte) ([]byte, error) {
	if err := k.begin(); err != nil {
		return b, err
	}
	err := k.c.send(request{Type: "snapshot", Cell: k.cell})
	var a answer
	if err == nil {
		a, err = k.c.receive(k.cell, "state")
	}
	var state []byte
	if err == nil {
		state, err = base64.StdEncoding.DecodeString(a.State)
	}
	if err != nil {
		return b, k.after("snapshot", err)
	}
	b = append(b, state...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(state, castagnoli)), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Restore implements bandit.Snapshotter. A program that refuses the state is ended; a cell that has learned nothing
// begins again with another one.
func (k *keeper) Restore(b []byte) error {
	n := len(b) - 4
	if n < 0 || binary.LittleEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return errors.New("process: the state is damaged")
	}
	b = b[:n]
	if err := k.begin(); err != nil {
		return err
	}
	err := k.c.send(request{Type: "restore", Cell: k.cell, State: base64.StdEncoding.EncodeToString(b)})
	if err == nil {
		_, err = k.c.receive(k.cell, "ready")
	}
	if err = k.after("restore", err); err != nil && !k.began {
		k.err, k.shown = nil, nil
	}
	return err
}
