package eventlog

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"troupe/timing"
)

// graph says which nodes hear each other.
type graph [5][5]bool

// resting returns which nodes of n rest, when all have heard who hears whom, and the network has lost what they do not hear.
func (g *graph) resting(n, leader, meta int) (rests [5]bool) {
	name := func(i int) string { return string(rune('a' + i)) }
	for i := range n {
		v := view{self: name(i), size: n, says: map[string][]string{}, leads: []string{"", ""}}
		for k, l := range []int{leader, meta} {
			if l >= 0 {
				v.leads[k] = name(l)
			}
		}
		for p := range n {
			if !g[i][p] {
				continue
			}
			v.heard = append(v.heard, name(p))
			for q := range n {
				if g[p][q] {
					v.says[name(p)] = append(v.says[name(p)], name(q))
				}
			}
		}
		rests[i] = v.verdict().why != ""
	}
	return rests
}

// hub reports whether a node hears a majority of n, itself included, among those that do not rest: then the engine can
// have a leader.
func (g *graph) hub(n int, rests [5]bool) bool {
	for i := range n {
		hears := 1
		for p := range n {
			if g[i][p] && !rests[p] {
				hears++
			}
		}
		if !rests[i] && hears > n/2 {
			return true
		}
	}
	return false
}

// TestVerdict: every network of two to five nodes whose links are up or down, with every leader of the engine's group. Where
// a node could lead before, one can among those that do not rest. Where none can, all rest. In a network of three with a
// majority those that stay hear each other, so none of them calls for an election.
func TestVerdict(t *testing.T) {
	beside(t)
	for n := 2; n <= 5; n++ {
		var pairs [][2]int
		for i := range n {
			for j := range i {
				pairs = append(pairs, [2]int{i, j})
			}
		}
		for links := range 1 << len(pairs) {
			var g graph
			for b, p := range pairs {
				g[p[0]][p[1]] = links>>b&1 == 1
				g[p[1]][p[0]] = g[p[0]][p[1]]
			}
			for leaders := range (n + 1) * (n + 1) {
				leader, meta := leaders/(n+1)-1, leaders%(n+1)-1
				rests := g.resting(n, leader, meta)
				could, can := g.hub(n, [5]bool{}), g.hub(n, rests)
				if could != can {
					t.Fatalf("%d nodes, links %v, leaders %d and %d: before a node could lead: %v; with %v at rest: %v", n, g, leader, meta, could, rests, can)
				}
				if stay := slices.Index(rests[:n], false); !could && stay >= 0 {
					t.Fatalf("%d nodes, links %v: none can lead, and %d stays", n, g, stay)
				}
				if n != 3 || !could {
					continue
				}
				for _, p := range pairs {
					if !rests[p[0]] && !rests[p[1]] && !g[p[0]][p[1]] {
						t.Fatalf("links %v, leaders %d and %d: %v stay and do not hear each other", g, leader, meta, p)
					}
				}
				if hears := leader >= 0 && (g[leader][(leader+1)%3] || g[leader][(leader+2)%3]); hears && rests[leader] {
					t.Fatalf("links %v, leaders %d and %d: the leader rests", g, leader, meta)
				}
			}
		}
	}
}

// TestContacts: an answer counts for heardFor; what a node has got from another one counts while it grows; an answer to
// a question that is kept says whether the other node is still heard.
func TestContacts(t *testing.T) {
	var c contacts
	start := timing.Instant(1)
	c.reset(start)
	at := func(d time.Duration) timing.Instant { return start + timing.Instant(d) }
	say := func(question, node string, d time.Duration, routes string) {
		c.answer(question, fmt.Appendf(nil, `{"server": {"name": %q}, "data": {"routes": [%s]}}`, node, routes), at(d))
	}
	if _, known := c.view("a", 3, at(heardFor-1)); known {
		t.Error("a node knows its network before it has listened for long enough")
	}
	say("1", "b", time.Second, `{"remote_name": "a", "in_msgs": 7}, {"remote_name": "c", "in_msgs": 4}`)
	say("1", "a", time.Second, ``)
	c.answer("1", []byte(`{"server": {}}`), at(time.Second))
	c.answer("1", []byte(`no answer`), at(time.Second))
	v, known := c.view("a", 3, at(time.Second+heardFor-1))
	if !known || !slices.Equal(v.heard, []string{"b"}) || len(v.says["b"]) != 2 {
		t.Errorf("b has answered: %+v, %v", v, known)
	}
	if v, _ := c.view("a", 3, at(time.Second+heardFor)); len(v.heard) != 0 {
		t.Errorf("b has not answered for long: %+v", v)
	}
	c.keep("2")
	c.keep("3")
	say("2", "b", 2*time.Second, `{"remote_name": "a", "in_msgs": 8}, {"remote_name": "c", "in_msgs": 4}`)
	say("3", "b", 3*time.Second, `{"remote_name": "a", "in_msgs": 9}, {"remote_name": "c", "in_msgs": 4}`)
	if v, _ := c.view("a", 3, at(3*time.Second)); !slices.Equal(v.says["b"], []string{"a"}) {
		t.Errorf("b has got nothing from c for 2 s: %+v", v)
	}
	before, after := c.take("2"), c.take("3")
	if !stillHeard("a", []string{"b"}, before, after) || stillHeard("c", []string{"b"}, before, after) ||
		stillHeard("d", []string{"b"}, before, after) || stillHeard("a", []string{"b", "d"}, before, after) ||
		stillHeard("a", nil, before, after) {
		t.Errorf("between the questions b has got something from a alone: %v, %v", before, after)
	}
	if c.take("2") != nil || len(c.kept) != 0 {
		t.Error("answers are kept after they were taken")
	}
}
