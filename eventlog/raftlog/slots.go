package raftlog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"

	"troupe/eventlog/segment"
)

// slots is a small file with two copies of a value, so that a write that is torn, or a bit that flips, leaves one. The
// file begins with "TRP" and a letter; the value has a fixed length.
type slots struct {
	f     segment.File
	name  string
	kind  byte
	group uint16
	count uint64 // of writes; the slot is count mod 2
}

const (
	slotStride = 4096 // a page each
	slotHead   = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *slots) encode(count uint64, value []byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("TRP"), s.kind, 1, 0)
	b = le.AppendUint16(b, s.group)
	b = le.AppendUint64(b, count)
	b = append(b, value...)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// createSlots makes the file of a value. It is durable except for its name.
func createSlots(fs segment.FS, dir, name string, kind byte, group uint16, value []byte) error {
	s := &slots{kind: kind, group: group}
	b := make([]byte, slotStride, 2*slotStride)
	copy(b, s.encode(0, value))
	return segment.WriteFile(fs, filepath.Join(dir, name), append(b, s.encode(1, value)...))
}

// openSlots opens a file and returns the newer one of its good values, which has n bytes.
func openSlots(fs segment.FS, dir, name string, kind byte, group uint16, n int) (*slots, []byte, error) {
	s, value, err := readSlots(fs, dir, name, kind, group, n)
	if err != nil {
		return nil, nil, err
	}
	s.f, err = fs.Open(filepath.Join(dir, name), os.O_RDWR)
	return s, value, err
}

// readSlots is openSlots without a file to write to.
func readSlots(fs segment.FS, dir, name string, kind byte, group uint16, n int) (*slots, []byte, error) {
	b, err := segment.ReadFile(fs, filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, &segment.DamageError{Damage: segment.Damage{File: name, What: "is missing"}}
	} else if err != nil {
		return nil, nil, err
	}
	s := &slots{name: name, kind: kind, group: group}
	var value []byte
	for at := 0; at+slotHead+n+4 <= len(b) && at <= slotStride; at += slotStride {
		slot := b[at : at+slotHead+n+4]
		count := binary.LittleEndian.Uint64(slot[8:])
		if string(s.encode(count, slot[slotHead:slotHead+n])) == string(slot) && (value == nil || count > s.count) {
			s.count, value = count, slot[slotHead:slotHead+n]
		}
	}
	if value == nil {
		return nil, nil, &segment.DamageError{Damage: segment.Damage{File: name, What: "no slot is readable"}}
	}
	return s, value, nil
}

// write puts a value into the older slot. It survives a killed process now, and a loss of power after a sync.
func (s *slots) write(value []byte) error {
	if _, err := s.f.WriteAt(s.encode(s.count+1, value), int64((s.count+1)%2*slotStride)); err != nil {
		return err
	}
	s.count++
	return nil
}

// writeBoth makes a value durable in one slot, then in the other one: a bit that flips in either does not bring an older
// value back.
func (s *slots) writeBoth(value []byte) error {
	for range 2 {
		if err := s.write(value); err != nil {
			return err
		}
		if err := s.sync(); err != nil {
			return err
		}
	}
	return nil
}

func (s *slots) sync() error {
	if err := s.f.SyncData(); err != nil {
		return &segment.SyncError{Err: err}
	}
	return nil
}
