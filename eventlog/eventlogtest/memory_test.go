package eventlogtest_test

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	eventlogtest.TestLog(t, func(*testing.T) eventlogtest.Engine { return &eventlogtest.MemoryEngine{} })
}

// TestHistory: a history finds an acknowledged event that is gone, one that is doubled, and one that was
// refused and is there.
func TestHistory(t *testing.T) {
	ctx := context.Background()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	c := eventlogtest.NewCommitter(t, m, eventlog.CommitterOptions{})
	h := eventlogtest.NewHistory()
	for range 3 {
		if err := h.Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Check(ctx, m); err != nil {
		t.Error(err)
	}
	delete(h.Acked, 2)
	if err := h.Check(ctx, m); err == nil {
		t.Error("an event that was not acknowledged is there, and passes")
	}
	h.Unknown[2] = true
	if err := h.Check(ctx, m); err != nil {
		t.Error(err)
	}
	if _, err := c.Append(ctx, eventlogtest.Event(2)); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(ctx, m); err == nil {
		t.Error("an event that is there twice passes")
	}
	m.Cut(0, 2)
	if err := h.Check(ctx, m); err == nil {
		t.Error("an acknowledged event that is gone passes")
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// An acknowledgement is lost on its way. The committer sends the batch again, and the log has it once.
func ExampleMemory() {
	ctx := context.Background()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(n int, step eventlogtest.Step) eventlogtest.Fault {
		if step == eventlogtest.StepSync && n == 2 {
			return eventlogtest.LoseAck
		}
		return eventlogtest.NoFault
	}})
	c, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{})
	if err != nil {
		panic(err)
	}
	receipt, err := c.Append(ctx, eventlogtest.Event(1))
	fmt.Println("entry", receipt.Seq, "error", err)
	fmt.Println("attempts after the first:", c.Stats().Retries)
	if err := c.Close(ctx); err != nil {
		panic(err)
	}
	after := m.Crash(nil, eventlogtest.MemoryOptions{}) // what was acknowledged survives a loss of power
	info, err := after.Info(ctx, 0)
	fmt.Println("entries", info.Last, "error", err)
	// Output:
	// entry 1 error <nil>
	// attempts after the first: 1
	// entries 1 error <nil>
}
