package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/timing"
)

// The nodes of a cluster are a list in the log: a record names all of them and the list that it replaces. A new node
// writes the record itself, when it has all of the log, and the others are a majority of what the cluster is then. One
// that is gone is removed by an operator, at another node. Every node follows the list from that entry on. Then the
// first live node brings the engine under the log to the same nodes.

// leastNodes is how many nodes a cluster keeps: with two, none may be missing. mostNodes is what the engine replicates.
const (
	leastNodes = 3
	mostNodes  = 5
)

const (
	fitAgain = 30 * time.Second // when all is as it is to be
	fitFor   = 20 * time.Second
)

// membersLoop makes a new node one of the cluster's, and brings the engine to the list of the log.
func (s *member) membersLoop() {
	n := s.nodes
	tick := s.opt.Clock.Ticker(n.Every)
	defer tick.Stop()
	var told *[]string
	var fitted timing.Instant
	said := ""
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.windows.stopped():
			return
		case <-tick.C:
		}
		if s.progress.failure() != nil {
			return
		}
		list := n.members.Load()
		if list != told && n.known.Load() {
			told, fitted = list, 0
			n.setChange("", false)
			n.Engine.Changed(*list)
		}
		waits, judged, settled := s.fitStep(list, &fitted)
		if waits != said && waits != "" && s.ctx.Err() == nil {
			s.opt.Logger.Info("the change of the nodes", "waits", waits)
		}
		said = waits
		n.setChange(waits, settled)
		if judged {
			n.judged.Store(list)
		}
	}
}

// fitStep makes a new node one of the cluster's, or brings the engine a step closer to the list, which it was at
// fitted. A node whose list may be older than the log changes nothing: it might take away a server that was added
// since.
func (s *member) fitStep(list *[]string, fitted *timing.Instant) (waits string, judged, settled bool) {
	n := s.nodes
	switch {
	case !slices.Contains(*list, n.Node):
		return s.join(*list), true, false
	case n.stale() != nil:
		return "", false, false
	case n.rank() > 0:
		return "", true, false
	case s.opt.Clock.Since(*fitted) < fitAgain:
		return "", true, true
	}
	ctx, cancel := context.WithTimeout(s.ctx, fitFor)
	defer cancel()
	n.mu.Lock()
	gone := slices.Clone(n.gone)
	n.mu.Unlock()
	waits, err := n.Engine.Fit(ctx, *list, gone)
	if err != nil {
		waits = err.Error()
	}
	if settled = waits == "" && list == n.members.Load(); settled {
		*fitted = s.opt.Clock.Mark()
	}
	return waits, true, settled
}

// setChange keeps what a change of the nodes waits for, and whether this node has seen its end.
func (n *nodes) setChange(waits string, settled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.change, n.settled = waits, settled
}

// join writes the record that makes this node one of the cluster's, as soon as it may. It returns what it waits for.
func (s *member) join(names []string) (waits string) {
	n := s.nodes
	list := append(slices.Clone(names), n.Node)
	missing := slices.DeleteFunc(slices.Clone(n.Nodes), func(x string) bool { return slices.Contains(list, x) })
	live, silent := n.others(names)
	most := len(list)/2 + 1
	switch {
	case len(missing) > 0:
		return strings.Join(missing, " and ") + " of its cluster.toml is not one of the cluster's either"
	case len(list) > mostNodes:
		return fmt.Sprintf("the cluster has %d nodes already", len(names))
	case n.contact.Load() == noContact:
		return "it does not reach a majority of the others"
	case len(live) < most:
		return fmt.Sprintf("a majority of the %d nodes is %d, and %s is missing", len(list), most,
			strings.Join(silent, " and "))
	}
	ctx, cancel := context.WithTimeout(s.ctx, fitFor)
	defer cancel()
	if err := n.Engine.InGroup(ctx); err != nil {
		return err.Error()
	}
	if err := s.changeMembers(ctx, names, list); err != nil {
		return err.Error()
	}
	return ""
}

// changeMembers writes the record that replaces the list from by to, and waits until it is applied. The checkpoint
// behind it says that the new list is in use.
func (s *member) changeMembers(ctx context.Context, from, to []string) error {
	now, applied := s.opt.Clock.Now().UnixNano(), s.progress.applied.Load()
	receipt, err := s.append(ctx, &eventlog.Control{Act: eventlog.Members, Data: []byte(strings.Join(to, "\n")),
		Digest: fold.NamesDigest(from), Time: now}, s.nodes.checkpoint(now, applied))
	if err != nil {
		return err
	}
	out, err := s.applied(ctx, receipt, 1)
	if err == nil && out[0] == fold.Conflict {
		err = errorf(Conflict, "the nodes have changed meanwhile")
	}
	return err
}

// replicated returns an error unless most of the nodes that stay have all of the log, as its leader saw it last: after
// the loss of one more machine a node that was just added has nothing to elect with until its replica is there.
func (n *nodes) replicated(stay []string, most int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replicas == nil { // the log does not say
		return nil
	}
	have, lack := 0, []string{}
	for _, name := range stay {
		i := slices.IndexFunc(n.replicas, func(r eventlog.Replica) bool { return r.Name == name })
		switch {
		case i < 0:
			lack = append(lack, name+" has no replica yet")
		case n.replicas[i].Behind != "":
			lack = append(lack, name+" "+n.replicas[i].Behind)
		default:
			have++
		}
	}
	if have >= most {
		return nil
	}
	return errorf(Changing, "a change of the nodes is under way: %s", strings.Join(lack, ", "))
}

// removeNode is Server.RemoveNode. admin is the turn of control acts.
func (s *member) removeNode(ctx context.Context, name string, admin *sync.Mutex) error {
	n := s.nodes
	switch {
	case n == nil:
		return errorf(Conflict, "this server is no node of a cluster")
	case n.Engine == nil:
		return errorf(Conflict, "the log is at servers of others: the list of --nats-nodes does not change")
	}
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	admin.Lock()
	defer admin.Unlock()
	names := n.list()
	live, silent := n.others(names)
	// what is stored until the engine has removed it needs a majority of all that were there
	most := len(names)/2 + 1
	switch {
	case !slices.Contains(names, name):
		return invalid("node", name, "expected one of the nodes %s", strings.Join(names, ", "))
	case len(names) <= leastNodes:
		return errorf(Conflict, "the cluster has %d nodes, the least there may be: replace %s by another machine "+
			"(troupe cluster replace), or add one before", len(names), name)
	case name == n.Node:
		return errorf(Conflict, "this is node %s: ask another one to remove it", name)
	case slices.Contains(live, name):
		return errorf(Conflict, "node %s is live: drain it and stop it first", name)
	case 1+len(live) < most:
		return errorf(Conflict, "a majority of the %d nodes is %d, and %s would be missing", len(names), most,
			strings.Join(silent, " and "))
	}
	to := slices.DeleteFunc(slices.Clone(names), func(x string) bool { return x == name })
	if err := n.replicated(to, most); err != nil {
		return err
	}
	err = s.changeMembers(ctx, names, to)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		err = &Error{Code: Unavailable, Want: "the log does not answer", RetryAfter: time.Second, Err: err}
	}
	return err
}
