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

// outcome is what one wild value did in one cell of the matrix: kind × client × player × value.
type outcome struct {
	kind, client, player, value string

	without, with float64 // means over the worlds of the share in the decisions after its arrival
	fall, se      float64 // mean of what it cost in each world, with its standard error
}

// row is a kind with a client and a player: its outcomes, in the order of the values, and the changes that were stated.
type row struct {
	outcomes []outcome
	stated   int // with a wild value
	quiet    int // without one
}

// rows plays the matrix: each kind, client and player without and with each wild value. What the client sends otherwise, and
// what is played, is the same world.
func (c *config) rows() (out []row, err error) {
	for _, client := range c.clients {
		cells, err := c.wildCells(client)
		if err != nil {
			return nil, err
		}
		for k, players := range cells {
			for p := range players {
				x := &players[p]
				r := row{}
				for w, value := range c.wild {
					falls := make([]float64, len(c.seeds))
					for i := range falls {
						falls[i] = x.without[w][i] - x.with[w][i]
					}
					o := outcome{kind: c.kinds[k].Name, client: client, player: playerNames()[c.players[p]], value: value}
					o.without, _ = mean(x.without[w])
					o.with, _ = mean(x.with[w])
					o.fall, o.se = mean(falls)
					r.outcomes = append(r.outcomes, o)
				}
				for i := range c.seeds {
					r.stated, r.quiet = r.stated+x.stated[i], r.quiet+x.quiet[i]
				}
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// matrix prints the matrix.
func (c *config) matrix(out io.Writer) error {
	rows, err := c.rows()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "share in the %d decisions after one wild value, without it → with it; means of %d worlds from seed %d, %d decisions\n\n",
		after, len(c.seeds), c.seeds[0], c.T)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "kind\tclient\tplayer")
	for _, w := range c.wild {
		fmt.Fprintf(t, "\t%s", w)
	}
	fmt.Fprint(t, "\tstated\twithout it\n")
	for _, r := range rows {
		o := &r.outcomes[0]
		fmt.Fprintf(t, "%s\t%s\t%s", o.kind, o.client, o.player)
		for _, o := range r.outcomes {
			fmt.Fprintf(t, "\t%s→%s", number(o.without), number(o.with))
		}
		fmt.Fprintf(t, "\t%d\t%d\n", r.stated, r.quiet)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, p := range c.players {
		name := playerNames()[p]
		s := sumOf(rows, name)
		fmt.Fprintf(out, "%s: one wild value costs %s in the mean of %d cells, %s in the worst; %d cells fall by more than %s, %d by two "+
			"standard errors more\n", name, number(s.falls/float64(s.n)), s.n, number(s.worst), s.deep, number(allowed), s.sure)
	}
	return nil
}

// sums are what wild values cost a player over all cells.
type sums struct {
	falls   float64
	n, deep int // cells, and those that fall by more than what is allowed
	sure    int // by more than that and two standard errors
	worst   float64
}

func sumOf(rows []row, player string) sums {
	s := sums{worst: math.Inf(-1)}
	for _, r := range rows {
		for _, o := range r.outcomes {
			if o.player != player {
				continue
			}
			s.n++
			s.falls += o.fall
			s.worst = max(s.worst, o.fall)
			if o.fall > allowed {
				s.deep++
			}
			if o.fall-2*o.se > allowed {
				s.sure++
			}
		}
	}
	return s
}

// wildCell is what one player got in the worlds of one kind: [wild value][world].
type wildCell struct {
	without, with [][]float64
	stated, quiet []int // changes with all wild values of a world, and without one
}

func (c *config) wildCells(client string) ([][]wildCell, error) {
	out := make([][]wildCell, len(c.kinds))
	for k := range out {
		out[k] = make([]wildCell, len(c.players))
		for p := range out[k] {
			x := wildCell{stated: make([]int, len(c.seeds)), quiet: make([]int, len(c.seeds))}
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
		cells[p].quiet[s] = len(quiet.Stated)
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
