package eventlog

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"troupe/internal/future"
)

// LogVersion is the version of records that this code reads and writes. A new kind, act or field of a record raises it.
// The header of a batch has the version of its records. A reader stops at another version, because a state machine must
// not skip what it does not know. Versions 1 and 2 were of earlier programs (ADR 24).
const LogVersion = 3

// WayOver says what an operator can do with a log that an earlier program wrote.
const WayOver = "`troupe train` of the program that wrote it makes a file of what a model learned, from which one of " +
	"this program starts (:createFrom), and `troupe log export` writes its decisions; idempotency keys, open windows " +
	"and event ids are not carried over, and a catalogue is not in an export"

// newestVersion is LogVersion, but in tests of the version to come.
func newestVersion() uint16 { return LogVersion + uint16(future.Versions.Load()) }

// readable reports whether this program reads and writes records of a log version.
func readable(version uint16) bool { return version >= LogVersion && version <= newestVersion() }

// readableVersions names these versions.
func readableVersions() string {
	if v := newestVersion(); v > LogVersion {
		return fmt.Sprintf("%d to %d", LogVersion, v)
	}
	return strconv.Itoa(LogVersion)
}

// VersionError is the error of a whole batch whose log version this program does not read. It is no damage.
type VersionError struct {
	Shard   uint16
	Seq     uint64 // 0 where it is not known
	Version uint16
}

// Error says in one line what is wrong.
func (e *VersionError) Error() string {
	place := "a batch"
	if e.Seq > 0 {
		place = fmt.Sprintf("entry %d", e.Seq)
	}
	if e.Version < LogVersion {
		return fmt.Sprintf("shard %d: %s has log version %d, of an earlier program, and this program reads "+
			"%d: %s", e.Shard, place, e.Version, LogVersion, WayOver)
	}
	return fmt.Sprintf("shard %d: %s has log version %d and this program reads up to %d: a later program has raised "+
		"the log, and only that one or a later one can go on with it",
		e.Shard, place, e.Version, newestVersion())
}

// Unwrap returns ErrMalformed, as of everything else that is no batch for this program.
func (e *VersionError) Unwrap() error { return ErrMalformed }

// ID is a 64-bit name or digest. As text it has 16 hexadecimal digits.
type ID uint64

// String returns 16 hexadecimal digits.
func (id ID) String() string { return string(id.append(make([]byte, 0, 16))) }

// MarshalText writes what String returns.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }
func (id ID) append(b []byte) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[id>>shift&15])
	}
	return b
}

// UnmarshalText reads 16 hexadecimal digits; anything else is ErrMalformed.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil || len(b) != 16 {
		return fmt.Errorf("%q is not an id of 16 hexadecimal digits: %w", b, ErrMalformed)
	}
	*id = ID(v)
	return nil
}

// Event is the key of a decision for ever: its writer, the number of the writer's batch, and its place in
// the batch. It does not depend on sequence numbers. U_t^j of the learner is computed from it.
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
	KindDecision   Kind = 1 // Decision
	KindActivate   Kind = 2 // Activate
	KindReward     Kind = 3 // Reward
	KindExpire     Kind = 4 // Expire
	KindControl    Kind = 5 // Control
	KindCheckpoint Kind = 6 // Checkpoint
	KindLoss       Kind = 7 // Loss
	KindPiece      Kind = 9 // Piece; 8 was of earlier programs
)

var kindNames = [...]string{1: "decision", "activate", "reward", "expire", "control", "checkpoint", "loss", 9: "piece"}

// String returns the name in JSON, and the number of a value without one.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Record is one event of the log: *Decision, *Activate, *Reward, *Expire, *Control, *Checkpoint, *Loss
// or *Piece.
type Record interface {
	Kind() Kind
	// check refuses what may be neither written nor read.
	check() error
	// append adds the fields.
	append(b []byte) []byte
	// field takes the decoder's current field.
	field(d *decoder)
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
	case KindPiece:
		return new(Piece)
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

// DecodeRecord reads the first record of b and returns what follows it. It keeps no reference to b and allocates at
// most a small multiple of the bytes it reads.
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
