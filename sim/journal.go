package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
)

// The journal keeps finished cells, one line each, appended in one write as the cell finishes:
//
//	crc  SP  {"cell":"…","seconds":1.25,"regret":"…","reward":"…","also":{"s_min":"…"}}  LF
//
// crc is the CRC-32C of the JSON text in eight hexadecimal digits. cell is the key of the cell: a
// hash of everything its numbers depend on (see cellKeys), so a line is right wherever it is found,
// in any order, beside lines of other experiments. regret and reward are the sums at the
// checkpoints (see numbers); seconds is the time the cell took. also
// holds the columns of diagnostics.csv, where the spec asks for them and the cell has them; stem and
// horizon tell a longer run which cell this one begins.
//
// A line that does not check out is as good as absent: its cell is played again. A kill while
// writing leaves at most one such line, at the end.
type journal struct {
	file *os.File
}

// entry is one line of the journal.
type entry struct {
	Cell    string  `json:"cell"`
	Seconds float64 `json:"seconds"`
	Regret  numbers `json:"regret"`
	Reward  numbers `json:"reward"`

	Also map[string]numbers `json:"also,omitempty"`

	Stem string `json:"stem,omitempty"` // key without horizon and checkpoints
	T    int    `json:"horizon,omitempty"`

	Checkpoints []int `json:"checkpoints,omitempty"` // where they are not the default ones of T

	// The state that the cell goes on from (resume.go): after the last round of a finished cell, after round At of
	// one under way, whose sums over these rounds are Sums.
	At    int        `json:"at,omitempty"`
	Sums  [2]float64 `json:"sums,omitzero"`
	State []byte     `json:"state,omitempty"`
}

// numbers are written as base64 of their float64s, little-endian: two thirds of the bytes of decimal digits, and
// read in a tenth of the time. A list of decimal digits, as lines of before have it, is read too.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (v numbers) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 8*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
	}
	out := make([]byte, 0, 2+base64.StdEncoding.EncodedLen(len(raw)))
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), raw), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *numbers) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*[]float64)(v))
	}
	var raw []byte
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw)%8 != 0 {
		return fmt.Errorf("%d bytes are no float64s", len(raw))
	}
	*v = make(numbers, len(raw)/8)
	for i := range *v {
		x := math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		if !finite(x) {
			return fmt.Errorf("number %d is %v", i, x)
		}
		(*v)[i] = x
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (e entry) line() ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(body, castagnoli), body), nil
}

// parseEntry reads a line without its LF.
func parseEntry(line []byte) (entry, error) {
	sum, body, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(sum) != 8 || fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli)) != string(sum) {
		return entry{}, errors.New("the checksum does not match")
	}
	var e entry
	if err := json.Unmarshal(body, &e); err != nil {
		return entry{}, err
	}
	return e, nil
}

// complete reports whether an entry has a value for every checkpoint.
func (e entry) complete(checkpoints int) bool {
	for _, v := range e.Also {
		if len(v) != checkpoints {
			return false
		}
	}
	return len(e.Regret) == checkpoints && len(e.Reward) == checkpoints
}

// readJournal returns the good lines by cell and a remark for every bad one. A missing file is an
// empty journal.
func readJournal(name string) (map[string]entry, []string, error) {
	cells := make(map[string]entry)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return cells, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var remarks []string
	for offset := 0; offset < len(data); {
		line := data[offset:]
		end := bytes.IndexByte(line, '\n')
		torn := end < 0
		if !torn {
			line = line[:end]
		}
		if e, err := parseEntry(line); err == nil && !torn {
			cells[e.Cell] = e
		} else if torn {
			remarks = append(remarks, fmt.Sprintf("%s, offset %d: the last line is incomplete; its cell is played "+
				"again", name, offset))
		} else {
			remarks = append(remarks, fmt.Sprintf("%s, offset %d: %v; the cell is played again", name, offset, err))
		}
		offset += len(line) + 1
	}
	return cells, remarks, nil
}

// openJournal opens the journal for appending, after cutting off an incomplete last line.
func openJournal(name string) (*journal, error) {
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if whole := bytes.LastIndexByte(data, '\n') + 1; whole < len(data) {
		if err := os.Truncate(name, int64(whole)); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

func (j *journal) append(e entry) error {
	line, err := e.line()
	if err != nil {
		return err
	}
	_, err = j.file.Write(line)
	return err
}

func (j *journal) close() error { return j.file.Close() }
