package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"troupe/internal/worlds"
)

// allWild are the values of the matrix, each as the first, the 200th and the 2,000th reward.
const allWild = "10@1,10@200,10@2000,-10@1,-10@200,-10@2000,1e6@1,1e6@200,1e6@2000,1e300@1,1e300@200,1e300@2000"

// after is over how many decisions after a wild value its cost is measured.
const after = 1000

// allowed is what a wild value may cost.
const allowed = .05

// matrix plays each kind, client and player without and with each wild value, and prints the share in the decisions
// after its arrival: what the client sends otherwise, and what is played, is the same world.
func (c *config) matrix(out io.Writer) error {
	fmt.Fprintf(out, "share in the %d decisions after one wild value, without it → with it; means of %d worlds from seed %d, %d decisions\n\n",
		after, len(c.seeds), c.seeds[0], c.T)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "kind\tclient\tplayer")
	for _, w := range c.wild {
		fmt.Fprintf(t, "\t%s", w)
	}
	fmt.Fprint(t, "\tstated\n")
	type sum struct {
		falls   float64
		n, deep int
		sure    int // falls by more than the allowed one by two standard errors
		worst   float64
	}
	sums := make([]sum, len(c.players))
	for i := range sums {
		sums[i].worst = math.Inf(-1)
	}
	for _, client := range c.clients {
		cells, err := c.wildCells(client)
		if err != nil {
			return err
		}
		for k, row := range cells {
			for p := range row {
				x := &row[p]
				fmt.Fprintf(t, "%s\t%s\t%s", c.kinds[k].Name, client, players[c.players[p]].name)
				for w := range c.wild {
					without, _ := mean(x.without[w])
					with, _ := mean(x.with[w])
					fmt.Fprintf(t, "\t%s→%s", number(without), number(with))
					s := &sums[p]
					s.n++
					s.falls += without - with
					s.worst = max(s.worst, without-with)
					falls := make([]float64, len(c.seeds))
					for i := range falls {
						falls[i] = x.without[w][i] - x.with[w][i]
					}
					m, se := mean(falls)
					if m > allowed {
						s.deep++
					}
					if m-2*se > allowed {
						s.sure++
					}
				}
				stated := 0
				for _, n := range x.stated {
					stated += n
				}
				fmt.Fprintf(t, "\t%d\n", stated)
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for p, s := range sums {
		fmt.Fprintf(out, "%s: one wild value costs %s in the mean of %d cells, %s in the worst; %d cells fall by more than %s, %d by two "+
			"standard errors more\n", players[c.players[p]].name, number(s.falls/float64(s.n)), s.n, number(s.worst), s.deep, number(allowed), s.sure)
	}
	return nil
}

// wildCell is what one player got in the worlds of one kind: [wild value][world].
type wildCell struct {
	without, with [][]float64
	stated        []int // changes, with all wild values of a world
}

func (c *config) wildCells(client string) ([][]wildCell, error) {
	out := make([][]wildCell, len(c.kinds))
	for k := range out {
		out[k] = make([]wildCell, len(c.players))
		for p := range out[k] {
			x := wildCell{stated: make([]int, len(c.seeds))}
			for range c.wild {
				x.without = append(x.without, make([]float64, len(c.seeds)))
				x.with = append(x.with, make([]float64, len(c.seeds)))
			}
			out[k][p] = x
		}
	}
	return out, c.parallel(func(k, s int) error { return c.wildWorld(client, k, s, out[k]) })
}

func (c *config) wildWorld(client string, k, s int, cells []wildCell) error {
	w, err := c.kinds[k].New(c.seeds[s], c.T)
	if err != nil {
		return err
	}
	if client == "" {
		client = w.Client
	}
	play := func(i int, client string) (*worlds.Result, error) {
		sends, err := worlds.ClientOf(client)
		if err != nil {
			return nil, err
		}
		player, err := players[i].make(w, c.seeds[s])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", players[i].name, err)
		}
		return worlds.Play(w, sends, player)
	}
	for p, i := range c.players {
		quiet, err := play(i, client)
		if err != nil {
			return err
		}
		for at, wild := range c.wild {
			r, err := play(i, client+"/wild="+wild)
			if err != nil {
				return err
			}
			if len(r.Wild) == 0 || r.Wild[0]+after > c.T {
				return fmt.Errorf("flag -T: is %d; with client %s the value %s came too late for %d decisions after it", c.T, client, wild, after)
			}
			from := r.Wild[0]
			cells[p].without[at][s], cells[p].with[at][s] = quiet.Share(from, from+after), r.Share(from, from+after)
			cells[p].stated[s] += len(r.Stated)
		}
	}
	return nil
}
