package recent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

var keys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("0123456789abcdef0123456789abcdef")}}

// counting is a log that counts how often an entry is read.
type counting struct {
	eventlog.Log
	reads int
	fails error
}

func (l *counting) Get(seq uint64) (eventlog.Entry, error) {
	if l.reads++; l.fails != nil {
		return eventlog.Entry{}, l.fails
	}
	return l.Log.Get(context.Background(), 0, seq)
}

func (l *counting) Replay(*eventlog.Chain, uint64, func(eventlog.Delivery) error) error {
	return errors.New("nothing here replays the log")
}

// written returns Decisions on a log whose entries have three decisions each, and the ids of those.
func written(t *testing.T, entries int) (*recent.Decisions, *counting, [][]string) {
	t.Helper()
	log := &counting{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{})}
	c := eventlogtest.NewCommitter(t, log.Log, eventlog.CommitterOptions{})
	var ids [][]string
	for n := range entries {
		var records []eventlog.Record
		for i := range 3 {
			records = append(records, &eventlog.Decision{Model: eventlog.ID(n + 1), Action: "a", X: []float64{float64(i)},
				Num: 1, Den: 1, Offered: 1, Deadline: int64(time.Hour)})
		}
		r, err := c.Append(context.Background(), records...)
		if err != nil {
			t.Fatal(err)
		}
		var of []string
		for i := range 3 {
			e := r.Event
			e.Index += uint32(i)
			of = append(of, keys.Format(eventlog.EventID{Event: e, Hint: r.Seq}))
		}
		ids = append(ids, of)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return recent.New(recent.Options{Keys: keys, Log: log.Log, Past: &fold.History{Log: log},
		Here: func(context.Context, uint64) error { return nil }, Logger: slog.New(slog.DiscardHandler)}), log, ids
}

// TestFind: a decision that was put is found without the log. Of the others one read answers the first question about an
// entry, a second one answers all further ones.
func TestFind(t *testing.T) {
	ctx := context.Background()
	d, log, ids := written(t, 2)
	find := func(n, i, reads int) {
		t.Helper()
		id, k, err := d.Find(ctx, ids[n][i])
		if err != nil || k.Model != eventlog.ID(n+1) || k.X[0] != float64(i) || k.Seq != id.Hint {
			t.Errorf("decision %d of entry %d: %+v, %v", i, n, k, err)
		}
		if log.reads != reads {
			t.Errorf("decision %d of entry %d: the log was read %d times so far, want %d", i, n, log.reads, reads)
		}
	}
	id, err := keys.Parse(ids[0][0])
	if err != nil {
		t.Fatal(err)
	}
	d.Put(id.Event, recent.Known{Seq: id.Hint, Model: 1, X: []float64{0}})
	find(0, 0, 0)
	find(1, 0, 1)
	find(1, 1, 2)
	find(1, 2, 2)
	find(1, 0, 2)
	d.Forget()
	find(0, 0, 3)
	if _, r, err := d.Whole(ctx, ids[1][2]); err != nil || r.X[0] != 2 || log.reads != 4 {
		t.Errorf("the whole decision is %+v, %v, after %d reads", r, err, log.reads)
	}
}

// TestKeep: decisions of models that are not kept are read from the log again, those of the others are not, and what is put
// afterwards is found and bounded as before.
func TestKeep(t *testing.T) {
	ctx := context.Background()
	d, log, ids := written(t, 6)
	put := func() {
		for n := range ids {
			for i := range ids[n] {
				id, err := keys.Parse(ids[n][i])
				if err != nil {
					t.Fatal(err)
				}
				d.Put(id.Event, recent.Known{Seq: id.Hint, Model: eventlog.ID(n + 1), X: []float64{float64(i)}})
			}
		}
	}
	for range 2 { // and again, with what was kept
		put()
		d.Keep(func(model eventlog.ID) bool { return model%2 == 0 })
		for n := range ids {
			before := log.reads
			for i := range ids[n] {
				if _, k, err := d.Find(ctx, ids[n][i]); err != nil || k.X[0] != float64(i) || k.Model != eventlog.ID(n+1) {
					t.Errorf("decision %d of model %d: %+v, %v", i, n+1, k, err)
				}
			}
			if read := log.reads - before; (read == 0) != ((n+1)%2 == 0) {
				t.Errorf("the decisions of model %d took %d reads of the log", n+1, read)
			}
		}
		d.Keep(func(eventlog.ID) bool { return false })
	}
}

// TestLost: ids that are not ours are counted apart from decisions that the log has lost, and from those that are no
// longer kept or cannot be read.
func TestLost(t *testing.T) {
	ctx := context.Background()
	d, log, ids := written(t, 3)
	fails := func(id string, code fault.Code, forged, missing uint64) {
		t.Helper()
		_, _, err := d.Find(ctx, id)
		if fault.CodeOf(err) != code || d.Forged() != forged || d.Missing() != missing {
			t.Errorf("%v, want %v; %d forged and %d missing, want %d and %d", err, code, d.Forged(), d.Missing(), forged,
				missing)
		}
	}
	good, err := keys.Parse(ids[2][0])
	if err != nil {
		t.Fatal(err)
	}
	changed := good
	changed.Event.Index = 7
	for i, text := range []string{"", "xx", "not an id", ids[0][0] + "0", ids[0][0][:len(ids[0][0])-3], strings.ToUpper(ids[0][0]), strings.Repeat("0", 200)} {
		if fails(text, fault.BadEventID, 0, 0); d.Malformed() != uint64(i+1) {
			t.Errorf("%q: %d are malformed, want %d", text, d.Malformed(), i+1)
		}
	}
	other := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("another key, of another server..")}}
	fails(other.Format(good), fault.BadEventID, 1, 0)
	fails(keys.Format(eventlog.EventID{Event: good.Event, Hint: good.Hint, Shard: 1}), fault.BadEventID, 2, 0)
	fails(keys.Format(changed), fault.NotFound, 2, 1)
	if err := log.Trim(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	fails(ids[0][0], fault.Gone, 2, 1)
	log.fails = errors.New("the disk does not answer")
	fails(ids[1][0], fault.Unavailable, 2, 1)
	if d.Malformed() != 7 {
		t.Errorf("%d are malformed, want 7", d.Malformed())
	}
}

// TestTurn: one caller at a time reads an entry, and one whose time is over does not wait for its turn.
func TestTurn(t *testing.T) {
	d, _, ids := written(t, 1)
	id, err := keys.Parse(ids[0][0])
	if err != nil {
		t.Fatal(err)
	}
	done, err := d.Turn(context.Background(), id.Hint)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := d.Find(ctx, ids[0][0]); fault.CodeOf(err) != fault.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("while another caller reads the entry: %v", err)
	}
	done()
	if _, _, err := d.Find(context.Background(), ids[0][0]); err != nil {
		t.Error(err)
	}
}

// TestNewestAreBounded: decisions beyond the bound push out the oldest, not the newest, and the whole bound is used: by
// batches of one decision, by those between which others come, and by large ones.
func TestNewestAreBounded(t *testing.T) {
	large := make([]float64, 1<<13) // 64 KiB
	const most = 16 << 20 / (64<<10 + 256)
	for name, place := range map[string]func(n uint64) (batch uint64, index uint32){
		"one":        func(n uint64) (uint64, uint32) { return n, 0 },
		"every 2nd":  func(n uint64) (uint64, uint32) { return 2 * n, 0 },
		"every 16th": func(n uint64) (uint64, uint32) { return 16 * n, 0 },
		"pairs":      func(n uint64) (uint64, uint32) { return n / 2, uint32(n % 2) },
		"large":      func(n uint64) (uint64, uint32) { return n / 64, uint32(n % 64) },
	} {
		d, log, ids := written(t, 1)
		id, err := keys.Parse(ids[0][0])
		if err != nil {
			t.Fatal(err)
		}
		d.Put(id.Event, recent.Known{Seq: id.Hint, Model: 1, X: large})
		events := make([]eventlog.Event, 4*most)
		for n := range events {
			events[n].Epoch = 9
			events[n].Batch, events[n].Index = place(uint64(n))
			d.Put(events[n], recent.Known{Seq: id.Hint, Model: 1, X: large})
		}
		if _, k, err := d.Find(context.Background(), ids[0][0]); err != nil || len(k.X) != 1 || log.reads != 1 {
			t.Errorf("%s: the oldest is still in memory: %d coordinates, %d reads, %v", name, len(k.X), log.reads, err)
		}
		found, newest := 0, 0
		for n, e := range events {
			if _, k, err := d.Find(context.Background(), keys.Format(eventlog.EventID{Event: e, Hint: id.Hint})); err == nil && len(k.X) == len(large) {
				if found++; n >= len(events)-most/2 {
					newest++
				}
			}
		}
		if found > most || found < most*3/4 || newest != most/2 {
			t.Errorf("%s: %d decisions are in memory, %d of the newest %d; the bound is %d", name, found, newest, most/2, most)
		}
	}
}

// TestKept: what is remembered of a decision is all of it, whatever its parts are, also after others were pushed out and after those
// of other models were forgotten.
func TestKept(t *testing.T) {
	d, log, ids := written(t, 1)
	id, err := keys.Parse(ids[0][0])
	if err != nil {
		t.Fatal(err)
	}
	want := map[eventlog.Event]recent.Known{}
	var order []eventlog.Event
	for n := range 40_000 {
		e := eventlog.Event{Epoch: 9, Batch: uint64(n / 3), Index: uint32(n % 3)}
		k := recent.Known{Seq: id.Hint, Model: eventlog.ID(1 + n%5), Deferred: n%7 == 0}
		for i := range n % 13 {
			k.Atoms = append(k.Atoms, byte(n+i))
		}
		for i := range n % 4 * (n % 50) {
			k.X = append(k.X, float64(n)+float64(i)/8)
		}
		if n%10_000 == 77 { // larger than a chunk
			k.Atoms = make([]byte, 100_000)
			k.Atoms[99_999] = byte(n)
		}
		d.Put(e, k)
		want[e] = k
		order = append(order, e)
	}
	check := func(what string, least int, is func(recent.Known) bool) {
		t.Helper()
		in := 0
		for _, e := range order {
			text := keys.Format(eventlog.EventID{Event: e, Hint: id.Hint})
			if !d.Holds(text) {
				continue
			}
			in++
			_, k, err := d.Find(context.Background(), text)
			if err != nil || !reflect.DeepEqual(k, want[e]) || !is(k) {
				t.Fatalf("%s: event %v: %.200v, %v, expected %.200v", what, e, fmt.Sprint(k), err, fmt.Sprint(want[e]))
			}
		}
		if in < least {
			t.Errorf("%s: %d decisions are in memory, expected %d at least", what, in, least)
		}
	}
	check("all", 30_000, func(recent.Known) bool { return true })
	d.Keep(func(m eventlog.ID) bool { return m == 3 })
	check("after Keep", 6_000, func(k recent.Known) bool { return k.Model == 3 })
	d.Forget()
	if d.Holds(keys.Format(eventlog.EventID{Event: order[len(order)-1], Hint: id.Hint})) || log.reads > 0 {
		t.Errorf("after Forget a decision is in memory, or the log was read %d times", log.reads)
	}
}
