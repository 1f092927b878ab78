package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
)

// Acked is the acknowledged end of a group: entries First to Last were acknowledged, and Link is that of the entry at
// Last. Entries before First were trimmed.
type Acked struct {
	First, Last uint64
	Link        Link
}

// AckedFile keeps the acknowledged end in a small file of its own. The file has two slots, which are written in turn
// after every acknowledgement, so that a torn write leaves the other one. It is written after the entry is durable and
// synced about once a second by its owner. So it is never ahead of the log, and after a loss of power at most that much
// behind. Without it a missing end of the log could not be seen. Its methods may be called by one goroutine at a time.
type AckedFile struct {
	f     File
	group uint16
	count uint64 // of writes; the slot is count mod 2
	end   Acked  // in the newest slot
	dirty bool   // written and not synced
}

const (
	slotSize   = 52
	slotStride = 4096 // a page each
)

// AckedName is the name of the file, in the directory of its group.
const AckedName = "acked"

func appendSlot(b []byte, group uint16, count uint64, end Acked) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, "TRPA\x01\x00"...)
	b = le.AppendUint16(b, group)
	b = le.AppendUint64(b, count)
	b = le.AppendUint64(b, end.First)
	b = le.AppendUint64(b, end.Last)
	b = append(b, end.Link[:]...)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseSlot(b []byte, group uint16) (count uint64, end Acked, ok bool) {
	le := binary.LittleEndian
	if len(b) < slotSize || string(b[:6]) != "TRPA\x01\x00" || le.Uint16(b[6:]) != group ||
		le.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], castagnoli) {
		return 0, end, false
	}
	end = Acked{le.Uint64(b[16:]), le.Uint64(b[24:]), Link(b[32:48])}
	return le.Uint64(b[8:]), end, end.First > 0 && end.First <= end.Last+1
}

// parseAcked returns the newer good slot of a file.
func parseAcked(b []byte, group uint16) (count uint64, end Acked, ok bool) {
	for off := 0; off+slotSize <= len(b) && off <= slotStride; off += slotStride {
		if c, x, good := parseSlot(b[off:], group); good && (!ok || c > count) {
			count, end, ok = c, x, true
		}
	}
	return count, end, ok
}

// CreateAcked writes a new file, durable except for its name.
func CreateAcked(fs FS, dir string, group uint16, end Acked) error {
	b := make([]byte, slotStride+slotSize)
	for n := range uint64(2) {
		appendSlot(b[:n*slotStride], group, n, end)
	}
	return writeFile(fs, filepath.Join(dir, AckedName), b, true)
}

// ReadAcked returns what the file of a group says. A file that is missing or not readable is a *DamageError.
func ReadAcked(fs FS, dir string, group uint16) (Acked, error) {
	_, end, err := readAcked(fs, dir, group)
	return end, err
}

func readAcked(fs FS, dir string, group uint16) (count uint64, end Acked, err error) {
	b, err := readFile(fs, filepath.Join(dir, AckedName))
	if errors.Is(err, os.ErrNotExist) {
		return 0, end, &DamageError{Damage{File: AckedName, What: "is missing"}}
	} else if err != nil {
		return 0, end, err
	}
	count, end, ok := parseAcked(b, group)
	if !ok {
		return 0, end, &DamageError{Damage{File: AckedName, What: "no slot is readable"}}
	}
	return count, end, nil
}

// OpenAcked opens the file of a group.
func OpenAcked(fs FS, dir string, group uint16) (*AckedFile, error) {
	a := &AckedFile{group: group}
	var err error
	if a.count, a.end, err = readAcked(fs, dir, group); err != nil {
		return nil, err
	}
	a.f, err = fs.Open(filepath.Join(dir, AckedName), os.O_RDWR)
	return a, err
}

// End returns what the newest slot says.
func (a *AckedFile) End() Acked { return a.end }

// Write puts end into the older slot. It survives a killed process now, and a loss of power after a sync.
func (a *AckedFile) Write(end Acked) error {
	var buf [slotSize]byte
	if _, err := a.f.WriteAt(appendSlot(buf[:0], a.group, a.count+1, end),
		int64((a.count+1)%2*slotStride)); err != nil {
		return err
	}
	a.count, a.end, a.dirty = a.count+1, end, true
	return nil
}

// WriteBoth puts end into both slots and syncs. A trim needs that: the damage of one slot must not bring the record of
// before back.
func (a *AckedFile) WriteBoth(end Acked) error {
	if err := errors.Join(a.Write(end), a.Write(end)); err != nil {
		return err
	}
	a.dirty = false
	return a.Sync()
}

// Dirty returns whether something was written since the last call, which the caller syncs now.
func (a *AckedFile) Dirty() bool {
	dirty := a.dirty
	a.dirty = false
	return dirty
}

// Sync makes what was written durable. It may run beside the other methods.
func (a *AckedFile) Sync() error {
	if err := a.f.SyncData(); err != nil {
		return &SyncError{err}
	}
	return nil
}

// Close writes both slots again and syncs.
func (a *AckedFile) Close() error { return errors.Join(a.WriteBoth(a.end), a.f.Close()) }

// Abandon closes the file and writes nothing.
func (a *AckedFile) Abandon() error { return a.f.Close() }
