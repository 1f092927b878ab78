package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"troupe/cli/term"
	"troupe/client"
	"troupe/internal/worlds"
)

// This file is `troupe load --stream`: requests like those of an application, whose mean rewards are known, to see what
// a model earns in its first thousand decisions.

// server is the model of a server as a player of a world.
type server struct {
	at      *served
	events  []string // ids of the decisions
	refused int      // rewards that came too late
}

// Decide implements worlds.Player.
func (p *server) Decide(c worlds.Object, actions []worlds.Action) (int, []float64, error) {
	r := client.DecideRequest{Actions: make([]client.Action, len(actions))}
	if c != nil {
		r.Context = json.RawMessage(c.AppendJSON(nil))
	}
	for i := range actions {
		r.Actions[i].ID = actions[i].ID
		if actions[i].Features != nil {
			r.Actions[i].Features = json.RawMessage(actions[i].Features.AppendJSON(nil))
		}
	}
	d, err := p.at.client.Decide(p.at.ctx, p.at.model, r)
	if err != nil {
		return 0, nil, err
	}
	p.events = append(p.events, d.EventID)
	p.at.show(len(p.events))
	return d.Action.Index, nil, nil
}

// Reward implements worlds.Player.
func (p *server) Reward(decision int, y float64) error {
	r, err := p.at.client.Reward(p.at.ctx, p.events[decision], y)
	if r.Status == "late" {
		p.refused++
	}
	return err
}

// Skip implements worlds.Player.
func (*server) Skip(int) error { return nil }

// OwnWindows implements worlds.Windowed: what a client does not send the server counts when the window closes.
func (*server) OwnWindows() {}

// warnRefused says that rewards came too late.
func (p *server) warnRefused(w io.Writer) {
	if p.refused > 0 {
		fmt.Fprintf(w, "troupe: note: %d rewards came after the window of their decision and do not count; a longer --window "+
			"takes them\n", p.refused)
	}
}

// WorldLine is what the first rounds of one world have brought, as shares of what the best action earns above a
// uniform choice.
type WorldLine struct {
	Rounds int     `json:"rounds"`
	Share  float64 `json:"share"`  // of the model so far
	Recent float64 `json:"recent"` // of the model since the line before
	Table  float64 `json:"table"`  // so far, of Thompson sampling with a table of what the rewards depend on
	Linear float64 `json:"linear"` // so far, of Thompson sampling on one-hot features
}

// WorldsResult is the outcome of a stream in all of its worlds.
type WorldsResult struct {
	Stream  string          `json:"stream"`
	Client  string          `json:"client"`
	Seconds float64         `json:"seconds"`
	Worlds  [][]WorldLine   `json:"worlds"`
	Late    int             `json:"late"`            // rewards that came after their window
	Model   json.RawMessage `json:"model,omitempty"` // of the last world, as the server shows it afterwards

	doc, clientDoc string
}

func streamNames() string {
	var names []string
	for _, k := range worlds.Kinds() {
		names = append(names, k.Name)
	}
	for _, k := range worlds.ListKinds() {
		names = append(names, k.Name)
	}
	for _, k := range worlds.NumberKinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// streamList says what each stream is.
func streamList() string {
	var b strings.Builder
	for _, k := range worlds.Kinds() {
		fmt.Fprintf(&b, "\n  %-17s %s", k.Name, k.Doc)
	}
	b.WriteString("\nStreams whose decisions are lists, beside a table that decides each position by itself:")
	for _, k := range worlds.ListKinds() {
		fmt.Fprintf(&b, "\n  %-17s %s", k.Name, k.Doc)
	}
	b.WriteString("\nStreams whose decisions play numbers, beside a table of ten bins:")
	for _, k := range worlds.NumberKinds() {
		fmt.Fprintf(&b, "\n  %-17s %s", k.Name, k.Doc)
	}
	return b.String()
}

// clientList says what each client does.
func clientList() string {
	var b strings.Builder
	for _, c := range worlds.Clients() {
		fmt.Fprintf(&b, "\n  %-17s %s", c[0], c[1])
	}
	return b.String()
}

// maxRounds bounds what a world takes: it is made before it is played, and a decision takes up to 5 kB.
const maxRounds = 100_000

// worldKind returns the kind of --stream.
func (s *streamFlags) worldKind() (worlds.Kind, error) {
	var kind worlds.Kind
	for _, k := range worlds.Kinds() {
		if k.Name == s.kind {
			kind = k
		}
	}
	if kind.Name == "" {
		return kind, fmt.Errorf("--stream %q: expected one of %s", s.kind, streamNames())
	}
	return kind, s.checkSizes()
}

// sender returns the client of --client, or otherwise of the stream itself.
func (s *streamFlags) sender(own string) (worlds.Client, error) {
	name := s.client
	if name == "" {
		name = own
	}
	c, err := worlds.ClientOf(name)
	switch {
	case err != nil:
		return c, fmt.Errorf("--%w", err)
	case c.Waits() && s.window == 0:
		return c, fmt.Errorf("--client %s leaves rewards out, and needs --window: the time after which a decision without "+
			"a reward is over, such as 5s", name)
	}
	return c, nil
}

// loadWorlds plays a stream whose decisions are actions.
func loadWorlds(ctx context.Context, out, progress io.Writer, f *flags) error {
	s := &f.stream
	kind, err := s.worldKind()
	if err != nil {
		return term.Misuse(err)
	}
	sends, err := s.sender(kind.Client())
	if err != nil {
		return term.Misuse(err)
	}
	result := WorldsResult{Stream: s.kind, Client: sends.Name, doc: kind.Doc, clientDoc: sends.Doc()}
	var lines []WorldLine
	var p server
	end, err := f.playWorlds(ctx, progress, func(m *served, seed uint64) (bool, error) {
		p = server{at: m}
		var err error
		lines, err = f.playWorld(&p, kind, sends, seed)
		return len(lines) > 0, err
	}, func() {
		result.Worlds = append(result.Worlds, lines)
		result.Late += p.refused
		p.warnRefused(progress)
	})
	if err != nil {
		return err
	}
	result.Seconds, result.Model = end.seconds, end.model
	return end.answer(out, f.json, result, len(result.Worlds), func() { printWorlds(out, &result) })
}

// one returns the client for one request after the other.
func (f *flags) one() (*client.Client, error) {
	o := client.Options{Key: f.key}
	if _, ok := strings.CutPrefix(f.url, "unix:"); !ok {
		o.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	return client.New(f.url, o)
}

// marks are the rounds after which a stream of n says how far it is: 100, 300, 1000, 3000, … and n.
func marks(n int) (at []int) {
	for i := 100; i < n; i *= 10 {
		at = append(at, i, 3*i)
	}
	for len(at) > 0 && at[len(at)-1] >= n {
		at = at[:len(at)-1]
	}
	return append(at, n)
}

// playWorld plays a world: the model over HTTP, and two rivals beside it, on the same requests and with the same client.
// All have the same luck: what an action pays in a request is one number for all of them.
func (f *flags) playWorld(p *server, kind worlds.Kind, sends worlds.Client, seed uint64) (lines []WorldLine, err error) {
	w, err := kind.New(seed, f.stream.rounds)
	if err != nil {
		return nil, err
	}
	if err := p.at.create(&f.stream, nil); err != nil {
		return nil, err
	}
	played, stopped := worlds.Play(w, sends, p)
	table, err := worlds.Play(w, sends, worlds.NewTable(w, seed))
	if err != nil {
		return nil, err
	}
	linear, err := worlds.Play(w, sends, worlds.NewLinTS(w, seed))
	if err != nil {
		return nil, err
	}
	last := 0
	for _, n := range marks(len(w.Decisions)) {
		if n > len(played.Chosen) {
			break
		}
		lines = append(lines, WorldLine{n, played.Share(0, n), played.Share(last, n), table.Share(0, n), linear.Share(0, n)})
		last = n
	}
	return lines, stopped
}

// printWorlds prints the means over the worlds, with standard errors and the worst world where there are several.
func printWorlds(out io.Writer, r *WorldsResult) {
	n := len(r.Worlds)
	fmt.Fprintf(out, "%s: %s\n", r.Stream, r.doc)
	fmt.Fprintf(out, "rewards come %s\n", r.clientDoc)
	rows := [][]string{{"rounds", "earned", "recent", "table", "linear"}}
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
		of(func(l WorldLine) float64 { return l.Table })
		of(func(l WorldLine) float64 { return l.Linear })
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
	fmt.Fprintln(out, "  table: Thompson sampling that is told what the rewards depend on, and how much they vary")
	fmt.Fprintln(out, "  linear: Thompson sampling on one-hot features, told the scale of each number")
	if n > 1 {
		fmt.Fprintf(out, "  means of %d worlds, each on a model of its own, with standard errors; worst: of earned\n",
			n)
	}
}
