package segment_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"troupe/eventlog/segment"
)

// Entries are written, made durable and read back.
func Example() {
	dir, err := os.MkdirTemp("", "segment")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, _, err := segment.Open(segment.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if _, err := s.Append(1, segment.Batch, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.Sync(); err != nil {
		log.Fatal(err)
	}
	last, _ := s.Last()
	r := s.Reader(1)
	for {
		entry, err := r.Next(last)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", entry.Index, entry.Data)
	}
	r.Close()
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 first
	// 2 second
}
