package fold

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/eventlog"
	"troupe/serve/shelf"
)

// Files are the snapshots in a directory: states in files that are named by their sequence, 16 hexadecimal
// digits and ".snap". An empty name is no directory, which has no files.
type Files string

// kept is how many of the newest snapshots Prune leaves.
const kept = 3

// FileName returns the name of the snapshot of entry seq.
func FileName(seq uint64) string { return fmt.Sprintf("%016x.snap", seq) }

func (d Files) path(seq uint64) string { return filepath.Join(string(d), FileName(seq)) }

// List returns the sequences of the files, newest first.
func (d Files) List() ([]uint64, error) {
	if d == "" {
		return nil, nil
	}
	files, err := os.ReadDir(string(d))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var seqs []uint64
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), ".snap")
		if seq, err := strconv.ParseUint(digits, 16, 64); ok && err == nil && f.Name() == FileName(seq) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

// Read returns the bytes of a snapshot as they are.
func (d Files) Read(seq uint64) ([]byte, error) { return os.ReadFile(d.path(seq)) }

// Write makes the file of a snapshot, as a whole or not at all: of an *Image, or of bytes in a reader.
func (d Files) Write(seq uint64, from io.WriterTo) error {
	return WriteDurable(string(d), FileName(seq), from)
}

// Load reads and restores a snapshot. A file that is not the state of entry seq is an error, and so is a
// state that a log beginning with entry first cannot be folded on from.
func (d Files) Load(seq, first uint64, past *History) (*Fold, *eventlog.Chain, error) {
	return d.LoadOn(seq, first, past, nil)
}

// LoadOn is Load for a fold with a shelf, see NewOn.
func (d Files) LoadOn(seq, first uint64, past *History, on *shelf.Shelf) (*Fold, *eventlog.Chain, error) {
	b, err := d.Read(seq)
	if err != nil {
		return nil, nil, err
	}
	f, c, err := RestoreOn(b, past, on)
	if err != nil {
		return nil, nil, err
	}
	if err := follows(f, seq, first); err != nil {
		f.giveUp()
		return nil, nil, err
	}
	return f, c, nil
}

// follows returns why a log that begins with entry first cannot be folded on from f, the state of entry seq.
func follows(f *Fold, seq, first uint64) error {
	switch from := min(f.seq+1, f.OldestOpen()); {
	case f.seq != seq:
		return fmt.Errorf("it is the state of entry %d", f.seq)
	case from < first:
		return fmt.Errorf("it needs entries from %d on, the log begins with %d", from, first)
	}
	return nil
}

// Nearest returns the bytes of the newest snapshot up to entry seq that can be restored, nil when there is
// none.
func (d Files) Nearest(seq uint64) []byte {
	seqs, err := d.List()
	if err != nil {
		return nil
	}
	for _, q := range seqs {
		if q > seq {
			continue
		}
		b, err := d.Read(q)
		if err != nil {
			continue
		}
		if f, _, err := Restore(b, nil); err == nil && f.seq == q {
			return b
		}
	}
	return nil
}

// Prune removes old snapshots. It leaves the newest three; keep, unless it is 0; and for a log with a base,
// the oldest one from the base on. It calls needed after it has listed the files: what a trim writes later is
// not in the list, and what it wrote before is among what needed returns.
func (d Files) Prune(needed func() (base, keep uint64)) error {
	seqs, err := d.List()
	if err != nil {
		return err
	}
	base, keep := needed()
	for i, seq := range seqs {
		if seq >= base && (i < kept || seq == keep || base > 0 && (i == len(seqs)-1 || seqs[i+1] < base)) {
			continue
		}
		if err := os.Remove(d.path(seq)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SetAside renames the snapshots of entry from and later ones, appending suffix to their names.
func (d Files) SetAside(from uint64, suffix string) error {
	seqs, err := d.List()
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if seq < from {
			continue
		}
		if err := os.Rename(d.path(seq), d.path(seq)+suffix); err != nil {
			return err
		}
	}
	return nil
}

// WriteDurable makes a file that is there as a whole or not at all, also after a loss of power.
func WriteDurable(dir, name string, from io.WriterTo) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp := filepath.Join(dir, name+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	_, err = from.WriteTo(w)
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
