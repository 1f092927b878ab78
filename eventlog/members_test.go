package eventlog_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// member is a node in this process, with a Stream.
type member struct {
	name, address, dir string
	node               *eventlog.Node
	log                *eventlog.Stream
}

// begin starts a node that knows the addresses.
func (m *member) begin(t *testing.T, addresses []string) {
	t.Helper()
	var err error
	if m.node, err = eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: m.dir, Cluster: "c", Name: m.name, Listen: m.address, Routes: addresses,
		Keys: eventlogtest.Keys}); err != nil {
		t.Fatal(err)
	}
	if m.log, err = eventlog.OpenStream(t.Context(), m.node.Conn(), eventlog.StreamOptions{MaxBytes: 1 << 28, Replicas: 3, Await: true, Node: m.node}); err != nil {
		t.Fatal(err)
	}
}

func (m *member) end() {
	if m.log != nil {
		_ = m.log.Close()
	}
	if m.node != nil {
		_ = m.node.Close()
	}
	m.log, m.node = nil, nil
}

// fit brings the engine to the nodes that names has, a letter each.
func (m *member) fit(t *testing.T, names string, gone ...string) {
	t.Helper()
	list, said := strings.Split(names, ""), ""
	for since := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		waits, err := m.log.Fit(t.Context(), list, gone)
		if err == nil && waits == "" {
			t.Logf("%s after %v", names, time.Since(since).Round(100*time.Millisecond))
			return
		}
		if text := fmt.Sprint(waits, err); text != said {
			said = text
			t.Log(text)
		}
		if time.Since(since) > 3*time.Minute {
			t.Fatalf("%s: %s", names, said)
		}
	}
}

// TestMembers: a log goes from three to five servers and back to three others while entries are written, and each has a
// replica of all of it.
func TestMembers(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	addresses := eventlog.FreePorts(t, 5)
	var all []*member
	for i, a := range addresses {
		all = append(all, &member{name: string(rune('a' + i)), address: a, dir: t.TempDir()})
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.end()
		}
	})
	trio := newTrio(t, 1, 1<<28) // the first three, which make the log together
	copy(trio.addresses, addresses)
	for i := range 3 {
		trio.start(i)
	}
	for i := range 3 {
		trio.open(i)
		all[i].node, all[i].log = trio.nodes[i], trio.logs[i]
		trio.nodes[i], trio.logs[i] = nil, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var stored, longest atomic.Int64
	w, err := eventlog.NewCommitter(all[2].log, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys,
		Applied: func() eventlog.Head { return eventlog.Head{} }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			begun := time.Now()
			if _, err := w.Append(t.Context(), &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: uint64(i + 1)}, Model: 1, X: []float64{1}}); err != nil {
				t.Errorf("entry %d: %v", i+1, err)
				return
			}
			if ctx.Err() == nil {
				stored.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(begun))))
			}
		}
	}()
	fit := func(by *member, names string, gone ...string) {
		t.Helper()
		by.fit(t, names, gone...)
		t.Logf("%d entries", stored.Load())
	}
	all[3].begin(t, addresses[:4])
	fit(all[0], "abcd")
	all[4].begin(t, addresses)
	for i := range all {
		all[i].node.SetMembers(strings.Split("abcde", ""), addresses)
	}
	fit(all[3], "abcde")
	if waits, err := all[0].log.Fit(t.Context(), strings.Split("acde", ""), []string{"b"}); err != nil || !strings.Contains(waits, "still runs") {
		t.Errorf("a server that runs is removed: %q, %v", waits, err)
	}
	all[1].end()
	fit(all[0], "acde", "b")
	all[0].end()
	fit(all[4], "cde", "a")
	cancel()
	<-done
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d entries, longest call %v", stored.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	for _, m := range all[2:] {
		replicas, err := m.log.Replicas(t.Context())
		names := []string{}
		for _, r := range replicas {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		if strings.Join(names, "") != "cde" || err != nil {
			t.Errorf("%s: the replicas are at %v, error %v", m.name, names, err)
		}
		for since := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			found, err := m.node.Check()
			if err == nil && len(found.Damage) == 0 && found.Last >= uint64(stored.Load()) {
				break
			}
			if time.Since(since) > time.Minute {
				t.Fatalf("%s: the files have %+v, want %d entries, error %v", m.name, found, stored.Load(), err)
			}
		}
		if err := m.node.InGroup(t.Context()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestGroupIsRescued: of four servers of the engine's own group one is gone for good, and another one has lost its disk
// before the group heard of that. Two of four are no majority, and the vote of a server without a log does not count. The
// list of the log has three nodes, so the two elect, and the third one gets the log again.
func TestGroupIsRescued(t *testing.T) {
	t.Parallel()
	addresses := eventlog.FreePorts(t, 4)
	var all []*member
	for i, a := range addresses {
		all = append(all, &member{name: string(rune('a' + i)), address: a, dir: t.TempDir()})
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.end()
		}
	})
	trio := newTrio(t, 1, 1<<28)
	copy(trio.addresses, addresses)
	for i := range 3 {
		trio.start(i)
	}
	for i := range 3 {
		trio.open(i)
		all[i].node, all[i].log = trio.nodes[i], trio.logs[i]
		trio.nodes[i], trio.logs[i] = nil, nil
	}
	w, err := eventlog.NewCommitter(all[0].log, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys,
		Applied: func() eventlog.Head { return eventlog.Head{} }})
	if err != nil {
		t.Fatal(err)
	}
	const entries = 100
	for i := range entries {
		if _, err := w.Append(t.Context(), &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: uint64(i + 1)}, Model: 1, X: []float64{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[3].begin(t, addresses)
	for _, m := range all {
		for m.node.GroupSize() != 4 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for !all[2].node.Leads() {
		for _, m := range all {
			if m != all[2] {
				_ = m.node.HandOver(t.Context(), "c") // again, until c leads
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, m := range all[:2] {
		m.node.SetMembers(strings.Split("abc", ""), addresses)
		m.log.SetRescueAfter(time.Second)
	}
	all[3].end()
	all[2].end()
	all[2].dir = t.TempDir()
	began := make(chan struct{})
	go func() { // without a leader of the group its log does not open
		defer close(began)
		all[2].begin(t, addresses)
	}()
	all[0].fit(t, "abc", "d")
	if trio.rescues.Load() == 0 {
		t.Error("no node says: counts servers that are gone and has no leader")
	}
	<-began
	for since := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		info, err := all[2].node.Check()
		if err == nil && info.Last >= entries {
			break
		}
		if time.Since(since) > time.Minute {
			t.Fatalf("the new server has %+v, want %d entries, error %v", info, entries, err)
		}
	}
}
