package raftnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"troupe/eventlog"
	"troupe/eventlog/raftlog"
)

// What a node asks another one.
const (
	doState    = "state"    // what it knows of the log
	doJoin     = "join"     // to take the caller in
	doReplicas = "replicas" // how far the nodes are, of the one that leads
	doBases    = "bases"    // which bases it has
	doBase     = "base"     // a piece of one
)

// question is what a node asks another one.
type question struct {
	Do     string
	Member raftlog.Member `json:",omitzero"`
	Base   eventlog.Base  `json:",omitzero"`
	At     int64          `json:",omitzero"`
}

// state is what a node knows of the log.
type state struct {
	Fresh   bool // it has none
	Members []raftlog.Member
	Voters  []uint64
	Removed []uint64

	from raftlog.Member
}

// call asks a node.
func (n *Node) call(ctx context.Context, to raftlog.Member, q question) ([]byte, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return n.net.Call(ctx, to, b)
}

// get asks a node and reads its answer.
func get[T any](ctx context.Context, n *Node, to raftlog.Member, q question) (a T, err error) {
	b, err := n.call(ctx, to, q)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// ask asks the nodes of the operator's file what they know, all at once, and returns the names of those that do not answer.
func (n *Node) ask(ctx context.Context) (states []state, missing []string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	all := make([]state, len(n.opt.Peers))
	errs := make([]error, len(n.opt.Peers))
	var wg sync.WaitGroup
	for i, p := range n.opt.Peers {
		wg.Go(func() {
			all[i], errs[i] = get[state](ctx, n, p, question{Do: doState})
			all[i].from = p
		})
	}
	wg.Wait()
	for i, p := range n.opt.Peers {
		if errs[i] != nil {
			missing = append(missing, p.Name)
		} else {
			states = append(states, all[i])
		}
	}
	return states, missing
}

// Answer implements raftnet.Answers.
func (n *Node) Answer(ctx context.Context, name string, b []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, err
	}
	l := n.log.Load()
	if l == nil && q.Do != doState {
		return nil, errors.New("it has no log yet")
	}
	switch q.Do {
	case doState:
		s := state{Fresh: n.fresh.Load()}
		if l != nil {
			now := l.Status(0)
			s.Members, s.Voters, s.Removed = now.Members, now.Voters, now.Removed
		}
		return json.Marshal(s)
	case doJoin:
		return nil, n.takeIn(ctx, l, name, q.Member)
	case doReplicas:
		all, err := n.progress(ctx, l)
		if err == nil && all == nil {
			err = errors.New("it does not lead")
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(all)
	case doBases:
		all, err := n.ownBases()
		if err != nil {
			return nil, err
		}
		return json.Marshal(all)
	case doBase:
		return n.basePiece(q.Base, q.At)
	}
	return nil, fmt.Errorf("%q: no such question", q.Do)
}

// takeIn makes a node a voter, in the place of the member with its name if there is one. That one must have no connection to the
// leader: two processes with one name are a mistake, and the one that is there stays. A learner with its name is one that lost its
// disk again before it voted; it goes.
func (n *Node) takeIn(ctx context.Context, l *raftlog.Log, name string, m raftlog.Member) error {
	if m.Name != name {
		return fmt.Errorf("a node with the certificate of %s asks as %s", name, m.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, takeInFor)
	defer cancel()
	if err := l.Ready(ctx, 0); err != nil {
		return fmt.Errorf("it has no majority: %w", err)
	}
	now := l.Status(0)
	var same []uint64 // the voter with its name last
	for _, x := range now.Members {
		if x.Name != name || x.ID == m.ID {
			continue
		}
		switch {
		case x.ID == n.id || n.net.Connected(x.ID):
			return fmt.Errorf("another process is node %s, and is connected", name)
		case now.Leader != n.id: // the others may have lost a link to a node that is there
			return errors.New("it does not lead, and another node had the name")
		case slices.Contains(now.Voters, x.ID):
			same = append(same, x.ID)
		default:
			same = slices.Insert(same, 0, x.ID)
		}
	}
	for len(same) > 1 || len(same) == 1 && !slices.Contains(now.Voters, same[0]) {
		if err := l.Remove(ctx, same[0]); err != nil {
			return err
		}
		same = same[1:]
	}
	switch {
	case len(same) == 0 && len(now.Members) >= n.opt.Most && !slices.ContainsFunc(now.Members, func(x raftlog.Member) bool { return x.ID == m.ID }):
		return fmt.Errorf("the log has %d nodes, the most there may be", len(now.Members))
	case len(same) == 0:
		return l.Add(ctx, m)
	}
	n.opt.Logf("node %s has an empty directory: it takes the place of the one with its name", name)
	return l.Replace(ctx, same[0], m)
}

// Replicas implements eventlog.Replicated.
func (n *Node) Replicas(ctx context.Context) ([]eventlog.Replica, error) {
	l := n.log.Load()
	now := l.Status(0)
	i := slices.IndexFunc(now.Members, func(m raftlog.Member) bool { return m.ID == now.Leader })
	switch {
	case i < 0:
		return nil, fmt.Errorf("%w: no node leads it", eventlog.ErrSilent)
	case now.Leader == n.id:
		return n.progress(ctx, l)
	}
	return get[[]eventlog.Replica](ctx, n, now.Members[i], question{Do: doReplicas})
}

// progress is what this node knows of the others where it leads, with itself first.
func (n *Node) progress(ctx context.Context, l *raftlog.Log) (out []eventlog.Replica, err error) {
	all, err := l.Progress(ctx, 0)
	for _, p := range all {
		r := eventlog.Replica{Name: p.Name, Leader: p.ID == n.id, Current: p.Current, Offline: !p.Active, Lag: p.Lag}
		switch {
		case !p.Active:
			r.Behind = "is not connected to the node that leads"
		case !p.Current:
			r.Behind = fmt.Sprintf("lacks %d entries", p.Lag)
		case !p.Voter:
			r.Behind = "does not vote yet"
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b eventlog.Replica) int {
		switch {
		case a.Leader:
			return -1
		case b.Leader:
			return 1
		}
		return 0
	})
	return out, err
}

// InGroup returns why this node does not take part yet, nil when it votes.
func (n *Node) InGroup(context.Context) error {
	if !slices.Contains(n.log.Load().Status(0).Voters, n.id) {
		return errors.New("it does not vote yet")
	}
	return nil
}

// Changed takes the list of the nodes; the log has it.
func (n *Node) Changed([]string) {}

// Fit removes the members that are not on the list: those in gone, and others that have had no connection to this node for a while. A
// node that is about to join has one. It returns what it waits for.
func (n *Node) Fit(ctx context.Context, names, gone []string) (waits string, err error) {
	l := n.log.Load()
	now := l.Status(0)
	for _, m := range now.Members {
		if slices.Contains(names, m.Name) {
			continue
		}
		if !slices.Contains(gone, m.Name) {
			if left := n.isAway(m); left {
				waits = m.Name + " is not on the list, and has no connection: it is removed soon"
				continue
			} else if n.net.Connected(m.ID) {
				continue
			}
		}
		if err := l.Remove(ctx, m.ID); err != nil {
			return "", fmt.Errorf("node %s is not removed: %w", m.Name, err)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(now.Members, func(m raftlog.Member) bool { return m.Name == name })
		if i < 0 || !slices.Contains(now.Voters, now.Members[i].ID) {
			waits = name + " does not vote yet"
		}
	}
	return waits, nil
}

// isAway notes that a member has no connection, and reports whether it has had none for less than awayFor.
func (n *Node) isAway(m raftlog.Member) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.net.Connected(m.ID) {
		delete(n.away, m.ID)
		return false
	}
	if _, ok := n.away[m.ID]; !ok {
		n.away[m.ID] = n.opt.Clock.Mark()
	}
	return n.opt.Clock.Since(n.away[m.ID]) < awayFor
}
