package eventlog

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"troupe/internal/golden"
)

// Generators of everything that may be written.

func genEvent(t *rapid.T) Event {
	return Event{
		Epoch: ID(rapid.Uint64Min(1).Draw(t, "epoch")),
		Batch: rapid.Uint64Min(1).Draw(t, "batch"),
		Index: rapid.Uint32Range(0, MaxEvents-1).Draw(t, "index"),
	}
}

func genFloat(t *rapid.T) float64 { return rapid.Float64().Filter(finite).Draw(t, "float") }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func genVector(t *rapid.T) []float64 {
	x := rapid.SliceOfN(rapid.Float64().Filter(finite), 0, 8).Draw(t, "x")
	if len(x) == 0 {
		return nil
	}
	return x
}

func genBytes(t *rapid.T, most int) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes")
	if len(b) == 0 {
		return nil
	}
	return b
}

func genText(t *rapid.T) string { return rapid.StringN(0, 20, 40).Draw(t, "text") }
func genID(t *rapid.T) ID       { return ID(rapid.Uint64Min(1).Draw(t, "id")) }
func genTime(t *rapid.T) int64  { return rapid.Int64().Draw(t, "time") }

// genLaw draws the law of r's draw over r.Offered candidates, with or without groups.
func genLaw(t *rapid.T, r *Decision) {
	counts := []uint64{} // by group
	groups := make([]uint32, r.Offered)
	for i := range groups {
		groups[i] = uint32(rapid.IntRange(0, len(counts)).Draw(t, "group"))
		if int(groups[i]) == len(counts) {
			counts = append(counts, rapid.Uint64Range(0, 1<<20).Draw(t, "count"))
		}
	}
	counts[0]++
	for _, c := range counts {
		r.Voters += c
	}
	for _, g := range groups {
		r.Law = append(r.Law, counts[g])
	}
	if len(counts) < len(groups) {
		r.Groups = groups
	}
}

// genRecord draws a record of any kind that writers write, half of them with all that it can have.
func genRecord(t *rapid.T) Record {
	r := genPlainRecord(t, Kind(rapid.IntRange(1, 7).Draw(t, "kind")))
	if rapid.Bool().Draw(t, "plain") {
		return r
	}
	switch r := r.(type) {
	case *Decision:
		if len(r.X) == 0 {
			r.Atoms = genBytes(t, 64)
		}
		switch {
		case r.Offered < 50 && r.Offered >= 1 && rapid.Bool().Draw(t, "list"):
			genList(t, r)
		case r.Offered >= 2 && r.Offered < 50:
			genLaw(t, r)
		}
		r.Floor = rapid.Uint32Range(0, FloorUnit).Draw(t, "floor")
		if r.Offered > 0 && r.Offered < 50 && rapid.Bool().Draw(t, "costs") {
			for range r.Offered {
				r.Costs = append(r.Costs, math.Abs(genFloat(t)))
			}
			if rapid.Bool().Draw(t, "budget") {
				r.Price, r.Expects, r.Play = 1+math.Abs(genFloat(t)), math.Abs(genFloat(t)), Play(rapid.IntRange(0, 1).Draw(t, "play"))
			}
		}
		if r.Offered > 0 && r.Play == PlayLaw && rapid.Bool().Draw(t, "guarded") {
			r.Baseline, r.Play = rapid.Uint32Range(1, r.Offered).Draw(t, "baseline"), Play(2*rapid.IntRange(0, 1).Draw(t, "played"))
		}
		if (r.Mode == Online || r.Mode == Frozen) && rapid.Bool().Draw(t, "controlled") {
			r.Group, r.Control = Group(rapid.IntRange(1, 2).Draw(t, "group")), rapid.Uint32Range(1, MaxControl).Draw(t, "control")
			r.ControlFirst = rapid.Bool().Draw(t, "first")
		}
		r.Notes, r.Config = Notes(rapid.Uint32Range(0, 15).Draw(t, "notes")), rapid.Uint64().Draw(t, "config")
		if r.Unit = ID(rapid.Uint64().Draw(t, "unit")); r.Unit != 0 {
			r.Span = rapid.Uint64().Draw(t, "span")
		}
	case *Reward:
		if len(r.X) == 0 {
			r.Atoms = genBytes(t, 64)
		}
		if rapid.Bool().Draw(t, "costed") {
			r.Costed, r.Cost, r.OnlyCost = true, math.Abs(genFloat(t)), rapid.Bool().Draw(t, "only")
		}
		r.Shown = rapid.Uint32Range(0, MaxPositions+1).Draw(t, "shown")
		if !r.OnlyCost && rapid.Bool().Draw(t, "positions") {
			r.Y = 0
			for p := range uint64(rapid.IntRange(1, 5).Draw(t, "how many")) {
				r.Positions, r.Ys = append(r.Positions, 2*p+1), append(r.Ys, genFloat(t))
			}
		}
	case *Control:
		switch r.Act = Act(rapid.IntRange(int(Create), int(Members)).Draw(t, "any act")); r.Act {
		case Configure:
			r.Base = rapid.Uint64().Draw(t, "base")
		case Trim:
			r.AtSeq, r.Data = max(r.AtSeq, 1), bytes.Repeat([]byte{7}, 32)
		case Members:
			r.Data = []byte("a\nb\nc")
		}
		r.Model, r.From, r.Version = 0, 0, 0
		if !r.Act.ofLog() {
			r.Model = genID(t)
		}
		if r.Act == RaiseVersion {
			r.Version = 2
		}
		if r.Act == Clone || r.Act == Rollback {
			r.From = genID(t)
		}
	case *Checkpoint:
		r.Node, r.Applied, r.Combined, r.Readable, r.Keys = "a", rapid.Uint64().Draw(t, "applied"), genID(t), 2, genID(t)
		if rapid.Bool().Draw(t, "base") {
			r.Base, r.BaseSeq = bytes.Repeat([]byte{9}, 32), 5
		}
	}
	return r
}

func genPlainRecord(t *rapid.T, kind Kind) Record {
	switch kind {
	case 7:
		r := &Piece{Model: genID(t), Parts: rapid.Uint32Range(1, 5).Draw(t, "parts"), Data: []byte("part")}
		r.Part = rapid.Uint32Range(0, r.Parts-1).Draw(t, "part")
		if r.Part == r.Parts-1 {
			r.Digest = genID(t)
		}
		return r
	case KindDecision:
		r := &Decision{Model: genID(t), BasisSeq: rapid.Uint64().Draw(t, "basis"), BasisDigest: genID(t),
			Member: rapid.Uint32().Draw(t, "member"), Negative: rapid.Bool().Draw(t, "neg"), Action: genText(t),
			X: genVector(t), Mode: Mode(rapid.IntRange(0, 3).Draw(t, "mode")), Deferred: rapid.Bool().Draw(t, "deferred"),
			Context: genID(t), Full: genBytes(t, 64), Caller: genText(t), Time: genTime(t), Deadline: genTime(t),
			Idempotency: genBytes(t, 32), WouldAction: genText(t), Draw: genID(t)}
		r.Den = rapid.Uint64Min(1).Draw(t, "den")
		r.Num = rapid.Uint64Range(0, r.Den).Draw(t, "num")
		r.WouldNum = rapid.Uint64Range(0, r.Den).Draw(t, "would")
		if r.Offered = rapid.Uint32Range(0, 1000).Draw(t, "offered"); r.Offered > 0 {
			r.Index = rapid.Uint32Range(0, r.Offered-1).Draw(t, "index")
		}
		return r
	case KindActivate:
		return &Activate{Event: genEvent(t), Time: genTime(t), Model: genID(t), Shown: rapid.Uint32Range(0, MaxPositions+1).Draw(t, "shown")}
	case KindReward:
		return &Reward{Event: genEvent(t), Model: genID(t), X: genVector(t), Y: genFloat(t), Source: genText(t), Time: genTime(t), Key: genID(t)}
	case KindExpire:
		r := &Expire{Event: genEvent(t), Model: genID(t), Default: rapid.Bool().Draw(t, "default"), Time: genTime(t)}
		r.Count = rapid.Uint32Range(1, MaxEvents-r.Event.Index).Draw(t, "count")
		if r.Default {
			r.Y = genFloat(t)
		}
		return r
	case KindControl:
		r := &Control{Act: Act(rapid.IntRange(1, int(RaiseVersion)).Draw(t, "act")), Name: genText(t), Config: genBytes(t, 64),
			AtSeq: rapid.Uint64().Draw(t, "at"), Digest: genID(t), KeepLater: rapid.Bool().Draw(t, "keep"), Caller: genText(t), Time: genTime(t)}
		if r.Act == RaiseVersion {
			r.Version = rapid.Uint32Range(1, 0xffff).Draw(t, "version")
		} else {
			r.Model = genID(t)
		}
		if r.Act == Clone || r.Act == Rollback {
			r.From = genID(t)
		}
		return r
	default:
		r := &Checkpoint{Seq: rapid.Uint64().Draw(t, "seq"), Time: genTime(t)}
		var model ID
		for range rapid.IntRange(0, 4).Draw(t, "states") {
			model += ID(rapid.Uint64Range(1, 1<<60).Draw(t, "step"))
			r.States = append(r.States, Digest{model, genID(t)})
		}
		return r
	}
}

// same compares records bit for bit, so that -0 and 0 differ.
func same(t failer, a, b any) {
	t.Helper()
	bits := cmp.Transformer("bits", math.Float64bits)
	if d := cmp.Diff(a, b, bits); d != "" {
		t.Fatalf("differs (-want +got):\n%s", d)
	}
}

// TestRecordRoundTrip: what is written is read back bit for bit, nothing is left over, and cutting
// the bytes anywhere is refused.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		b, err := AppendRecord([]byte("before"), want)
		if err != nil {
			t.Fatal(err)
		}
		b = b[len("before"):]
		got, rest, err := DecodeRecord(append(bytes.Clone(b), "after"...))
		if err != nil || string(rest) != "after" {
			t.Fatalf("rest %q, error %v", rest, err)
		}
		same(t, want, got)
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, _, err := DecodeRecord(b[:cut]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: error %v, want ErrMalformed", cut, len(b), err)
		}
	})
}

// TestEveryFieldIsKept: a record with every field set, field by field by reflection, survives; so a
// field added to a struct and forgotten in append or field turns this red.
func TestEveryFieldIsKept(t *testing.T) {
	for k := KindDecision; k <= KindPiece; k++ {
		if newRecord(k) == nil {
			continue
		}
		r := newRecord(k)
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			fill(t, v.Field(i), uint64(i)+1)
		}
		switch r := r.(type) { // what does not go together
		case *Decision:
			r.Num, r.Den, r.WouldNum, r.Index, r.Offered, r.Mode = 3, 9, 2, 1, 3, Frozen
			r.Law, r.Groups, r.Voters, r.X = []uint64{6, 6, 2}, []uint32{0, 0, 1}, 8, nil
			r.Costs, r.Price, r.Expects, r.Play = []float64{.5, 0, 3e-5}, .25, .125, PlayStop
			r.Baseline, r.Notes = 2, NoteType|NoteAlike
			r.Group = GroupControl
			r.List, r.WouldList = nil, nil // no list has a law of actions: TestRecordRoundTrip, TestFormatPage
			r.Numbers = []Number{{"price", 9.5, 9.5, 9.5}, {"bid", .4, .25, .5}}
		case *Reward:
			r.X, r.Cost = nil, .25
			r.Positions, r.Ys = nil, nil // no list has one reward and several
			r.Named, r.Values = 0, nil   // nor has a reward a name: FuzzNamedReward, TestFormatPage
		case *Control:
			r.Act, r.Version, r.From, r.Data = Configure, 0, 0, nil
		case *Checkpoint:
			r.Base = bytes.Repeat([]byte{1}, 32)
			r.Prices = []Price{{1, .5, 0}, {7, 0, 3}}
		case *Piece:
			r.Part, r.Parts = 6, 7
		case *Expire:
			r.Count = 7
		}
		b, err := AppendRecord(nil, r)
		if err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		got, _, err := DecodeRecord(b)
		if err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		same(t, r, got)
	}
}

func fill(t *testing.T, v reflect.Value, n uint64) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(n)
	case reflect.Int64:
		v.SetInt(-int64(n))
	case reflect.Float64:
		v.SetFloat(-float64(n) / 3)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n+uint64(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	default:
		t.Fatalf("no value for %v", v.Type())
	}
}

// TestRefusals: what may not be written is refused by name, and leaves the buffer as it was.
func TestRefusals(t *testing.T) {
	ok := Event{Epoch: 1, Batch: 1}
	for _, c := range []struct {
		r    Record
		want string
	}{
		{&Reward{Event: ok, Model: 1, Y: math.NaN()}, "reward: y = NaN"},
		{&Reward{Event: ok, Model: 1, X: []float64{0, math.Inf(-1)}}, "reward: x[1] = -Inf"},
		{&Reward{Event: ok}, "reward: model is 0"},
		{&Reward{Model: 1, Event: Event{Batch: 1}}, "reward: event.epoch is 0"},
		{&Reward{Model: 1, Event: Event{Epoch: 1}}, "reward: event.batch is 0"},
		{&Reward{Model: 1, Event: Event{1, 1, MaxEvents}}, "reward: event.index = 2048"},
		{&Reward{Model: 1, Event: ok, Source: "\xff"}, "reward: source"},
		{&Decision{Model: 1, Num: 3, Den: 2}, "propensity 3/2"},
		{&Decision{Model: 1}, "propensity 0/0"},
		{&Decision{Model: 1, Den: 1, Mode: 9}, "mode = 9"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Index: 2}, "index = 2 of 2"},
		{&Decision{Model: 1, Den: 1, Action: strings.Repeat("x", maxText+1)}, "action has 1025 bytes"},
		{&Decision{Model: 1, Den: 1, Full: make([]byte, MaxBatch)}, "a batch has at most"},
		{&Decision{Model: 1, Den: 1, Idempotency: make([]byte, 33)}, "idempotency has 33 bytes"},
		{&Expire{Event: ok, Model: 1}, "0 events"},
		{&Expire{Event: Event{1, 1, 2047}, Model: 1, Count: 2}, "2 events from index 2047"},
		{&Expire{Event: ok, Model: 1, Count: 1, Y: 1}, "without default"},
		{&Control{Act: 99, Model: 1}, "act = 99"},
		{&Control{Act: Create}, "create of model"},
		{&Control{Act: Clone, Model: 1}, "clone from model"},
		{&Control{Act: Pause, Model: 1, Version: 2}, "version = 2"},
		{&Checkpoint{States: []Digest{{2, 1}, {2, 1}}}, "states[1].model"},
		{&Loss{First: 3, Last: 2}, "range 3–2"},
		{&Decision{Model: 1, Den: 1, X: []float64{1}, Atoms: []byte("a")}, "decision: x and atoms are both set"},
		{&Decision{Model: 1, Den: 1, Atoms: make([]byte, MaxData+1)}, "atoms have 524289 bytes"},
		{&Reward{Event: ok, Model: 1, X: []float64{1}, Atoms: []byte("a")}, "reward: x and atoms are both set"},
		{&Reward{Event: ok, Model: 1, Named: 3, Values: []float64{1}}, "named = 0x3 with 1 values"},
		{&Reward{Event: ok, Model: 1, Values: []float64{1}}, "named = 0x0 with 1 values"},
		{&Reward{Event: ok, Model: 1, Named: 256, Values: []float64{1}}, "named = 0x100"},
		{&Reward{Event: ok, Model: 1, Named: 1, Values: []float64{math.NaN()}}, "reward: values[0] = NaN"},
		{&Reward{Event: ok, Model: 1, Named: 1, Values: []float64{1}, Y: 1}, "beside another reward"},
		{&Reward{Event: ok, Model: 1, Named: 1, Values: []float64{1}, OnlyCost: true, Costed: true}, "beside another reward"},
		{&Reward{Event: ok, Model: 1, Named: 1, Values: []float64{1}, Shown: 1}, "beside another reward"},
		{&Reward{Event: ok, Model: 1, Named: 1, Values: []float64{1}, Positions: []uint64{0}, Ys: []float64{1}}, "beside another reward"},
		{&Reward{Event: ok, Model: 1, Atoms: make([]byte, MaxData+1)}, "atoms have 524289 bytes"},
		{&Decision{Model: 1, Den: 1, Offered: 3, Law: []uint64{1, 1}, Voters: 2}, "law of 2 candidates, 3 were offered"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Law: []uint64{1}, Voters: 1}, "law of 1 candidates"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Law: []uint64{1, 1}}, "0 votes for the law of 2"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Law: []uint64{1, 1}, Voters: 3}, "1 of 3 votes are for no candidate"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Law: []uint64{2, 2}, Voters: 3}, "more than 3 votes"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Law: []uint64{math.MaxUint64, 2}, Voters: 1}, "more than 1 votes"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Groups: []uint32{0, 1}}, "groups are left out"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Groups: []uint32{1, 0}}, "groups[0] = 1, want at most 0"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Groups: []uint32{0, 0}, Law: []uint64{1, 2}, Voters: 1}, "law[1] = 2, another candidate of group 0 has 1"},
		{&Decision{Model: 1, Den: 1, Floor: 1_000_001}, "floor = 1000001"},
		{&Decision{Model: 1, Den: 1, Notes: 32}, "notes = 0x20"},
		{&Decision{Model: 1, Den: 1, Span: 3}, "span = 3 without a unit"},
		{&Decision{Model: 1, Den: 1, Offered: 3, Costs: []float64{1, 2}}, "2 costs of 3 candidates"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Costs: []float64{1, -2}}, "costs[1] = -2 is no cost"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Costs: []float64{math.Inf(1)}}, "costs[0] = +Inf"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Price: 1}, "price = 1 without costs"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Costs: []float64{1}, Price: math.Inf(1)}, "price = +Inf"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Costs: []float64{1}, Price: 1, Expects: -1}, "expects = -1"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Costs: []float64{1}, Play: 1}, "without a price"},
		{&Decision{Model: 1, Den: 1, Offered: 1, Costs: []float64{1}, Price: 1, Play: 4}, "play = 4 is unknown"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Play: 2}, "baseline = 0 of 2 candidates, play = 2"},
		{&Decision{Model: 1, Den: 1, Offered: 2, Baseline: 3}, "baseline = 3 of 2 candidates"},
		{&Decision{Model: 1, Den: 1, Group: 3, Control: 1}, "group = 3 is unknown"},
		{&Decision{Model: 1, Den: 1, Group: GroupModel, Control: 500_001}, "control = 500001, want at most 500000"},
		{&Decision{Model: 1, Den: 1, Group: GroupModel}, "group = model with control = 0"},
		{&Decision{Model: 1, Den: 1, Control: 7}, "group = none with control = 7"},
		{&Decision{Model: 1, Den: 1, ControlFirst: true}, "control_first = true"},
		{&Decision{Model: 1, Den: 1, Group: GroupControl, Control: 7, Mode: Shadow}, "group = control in the mode shadow"},
		{&Checkpoint{Prices: []Price{{2, 1, 1}, {2, 1, 1}}}, "prices[1].model"},
		{&Checkpoint{Prices: []Price{{2, math.NaN(), 1}}}, "prices[0] = NaN"},
		{&Reward{Event: ok, Model: 1, Cost: math.NaN(), Costed: true}, "reward: cost = NaN"},
		{&Reward{Event: ok, Model: 1, Cost: 1}, "without costed"},
		{&Reward{Event: ok, Model: 1, OnlyCost: true}, "without costed"},
		{&Control{Act: Pause, Model: 1, Base: 2}, "pause with base = 2"},
		{&Control{Act: Pause, Model: 1, Data: []byte("x")}, "pause with 1 bytes of data"},
		{&Control{Act: Trim, AtSeq: 3, Data: []byte("x")}, "trim to entry 3 with 1 bytes"},
		{&Control{Act: Trim, Model: 1, AtSeq: 3, Data: make([]byte, 32)}, "trim of model"},
		{&Control{Act: Members, Data: []byte("a\nb\na")}, "name 2 is \"a\""},
		{&Control{Act: Members}, "name 0 is \"\""},
		{&Checkpoint{Applied: 3}, "applied without a node"},
		{&Checkpoint{Node: "a", Base: make([]byte, 32)}, "base of 32 bytes at entry 0"},
		{&Checkpoint{Vouched: "Ops"}, "vouched without a node"},
		{&Checkpoint{Node: "a", Readable: 1 << 16}, "readable = 65536"},
		{&Piece{Parts: 1, Data: []byte("x"), Digest: 1}, "model is 0"},
		{&Piece{Model: 1, Part: 1, Parts: 1, Data: []byte("x")}, "part = 1 of 1"},
		{&Piece{Model: 1, Parts: 1, Data: []byte("x")}, "the last part has it"},
		{&Piece{Model: 1, Parts: 1, Digest: 1}, "data has 0 bytes"},
	} {
		b, err := AppendRecord([]byte("kept"), c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.r, err, c.want)
		}
		if string(b) != "kept" {
			t.Errorf("%+v: left %q behind", c.r, b)
		}
		// And the same when it comes from outside, so far as it can be written at all.
		raw := c.r.append(nil)
		if len(raw) > 4096 {
			continue
		}
		framed := putBytes(nil, uint32(c.r.Kind()), raw)
		if _, _, err := DecodeRecord(framed); len(raw) > 0 && !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: decoded with error %v", c.r, err)
		}
	}
}

// TestCanonical: other encodings of the same values, and fields that nobody knows, are refused.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"5200", "kind 10 is unknown"},
		{"12 0f 0a0b 09 0100000000000000 1001 2001", "field 4: unknown"},
		{"12 11 0a0b 09 0100000000000000 1001 1002 1002", "field 2: comes after field 2"},
		{"12 0d 0a0b 09 0100000000000000 1000", "field 2: zero values"},
		{"12 0d 0a0b 09 0000000000000000 1001", "field 1: zero values"},
		{"12 0e 0a0c 09 0100000000000000 108100", "field 2: bad number"},
		{"12 0f 1002 0a0b 09 0100000000000000 1001", "field 1: comes after field 2"},
		{"12 05 0d 01000000", "wire type 5"},
		{"12 02 0801", "field 1: wire type 0, want 2"},
		{"12 7f 00", "bad length"},
		{"12 02 0001", "bad tag"},
		{"12 8100 00", "bad length"},
		{"", "no record"},
		{"10 00", "no record"},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := DecodeRecord(b)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, error %v, want %q", c.hex, r, err, c.want)
		}
	}
	// The control: the well-formed neighbour of these is accepted.
	b, _ := hex.DecodeString("120d0a0b0901000000000000001001")
	if r, _, err := DecodeRecord(b); err != nil {
		t.Errorf("control: %+v: %v", r, err)
	}
}

// TestListCanonical: other encodings of a list of votes or groups are refused.
func TestListCanonical(t *testing.T) {
	law := (&Decision{Model: 1, Den: 1, Offered: 2}).append(nil)
	for _, c := range []struct {
		num       uint32
		hex, want string
	}{
		{27, "00 00", ""},
		{26, "01 02", "2 candidates"},
		{26, "01 80", "cut short"},
		{26, "01 8000", "bad number at place 1"},
		{27, "00 8080808010", "bad number at place 1"},
		{27, strings.Repeat("00", maxList+1), "65537 numbers"},
	} {
		value := must(hex.DecodeString(strings.ReplaceAll(c.hex, " ", "")))
		framed := putBytes(nil, uint32(KindDecision), putBytes(bytes.Clone(law), c.num, value))
		r, _, err := DecodeRecord(framed)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.hex, err)
		case c.want == "":
			if b, err := AppendRecord(nil, r); err != nil || !bytes.Equal(b, framed) {
				t.Errorf("%s is written %x (%v)", c.hex, b, err)
			}
		case !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %+v, error %v, want %q", c.hex, r, err, c.want)
		}
	}
}

// TestVersions: a batch has one log version. One of an earlier program is refused with the way over, one
// of a later program as such, and neither is written.
func TestVersions(t *testing.T) {
	written := must(AppendBatch(nil, Header{Epoch: 1, No: 1}, event(1)))
	for version, want := range map[uint16]string{
		0:              "log version 0, this code reads 3",
		1:              "a batch has log version 1, of an earlier program, and this program reads 3: " + WayOver,
		2:              "a batch has log version 2, of an earlier program, and this program reads 3: " + WayOver,
		LogVersion + 1: "a batch has log version 4 and this program reads up to 3: a later program has raised the log",
	} {
		b, _ := seal(bytes.Clone(written), Header{Version: version, Count: 1, Epoch: 1, No: 1}, nil)
		_, err1 := ParseBatch(b)
		_, _, err2 := ParseRecord(b, 0)
		_, _, err3 := ParseRecords(b)
		_, err4 := ParseHeader(b)
		for _, err := range []error{err1, err2, err3, err4} {
			var other *VersionError
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) || errors.As(err, &other) != (version > 0) {
				t.Errorf("version %d is read: %v", version, err)
			}
		}
		if version == 0 {
			continue
		}
		if _, err := AppendBatch(nil, Header{Version: version, Epoch: 1, No: 1}, event(1)); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d is written: %v", version, err)
		}
	}
}

// sampleRecords are records of the kinds of a plain log.
func sampleRecords() []Record {
	e := Event{0x1122334455667788, 3, 7}
	return []Record{
		&Decision{Model: 0xa1, BasisSeq: 41, BasisDigest: 0xd1, Member: 5, Negative: true, Action: "news-7", Index: 2,
			X: []float64{0.5, -0.25}, Num: 3, Den: 64, Offered: 4, Context: 0xc0, Candidates: 0xca, Caller: "key-1",
			Time: 1_700_000_000_000_000_000, Deadline: 1_700_000_600_000_000_000, Idempotency: []byte{1, 2, 3}},
		&Activate{Event: e, Time: 1_700_000_000_000_000_001},
		&Reward{Event: e, Model: 0xa1, X: []float64{0.5, -0.25}, Y: 1, Source: "key-2", Time: 1_700_000_000_000_000_002},
		&Expire{Event: e, Count: 3, Model: 0xa1, Default: true, Y: -0.5},
		&Control{Act: Create, Model: 0xa1, Name: "news", Config: []byte(`{"d":2}`), Digest: 0xd0, Caller: "admin"},
		&Checkpoint{Seq: 40, States: []Digest{{0xa1, 0xd1}}},
	}
}

// newRecords are records of the other kinds, acts and fields.
func newRecords() []Record {
	sha := sha256.Sum256([]byte("base"))
	return []Record{
		&Control{Act: RaiseVersion, Version: 2, Time: 1_700_000_000_000_000_000},
		&Decision{Model: 0xa1, BasisSeq: 41, Member: 5, Action: "news-7", Index: 2, Num: 3, Den: 64, Offered: 4, Draw: 9,
			Atoms: []byte("atoms of the context and the action"),
			Law:   []uint64{40, 24, 24, 0}, Groups: []uint32{0, 1, 1, 2}, Voters: 64, Floor: 10_000,
			Notes: NoteIgnored | NoteAlike, Config: 7},
		&Decision{Model: 0xa1, Den: 1, Offered: 3, Law: []uint64{2, 0, 198}, Voters: 200},
		&Reward{Event: Event{0x1122334455667788, 3, 7}, Model: 0xa1, Atoms: []byte("the same"), Y: 1},
		&Control{Act: Configure, Model: 0xa1, Config: []byte(`{"d":2}`), Base: 3},
		&Control{Act: Import, Model: 0xa2, Name: "copy", Config: []byte(`{}`), Digest: 0xd2},
		&Piece{Model: 0xa2, Part: 0, Parts: 2, Data: []byte("first half")},
		&Piece{Model: 0xa2, Part: 1, Parts: 2, Data: []byte("second half"), Digest: 0xd2},
		&Control{Act: Trim, AtSeq: 30, Data: sha[:]},
		&Control{Act: Members, Data: []byte("a\nb\nc")},
		&Checkpoint{Seq: 40, States: []Digest{{0xa1, 0xd1}}, Node: "a", Applied: 41, Combined: 0xd3, Readable: 2, Keys: 0xf1, Base: sha[:], BaseSeq: 30},
	}
}

// costRecords are decisions and rewards with costs.
func costRecords() []Record {
	e := Event{0x1122334455667788, 3, 7}
	return []Record{
		&Decision{Model: 0xa1, Action: "mid", Index: 1, Num: 3, Den: 64, Offered: 3, Costs: []float64{0, 4.9e-4, 1.5e-2}},
		&Decision{Model: 0xa1, Num: 1, Den: 1, Offered: 2, Costs: []float64{0, 4.9e-4}, Price: 200, Expects: 3e-4, Play: PlayStop},
		&Checkpoint{Seq: 40, Prices: []Price{{0xa1, 200, 0.25}, {0xa2, 1, 0}}},
		&Reward{Event: e, Model: 0xa1, X: []float64{0.5}, Y: 1, Cost: 5.1e-4, Costed: true},
		&Reward{Event: e, Model: 0xa1, Costed: true, OnlyCost: true},
	}
}

// TestGolden: the bytes of batch formats 1 and 3, for ever. A change here is a new version.
func TestGolden(t *testing.T) {
	for _, g := range []struct {
		name    string
		format  uint16
		records []Record
	}{{"plain", Format1, sampleRecords()}, {"rest", Format1, newRecords()}, {"format3", Format3, newRecords()[:4]},
		{"costs", Format1, costRecords()}} {
		b, err := testBatchKeys.Append(nil, Header{Format: g.format, Shard: 2, Epoch: 0x1122334455667788, No: 4, After: 41,
			Prev: Hash{1, 2, 3}, Time: 1_700_000_000_000_000_003}, g.records...)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, fmt.Sprintf("testdata/batch-%s.hex", g.name), hex.Dump(b))
		batch, err := ParseBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		var lines strings.Builder
		var back []Record
		for i, r := range batch.Events() {
			back = append(back, r)
			fmt.Fprintf(&lines, "%d %v %s\n", i, r.Kind(), must(json.Marshal(r)))
		}
		golden.Compare(t, fmt.Sprintf("testdata/batch-%s.txt", g.name), lines.String())
		if again, err := testBatchKeys.Append(nil, batch.Header, back...); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: read and written again: %x, %v", g.name, again, err)
		}
	}
}

// TestBatch: a round trip; every single flipped bit of a batch is refused (CRC-32C finds all single
// bit errors; the lengths and the magic are outside of no check); every cut too.
func TestBatch(t *testing.T) {
	h := Header{Format: Format1, Shard: 1, Epoch: 9, No: 3, After: 5, Prev: Hash{7}, Time: 11}
	records := append(sampleRecords(), newRecords()...)
	b, err := AppendBatch(nil, h, records...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseBatch(b)
	if err != nil {
		t.Fatal(err)
	}
	h.Count, h.Version = uint32(len(records)), LogVersion
	same(t, h, got.Header)
	if got.Hash != HashBatch(b) {
		t.Error("hash")
	}
	var back []Record
	for i, r := range got.Events() {
		if int(i) != len(back) {
			t.Fatal("places")
		}
		back = append(back, r)
	}
	same(t, records, back)
	head, all, err := ParseRecords(b)
	if err != nil {
		t.Fatal(err)
	}
	same(t, h, head)
	same(t, records, all)
	if got.MessageID() != "1/0000000000000009/3" {
		t.Errorf("message id %q", got.MessageID())
	}
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			if _, err := ParseBatch(c); !errors.Is(err, ErrMalformed) {
				t.Fatalf("byte %d bit %d: error %v", i, bit, err)
			}
		}
		if _, err := ParseBatch(b[:i]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d bytes: error %v", i, err)
		}
	}
	for _, bad := range [][]Record{nil, {&Loss{First: 1, Last: 1}}} {
		c, err := AppendBatch(nil, h, bad...)
		if err == nil {
			_, err = ParseBatch(c)
		}
		if err == nil {
			t.Errorf("records %v were accepted", bad)
		}
	}
}

// TestSlate: batches that are decoded one after the other on one slate are what they are without it.
func TestSlate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var on slate
		for range 3 {
			records := make([]Record, rapid.IntRange(1, 12).Draw(t, "records"))
			for i := range records {
				records[i] = genRecord(t)
			}
			b, err := AppendBatch(nil, Header{Epoch: 1, No: 1}, records...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseBatch(b, true, &on, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := ParseBatch(b)
			if err != nil {
				t.Fatal(err)
			}
			same(t, want.records, got.records)
			if want.Header != got.Header || want.Hash != got.Hash {
				t.Fatalf("%+v, %+v", want, got)
			}
		}
	})
}

// TestMAC compares mac with package hmac, for keys below, at and above the block of SHA-256.
func TestMAC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 16, 200).Draw(t, "key")
		body := rapid.SliceOfN(rapid.Byte(), 0, idMax).Draw(t, "body")
		m := hmac.New(sha256.New, key)
		m.Write([]byte("troupe event id 1\n"))
		m.Write(body)
		if got := mac(key, body); !bytes.Equal(got[:], m.Sum(nil)[:macSize]) {
			t.Fatalf("mac %x, package hmac has %x", got, m.Sum(nil))
		}
	})
}

var testBatchKeys = testKeys.Batches()

var testKeys = IDKeys{Current: 2, Keys: map[byte][]byte{1: []byte("an old secret of ours"), 2: []byte("0123456789abcdef")}}

// TestEventID: a round trip; each changed character and each other key is refused; old keys stay
// good.
func TestEventID(t *testing.T) {
	if err := testKeys.Check(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := EventID{Shard: rapid.Uint16().Draw(t, "shard"), Event: genEvent(t), Hint: rapid.Uint64().Draw(t, "hint"),
			Token: rapid.Bool().Draw(t, "token")}
		text := testKeys.Format(want)
		got, err := testKeys.Parse(text)
		if err != nil || got != want {
			t.Fatalf("%q: %+v, error %v, want %+v", text, got, err, want)
		}
		i := rapid.IntRange(0, len(text)-1).Draw(t, "place")
		c := rapid.SampledFrom([]byte("0123456789abcdefghjkmnpqrstvwxyzABCilou=-é")).Draw(t, "char")
		if c != text[i] {
			if _, err := testKeys.Parse(text[:i] + string(c) + text[i+1:]); err != ErrForged && err != ErrNotID {
				t.Fatalf("character %d → %q: error %v", i, c, err)
			}
		}
		old := testKeys.Clone()
		old.Current = 1
		if got, err := testKeys.Parse(old.Format(want)); err != nil || got != want {
			t.Fatalf("old key: %v", err)
		}
		other := testKeys.Clone()
		other.Keys[2] = []byte("0123456789abcdeF")
		if _, err := other.Parse(text); err != ErrForged {
			t.Fatalf("other key: %v", err)
		}
	})
	if n := len(testKeys.Format(EventID{Event: Event{1 << 63, 1000, 10}, Hint: 1000})); n > 44 {
		t.Errorf("a typical id has %d characters", n)
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range append(append(sampleRecords(), &Loss{1, 2, "gone", 3}), newRecords()...) {
		b, err := AppendRecord(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := AppendRecord(nil, r)
		if err != nil || !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("%x was accepted and is written %x (error %v)", b, again, err)
		}
	})
}

// FuzzNamedReward: a reward with names that is accepted is written with the same bytes, and has a value for each name, all finite,
// and no other reward; one that is not is refused when it is written, too.
func FuzzNamedReward(f *testing.F) {
	ok := Event{Epoch: 7, Batch: 3, Index: 1}
	for _, r := range []*Reward{
		{Event: ok, Model: 5, Named: 1, Values: []float64{1}},
		{Event: ok, Model: 5, Named: 0b1010, Values: []float64{1, -12.5}, Key: 9, Source: "k", Cost: 2, Costed: true, Atoms: []byte{1}},
		{Event: ok, Model: 5, Named: 0xff, Values: make([]float64, 8), X: []float64{1, 0}},
	} {
		b, err := AppendRecord(nil, r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, r.Named, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, 0.0)
	}
	f.Fuzz(func(t *testing.T, b []byte, mask uint64, raw []byte, y float64) {
		if r, rest, err := DecodeRecord(b); err == nil {
			again, err := AppendRecord(nil, r)
			if err != nil || !bytes.Equal(again, b[:len(b)-len(rest)]) {
				t.Fatalf("%x was accepted and is written %x (error %v)", b, again, err)
			}
		}
		r := &Reward{Event: ok, Model: 5, Named: mask, Y: y}
		finite := y-y == 0
		for len(raw) >= 8 && len(r.Values) < 12 {
			v := math.Float64frombits(binary.LittleEndian.Uint64(raw))
			r.Values, raw, finite = append(r.Values, v), raw[8:], finite && v-v == 0
		}
		valid := finite && mask < 1<<MaxNamed && bits.OnesCount64(mask) == len(r.Values) && (mask == 0 || y == 0)
		out, err := AppendRecord(nil, r)
		if (err == nil) != valid {
			t.Fatalf("mask %#x, %v, y = %v: error %v, valid %v", mask, r.Values, y, err, valid)
		}
		if err != nil {
			return
		}
		back, _, err := DecodeRecord(out)
		if err != nil || !reflect.DeepEqual(back.(*Reward).Values, r.Values) || back.(*Reward).Named != mask {
			t.Fatalf("%+v came back as %+v, %v", r, back, err)
		}
	})
}

func FuzzBatch(f *testing.F) {
	for _, records := range [][]Record{sampleRecords(), newRecords()} {
		b, err := AppendBatch(nil, Header{Shard: 1, Epoch: 9, No: 3, After: 5, Prev: Hash{7}}, records...)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(must(testBatchKeys.Append(nil, Header{Format: Format3, Epoch: 9, No: 3, After: 5, Prev: Hash{7}}, newRecords()...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Half the inputs get a good length and checksum, or the fuzzer would never see the inside.
		if len(b) >= HeaderSize && b[len(b)-1]&1 == 0 {
			b = bytes.Clone(b)
			format := uint16(Format1)
			if b[4] == Format3 && len(b) >= HeaderSize+trailerSize {
				format = Format3
			}
			n := len(b) - HeaderSize - trailer(format)
			b[64], b[65], b[66], b[67] = byte(n), byte(n>>8), byte(n>>16), 0
			crc := checksum(b, format)
			b[68], b[69], b[70], b[71] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
		}
		batch, err := ParseBatch(b)
		if err != nil {
			_, _, _ = ParseRecord(b, 1) // may find one that is whole, must not panic
			_, _, _ = ParseRecords(b)
			return
		}
		var records []Record
		for i, r := range batch.Events() {
			records = append(records, r)
			h, one, err := ParseRecord(b, i)
			if err != nil || h != batch.Header || !bytes.Equal(mustEncode(t, one), mustEncode(t, r)) {
				t.Fatalf("record %d alone is %v of %+v (%v), with the others %v", i, one, h, err, r)
			}
		}
		if _, _, err := ParseRecord(b, batch.Count); !errors.Is(err, ErrNotFound) {
			t.Fatalf("record %d of %d: %v", batch.Count, batch.Count, err)
		}
		if h, all, err := ParseRecords(b); err != nil || h != batch.Header || !slices.EqualFunc(all, records, func(x, y Record) bool {
			return bytes.Equal(mustEncode(t, x), mustEncode(t, y))
		}) {
			t.Fatalf("all records are %v of %+v (%v), want %v", all, h, err, records)
		}
		again, err := testBatchKeys.Append(nil, batch.Header, records...)
		if batch.Format == Format3 && err == nil { // its MAC may be any
			again, b = again[:len(again)-trailerSize], b[:len(b)-trailerSize]
			copy(again[64:72], b[64:72])
		}
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x was accepted and is written %x (error %v)", b, again, err)
		}
	})
}

func mustEncode(t *testing.T, r Record) []byte {
	t.Helper()
	b, err := AppendRecord(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzEventID(f *testing.F) {
	f.Add(testKeys.Format(EventID{Event: Event{1, 1, 1}, Hint: 3}))
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := testKeys.Parse(text); err == nil && testKeys.Format(id) != text {
			t.Fatalf("%q is %+v, which is %q", text, id, testKeys.Format(id))
		}
	})
}

// TestDecodeAllocation: decoding allocates at most a small multiple of its input, whatever lengths
// the input claims.
func TestDecodeAllocation(t *testing.T) {
	inputs := [][]byte{bytes.Repeat([]byte{0xff}, 4096)}
	for _, r := range append(sampleRecords(), newRecords()...) {
		b, err := AppendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b { // every byte as large as it goes: lengths among them
			c := append(bytes.Clone(b), make([]byte, 4096)...)
			c[i] = 0xff
			inputs = append(inputs, c)
		}
	}
	var before, after runtime.MemStats
	size := 0
	runtime.ReadMemStats(&before)
	for _, b := range inputs {
		size += len(b)
		_, _, _ = DecodeRecord(b)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(8*size) {
		t.Errorf("%d bytes allocated for %d bytes of input", got, size)
	}
}
