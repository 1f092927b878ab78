package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"troupe/cli/term"
	"troupe/ope"
	"troupe/spec"
)

// Outcomes is the answer about several rewards of the same decisions: the object of troupe evaluate --json with several
// --outcome.
type Outcomes struct {
	Level    float64         `json:"level"` // of all intervals of all rewards together
	Each     float64         `json:"each"`  // of one: 1 − (1 − level)/rewards
	Outcomes []Outcome       `json:"outcomes"`
	Targets  []OutcomeTarget `json:"targets"`
}

// Outcome is one reward.
type Outcome struct {
	Name   string      `json:"name"`
	Result *ope.Result `json:"result"` // at the level Each
}

// OutcomeTarget is what all rewards say of one target.
type OutcomeTarget struct {
	Name    string  `json:"name"`
	Verdict string  `json:"verdict"`
	Guards  []Guard `json:"guards"`
}

// Guard is a bound on how far a reward may move the wrong way.
type Guard struct {
	Outcome string `json:"outcome"`
	// Margin is the largest rise of what must not rise, above 0, or minus the largest fall of what must not fall, in units of the
	// reward. Holds is nil where the interval leaves it open.
	Margin float64 `json:"margin"`
	Holds  *bool   `json:"holds"`
	Words  string  `json:"words"`
}

// guard is a --guard as it was typed.
type guard struct {
	outcome string
	text    string
	v       float64
	percent bool
}

func (e *evaluation) parseGuards(names []string) (out []guard, _ error) {
	for _, text := range e.guards {
		name, bound, ok := strings.Cut(text, "=")
		if !ok {
			return nil, term.Misuse(fmt.Errorf("--guard %s: expected NAME=+5%% or NAME=-0.2", text))
		}
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known {
			return nil, term.Misuse(fmt.Errorf("--guard %s: no --outcome %s%s", text, name, spec.Suggest(name, names)))
		}
		number, percent := strings.CutSuffix(bound, "%")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || v-v != 0 || v == 0 || bound[0] != '+' && bound[0] != '-' {
			return nil, term.Misuse(fmt.Errorf("--guard %s: expected a number with its sign that is not 0: +5%% may rise by 5%%, -5%% may fall by it", text))
		}
		out = append(out, guard{name, bound, v, percent})
	}
	return out, nil
}

// several evaluates each reward at a level that is shared among them, so that all intervals of all of them hold together.
func (e *evaluation) several(ctx context.Context, out io.Writer) error {
	m := len(e.in.Outcomes)
	switch {
	case m < 2:
		return term.Misuse(errors.New("--guard: it is for several rewards, expected two --outcome at least"))
	case e.plan.on:
		return term.Misuse(errors.New("--plan: it is for one reward, expected one --outcome"))
	}
	var names []string
	for _, x := range e.in.Outcomes {
		name, _, _ := strings.Cut(x, "=")
		for _, n := range names {
			if n == name {
				return term.Misuse(fmt.Errorf("--outcome %s twice", name))
			}
		}
		names = append(names, name)
	}
	guards, err := e.parseGuards(names)
	if err != nil {
		return err
	}
	if !(e.level > 0 && e.level < 1) {
		return term.Misuse(fmt.Errorf("--level %v: expected a number between 0 and 1", e.level))
	}
	a := &Outcomes{Level: e.level, Each: 1 - (1-e.level)/float64(m)}
	silent := 0
	fetched := &copied{}
	defer func() {
		if fetched.file != "" {
			os.Remove(fetched.file)
		}
	}()
	for i, name := range names {
		one := *e
		one.in.Outcomes, one.level, one.guards, one.notes, one.fitted, one.copied = e.in.Outcomes[i:i+1], a.Each, nil, nil, nil, fetched
		r, err := one.result(ctx, out)
		if err != nil {
			return one.ofServer(err)
		}
		told := 0
		for _, t := range r.Targets {
			if !r.Silent(t) && t.Contradicted == nil {
				told++
			}
			if !e.force {
				r.Withhold(t)
			}
		}
		if told == 0 {
			silent++
		}
		if !e.json || e.out != "" {
			one.out = filepath.Join(e.pageDir(r.Log.Model), name)
			if _, err := one.page(r); err != nil {
				return err
			}
		}
		a.Outcomes = append(a.Outcomes, Outcome{name, r})
	}
	for t := range a.Outcomes[0].Result.Targets {
		a.Targets = append(a.Targets, a.target(t, guards))
	}
	if e.json {
		err = writeJSON(out, a)
	} else {
		e.printOutcomes(out, a)
	}
	if err == nil && silent == m && !e.force {
		return term.Silently(exitNoOverlap, errors.New("the log can tell about no target"))
	}
	return err
}

// decides is the interval that a verdict is taken from: for this n where it was asked for, otherwise the one for every look. nil: none.
func decides(t *ope.Evaluated) *ope.Pair {
	if t.Uplift == nil || t.Contradicted != nil {
		return nil
	}
	return surest(t.Uplift.AtEnd, t.Uplift.Sequence)
}

// target puts the rewards of one target together.
func (a *Outcomes) target(t int, guards []guard) OutcomeTarget {
	out := OutcomeTarget{Name: a.Outcomes[0].Result.Targets[t].Name, Guards: []Guard{}}
	var words []string
	guarded := map[string]bool{}
	for _, g := range guards {
		guarded[g.outcome] = true
	}
	for i := range a.Outcomes {
		x := &a.Outcomes[i]
		if guarded[x.Name] {
			continue
		}
		p, word := decides(x.Result.Targets[t]), "too close to call in "
		switch {
		case p == nil:
			word = "no answer in "
		case p[0] > 0:
			word = "more "
		case p[1] < 0:
			word = "less "
		}
		words = append(words, word+x.Name)
	}
	for _, g := range guards {
		for i := range a.Outcomes {
			if x := &a.Outcomes[i]; x.Name == g.outcome {
				out.Guards = append(out.Guards, g.of(x.Result, t))
				words = append(words, out.Guards[len(out.Guards)-1].Words)
			}
		}
	}
	out.Verdict = strings.Join(words, "; ")
	return out
}

// of compares the interval with the margin. A share is of the mean reward of these decisions.
func (g guard) of(r *ope.Result, t int) Guard {
	x := r.Targets[t]
	out := Guard{Outcome: g.outcome, Margin: g.v}
	verb := "risen by more than "
	if g.v < 0 {
		verb = "fallen by more than "
	}
	limit := strings.TrimLeft(strings.TrimSuffix(g.text, "%"), "+-")
	if g.percent {
		limit += "%"
		logged := 0.0
		for i := range x.Estimates {
			if e := &x.Estimates[i]; e.Estimator == "logged" && e.Value != nil {
				logged = *e.Value
			}
		}
		if out.Margin = g.v / 100 * logged; !(logged > 0) {
			out.Words = "cannot say whether " + g.outcome + " has " + verb + limit + ": its mean is not above 0"
			return out
		}
	}
	p := decides(x)
	yes, no := true, false
	switch {
	case p == nil:
	case g.v > 0 && p[1] <= out.Margin, g.v < 0 && p[0] >= out.Margin:
		out.Holds, out.Words = &yes, g.outcome+" has not "+verb+limit
		return out
	case g.v > 0 && p[0] > out.Margin, g.v < 0 && p[1] < out.Margin:
		out.Holds, out.Words = &no, g.outcome+" HAS "+verb+limit
		return out
	}
	out.Words = "cannot say yet whether " + g.outcome + " has " + verb + limit
	return out
}

// printOutcomes prints a row for each reward of each target.
func (e *evaluation) printOutcomes(w io.Writer, a *Outcomes) {
	line := func(label, text string) {
		fmt.Fprintf(w, "%s %s\n", term.PadRight(term.Shorten(label, 9), 9), term.Wrap(text, 10))
	}
	first := a.Outcomes[0].Result
	line(strings.TrimSuffix(filepath.Base(e.source), filepath.Ext(e.source)), logLine(first))
	held := " at every look"
	if first.Assumptions.AtEnd != "" {
		held = " for this n"
	}
	for t := range a.Targets {
		x := &a.Targets[t]
		rows := [][]string{{x.Name, "logged", "difference", percentOf(a.Level) + "%" + held + ", all together"}}
		for i := range a.Outcomes {
			r := a.Outcomes[i].Result
			d := decimalsOf(r)
			row := []string{"  " + a.Outcomes[i].Name, "–", "–", "–"}
			for k := range r.Targets[t].Estimates {
				if est := &r.Targets[t].Estimates[k]; est.Estimator == "logged" {
					row[1] = point(est.Value, d, false)
				}
			}
			if u := r.Targets[t].Uplift; u != nil {
				row[2], row[3] = point(u.Value, ope.Apart(decides(r.Targets[t]), d), true), interval(decides(r.Targets[t]), d, true)
			}
			rows = append(rows, row)
		}
		term.Columns(w, rows)
		line("overlap", overlapLine(first.Targets[t], first))
		line("verdict", x.Verdict)
	}
	if first.Assumptions.AtEnd != "" {
		line("this n", first.Assumptions.AtEnd)
	}
	line(sureLabel(first), first.Assumptions.Sequence)
	said := map[string]bool{}
	for i := range a.Outcomes {
		for _, s := range a.Outcomes[i].Result.Warnings {
			if !said[s] {
				said[s] = true
				line("warning", s)
			}
		}
	}
	line("report", filepath.Join(e.pageDir(first.Log.Model), "NAME", "evaluate.html")+" of each reward")
}
