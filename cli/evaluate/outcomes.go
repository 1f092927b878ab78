package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/cli/term"
	"troupe/ope"
	"troupe/report"
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

// parseGuards reads --guard, about the rewards of these names.
func parseGuards(texts, names []string) (out []guard, _ error) {
	for _, text := range texts {
		name, bound, ok := strings.Cut(text, "=")
		if !ok {
			return nil, term.Misuse(fmt.Errorf("--guard %s: expected NAME=+5%% or NAME=-0.2", text))
		}
		if !slices.Contains(names, name) {
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
func (g *flags) several(ctx context.Context, out, progress io.Writer, source, file string, copied *copied) error {
	names, err := g.outcomes()
	if err != nil {
		return err
	}
	guards, err := parseGuards(g.guards, names)
	if err != nil {
		return err
	}
	if level := g.estimate.level; !(level > 0 && level < 1) {
		return term.Misuse(fmt.Errorf("--level %v: expected a number between 0 and 1", level))
	}
	a := &Outcomes{Level: g.estimate.level, Each: 1 - (1-g.estimate.level)/float64(len(names))}
	silent := 0
	for i, name := range names {
		one := *g
		one.log.in.Outcomes, one.estimate.level = g.log.in.Outcomes[i:i+1], a.Each
		q, err := one.question(source, file)
		if err != nil {
			return err
		}
		r, err := evaluate(ctx, q, copied, progress)
		if err != nil {
			return err
		}
		if withhold(r, g.output.force) {
			silent++
		}
		if !g.output.json || g.output.dir != "" {
			if _, err := report.BuildEvaluation(filepath.Join(g.output.pageDir(source, r.Log.Model), name), r, pageMeta()); err != nil {
				return err
			}
		}
		a.Outcomes = append(a.Outcomes, Outcome{name, r})
	}
	for t := range a.Outcomes[0].Result.Targets {
		a.Targets = append(a.Targets, a.target(t, guards))
	}
	if g.output.json {
		err = writeJSON(out, a)
	} else {
		a.print(out, source, g.output.pageDir(source, a.Outcomes[0].Result.Log.Model))
	}
	if err == nil && silent == len(names) && !g.output.force {
		return errSilent
	}
	return err
}

// outcomes are the names of the rewards, each once.
func (g *flags) outcomes() (names []string, _ error) {
	switch {
	case len(g.log.in.Outcomes) < 2:
		return nil, term.Misuse(errors.New("--guard: it is for several rewards, expected two --outcome at least"))
	case g.plan.on:
		return nil, term.Misuse(errors.New("--plan: it is for one reward, expected one --outcome"))
	}
	for _, x := range g.log.in.Outcomes {
		name, _, _ := strings.Cut(x, "=")
		if slices.Contains(names, name) {
			return nil, term.Misuse(fmt.Errorf("--outcome %s twice", name))
		}
		names = append(names, name)
	}
	return names, nil
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

// print prints a row for each reward of each target. pages is the directory of the pages.
func (a *Outcomes) print(w io.Writer, source, pages string) {
	line := func(label, text string) {
		fmt.Fprintf(w, "%s %s\n", term.PadRight(term.Shorten(label, 9), 9), term.Wrap(text, 10))
	}
	first := a.Outcomes[0].Result
	line(strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)), logLine(first))
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
	printed := map[string]bool{}
	for i := range a.Outcomes {
		for _, s := range a.Outcomes[i].Result.Warnings {
			if !printed[s] {
				printed[s] = true
				line("warning", s)
			}
		}
	}
	line("report", filepath.Join(pages, "NAME", "evaluate.html")+" of each reward")
}
