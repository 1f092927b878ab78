package shelf_test

import (
	"fmt"
	"log"
	"os"

	"troupe/serve/shelf"
)

func Example() {
	dir, err := os.MkdirTemp("", "shelf")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := shelf.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	p, err := s.Put([]byte("the state of a model"))
	if err != nil {
		log.Fatal(err)
	}
	b, err := p.Append(nil)
	fmt.Printf("%s, %v, %d bytes of a file\n", b, err, s.Status().Bytes)
	p.Free()
	fmt.Println(s.Status().Bytes)
	// Output:
	// the state of a model, <nil>, 4096 bytes of a file
	// 0
}
