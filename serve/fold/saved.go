package fold

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// savedMagic begins the file of a model that another one can start from:
//
//	"TRPM" | 1 u16 | JSON: config and seed | JSON: origin | rewards learned |
//	what it keeps beside its policy | the policy's snapshot | SHA-256
//
// Texts have their length before them (uvarint), numbers are uvarint. docs/reference/formats.md
const savedMagic = "TRPM\x01\x00"

// MaxSaved bounds the bytes of a saved model.
const MaxSaved = 256 << 20

// Saved is a model without its past: what troupe train writes, and what a new model can start from.
type Saved struct {
	Compiled *model.Compiled
	Seed     rng.Key
	Learned  uint64 // rewards
	Memory   Memory
	Policy   []byte // its snapshot
	Origin   Origin // not in the log of a model that starts from it
}

// Origin is what a saved model has learned, so that it is not evaluated on the same events.
type Origin struct {
	Models []eventlog.ID `json:"models,omitempty"` // incarnations whose events it has learned
	Seq    uint64        `json:"seq,omitzero"`     // up to this entry of their log
	File   string        `json:"file,omitzero"`    // digest of a file of decisions
}

// Append appends the file's bytes.
func (s *Saved) Append(b []byte) ([]byte, error) {
	start := len(b)
	config, err := ControlConfig(s.Compiled.Config, &s.Seed)
	if err != nil {
		return b, err
	}
	w := writer{append(b, savedMagic...)}
	w.bytes(config)
	origin, err := json.Marshal(s.Origin)
	if err != nil {
		return b, err
	}
	w.bytes(origin)
	w.b = s.appendBody(w.b)
	return Sign(w.b, start), nil
}

// appendBody appends what the pieces of an import hold.
func (s *Saved) appendBody(b []byte) []byte {
	w := writer{b}
	w.uint(s.Learned)
	w.memory(&Model{Memory: s.Memory})
	w.bytes(s.Policy)
	return w.b
}

// ReadSaved reads what Append wrote. The policy's snapshot is tried: a file that is read can be started from.
func ReadSaved(b []byte) (*Saved, error) {
	n := len(b) - sha256.Size
	if n < len(savedMagic) || string(b[:len(savedMagic)]) != savedMagic {
		return nil, errors.New("not a saved model (troupe train writes one), or of another version")
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errors.New("a damaged saved model: wrong checksum")
	}
	r := reader{b: b[len(savedMagic):n]}
	config, origin := r.bytes(), r.bytes()
	if r.err != nil {
		return nil, r.err
	}
	s := &Saved{}
	if err := json.Unmarshal(origin, &s.Origin); err != nil {
		return nil, err
	}
	if err := s.readConfig(config); err != nil {
		return nil, err
	}
	_, err := s.readBody(r.b)
	return s, err
}

func (s *Saved) readConfig(b []byte) error {
	var x controlConfig
	err := json.Unmarshal(b, &x)
	if err == nil {
		s.Compiled, err = x.Config.Logged()
	}
	if err == nil {
		s.Seed, err = decodeSeed(x.Seed)
	}
	return err
}

// readBody reads the rest and returns the policy in the saved state.
func (s *Saved) readBody(b []byte) (model.Policy, error) {
	r := reader{b: b}
	s.Learned = r.uint()
	memory, policy := r.bytes(), r.bytes()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	var m Model
	if err := m.readMemory(memory); err != nil {
		return nil, err
	}
	s.Memory, s.Policy = m.Memory, policy
	p, err := s.Compiled.NewPolicy(s.Seed)
	if err == nil {
		err = p.Restore(policy)
	}
	if err != nil {
		return nil, fmt.Errorf("the policy's snapshot: %w", err)
	}
	return p, nil
}

// Records returns the records that make a model of this name from s: the act, and the state in pieces of size bytes.
// The model is there when the fold has applied the last one.
func (s *Saved) Records(id eventlog.ID, name, caller string, now int64, size int) ([]eventlog.Record, error) {
	config := s.Compiled.Config.Settled()
	config.ID = name
	b, err := ControlConfig(config, &s.Seed)
	if err != nil {
		return nil, err
	}
	out := []eventlog.Record{&eventlog.Control{Act: eventlog.Import, Model: id, Name: name, Config: b, Caller: caller,
		Time: now}}
	body := s.appendBody(nil)
	digest := Digest(body)
	parts := (len(body) + size - 1) / size
	for i := range parts {
		p := &eventlog.Piece{Model: id, Part: uint32(i), Parts: uint32(parts),
			Data: body[i*size : min((i+1)*size, len(body))]}
		if i == parts-1 {
			p.Digest = digest
		}
		out = append(out, p)
	}
	return out, nil
}

// State returns the state for versions of the model. The caller holds it.
func (s *Saved) State() *State {
	return NewState(s.Policy)
}

// Size returns what the model takes.
func (s *Saved) Size() Size { return sizeOf(s.Compiled, len(s.Policy)) }
