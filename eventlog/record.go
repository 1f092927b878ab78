package eventlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// LogVersion is the version of records that this code writes and the highest that it reads. A new
// record kind or field raises it; a reader that meets a higher one stops, because a state machine
// must not skip what it does not understand.
const LogVersion = 1

// ID is a 64-bit name or digest. As text it has 16 hexadecimal digits.
type ID uint64

func (id ID) String() string               { return fmt.Sprintf("%016x", uint64(id)) }
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }
func (id *ID) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil || len(b) != 16 {
		return fmt.Errorf("%q is not an id of 16 hexadecimal digits: %w", b, ErrMalformed)
	}
	*id = ID(v)
	return nil
}

// Event is the key of a decision for ever: who wrote it, in which of the writer's batches, at which
// place. It does not depend on sequence numbers. U_t^j of the learner is computed from it.
type Event struct {
	Epoch ID     `json:"epoch"`
	Batch uint64 `json:"batch"` // number of the batch, from 1
	Index uint32 `json:"index"` // place in the batch, from 0
}

func (e Event) check(name string) error {
	switch {
	case e.Epoch == 0:
		return fmt.Errorf("%s.epoch is 0: %w", name, ErrMalformed)
	case e.Batch == 0:
		return fmt.Errorf("%s.batch is 0: %w", name, ErrMalformed)
	case e.Index >= MaxEvents:
		return fmt.Errorf("%s.index = %d, want less than %d: %w", name, e.Index, MaxEvents, ErrMalformed)
	}
	return nil
}

func putEvent(b []byte, num uint32, e Event) []byte {
	var buf [32]byte
	in := putFixed(buf[:0], 1, uint64(e.Epoch))
	in = putUint(in, 2, e.Batch)
	in = putUint(in, 3, uint64(e.Index))
	return putBytes(b, num, in)
}

func (d *decoder) event() (e Event) {
	if !d.want(wireBytes) {
		return e
	}
	in := decoder{rest: d.data, what: d.what + ": event"}
	for in.next() {
		switch in.num {
		case 1:
			e.Epoch = ID(in.fixed())
		case 2:
			e.Batch = in.uint()
		case 3:
			e.Index = in.uint32()
		default:
			in.unknown()
		}
	}
	if in.err != nil {
		d.err = in.err
	}
	return e
}

// Kind tells records apart. Numbers are never reused.
type Kind uint8

const (
	KindDecision   Kind = 1
	KindActivate   Kind = 2
	KindReward     Kind = 3
	KindExpire     Kind = 4
	KindControl    Kind = 5
	KindCheckpoint Kind = 6
	KindLoss       Kind = 7
)

var kindNames = [...]string{1: "decision", "activate", "reward", "expire", "control", "checkpoint", "loss"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k != 0 {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Record is one event of the log: *Decision, *Activate, *Reward, *Expire, *Control, *Checkpoint or
// *Loss.
type Record interface {
	Kind() Kind
	// check refuses what may be neither written nor read.
	check() error
	// append adds the fields.
	append(b []byte) []byte
	// field takes the decoder's current field.
	field(d *decoder)
}

// Mode says who chose the action of a decision and whether it is learned from.
type Mode uint8

const (
	Online     Mode = iota // the policy chose; learn
	Apprentice             // the caller's baseline was played; learn from it
	Shadow                 // the caller's baseline was played; do not learn
	Frozen                 // the policy chose; do not learn
)

var modeNames = [...]string{"online", "apprentice", "shadow", "frozen"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "mode " + strconv.Itoa(int(m))
}
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Decision is one action chosen by a model. Its propensity Num/Den is exact with respect to the
// state that was used, BasisSeq, however old that was.
type Decision struct {
	Model       ID        `json:"model"`                 // incarnation of the model; not 0
	BasisSeq    uint64    `json:"basis_seq"`             // last sequence folded into the state that decided
	BasisDigest ID        `json:"basis_digest,omitzero"` // digest of that state
	Member      uint32    `json:"member"`                // j, from 0
	Negative    bool      `json:"negative,omitzero"`     // ξ = −1
	Action      string    `json:"action,omitzero"`       // the caller's name of the action
	Index       uint32    `json:"index"`                 // place of the action among the candidates
	X           []float64 `json:"x,omitempty"`           // features of the action
	Num         uint64    `json:"num"`                   // propensity Num/Den, 0 ≤ Num ≤ Den, Den > 0
	Den         uint64    `json:"den"`                   //
	Mode        Mode      `json:"mode"`                  //
	Deferred    bool      `json:"deferred,omitzero"`     // counts only after an Activate record
	Offered     uint32    `json:"offered,omitzero"`      // K, the number of candidates
	Context     ID        `json:"context,omitzero"`      // hash of the context
	Candidates  ID        `json:"candidates,omitzero"`   // digest of the candidates
	Full        []byte    `json:"full,omitempty"`        // optional copy of the candidates; the model's own form
	Caller      string    `json:"caller,omitzero"`       // id of the API key
	Time        int64     `json:"time,omitzero"`         // ns since 1970 on the clock of the node that accepted it
	Deadline    int64     `json:"deadline,omitzero"`     // ns since 1970: end of the reward window
	Idempotency []byte    `json:"idempotency,omitempty"` // hash of the caller's idempotency key, at most 32 bytes
	WouldAction string    `json:"would_action,omitzero"` // apprentice, shadow: what the policy would have done
	WouldNum    uint64    `json:"would_num,omitzero"`    // and with which propensity, over Den
	Draw        ID        `json:"draw,omitzero"`         // the random number that j, ξ and the coin of a floor were computed from
	Slot        string    `json:"slot,omitzero"`         // the place that the action is for, when one call chose for several
}

func (*Decision) Kind() Kind { return KindDecision }

func (r *Decision) check() error {
	switch {
	case r.Model == 0:
		return fmt.Errorf("decision: model is 0: %w", ErrMalformed)
	case r.Den == 0 || r.Num > r.Den || r.WouldNum > r.Den:
		return fmt.Errorf("decision: propensity %d/%d (would: %d) is not a probability: %w", r.Num, r.Den, r.WouldNum, ErrMalformed)
	case int(r.Mode) >= len(modeNames):
		return fmt.Errorf("decision: mode = %d is unknown: %w", r.Mode, ErrMalformed)
	case r.Offered > 0 && r.Index >= r.Offered:
		return fmt.Errorf("decision: index = %d of %d candidates: %w", r.Index, r.Offered, ErrMalformed)
	case len(r.Idempotency) > 32:
		return fmt.Errorf("decision: idempotency has %d bytes, at most 32 are allowed: %w", len(r.Idempotency), ErrMalformed)
	}
	return firstError(
		checkText("decision: action", r.Action), checkText("decision: caller", r.Caller),
		checkText("decision: would_action", r.WouldAction), checkText("decision: slot", r.Slot), checkVector("decision: x", r.X))
}

func (r *Decision) append(b []byte) []byte {
	b = putFixed(b, 1, uint64(r.Model))
	b = putUint(b, 2, r.BasisSeq)
	b = putFixed(b, 3, uint64(r.BasisDigest))
	b = putUint(b, 4, uint64(r.Member))
	b = putBool(b, 5, r.Negative)
	b = putBytes(b, 6, r.Action)
	b = putUint(b, 7, uint64(r.Index))
	b = putFloats(b, 8, r.X)
	b = putUint(b, 9, r.Num)
	b = putUint(b, 10, r.Den)
	b = putUint(b, 11, uint64(r.Mode))
	b = putBool(b, 12, r.Deferred)
	b = putUint(b, 13, uint64(r.Offered))
	b = putFixed(b, 14, uint64(r.Context))
	b = putFixed(b, 15, uint64(r.Candidates))
	b = putBytes(b, 16, r.Full)
	b = putBytes(b, 17, r.Caller)
	b = putInt(b, 18, r.Time)
	b = putInt(b, 19, r.Deadline)
	b = putBytes(b, 20, r.Idempotency)
	b = putBytes(b, 21, r.WouldAction)
	b = putUint(b, 22, r.WouldNum)
	b = putFixed(b, 23, uint64(r.Draw))
	return putBytes(b, 24, r.Slot)
}

func (r *Decision) field(d *decoder) {
	switch d.num {
	case 1:
		r.Model = ID(d.fixed())
	case 2:
		r.BasisSeq = d.uint()
	case 3:
		r.BasisDigest = ID(d.fixed())
	case 4:
		r.Member = d.uint32()
	case 5:
		r.Negative = d.bool()
	case 6:
		r.Action = d.text()
	case 7:
		r.Index = d.uint32()
	case 8:
		r.X = d.floats()
	case 9:
		r.Num = d.uint()
	case 10:
		r.Den = d.uint()
	case 11:
		r.Mode = Mode(min(d.uint(), 255))
	case 12:
		r.Deferred = d.bool()
	case 13:
		r.Offered = d.uint32()
	case 14:
		r.Context = ID(d.fixed())
	case 15:
		r.Candidates = ID(d.fixed())
	case 16:
		r.Full = d.bytes()
	case 17:
		r.Caller = d.text()
	case 18:
		r.Time = d.int()
	case 19:
		r.Deadline = d.int()
	case 20:
		r.Idempotency = d.bytes()
	case 21:
		r.WouldAction = d.text()
	case 22:
		r.WouldNum = d.uint()
	case 23:
		r.Draw = ID(d.fixed())
	case 24:
		r.Slot = d.text()
	default:
		d.unknown()
	}
}

// Activate makes a deferred decision count.
type Activate struct {
	Event Event `json:"event"`
	Time  int64 `json:"time,omitzero"`
	Model ID    `json:"model,omitzero"` // copied from the decision, so that a model's records can be told from others'
}

func (*Activate) Kind() Kind     { return KindActivate }
func (r *Activate) check() error { return r.Event.check("activate: event") }
func (r *Activate) append(b []byte) []byte {
	return putFixed(putInt(putEvent(b, 1, r.Event), 2, r.Time), 3, uint64(r.Model))
}
func (r *Activate) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Time = d.int()
	case 3:
		r.Model = ID(d.fixed())
	default:
		d.unknown()
	}
}

// Reward pays for a decision. X is copied from it, so that the learner is a fold over rewards and
// control records and needs no join.
type Reward struct {
	Event  Event     `json:"event"`
	Model  ID        `json:"model"`
	X      []float64 `json:"x,omitempty"`
	Y      float64   `json:"y"`
	Source string    `json:"source,omitzero"` // id of the API key
	Time   int64     `json:"time,omitzero"`
	Key    ID        `json:"key,omitzero"` // hash of the caller's key of this reward: a second one with it is a repetition
}

func (*Reward) Kind() Kind { return KindReward }
func (r *Reward) check() error {
	if r.Model == 0 {
		return fmt.Errorf("reward: model is 0: %w", ErrMalformed)
	}
	return firstError(r.Event.check("reward: event"), checkVector("reward: x", r.X),
		checkFinite("reward: y", r.Y), checkText("reward: source", r.Source))
}
func (r *Reward) append(b []byte) []byte {
	b = putEvent(b, 1, r.Event)
	b = putFixed(b, 2, uint64(r.Model))
	b = putFloats(b, 3, r.X)
	b = putFloat(b, 4, r.Y)
	b = putBytes(b, 5, r.Source)
	b = putInt(b, 6, r.Time)
	return putFixed(b, 7, uint64(r.Key))
}
func (r *Reward) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Model = ID(d.fixed())
	case 3:
		r.X = d.floats()
	case 4:
		r.Y = d.float()
	case 5:
		r.Source = d.text()
	case 6:
		r.Time = d.int()
	case 7:
		r.Key = ID(d.fixed())
	default:
		d.unknown()
	}
}

// Expire closes the reward window of Count events of one batch, beginning with Event. A node writes
// it; nobody infers it from a clock.
type Expire struct {
	Event   Event   `json:"event"`
	Count   uint32  `json:"count"` // at least 1
	Model   ID      `json:"model"`
	Default bool    `json:"default,omitzero"` // those without a reward get Y
	Y       float64 `json:"y,omitzero"`
	Time    int64   `json:"time,omitzero"`
}

func (*Expire) Kind() Kind { return KindExpire }
func (r *Expire) check() error {
	switch {
	case r.Model == 0:
		return fmt.Errorf("expire: model is 0: %w", ErrMalformed)
	case r.Count == 0 || r.Count > MaxEvents || r.Event.Index > MaxEvents-r.Count:
		return fmt.Errorf("expire: %d events from index %d, a batch has at most %d: %w", r.Count, r.Event.Index, MaxEvents, ErrMalformed)
	case !r.Default && r.Y != 0:
		return fmt.Errorf("expire: y = %v without default: %w", r.Y, ErrMalformed)
	}
	return firstError(r.Event.check("expire: event"), checkFinite("expire: y", r.Y))
}
func (r *Expire) append(b []byte) []byte {
	b = putEvent(b, 1, r.Event)
	b = putUint(b, 2, uint64(r.Count))
	b = putFixed(b, 3, uint64(r.Model))
	b = putBool(b, 4, r.Default)
	b = putFloat(b, 5, r.Y)
	return putInt(b, 6, r.Time)
}
func (r *Expire) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Count = d.uint32()
	case 3:
		r.Model = ID(d.fixed())
	case 4:
		r.Default = d.bool()
	case 5:
		r.Y = d.float()
	case 6:
		r.Time = d.int()
	default:
		d.unknown()
	}
}

// Act is what a Control record does.
type Act uint8

const (
	Create Act = 1 + iota
	Configure
	Pause
	Resume
	Clone
	Rollback
	Delete
	RaiseVersion // from here on writers may use log version Version
)

var actNames = [...]string{1: "create", "configure", "pause", "resume", "clone", "rollback", "delete", "raise-version"}

func (a Act) String() string {
	if int(a) < len(actNames) && a != 0 {
		return actNames[a]
	}
	return "act " + strconv.Itoa(int(a))
}
func (a Act) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Control is a step in the life of a model; it has its place in the order like every event.
type Control struct {
	Act       Act    `json:"act"`
	Model     ID     `json:"model,omitzero"`      // the incarnation that it makes or changes
	Name      string `json:"name,omitzero"`       // the model's public name
	Config    []byte `json:"config,omitempty"`    // the model's configuration; its own form
	From      ID     `json:"from,omitzero"`       // clone, rollback: the incarnation to start from
	AtSeq     uint64 `json:"at_seq,omitzero"`     // clone, rollback: its state after this sequence
	Digest    ID     `json:"digest,omitzero"`     // of the resulting state, as the proposing node computed it
	KeepLater bool   `json:"keep_later,omitzero"` // rollback: rewards of later decisions still count
	Version   uint32 `json:"version,omitzero"`    // raise-version
	Caller    string `json:"caller,omitzero"`
	Time      int64  `json:"time,omitzero"`
}

func (*Control) Kind() Kind { return KindControl }
func (r *Control) check() error {
	switch {
	case r.Act == 0 || int(r.Act) >= len(actNames):
		return fmt.Errorf("control: act = %d is unknown: %w", r.Act, ErrMalformed)
	case (r.Act == RaiseVersion) != (r.Model == 0):
		return fmt.Errorf("control: %v of model %v: %w", r.Act, r.Model, ErrMalformed)
	case (r.Act == RaiseVersion) != (r.Version != 0) || r.Version > 0xffff:
		return fmt.Errorf("control: %v with version = %d: %w", r.Act, r.Version, ErrMalformed)
	case (r.Act == Clone || r.Act == Rollback) != (r.From != 0):
		return fmt.Errorf("control: %v from model %v: %w", r.Act, r.From, ErrMalformed)
	}
	return firstError(checkText("control: name", r.Name), checkText("control: caller", r.Caller))
}
func (r *Control) append(b []byte) []byte {
	b = putUint(b, 1, uint64(r.Act))
	b = putFixed(b, 2, uint64(r.Model))
	b = putBytes(b, 3, r.Name)
	b = putBytes(b, 4, r.Config)
	b = putFixed(b, 5, uint64(r.From))
	b = putUint(b, 6, r.AtSeq)
	b = putFixed(b, 7, uint64(r.Digest))
	b = putBool(b, 8, r.KeepLater)
	b = putUint(b, 9, uint64(r.Version))
	b = putBytes(b, 10, r.Caller)
	return putInt(b, 11, r.Time)
}
func (r *Control) field(d *decoder) {
	switch d.num {
	case 1:
		r.Act = Act(min(d.uint(), 255))
	case 2:
		r.Model = ID(d.fixed())
	case 3:
		r.Name = d.text()
	case 4:
		r.Config = bytes.Clone(d.bytes()) // rare, and kept by who reads it
	case 5:
		r.From = ID(d.fixed())
	case 6:
		r.AtSeq = d.uint()
	case 7:
		r.Digest = ID(d.fixed())
	case 8:
		r.KeepLater = d.bool()
	case 9:
		r.Version = d.uint32()
	case 10:
		r.Caller = d.text()
	case 11:
		r.Time = d.int()
	default:
		d.unknown()
	}
}

// Checkpoint states digests of the models after sequence Seq, so that replicas can compare.
type Checkpoint struct {
	Seq    uint64   `json:"seq"`
	States []Digest `json:"states,omitempty"` // ascending by model
	Time   int64    `json:"time,omitzero"`
}

// Digest is the digest of one model's state.
type Digest struct {
	Model  ID `json:"model"`
	Digest ID `json:"digest"`
}

func (*Checkpoint) Kind() Kind { return KindCheckpoint }
func (r *Checkpoint) check() error {
	for i, s := range r.States {
		if s.Model == 0 || i > 0 && s.Model <= r.States[i-1].Model {
			return fmt.Errorf("checkpoint: states[%d].model = %v does not ascend: %w", i, s.Model, ErrMalformed)
		}
	}
	return nil
}
func (r *Checkpoint) append(b []byte) []byte {
	b = putUint(b, 1, r.Seq)
	if len(r.States) > 0 {
		b = binary.AppendUvarint(putTag(b, 2, wireBytes), uint64(16*len(r.States)))
		for _, s := range r.States {
			b = binary.LittleEndian.AppendUint64(b, uint64(s.Model))
			b = binary.LittleEndian.AppendUint64(b, uint64(s.Digest))
		}
	}
	return putInt(b, 3, r.Time)
}
func (r *Checkpoint) field(d *decoder) {
	switch d.num {
	case 1:
		r.Seq = d.uint()
	case 2:
		if !d.want(wireBytes) {
			return
		}
		if len(d.data)%16 != 0 {
			d.fail("%d bytes are no list of digests", len(d.data))
			return
		}
		r.States = make([]Digest, len(d.data)/16)
		for i := range r.States {
			p := d.data[16*i:]
			r.States[i] = Digest{ID(binary.LittleEndian.Uint64(p)), ID(binary.LittleEndian.Uint64(p[8:]))}
		}
	case 3:
		r.Time = d.int()
	default:
		d.unknown()
	}
}

// Loss stands at a sequence number whose batch was lost and given up by an operator. Only [Repair]
// writes it, one for each lost sequence, so that no reader can overlook the hole.
type Loss struct {
	First  uint64 `json:"first"`  // the lost range, this sequence included
	Last   uint64 `json:"last"`   //
	Reason string `json:"reason"` // what was found there
	Time   int64  `json:"time,omitzero"`
}

func (*Loss) Kind() Kind { return KindLoss }
func (r *Loss) check() error {
	if r.First == 0 || r.Last < r.First {
		return fmt.Errorf("loss: range %d–%d: %w", r.First, r.Last, ErrMalformed)
	}
	return checkText("loss: reason", r.Reason)
}
func (r *Loss) append(b []byte) []byte {
	b = putUint(b, 1, r.First)
	b = putUint(b, 2, r.Last)
	b = putBytes(b, 3, r.Reason)
	return putInt(b, 4, r.Time)
}
func (r *Loss) field(d *decoder) {
	switch d.num {
	case 1:
		r.First = d.uint()
	case 2:
		r.Last = d.uint()
	case 3:
		r.Reason = d.text()
	case 4:
		r.Time = d.int()
	default:
		d.unknown()
	}
}

// newRecord returns an empty record of a kind, nil when the kind is unknown.
func newRecord(k Kind) Record {
	switch k {
	case KindDecision:
		return new(Decision)
	case KindActivate:
		return new(Activate)
	case KindReward:
		return new(Reward)
	case KindExpire:
		return new(Expire)
	case KindControl:
		return new(Control)
	case KindCheckpoint:
		return new(Checkpoint)
	case KindLoss:
		return new(Loss)
	}
	return nil
}

// AppendRecord appends the framed encoding of r: kind, length, fields. A record that may not be
// written (a number that is not finite, a missing key, a propensity above 1) is an error that names
// the field, and nothing is appended.
func AppendRecord(b []byte, r Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return b, err
	}
	start := len(b)
	b = putTag(b, uint32(r.Kind()), wireBytes)
	// The length goes before the fields: leave three bytes, enough for 2 MiB, and close the gap.
	mark := len(b)
	b = r.append(append(b, 0, 0, 0))
	size := len(b) - mark - 3
	if size > MaxBatch-HeaderSize-8 {
		return b[:start], fmt.Errorf("%v: %d bytes, a batch has at most %d: %w", r.Kind(), size, MaxBatch, ErrTooLarge)
	}
	var length [3]byte
	n := binary.PutUvarint(length[:], uint64(size))
	copy(b[mark:], length[:n])
	copy(b[mark+n:], b[mark+3:])
	return b[:len(b)-3+n], nil
}

// DecodeRecord reads the first record of b and returns what follows it. It keeps no reference to b
// and allocates at most a small multiple of the bytes it reads.
func DecodeRecord(b []byte) (r Record, rest []byte, err error) { return decodeRecord(b, nil) }

// decodeRecord is DecodeRecord on a slate.
func decodeRecord(b []byte, in *slate) (r Record, rest []byte, err error) {
	tag, n := uvarint(b)
	if n == 0 || tag&7 != wireBytes || tag>>3 > 255 {
		return nil, b, fmt.Errorf("no record begins here: %w", ErrMalformed)
	}
	kind := Kind(tag >> 3)
	if r = in.record(kind); r == nil {
		return nil, b, fmt.Errorf("%v is unknown in log version %d: %w", kind, LogVersion, ErrMalformed)
	}
	size, k := uvarint(b[n:])
	if k == 0 || size > uint64(len(b)-n-k) {
		return nil, b, fmt.Errorf("%v: bad length: %w", kind, ErrMalformed)
	}
	d := decoder{rest: b[n+k : n+k+int(size)], what: kind.String(), slate: in}
	for d.next() {
		r.field(&d)
	}
	if d.err == nil {
		d.err = r.check()
	}
	if d.err != nil {
		return nil, b, d.err
	}
	return r, b[n+k+int(size):], nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
