// Package backup has the files of a backup of an event log: parts with the entries as they are stored, in the order
// of the log, and an index that says what each part must be.
//
//	DIR/
//	  index.jsonl                          a line for the backup, then one for each part
//	  entries-1-4000.part, …               entries, each with its sequence (8 bytes), its length (4) and its bytes, little-endian
//	  base-41000.snap                      of a log that was trimmed: the state after that entry
//	  keys.json                            the keys of event ids, mode 0600, unless it is left out
//
// A part is written, synced and renamed before its line is, so a process that is killed anywhere leaves a backup that
// is whole up to its last line. Nothing that has a line is ever written again. One process writes to a directory at a
// time.
package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"troupe/eventlog"
)

const (
	indexFile = "index.jsonl"
	partMagic = "troupe backup part 1\n"
	format    = 1
	// MaxPart bounds the bytes of a part, and so the memory of reading one.
	MaxPart = 64 << 20
)

// head is the first line of the index.
type head struct {
	Format int `json:"format"`
	// First is the first entry of the backup. Base is the entry whose state the log goes on from, 0 for a log that
	// begins with entry 1.
	First   uint64 `json:"first"`
	Base    uint64 `json:"base,omitempty"`
	BaseSum string `json:"base_sha256,omitempty"`
	Keys    bool   `json:"keys"` // keys.json is in the backup
}

// Part is a file with entries that follow one another.
type Part struct {
	File  string `json:"file"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sha256"`
	// From and To are the earliest and the latest time of a writer in the part; zero where no entry can be read.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// DamagedError says which file of a backup is not what the index says.
type DamagedError struct {
	File, Why string
}

// Error names the file and the fault.
func (e *DamagedError) Error() string { return e.File + ": " + e.Why }

// GapError says that entries between a backup and what would follow it are gone.
type GapError struct {
	Last, First uint64 // the last entry of the backup, the first that there is
}

// Error names both ends.
func (e *GapError) Error() string {
	return fmt.Sprintf("the backup ends with entry %d and the log begins with entry %d: the entries between were trimmed", e.Last,
		e.First)
}

// Dir is a backup. Its methods are not for concurrent use.
type Dir struct {
	path  string
	head  head
	parts []Part
	index *os.File // nil while the directory is only read
}

// Open reads the index of a backup. A last line that breaks off, of a process that was killed, is as if it were not
// there. The error wraps fs.ErrNotExist where there is no backup.
func Open(path string) (*Dir, error) {
	d, _, err := open(path)
	return d, err
}

func open(path string) (*Dir, int64, error) {
	name := filepath.Join(path, indexFile)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, err
	}
	d := &Dir{path: path}
	whole := int64(0)
	for line := 1; ; line++ {
		text, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			break
		}
		if line == 1 {
			err = strict(text, &d.head)
			if err == nil && d.head.Format != format {
				err = fmt.Errorf("format %d, expected %d", d.head.Format, format)
			}
			if err == nil && (d.head.First == 0 || d.head.Base > 0 && d.head.Base+1 < d.head.First) {
				err = fmt.Errorf("first %d with base %d", d.head.First, d.head.Base)
			}
		} else {
			var p Part
			if err = strict(text, &p); err == nil {
				err = d.fits(p)
			}
			d.parts = append(d.parts, p)
		}
		if err != nil {
			return nil, 0, &DamagedError{name, fmt.Sprintf("line %d: %v", line, err)}
		}
		whole += int64(len(text)) + 1
		data = rest
	}
	if whole == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return d, whole, nil
}

// strict decodes a line whose keys must all be known.
func strict(text []byte, into any) error {
	j := json.NewDecoder(bytes.NewReader(text))
	j.DisallowUnknownFields()
	return j.Decode(into)
}

// fits checks that a part follows those before it.
func (d *Dir) fits(p Part) error {
	switch {
	case p.First != d.Last()+1 || p.Last < p.First:
		return fmt.Errorf("a part of the entries %d to %d, expected one from %d on", p.First, p.Last, d.Last()+1)
	case p.File != partName(p.First, p.Last):
		return fmt.Errorf("file %q, expected %q", p.File, partName(p.First, p.Last))
	case p.Bytes < 1 || p.Bytes > 2*MaxPart:
		return fmt.Errorf("%d bytes, expected 1 to %d", p.Bytes, 2*MaxPart)
	}
	return nil
}

func partName(first, last uint64) string { return fmt.Sprintf("entries-%d-%d.part", first, last) }

func baseName(seq uint64) string { return fmt.Sprintf("base-%d.snap", seq) }

// Begin makes a backup in a directory that is empty or not there. first is the first entry of the log; base is the
// state after entry baseSeq that a trimmed log goes on from, nil with baseSeq 0 for a log that is whole; keys is the
// text of keys.json, nil to leave it out.
func Begin(path string, first, baseSeq uint64, base, keys []byte) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, f := range files { // of a process that was killed before it had an index
		if n := f.Name(); n != "keys.json" && filepath.Ext(n) != ".snap" && filepath.Ext(n) != ".new" &&
			n != indexFile && filepath.Ext(n) != ".part" {
			return fmt.Errorf("%s is not empty (%s) and holds no backup", path, n)
		}
	}
	h := head{Format: format, First: first, Base: baseSeq, Keys: keys != nil}
	if keys != nil {
		if err := durable(filepath.Join(path, "keys.json"), keys, 0o600); err != nil {
			return err
		}
	}
	if baseSeq > 0 {
		h.BaseSum = sum(base)
		if err := durable(filepath.Join(path, baseName(baseSeq)), base, 0o600); err != nil {
			return err
		}
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return durable(filepath.Join(path, indexFile), append(line, '\n'), 0o600)
}

// First returns the first entry of the backup, Last the last one: First − 1 for none.
func (d *Dir) First() uint64 { return d.head.First }

// Last returns the last entry of the backup.
func (d *Dir) Last() uint64 {
	if n := len(d.parts); n > 0 {
		return d.parts[n-1].Last
	}
	return d.head.First - 1
}

// Parts returns the parts in order. The slice is shared.
func (d *Dir) Parts() []Part { return d.parts }

// Base returns the state that the log goes on from and its entry, 0 for a log that is whole.
func (d *Dir) Base() (seq uint64, state []byte, err error) {
	if d.head.Base == 0 {
		return 0, nil, nil
	}
	name := filepath.Join(d.path, baseName(d.head.Base))
	state, err = os.ReadFile(name)
	if err == nil && sum(state) != d.head.BaseSum {
		err = &DamagedError{name, "other bytes than those that were written"}
	}
	return d.head.Base, state, err
}

// Keys returns the text of keys.json, nil where the backup was made without it.
func (d *Dir) Keys() ([]byte, error) {
	if !d.head.Keys {
		return nil, nil
	}
	return os.ReadFile(filepath.Join(d.path, "keys.json"))
}

// Seal writes entries that follow the last one as a part. It is durable when Seal returns.
func (d *Dir) Seal(entries []eventlog.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if d.index == nil {
		if err := d.write(); err != nil {
			return err
		}
	}
	p := Part{First: entries[0].Seq, Last: entries[len(entries)-1].Seq}
	p.File = partName(p.First, p.Last)
	b := bytes.NewBufferString(partMagic)
	for i, e := range entries {
		if e.Seq != p.First+uint64(i) {
			return fmt.Errorf("entry %d follows entry %d", e.Seq, p.First+uint64(i)-1)
		}
		var at [12]byte
		binary.LittleEndian.PutUint64(at[:], e.Seq)
		binary.LittleEndian.PutUint32(at[8:], uint32(len(e.Data)))
		b.Write(at[:])
		b.Write(e.Data)
	}
	p.From, p.To = span(entries)
	p.Bytes, p.Sum = int64(b.Len()), sum(b.Bytes())
	if err := d.fits(p); err != nil {
		return err
	}
	if err := durable(filepath.Join(d.path, p.File), b.Bytes(), 0o600); err != nil {
		return err
	}
	line, err := json.Marshal(p)
	if err == nil {
		_, err = d.index.Write(append(line, '\n'))
	}
	if err = errors.Join(err, d.index.Sync()); err != nil {
		return err
	}
	d.parts = append(d.parts, p)
	return nil
}

// span returns the earliest and the latest time of a writer.
func span(entries []eventlog.Entry) (from, to time.Time) {
	for _, e := range entries {
		h, err := eventlog.ParseHeader(e.Data)
		if err != nil {
			continue // bytes that no server wrote; they are kept as they are
		}
		at := time.Unix(0, h.Time).UTC()
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	return from, to
}

// write opens the index to append, without a line that breaks off.
func (d *Dir) write() error {
	now, whole, err := open(d.path)
	if err != nil {
		return err
	}
	if now.Last() != d.Last() {
		return fmt.Errorf("%s has entries up to %d, and had them up to %d before: another process writes to it", d.path,
			now.Last(), d.Last())
	}
	f, err := os.OpenFile(filepath.Join(d.path, indexFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err := f.Truncate(whole); err != nil {
		return errors.Join(err, f.Close())
	}
	d.index = f
	return nil
}

// Close releases the index.
func (d *Dir) Close() error {
	if d.index == nil {
		return nil
	}
	return d.index.Close()
}

// Entries yields the entries from one to another. Each part is compared with its hash before its first entry is
// yielded; parts behind the last entry are not read. The last pair may be an error.
func (d *Dir) Entries(from, to uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, p := range d.parts {
			if p.Last < from || p.First > to {
				continue
			}
			all, err := d.read(p)
			if err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			for _, e := range all {
				if e.Seq >= from && e.Seq <= to && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// read reads a part and compares it with what the index says.
func (d *Dir) read(p Part) ([]eventlog.Entry, error) {
	name := filepath.Join(d.path, p.File)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(bufio.NewReader(f), p.Bytes+1))
	if err != nil {
		return nil, err
	}
	bad := func(text string, args ...any) ([]eventlog.Entry, error) {
		return nil, &DamagedError{name, fmt.Sprintf(text, args...)}
	}
	if int64(len(data)) != p.Bytes {
		return bad("%d bytes or more, %d were written", len(data), p.Bytes)
	}
	if sum(data) != p.Sum {
		return bad("other bytes than those that were written (sha256 %.12s…, the index says %.12s…)", sum(data), p.Sum)
	}
	rest, ok := bytes.CutPrefix(data, []byte(partMagic))
	if !ok {
		return bad("no part of a backup")
	}
	var all []eventlog.Entry
	for len(rest) > 0 {
		if len(rest) < 12 || uint64(len(rest)-12) < uint64(binary.LittleEndian.Uint32(rest[8:])) {
			return bad("it breaks off behind entry %d", p.First+uint64(len(all))-1)
		}
		n := int(binary.LittleEndian.Uint32(rest[8:]))
		e := eventlog.Entry{Seq: binary.LittleEndian.Uint64(rest), Data: rest[12 : 12+n]}
		if e.Seq != p.First+uint64(len(all)) {
			return bad("entry %d where entry %d was expected", e.Seq, p.First+uint64(len(all)))
		}
		all, rest = append(all, e), rest[12+n:]
	}
	if uint64(len(all)) != p.Last-p.First+1 {
		return bad("%d entries, expected %d", len(all), p.Last-p.First+1)
	}
	if from, to := span(all); !from.Equal(p.From) || !to.Equal(p.To) {
		return bad("its entries are of %s to %s, the index says %s to %s", from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano),
			p.From.Format(time.RFC3339Nano), p.To.Format(time.RFC3339Nano))
	}
	return all, nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// durable writes a file that is there whole, or not at all.
func durable(name string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name+".new"))
	}
	if runtime.GOOS == "windows" { // directories cannot be synced there
		return nil
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
