package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/eventlog"
)

// Add takes a node into the log: it gets all entries as a learner, and is a voter when it has what was committed a heartbeat ago. A
// member with this id gets the name and the address. Add returns when it is a voter in all shards. Any node may be asked. After an
// error it may be a learner; Add again goes on, and Remove undoes it.
func (l *Log) Add(ctx context.Context, m Member) error {
	if err := m.check(); err != nil {
		return err
	}
	return l.reshape(ctx, &m, 0)
}

// Replace takes a node into the log, and in the same change another one out of it: see Add and Remove. They may have the same name.
func (l *Log) Replace(ctx context.Context, old uint64, m Member) error {
	if err := m.check(); err != nil {
		return err
	}
	if old == 0 || old == m.ID {
		return fmt.Errorf("raftlog: node %d in the place of node %d, want another one", m.ID, old)
	}
	return l.reshape(ctx, &m, old)
}

// Remove takes a node out of the log, in all shards. It is refused while fewer than a majority of the voters that are left have the
// newest entries. A node that is removed ends with ErrRemoved when it hears of it, the others refuse what it sends, and its id is
// never taken again. A leader hands over first.
func (l *Log) Remove(ctx context.Context, id uint64) error {
	err := l.reshape(ctx, nil, id)
	if id == l.opt.ID && errors.Is(err, ErrRemoved) {
		return nil
	}
	return err
}

func (l *Log) reshape(ctx context.Context, add *Member, remove uint64) error {
	found := false
	var missing error
	for n := range l.opt.Shards {
		if err := l.Ready(ctx, n); err != nil { // so that it knows the members that there are
			return err
		}
		switch err := l.shards[n].reshape(ctx, add, remove); {
		case errors.Is(err, errNoMember): // a change that was interrupted reached some shards
			missing = err
		case err != nil:
			return fmt.Errorf("shard %d: %w", n, err)
		default:
			found = true
		}
	}
	if !found {
		return missing
	}
	return nil
}

func (s *shard) reshape(ctx context.Context, add *Member, remove uint64) error {
	l := s.log
	if _, err := l.begin(s.n); err != nil {
		return err
	}
	defer l.calls.Done()
	done := make(chan error, 1)
	var no uint64
	if err := s.call(ctx, func(c *core) {
		no = c.goalNo + 1
		s.goals[no] = done
		c.pursue(add, remove)
	}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-l.done:
		return eventlog.ErrClosed
	case <-l.ended:
		return l.Err()
	}
	var why error
	if err := s.call(context.Background(), func(c *core) {
		why = c.abandon(no)
		delete(s.goals, no)
	}); err != nil {
		return err
	}
	if why == nil {
		why = fmt.Errorf("the leader, node %d, has not taken it", l.Status(s.n).Leader)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), why)
}

// Introduce tells this node of others, which may speak to it before its log names them: of nodes that joined while it was away.
func (l *Log) Introduce(ctx context.Context, known ...Member) error {
	for _, m := range known {
		if err := m.check(); err != nil {
			return err
		}
	}
	for _, s := range l.shards {
		if _, err := l.begin(s.n); err != nil {
			return err
		}
		var err error
		done := make(chan struct{})
		if e := s.call(ctx, func(c *core) {
			news := c.mem.unknown(known)
			if !slices.ContainsFunc(news, func(x Member) bool { return !slices.Contains(c.mem.known, x) }) {
				close(done) // it knows
				return
			}
			rest := slices.DeleteFunc(slices.Clone(c.mem.known), func(x Member) bool {
				return slices.ContainsFunc(news, func(y Member) bool { return x.ID == y.ID })
			})
			if news = append(rest, news...); len(news) > maxBook {
				err = fmt.Errorf("raftlog: %d nodes that the log does not name, at most %d", len(news), maxBook)
				close(done)
				return
			}
			c.introduce(news, done)
			s.publish(c)
		}); e != nil {
			err = e
		} else {
			select {
			case <-done:
			case <-ctx.Done():
				err = ctx.Err()
			case <-l.done:
				err = eventlog.ErrClosed
			case <-l.ended:
				err = l.Err()
			}
		}
		l.calls.Done()
		if err != nil {
			return err
		}
	}
	return nil
}

// publish says what this node knows: to Status, and to the network whom it speaks with.
func (s *shard) publish(c *core) {
	m := c.mem
	s.status.Store(&Status{c.id, c.lead, c.term, c.applied, slices.Clone(m.conf.GetVoters()), slices.Clone(m.conf.GetLearners()), slices.Clone(m.book), slices.Clone(m.gone)})
	l := s.log
	net, ok := l.opt.Network.(Peers)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.peers = append(slices.Clone(m.book), m.known...)
	var all []Member
	for _, x := range l.shards {
		for _, p := range x.peers {
			if p.ID != c.id && !slices.ContainsFunc(all, func(y Member) bool { return y.ID == p.ID }) {
				all = append(all, p)
			}
		}
	}
	if slices.Equal(all, l.peers) || l.closed {
		return
	}
	if err := net.SetPeers(all...); err != nil {
		l.opt.Logf("shard %d: the network does not take the members: %v", s.n, err)
		return
	}
	l.peers = all
}
