// Command play measures players on worlds of package worlds and prints a table: for each kind and player the share of
// the possible after 250, 500, 1,000 and 2,000 decisions with its standard error, the worst world, changes that were
// stated, and microseconds a decision with its reward: processor time on Linux, without the collector's threads.
//
//	go run ./internal/worlds/play -kinds base -players uniform,table,lints -worlds 12 -T 2000
//
// The table but for the microseconds depends on the arguments only.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"troupe/internal/worlds"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// players are the players by name.
var players = []struct {
	name, doc string
	rival     bool
	make      func(w *worlds.World, seed uint64) (worlds.Player, error)
}{
	{"uniform", "plays every action alike", false,
		func(w *worlds.World, seed uint64) (worlds.Player, error) { return worlds.NewUniform(w, seed), nil }},
	{"table", "Thompson sampling that is told the cells and half of the deviation", true,
		func(w *worlds.World, seed uint64) (worlds.Player, error) { return worlds.NewTable(w, seed), nil }},
	{"lints", "Thompson sampling on one-hot features, told the scales", true,
		func(w *worlds.World, seed uint64) (worlds.Player, error) { return worlds.NewLinTS(w, seed), nil }},
	{"effects", "one model of random effects", false, newRandom},
}

// config is the flags.
type config struct {
	kinds    []worlds.Kind
	players  []int    // places in players
	clients  []string // "" is the client of the kind
	seeds    []uint64
	T        int
	marks    []int
	spans    [][2]int
	jobs     int
	each     bool
	listed   string   // kinds of worlds of lists in place of the table
	numbered string   // kinds of worlds of numbers in place of the table
	models   int      // for each of these worlds
	wild     []string // VALUE@NUMBER: the matrix of wild values in place of the table
}

func run(args []string, out, errs io.Writer) int {
	c, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(errs, "play: %v\n", err)
		return 2
	}
	if c.listed != "" {
		if err := c.lists(out, c.listed); err != nil {
			fmt.Fprintf(errs, "play: %v\n", err)
			return 1
		}
		return 0
	}
	if c.numbered != "" {
		if err := c.numbers(out, c.numbered, c.models); err != nil {
			fmt.Fprintf(errs, "play: %v\n", err)
			return 1
		}
		return 0
	}
	if c.wild != nil {
		if err := c.matrix(out); err != nil {
			fmt.Fprintf(errs, "play: %v\n", err)
			return 1
		}
		return 0
	}
	for _, client := range c.clients {
		cells, err := c.play(client)
		if err != nil {
			fmt.Fprintf(errs, "play: %v\n", err)
			return 1
		}
		if err := c.print(out, client, cells); err != nil {
			fmt.Fprintf(errs, "play: %v\n", err)
			return 1
		}
	}
	return 0
}

func parse(args []string, errs io.Writer) (*config, error) {
	f := flag.NewFlagSet("play", flag.ContinueOnError)
	f.SetOutput(errs)
	kinds := f.String("kinds", "base", "kinds or families (base, wide, change, held, later, all), with commas")
	data := f.String("data", "", "instead of kinds: files of data sets with commas, FILE or FILE:CLASS, whose rows are the decisions")
	names := f.String("players", "table,lints,effects", "players, with commas: "+strings.Join(playerNames(), ", "))
	clients := f.String("clients", "", "how rewards arrive, with commas, for instance now,late/wild=1e6@200; empty: as each kind says")
	n := f.Int("worlds", 12, "worlds of each kind")
	first := f.Uint64("seed", 1, "seed of the first world")
	T := f.Int("T", 2000, "decisions of a world")
	marks := f.String("marks", "250,500,1000,2000", "shares so far after these decisions")
	spans := f.String("spans", "", "shares between two decisions, for instance 3000-3500,3500-4000")
	jobs := f.Int("jobs", 2, "worlds at a time")
	wild := f.String("wild", "", "instead of the table: what one wild value costs in the 1,000 decisions after it, for instance 10@1,1e6@200; all: "+
		allWild)
	listed := f.String("lists", "", "instead of the table: kinds of worlds of lists (all, base, held, or names), with commas, model and table of slots")
	numbered := f.String("numbers", "", "instead of the table: kinds of worlds of numbers (all, base, held, or names), with commas, the spread over models")
	models := f.Int("models", 4, "models that play each world of numbers")
	each := f.Bool("each", false, "one line for each world, too")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	c := &config{listed: *listed, numbered: *numbered, models: *models, T: *T, jobs: *jobs, each: *each, clients: strings.Split(*clients, ",")}
	var err error
	if *data == "" {
		c.kinds, err = worlds.Select(*kinds)
	}
	for file := range strings.SplitSeq(*data, ",") {
		if file == "" {
			continue
		}
		kind, err := dataKind(file)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		c.kinds = append(c.kinds, kind)
	}
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.Index(playerNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("players: %q is no player, expected some of %s", name, strings.Join(playerNames(), ", "))
		}
		c.players = append(c.players, i)
	}
	for _, name := range c.clients {
		if _, err := worlds.ClientOf(name); name != "" && err != nil {
			return nil, err
		}
	}
	if *n < 1 || *T < 1 || *T > worlds.MaxDecisions || *jobs < 1 {
		return nil, fmt.Errorf("worlds, T and jobs: are %d, %d and %d, expected at least 1, and T at most %d", *n, *T, *jobs,
			worlds.MaxDecisions)
	}
	if *models < 1 {
		return nil, fmt.Errorf("models: is %d, expected at least 1", *models)
	}
	for i := range *n {
		c.seeds = append(c.seeds, *first+uint64(i))
	}
	if err := c.parseMarks(*marks, *spans); err != nil {
		return nil, err
	}
	return c, c.parseWild(*wild)
}

// parseMarks reads where shares are printed: after numbers of decisions, and between two of them.
func (c *config) parseMarks(marks, spans string) error {
	for m := range strings.SplitSeq(marks, ",") {
		t, err := strconv.Atoi(m)
		if err != nil || t < 1 {
			return fmt.Errorf("marks: %q is no number of decisions", m)
		}
		if t <= c.T {
			c.marks = append(c.marks, t)
		}
	}
	for s := range strings.SplitSeq(spans, ",") {
		var span [2]int
		if s == "" {
			continue
		}
		if n, err := fmt.Sscanf(s, "%d-%d", &span[0], &span[1]); n < 2 || err != nil || span[0] < 0 || span[0] >= span[1] || span[1] > c.T {
			return fmt.Errorf("spans: %q is no span of the %d decisions, such as 1000-1500", s, c.T)
		}
		c.spans = append(c.spans, span)
	}
	return nil
}

// parseWild reads the wild values of another kind of table.
func (c *config) parseWild(wild string) error {
	if wild == "all" {
		wild = allWild
	}
	if wild == "" {
		return nil
	}
	c.wild = strings.Split(wild, ",")
	for _, w := range c.wild {
		_, _, numbered := strings.Cut(w, "@")
		if _, err := worlds.ClientOf("now/wild=" + w); err != nil || !numbered {
			return fmt.Errorf("wild: %q is no VALUE@NUMBER", w)
		}
	}
	return nil
}

func playerNames() (out []string) {
	for _, p := range players {
		out = append(out, p.name)
	}
	return out
}

// cell is what one player got in the worlds of one kind.
type cell struct {
	shares [][]float64 // [mark or span][world]
	stated []int       // in each world
	spent  []time.Duration
}

// play plays all worlds; the result has a row for each kind and a column for each player.
func (c *config) play(client string) ([][]cell, error) {
	out := make([][]cell, len(c.kinds))
	for k := range out {
		out[k] = make([]cell, len(c.players))
		for p := range out[k] {
			x := cell{stated: make([]int, len(c.seeds)), spent: make([]time.Duration, len(c.seeds))}
			for range len(c.marks) + len(c.spans) {
				x.shares = append(x.shares, make([]float64, len(c.seeds)))
			}
			out[k][p] = x
		}
	}
	return out, c.parallel(func(k, s int) error { return c.world(client, k, s, out[k]) })
}

// parallel calls f for each kind and seed, by their places, as many at a time as there are jobs.
func (c *config) parallel(f func(k, s int) error) error {
	jobs := make(chan [2]int)
	failed := make([]error, c.jobs)
	var group sync.WaitGroup
	for j := range c.jobs {
		group.Go(func() {
			runtime.LockOSThread() // spent counts a thread's time
			defer runtime.UnlockOSThread()
			for at := range jobs {
				if failed[j] == nil {
					failed[j] = f(at[0], at[1])
				}
			}
		})
	}
	for k := range c.kinds {
		for s := range c.seeds {
			jobs <- [2]int{k, s}
		}
	}
	close(jobs)
	group.Wait()
	return errors.Join(failed...)
}

// world plays one world with all players and writes column s of their cells.
func (c *config) world(client string, k, s int, cells []cell) error {
	w, err := c.kinds[k].New(c.seeds[s], c.T)
	if err != nil {
		return err
	}
	if client == "" {
		client = w.Client
	}
	sends, err := worlds.ClientOf(client)
	if err != nil {
		return err
	}
	for p, i := range c.players {
		player, err := players[i].make(w, c.seeds[s])
		if err != nil {
			return fmt.Errorf("%s: %w", players[i].name, err)
		}
		began := spent()
		r, err := worlds.Play(w, sends, player)
		if err != nil {
			return fmt.Errorf("%s: %w", players[i].name, err)
		}
		x := &cells[p]
		x.spent[s], x.stated[s] = spent()-began, len(r.Stated)
		for m, t := range c.marks {
			x.shares[m][s] = r.Share(0, t)
		}
		for m, span := range c.spans {
			x.shares[len(c.marks)+m][s] = r.Share(span[0], span[1])
		}
	}
	return nil
}

// judged is the mark at which worst worlds and weak kinds are counted: the last one up to 1,000.
func (c *config) judged() int {
	at := 0
	for i, t := range c.marks {
		if t <= 1000 {
			at = i
		}
	}
	return at
}

func (c *config) print(out io.Writer, client string, cells [][]cell) error {
	if client == "" {
		client = "of each kind"
	}
	fmt.Fprintf(out, "client %s, %d worlds a kind from seed %d, %d decisions; share ± standard error\n\n", client, len(c.seeds),
		c.seeds[0], c.T)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "kind\tplayer")
	for _, m := range c.marks {
		fmt.Fprintf(t, "\t%d", m)
	}
	for _, s := range c.spans {
		fmt.Fprintf(t, "\t%d-%d", s[0], s[1])
	}
	fmt.Fprint(t, "\tworst (seed)\tstated\tµs\n")
	for k, row := range cells {
		for p := range row {
			c.line(t, c.kinds[k].Name, players[c.players[p]].name, &row[p])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	c.summary(out, cells)
	return nil
}

func (c *config) line(t io.Writer, kind, player string, x *cell) {
	fmt.Fprintf(t, "%s\t%s", kind, player)
	for _, shares := range x.shares {
		m, se := mean(shares)
		fmt.Fprintf(t, "\t%s ± %s", number(m), number(se))
	}
	var spent time.Duration
	stated := 0
	for i := range x.spent {
		spent, stated = spent+x.spent[i], stated+x.stated[i]
	}
	worst, seed := c.worst(x)
	fmt.Fprintf(t, "\t%s (%d)\t%d\t%.0f\n", number(worst), seed, stated,
		float64(spent.Microseconds())/float64(len(x.spent)*c.T))
	if c.each {
		for s := range c.seeds {
			fmt.Fprintf(t, "\t  seed %d", c.seeds[s])
			for _, shares := range x.shares {
				fmt.Fprintf(t, "\t%s", number(shares[s]))
			}
			fmt.Fprintf(t, "\t\t%d\t\n", x.stated[s])
		}
	}
}

func (c *config) worst(x *cell) (float64, uint64) {
	if len(x.shares) == 0 {
		return math.NaN(), 0
	}
	shares := x.shares[c.judged()]
	least := slices.Min(shares)
	return least, c.seeds[slices.Index(shares, least)]
}

// summary prints the means over kinds and, where both rivals play, what each other player has of the better one.
func (c *config) summary(out io.Writer, cells [][]cell) {
	if len(c.marks) == 0 {
		return
	}
	fmt.Fprintf(out, "\nmeans over %d kinds\n", len(cells))
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var rivals []int
	for p, i := range c.players {
		if players[i].rival {
			rivals = append(rivals, p)
		}
		fmt.Fprintf(t, "%s", players[i].name)
		for m := range c.marks {
			fmt.Fprintf(t, "\t%s", number(over(cells, func(row []cell) float64 { x, _ := mean(row[p].shares[m]); return x })))
		}
		stated := 0
		for _, row := range cells {
			for _, n := range row[p].stated {
				stated += n
			}
		}
		fmt.Fprintf(t, "\tworst worlds at %d: %s\tstated: %d\n", c.marks[c.judged()],
			number(over(cells, func(row []cell) float64 { x, _ := c.worst(&row[p]); return x })), stated)
	}
	if len(rivals) == 0 {
		t.Flush()
		return
	}
	better := func(row []cell, m int) float64 {
		best := math.Inf(-1)
		for _, p := range rivals {
			x, _ := mean(row[p].shares[m])
			best = max(best, x)
		}
		return best
	}
	fmt.Fprint(t, "better rival")
	for m := range c.marks {
		fmt.Fprintf(t, "\t%s", number(over(cells, func(row []cell) float64 { return better(row, m) })))
	}
	fmt.Fprintln(t, "\t\t")
	t.Flush()
	for p, i := range c.players {
		if players[i].rival || players[i].name == "uniform" {
			continue
		}
		fmt.Fprintf(out, "%s over the better rival:", players[i].name)
		for m := range c.marks {
			got := over(cells, func(row []cell) float64 { x, _ := mean(row[p].shares[m]); return x })
			fmt.Fprintf(out, " %s", number(got/over(cells, func(row []cell) float64 { return better(row, m) })))
		}
		var weak []string
		at := c.judged()
		for k, row := range cells {
			x, _ := mean(row[p].shares[at])
			if b := better(row, at); x < b-.2*math.Abs(b) {
				weak = append(weak, fmt.Sprintf("%s %s of %s", c.kinds[k].Name, number(x), number(b)))
			}
		}
		fmt.Fprintf(out, "\n%d of %d kinds below .8 of it at %d: %s\n", len(weak), len(cells), c.marks[at], strings.Join(weak, ", "))
	}
	fmt.Fprintln(out)
}

func over(cells [][]cell, f func([]cell) float64) (sum float64) {
	for _, row := range cells {
		sum += f(row)
	}
	return sum / float64(len(cells))
}

// mean returns the mean and its standard error, 0 for one value.
func mean(x []float64) (m, se float64) {
	for _, v := range x {
		m += v
	}
	m /= float64(len(x))
	for _, v := range x {
		se += (v - m) * (v - m)
	}
	if n := float64(len(x)); n > 1 {
		se = math.Sqrt(se / (n - 1) / n)
	}
	return m, se
}

// number writes .53 for 0.53.
func number(x float64) string {
	s := strconv.FormatFloat(x, 'f', 2, 64)
	return strings.Replace(strings.Replace(s, "-0.", "−.", 1), "0.", ".", 1)
}
