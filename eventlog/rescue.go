package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"troupe/timing"
)

// rescueAfter is how long the engine's own group must have had no leader before its quorum is lowered. An election
// takes 4 to 9 s.
const rescueAfter = 30 * time.Second

// metaGroup is the name of the engine's own group.
const metaGroup = "_meta_"

// voter is a server of the engine's own group, as it sees the group itself.
type voter struct {
	size   int      // of the group
	counts []string // the servers of the group that it knows by id, its own among them: size or fewer
	empty  bool     // it has nothing of the group's log, so its vote does not count in an ordinary election
	led    bool     // it hears a leader
}

// stuck returns the quorum with which the engine's own group is to elect, 0 where it must be left alone. voters are the
// servers that answer, by id, nodes the ids of the nodes that the log has, and gone of those that were removed from it.
//
// An ordinary election needs ⌊C/2⌋+1 votes of the C servers that are counted, and those of servers without the group's
// log do not count. The group is stuck when the servers that answer have fewer. Then the nodes that answer may elect,
// also with the votes of empty servers, by as many votes as they have, an ordinary quorum at most, if
//
//  1. they are a majority of the nodes,
//  2. the servers that are counted and do not answer are no majority of those counted: they cannot elect, and
//  3. where the quorum is below the ordinary one, a server is counted that was removed from the nodes and does
//     not answer.
//
// By 2 the quorum is at least C/2. So it is below the ordinary one only for an even C, and then C/2. Two sets without a
// common server that both elect, one of them at least by C/2 votes, are all C servers together, by 3 also every one
// that was removed. While one of these stays away there are no two.
func stuck(voters map[string]voter, nodes, gone []string) (quorum int) {
	answers := func(id string) bool { _, ok := voters[id]; return ok }
	isNode := func(id string) bool { return slices.Contains(nodes, id) }
	if within(nodes, answers) < len(nodes)/2+1 {
		return 0
	}
	needed := false
	for _, v := range voters {
		if v.led {
			return 0
		}
		if v.empty {
			continue
		}
		ordinary := v.size/2 + 1
		may := within(v.counts, func(id string) bool { return isNode(id) && answers(id) })
		if v.size-may >= ordinary {
			return 0
		}
		away := within(v.counts, func(id string) bool { return slices.Contains(gone, id) && !answers(id) })
		if may < ordinary && away == 0 {
			return 0
		}
		full := within(v.counts, func(id string) bool { return answers(id) && !voters[id].empty })
		needed = needed || full < ordinary
		quorum = max(quorum, min(may, ordinary))
	}
	if !needed {
		return 0
	}
	return quorum
}

// within counts the ids for which a condition holds.
func within(ids []string, is func(id string) bool) (n int) {
	for _, id := range ids {
		if is(id) {
			n++
		}
	}
	return n
}

// leaderless is since when the engine's own group has no leader, as this node sees it.
type leaderless struct {
	mu    sync.Mutex
	since timing.Instant // 0 while it has one
	after time.Duration  // it is rescued then
}

// led notes that the group has a leader.
func (l *leaderless) led() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = 0
}

// long reports whether the group has had no leader for long. It begins to count anew then: the group has time for an
// election before it is rescued again.
func (l *leaderless) long(now timing.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 {
		l.since = now
	}
	if now.Sub(l.since) < l.after {
		return false
	}
	l.since = now
	return true
}

// rescue lets the engine's own group elect a leader where it cannot because it counts servers that are gone: its leader
// was lost for good before the others heard that one of them was removed, and the machine in its place, whose disk is
// empty, has no full vote. The log says which nodes there are, by a majority: names are these, which must be no older
// than the log, and gone were removed from it. Servers that have the group's log and hear no leader take the request
// (META.RESCUE), for five minutes. Nothing of the group is lost that Fit does not make again.
func (n *Node) rescue(ctx context.Context, names, gone []string) error {
	voters, err := n.voters(ctx, names)
	if err != nil {
		return err
	}
	quorum := stuck(voters, peerIDs(names), peerIDs(gone))
	if quorum == 0 {
		return nil
	}
	request, err := json.Marshal(server.JSApiMetaRescueRequest{QuorumNeeded: quorum})
	if err == nil {
		err = n.system.Publish(server.JSApiMetaRescue, request)
	}
	if err != nil {
		return fmt.Errorf("rescue the engine's group: %w", err)
	}
	n.logf("the engine's own group counts servers that are gone and has no leader: %d of the nodes %s may elect one",
		quorum, strings.Join(names, ", "))
	return nil
}

func peerIDs(names []string) (ids []string) {
	for _, name := range names {
		ids = append(ids, peerID(name))
	}
	return ids
}

// voters asks the servers of the engine's own group how they see it.
func (n *Node) voters(ctx context.Context, names []string) (map[string]voter, error) {
	all := map[string]voter{}
	question, err := json.Marshal(server.RaftzOptions{GroupFilter: metaGroup})
	if err != nil {
		return nil, err
	}
	err = n.askServers(ctx, "RAFTZ", question, func(data []byte) error {
		var a struct {
			Server struct{ Name string }
			Data   map[string]map[string]struct {
				Size   int    `json:"size"`
				Leader string `json:"leader"`
				PIndex uint64 `json:"pindex"`
				Peers  map[string]struct{}
			}
		}
		if err := json.Unmarshal(data, &a); err != nil {
			return fmt.Errorf("engine's group: %w", err)
		}
		for _, groups := range a.Data {
			if g, ok := groups[metaGroup]; ok {
				id := peerID(a.Server.Name)
				v := voter{size: g.Size, counts: []string{id}, empty: g.PIndex == 0, led: g.Leader != ""}
				for peer := range g.Peers {
					v.counts = append(v.counts, peer)
				}
				v.size = max(v.size, len(v.counts))
				all[id] = v
			}
		}
		return nil
	}, func(long bool) bool {
		return long || within(names, func(name string) bool { _, ok := all[peerID(name)]; return ok }) == len(names)
	})
	return all, err
}
