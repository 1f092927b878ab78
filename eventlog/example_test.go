package eventlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"troupe/eventlog"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A log in a directory: records are written through a committer and followed by a reader.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "eventlog")
	check(err)
	defer os.RemoveAll(dir)
	l, err := eventlog.OpenDisk(ctx, dir, eventlog.DiskOptions{})
	check(err)

	// Tail checks the log and returns its end, behind which the committer writes.
	chain, err := eventlog.Tail(ctx, l, 0, nil)
	check(err)
	c, err := eventlog.NewCommitter(l, eventlog.CommitterOptions{Head: chain.Head(), Epoch: 0xabc})
	check(err)

	// The decision is durable when Append returns.
	decision, err := c.Append(ctx, &eventlog.Decision{Model: 1, Action: "news-7", X: []float64{0.6, 0.8}, Num: 3, Den: 64})
	check(err)
	_, err = c.Append(ctx, &eventlog.Reward{Event: decision.Event, Model: 1, X: []float64{0.6, 0.8}, Y: 1})
	check(err)
	check(c.Close(ctx))

	// Replay ends at an entry that is known to exist; Follow would wait for more.
	for d, err := range eventlog.Replay(ctx, l, eventlog.NewChain(0, 1), 2) {
		check(err)
		for _, r := range d.Events() {
			switch r := r.(type) {
			case *eventlog.Decision:
				fmt.Printf("entry %d: %s with probability %d/%d\n", d.Seq, r.Action, r.Num, r.Den)
			case *eventlog.Reward:
				fmt.Printf("entry %d: reward %v for %v\n", d.Seq, r.Y, r.Event)
			}
		}
	}
	check(l.Close())
	// Output:
	// entry 1: news-7 with probability 3/64
	// entry 2: reward 1 for {0000000000000abc 1 0}
}

// A directory can be checked and read without the engine. Nothing is written.
func ExampleScan() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "eventlog")
	check(err)
	defer os.RemoveAll(dir)
	l, err := eventlog.OpenDisk(ctx, dir, eventlog.DiskOptions{})
	check(err)
	c, err := eventlog.NewCommitter(l, eventlog.CommitterOptions{})
	check(err)
	_, err = c.Append(ctx, &eventlog.Control{Act: eventlog.Create, Model: 1, Name: "news"})
	check(err)
	check(c.Close(ctx))
	check(l.Close())

	report, err := eventlog.Scan(dir, nil, func(d eventlog.Delivery) error {
		for _, r := range d.Events() {
			fmt.Println(d.Seq, r.Kind())
		}
		return nil
	})
	check(err)
	fmt.Println("whole:", report.OK())
	// Output:
	// 1 control
	// whole: true
}

// The chain finds an entry that was changed, and every entry that is missing.
func ExampleChain() {
	first, err := eventlog.AppendBatch(nil, eventlog.Header{Epoch: 7, No: 1}, &eventlog.Control{Act: eventlog.Pause, Model: 1})
	check(err)
	second, err := eventlog.AppendBatch(nil, eventlog.Header{Epoch: 7, No: 2, After: 1, Prev: eventlog.HashBatch(first)},
		&eventlog.Control{Act: eventlog.Resume, Model: 1})
	check(err)

	chain := eventlog.NewChain(0, 1)
	_, _, err = chain.Next(eventlog.Entry{Seq: 1, Data: first})
	check(err)
	_, _, err = chain.Next(eventlog.Entry{Seq: 2, Data: second})
	check(err)

	chain = eventlog.NewChain(0, 1)
	_, _, err = chain.Next(eventlog.Entry{Seq: 1, Data: second})
	fmt.Println(err)
	// Output:
	// shard 0: entry 1: writer 0000000000000007 names entry 1 as the one before it
}

// The law of a decision gives the probability of every candidate, exactly.
func ExampleDecision() {
	d := &eventlog.Decision{Model: 1, Action: "b", Index: 1, Offered: 3, Num: 48, Den: 128,
		Law: []uint64{16, 48, 48}, Groups: []uint32{0, 1, 1}, Voters: 64, // b and c cannot be told apart
	}
	b, err := eventlog.AppendRecord(nil, d)
	check(err)
	r, _, err := eventlog.DecodeRecord(b)
	check(err)
	size := map[uint32]uint64{}
	back := r.(*eventlog.Decision)
	for _, g := range back.Groups {
		size[g]++
	}
	for i, votes := range back.Law {
		fmt.Printf("candidate %d: %d/%d\n", i, votes, back.Voters*size[back.Groups[i]])
	}
	// Output:
	// candidate 0: 16/64
	// candidate 1: 48/128
	// candidate 2: 48/128
}

// What a caller gets for a decision cannot be forged.
func ExampleIDKeys() {
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("a secret of at least 16 bytes")}}
	check(keys.Check())
	text := keys.Format(eventlog.EventID{Event: eventlog.Event{Epoch: 0xabc, Batch: 1}, Hint: 1})
	id, err := keys.Parse(text)
	check(err)
	fmt.Println(id.Event)
	_, err = keys.Parse(text[1:])
	fmt.Println(err)
	// Output:
	// {0000000000000abc 1 0}
	// event id: not in the form of one
}

// A log can be read as JSON, a record a line.
func ExampleDump() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "eventlog")
	check(err)
	defer os.RemoveAll(dir)
	l, err := eventlog.OpenDisk(ctx, dir, eventlog.DiskOptions{})
	check(err)
	c, err := eventlog.NewCommitter(l, eventlog.CommitterOptions{Epoch: 0xabc})
	check(err)
	_, err = c.Append(ctx, &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: 1}, Model: 1, Y: 0.5})
	check(err)
	check(c.Close(ctx))
	check(l.Close())

	var text bytes.Buffer
	_, err = eventlog.Dump(&text, dir, nil, 1)
	check(err)
	fmt.Print(text.String())
	// Output:
	// {"shard":0,"seq":1,"key":{"epoch":"0000000000000abc","batch":1,"index":0},"kind":"reward","record":{"event":{"epoch":"0000000000000001","batch":1,"index":0},"model":"0000000000000001","y":0.5}}
}
