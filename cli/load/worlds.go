package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/cli/term"
	"troupe/client"
	"troupe/rng"
)

// This file is `troupe load --stream`: requests like those of an application, whose mean rewards are known, to see what
// a model earns in its first thousand decisions.

// situation is one request: what the model sees, and what only this program knows.
type situation struct {
	context any
	actions []client.Action
	means   []float64 // probability of a click, for each action
	cell    int       // what the rewards depend on besides the action
	arms    []int     // the action in each place
}

// streamKind is a family of worlds. Its function draws a world; the world makes request i of n.
type streamKind struct {
	doc   string
	world func(draw rng.Source) world
}

type world func(i, n int, draw rng.Source) situation

// tableOf draws the means of a world, uniform in [lo, hi], for each cell and action.
func tableOf(draw rng.Source, cells, arms int, lo, hi float64) [][]float64 {
	t := make([][]float64, cells)
	for c := range t {
		t[c] = make([]float64, arms)
		for a := range t[c] {
			t[c][a] = lo + (hi-lo)*draw.Float64(c*arms+a)
		}
	}
	return t
}

// idsOf makes n actions that have an id and nothing else.
func idsOf(n int) (actions []client.Action, arms []int) {
	for a := range n {
		actions = append(actions, client.Action{ID: "a" + strconv.Itoa(a)})
		arms = append(arms, a)
	}
	return actions, arms
}

// cells is a world whose means are those of a table; context says what the model sees in a cell.
func cells(n, k int, lo, hi float64, context func(cell int, draw rng.Source) any) func(rng.Source) world {
	return func(draw rng.Source) world {
		table := tableOf(draw, n, k, lo, hi)
		actions, arms := idsOf(k)
		return func(_, _ int, draw rng.Source) situation {
			c := draw.Intn(0, n)
			return situation{context(c, draw), actions, table[c], c, arms}
		}
	}
}

func segment(c int, draw rng.Source) any {
	return map[string]any{"user": map[string]any{"segment": "s" + strconv.Itoa(c), "age": 18 + draw.Intn(1, 62)}}
}

// Streams are the streams by name.
var Streams = map[string]streamKind{
	"segments": {"8 segments × 6 actions, clicks of 5 to 60 %, one useless number", cells(8, 6, .05, .6, segment)},
	"fields": {"5 plans × 4 actions, clicks of 10 to 50 %, three useless fields",
		cells(5, 4, .1, .5, func(c int, draw rng.Source) any {
			return map[string]any{"plan": "p" + strconv.Itoa(c), "day": "day" + strconv.Itoa(draw.Intn(1, 7)),
				"browser": "b" + strconv.Itoa(draw.Intn(2, 3)), "hour": draw.Intn(3, 24)}
		})},
	"groups": {"20 groups × 4 actions, clicks of 10 to 60 %, a user id with 3,000 values",
		cells(20, 4, .1, .6, func(c int, draw rng.Source) any {
			return map[string]any{"group": "g" + strconv.Itoa(c), "user_id": "u" + strconv.Itoa(draw.Intn(1, 3000))}
		})},
	"rare": {"4 segments × 5 actions, clicks of 0.5 to 4 %",
		cells(4, 5, .005, .04, func(c int, _ rng.Source) any {
			return map[string]any{"segment": "s" +
				strconv.Itoa(c)}
		})},
	"ids": {"5 ids without a context, clicks of 5 to 60 %", cells(1, 5, .05, .6,
		func(int, rng.Source) any { return nil })},
	"ranges": {"4 ranges of one number × 5 actions, beside a time, a text of 100 values, outliers",
		cells(4, 5, .05, .6, func(c int, draw rng.Source) any {
			x := 25*float64(c) + 25*draw.Float64(1)
			if draw.Intn(4, 1000) == 0 {
				x = 1e9
			}
			return map[string]any{"amount": x, "at": 1_790_000_000 + draw.Intn(2, 1_000_000),
				"page": "page" + strconv.Itoa(draw.Intn(3, 100))}
		})},
	"prices":  {"5 new offers in each request, clicks while the price is within a budget", prices},
	"items":   {"10 items, the oldest gives way to a new one every 60 decisions; their topics", items},
	"brands":  {"300 actions of 12 brands, clicks of 2 to 40 %", brands},
	"changes": {"the segments; their means are drawn anew after half of the decisions", changes(true)},
	"swaps":   {"4 segments × 6 actions; after half of the decisions best and worst change places", changes(false)},
}

// prices: each of five offers has a price in cents and an id of its own. A user with a budget clicks with 50 % on an
// offer within it and with 5 % on another, and more on dearer ones: the best is the dearest within the budget.
func prices(rng.Source) world {
	return func(i, _ int, draw rng.Source) situation {
		budget := 1000 + draw.Intn(0, 4000)
		s := situation{context: map[string]any{"budget": budget}, cell: budget / 1000}
		for a := range 5 {
			price := 500 + draw.Intn(1+a, 5000)
			s.actions = append(s.actions, client.Action{ID: fmt.Sprintf("o%d-%d", i, a),
				Features: map[string]any{"price": price}})
			mean := .05
			if price <= budget {
				mean = .1 + .4*float64(price)/float64(budget)
			}
			s.means, s.arms = append(s.means, mean), append(s.arms, price/1000)
		}
		return s
	}
}

// items come and go; a click is likely where the topic is the user's.
func items(draw rng.Source) world {
	table := tableOf(draw, 4, 6, .05, .5)
	return func(i, _ int, draw rng.Source) situation {
		c := draw.Intn(0, 4)
		s := situation{context: map[string]any{"likes": "l" + strconv.Itoa(c)}, cell: c}
		for a := range 10 {
			id := i/60 + a
			topic := id * 7 % 6
			s.actions = append(s.actions, client.Action{ID: "item" + strconv.Itoa(id),
				Features: map[string]any{"topic": "t" + strconv.Itoa(topic)}})
			s.means, s.arms = append(s.means, table[c][topic]), append(s.arms, topic)
		}
		return s
	}
}

// brands: many actions share what is known of their brands.
func brands(draw rng.Source) world {
	table := tableOf(draw, 1, 12, .02, .4)[0]
	var s situation
	for a := range 300 {
		s.actions = append(s.actions, client.Action{ID: "a" + strconv.Itoa(a),
			Features: map[string]any{"brand": "b" + strconv.Itoa(a%12), "size": a % 5}})
		s.means, s.arms = append(s.means, table[a%12]), append(s.arms, a%12)
	}
	return func(int, int, rng.Source) situation { return s }
}

// changes is a world that changes in the middle: its means are drawn anew, or best and worst change places.
func changes(anew bool) func(rng.Source) world {
	return func(draw rng.Source) world {
		n, k := 8, 6
		if !anew {
			n = 4
		}
		before := tableOf(draw, n, k, .05, .6)
		after := tableOf(draw, 2*n, k, .05, .6)[n:]
		actions, arms := idsOf(k)
		if !anew {
			for c := range before {
				after[c] = slices.Clone(before[c])
				lo, hi := slices.Index(after[c], slices.Min(after[c])), slices.Index(after[c], slices.Max(after[c]))
				after[c][lo], after[c][hi] = after[c][hi], after[c][lo]
			}
		}
		return func(i, n int, draw rng.Source) situation {
			c := draw.Intn(0, len(before))
			table := before
			if i >= n/2 {
				table = after
			}
			return situation{segment(c, draw), actions, table[c], c, arms}
		}
	}
}

// betas is Thompson sampling with one Beta(1, 1) posterior for each cell and action: what learns that is told the
// cells, or with one cell that ignores the context.
type betas struct {
	counts map[[2]int]*[2]float64
	draw   rand.Source
}

func (b *betas) choose(cell int, arms []int) int {
	best, most := 0, -1.0
	for a, arm := range arms {
		n := b.of(cell, arm)
		if v := (distuv.Beta{Alpha: 1 + n[1], Beta: 1 + n[0], Src: b.draw}).Rand(); v > most {
			best, most = a, v
		}
	}
	return best
}

func (b *betas) of(cell, arm int) *[2]float64 {
	n := b.counts[[2]int{cell, arm}]
	if n == nil {
		n = new([2]float64)
		b.counts[[2]int{cell, arm}] = n
	}
	return n
}

// The players of a stream: the model of the server, and the two tables.
const (
	theModel = iota
	theTold
	theBlind
	players
)

// earned are sums of mean rewards: of each player, of the best action, and of a uniform choice.
type earned struct {
	of            [players]float64
	best, uniform float64
}

func (e *earned) share(player int, since earned) float64 {
	uniform := e.uniform - since.uniform
	return (e.of[player] - since.of[player] - uniform) / (e.best - since.best - uniform)
}

// WorldLine is what the first rounds of one world have brought, as shares of what the best action earns above a
// uniform choice.
type WorldLine struct {
	Rounds int     `json:"rounds"`
	Share  float64 `json:"share"`  // of the model so far
	Recent float64 `json:"recent"` // of the model since the line before
	Told   float64 `json:"told"`   // of Thompson sampling that is told the cells
	Blind  float64 `json:"blind"`  // of Thompson sampling that ignores the context
}

// WorldsResult is the outcome of a stream in all of its worlds.
type WorldsResult struct {
	Stream  string        `json:"stream"`
	Seconds float64       `json:"seconds"`
	Worlds  [][]WorldLine `json:"worlds"`
}

func streamNames() string { return strings.Join(slices.Sorted(maps.Keys(Streams)), ", ") }

// streamList says what each stream is.
func streamList() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(Streams)) {
		fmt.Fprintf(&b, "\n  %-9s %s", name, Streams[name].doc)
	}
	return b.String()
}

func (s *streamFlags) checkWorlds() error {
	switch kind := s.kind; {
	case Streams[kind].world == nil:
		return fmt.Errorf("--stream %q: expected one of %s", kind, streamNames())
	case s.rounds < 100 || s.rounds > 1_000_000:
		return fmt.Errorf("--rounds %d: expected 100 to 1000000", s.rounds)
	case s.worlds < 1 || s.worlds > 1000:
		return fmt.Errorf("--worlds %d: expected 1 to 1000", s.worlds)
	case s.window < 0:
		return fmt.Errorf("--window %v: expected a time above 0", s.window)
	}
	return nil
}

// loadWorlds plays the worlds of a stream, one after the other, each on a new model.
func loadWorlds(ctx context.Context, out, progress io.Writer, f *flags) error {
	s := &f.stream
	if err := s.checkWorlds(); err != nil {
		return term.Misuse(err)
	}
	o := client.Options{Key: f.key}
	if _, ok := strings.CutPrefix(f.url, "unix:"); !ok {
		o.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	c, err := client.New(f.url, o)
	if err != nil {
		return term.Misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	result := WorldsResult{Stream: s.kind}
	begin := time.Now()
	show, end := showProgress(progress, int64(s.worlds*s.rounds))
	for w := range s.worlds {
		model := f.model
		if s.worlds > 1 {
			model += "-" + strconv.Itoa(w+1)
		}
		var lines []WorldLine
		lines, err = f.playWorld(ctx, c, w, model, func(i int) { show(int64(w*s.rounds + i)) })
		if err != nil && (s.worlds > 1 || len(lines) == 0) {
			break // a world that was interrupted has a value only when it is the only one
		}
		result.Worlds = append(result.Worlds, lines)
	}
	end()
	result.Seconds = time.Since(begin).Seconds()
	interrupted := ctx.Err() != nil && err != nil
	if err != nil && !interrupted {
		return err
	}
	if f.json {
		if err := json.NewEncoder(out).Encode(result); err != nil {
			return err
		}
	} else if len(result.Worlds) > 0 {
		printWorlds(out, &result)
	}
	if interrupted {
		return term.Silently(term.Interrupted, context.Canceled)
	}
	return nil
}

// lineAt reports whether a stream says how far it is after so many rounds: 100, 300, 1000, 3000, ….
func lineAt(i int) bool {
	for i >= 1000 && i%10 == 0 {
		i /= 10
	}
	return i == 100 || i == 300
}

// playWorld plays world w of the stream: the model over HTTP, and the two tables beside it, on the same requests. All
// have the same luck: the click of an action in a request is one number for all of them.
func (f *flags) playWorld(
	ctx context.Context, c *client.Client, w int, model string, show func(int),
) (lines []WorldLine, err error) {
	config := map[string]any{"id": model}
	f.stream.addWindow(config)
	if err := c.CreateModel(ctx, config); err != nil {
		return nil, fmt.Errorf("making the model %s (a stream begins with a new one; choose another --model): %w",
			model, err)
	}
	key := rng.NewKey(f.seed + uint64(w))
	next := Streams[f.stream.kind].world(key.Stream(rng.Instance).Round(0))
	n := f.stream.rounds
	var sum, last earned
	var tables [players]betas
	for p := theTold; p < players; p++ {
		tables[p] = betas{map[[2]int]*[2]float64{}, rand.NewPCG(f.seed+uint64(w), uint64(p))}
	}
	for i := range n {
		s := next(i, n, key.Stream(rng.Offer).Round(uint64(i)))
		luck := key.Stream(rng.Reward).Round(uint64(i)).Float64(0)
		d, err := c.Decide(ctx, model, client.DecideRequest{Context: s.context, Actions: s.actions})
		if err != nil {
			return lines, err
		}
		if _, err := c.Reward(ctx, d.EventID, click(s.means[d.Action.Index], luck)); err != nil {
			return lines, err
		}
		sum.best += slices.Max(s.means)
		for _, v := range s.means {
			sum.uniform += v / float64(len(s.means))
		}
		sum.of[theModel] += s.means[d.Action.Index]
		for p := theTold; p < players; p++ {
			cell := s.cell
			if p == theBlind {
				cell = 0
			}
			a := tables[p].choose(cell, s.arms)
			tables[p].of(cell, s.arms[a])[int(click(s.means[a], luck))]++
			sum.of[p] += s.means[a]
		}
		if done := i + 1; lineAt(done) || done == n {
			lines = append(lines, WorldLine{done, sum.share(theModel, earned{}), sum.share(theModel, last),
				sum.share(theTold, earned{}), sum.share(theBlind, earned{})})
			last = sum
		}
		show(i + 1)
	}
	return lines, nil
}

func click(mean, luck float64) float64 {
	if luck < mean {
		return 1
	}
	return 0
}

// printWorlds prints the means over the worlds, with standard errors and the worst world where there are several.
func printWorlds(out io.Writer, r *WorldsResult) {
	n := len(r.Worlds)
	fmt.Fprintf(out, "%s: %s\n", r.Stream, Streams[r.Stream].doc)
	rows := [][]string{{"rounds", "earned", "recent", "told the cells", "without context"}}
	if n > 1 {
		rows[0] = append(rows[0], "worst")
	}
	for k, line := range r.Worlds[0] {
		row := []string{term.Grouped(int64(line.Rounds))}
		of := func(value func(WorldLine) float64) {
			var sum, squares float64
			for _, w := range r.Worlds {
				sum += value(w[k])
			}
			mean := sum / float64(n)
			text := fmt.Sprintf("%.2f", mean)
			for _, w := range r.Worlds {
				squares += (value(w[k]) - mean) * (value(w[k]) - mean)
			}
			if n > 1 {
				text += fmt.Sprintf(" ± %.2f", math.Sqrt(squares/float64(n-1)/float64(n)))
			}
			row = append(row, text)
		}
		of(func(l WorldLine) float64 { return l.Share })
		of(func(l WorldLine) float64 { return l.Recent })
		of(func(l WorldLine) float64 { return l.Told })
		of(func(l WorldLine) float64 { return l.Blind })
		if n > 1 {
			worst := math.Inf(1)
			for _, w := range r.Worlds {
				worst = min(worst, w[k].Share)
			}
			row = append(row, fmt.Sprintf("%.2f", worst))
		}
		rows = append(rows, row)
	}
	term.Columns(out, rows)
	fmt.Fprintln(out, "\n  shares of what the best action earns above a uniform choice; 1 is the best action always")
	fmt.Fprintln(out, "  told the cells: Thompson sampling with a table of what the rewards depend on")
	fmt.Fprintln(out, "  without context: Thompson sampling with one row of that table for all requests")
	if n > 1 {
		fmt.Fprintf(out, "  means of %d worlds, each on a model of its own, with standard errors; worst: of earned\n",
			n)
	}
}
