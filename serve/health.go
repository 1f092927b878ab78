package serve

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"troupe/eventlog"
)

// failing returns the names of the models whose newest try to decide failed in their policy.
func (s *state) failing() (names []string) {
	if s.broken.Load() == 0 {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.entries {
		if e.failed() != "" {
			names = append(names, e.version.Load().Compiled.Config.ID)
		}
	}
	slices.Sort(names)
	return names
}

// Health implements Service.
func (s *Server) Health() Health {
	stats := s.committer.Stats()
	h := Health{
		Ready: true, Applied: s.progress.applied.Load(), Log: stats.Head.Seq, Epoch: s.committer.Epoch(),
		Committer: stats,
		Full:      s.full.Load(), Models: s.names.len(), Open: uint64(max(0, s.open.Load())),
		Keys: uint64(s.known.Load()), Refused: s.refused.Load(),
		Forged: s.recent.Forged(), Malformed: s.recent.Malformed(), Missing: s.recent.Missing(), Started: s.started, Recovery: s.recovery,
	}
	h.Lag, _ = bits.Sub64(max(h.Log, h.Applied), h.Applied, 0)
	h.Snapshot, h.SnapshotError = s.snapshots.status()
	g := s.member.glances.take()
	h.ModelBytes, h.Awake = g.bytes+int64(s.shown.size()), g.awake
	h.Failed = s.state.failing()
	h.InFlight = s.calls.n.Load()
	h.Followers = s.exports.followers.list(s.opt.Clock.Now())
	h.LogBytes, h.LogLimit = s.space.bytes.Load(), s.space.limit.Load()
	closed := s.calls.closed.Load()
	err := s.stopped()
	var gap *eventlog.GapError
	var chain *eventlog.ChainError
	var files *eventlog.DamagedError
	if errors.As(err, &gap) || errors.As(err, &chain) || errors.As(err, &files) {
		h.Damage = errors.Unwrap(err).Error()
	}
	if s.own != nil && h.Damage == "" {
		if d := s.own.Damaged(); d != nil {
			h.Damage = d.String()
		}
	}
	h.Cluster = s.member.healthOf(g.nodes)
	switch {
	case err != nil:
		h.Ready, h.Reason = false, err.(*Error).Want
		h.Full = h.Full || CodeOf(err) == Full
	case h.Cluster != nil && math.Abs(h.Cluster.Clock) > clockOff.Seconds():
		h.Ready, h.Reason = false, fmt.Sprintf("the clock of this node is %+.1f s off the median of the cluster's",
			h.Cluster.Clock)
	case closed:
		h.Ready, h.Reason = false, "the server is shutting down"
	case h.Full:
		h.Ready, h.Reason = false, "the log is full"
	}
	return h
}
