package logged

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// BenchmarkDSJSON reads a dsjson log in memory: bytes in a second on one core.
func BenchmarkDSJSON(b *testing.B) { benchmarkRead(b, "testdata/events.dsjson") }

// BenchmarkJSONL reads our JSON lines.
func BenchmarkJSONL(b *testing.B) { benchmarkRead(b, "testdata/events.jsonl") }

// BenchmarkVW reads VW text.
func BenchmarkVW(b *testing.B) { benchmarkRead(b, "testdata/events.vw") }

// TestReadingATable: a row of a table costs one allocation, the text of its values that encoding/csv makes. An error or a
// field's name that is made for each value, or a variable of Read that escapes, is one more.
func TestReadingATable(t *testing.T) {
	text, err := os.ReadFile("testdata/events.csv")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader("events.csv", bytes.NewReader(text), Options{Repeats: true, Columns: map[string][]string{"action": {"arm"}, "reward": {"click"},
		"propensity": {"prob"}, "time": {"when"}, "context": {"x*"}, "law": {"pi_b_*"}, "target": {"pi_e_*"}, "q": {"q_*"}}})
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	n := testing.AllocsPerRun(200, func() {
		if err := r.Read(&e); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 {
		t.Errorf("%v allocations a row, want one", n)
	}
}

func benchmarkRead(b *testing.B, name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var e Event
	for b.Loop() {
		r, err := NewReader(name, bytes.NewReader(text), Options{Repeats: true})
		if err != nil {
			b.Fatal(err)
		}
		for {
			if err := r.Read(&e); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
