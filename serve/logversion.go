package serve

import (
	"context"
	"fmt"

	"troupe/eventlog"
)

// logVersion sets the version in which c writes: the one that was asked for, LogVersion when none was. It
// returns whether the log is of a lower version, so that it has to be raised.
func (s *Server) logVersion(ctx context.Context, c *eventlog.CommitterOptions) (raise bool, err error) {
	newest, err := eventlog.NewestVersion(ctx, s.log, 0)
	if err != nil {
		return false, err
	}
	if s.opt.KeepLogVersion && newest > 0 {
		c.Version = newest
	}
	if c.Version == 0 {
		c.Version = eventlog.LogVersion
	}
	if c.Version < newest {
		return false, fmt.Errorf("log version %d was asked for, the log is of version %d already; a log never goes back", c.Version, newest)
	}
	return newest > 0 && newest < c.Version, nil
}

// raiseLog writes the record that raises the log to the version of its committer. A log that takes
// nothing at present is raised by the first batch that it takes, which needs no record: the version in
// the header of a batch decides.
func (s *Server) raiseLog(ctx context.Context, version uint16) {
	r := &eventlog.Control{Act: eventlog.RaiseVersion, Version: uint32(version), Time: s.opt.Now().UnixNano()}
	if _, err := s.append(ctx, r); err != nil {
		s.opt.Logger.Warn("the record that raises the log's version was not written", "version", version, "error", err.Error())
		return
	}
	s.opt.Logger.Info("the log was raised; earlier programs cannot read it any more", "version", version)
}
