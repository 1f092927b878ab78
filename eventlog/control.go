package eventlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Act is what a Control record does.
type Act uint8

const (
	Create       Act = 1 + iota // a model with the configuration Config
	Configure                   // Config replaces the configuration
	Pause                       // decisions are refused until Resume
	Resume                      // the end of Pause
	Clone                       // a model that starts as From is here
	Rollback                    // the model goes back to what it had learned at AtSeq
	Delete                      // the model is gone; its name is free
	RaiseVersion                // from this batch on writers may use log version Version
	Import                      // a model that starts from a state, which follows in Pieces; it is there with the last one
	Trim                        // the entries up to AtSeq may go; Data is the SHA-256 of the base that has their effect
	// the log is a cluster's, whose nodes are in Data: names, one a line; it replaces those that Digest names, by none
	// where Data is empty
	Members
	_ // 12 was of earlier programs
	// entry AtSeq of a cluster's log, which no reader can use, has no effect; Data is the hash of its bytes
	VoidEntry
	_ // 14 and 15 were of earlier programs
	_
	// A move of a model to another server has the number Digest in both logs. The acts of the server where it was: Depart
	// closes the model, Stay opens it again, Gone drops it; Data is the address of the other server. Those of the server
	// where it goes: Arrive begins a model whose parcel follows in Pieces, and Data is the sum of the parcel; after Turn that
	// move cannot arrive any more.
	Depart
	Stay
	Gone
	Arrive
	Turn
)

var actNames = [...]string{1: "create", "configure", "pause", "resume", "clone", "rollback", "delete", "raise-version",
	"import", "trim", "members", 13: "void", 16: "depart", "stay", "gone", "arrive", "turn"}

// ofLog says that an act is about the log and not about a model.
func (a Act) ofLog() bool { return a == RaiseVersion || a == Trim || a == Members || a == VoidEntry }

// ofMove says that an act is a step of a move.
func (a Act) ofMove() bool { return a >= Depart && a <= Turn }

func (a Act) known() bool { return int(a) < len(actNames) && actNames[a] != "" }

// String returns the name in JSON, and the number of a value without one.
func (a Act) String() string {
	if a.known() {
		return actNames[a]
	}
	return "act " + strconv.Itoa(int(a))
}

// MarshalText writes what String returns.
func (a Act) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Control is a step in the life of a model; it has its place in the order like every event.
type Control struct {
	Act       Act    `json:"act"`
	Model     ID     `json:"model,omitzero"`      // the incarnation that it makes or changes
	Name      string `json:"name,omitzero"`       // the model's public name
	Config    []byte `json:"config,omitempty"`    // the model's configuration; its own form
	From      ID     `json:"from,omitzero"`       // clone, rollback: the incarnation to start from
	AtSeq     uint64 `json:"at_seq,omitzero"`     // clone, rollback: its state after this sequence
	Digest    ID     `json:"digest,omitzero"`     // of the resulting state, as the proposing node computed it; of a move its number
	KeepLater bool   `json:"keep_later,omitzero"` // rollback: rewards of later decisions still count
	Version   uint32 `json:"version,omitzero"`    // raise-version
	Caller    string `json:"caller,omitzero"`
	Time      int64  `json:"time,omitzero"`

	Base uint64 `json:"base,omitzero"`  // configure: number of the configuration version that it was made from
	Data []byte `json:"data,omitempty"` // of the act
}

// Kind implements Record.
func (*Control) Kind() Kind { return KindControl }
func (r *Control) check() error {
	switch {
	case !r.Act.known():
		return fmt.Errorf("control: act = %d is unknown: %w", r.Act, ErrMalformed)
	case r.Act.ofLog() != (r.Model == 0):
		return fmt.Errorf("control: %v of model %v: %w", r.Act, r.Model, ErrMalformed)
	case (r.Act == RaiseVersion) != (r.Version != 0) || r.Version > 0xffff:
		return fmt.Errorf("control: %v with version = %d: %w", r.Act, r.Version, ErrMalformed)
	case (r.Act == Clone || r.Act == Rollback) != (r.From != 0):
		return fmt.Errorf("control: %v from model %v: %w", r.Act, r.From, ErrMalformed)
	}
	return firstError(checkText("control: name", r.Name), checkText("control: caller", r.Caller), r.checkNew())
}

// checkNew checks the fields of acts.
func (r *Control) checkNew() error {
	switch has := len(r.Data) > 0; {
	case r.Base != 0 && r.Act != Configure:
		return fmt.Errorf("control: %v with base = %d, which belongs to configure: %w", r.Act, r.Base, ErrMalformed)
	case r.Act == Trim && (len(r.Data) != sha256.Size || r.AtSeq == 0):
		return fmt.Errorf("control: trim to entry %d with %d bytes of data, want an entry and a SHA-256: %w", r.AtSeq,
			len(r.Data), ErrMalformed)
	case r.Act == Members && (has || r.Digest == 0):
		return checkMembers(r.Data)
	case r.Act == VoidEntry && (len(r.Data) != len(Hash{}) || r.AtSeq == 0):
		return fmt.Errorf("control: void of entry %d with %d bytes of data, want an entry and the %d bytes of its "+
			"hash: %w", r.AtSeq, len(r.Data), len(Hash{}), ErrMalformed)
	case r.Act.ofMove():
		return r.checkMove()
	case has && r.Act != Trim && r.Act != VoidEntry:
		return fmt.Errorf("control: %v with %d bytes of data: %w", r.Act, len(r.Data), ErrMalformed)
	}
	return nil
}

// checkMove checks the fields of a step of a move.
func (r *Control) checkMove() error {
	switch {
	case r.Digest == 0:
		return fmt.Errorf("control: %v of move 0: %w", r.Act, ErrMalformed)
	case r.Act == Arrive && len(r.Data) != sha256.Size:
		return fmt.Errorf("control: arrive with %d bytes of data, want a SHA-256: %w", len(r.Data), ErrMalformed)
	case (r.Act == Depart || r.Act == Gone) && len(r.Data) == 0:
		return fmt.Errorf("control: %v without data, want an address: %w", r.Act, ErrMalformed)
	case (r.Act == Stay || r.Act == Turn) && len(r.Data) > 0:
		return fmt.Errorf("control: %v with %d bytes of data: %w", r.Act, len(r.Data), ErrMalformed)
	case r.Act == Arrive:
		return nil
	}
	return checkText("control: data", string(r.Data))
}

// checkMembers checks names of nodes, one a line, each once.
func checkMembers(data []byte) error {
	if err := checkText("control: members", string(data)); err != nil {
		return err
	}
	names := strings.Split(string(data), "\n")
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("control: members: name %d is %q, want names that differ: %w", i, name, ErrMalformed)
		}
	}
	return nil
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
	b = putInt(b, 11, r.Time)
	b = putUint(b, 12, r.Base)
	return putBytes(b, 13, r.Data)
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
		r.Config = bytes.Clone(d.bytes()) // rare, and its readers keep it
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
	case 12:
		r.Base = d.uint()
	case 13:
		r.Data = bytes.Clone(d.bytes())
	default:
		d.unknown()
	}
}

// Checkpoint states digests of the models after sequence Seq, so that replicas can compare.
type Checkpoint struct {
	Seq    uint64   `json:"seq"`
	States []Digest `json:"states,omitempty"` // ascending by model
	Time   int64    `json:"time,omitzero"`

	// In the log of a cluster.

	Node     string `json:"node,omitzero"`     // the node that writes it
	Applied  uint64 `json:"applied,omitzero"`  // the newest entry that the node has applied
	Combined ID     `json:"combined,omitzero"` // digest over all models and their digests after Seq
	Readable uint32 `json:"readable,omitzero"` // the highest log version that the node reads
	Keys     ID     `json:"keys,omitzero"`     // fingerprint of the node's keys
	KeySet   []ID   `json:"key_set,omitempty"` // that of each of them, first of the one that makes event ids
	Base     []byte `json:"base,omitempty"`    // SHA-256 of the newest base that the node has
	BaseSeq  uint64 `json:"base_seq,omitzero"` // and its entry
	// who vouches for the servers of the log, where they do not report themselves
	Vouched string `json:"vouched,omitzero"`

	// Prices are those of the models with a budget after Seq, ascending by model, on any log.
	Prices []Price `json:"prices,omitempty"`
}

// Price is the price of a model with a budget, and what it has spent: of its day where the budget is for a day.
type Price struct {
	Model ID      `json:"model"`
	Price float64 `json:"price"`
	Spent float64 `json:"spent"`
}

// Digest is the digest of one model's state.
type Digest struct {
	Model  ID `json:"model"`
	Digest ID `json:"digest"`
}

// Kind implements Record.
func (*Checkpoint) Kind() Kind { return KindCheckpoint }
func (r *Checkpoint) check() error {
	for i, s := range r.States {
		if s.Model == 0 || i > 0 && s.Model <= r.States[i-1].Model {
			return fmt.Errorf("checkpoint: states[%d].model = %v does not ascend: %w", i, s.Model, ErrMalformed)
		}
	}
	for i, p := range r.Prices {
		if p.Model == 0 || i > 0 && p.Model <= r.Prices[i-1].Model {
			return fmt.Errorf("checkpoint: prices[%d].model = %v does not ascend: %w", i, p.Model, ErrMalformed)
		}
		for _, v := range []float64{p.Price, p.Spent} {
			if err := checkCost(v); err != nil {
				return fmt.Errorf("checkpoint: prices[%d] %w", i, err)
			}
		}
	}
	switch what := r.ofNode(); {
	case r.Node == "" && what != "":
		return fmt.Errorf("checkpoint: %s without a node: %w", what, ErrMalformed)
	case r.Readable > 0xffff:
		return fmt.Errorf("checkpoint: readable = %d is no log version: %w", r.Readable, ErrMalformed)
	case len(r.Base) != 0 && len(r.Base) != sha256.Size || (len(r.Base) == 0) != (r.BaseSeq == 0):
		return fmt.Errorf("checkpoint: base of %d bytes at entry %d, want a SHA-256 and an entry: %w", len(r.Base),
			r.BaseSeq, ErrMalformed)
	}
	return firstError(checkText("checkpoint: node", r.Node), checkText("checkpoint: vouched", r.Vouched))
}

// ofNode names a field that only the checkpoint of a node has, "" when none is set.
func (r *Checkpoint) ofNode() string {
	switch {
	case r.Applied != 0:
		return "applied"
	case r.Combined != 0:
		return "combined"
	case r.Readable != 0:
		return "readable"
	case r.Keys != 0:
		return "keys"
	case len(r.Base) > 0:
		return "base"
	case r.BaseSeq != 0:
		return "base_seq"
	case len(r.KeySet) > 0:
		return "key_set"
	case r.Vouched != "":
		return "vouched"
	}
	return ""
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
	b = putInt(b, 3, r.Time)
	b = putBytes(b, 4, r.Node)
	b = putUint(b, 5, r.Applied)
	b = putFixed(b, 6, uint64(r.Combined))
	b = putUint(b, 7, uint64(r.Readable))
	b = putFixed(b, 8, uint64(r.Keys))
	b = putBytes(b, 9, r.Base)
	b = putUint(b, 10, r.BaseSeq)
	if len(r.KeySet) > 0 {
		b = binary.AppendUvarint(putTag(b, 11, wireBytes), uint64(8*len(r.KeySet)))
		for _, k := range r.KeySet {
			b = binary.LittleEndian.AppendUint64(b, uint64(k))
		}
	}
	b = putBytes(b, 12, r.Vouched)
	if len(r.Prices) > 0 {
		b = binary.AppendUvarint(putTag(b, 13, wireBytes), uint64(24*len(r.Prices)))
		for _, p := range r.Prices {
			b = binary.LittleEndian.AppendUint64(b, uint64(p.Model))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Price))
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Spent))
		}
	}
	return b
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
	case 4:
		r.Node = d.text()
	case 5:
		r.Applied = d.uint()
	case 6:
		r.Combined = ID(d.fixed())
	case 7:
		r.Readable = d.uint32()
	case 8:
		r.Keys = ID(d.fixed())
	case 9:
		r.Base = bytes.Clone(d.bytes())
	case 10:
		r.BaseSeq = d.uint()
	case 11:
		if !d.want(wireBytes) {
			return
		}
		if len(d.data)%8 != 0 || len(d.data) > 8*256 {
			d.fail("%d bytes are no list of fingerprints", len(d.data))
			return
		}
		r.KeySet = make([]ID, len(d.data)/8)
		for i := range r.KeySet {
			r.KeySet[i] = ID(binary.LittleEndian.Uint64(d.data[8*i:]))
		}
	case 12:
		r.Vouched = d.text()
	case 13:
		if !d.want(wireBytes) {
			return
		}
		if len(d.data)%24 != 0 {
			d.fail("%d bytes are no list of prices", len(d.data))
			return
		}
		r.Prices = make([]Price, len(d.data)/24)
		for i := range r.Prices {
			p := d.data[24*i:]
			r.Prices[i] = Price{ID(binary.LittleEndian.Uint64(p)), math.Float64frombits(binary.LittleEndian.Uint64(p[8:])),
				math.Float64frombits(binary.LittleEndian.Uint64(p[16:]))}
		}
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

// Kind implements Record.
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
