package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"troupe/cli/term"
	"troupe/theory"
)

// plannedRLSVI is what the literature says about randomised value iteration in one setting; its JSON is the contract
// of `troupe plan --method rlsvi --json`.
type plannedRLSVI struct {
	D       int     `json:"d"`
	Steps   int     `json:"H"`
	States  int     `json:"S"`
	Actions int     `json:"A"`
	T       float64 `json:"T"`

	Orders []plannedEpisodic `json:"orders"`
}

type plannedEpisodic struct {
	Name     string   `json:"name"`
	Source   string   `json:"source"`
	Read     string   `json:"read"`
	Problem  string   `json:"problem"`
	Agent    string   `json:"agent"`
	Regret   *string  `json:"regret"`
	Constant string   `json:"constant"`
	Value    *float64 `json:"value"`
}

// planEpisodes are the flags of plan that are for rlsvi only.
type planEpisodes struct{ Steps, States, Actions int }

var episodeFlags = map[string]string{"d": "-d", "T": "-T", "H": "--steps", "S": "--states", "A": "--actions"}

// planRLSVI evaluates the orders for one setting.
func planRLSVI(s theory.EpisodicSetting) (plannedRLSVI, error) {
	if err := s.Check(); err != nil {
		var domain *theory.DomainError
		if errors.As(err, &domain) {
			err = fmt.Errorf("%s %v: expected %s", episodeFlags[domain.Param], domain.Value, domain.Need)
		}
		return plannedRLSVI{}, err
	}
	p := plannedRLSVI{D: s.D, Steps: s.Steps, States: s.States, Actions: s.Actions, T: s.T}
	for _, o := range theory.EpisodicOrders {
		e := plannedEpisodic{Name: o.Name, Source: o.Source, Read: o.Read, Problem: o.Problem, Agent: o.Agent,
			Constant: theory.ConstantUnknown}
		if v, ok := o.Eval(s); ok {
			e.Value, e.Regret = &v, &o.Regret
		}
		p.Orders = append(p.Orders, e)
	}
	return p, nil
}

// printRLSVI plans all settings.
func printRLSVI(w io.Writer, settings []theory.Setting, more planEpisodes, asJSON bool) error {
	all := make([]plannedRLSVI, len(settings))
	for i, s := range settings {
		var err error
		all[i], err = planRLSVI(theory.EpisodicSetting{D: s.D, Steps: more.Steps, States: more.States,
			Actions: more.Actions, T: s.T})
		if err != nil {
			return term.Misuse(err)
		}
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for _, p := range all {
		line("d = %d   H = %d   S = %d   A = %d   T = %s steps, %s episodes", p.D, p.Steps, p.States, p.Actions,
			planDigits(p.T), planDigits(float64(int(p.T)/p.Steps)))
		line("")
		line("orders of regret after T steps, without logarithms, %s: no bounds", theory.ConstantUnknown)
		for _, o := range p.Orders {
			line("")
			if o.Value == nil {
				line("%-15s no rate read", o.Name)
			} else {
				line("%-15s %9s   %s", o.Name, planShort(*o.Value), *o.Regret)
			}
			line("  %s", o.Problem)
			line("  %s", o.Agent)
			line("  %s", o.Source)
			line("  read: %s", o.Read)
		}
		line("")
	}
	line("With rewards in [0, 1] losing always costs T at most. None of these states how many members an ensemble")
	line("needs that keeps its perturbations; measured: docs/record/deep.md")
	return err
}
