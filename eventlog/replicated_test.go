package eventlog_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestReplicatedSpeed reports how many records a second three writers store on three nodes, with a follower at each node,
// and how many the engine stores by itself, as messages of the same bytes from three publishers, in turns.
func TestReplicatedSpeed(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set")
	}
	const turns, each = 6, 300 // batches of a writer in a turn
	c := newTrio(t, 1, 1<<32)
	var opened sync.WaitGroup
	for i := range 3 {
		c.start(i)
	}
	for i := range 3 {
		opened.Go(func() { c.open(i) })
	}
	opened.Wait()
	bare := make([]jetstream.JetStream, 3)
	for i := range 3 {
		js, err := jetstream.New(c.nodes[i].Conn())
		if err != nil {
			t.Fatal(err)
		}
		bare[i] = js
	}
	if _, err := bare[0].CreateStream(t.Context(), jetstream.StreamConfig{Name: "bare", Subjects: []string{"bare"}, Replicas: 3,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, DenyDelete: true, Duplicates: 10 * time.Minute, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	committers := make([]*eventlog.Committer, 3)
	for i := range 3 {
		f := follow(t, c.logs[i])
		defer func() { f.stop(); <-f.done }()
		m, err := eventlog.NewCommitter(c.logs[i], eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Applied: f.applied, Batch: eventlog.MaxBatch})
		if err != nil {
			t.Fatal(err)
		}
		committers[i] = m
	}
	x := make([]float64, 32)
	for i := range x {
		x[i] = float64(i) / 31
	}
	for _, n := range []int{64, 512} {
		var records []eventlog.Record
		for i := range n {
			records = append(records, &eventlog.Reward{Event: eventlog.Event{1, 1, uint32(i)}, Model: 1, X: x, Y: 1, Time: 1})
		}
		bytes, err := eventlog.AppendBatch(nil, eventlog.Header{Epoch: 1, No: 1}, records...)
		if err != nil {
			t.Fatal(err)
		}
		turn := func(store func(i, k int) error) float64 {
			start := time.Now()
			var writers sync.WaitGroup
			for i := range 3 {
				writers.Go(func() {
					for k := range each {
						if err := store(i, k); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			return float64(3*each*n) / time.Since(start).Seconds()
		}
		var ours, engine, ratios []float64
		for no := range turns {
			engine = append(engine, turn(func(i, k int) error {
				_, err := bare[i].PublishMsg(t.Context(), &nats.Msg{Subject: "bare", Data: bytes}, jetstream.WithMsgID(fmt.Sprint(n, no, i, k)))
				return err
			}))
			ours = append(ours, turn(func(i, _ int) error {
				_, err := committers[i].Append(t.Context(), records...)
				return err
			}))
			ratios = append(ratios, ours[no]/engine[no])
		}
		slices.Sort(ours)
		slices.Sort(engine)
		slices.Sort(ratios)
		t.Logf("batches of %d, %d bytes: ours %.0f records/s, engine %.0f, ratio %.2f (%.2f to %.2f)",
			n, len(bytes), ours[turns/2], engine[turns/2], ratios[turns/2], ratios[0], ratios[turns-1])
	}
	for _, m := range committers {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
