package eventlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestStuck: when the engine's own group may elect with the nodes that answer, and by how many votes.
func TestStuck(t *testing.T) {
	for _, c := range []struct {
		what   string
		nodes  string            // of the log; behind a - those that were removed
		voters map[string]string // by server that answers: the servers it counts, - an empty log, ! it hears a leader
		quorum int
	}{
		{"all are there", "abc-d", map[string]string{"a": "abc", "b": "abc", "c": "abc"}, 0},
		{"an ordinary majority is there", "abc-d", map[string]string{"a": "abc", "b": "abc"}, 0},
		{"one of three", "abc-d", map[string]string{"a": "abc"}, 0},
		{"one is gone, one is empty", "abc-d", map[string]string{"a": "abcd", "b": "abcd", "c": "abcd-"}, 3},
		{"one is gone, one is away", "abc-d", map[string]string{"a": "abcd", "b": "abcd"}, 2},
		{"two are gone, one is empty", "abc-de", map[string]string{"a": "abcde", "b": "abcde", "c": "abc-"}, 3},
		{"two are gone, one is away: three may elect", "abc-de", map[string]string{"a": "abcde", "b": "abcde"}, 0},
		{"an empty one that counts nothing", "abc-d", map[string]string{"a": "abcd", "b": "abcd", "c": "c-"}, 3},
		{"all are empty", "abc-d", map[string]string{"a": "abc-", "b": "abc-", "c": "abc-"}, 0},
		{"one hears a leader", "abc-d", map[string]string{"a": "abcd", "b": "abcd!"}, 0},
		{"one that is no node hears a leader", "abc-d", map[string]string{"a": "abcd", "b": "abcd", "e": "abcde!"}, 0},
		{"half of the nodes", "abcd", map[string]string{"a": "abcd", "b": "abcd"}, 0},
		{"half, and a node that is not counted", "abcde", map[string]string{"a": "abcd", "b": "abcd", "e": "abcd-"}, 0},
		{"the removed one runs, one is away", "abc-d", map[string]string{"a": "abcd", "b": "abcd", "d": "abcd"}, 0},
		{"the removed one runs, one is empty", "abc-d", map[string]string{"a": "abcd", "b": "abcd-", "d": "abcd"}, 0},
		{"one heard of the removal, one did not", "abc-d", map[string]string{"a": "abcd", "b": "abc"}, 2},
		{"one is new, one is away", "abc-e", map[string]string{"a": "abcd", "b": "abcd"}, 0},
		{"one is new, one is empty", "abc", map[string]string{"a": "abcd", "b": "abcd", "c": "abc-"}, 3},
		{"one counts a server that it does not know", "abc-d", map[string]string{"a": "abc?", "b": "abc?"}, 0},
		{"one of two is gone, and alone no majority", "abc-d", map[string]string{"a": "ad"}, 0},
	} {
		nodes, gone, _ := strings.Cut(c.nodes, "-")
		voters := map[string]voter{}
		for id, s := range c.voters {
			counts := strings.Trim(s, "-!?")
			voters[id] = voter{size: len(counts) + strings.Count(s, "?"), counts: strings.Split(counts, ""),
				empty: strings.Contains(s, "-"), led: strings.Contains(s, "!")}
		}
		if got := stuck(voters, strings.Split(nodes, ""), strings.Split(gone, "")); got != c.quorum {
			t.Errorf("%s: quorum %d, want %d", c.what, got, c.quorum)
		}
	}
}

// oneGroup is the engine's own group in the model of TestOneGroupElects.
type oneGroup struct {
	rnd     *rand.Rand
	nodes   []string            // of the log
	gone    []string            // that were removed from it
	servers []string            // all
	counts  map[string][]string // by server: whom it counts
	empty   map[string]bool     // by server: it has no log, and votes only where the quorum was lowered
	lowered map[string]int      // by server: its quorum after a rescue
	stays   []string            // one that was removed and stays away, for all that count a removed server
}

// What some servers of a group have heard of and others have not.
const (
	nothing = iota
	aRemoval
	aServer // that was added
	kinds
)

// newOneGroup draws a group of two to seven servers and a list of three to five nodes. news is what some have heard of.
func newOneGroup(rnd *rand.Rand, news int) *oneGroup {
	g := &oneGroup{rnd: rnd, counts: map[string][]string{}, empty: map[string]bool{}, lowered: map[string]int{}}
	all := strings.Split("abcdefgh", "")
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	size := 2 + rnd.IntN(6)
	counted := all[:size]
	g.nodes = slices.Clone(counted[:min(size, 3+rnd.IntN(3))])
	for _, id := range all[size:] {
		if len(g.nodes) < 3 || len(g.nodes) < 5 && rnd.IntN(8) == 0 {
			g.nodes = append(g.nodes, id)
		}
	}
	g.servers = slices.Clone(counted)
	other := slices.Clone(counted)
	g.gone = slices.DeleteFunc(slices.Clone(counted), func(id string) bool {
		return slices.Contains(g.nodes, id) || rnd.IntN(8) == 0 // it is new
	})
	g.stays = g.gone[max(0, len(g.gone)-1):]
	switch {
	case news == aServer && size < len(all):
		other = append(other, all[size])
		g.servers = append(g.servers, all[size])
	case news == aRemoval && len(g.gone) > 0:
		other = slices.DeleteFunc(other, func(id string) bool { return id == g.gone[0] })
	}
	for _, id := range g.servers {
		if g.counts[id] = counted; rnd.IntN(3) == 0 {
			g.counts[id] = other
		}
		g.empty[id] = rnd.IntN(4) == 0
	}
	return g
}

// parts draws which servers run, without those away, and which of them hear each other.
func (g *oneGroup) parts(away []string) (parts [3][]string) {
	for _, id := range g.servers {
		if g.rnd.IntN(5) > 0 && !slices.Contains(away, id) {
			p := g.rnd.IntN(len(parts))
			if g.rnd.IntN(3) == 0 {
				p = 0
			}
			parts[p] = append(parts[p], id)
		}
	}
	return parts
}

// rescue lets each part that is stuck lower its quorum, and reports whether one did. The request may also get through
// to some of the others.
func (g *oneGroup) rescue(parts [3][]string, others bool) (lowers bool) {
	for _, part := range parts {
		voters := map[string]voter{}
		for _, id := range part {
			voters[id] = voter{size: len(g.counts[id]), counts: g.counts[id], empty: g.empty[id]}
		}
		quorum := stuck(voters, g.nodes, g.gone)
		if quorum == 0 {
			continue
		}
		for _, id := range g.servers {
			if slices.Contains(part, id) || others && g.rnd.IntN(4) == 0 {
				was, ok := g.lowered[id]
				if !ok {
					was = len(g.counts[id])/2 + 1
				}
				if quorum <= was && !g.empty[id] { // the engine refuses it otherwise
					g.lowered[id] = quorum
					lowers = lowers || quorum < len(g.counts[id])/2+1
				}
			}
		}
	}
	return lowers
}

// elects reports whether the servers of a part can elect one of them. An empty one is elected by none, and its vote
// counts as if it had the log again.
func (g *oneGroup) elects(part []string) bool {
	return slices.ContainsFunc(part, func(id string) bool {
		quorum, ok := g.lowered[id]
		if !ok {
			quorum = len(g.counts[id])/2 + 1
		}
		votes := within(g.counts[id], func(other string) bool { return slices.Contains(part, other) })
		return !g.empty[id] && votes >= quorum
	})
}

// TestOneGroupElects: of the servers of the engine's own group never two parts elect that do not hear each other,
// however it is cut, and cut again after a quorum was lowered, as long as one of the servers that were removed, and
// that all count, stays away. Where all count the same servers it may run until a quorum is lowered; where it does not,
// the request may get through to some that do not answer.
func TestOneGroupElects(t *testing.T) {
	beside(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	elected, lowered, again := 0, 0, 0
	draws := sized(25_000, 100_000)
	for draw := range draws {
		news := rnd.IntN(kinds)
		g := newOneGroup(rnd, news)
		before := news != nothing || rnd.IntN(2) == 0
		var away, said []string
		if before {
			away = g.stays
		}
		for round := range 3 {
			parts := g.parts(away)
			if round < 2 && g.rescue(parts, before && news == nothing) {
				lowered++
				away = g.stays
			}
			n := 0
			for _, part := range parts {
				if g.elects(part) {
					n++
				}
			}
			said = append(said, fmt.Sprintf("%s, quorums %v", parts, g.lowered))
			if elected += n; n > 0 && len(g.lowered) > 0 {
				again++
			}
			if n > 1 {
				t.Fatalf("draw %d: the nodes are %s, removed are %s, the servers count %v, empty are %v; two parts "+
					"elect:\n%s", draw, g.nodes, g.gone, g.counts, g.empty, strings.Join(said, "\n"))
			}
		}
	}
	t.Logf("%d parts elected, %d after a rescue; %d times a quorum was lowered", elected, again, lowered)
	if elected < draws/10 || again < draws/100 || lowered < draws/100 {
		t.Errorf("%d parts elected, %d after a rescue; %d times a quorum was lowered: too few to see a fault", elected,
			again, lowered)
	}
}
