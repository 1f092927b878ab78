package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve"
)

// TestExportIgnored: a decision that another node had made for its key first is no row of log export; with --ignored it is one,
// marked.
func TestExportIgnored(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	keys := eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: serve.NewKey()}}
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s, err := serve.Open(ctx, serve.Options{Log: m, Keys: keys, Cluster: &serve.Cluster{Node: "a", Nodes: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateModel(ctx, serve.DefaultConfig("news"), "test"); err != nil {
		t.Fatal(err)
	}
	d, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{{ID: "x"}, {ID: "y"}}, IdempotencyKey: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := m.Get(ctx, 0, d.Seq)
	if err != nil {
		t.Fatal(err)
	}
	_, records, err := eventlog.ParseRecords(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := eventlog.Tail(ctx, m, 0, keys.Batches())
	if err != nil {
		t.Fatal(err)
	}
	head, _ := chain.Rolling()
	for _, r := range records { // another node writes it once more
		if r.Kind() != eventlog.KindDecision {
			continue
		}
		b, err := keys.Batches().Append(nil, eventlog.Header{Format: eventlog.Format3, Epoch: 99, No: 1, After: head.Seq, Prev: head.Hash}, r)
		if err == nil {
			_, _, err = m.Append(ctx, 0, "again", b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	b, err := eventlog.OpenBuilder(ctx, filepath.Join(dir, "log"), keys.Batches(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for seq := uint64(1); seq <= head.Seq+1; seq++ {
		e, err := m.Get(ctx, 0, seq)
		if err == nil {
			err = b.Add(ctx, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := serve.WriteKeys(dir, keys); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args          []string
		rows, ignored int
	}{{nil, 1, 0}, {[]string{"--ignored"}, 2, 1}} {
		var out, errs bytes.Buffer
		code := command(context.Background(), append([]string{"log", "export", dir}, c.args...), &out, &errs)
		if code != 0 || strings.Count(out.String(), "\n") != c.rows || strings.Count(out.String(), `"reward_state":"ignored"`) != c.ignored {
			t.Errorf("%v: exit code %d, want %d rows, %d of them ignored: %s%s", c.args, code, c.rows, c.ignored, &out, &errs)
		}
	}
}
