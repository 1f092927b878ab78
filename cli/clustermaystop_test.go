package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/serve"
)

// TestClusterMayStop: all three nodes are ready, and one that is behind is needed by none; so only that one may be
// stopped, the command says why, and drain refuses another one. What the leader knows counts.
func TestClusterMayStop(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	health := map[string]*serve.ClusterHealth{}
	ready := map[string]bool{}
	c := &clusterConfig{Cluster: "test"}
	var drained []string
	for _, name := range names {
		h := &serve.ClusterHealth{Node: name}
		for _, x := range names {
			h.Nodes = append(h.Nodes, serve.NodeHealth{Name: x, Live: true})
			h.Replicas = append(h.Replicas, eventlog.Replica{Name: x, Leader: x == "b", Current: true})
		}
		health[name], ready[name] = h, true
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				drained = append(drained, name)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"ready": ready[name], "cluster": health[name]})
		}))
		t.Cleanup(s.Close)
		c.Nodes = append(c.Nodes, clusterNode{Name: name, URL: s.URL})
	}
	says := func(want string, lacking ...string) {
		t.Helper()
		s := c.ask(t.Context())
		var out bytes.Buffer
		if err := s.print(&out); err != nil || !strings.HasSuffix(out.String(), "may be stopped now: "+want+"\n") {
			t.Errorf("%v: %s\nwant %s", err, &out, want)
		}
		if got := slices.Sorted(maps.Keys(s.Lacking)); !slices.Equal(got, lacking) {
			t.Errorf("lacking %v, want %v", s.Lacking, lacking)
		}
		var text struct {
			MayStop []string `json:"may_stop"`
		}
		b, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(b, &text)
		}
		if err != nil || text.MayStop == nil || !slices.Equal(text.MayStop, s.MayStop) {
			t.Errorf("%s, %v", b, err)
		}
	}
	says("one of a, b, c")
	health["a"].Replicas[2].Behind = "is 17 entries behind" // b leads, so what a knows does not count
	says("one of a, b, c")
	health["b"].Replicas[2].Behind = "is 4812 entries behind"
	says("c; not another one: c is 4812 entries behind", "c")
	ready["a"] = false
	says("none: a majority would be missing, because a is not ready, c is 4812 entries behind", "a", "c")
	ready["a"] = true

	file := []string{"cluster", "drain", "--url", c.Nodes[0].URL + "," + c.Nodes[1].URL + "," + c.Nodes[2].URL}
	var out bytes.Buffer
	if code := command(t.Context(), append(file, "a"), &out, &out); code != term.Failed ||
		!strings.Contains(out.String(), "a may not be stopped now; may be stopped now: c; not another one: c is 4812 entries behind") {
		t.Errorf("drain of a node that is needed: code %d: %s", code, &out)
	}
	if code := command(t.Context(), append(file, "c"), &out, &out); code != 0 || !slices.Equal(drained, []string{"c"}) {
		t.Errorf("drain of the one that is behind: code %d: %s; drained %v", code, &out, drained)
	}
	// a node of the log that the file does not have counts as well
	health["b"].Nodes = append(health["b"].Nodes, serve.NodeHealth{Name: "d", Heard: 7})
	says("none: a majority would be missing, because c is 4812 entries behind, d was not heard of for 7 s", "c", "d")
}

// transport answers requests without a network.
type transport func(r *http.Request) (status int, body string)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// reached is a cluster whose nodes answer as f says.
func reached(f transport, names ...string) *clusterConfig {
	c := &clusterConfig{Cluster: "test"}
	for _, name := range names {
		c.Nodes = append(c.Nodes, clusterNode{Name: name, URL: "http://" + name, client: &http.Client{Transport: f}})
	}
	return c
}

// TestDrainWaitsForNode: the node itself may still find that it is needed when the others do not; the command asks
// again, and then says what the node says.
func TestDrainWaitsForNode(t *testing.T) {
	t.Parallel()
	health := &serve.ClusterHealth{}
	for _, name := range []string{"a", "b", "c"} {
		health.Nodes = append(health.Nodes, serve.NodeHealth{Name: name, Live: true})
		health.Replicas = append(health.Replicas, eventlog.Replica{Name: name, Leader: name == "b", Current: true})
	}
	for _, x := range []struct {
		lasts, waits time.Duration // until it is not needed, and of the command
		want         string        // in the error, empty for none
	}{
		{20 * time.Second, 20 * time.Second, ""},
		{time.Hour, drainFor, "c answers 409 Conflict: words of the node"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, drained := time.Now(), 0
			c := reached(func(r *http.Request) (int, string) {
				switch {
				case r.Method == "GET":
					of := *health
					of.Node = r.URL.Hostname()
					b, err := json.Marshal(map[string]any{"ready": true, "cluster": &of})
					if err != nil {
						t.Error(err)
					}
					return http.StatusOK, string(b)
				case time.Since(begun) < x.lasts:
					return http.StatusConflict, `{"code": "needed", "detail": "words of the node"}`
				}
				drained++
				return http.StatusNoContent, ""
			}, "a", "b", "c")
			said := ""
			if err := c.drain(t.Context(), &c.Nodes[2], ""); err != nil {
				said = err.Error()
			}
			took := time.Since(begun) // by a clock that waits for the test
			if said != x.want || (drained == 1) != (x.want == "") || took < x.waits || took > x.waits+time.Second {
				t.Errorf("needed for %v: %q after %v, drained %d times; want %q after %v", x.lasts, said, took, drained,
					x.want, x.waits)
			}
		})
	}
}

// TestRemoveWaitsForChange: the command waits for a change of the nodes that is under way, which it knows by the code
// of the answer, and gives up on another conflict after some seconds, whatever its words are.
func TestRemoveWaitsForChange(t *testing.T) {
	t.Parallel()
	const ready = `{"ready": true, "cluster": {"node": "%s",
		"nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}}`
	const other = "a change of the nodes is under way"
	for _, x := range []struct {
		refusal string
		lasts   time.Duration // until the node is removed
		waits   time.Duration // at least
		want    string        // in the error, empty for none
	}{
		{`{"code": "changing", "detail": "words"}`, 40 * time.Second, 40 * time.Second, ""},
		{`{"code": "changing", "detail": "words"}`, time.Hour, changeFor, "d is not removed: c answers 409 Conflict: words"},
		{`{"code": "conflict", "detail": "` + other + `"}`, 40 * time.Second, stopFor,
			"d is not removed: c answers 409 Conflict: " + other},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			c := reached(func(r *http.Request) (int, string) {
				name := r.URL.Hostname()
				switch {
				case r.Method == "GET" && name != "d":
					return http.StatusOK, fmt.Sprintf(ready, name)
				case r.Method != "DELETE" || r.URL.Path != "/v1/cluster/nodes/d" || time.Since(begun) < x.lasts:
					return http.StatusConflict, x.refusal
				}
				return http.StatusNoContent, ""
			}, "a", "b", "c", "d")
			err := c.removeNode(t.Context(), "d", "")
			took := time.Since(begun)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if said != x.want || took < x.waits || took > x.waits+2*time.Second { // by a clock that waits for the test
				t.Errorf("%s for %v: %q after %v, want %q after %v", x.refusal, x.lasts, said, took, x.want, x.waits)
			}
		})
	}
}
