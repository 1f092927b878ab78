package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"troupe/cli/term"
	"troupe/client"
	"troupe/eventlog"
	"troupe/logged"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/joined"
)

// ModelOf returns the model of a running server that the user means: name, or the only one where the name is empty. With
// several it lists them.
func ModelOf(ctx context.Context, c *client.Client, url, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	var list struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := c.Get(ctx, "/v1/models", &list); err != nil {
		return "", term.Misuse(fmt.Errorf("%s: %w", url, err))
	}
	switch n := len(list.Models); n {
	case 0:
		return "", term.Misuse(fmt.Errorf("%s has no model", url))
	case 1:
		return list.Models[0].Name, nil
	default:
		const most = 10
		var names []string
		for _, m := range list.Models[:min(n, most)] {
			names = append(names, m.Name)
		}
		if n > most {
			names = append(names, fmt.Sprintf("%d more", n-most))
		}
		return "", term.Misuse(fmt.Errorf("--model NAME is missing: %s has %s", url, strings.Join(names, ", ")))
	}
}

// Served is a model as a server plays it, a target, with its floor and its groups of equal candidates: NAME@SEQ, or the
// file of a saved model.
type Served struct {
	label string
	saved *fold.Saved
	w     *choose.Worker
	draws eventlog.ID
	x     []float64
}

// NewServed returns the model as a target called label.
func NewServed(label string, saved *fold.Saved) (*Served, error) {
	w, err := choose.FromSaved(saved).Worker(nil)
	return &Served{label: label, saved: saved, w: w}, err
}

// Name implements ope.Target.
func (t *Served) Name() string { return t.label }

// Law implements ope.Target. A policy that draws its members for each decision plays by the law of this draw.
func (t *Served) Law(dst []float64, e *logged.Event, _ []float64) error {
	if len(e.Actions) != e.K {
		return errors.New("the log does not have the candidates of its decisions (log_candidates = \"none\"), so " +
			"what the model would play is not known")
	}
	var err error
	switch a := e.Actions[0]; {
	case a.Atoms != nil:
		set := candidates.Set{K: e.K, Context: e.Atoms}
		for i := range e.Actions {
			set.Actions = append(set.Actions, e.Actions[i].Atoms)
		}
		err = t.w.Offer.Recorded(&set)
	case a.X != nil:
		t.x = t.x[:0]
		for i := range e.Actions {
			t.x = append(t.x, e.Actions[i].X...)
		}
		d := len(a.X)
		if len(t.x) != d*e.K {
			return errors.New("candidates of different lengths")
		}
		err = t.w.Offer.Recorded(&candidates.Set{K: e.K, D: d, X: t.x})
	default:
		r := choose.Request{Context: e.Named}
		for i := range e.Actions {
			r.Actions = append(r.Actions, choose.Action{ID: ActionID(e, i), Features: e.Actions[i].Named})
		}
		err = t.w.Offer.Encode(&r)
	}
	if err != nil {
		return err
	}
	if e.K == 1 {
		dst[0] = 1
		return nil
	}
	t.draws++
	choice, err := t.w.Choose(t.draws, true)
	if err != nil {
		return err
	}
	r := eventlog.Decision{Offered: uint32(e.K)}
	r.Law, r.Groups, r.Voters = t.w.Law()
	if c := t.saved.Compiled; !choice.Floored { // otherwise the law has it
		r.Floor = uint32(c.FloorNum * (eventlog.FloorUnit / c.FloorDen))
	}
	law := joined.Law(&r)
	if law == nil {
		return fmt.Errorf("a law of %d candidates is too large", e.K)
	}
	copy(dst, law)
	return nil
}

// Learn implements ope.Learner, so that draws are made in the order of the log. The model is frozen.
func (t *Served) Learn(*logged.Event) error { return nil }

// IsSaved reports whether a file is a saved model.
func IsSaved(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [4]byte
	n, _ := f.Read(b[:])
	return string(b[:n]) == "TRPM"
}
