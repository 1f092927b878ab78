package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// member is a node in this process, with a Stream.
type member struct {
	name, address, dir string
	node               *eventlog.Node
	log                *eventlog.Stream
	rescueAfter        time.Duration // 0 for the usual one
	rescues            atomic.Int64  // how often it lowered the quorum of the engine's own group
}

// begin starts a node that knows the addresses.
func (m *member) begin(t *testing.T, addresses []string) {
	t.Helper()
	var err error
	if m.node, err = eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: m.dir, Cluster: "c", Name: m.name, Listen: m.address, Routes: addresses,
		Keys: eventlogtest.Keys, Logf: func(format string, _ ...any) {
			if strings.Contains(format, "counts servers that are gone and has no leader") {
				m.rescues.Add(1)
			}
		}}); err != nil {
		t.Fatal(err)
	}
	if m.rescueAfter > 0 {
		m.node.SetRescueAfter(m.rescueAfter)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if m.log, err = eventlog.OpenStream(ctx, m.node.Conn(), eventlog.StreamOptions{MaxBytes: 1 << 28, Replicas: 3,
		Await: true, Node: m.node}); err != nil {
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

// newMembers returns nodes a, b, …, of which the first three have made a log together, their addresses, and that trio.
func newMembers(t *testing.T, n int) (all []*member, addresses []string, trio *trio) {
	t.Helper()
	addresses = eventlog.FreePorts(t, n)
	for i, a := range addresses {
		all = append(all, &member{name: string(rune('a' + i)), address: a, dir: t.TempDir()})
	}
	t.Cleanup(func() {
		for _, m := range all {
			m.end()
		}
	})
	trio = newTrio(t, 1, 1<<28)
	copy(trio.addresses, addresses)
	for i := range 3 {
		trio.start(i)
	}
	for i := range 3 {
		trio.open(i)
		all[i].dir, all[i].node, all[i].log = trio.dirs[i], trio.nodes[i], trio.logs[i]
		trio.nodes[i], trio.logs[i] = nil, nil
	}
	return all, addresses, trio
}

// fit brings the engine to the nodes that names has, a letter each.
func (m *member) fit(t *testing.T, names string, gone ...string) {
	t.Helper()
	list, said := strings.Split(names, ""), ""
	since := time.Now()
	for note := range await.Tries(t) {
		waits, err := m.log.Fit(t.Context(), list, gone)
		if err == nil && waits == "" {
			t.Logf("%s after %v", names, time.Since(since).Round(100*time.Millisecond))
			return
		}
		if text := fmt.Sprint(waits, err); text != said {
			said = text
			t.Log(text)
		}
		note("%s: %s", names, said)
	}
}

// TestMembers: a log goes from three to five servers and back to three others while entries are written, and each has a
// replica of all of it.
func TestMembers(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	all, addresses, _ := newMembers(t, 5)
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
		every := time.NewTicker(5 * time.Millisecond) // its writer applies nothing, so it may not write too much
		defer every.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-every.C
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
		for note := range await.Tries(t) {
			found, err := m.node.Check()
			if err == nil && len(found.Damage) == 0 && found.Last >= uint64(stored.Load()) {
				break
			}
			note("%s: the files have %+v, want %d entries, error %v", m.name, found, stored.Load(), err)
		}
		if err := m.node.InGroup(t.Context()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// standing returns three nodes whose log has entries and whose engine's own group elects no leader: of four servers that
// it counts one is gone for good, and another one, c, has lost its disk before the group heard of that. Two of four are
// no majority, and the vote of a server without a log does not count. c does not run.
func standing(t *testing.T, entries int) (all []*member, addresses []string, trio *trio) {
	t.Helper()
	all, addresses, trio = newMembers(t, 4)
	w, err := eventlog.NewCommitter(all[0].log, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys,
		Applied: func() eventlog.Head { return eventlog.Head{} }})
	if err != nil {
		t.Fatal(err)
	}
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
		await.Until(t, "the engine's own group has 4 servers", func() bool { return m.node.GroupSize() == 4 })
	}
	for note := range await.Tries(t) {
		for _, m := range all {
			if m != all[2] {
				_ = m.node.HandOver(t.Context(), "c") // again, until c leads
			}
		}
		if all[2].node.Leads() {
			break
		}
		note("c does not lead the engine's own group")
	}
	for _, m := range all[:2] {
		m.node.SetMembers(strings.Split("abc", ""), addresses)
		m.node.SetRescueAfter(time.Second)
	}
	all[3].end()
	all[2].end()
	all[2].dir = t.TempDir()
	return all, addresses, trio
}

// whole waits until the files of a node have so many entries.
func (m *member) whole(t *testing.T, entries uint64) {
	t.Helper()
	for note := range await.Tries(t) {
		info, err := m.node.Check()
		if err == nil && info.Last >= entries {
			return
		}
		note("%s has %+v, want %d entries, error %v", m.name, info, entries, err)
	}
}

// TestGroupIsRescued: where the engine's own group elects no leader, two of the three nodes of the log elect, and the one
// with an empty disk gets the log again. TestStuck and TestOneGroupElects play the rule without nodes.
func TestGroupIsRescued(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take half a minute")
	}
	t.Parallel()
	const entries = 100
	all, addresses, trio := standing(t, entries)
	for since := time.Now(); !all[0].node.Leads() && !all[1].node.Leads(); {
		if _, err := all[0].log.Fit(t.Context(), strings.Split("abc", ""), []string{"d"}); err != nil {
			t.Log(err)
		}
		if time.Since(since) > 3*time.Minute {
			t.Fatal("two of the three nodes elect no leader")
		}
	}
	if trio.rescues.Load() == 0 {
		t.Error("no node says: counts servers that are gone and has no leader")
	}
	all[2].begin(t, addresses)
	all[0].fit(t, "abc", "d")
	all[2].whole(t, entries)
}

// TestGroupIsRescuedAfterStart: all nodes were killed in that state and are started again, c with its empty disk after
// the two others: the log opens, since its own group elects, and all three elect, with the vote of c.
func TestGroupIsRescuedAfterStart(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	const entries = 100
	all, addresses, _ := standing(t, entries)
	for _, m := range all[:2] {
		dir := t.TempDir()
		for os.CopyFS(dir, os.DirFS(m.dir)) != nil {
			dir = t.TempDir() // a file was renamed meanwhile
		}
		m.end()
		m.dir = dir
		m.rescueAfter = time.Second
	}
	var begun sync.WaitGroup
	for _, m := range all[:2] {
		begun.Go(func() { m.begin(t, addresses) })
	}
	begun.Wait()
	if all[2].begin(t, addresses); t.Failed() {
		return
	}
	if all[0].fit(t, "abc", "d"); all[0].rescues.Load() == 0 {
		t.Error("the node does not say: counts servers that are gone and has no leader")
	}
	all[2].whole(t, entries)
}

// TestMembersLoss: two servers come and two others go, one step after the other; as soon as that is done the last of the
// old ones is lost, and the two new ones go on without it: each has a vote in every group.
func TestMembersLoss(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	all, addresses, _ := newMembers(t, 5)
	appendMany(t, all[2].log, "before", 2000)
	all[3].begin(t, addresses[:4])
	all[2].fit(t, "abcd")
	all[4].begin(t, addresses)
	for i := range all {
		all[i].node.SetMembers(strings.Split("abcde", ""), addresses)
	}
	all[2].fit(t, "abcde")
	all[0].end()
	all[2].fit(t, "bcde", "a")
	all[1].end()
	all[2].fit(t, "cde", "b")
	all[2].end()
	for note := range await.Tries(t) {
		err := all[3].node.InGroup(t.Context())
		var behind map[string]string
		if err == nil {
			if behind, err = all[4].log.Behind(t.Context(), strings.Split("cde", "")); err == nil && behind["c"] == "" {
				err = errors.New("c is not behind")
			}
		}
		if err == nil {
			break
		}
		note("the engine's own group: %v, %v", err, behind)
	}
	appendMany(t, all[4].log, "after", 10)
}

// appendMany stores entries, several at a time.
func appendMany(t *testing.T, l *eventlog.Stream, name string, n int) {
	t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				var err error
				if !await.Poll(func() bool { // an election
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, _, err = l.Append(ctx, 0, fmt.Sprint(name, i), make([]byte, 1000))
					return err == nil
				}) {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// TestBehind: a server that is stopped while the others write is behind when it comes back, by so many entries, and the
// others are not; when it has them it is not either.
func TestBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c := newTrio(t, 1, 1<<30)
	c.damaged = func(*eventlog.DamagedReplicaError) error { return nil } // the entries are no batches; from a second round on
	for i := range 3 {
		c.start(i)
	}
	for i := range 3 {
		c.open(i)
	}
	seen := map[string]bool{}
	until := func(what string, is func(why string) bool) {
		t.Helper()
		var last string
		for note := range await.Tries(t) {
			replicas, err := c.logs[0].Replicas(t.Context())
			if err == nil {
				last = fmt.Sprintf("%+v", replicas)
				done := false
				for _, r := range replicas {
					switch {
					case r.Name == "c":
						seen[strings.TrimLeft(r.Behind, "is 0123456789")] = true
						done = is(r.Behind)
					case r.Behind != "" && !r.Offline && !strings.Contains(r.Behind, "entries behind"):
						t.Errorf("%s, which runs: %s", r.Name, r.Behind)
					}
				}
				if done {
					return
				}
			}
			note("c is never %s: %s", what, last)
		}
	}
	whole := func(why string) bool { return why == "" }
	fit := func(why string, or ...string) { // why, or what begins with one of the others
		t.Helper()
		for note := range await.Tries(t) {
			waits, err := c.logs[0].Fit(t.Context(), []string{"a", "b", "c"}, nil)
			if err == nil && (waits == why || slices.ContainsFunc(or, func(x string) bool { return strings.HasPrefix(waits, x) })) {
				return
			}
			note("the servers are not as they are to be: %s, %v, want %q", waits, err, why)
		}
	}
	until("current", whole)
	fit("")
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	if err := c.logs[2].HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	for round := 0; round < 10 && !seen["entries behind"]; round++ { // it may take them sooner than it is asked for
		c.stop(2)
		until("stopped", func(why string) bool { return why == "does not run" })
		// At once; what it lacks of the log counts later. A server whose last word is lost is not heard of.
		fit("c does not run in the engine's own group", "c was not heard of for ")
		appendMany(t, c.logs[0], fmt.Sprint("round ", round, " "), 2000)
		c.start(2)
		until("current again", whole)
		c.open(2)
	}
	if !seen["entries behind"] {
		t.Errorf("c was never behind: %v", seen)
	}
}
