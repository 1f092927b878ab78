package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
)

// TestImport: a model that starts from a saved one has its state and decides as it does. Wherever the server dies on the way, at
// each piece, nothing is left of the import and it can be sent again; the fold of the whole log has the bytes of the server's,
// and so has one that went on from a snapshot in the middle of it.
func TestImport(t *testing.T) {
	t.Parallel()
	hashed := DefaultConfig("m")
	hashed.Floor = 0.1
	for name, config := range map[string]ModelConfig{"vectors": vectors("m", 3, func(*ModelConfig) {}), "hashed": hashed} {
		t.Run(name, func(t *testing.T) { testImport(t, config) })
	}
}

func testImport(t *testing.T, config ModelConfig) {
	ctx := context.Background()
	candidates := func(n int) DecideRequest {
		if config.Dim > 0 {
			return DecideRequest{Actions: actions(n, 4, 3)}
		}
		r := DecideRequest{Context: fmt.Appendf(nil, `{"age": %d, "city": "Oslo"}`, n*7%31)}
		for k := range 4 {
			r.Actions = append(r.Actions, Action{ID: fmt.Sprint(k), Features: fmt.Appendf(nil, `{"price": %d}`, (n+5*k)%41)})
		}
		return r
	}
	open := func(log eventlog.Log) *Server {
		return must(Open(ctx, Options{Log: log, Keys: eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}}))
	}
	law := func(s *Server, model string) string {
		r := candidates(5)
		r.Explain = true
		d := must(s.Decide(ctx, model, r))
		var p []any
		for _, e := range d.Explain {
			p = append(p, e.Propensity)
		}
		return string(must(json.Marshal(p)))
	}
	fresh := func() (*Server, eventlog.Log) {
		log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
		s := open(log)
		must(s.CreateModel(ctx, config, ""))
		for n := range 60 {
			d := must(s.Decide(ctx, "m", candidates(n)))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n%5) / 4}))
		}
		return s, log
	}
	first, _ := fresh()
	saved := must(first.SaveModel(ctx, "m", 0))
	wantLaw := law(first, "m")
	wantDigest := must(first.State(ctx, "m")).Digest
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	from := must(fold.ReadSaved(saved))
	parts := 4
	body := len(from.Policy) + 1000
	for stop := 0; ; stop++ {
		s, log := fresh()
		records := must(from.Records(77, "warm", "", 1, body/parts))
		if stop > len(records) {
			s.Close(ctx)
			break
		}
		for _, r := range records[:stop] {
			if out, _, err := s.write(ctx, r); err != nil || out != fold.Accepted {
				t.Fatal(out, err)
			}
		}
		if stop == 1 { // an act that comes in between does not disturb it
			must(s.PauseModel(ctx, "m", ""))
		}
		mid := must(s.fold.AppendState(nil, s.applier.chain))
		restored, _, err := fold.Restore(mid, nil)
		if err != nil || !bytes.Equal(must(restored.AppendState(nil, s.applier.chain)), mid) || restored.Importing() != (stop > 0 && stop < len(records)) {
			t.Errorf("after %d of %d records the state does not come back: %v", stop, len(records), err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s = open(log)
		if stop == len(records) {
			if st := must(s.State(ctx, "warm")); st.Digest != wantDigest {
				t.Errorf("the state has the digest %v, expected %v", st.Digest, wantDigest)
			}
		} else {
			if _, err := s.GetModel(ctx, "warm"); CodeOf(err) != NotFound {
				t.Errorf("after %d of %d records: %v, expected no model", stop, len(records), err)
			}
			if stop > 0 { // a writer that is gone does not come back
				if out, _, err := s.write(ctx, records[stop]); err != nil || out != fold.Conflict {
					t.Errorf("a piece of a dead writer: %v, %v", out, err)
				}
			}
			must(s.CreateModelFrom(ctx, "warm", saved, ""))
		}
		if got := law(s, "warm"); config.Dim > 0 && got != wantLaw { // the kind hashed draws members for each decision
			t.Errorf("the laws are %s, those of the saved model %s", got, wantLaw)
		}
		if _, err := s.CreateModelFrom(ctx, "warm", saved, ""); CodeOf(err) != Conflict {
			t.Errorf("the name is taken: %v", err)
		}
		if _, err := s.progress.until(ctx, must(s.log.Info(ctx, 0)).Last); err != nil { // decisions are answered before they are applied
			t.Fatal(err)
		}
		for _, restoreAt := range []uint64{0, restored.Seq()} {
			past := &fold.History{Log: logReader{s.ctx, s.log}, Nearest: func(uint64) []byte { return nil }}
			if restoreAt > 0 {
				past.Nearest = func(uint64) []byte { return mid }
			}
			past.First.Store(1)
			f, c, err := past.Fold(nil, s.fold.Seq())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(must(f.AppendState(nil, c)), must(s.fold.AppendState(nil, s.applier.chain))) {
				t.Errorf("after %d records: the fold from entry %d has other bytes than the server's", stop, restoreAt+1)
			}
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range [][]byte{nil, []byte("TRPM"), append(bytes.Clone(saved[:len(saved)-1]), saved[len(saved)-1]^1), saved[:len(saved)-5]} {
		s, _ := fresh()
		if _, err := s.CreateModelFrom(ctx, "warm", bad, ""); CodeOf(err) != Invalid {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
