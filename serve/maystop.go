package serve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/eventlog"
)

// Fitness says of a node why those that stay could not go on at once with it, when another node stops: what it Lacks,
// empty for nothing.
type Fitness struct{ Name, Lacks string }

// MayStop returns the nodes of which one may be stopped now without a pause for more than an election: the others that
// lack nothing are a majority of all.
func MayStop(nodes []Fitness) (names []string) {
	fit := 0
	for _, n := range nodes {
		if n.Lacks == "" {
			fit++
		}
	}
	for _, n := range nodes {
		left := fit
		if n.Lacks == "" {
			left--
		}
		if left > len(nodes)/2 {
			names = append(names, n.Name)
		}
	}
	return names
}

// MayStopText says in words what MayStop returns, and where that is not every node, why.
func MayStopText(nodes []Fitness) string {
	names := MayStop(nodes)
	var lacks []string
	for _, n := range nodes {
		if n.Lacks != "" {
			lacks = append(lacks, n.Name+" "+n.Lacks)
		}
	}
	why := strings.Join(lacks, ", ")
	switch {
	case len(names) == 0 && why == "":
		return "none: a majority would be missing"
	case len(names) == 0:
		return "none: a majority would be missing, because " + why
	}
	text := strings.Join(names, ", ")
	if len(names) > 1 {
		text = "one of " + text
	}
	if len(names) < len(nodes) {
		text += "; not another one: " + why
	}
	return text
}

// needed says in words why this node may not be stopped now; it is empty when it may. A node that is alone is not
// needed by others, and one that is not on the list of nodes is not either.
func (c *ClusterHealth) needed() string {
	all := c.Fitness()
	on := slices.ContainsFunc(all, func(f Fitness) bool { return f.Name == c.Node })
	if len(all) == 1 || !on || slices.Contains(MayStop(all), c.Node) {
		return ""
	}
	return fmt.Sprintf("%s may not be stopped now; may be stopped now: %s", c.Node, MayStopText(all))
}

// muchBehind is how many entries a node may not have applied when it writes a checkpoint: a busy log takes fewer while
// one is on its way.
const muchBehind = 1024

// Fitness says what each node of the log lacks, as this one knows the others. A node that is silent, has another state
// or has not applied the log to its end lacks something; and so does one whose replica is not current in each of the
// engine's groups, where the nodes are the servers of the log.
func (c *ClusterHealth) Fitness() (all []Fitness) {
	for _, n := range c.Nodes {
		f := Fitness{Name: n.Name}
		at := slices.IndexFunc(c.Replicas, func(r eventlog.Replica) bool { return r.Name == n.Name })
		switch {
		case n.Heard < 0:
			f.Lacks = "was never heard of"
		case n.Heard > contactFor.Seconds():
			f.Lacks = fmt.Sprintf("was not heard of for %.0f s", n.Heard)
		case n.Differs:
			f.Lacks = "has models with another digest"
		case c.Attested == nil && at < 0:
			f.Lacks = "has no replica that is known of"
		case c.Attested == nil && c.Replicas[at].Behind != "":
			f.Lacks = c.Replicas[at].Behind
		case n.Lag > muchBehind:
			f.Lacks = fmt.Sprintf("has not applied %d entries", n.Lag)
		}
		all = append(all, f)
	}
	return all
}

// groupsEvery is how often a node asks what the engine's other groups have. They change seldom.
const groupsEvery = 2 * time.Second

// present returns the replicas, with what is known of them in the engine's other groups. What was asked for too long
// ago is not known. The caller holds mu.
func (n *nodes) present() []eventlog.Replica {
	out := slices.Clone(n.replicas)
	now := n.passed()
	for i := range out {
		r := &out[i]
		switch {
		case r.Behind != "":
		case now-n.asked > contactFor:
			r.Behind = "may be behind: no node leads the log"
		case !n.groups:
		case n.behind == nil || now-n.behindAt > 2*contactFor:
			r.Behind = "may be behind: no node leads the engine's own group"
		default:
			r.Behind = n.behind[r.Name]
		}
	}
	return out
}
