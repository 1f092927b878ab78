package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"troupe/cli/term"
	"troupe/sim"
)

// A display shows a run while it is under way. Its methods are called from one goroutine, but for
// stopping.
type display interface {
	start(x *sim.Experiment)
	progress(p sim.Progress)
	note(text string)
	// stopping answers the first Ctrl-C; cells under way have the time grace left. It is called
	// from any goroutine.
	stopping(grace time.Duration)
	// stop leaves the terminal clean. It may be called more than once.
	stop()
}

// silent is the display of --quiet.
type silent struct{}

func (silent) start(*sim.Experiment)  {}
func (silent) progress(sim.Progress)  {}
func (silent) note(string)            {}
func (silent) stopping(time.Duration) {}
func (silent) stop()                  {}

// lines is the display for a pipe, a log or CI: a line at the start, one with an estimate after two
// seconds, then at 1, 2, 5, 10, 20 and 50 % of the rounds, but at most every two seconds and at least
// every thirty.
type lines struct {
	w    io.Writer
	next int     // index into milestones
	last float64 // seconds at the last line
}

var milestones = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5}

func (l *lines) start(x *sim.Experiment) {
	fmt.Fprintf(l.w, "troupe: %s: %s, %s rounds, seed %d\n", x.Name, term.Many(x.Cells(), "cell"),
		strings.TrimSpace(term.Rate(float64(x.Cells())*float64(x.Horizon))), x.Seed)
}

func (l *lines) progress(p sim.Progress) {
	if p.Done == p.Cells || p.Seconds-l.last < 2 {
		return
	}
	share := shareOf(p)
	passed := l.next
	for passed < len(milestones) && share >= milestones[passed] {
		passed++
	}
	if passed == l.next && p.Seconds-l.last < 30 && l.last > 0 {
		return
	}
	l.next, l.last = passed, p.Seconds
	fmt.Fprintf(l.w, "troupe: %2.0f %%  %d/%d cells  %s rounds/s  %s\n", 100*share, p.Done, p.Cells,
		term.Rate(speed(p)), about(remaining(p)))
}

func (l *lines) note(text string) { fmt.Fprintln(l.w, "troupe: note:", text) }
func (l *lines) stopping(grace time.Duration) {
	fmt.Fprintln(l.w, "troupe: "+finishing(grace))
}
func (l *lines) stop() {}

// clock is the display of --budget: a line at the start and after every tenth of the time.
type clock struct {
	w       io.Writer
	budget  time.Duration
	started time.Time
	tenths  int
}

func (c *clock) start(x *sim.Experiment) {
	c.started = time.Now()
	fmt.Fprintf(c.w, "troupe: %s: %s a replication, %s rounds each, budget %v, seed %d\n", x.Name,
		term.Many(x.Cells()/x.Replications, "cell"), term.Grouped(int64(x.Horizon)), c.budget, x.Seed)
}

func (c *clock) progress(p sim.Progress) {
	share := float64(time.Since(c.started)) / float64(c.budget)
	if n := int(10 * share); n > c.tenths {
		c.tenths = n
		fmt.Fprintf(c.w, "troupe: %3.0f %% of the budget  %s complete\n", 100*min(1, share),
			term.Many(p.Replications, "replication"))
	}
}

func (c *clock) note(text string) { fmt.Fprintln(c.w, "troupe: note:", text) }
func (c *clock) stopping(grace time.Duration) {
	fmt.Fprintln(c.w, "troupe: "+finishing(grace))
}
func (c *clock) stop() {}

// finishing is the answer to the first Ctrl-C.
func finishing(grace time.Duration) string {
	return fmt.Sprintf("finishing the cells under way, at most %v; again to stop at once", grace)
}

func speed(p sim.Progress) float64 {
	return float64(p.Rounds) / max(p.Seconds, 1e-3)
}

func remaining(p sim.Progress) float64 {
	if p.Rounds == 0 {
		return math.NaN()
	}
	return float64(p.AllRounds-p.Rounds) / speed(p)
}

// about says how long a run still takes; NaN is before the first round.
func about(seconds float64) string {
	if math.IsNaN(seconds) {
		return "no estimate before the first rounds"
	}
	return "about " + term.Left(seconds) + " left"
}

// shareOf is the share of the work that is done, counted in rounds.
func shareOf(p sim.Progress) float64 {
	share := float64(p.Rounds) / max(1, float64(p.AllRounds))
	if p.Cells > 0 {
		fresh := float64(p.Cells-p.Reused) / float64(p.Cells)
		share = 1 - fresh + fresh*share
	}
	return min(share, 1)
}

// board is the live block: a bar and the leaders on complete replications, at most twelve lines,
// repainted ten times a second.
type board struct {
	t    term.Terminal
	x    *sim.Experiment
	bars *mpb.Progress
	bar  *mpb.Bar

	mu    sync.Mutex
	above string // the line of the bar
	below string // the leaders
	last  string // a last line, from stopping
}

func (b *board) start(x *sim.Experiment) {
	b.x = x
	fmt.Fprintf(b.t.W, "%s\n\n", b.t.Bold(headline(x)))
	b.bars = mpb.New(mpb.WithOutput(b.t.W), mpb.WithWidth(term.Width), mpb.WithRefreshRate(100*time.Millisecond),
		mpb.WithAutoRefresh())
	text := func(parts ...*string) mpb.BarFiller {
		return mpb.BarFillerFunc(func(w io.Writer, _ decor.Statistics) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, s := range parts {
				if _, err := io.WriteString(w, *s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.bar = b.bars.MustAdd(int64(x.Cells()), text(&b.above), mpb.BarExtender(text(&b.below, &b.last), false),
		mpb.BarFillerTrim())
}

// headline is the first line of a run: what is played; two lines when one is not enough.
func headline(x *sim.Experiment) string {
	worlds := ""
	if n := len(x.Environments); n > 1 {
		worlds = fmt.Sprintf("%d environments x ", n)
	}
	policies := fmt.Sprintf("%d policies", len(x.Policies))
	if len(x.Policies) == 1 {
		policies = "1 policy"
	}
	what := fmt.Sprintf("%s%s x %s x %s   seed %d", worlds, policies, term.Many(x.Replications, "replication"),
		term.Many(x.Horizon, "round"), x.Seed)
	between := "   "
	if utf8.RuneCountInString(x.Name+between+what) > term.Width {
		between = "\n"
	}
	return x.Name + between + what
}

func (b *board) progress(p sim.Progress) {
	if b.bar == nil {
		return
	}
	// The terminal echoes ^C where the cursor is, and the next frame goes up from there: it begins at the left edge all
	// the same.
	above, below := "\r"+barLine(b.t, p), leaders(b.t, b.x, p)
	b.mu.Lock()
	b.above, b.below = above, below
	b.mu.Unlock()
}

func (b *board) note(text string) {
	line := "note: " + term.Wrap(text, len("note: ")) + "\n"
	if b.bars == nil {
		io.WriteString(b.t.W, line)
		return
	}
	b.bars.Write([]byte(line))
}

func (b *board) stopping(grace time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = "\n " + finishing(grace) + "\n"
}

func (b *board) stop() {
	if b.bar == nil {
		return
	}
	b.bar.Abort(true)
	b.bars.Wait()
	b.bar, b.bars = nil, nil
}

// barLine is " 812 / 1400 cells  ━━━━━╸─────   58 %  1.5 M rounds/s  4 s".
func barLine(t term.Terminal, p sim.Progress) string {
	share := shareOf(p)
	total := strconv.Itoa(p.Cells)
	from := " " + term.PadLeft(strconv.Itoa(p.Done), len(total)) + " / " + total + " cells  "
	to := fmt.Sprintf("  %3.0f %%  %s rounds/s  %s", 100*share, term.Rate(speed(p)), term.Left(remaining(p)))
	room := max(8, term.Width-1-len(from)-len(to))
	full, half, empty := "━", "╸", "─"
	if t.Plain {
		full, half, empty = "#", "#", "."
	}
	n := int(share * float64(2*room))
	bar := strings.Repeat(full, n/2)
	if n%2 == 1 {
		bar += half
	}
	rest := room - (n+1)/2
	return from + bar + strings.Repeat(empty, max(0, rest)) + to
}

// blockLines is how many lines of leaders the live block has room for.
const blockLines = 9

// leaders prints the board of a run under way: of one environment its best policies, of two the
// best three of each, of more the first of each.
func leaders(t term.Terminal, x *sim.Experiment, p sim.Progress) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n %s of %s complete", term.Grouped(int64(p.Replications)),
		term.Many(x.Replications, "replication"))
	standings := p.Board()
	if standings == nil {
		b.WriteString("\n")
		return b.String()
	}
	pm := "± s.e."
	if t.Plain {
		pm = "+- s.e."
	}
	title := strings.TrimPrefix(b.String(), "\n")
	b.Reset()
	b.WriteString("\n" + term.PadRight(title, 40) + term.PadLeft("mean", 10) + term.PadLeft(pm, 9) +
		term.PadLeft("behind", 9) + "\n")
	line := func(name string, s sim.Standing, first bool) {
		se := ""
		if p.Replications > 1 {
			se = fmt.Sprintf("%.1f", s.SE)
		}
		behind := fmt.Sprintf("%.0f %%", 100*s.Behind)
		if first {
			behind = ""
		}
		text := " " + term.PadRight(term.Shorten(name, 38), 39) + term.PadLeft(fmt.Sprintf("%.1f", s.Mean), 10) +
			term.PadLeft(se, 9) + term.PadLeft(behind, 9)
		text = t.Words(strings.TrimRight(text, " "))
		if first {
			text = t.Bold(text)
		}
		b.WriteString(text + "\n")
	}
	policies := len(x.Policies)
	switch n := len(x.Environments); {
	case n <= 2:
		show := (blockLines - 1) / n
		for e := range n {
			here := standings[e*policies : (e+1)*policies]
			most := min(show, len(here))
			if n > 1 {
				b.WriteString(" " + x.Environments[e].Name + "\n")
				most = min(show-1, len(here))
			}
			if most < len(here) && n == 1 {
				most--
			}
			for i, s := range here[:most] {
				line(s.Policy, s, i == 0)
			}
			if n == 1 && most < len(here) {
				fmt.Fprintf(&b, " and %d more\n", len(here)-most)
			}
		}
	default:
		most := min(n, blockLines-2)
		for e := range most {
			s := standings[e*policies]
			line(s.Environment+": "+s.Policy, s, true)
		}
		if most < n {
			fmt.Fprintf(&b, " and %d more environments\n", n-most)
		}
	}
	return b.String()
}

// events is the display of --json: one object a line on stdout.
type events struct {
	w      io.Writer
	last   float64
	budget time.Duration // of --budget; the number of replications is not known then
}

func (e *events) emit(fields ...any) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i < len(fields); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:", fields[i])
		v, err := json.Marshal(fields[i+1])
		if err != nil {
			v = []byte("null") // NaN: there is no such number
		}
		b.Write(v)
	}
	b.WriteString("}\n")
	e.w.Write(b.Bytes())
}

func (e *events) start(x *sim.Experiment) {
	if e.budget > 0 {
		e.emit("event", "start", "experiment", x.Name, "environments", len(x.Environments), "policies", len(x.Policies),
			"budget_s", e.budget.Seconds(), "horizon", x.Horizon, "seed", x.Seed)
		return
	}
	e.emit("event", "start", "experiment", x.Name, "environments", len(x.Environments), "policies", len(x.Policies),
		"replications", x.Replications, "horizon", x.Horizon, "cells", x.Cells(), "seed", x.Seed)
}

func (e *events) progress(p sim.Progress) {
	if p.Done < p.Cells && p.Seconds-e.last < 1 {
		return
	}
	e.last = p.Seconds
	e.emit("event", "progress", "done", p.Done, "total", p.Cells, "rounds_per_s", round2(speed(p)), "left_s",
		round2(remaining(p)))
}

func (e *events) note(text string)       { e.emit("event", "note", "text", text) }
func (e *events) stopping(time.Duration) {}
func (e *events) stop()                  {}

// round2 keeps two digits: more would be noise.
func round2(v float64) float64 {
	var out float64
	fmt.Sscanf(fmt.Sprintf("%.2g", v), "%g", &out)
	return out
}
