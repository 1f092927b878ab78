package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

// lines is the display for a pipe, a log or CI: a line at the start, one with an estimate in the first second of
// play, then at 1, 2, 5, 10, 20 and 50 % of the rounds, but at most every two seconds and at least
// every thirty.
type lines struct {
	w    io.Writer
	next int     // index into milestones
	last float64 // seconds at the last line
}

// firstEstimate is how many seconds of play an estimate needs.
const firstEstimate = 0.7

var milestones = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5}

func (l *lines) start(x *sim.Experiment) {
	fmt.Fprintf(l.w, "troupe: %s\n", headline(x))
}

func (l *lines) progress(p sim.Progress) {
	wait := 2.0
	if l.last == 0 {
		wait = firstEstimate
	}
	if p.Done == p.Cells || p.Rounds == 0 || p.Seconds-l.last < wait {
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
	fmt.Fprintf(l.w, "troupe: %2.0f%%  %d of %d cells  %s rounds/s  %s\n", 100*share, p.Done, p.Cells,
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
		fmt.Fprintf(c.w, "troupe: %3.0f%% of the budget  %s complete\n", 100*min(1, share),
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

// live is the display of a terminal: one line, repainted ten times a second and gone before the result.
type live struct {
	t    term.Terminal
	bars *mpb.Progress
	bar  *mpb.Bar

	mu   sync.Mutex
	line string
	last string // from stopping
}

func (l *live) start(x *sim.Experiment) {
	fmt.Fprintln(l.t.W, l.t.Bold(l.t.Wrap(headline(x), 0)))
	l.bars = mpb.New(mpb.WithOutput(l.t.W), mpb.WithWidth(l.t.Width-1), mpb.WithRefreshRate(100*time.Millisecond),
		mpb.WithAutoRefresh())
	l.bar = l.bars.MustAdd(int64(x.Cells()), mpb.BarFillerFunc(func(w io.Writer, _ decor.Statistics) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		// The terminal echoes ^C where the cursor is, and the next frame goes up from there: it begins at the left edge all
		// the same.
		_, err := io.WriteString(w, "\r"+l.line)
		return err
	}), mpb.BarFillerTrim())
}

// headline is the first line of a run: what is played.
func headline(x *sim.Experiment) string {
	worlds := ""
	if n := len(x.Environments); n > 1 {
		worlds = fmt.Sprintf("%d environments, ", n)
	}
	policies := fmt.Sprintf("%d policies", len(x.Policies))
	if len(x.Policies) == 1 {
		policies = "1 policy"
	}
	return fmt.Sprintf("%s: %s%s, %s of %s, seed %d", x.Name, worlds, policies, term.Many(x.Replications, "replication"),
		term.Many(x.Horizon, "round"), x.Seed)
}

func (l *live) progress(p sim.Progress) {
	line := barLine(l.t, p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		l.line = line
	}
}

func (l *live) note(text string) {
	line := l.t.Wrap("note: "+text, 0) + "\n"
	if l.bars == nil {
		io.WriteString(l.t.W, line)
		return
	}
	l.bars.Write([]byte(line))
}

func (l *live) stopping(grace time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = finishing(grace)
	l.line = cutTo(l.last, l.t.Width-1)
}

func (l *live) stop() {
	if l.bar == nil {
		return
	}
	l.bar.Abort(true)
	l.bars.Wait()
	l.bar, l.bars = nil, nil
}

// cutTo ends a line at so many columns.
func cutTo(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width)])
	}
	return s
}

// barLine is " 51%  ━━━━━╸─────  193 of 378 cells  about 2 s left", shorter on a narrow terminal and never wider than it is.
func barLine(t term.Terminal, p sim.Progress) string {
	share := shareOf(p)
	from := fmt.Sprintf("%3.0f%%  ", 100*share)
	to := fmt.Sprintf("  %d of %d cells  %s", p.Done, p.Cells, about(remaining(p)))
	room := min(t.Width-1-len(from)-utf8.RuneCountInString(to), 40)
	if room < 8 {
		return cutTo(from+strings.TrimSpace(to), t.Width-1)
	}
	full, half, empty := "━", "╸", "─"
	if t.Plain {
		full, half, empty = "#", "#", "."
	}
	n := int(share * float64(2*room))
	bar := strings.Repeat(full, n/2)
	if n%2 == 1 {
		bar += half
	}
	return from + bar + strings.Repeat(empty, max(0, room-(n+1)/2)) + to
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
