package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
)

// ackedEnd is the acknowledged-end record of a shard: entries First to Last were acknowledged, and Sum
// is the CRC-32C of the entry at Last. The zero value means that there is no record.
type ackedEnd struct {
	First, Last uint64
	Sum         uint32
}

// ackedFile keeps the acknowledged-end record of a shard in a small file beside the engine's files. The
// file has two slots, which are written in turn after every acknowledgement, so that a torn write
// leaves the other one. It is written after the entry is durable and synced once a second. So it is
// never ahead of the log, and after a loss of power at most that much behind. Without it a missing end
// of the log could not be seen. The file's name is that of format 1, witness-<shard>.
type ackedFile struct {
	f     *os.File
	shard uint16
	count uint64   // of writes; the slot is count mod 2
	end   ackedEnd // in the newest slot
	dirty bool     // written and not synced
}

const (
	slotSize   = 48
	slotStride = 4096 // a page each
)

func ackedName(shard uint16) string { return "witness-" + strconv.Itoa(int(shard)) }

func appendSlot(b []byte, shard uint16, count uint64, end ackedEnd) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, "TRPW\x01\x00"...)
	b = le.AppendUint16(b, shard)
	b = le.AppendUint64(b, count)
	b = le.AppendUint64(b, end.First)
	b = le.AppendUint64(b, end.Last)
	b = le.AppendUint32(b, end.Sum)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseSlot(b []byte, shard uint16) (count uint64, end ackedEnd, ok bool) {
	le := binary.LittleEndian
	if len(b) < slotSize || string(b[:6]) != "TRPW\x01\x00" || le.Uint16(b[6:]) != shard ||
		le.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], castagnoli) {
		return 0, end, false
	}
	end = ackedEnd{le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint32(b[32:])}
	return le.Uint64(b[8:]), end, end.First > 0 && end.First <= end.Last+1
}

// parseAcked returns the newer good slot of a file.
func parseAcked(b []byte, shard uint16) (count uint64, end ackedEnd, err error) {
	found := false
	for off := 0; off <= slotStride; off += slotStride {
		if len(b) < off+slotSize {
			break
		}
		if c, x, ok := parseSlot(b[off:], shard); ok && (!found || c > count) {
			count, end, found = c, x, true
		}
	}
	if !found {
		return 0, end, fmt.Errorf("no slot is readable: %w", ErrMalformed)
	}
	return count, end, nil
}

// createAcked writes a new file, durable except for its name.
func createAcked(dir string, shard uint16, end ackedEnd) error {
	b := make([]byte, slotStride+slotSize)
	for n := range uint64(2) {
		appendSlot(b[:n*slotStride], shard, n, end)
	}
	return writeFileSync(filepath.Join(dir, ackedName(shard)), b)
}

func openAcked(dir string, shard uint16) (*ackedFile, error) {
	name := filepath.Join(dir, ackedName(shard))
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	a := &ackedFile{shard: shard}
	if a.count, a.end, err = parseAcked(b, shard); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a.f, err = os.OpenFile(name, os.O_RDWR, 0)
	return a, err
}

// write puts end into the older slot. It survives a killed process now, and a loss of power after a
// sync.
func (a *ackedFile) write(end ackedEnd) error {
	var buf [slotSize]byte
	if _, err := a.f.WriteAt(appendSlot(buf[:0], a.shard, a.count+1, end),
		int64((a.count+1)%2*slotStride)); err != nil {
		return err
	}
	a.count, a.end, a.dirty = a.count+1, end, true
	return nil
}

// writeBoth puts end into both slots and syncs. A trim needs that: the damage of one slot must not
// bring the record of before back.
func (a *ackedFile) writeBoth(end ackedEnd) error {
	return errors.Join(a.write(end), a.write(end), a.sync())
}

func (a *ackedFile) sync() error {
	if !a.dirty {
		return nil
	}
	a.dirty = false
	return a.f.Sync()
}

func (a *ackedFile) close() error { return errors.Join(a.writeBoth(a.end), a.f.Close()) }
