package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// testimony is what the witness of a shard knows: entries First to Last were acknowledged, and Sum is
// the CRC-32C of the entry at Last.
type testimony struct {
	First, Last uint64
	Sum         uint32
}

// witness is a small file beside the engine's: two slots, written in turn after every
// acknowledgement, so that a torn write leaves the other. It is written after the entry is durable
// and synced once a second, so it is never ahead of the log and, after a loss of power, at most that
// much behind. Without it nobody could see that the end of the log is gone.
type witness struct {
	f     *os.File
	shard uint16
	count uint64 // of writes; the slot is count mod 2
	t     testimony
	dirty bool
}

const (
	slotSize   = 48
	slotStride = 4096 // a page each
)

func witnessName(shard uint16) string { return "witness-" + strconv.Itoa(int(shard)) }

func appendSlot(b []byte, shard uint16, count uint64, t testimony) []byte {
	start := len(b)
	le := binary.LittleEndian
	b = append(b, "TRPW\x01\x00"...)
	b = le.AppendUint16(b, shard)
	b = le.AppendUint64(b, count)
	b = le.AppendUint64(b, t.First)
	b = le.AppendUint64(b, t.Last)
	b = le.AppendUint32(b, t.Sum)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseSlot(b []byte, shard uint16) (count uint64, t testimony, ok bool) {
	le := binary.LittleEndian
	if len(b) < slotSize || string(b[:6]) != "TRPW\x01\x00" || le.Uint16(b[6:]) != shard ||
		le.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], castagnoli) {
		return 0, t, false
	}
	t = testimony{le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint32(b[32:])}
	return le.Uint64(b[8:]), t, t.First > 0 && t.First <= t.Last+1
}

// parseWitness returns the newer good slot of a witness file.
func parseWitness(b []byte, shard uint16) (count uint64, t testimony, err error) {
	found := false
	for off := 0; off <= slotStride; off += slotStride {
		if len(b) < off+slotSize {
			break
		}
		if c, x, ok := parseSlot(b[off:], shard); ok && (!found || c > count) {
			count, t, found = c, x, true
		}
	}
	if !found {
		return 0, t, fmt.Errorf("no slot is readable: %w", ErrMalformed)
	}
	return count, t, nil
}

// createWitness writes a new witness file, durable except for its name.
func createWitness(dir string, shard uint16, t testimony) error {
	b := make([]byte, slotStride+slotSize)
	for n := range uint64(2) {
		appendSlot(b[:n*slotStride], shard, n, t)
	}
	return writeFileSync(filepath.Join(dir, witnessName(shard)), b)
}

func openWitness(dir string, shard uint16) (*witness, error) {
	name := filepath.Join(dir, witnessName(shard))
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	w := &witness{shard: shard}
	if w.count, w.t, err = parseWitness(b, shard); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	w.f, err = os.OpenFile(name, os.O_RDWR, 0)
	return w, err
}

// say records t; it survives a killed process now and a loss of power after sync.
func (w *witness) say(t testimony) error {
	var buf [slotSize]byte
	if _, err := w.f.WriteAt(appendSlot(buf[:0], w.shard, w.count+1, t), int64((w.count+1)%2*slotStride)); err != nil {
		return err
	}
	w.count, w.t, w.dirty = w.count+1, t, true
	return nil
}

func (w *witness) sync() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	return w.f.Sync()
}

// swear records t in both slots, durably: for what must not be forgotten with one of them.
func (w *witness) swear(t testimony) error {
	return errors.Join(w.say(t), w.say(t), w.sync())
}

func (w *witness) close() error { return errors.Join(w.swear(w.t), w.f.Close()) }

// marker is the file that says a directory is a log, which and how many shards it has.
type marker struct {
	ID     ID
	Shards uint16
}

const markerFile = "troupe-log"

func (m marker) text() string {
	s := fmt.Sprintf("troupe event log, format 1\nid %v\nshards %d\n", m.ID, m.Shards)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

func parseMarker(text string) (m marker, err error) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); key {
		case "id":
			err = errors.Join(err, m.ID.UnmarshalText([]byte(value)))
		case "shards":
			n, e := strconv.ParseUint(value, 10, 16)
			m.Shards, err = uint16(n), errors.Join(err, e)
		}
	}
	if err != nil || m.Shards == 0 || m.text() != text {
		return marker{}, fmt.Errorf("not the marker of an event log: %w", ErrMalformed)
	}
	return m, nil
}

// writeFileSync writes a file and makes its contents durable. The name is durable after syncDir.
func writeFileSync(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
