package evaluate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"troupe/cli/term"
	"troupe/ope"
)

// knobSource gives the decisions of a log with numbers.
type knobSource interface {
	next(k *ope.Knob) error
	at(err error) error
	cells() bool  // decisions have the cell that was drawn
	pending() int // decisions that were left out because they have no reward yet
}

// open recognises a table, JSON lines and Vowpal Wabbit's text with ca labels, by their first bytes.
func (k *knobFlags) open(file string, f io.Reader, targets []string, by *ope.By) (knobSource, error) {
	columns, err := k.parse()
	if err != nil {
		return nil, err
	}
	b := bufio.NewReaderSize(f, 1<<16)
	if mark, _ := b.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = b.Discard(3)
	}
	start, _ := b.Peek(3)
	vw := string(start) == "ca "
	if len(start) == 0 || start[0] != '{' && !vw {
		return openKnobTable(file, b, columns, targets, by)
	}
	if by != nil {
		return nil, term.Misuse(errors.New("--by: segments of numbers are cut by a column of a table"))
	}
	l := &knobLines{file: file, b: b, columns: columns, vw: vw}
	for i, name := range targets {
		v, err := strconv.ParseFloat(name, 64)
		if err != nil || v-v != 0 {
			if vw {
				return nil, term.Misuse(fmt.Errorf("--target %s: expected a number", name))
			}
			l.keys = append(l.keys, name)
		} else {
			l.keys = append(l.keys, "")
		}
		for _, other := range targets[:i] {
			if other == name {
				return nil, term.Misuse(fmt.Errorf("--target %s: it is there twice", name))
			}
		}
		l.fixed = append(l.fixed, v)
	}
	if err := l.read(&l.ahead); err == io.EOF && l.waiting > 0 {
		return nil, term.Misuse(fmt.Errorf("%s: %s, and none has a reward yet", l.file, term.Many(l.waiting, "decision")))
	} else if err != nil {
		return nil, term.Misuse(l.at(err))
	}
	l.held = true
	l.cell = l.ahead.Mass != 0
	return l, nil
}

// knobLines are JSON lines with numbers, density or propensity, cell and reward, or lines of Vowpal Wabbit
//
//	ca 185.1:-0.65:6.2e-05 | a b
//
// with the action, its cost and the density.
type knobLines struct {
	file    string
	b       *bufio.Reader
	columns knobColumns
	vw      bool
	keys    []string // of targets, "" for a number
	fixed   []float64
	line    int
	ahead   ope.Knob
	held    bool // ahead is the next decision
	cell    bool
	ended   bool
	waiting int // decisions without a reward
}

func (l *knobLines) cells() bool { return l.cell }

func (l *knobLines) pending() int { return l.waiting }

// mostKnobLine bounds a line.
const mostKnobLine = 1 << 24

func (l *knobLines) next(k *ope.Knob) error {
	if l.held {
		l.held = false
		k.Action, k.Density, k.Reward, k.Cell, k.Mass = l.ahead.Action, l.ahead.Density, l.ahead.Reward, l.ahead.Cell, l.ahead.Mass
		k.Aims, k.Segment = append(k.Aims[:0], l.ahead.Aims...), ""
		return nil
	}
	return l.read(k)
}

func (l *knobLines) read(k *ope.Knob) error {
	for {
		var text []byte
		for {
			part, prefix, err := l.b.ReadLine()
			if err != nil {
				l.ended = err == io.EOF
				return err
			}
			if text = append(text, part...); len(text) > mostKnobLine {
				return errors.New("a line of more than 16 MiB")
			}
			if !prefix {
				break
			}
		}
		l.line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		*k = ope.Knob{Aims: k.Aims[:0]}
		if l.vw {
			return l.label(string(text), k)
		}
		if err := l.object(text, k); err != errPending {
			return err
		}
		l.waiting++
	}
}

// label reads a line of Vowpal Wabbit.
func (l *knobLines) label(text string, k *ope.Knob) error {
	head, _, bar := strings.Cut(text, "|")
	words := strings.Fields(head)
	if !bar || len(words) < 2 || words[0] != "ca" {
		return fmt.Errorf("%.40q, expected ca action:cost:density | features", text)
	}
	parts := strings.Split(words[1], ":")
	if len(parts) != 3 || len(words) > 2 && strings.Contains(words[2], ":") {
		return fmt.Errorf("label %q, expected one action:cost:density", strings.Join(words[1:], " "))
	}
	for i, into := range []*float64{&k.Action, &k.Reward, &k.Density} {
		v, err := strconv.ParseFloat(parts[i], 64)
		if err != nil {
			return fmt.Errorf("label %q, expected numbers", words[1])
		}
		*into = v
	}
	k.Reward = 0 - k.Reward
	k.Aims = append(k.Aims, l.fixed...)
	return nil
}

// errPending: the reward of a decision is null, as an export of a server has it while the window is open.
var errPending = errors.New("the reward is null")

// object reads a JSON line.
func (l *knobLines) object(text []byte, k *ope.Knob) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%v, expected a JSON object", err)
	}
	number := func(raw json.RawMessage, name string, into *float64) error {
		if raw == nil {
			return fmt.Errorf("%s is missing", name)
		}
		if err := json.Unmarshal(raw, into); err != nil || string(raw) == "null" {
			return fmt.Errorf("%s is %.40s, expected a number", name, raw)
		}
		return nil
	}
	inside := func(name string) (out map[string]json.RawMessage, err error) {
		if raw, is := all[name]; is {
			if err = json.Unmarshal(raw, &out); err != nil {
				err = fmt.Errorf("%s is %.40s, expected an object by the names of numbers", name, raw)
			}
		}
		return out, err
	}
	knob := l.columns.knob
	numbers, err := inside("numbers")
	if err != nil {
		return err
	}
	if len(numbers) > 1 {
		return fmt.Errorf("numbers has %d of them; a decision of one number can be evaluated", len(numbers))
	}
	if err := number(numbers[knob], "numbers."+knob, &k.Action); err != nil {
		return err
	}
	if string(all[l.columns.reward]) == "null" {
		return errPending
	}
	if err := number(all[l.columns.reward], l.columns.reward, &k.Reward); err != nil {
		return err
	}
	cell, err := inside("cell")
	if err != nil {
		return err
	}
	switch p := all["propensity"]; {
	case p != nil && all[l.columns.density] == nil: // of a step
		k.Cell = ope.Pair{k.Action, k.Action}
		if err := number(p, "propensity", &k.Mass); err != nil {
			return err
		}
		if k.Mass == 0 {
			return errors.New("propensity is 0, expected a number in (0, 1]")
		}
	default:
		if err := number(all[l.columns.density], l.columns.density, &k.Density); err != nil {
			return err
		}
		if cell != nil {
			var edges []float64
			if err := json.Unmarshal(cell[knob], &edges); err != nil || len(edges) != 2 || !(edges[0] < edges[1]) {
				return fmt.Errorf("cell.%s is %.40s, expected two numbers, the smaller one first", knob, cell[knob])
			}
			k.Cell = ope.Pair(edges)
			if k.Mass = float64(k.Density * (edges[1] - edges[0])); k.Mass == 0 {
				return errors.New("density is 0, expected a number above 0: the action was played")
			}
		}
	}
	for i, key := range l.keys {
		v := l.fixed[i]
		if key != "" {
			if err := number(all[key], key, &v); err != nil {
				return err
			}
		}
		k.Aims = append(k.Aims, v)
	}
	return nil
}

// at names the file and the line.
func (l *knobLines) at(err error) error {
	if l.ended || l.line == 0 {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	return fmt.Errorf("%s:%d: %w", l.file, l.line, err)
}
