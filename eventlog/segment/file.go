package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	headerSize = 64 // of a segment file
	endSize    = 96 // of an end file, without offsets

	segmentSuffix = ".seg"
	endSuffix     = ".end"
	tmpSuffix     = ".tmp"
)

// header begins a segment file.
type header struct {
	group  uint16
	first  uint64 // index of its first entry
	seq    uint64 // of its first batch: 1 + the batches before it
	before Link   // of the entry before the first
}

func (h header) append(b []byte) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = append(b, "TRPS\x01\x00"...)
	b = le.AppendUint16(b, h.group)
	b = le.AppendUint64(b, h.first)
	b = le.AppendUint64(b, h.seq)
	b = append(b, h.before[:]...)
	b = append(b, make([]byte, 20)...)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader returns the header of a segment file, ok false for bytes that append does not write.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerSize {
		return h, false
	}
	le := binary.LittleEndian
	h = header{le.Uint16(b[6:]), le.Uint64(b[8:]), le.Uint64(b[16:]), Link(b[24:40])}
	return h, h.first > 0 && h.seq > 0 && h.seq <= h.first && bytes.Equal(h.append(nil), b[:headerSize])
}

// end is what an end file says of a sealed segment, without the offsets.
type end struct {
	group       uint16
	first, last uint64
	seq         uint64 // as in the header
	size        int64  // of the segment file
	link        Link   // of the last entry
	sum         [32]byte
	offsets     uint32 // CRC-32C of the offsets
}

func (e end) append(b []byte) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = append(b, "TRPE\x01\x00"...)
	b = le.AppendUint16(b, e.group)
	b = le.AppendUint64(b, e.first)
	b = le.AppendUint64(b, e.last)
	b = le.AppendUint64(b, e.seq)
	b = le.AppendUint64(b, uint64(e.size))
	b = append(b, e.link[:]...)
	b = append(b, e.sum[:]...)
	b = le.AppendUint32(b, e.offsets)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func parseEnd(b []byte) (e end, ok bool) {
	if len(b) < endSize {
		return e, false
	}
	le := binary.LittleEndian
	e = end{group: le.Uint16(b[6:]), first: le.Uint64(b[8:]), last: le.Uint64(b[16:]), seq: le.Uint64(b[24:]),
		size: int64(le.Uint64(b[32:])), link: Link(b[40:56]), sum: [32]byte(b[56:88]), offsets: le.Uint32(b[88:])}
	return e, e.first > 0 && e.last >= e.first && e.seq > 0 && e.size > 0 && bytes.Equal(e.append(nil), b[:endSize])
}

// encode returns the end file with the places of the entries.
func (e end) encode(offsets []uint32) []byte {
	b := make([]byte, endSize, endSize+4*len(offsets))
	for _, o := range offsets {
		b = binary.LittleEndian.AppendUint32(b, o)
	}
	e.offsets = crc32.Checksum(b[endSize:], castagnoli)
	e.append(b[:0])
	return b
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }
func endName(first uint64) string     { return fmt.Sprintf("%020d%s", first, endSuffix) }

// GroupDir is the name of the directory of a group.
func GroupDir(group uint16) string { return fmt.Sprintf("g%04d", group) }

// list returns the first entries of the segment files of a directory, ascending, and the names of other files that a
// store makes.
func list(fs FS, dir string) (firsts []uint64, ends map[uint64]bool, tmp []string, err error) {
	files, err := fs.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil, nil
	} else if err != nil {
		return nil, nil, nil, err
	}
	ends = map[uint64]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, tmpSuffix) {
			tmp = append(tmp, name)
			continue
		}
		ext := filepath.Ext(name)
		first, err := strconv.ParseUint(strings.TrimSuffix(name, ext), 10, 64)
		switch {
		case err == nil && name == segmentName(first):
			firsts = append(firsts, first)
		case err == nil && name == endName(first):
			ends[first] = true
		}
	}
	slices.SortFunc(firsts, cmp.Compare)
	return firsts, ends, tmp, nil
}

// writeFile makes a file that is there as a whole or not at all. Its name is durable after the sync of the directory.
func writeFile(fs FS, name string, b []byte, sync bool) error {
	tmp := name + tmpSuffix
	f, err := fs.Open(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil && sync {
		if err = f.Sync(); err != nil {
			err = &SyncError{err}
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = fs.Remove(tmp)
		return err
	}
	return fs.Rename(tmp, name)
}

// syncDir makes the names in a directory durable.
func syncDir(fs FS, dir string) error {
	if err := fs.SyncDir(dir); err != nil {
		return &SyncError{err}
	}
	return nil
}

// SyncError is the error of a sync that failed: the system may have dropped what was written and still show it, so what
// is on the disk is not known.
type SyncError struct{ Err error }

// Error is the system's.
func (e *SyncError) Error() string { return "sync: " + e.Err.Error() }

// Unwrap returns the system's error.
func (e *SyncError) Unwrap() error { return e.Err }
