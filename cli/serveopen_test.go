package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"troupe/internal/await"
)

// TestNodeAlone: a node that is started without the others answers at once: it lives, it is not ready, and it says for
// whom it waits, in words that the status passes on. It does not end, and it is ready when the others come.
func TestNodeAlone(t *testing.T) {
	c := newRealCluster(t)
	c.start(0)
	readyz := func() (status int, x nodeStatus) {
		r, err := c.http.Get(c.url(0) + "/readyz")
		if err != nil {
			return 0, x
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
			t.Error(err)
		}
		return r.StatusCode, x
	}
	for note := range await.Tries(t) {
		status, x := readyz()
		if status == http.StatusServiceUnavailable && strings.HasPrefix(x.Reason, "this node waits for the log of the cluster: ") &&
			strings.Contains(x.Reason, "b, c") && !x.Ready && x.Cluster.Node == "a" {
			break
		}
		note("%d %+v", status, x)
	}
	if r, err := c.http.Get(c.url(0) + "/livez"); err != nil || r.StatusCode != 200 {
		t.Errorf("livez: %v, %v", r, err)
	}
	if status, err := c.call(0, "POST", "/v1/models/news:decide", map[string]any{}, nil); status != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "waits for the log of the cluster") {
		t.Errorf("a decision: %d, %v", status, err)
	}
	if s := c.status(); !strings.Contains(s.Nodes[0].Reason, "b, c") || s.Nodes[0].Error != "" {
		t.Errorf("status: %+v", s.Nodes[0])
	}
	c.start(1)
	c.start(2)
	c.ready(3)
}

// nodeAlone is the part of a node that early answers ask.
type nodeAlone struct{ logServer }

func (nodeAlone) name() string  { return "a" }
func (nodeAlone) waits() string { return "" }

// TestGiveBack: when a node opens, every call that is sent gets an answer, before and after, and the port is never closed.
func TestGiveBack(t *testing.T) {
	for range 20 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + listener.Addr().String() + "/v1/models/news:decide"
		early := answerEarly(nodeAlone{}, &serveInputs{}, listener)
		var callers sync.WaitGroup
		waiting := make(chan struct{}, 1000)
		for range 6 {
			callers.Go(func() {
				own := &http.Client{Transport: &http.Transport{}}
				defer own.CloseIdleConnections()
				for status := 0; status != http.StatusOK; {
					r, err := own.Post(url, "application/json", strings.NewReader("{}"))
					if err != nil {
						t.Error(err)
						return
					}
					r.Body.Close()
					if status = r.StatusCode; status == http.StatusServiceUnavailable {
						select {
						case waiting <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		for range 30 {
			<-waiting
		}
		if listener, err = early.giveBack(); err != nil {
			t.Fatal(err)
		}
		next := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go next.Serve(listener)
		callers.Wait()
		early.close()
		next.Close()
	}
}
