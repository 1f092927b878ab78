package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"troupe/cli/term"
	"troupe/client"
	"troupe/dataset"
	"troupe/internal/worlds"
	"troupe/rng"
)

// This file is `troupe load --data`: a data set as a stream of decisions, to see what a model learns.

// streamFlags are the flags that go with --data and --stream.
type streamFlags struct {
	kind    string // of --stream
	rounds  int
	worlds  int
	data    string
	class   string
	gaps    []string
	rows    int
	missing float64
	useless int
	client  string
	window  time.Duration
	smoke   bool
}

// addWindow gives the configuration of a model the reward window that was asked for.
func (s *streamFlags) addWindow(config map[string]any) {
	if s.window > 0 {
		config["reward"] = map[string]any{"window": s.window.String()}
	}
}

func (s *streamFlags) check() error {
	switch {
	case s.rows < 0:
		return fmt.Errorf("--rows %d: expected at least 0, where 0 means all", s.rows)
	case !(s.missing >= 0 && s.missing < 1):
		return fmt.Errorf("--missing %v: expected a share in [0, 1)", s.missing)
	case s.useless < 0 || s.useless > 100:
		return fmt.Errorf("--useless %d: expected 0 to 100", s.useless)
	case s.window < 0:
		return fmt.Errorf("--window %v: expected a time above 0", s.window)
	}
	return nil
}

// StreamLine is what the first rounds of a stream have brought.
type StreamLine struct {
	Rounds int     `json:"rounds"`
	Share  float64 `json:"share"`  // of right answers so far
	Recent float64 `json:"recent"` // since the line before
	Uneven float64 `json:"chance"` // of a uniform choice
}

// StreamResult is the outcome of a stream.
type StreamResult struct {
	Data    string          `json:"data"`
	Actions int             `json:"actions"`
	Seconds float64         `json:"seconds"`
	Lines   []StreamLine    `json:"lines"`
	Model   json.RawMessage `json:"model"` // as the server shows it afterwards
}

// row is one request of a stream.
func (f *flags) row(t *dataset.Table, i int, draw rng.Source) map[string]any {
	context := map[string]any{}
	for j := range t.Columns {
		c := &t.Columns[j]
		if f.stream.missing > 0 && draw.Float64(j) < f.stream.missing {
			continue
		}
		switch {
		case c.Categorical() && c.Codes[i] != dataset.Missing:
			context[c.Name] = c.Levels[c.Codes[i]]
		case !c.Categorical() && !math.IsNaN(c.Values[i]):
			context[c.Name] = c.Values[i]
		}
	}
	for j := range f.stream.useless {
		context["word"+strconv.Itoa(j)] = "w" + strconv.Itoa(draw.Intn(1000+j, 1000))
		context["noise"+strconv.Itoa(j)] = draw.Normal(2000 + j)
	}
	return context
}

// stream sends the rows of a file in random order, one decision and its reward after the other.
func stream(ctx context.Context, out, progress io.Writer, f *flags) error {
	s := &f.stream
	if err := s.check(); err != nil {
		return term.Misuse(err)
	}
	sends, err := s.sender("now")
	if err != nil {
		return term.Misuse(err)
	}
	table, err := dataset.Read(s.data, dataset.Options{Class: s.class, Gaps: s.gaps})
	if err != nil {
		return term.Misuse(err)
	}
	c, err := f.one()
	if err != nil {
		return term.Misuse(err)
	}
	config := map[string]any{"id": f.model}
	s.addWindow(config)
	if err := c.CreateModel(ctx, config); err != nil {
		return fmt.Errorf("making the model %s (a stream begins with a new one; choose another --model): %w", f.model,
			err)
	}
	if s.smoke {
		if _, err := c.Decide(ctx, f.model, client.DecideRequest{Actions: []client.Action{{ID: "x"}}}); err != nil {
			return err
		}
	}
	fmt.Fprintln(progress, "troupe:", table)
	n := table.Rows
	if s.rows > 0 {
		n = min(n, s.rows)
	}
	result := StreamResult{Data: table.Name, Actions: len(table.Class.Levels)}
	begin := time.Now()
	p := server{at: &served{ctx: ctx, client: c, model: f.model, show: func(int) {}}}
	if err := f.play(out, &p, sends, table, n, &result); err != nil {
		return err
	}
	p.warnRefused(progress)
	result.Seconds = time.Since(begin).Seconds()
	if err := c.Get(ctx, "/v1/models/"+f.model, &result.Model); err != nil {
		return err
	}
	if f.json {
		b, err := json.Marshal(result)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", b)
		}
		return err
	}
	return warnStream(out, result.Model)
}

// play sends n rows and prints the share of right answers at 1, 2, 5, 10, 20, … thousand and at the end.
func (f *flags) play(out io.Writer, p *server, sends worlds.Client, t *dataset.Table, n int, result *StreamResult) error {
	key := rng.NewKey(f.seed)
	order := make([]int, t.Rows)
	shuffle := key.Stream(rng.Instance).Round(0)
	for i := range order {
		j := shuffle.Intn(i, i+1)
		order[i], order[j] = order[j], i
	}
	var actions []client.Action
	for _, level := range t.Class.Levels {
		actions = append(actions, client.Action{ID: level})
	}
	right, before, last := 0, 0, 0
	chance := 1 / float64(len(actions))
	next := min(n, 1000)
	queue := sends.Start(f.seed)
	send := func(decision int, y float64, how worlds.Arrival) error {
		if how != worlds.Sent {
			return nil
		}
		return p.Reward(decision, y)
	}
	if !f.json {
		fmt.Fprintf(out, "%10s %10s %10s %10s\n", "rounds", "right", "recent", "chance")
	}
	for i := range n {
		row := order[i]
		d, err := p.at.client.Decide(p.at.ctx, f.model, client.DecideRequest{Context: f.row(t, row,
			key.Stream(rng.Offer).Round(uint64(i))), Actions: actions})
		if err != nil {
			return err
		}
		p.events = append(p.events, d.EventID)
		y := 0.0
		if d.Action.Index == int(t.Class.Codes[row]) {
			y = 1
			right++
		}
		queue.Played(i, y)
		if err := queue.Due(i, send); err != nil {
			return err
		}
		if i+1 != next {
			continue
		}
		line := StreamLine{next, float64(right) / float64(next), float64(right-before) / float64(next-last), chance}
		result.Lines = append(result.Lines, line)
		if !f.json {
			fmt.Fprintf(out, "%10d %10.3f %10.3f %10.3f\n", line.Rounds, line.Share, line.Recent, line.Uneven)
		}
		last, before = next, right
		if next *= 2; next == 4*int(math.Pow10(int(math.Log10(float64(next))))) { // 1, 2, 5, 10, 20, … thousand
			next = next / 4 * 5
		}
		next = min(next, n)
	}
	return nil
}

// warnStream prints what the server says of the model: what it has found out, and its warnings.
func warnStream(out io.Writer, model json.RawMessage) error {
	if len(model) == 0 {
		return nil
	}
	var m struct {
		Warnings  []string `json:"warnings"`
		Explained struct {
			Text string `json:"text"`
		} `json:"explained"`
	}
	if err := json.Unmarshal(model, &m); err != nil {
		return err
	}
	if m.Explained.Text != "" {
		fmt.Fprintln(out, m.Explained.Text)
	}
	for _, w := range m.Warnings {
		fmt.Fprintln(out, "warning:", w)
	}
	return nil
}
