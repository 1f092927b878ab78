package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Nodes that have keys answer a command without one that they are there, and no command takes them for silent.
func TestClusterAsksWithKey(t *testing.T) {
	const key = "troupe_monitor_00"
	node := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cluster := ""
			if r.Header.Get("Authorization") == "Bearer "+key {
				cluster = fmt.Sprintf(`,"cluster":{"node":%q,"nodes":[{"name":"a"},{"name":"b"},{"name":"c"}]}`, name)
			}
			fmt.Fprintf(w, `{"ready":true,"applied":7,"log":7,"lag":0,"durability":"majority"%s}`, cluster)
		}))
		t.Cleanup(s.Close)
		return s
	}
	c := &clusterConfig{Node: "a"}
	for _, name := range []string{"a", "b", "c"} {
		c.Nodes = append(c.Nodes, clusterNode{Name: name, URL: node(name).URL})
	}
	t.Setenv("TROUPE_KEY", "")
	s := c.ask(t.Context())
	for _, n := range s.Nodes {
		if !n.answers() || !n.Ready || n.Error == "" {
			t.Errorf("without a key: %+v", n)
		}
	}
	if len(s.MayStop) > 0 || s.Lacking["b"] != "wants a key" {
		t.Errorf("may stop %v, lacking %v", s.MayStop, s.Lacking)
	}
	var out bytes.Buffer
	if err := s.print(&out); err != nil || !strings.Contains(out.String(), "set TROUPE_KEY to one with the scope read") {
		t.Errorf("%v\n%s", err, &out)
	}
	// what would be wrong while a node is there is refused
	if err := c.isPresent(s); err == nil || !strings.Contains(err.Error(), "TROUPE_KEY") {
		t.Errorf("the list of nodes is not known, and %v", err)
	}
	if err := c.mayReplace(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "it answers at") {
		t.Errorf("b may be replaced: %v", err)
	}
	if _, err := c.othersCurrent(t.Context()); err == nil || !strings.Contains(err.Error(), "the server of a answers") {
		t.Errorf("a may be rebuilt: %v", err)
	}
	t.Setenv("TROUPE_KEY", key)
	s = c.ask(t.Context())
	for _, n := range s.Nodes {
		if n.Error != "" || !n.Ready || n.Cluster == nil {
			t.Errorf("with a key: %+v", n)
		}
	}
	if err := c.isPresent(s); err != nil {
		t.Error(err)
	}
}
