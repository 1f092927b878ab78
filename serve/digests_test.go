package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/eventlog"
)

// teach makes one decision at a node and rewards it at another one.
func teach(t *testing.T, at, other *Server, i int) {
	t.Helper()
	d, err := at.Decide(t.Context(), "news", DecideRequest{Actions: actions(i, 4, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: 0.5}); err != nil || got.Status != Accepted {
		t.Fatalf("%+v, error %v", got, err)
	}
}

// plant lets a node learn what is in no record. The model must be taught first: until then its policy is laid aside.
func plant(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.fold.Named("news").Awake()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.fold.Named("news")
	if err := m.Policy().Update(bandit.Action{X: []float64{0.5, 0, 0}, Index: bandit.NoIndex}, 1, m.Targets(eventlog.Event{Epoch: 1, Batch: 1})); err != nil {
		t.Fatal(err)
	}
}

// TestDigests: nodes whose states are equal say so. One that has learned what the others have not stops, keeps its
// files, and has the state of the others after its next start.
func TestDigests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, nodes, _ := three(t)
	dir := t.TempDir()
	withFiles := func(o *Options) { o.Dir = dir }
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	odd, err := openNode(t, m, 2, &nodeClock{}, withFiles)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = odd.Close(context.Background()) })
	all := []*Server{nodes[0], nodes[1], odd}
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { _, err := nodes[1].GetModel(ctx, "news"); return err == nil })
	teach(t, nodes[0], nodes[1], 1)
	from := nodes[0].Health().Applied
	for _, s := range all { // at a mark behind the reward
		eventually(t, func() bool {
			s.nodes.mu.Lock()
			defer s.nodes.mu.Unlock()
			return s.nodes.digests.agreed > from
		})
		if h := s.Health(); !h.Ready || h.Cluster.Digest != "agrees" {
			t.Fatalf("%+v", h.Cluster)
		}
	}
	if err := odd.Close(ctx); err != nil { // with a snapshot
		t.Fatal(err)
	}
	if odd, err = openNode(t, m, 2, &nodeClock{}, withFiles); err != nil || odd.Health().Recovery.Snapshot == 0 {
		t.Fatalf("%+v, error %v", odd.Health().Recovery, err)
	}
	teach(t, nodes[0], nodes[1], 3)
	plant(t, odd)
	teach(t, nodes[1], nodes[0], 2)
	eventually(t, func() bool { return odd.Health().Cluster.Digest == "differs" })
	h := odd.Health()
	if h.Ready || !strings.Contains(h.Reason, "those of a and b have") {
		t.Errorf("ready %v: %s", h.Ready, h.Reason)
	}
	var differs *DifferError
	if _, err := odd.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)}); !errors.As(err, &differs) {
		t.Errorf("a node with another state decides: %v", err)
	}
	for i, s := range nodes[:2] {
		eventually(t, func() bool { return s.Health().Cluster.Nodes[2].Differs })
		eventually(t, func() bool { return s.Health().Cluster.Digest == "agrees" }) // when both have stated their digests
		if h := s.Health(); !h.Ready || h.Cluster.Nodes[1-i].Differs {
			t.Errorf("node %d: %+v", i, h.Cluster)
		}
	}
	teach(t, nodes[0], nodes[1], 3)
	_ = odd.Close(ctx)
	aside, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	if err != nil || len(aside) == 0 || !strings.HasSuffix(aside[0], ".differs") {
		t.Errorf("%v, %v: want the snapshots set aside", aside, err)
	}
	if odd, err = openNode(t, m, 2, &nodeClock{}, withFiles); err != nil || odd.Health().Recovery.Snapshot != 0 {
		t.Fatalf("%+v, error %v", odd.Health().Recovery, err)
	}
	for _, s := range []*Server{nodes[0], nodes[1], odd} {
		eventually(t, func() bool {
			h := s.Health()
			return h.Ready && h.Cluster.Digest == "agrees" && !h.Cluster.Nodes[2].Differs
		})
	}
	agree(t, nodes[0], nodes[1], odd)
	if _, err := os.Stat(aside[0]); err != nil {
		t.Error(err)
	}
}

// TestDigestsWithoutMajority: of two nodes that differ none goes on; a third one shows which is right.
func TestDigestsWithoutMajority(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { _, err := nodes[1].GetModel(ctx, "news"); return err == nil })
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	teach(t, nodes[0], nodes[0], 3)
	plant(t, nodes[1])
	teach(t, nodes[0], nodes[0], 1)
	for _, s := range nodes[:2] {
		eventually(t, func() bool { h := s.Health(); return !h.Ready && strings.Contains(h.Reason, "no majority agrees") })
		_, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)})
		wantCode(t, err, Unavailable, "no majority agrees")
		if got := s.Health().Cluster.Digest; got != "doubt" {
			t.Errorf("digest %q", got)
		}
	}
	third, err := openNode(t, m, 2, &nodeClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = third.Close(context.Background()) })
	eventually(t, func() bool { return nodes[1].Health().Cluster.Digest == "differs" })
	for _, s := range []*Server{nodes[0], third} {
		eventually(t, func() bool { h := s.Health(); return h.Ready && h.Cluster.Digest == "agrees" })
	}
	teach(t, nodes[0], third, 2)
	agree(t, nodes[0], third)
}
