package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeNode is one address of a client; answer says what becomes of its calls.
type fakeNode struct {
	mu     sync.Mutex
	keys   []string // of the calls: Idempotency-Key, or the key in the body
	answer func(http.ResponseWriter)
	server *httptest.Server
}

func (n *fakeNode) calls() int { n.mu.Lock(); defer n.mu.Unlock(); return len(n.keys) }

func decided(w http.ResponseWriter) { io.WriteString(w, `{"event_id":"E","status":"accepted"}`) }

func refused(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(503)
	io.WriteString(w, `{"status":503,"code":"unavailable"}`)
}

func unknown(w http.ResponseWriter) {
	w.WriteHeader(503)
	io.WriteString(w, `{"status":503,"code":"unavailable","unknown_outcome":true}`)
}

func lost(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// fakeNodes returns a client of nodes with these answers, nil for one that is out of reach.
func fakeNodes(t *testing.T, o Options, answers ...func(http.ResponseWriter)) (*Client, []*fakeNode, *[]time.Duration) {
	t.Helper()
	var nodes []*fakeNode
	var urls []string
	for _, a := range answers {
		n := &fakeNode{answer: a}
		n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var b struct{ Key string }
			_ = json.NewDecoder(r.Body).Decode(&b)
			n.mu.Lock()
			n.keys = append(n.keys, b.Key+r.Header.Get("Idempotency-Key"))
			answer := n.answer
			n.mu.Unlock()
			answer(w)
		}))
		t.Cleanup(n.server.Close)
		nodes, urls = append(nodes, n), append(urls, n.server.URL)
		if a == nil {
			n.server.Close()
		}
	}
	o.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c, err := New(strings.Join(urls, ", "), o)
	if err != nil {
		t.Fatal(err)
	}
	waits := new([]time.Duration)
	c.wait = func(ctx context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return ctx.Err()
	}
	return c, nodes, waits
}

// TestNextAddress: a call with a key goes to the next address at once, with the same key, whatever became of it at the
// one before; and the client stays with the address that answers.
func TestNextAddress(t *testing.T) {
	for name, first := range map[string]func(http.ResponseWriter){"out of reach": nil, "refused": refused, "unknown": unknown, "lost": lost} {
		for what, call := range map[string]func(*Client) error{
			"decide":   func(c *Client) error { _, err := c.Decide(t.Context(), "m", DecideRequest{}); return err },
			"reward":   func(c *Client) error { _, err := c.Reward(t.Context(), "E", 1); return err },
			"activate": func(c *Client) error { _, err := c.Activate(t.Context(), "E"); return err },
			"model":    func(c *Client) error { _, err := c.Model(t.Context(), "m"); return err },
		} {
			c, nodes, waits := fakeNodes(t, Options{}, first, decided, decided)
			for range 2 {
				if err := call(c); err != nil {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
			want := 1
			if first == nil {
				want = 0
			}
			if a, b, c := nodes[0].calls(), nodes[1].calls(), nodes[2].calls(); a != want || b != 2 || c != 0 || len(*waits) > 0 {
				t.Errorf("%s, %s: %d, %d, %d calls and waits %v, want %d, 2, 0 and none", name, what, a, b, c, *waits, want)
			}
			if key := nodes[1].keys[0]; (what == "decide" || what == "reward") && len(key) != 32 || first != nil && key != nodes[0].keys[0] {
				t.Errorf("%s, %s: keys %q and %q", name, what, nodes[0].keys, nodes[1].keys)
			}
		}
	}
}

// TestUnkeyedAddress: a call without a key goes to the next address when it was not sent or was refused, and never after
// it may have been recorded.
func TestUnkeyedAddress(t *testing.T) {
	for name, first := range map[string]func(http.ResponseWriter){"out of reach": nil, "refused": refused, "unknown": unknown, "lost": lost} {
		for what, call := range map[string]func(*Client) error{
			"batch":  func(c *Client) error { _, err := c.DecideBatch(t.Context(), "m", []DecideRequest{{}}); return err },
			"reward": func(c *Client) error { _, err := c.RewardOnce(t.Context(), "E", 1, ""); return err },
			"create": func(c *Client) error { return c.CreateModelFrom(t.Context(), "m", []byte("saved")) },
		} {
			c, nodes, _ := fakeNodes(t, Options{}, first, decided)
			err := call(c)
			if name == "unknown" || name == "lost" {
				if !Unknown(err) || nodes[1].calls() != 0 {
					t.Errorf("%s, %s: error %v, %d calls of the next, want an unknown outcome and none", name, what, err, nodes[1].calls())
				}
			} else if err != nil || nodes[1].calls() != 1 {
				t.Errorf("%s, %s: error %v, %d calls of the next, want none and 1", name, what, err, nodes[1].calls())
			}
		}
	}
}

// TestAllAddresses: rounds with short waits until Patience ends; what may have been recorded at one address stays unknown
// when the others refuse.
func TestAllAddresses(t *testing.T) {
	c, nodes, waits := fakeNodes(t, Options{Tries: 12}, refused, lost, nil)
	_, err := c.Decide(t.Context(), "m", DecideRequest{})
	if !Unknown(err) || nodes[0].calls() != 12 || nodes[1].calls() != 12 || len(*waits) != 11 {
		t.Errorf("error %v, %d and %d calls, %d waits; want an unknown outcome, 12, 12, 11", err, nodes[0].calls(), nodes[1].calls(), len(*waits))
	}
	for _, d := range *waits {
		if d > 500*time.Millisecond {
			t.Errorf("waits %v: want at most 500 ms while an address is out of reach", *waits)
			break
		}
	}
	c, nodes, _ = fakeNodes(t, Options{Patience: time.Nanosecond}, refused, refused)
	if _, err := c.Decide(t.Context(), "m", DecideRequest{}); Unknown(err) || Code(err) != "unavailable" || nodes[0].calls() != 1 || nodes[1].calls() != 1 {
		t.Errorf("error %v, %d and %d calls; want a refusal after 1 and 1", err, nodes[0].calls(), nodes[1].calls())
	}
	c, nodes, _ = fakeNodes(t, Options{}, nil)
	if _, err := c.Decide(t.Context(), "m", DecideRequest{}); err == nil || Unknown(err) || nodes[0].calls() != 0 {
		t.Errorf("a server out of reach: error %v, want one of known outcome", err)
	}
}

// TestSilentAddress: an address that takes calls and does not answer is left after Silence; a call that may not be
// repeated waits for it.
func TestSilentAddress(t *testing.T) {
	release := make(chan struct{})
	silent := func(w http.ResponseWriter) { <-release; decided(w) }
	c, nodes, _ := fakeNodes(t, Options{Silence: 20 * time.Millisecond}, silent, decided)
	if _, err := c.Decide(t.Context(), "m", DecideRequest{}); err != nil || nodes[1].calls() != 1 {
		t.Errorf("error %v, %d calls of the next", err, nodes[1].calls())
	}
	c.now.Store(0)
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if _, err := c.RewardOnce(t.Context(), "E", 1, ""); err != nil || nodes[1].calls() != 1 {
		t.Errorf("without a key: error %v, %d calls of the next, want none more", err, nodes[1].calls())
	}
}

func TestNewAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"http://a:1,http://a:1/":        "twice",
		"http://a:1,":                   "expected http://HOST",
		"http://a:1,b:2":                "expected http://HOST",
		"unix:/run/a.sock,unix:/b.sock": "",
	} {
		if _, err := New(base, Options{}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("New(%q): %v, want %q", base, err, want)
		}
	}
	if _, err := New("http://a:1", Options{Patience: -1}); err == nil {
		t.Error("a negative patience is taken")
	}
}
