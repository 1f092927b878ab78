package evaluate

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/internal/decimal"
	"troupe/ope"
	"troupe/report"
	"troupe/spec"
)

// knobFlags are the flags of continuous actions.
type knobFlags struct{ columns, kernel, bandwidths string }

func (k *knobFlags) add(f *pflag.FlagSet) {
	f.StringVar(&k.columns, "knob", "", "the action is a number: columns of a table with a header, such as "+
		"price,density=f,reward=profit,cell=from:to; a name of numbers in JSON lines, or of Vowpal Wabbit's ca")
	f.StringVar(&k.kernel, "kernel", ope.Kernels[0], "with --knob: "+strings.Join(ope.Kernels, " or "))
	f.StringVar(&k.bandwidths, "bandwidth", "", "with --knob: how far a target is smoothed, such as 0.1 or "+
		"0.1:0.2:0.4; default: eight of them, from the first decisions")
}

// knobMay are the flags that go with --knob.
var knobMay = []string{"knob", "kernel", "bandwidth", "target", "rewards", "level", "by", "out", "json"}

// check refuses what does not go together.
func (k *knobFlags) check(f *pflag.FlagSet) (err error) {
	on := f.Changed("knob")
	if on && k.columns == "" {
		return term.Misuse(errors.New("--knob: expected the column of the action"))
	}
	f.Visit(func(x *pflag.Flag) {
		switch {
		case on && !slices.Contains(knobMay, x.Name):
			err = term.Misuse(fmt.Errorf("--%s does not go with --knob; these do: --%s", x.Name,
				strings.Join(knobMay[1:], ", --")))
		case !on && (x.Name == "kernel" || x.Name == "bandwidth"):
			err = term.Misuse(fmt.Errorf("--%s is for --knob", x.Name))
		}
	})
	return err
}

// knobColumns are the columns of a knob.
type knobColumns struct{ knob, density, reward, from, to string }

// parse reads the columns of the knob, its density, its cell and the reward.
func (k *knobFlags) parse() (c knobColumns, err error) {
	c.density, c.reward = "density", "reward"
	for i, part := range strings.Split(k.columns, ",") {
		name, column, named := strings.Cut(strings.TrimSpace(part), "=")
		from, to, pair := strings.Cut(column, ":")
		switch {
		case i == 0 && !named && name != "":
			c.knob = name
		case named && name == "density" && column != "":
			c.density = column
		case named && name == "reward" && column != "":
			c.reward = column
		case named && name == "cell" && pair && from != "" && to != "":
			c.from, c.to = from, to
		default:
			return c, term.Misuse(fmt.Errorf("--knob %s: expected the column of the action, then "+
				"density=COLUMN, reward=COLUMN or cell=FROM:TO where they are called otherwise", k.columns))
		}
	}
	return c, nil
}

// knobs evaluates targets on a log of continuous actions.
func (g *flags) knobs(out io.Writer, source string) error {
	read, err := g.log.in.Options()
	if err != nil {
		return err
	}
	o := ope.KnobOptions{Kernel: g.knob.kernel, Level: g.estimate.level, Names: g.targets.names, Rewards: (*ope.Pair)(read.Rewards)}
	if g.knob.bandwidths != "" {
		for part := range strings.SplitSeq(g.knob.bandwidths, ":") {
			h, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return term.Misuse(fmt.Errorf("--bandwidth %s: %q is no number", g.knob.bandwidths, part))
			}
			o.Bandwidths = append(o.Bandwidths, h)
		}
	}
	if len(g.targets.names) == 0 {
		return term.Misuse(errors.New("--target is missing: a column with the number that the target would play, or " +
			"a number"))
	}
	if g.estimate.by != "" {
		if o.By, err = ope.ParseBy(g.estimate.by); err != nil {
			return term.Misuse(err)
		}
	}
	f, err := os.Open(source)
	if err != nil {
		return term.Misuse(err)
	}
	defer f.Close()
	t, err := g.knob.open(source, f, g.targets.names, o.By)
	if err != nil {
		return err
	}
	o.Cells = t.cells()
	r, err := ope.EvaluateKnobs(t.next, o)
	if err != nil {
		var system *os.PathError
		if errors.As(err, &system) {
			return err
		}
		return term.Misuse(t.at(err))
	}
	page := ""
	if !g.output.json || g.output.dir != "" {
		if page, err = report.BuildKnobs(g.output.pageDir(source, nil), r, pageMeta()); err != nil {
			return err
		}
	}
	if g.output.json {
		w := json.NewEncoder(out)
		w.SetIndent("", "  ")
		return w.Encode(struct {
			Source  string `json:"source"`
			Pending int    `json:"pending,omitempty"` // decisions without a reward, which are left out
			*ope.KnobResult
		}{source, t.pending(), r})
	}
	printKnobs(out, r, t.pending(), source, page)
	return nil
}

// knobTable is a table under way.
type knobTable struct {
	file                  string
	r                     *csv.Reader
	header                []string
	knob, density, reward int
	from, to              int   // columns of the cell; −1: none
	aims                  []int // columns of the targets; −1: a number
	fixed                 []float64
	by                    int // column of the segments; −1: none
	line                  int
	ended                 bool
}

// pending: a table has an empty cell refused.
func (t *knobTable) pending() int { return 0 }

// openKnobTable reads the header. A target is a column, or a number.
func openKnobTable(file string, b *bufio.Reader, columns knobColumns, targets []string, by *ope.By) (*knobTable, error) {
	start, _ := b.Peek(1 << 12)
	first, _, _ := bytes.Cut(start, []byte("\n"))
	t := &knobTable{file: file, r: csv.NewReader(b)}
	for _, separator := range []string{";", "\t"} {
		if bytes.Count(first, []byte(separator)) > bytes.Count(first, []byte(string(t.r.Comma))) {
			t.r.Comma = rune(separator[0])
		}
	}
	var err error
	if t.header, err = t.r.Read(); err != nil {
		return nil, term.Misuse(fmt.Errorf("%s: expected a table with a header: %v", file, err))
	}
	t.header, t.r.ReuseRecord = slices.Clone(t.header), true
	find := func(what, name string) (int, error) {
		if i := slices.Index(t.header, name); i >= 0 {
			return i, nil
		}
		return 0, term.Misuse(fmt.Errorf("%s: %s: the table has no column %s%s", file, what, name,
			spec.Suggest(name, t.header)))
	}
	for _, c := range []struct {
		what, name string
		at         *int
	}{{"--knob", columns.knob, &t.knob}, {"--knob density", columns.density, &t.density}, {"--knob reward", columns.reward, &t.reward},
		{"--knob cell", columns.from, &t.from}, {"--knob cell", columns.to, &t.to}} {
		if c.name == "" {
			*c.at = -1
			continue
		}
		if *c.at, err = find(c.what, c.name); err != nil {
			return nil, err
		}
	}
	if t.by = -1; by != nil {
		if t.by = slices.Index(t.header, "context."+by.Path); t.by < 0 {
			if t.by, err = find("--by", by.Path); err != nil {
				return nil, err
			}
		}
	}
	for i, name := range targets {
		if slices.Contains(targets[:i], name) {
			return nil, term.Misuse(fmt.Errorf("--target %s: it is there twice", name))
		}
		at, v := slices.Index(t.header, name), 0.0
		if at < 0 {
			if v, err = strconv.ParseFloat(name, 64); err != nil || v-v != 0 {
				_, err = find("--target", name)
				return nil, err
			}
		}
		t.aims, t.fixed = append(t.aims, at), append(t.fixed, v)
	}
	return t, nil
}

// next reads a row.
func (t *knobTable) next(k *ope.Knob) error {
	row, err := t.r.Read()
	if err != nil {
		t.ended = errors.Is(err, io.EOF)
		return err
	}
	t.line, _ = t.r.FieldPos(0)
	number := func(at int) (v float64) {
		if err == nil {
			if v, err = strconv.ParseFloat(strings.TrimSpace(row[at]), 64); err != nil {
				err = fmt.Errorf("%s is %q, expected a number", t.header[at], row[at])
			}
		}
		return v
	}
	k.Action, k.Density, k.Reward, k.Aims = number(t.knob), number(t.density), number(t.reward), k.Aims[:0]
	for i, at := range t.aims {
		v := t.fixed[i]
		if at >= 0 {
			v = number(at)
		}
		k.Aims = append(k.Aims, v)
	}
	if t.from >= 0 {
		k.Cell = ope.Pair{number(t.from), number(t.to)}
		if k.Mass = float64(k.Density * (k.Cell[1] - k.Cell[0])); err == nil && !(k.Cell[0] < k.Cell[1]) {
			err = fmt.Errorf("cell is from %v to %v, expected two numbers, the smaller one first", k.Cell[0], k.Cell[1])
		}
	}
	if k.Segment = ""; t.by >= 0 {
		k.Segment = strings.TrimSpace(row[t.by])
	}
	return err
}

func (t *knobTable) cells() bool { return t.from >= 0 }

// at names the file and, for an error of a row, its line. The reader's own errors have it.
func (t *knobTable) at(err error) error {
	var parse *csv.ParseError
	if t.ended || t.line == 0 || errors.As(err, &parse) {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	return fmt.Errorf("%s:%d: %w", t.file, t.line, err)
}

// printKnobs prints the answer.
func printKnobs(w io.Writer, r *ope.KnobResult, pending int, source, page string) {
	line := func(label, text string) {
		fmt.Fprintf(w, "%s %s\n", term.PadRight(term.Shorten(label, 9), 9), term.Wrap(text, 10))
	}
	short := func(v float64) string { return decimal.Short(v, 4) }
	decimals := knobDecimals(r)
	text := fmt.Sprintf("%s evaluated; what ran earned %s", term.Many(r.Events, "decision"), short(r.Logged))
	if r.Unit > 0 {
		text += fmt.Sprintf("; the first %d fixed the bandwidths and are not counted", r.Unit)
	}
	if pending > 0 {
		text += fmt.Sprintf("; %s without a reward yet left out", term.Many(pending, "decision"))
	}
	line(strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)), text)
	for _, t := range r.Targets {
		fmt.Fprintln(w)
		rows := [][]string{{"smoothed", "value", "sure", "difference", "sure", "ESS", "weights"}}
		for i, b := range t.Bandwidths {
			mark := "  "
			if t.Chosen != nil && *t.Chosen == i {
				mark = "◆ "
			}
			name := short(b.Bandwidth)
			if b.Cell {
				name = "cell"
			}
			rows = append(rows, []string{mark + name, point(b.Value, decimals, false),
				interval(&b.Sequence, decimals, false), point(b.Difference, ope.Apart(&b.Uplift, decimals), true),
				interval(&b.Uplift, decimals, true), figures(b.ESS), figures(b.WeightMean)})
		}
		fmt.Fprintln(w, t.Name)
		term.Columns(w, rows)
		line("verdict", t.Verdict)
		if s := t.Segments; s != nil {
			rows := [][]string{{"by " + s.Path(), "decisions", "sure", ""}}
			for _, x := range s.Rows {
				rows = append(rows, []string{"  " + term.Shorten(x.Name, 24), term.Grouped(int64(x.Events)),
					interval(x.Sequence, decimals, true), x.Verdict})
			}
			term.Columns(w, rows)
			line("segments", s.Sentence)
		}
	}
	fmt.Fprintln(w)
	for _, x := range knobWords(r) {
		line(x[0], x[1])
	}
	if page != "" {
		line("report", page)
	}
}

// knobDecimals is how many decimals the numbers need: two digits of the narrowest interval.
func knobDecimals(r *ope.KnobResult) int {
	least := r.Rewards[1] - r.Rewards[0]
	for _, t := range r.Targets {
		for _, b := range t.Bandwidths {
			for _, w := range []float64{b.Sequence[1] - b.Sequence[0], b.Uplift[1] - b.Uplift[0]} {
				if w > 0 {
					least = min(least, w)
				}
			}
		}
	}
	return max(0, min(9, 1-int(math.Floor(math.Log10(least)))))
}

// knobWords are the lines below the tables: what the intervals hold for, and what to doubt.
func knobWords(r *ope.KnobResult) [][2]string {
	whose := fmt.Sprintf("It is the value of the smoothed target, which plays its number plus the bandwidth times a "+
		"draw of the %s kernel, and not that of the target itself: no decision is exactly at its number. A smaller "+
		"bandwidth is nearer to it, and less sure", r.Kernel)
	if r.Targets[0].Bandwidths[0].Cell {
		cell := "In the row cell the target plays evenly in the cell of the logger in which its number lies, or the step that it is"
		if whose = cell; len(r.Targets[0].Bandwidths) > 1 {
			whose = cell + "; in the others its number plus the bandwidth times a draw of the " + r.Kernel + " kernel"
		}
	}
	out := [][2]string{{"sure", fmt.Sprintf("%g%% for all rows of a target together, at every look, for loggers and "+
		"targets that learn. ", 100*r.Level) + whose}}
	if len(r.Targets[0].Bandwidths) > 1 {
		out = append(out, [2]string{"◆", "chosen by SLOPE: the widest bandwidth whose estimate agrees with those of all " +
			"smaller ones; its interval holds, because all of them do"})
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		if text := ope.KnobDoubt(t); text != "" {
			out = append(out, [2]string{"warning", text})
		}
		if t.Segments != nil && i == 0 {
			for _, note := range t.Segments.Notes {
				out = append(out, [2]string{"warning", note})
			}
		}
	}
	return out
}
