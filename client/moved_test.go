package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// serves answers with JSON and counts its calls.
type serves struct {
	calls  atomic.Int64
	key    atomic.Value
	answer func(r *http.Request) (status int, body string)
}

func (s *serves) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	s.key.Store(r.Header.Get("Authorization"))
	status, body := s.answer(r)
	if w.Header().Set("Content-Type", "application/json"); status >= 300 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func movedTo(address string) func(*http.Request) (int, string) {
	return func(*http.Request) (int, string) {
		return http.StatusTemporaryRedirect, fmt.Sprintf(`{"code": "moved", "status": 307, "moved_to": %q}`, address)
	}
}

// TestMoved: a model that went is followed, once by the old server and then at once, also from a socket, with the client's
// own key; a decision that is repeated does not say where its events are; a key is not sent in the clear after it was not.
func TestMoved(t *testing.T) {
	const old, fresh = "1003akf3kt5zbpnz001000n4w8ka39h0s0t0", "2003akf3kt5zbpnz001000n4w8ka39h0s0t0"
	event, repeated := fresh, false
	there := &serves{answer: func(r *http.Request) (int, string) {
		return http.StatusOK, fmt.Sprintf(`{"event_id": %q, "repeated": %v, "status": "accepted", "action": {"id": "a"}}`, event, repeated)
	}}
	second := httptest.NewServer(there)
	defer second.Close()
	here := &serves{answer: movedTo(second.URL)}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	socket := &http.Server{Handler: here}
	go func() { _ = socket.Serve(l) }()
	defer socket.Close()
	first := httptest.NewServer(here)
	defer first.Close()
	ctx := context.Background()
	for _, base := range []string{first.URL, "unix:" + path} {
		here.calls.Store(0)
		there.calls.Store(0)
		event, repeated = old, true
		c, err := New(base, Options{Key: "k", Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Decide(ctx, "news", DecideRequest{}); err != nil {
				t.Fatalf("%s: %v", base, err)
			}
		}
		if h, n := here.calls.Load(), there.calls.Load(); h != 1 || n != 3 || there.key.Load() != "Bearer k" {
			t.Errorf("%s: %d calls of the old server and %d of the new one, with the key %v; want 1 and 3", base, h, n, there.key.Load())
		}
		if _, err := c.Reward(ctx, old, 1); err != nil || here.calls.Load() != 2 { // the repeated decision was of before the move
			t.Errorf("%s: a reward of before: %v, %d calls of the old server, want 2", base, err, here.calls.Load())
		}
		event, repeated = fresh, false
		if _, err := c.Decide(ctx, "news", DecideRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Reward(ctx, fresh, 1); err != nil || here.calls.Load() != 2 {
			t.Errorf("%s: a reward of after: %v, %d calls of the old server, want 2", base, err, here.calls.Load())
		}
	}

	// From https only to https, and back to the client's own address.
	safe := httptest.NewTLSServer(here)
	defer safe.Close()
	c, err := New(safe.URL, Options{Key: "k", Tries: 1, HTTP: safe.Client()})
	if err != nil {
		t.Fatal(err)
	}
	before := there.calls.Load()
	var p *Problem
	if _, err := c.Decide(ctx, "news", DecideRequest{}); !errors.As(err, &p) || p.Code != "moved" || there.calls.Load() != before {
		t.Errorf("a key in the clear: %v, %d calls", err, there.calls.Load()-before)
	}
	for base, want := range map[string]string{"https://own:1": "http://own:2", "http://own:2": "http://own:2"} {
		err := &Problem{Code: "moved", MovedTo: "http://own:2/"}
		if got := next(address{base: "https://other:1"}, address{base: base}, err); (got == want) != (base == want) {
			t.Errorf("from https, base %s: to %q", base, got)
		}
	}
}
