package serve

import (
	"context"
	"fmt"
	"strings"

	"troupe/eventlog"
)

// clusterVersion is the first log version that a cluster can write, and every program that knows clusters reads it.
const clusterVersion = 2

// newest is the highest log version that this program reads and writes.
func (o *Options) newest() uint16 { return max(o.future, eventlog.LogVersion) }

// logVersion sets the version in which c writes: the one that was asked for, the highest when none was. It returns
// whether the log is of a lower version, so that it has to be raised. A node of a cluster writes in the version that
// the log has until every node can read a higher one; see raiseTogether.
func (s *Server) logVersion(ctx context.Context, c *eventlog.CommitterOptions) (raise bool, err error) {
	newest, err := eventlog.NewestVersion(ctx, s.log, 0, s.batches)
	if err != nil {
		return false, err
	}
	// in a cluster the newest batch may be of a node that had not heard of the raise
	newest = max(newest, s.recovery.version)
	if s.opt.KeepLogVersion && newest > 0 {
		c.Version = newest
	}
	if c.Version == 0 {
		c.Version = s.opt.newest()
	}
	if c.Version < newest {
		return false, fmt.Errorf("log version %d was asked for, the log is of version %d already; a log never goes "+
			"back", c.Version, newest)
	}
	if s.nodes != nil {
		if c.Version < clusterVersion {
			return false, fmt.Errorf("log version %d was asked for, a cluster needs %d", c.Version, clusterVersion)
		}
		s.nodes.readable, c.Version = c.Version, max(newest, clusterVersion)
	}
	return newest > 0 && newest < c.Version, nil
}

// raiseLog writes the record that raises the log to the version of its committer. A log that takes
// nothing at present is raised by the first batch that it takes, which needs no record: the version in
// the header of a batch decides.
func (s *writer) raiseLog(ctx context.Context, version uint16) {
	r := &eventlog.Control{Act: eventlog.RaiseVersion, Version: uint32(version), Time: s.opt.Now().UnixNano()}
	if _, err := s.append(ctx, r); err != nil {
		s.opt.Logger.Warn("the record that raises the log's version was not written", "version", version, "error",
			err.Error())
		return
	}
	s.opt.Logger.Info("the log was raised; earlier programs cannot read it any more", "version", version)
}

// raiseTogether raises the log of a cluster when every node is live and its newest checkpoint says that it can read the
// higher version. The first live node does it; the others write in that version when they have applied its record.
// Until then each node may go back to an earlier program.
func (s *member) raiseTogether() {
	n, version := s.nodes, s.committer.Version()
	readable, behind := n.readableByAll()
	switch {
	case readable > version && n.rank() == 0:
		s.committer.Raise(readable)
		s.raiseLog(s.ctx, readable)
	case n.readable > version && len(behind) > 0 && !n.toldBehind:
		n.toldBehind = true
		s.opt.Logger.Info("the log is not raised before every node can read the higher version", "version", version,
			"to", n.readable, "waits for", strings.Join(behind, ", "))
	}
}

// readableByAll returns the highest log version that every node has said it can read, 0 while one is not live, and the
// live nodes that cannot read what this one can.
func (n *nodes) readableByAll() (version uint16, behind []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := n.live()
	version = n.readable
	for _, name := range n.Nodes {
		h, ok := live[name]
		if version = min(version, h.readable); !ok {
			version = 0
		}
		if ok && h.readable < n.readable {
			behind = append(behind, name)
		}
	}
	return version, behind
}
