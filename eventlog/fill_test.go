package eventlog

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/timing"
)

// storedRecord is a record as the engine writes it, of 40 bytes and the subject; seq may have the bits of a note.
func storedRecord(seq uint64, block uint32) []byte {
	subject := subjectName(0)
	b := binary.LittleEndian.AppendUint32(nil, uint32(blockHead+len(subject)+10+blockHash))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = binary.LittleEndian.AppendUint64(b, 7)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(b, subject...)
	b = append(b, fmt.Sprintf("entry %04d", seq&0xffff)...)
	return sealRecord(nil, append(b, make([]byte, blockHash)...), block)
}

// TestHoles: holes are found at the beginning of a log, between and within block files, and at the end, also where the
// log was trimmed. Records of another block file fill them, and the files are those of before then, byte by byte; an entry
// that no node has is named.
func TestHoles(t *testing.T) {
	beside(t)
	size := int64(len(storedRecord(1, 1)))
	type file = []uint64
	for name, c := range map[string]struct {
		files  []file
		change func(files [][]byte)
		begin  uint64 // what the others say
		want   string // number:from-to:first-last of each hole, in records
		differ bool   // the files are not those of before: bytes before the beginning are dropped
	}{
		"whole":                    {[]file{{1, 2}, {3}}, func([][]byte) {}, 0, "", false},
		"one record":               {[]file{{1, 2, 3}, {4}}, func(f [][]byte) { f[0][size+30] ^= 1 }, 0, "1:1-2:2-2", false},
		"the first":                {[]file{{1, 2, 3}, {4}}, func(f [][]byte) { f[0][0] ^= 1 }, 1, "1:0-1:1-1", false},
		"the first, and a trim":    {[]file{{4 | tombBit, 5, 6}, {7}}, func(f [][]byte) { f[0][size+30] ^= 1 }, 5, "1:1-2:5-5", false},
		"before the beginning":     {[]file{{3, 4, 5, 6}, {7, 4 | tombBit}}, func(f [][]byte) { f[0][30] ^= 1 }, 0, "1:0-1:5-4", true},
		"the end of a file":        {[]file{{1, 2, 3}, {4}}, func(f [][]byte) { f[0] = f[0][:size+9] }, 0, "1:1-1.2:2-3", false},
		"records gone":             {[]file{{1, 2, 3}, {4}}, func(f [][]byte) { f[0] = f[0][:size] }, 0, "1:1-1:2-3", false},
		"gone within a file":       {[]file{{1, 2, 3}}, func(f [][]byte) { f[0] = slices.Concat(f[0][:size], f[0][2*size:]) }, 0, "1:1-1:2-2", false},
		"over two files":           {[]file{{1, 2}, {3, 4, 5}}, func(f [][]byte) { f[0][size+30] ^= 1; f[1][30] ^= 1 }, 0, "1:1-2:2-3 2:0-1:1-0", true},
		"the last":                 {[]file{{1, 2}, {3, 4}}, func(f [][]byte) { f[1][size+30] ^= 1 }, 0, "2:1-2:4-", false},
		"the last of several ends": {[]file{{1, 2}, {3}}, func(f [][]byte) { f[0][size+30] ^= 1; f[1][30] ^= 1 }, 0, "1:1-2:2- 2:0-1:2-", false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, nodeMarker), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		msgs := filepath.Join(streamDir(dir, 0), "msgs")
		if err := os.MkdirAll(msgs, 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(files [][]byte) {
			for i, b := range files {
				if err := os.WriteFile(filepath.Join(msgs, fmt.Sprintf("%d.blk", i+1)), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		var before, after [][]byte
		got := map[uint64][]byte{}
		for i, seqs := range c.files {
			var b []byte
			for _, seq := range seqs {
				b = append(b, storedRecord(seq, uint32(i+1))...)
				got[seq] = storedRecord(seq, 0)
			}
			before, after = append(before, b), append(after, slices.Clone(b))
		}
		write(before)
		if records, err := wholeRecords(dir, [][2]uint64{{5, 6}}); err != nil || name == "before the beginning" &&
			string(records) != string(slices.Concat(got[5], got[6])) {
			t.Errorf("%s: entries 5 and 6 are %d bytes, error %v", name, len(records), err)
		}
		c.change(after)
		write(after)
		holes, _, err := findHoles(dir, c.begin)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, h := range holes {
			last := ""
			if h.last < math.MaxUint64 {
				last = fmt.Sprint(h.last)
			}
			found = append(found, fmt.Sprintf("%d:%.2g-%.2g:%d-%s", h.number, float64(h.from)/float64(size),
				float64(h.to)/float64(size), h.first, last))
		}
		if text := strings.Join(found, " "); text != c.want {
			t.Errorf("%s: holes %q, want %q", name, text, c.want)
			continue
		}
		n := &Node{dir: dir}
		n.members.Store(&membership{size: 3})
		fills, err := n.filled(holes, got, []string{"b", "c"})
		if c.want == "" {
			if err != errNoHoles {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		instead, err := withRecords(t.TempDir(), fills, got)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same := true
		for old, now := range instead {
			b, err := os.ReadFile(now)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.Index([]string{"1.blk", "2.blk"}, filepath.Base(old))
			same = same && string(b) == string(before[i])
			after[i] = b
		}
		if same == c.differ {
			t.Errorf("%s: the files are those of before: %v", name, same)
		}
		write(after)
		if left, _, err := findHoles(dir, c.begin); err != nil || len(left) > 0 {
			t.Errorf("%s: afterwards %+v, %v", name, left, err)
		}
		if h := fills[0]; !strings.HasSuffix(c.want, "-") && h.first <= h.last { // an end is left to the engine
			delete(got, h.first)
			if _, err := n.filled(holes, got, []string{"b", "c"}); err == nil || !strings.Contains(err.Error(),
				fmt.Sprintf("entries %d are whole neither here nor at b and c; troupe cluster export DIR --until %d ", h.first, h.first-1)) {
				t.Errorf("%s: no node has entry %d: %v", name, h.first, err)
			}
			if _, err := n.filled(holes, got, []string{"b"}); err == nil || !strings.Contains(err.Error(), "1 other nodes do not answer: start them") {
				t.Errorf("%s: a node is away: %v", name, err)
			}
		}
	}

	// A write that was cut off is left to the engine.
	end := []hole{{file: "2.blk", number: 2, from: size, to: 2*size + 12, first: 4, last: math.MaxUint64}}
	if fills, err := new(Node).filled(end, map[uint64][]byte{4: storedRecord(4, 0)}, nil); err != errNoHoles {
		t.Errorf("a write that was cut off: %+v, %v", fills, err)
	}
}

// TestTurn: a node that wants to repair its files waits for one that repairs its own, and for one that is away: from
// when that was there last, and not from the beginning of its own wait, which another repair may have used up.
func TestTurn(t *testing.T) {
	type look struct {
		at   time.Duration
		busy string
		away bool
		want turnStep
	}
	for what, looks := range map[string][]look{
		"no other one repairs":           {{0, "", false, turnComes}},
		"one that comes first":           {{0, "a", false, turnEnds}},
		"one that comes later gives way": {{0, "c", false, turnWaits}, {time.Second, "", false, turnComes}},
		"one that comes later and does not": {{0, "c", false, turnWaits}, {healCurrent, "c", false, turnWaits},
			{healCurrent + 1, "c", false, turnEnds}},
		"one is away from the beginning": {{0, "", true, turnWaits}, {fillStart - 1, "", true, turnWaits},
			{fillStart, "", true, turnComes}},
		"one repairs, and then its engine rests": {{0, "c", false, turnWaits},
			{fillStart + time.Second, "c", false, turnWaits}, {fillStart + 2*time.Second, "", true, turnWaits},
			{2*fillStart + time.Second - 1, "", true, turnWaits},
			{2*fillStart + 2*time.Second, "", false, turnComes}},
		"one rests and does not come back": {{fillStart, "", true, turnComes}},
		"one comes back and goes again": {{0, "", true, turnWaits}, {fillStart - 1, "c", false, turnWaits},
			{fillStart, "", true, turnWaits}, {2*fillStart - 2, "", true, turnWaits},
			{2*fillStart - 1, "", true, turnComes}},
	} {
		begun := timing.Instant(time.Hour)
		turn := newTurn("b", begun)
		for i, l := range looks {
			if got := turn.step(begun+timing.Instant(l.at), l.busy, l.away); got != l.want {
				t.Errorf("%s: look %d: %v, want %v", what, i, got, l.want)
			}
		}
	}
}
