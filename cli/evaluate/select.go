package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/sim"
	"troupe/spec"
)

// selection is what is compared with what ran.
type selection struct {
	targets []ope.Target
	learns  []string            // of each target: no, log or replay
	trained []*ope.PolicyTarget // those of the targets that learn, or could
}

// selectTargets makes the targets of a question.
func selectTargets(q *question, log decisions, m *models) (*selection, error) {
	names := q.targets
	if len(names) == 0 {
		name, err := defaultTarget(log)
		if err != nil {
			return nil, err
		}
		names = []string{name}
	}
	s := &selection{}
	seen := map[string]int{}
	for _, name := range names {
		if err := s.add(q, name, m); err != nil {
			return nil, err
		}
		label := s.targets[len(s.targets)-1].Name()
		if seen[label]++; seen[label] > 1 {
			return nil, term.Misuse(fmt.Errorf("--target %s: two targets are called %s; name in the file gives "+
				"another name", name, label))
		}
	}
	if q.learn != "no" && len(s.trained) == 0 {
		return nil, term.Misuse(fmt.Errorf("--learn %s: no target is a policy that learns", q.learn))
	}
	return s, nil
}

// defaultTarget is column where the log has it, else uniform.
func defaultTarget(log decisions) (string, error) {
	r, err := log.read()
	if err != nil {
		return "", err
	}
	defer r.Close()
	var ev logged.Event
	if err := r.Read(&ev); err != nil && err != io.EOF {
		return "", err
	} else if err == nil && (ev.Target != nil || len(ev.Slots) > 0 && ev.Slots[0].Target != nil) {
		return "column", nil
	}
	return "uniform", nil
}

// add adds the target of this name.
func (s *selection) add(q *question, name string, m *models) error {
	var t ope.Target
	learns := "no"
	switch name {
	case "uniform":
		t = ope.Uniform{}
	case "column":
		t = ope.Column{}
	case "greedy":
		t = ope.Greedy{}
	case "logged":
		return term.Misuse(errors.New("--target logged: what ran is always in the answer; name another policy"))
	default:
		if served := m.served[name]; served != nil {
			t = served
			break
		}
		of, policy, err := targetFile(q, name)
		if err != nil {
			return err
		}
		if t = of; policy != nil {
			learns, s.trained = q.learn, append(s.trained, policy)
		}
	}
	s.targets, s.learns = append(s.targets, t), append(s.learns, learns)
	return nil
}

// targetFile reads a target from its file: a law, or a policy, which is returned twice.
func targetFile(q *question, name string) (ope.Target, *ope.PolicyTarget, error) {
	t, file, err := source.ReadTarget(name)
	if errors.Is(err, os.ErrNotExist) {
		words := []string{"uniform", "column", "greedy"}
		return nil, nil, term.Misuse(fmt.Errorf("--target %s: no such file%s", name, spec.Suggest(name, words)))
	}
	if err != nil {
		return nil, nil, err
	}
	if law := t.Law(); law != nil {
		return law, nil, nil
	}
	start, err := source.Start(name, t, file)
	if err != nil {
		return nil, nil, err
	}
	if q.learn != "replay" && !ope.Exact(t.Policy) {
		return nil, nil, term.Misuse(fmt.Errorf("%s: this policy has no exact law, so its value cannot be weighted; "+
			"--learn replay takes it", name))
	}
	p := ope.NewPolicyTarget(t.Label, t.Policy, q.learn, start, q.options.Seed)
	return p, p, nil
}

// train trains the targets on the first part of the log, and returns how many decisions that were: 0 without --split.
func (s *selection) train(ctx context.Context, q *question, log decisions, progress io.Writer) (int, error) {
	if q.split == 0 {
		return 0, nil
	}
	n, err := pass(ctx, q, log, progress, func(int, *logged.Event) error { return nil })
	if err != nil {
		return 0, err
	}
	first := int(float64(n) * q.split)
	if first == 0 || first == n {
		return 0, term.Misuse(fmt.Errorf("--split %v of %d events leaves one part empty", q.split, n))
	}
	_, err = pass(ctx, q, log, progress, func(i int, ev *logged.Event) error {
		if i >= first {
			return io.EOF
		}
		if ev.BadReward {
			return nil
		}
		for _, t := range s.trained {
			if err := t.Train(ev); err != nil {
				return term.Misuse(fmt.Errorf("target %s: event %d: %w", t.Name(), i+1, err))
			}
		}
		return nil
	})
	for _, t := range s.trained {
		if err == nil {
			err = t.Freeze()
		}
	}
	return first, err
}

// pass reads the decisions of a question until their end, or until each returns io.EOF, and returns how many each took.
func pass(ctx context.Context, q *question, log decisions, progress io.Writer, each func(n int, ev *logged.Event) error) (int, error) {
	f, err := openPart(q, log, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var ev logged.Event
	p := source.NewProgress(progress, "evaluate: training")
	for n := 0; ; n++ {
		if err := f.Read(&ev); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if p.Tick(n); ctx.Err() != nil {
			return n, sim.ErrInterrupted
		}
		if err := each(n, &ev); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}
