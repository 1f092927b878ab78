package serve

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// entriesTime bounds how long Entries reads for one piece.
const entriesTime = 2 * time.Second

// Entries returns entries from sequence from on, up to what is applied: at least one when there is one, and no more
// than about so many bytes. From 0 is the beginning of the log.
func (s *exports) Entries(ctx context.Context, from uint64, bytes int) (Entries, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Entries{}, err
	}
	defer done()
	unread := func(err error) error {
		return &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	info, err := s.log.Info(ctx, 0)
	if err != nil {
		return Entries{}, unread(err)
	}
	out := Entries{First: info.First, Applied: s.progress.applied.Load()}
	switch {
	case from == 0:
		from = info.First
	case from < info.First:
		return out, &Error{Code: Gone, Field: "from", Want: fmt.Sprintf("the log begins with entry %d", info.First)}
	}
	if from > out.Applied {
		return out, nil
	}
	limit, cancel := context.WithTimeout(ctx, entriesTime)
	defer cancel()
	for e, err := range s.log.Read(limit, 0, from) {
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && len(out.Entries) > 0 {
				break
			}
			return out, unread(err)
		}
		out.Entries = append(out.Entries, e)
		if bytes -= len(e.Data); bytes <= 0 || e.Seq >= out.Applied {
			break
		}
	}
	return out, nil
}

// LogBase returns the base of a log that was trimmed, or is to be, as it is stored. NotFound for a log that is whole.
func (s *exports) LogBase(ctx context.Context) (LogBase, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return LogBase{}, err
	}
	defer done()
	seq := s.past.Base.Load()
	if seq == 0 {
		return LogBase{}, errorf(NotFound, "the log is whole: it has no base")
	}
	b, err := s.files.Read(seq)
	if err != nil {
		return LogBase{}, &Error{Code: Unavailable, Want: "the base cannot be read", RetryAfter: time.Second, Err: err}
	}
	return LogBase{seq, b}, nil
}

// Following implements Service.
func (s *exports) Following(name string, from uint64) {
	s.followers.note(name, from, s.opt.Clock.Now())
}
