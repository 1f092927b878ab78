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
