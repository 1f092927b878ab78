package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve/fold"
	"troupe/spec"
)

// ReadTarget reads the TOML file of a target.
func ReadTarget(name string) (*ope.TargetTable, *spec.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	raw, file, err := spec.ReadFile(name, string(text))
	if err != nil {
		return nil, nil, err
	}
	t, err := ope.DecodeTarget(raw, filepath.Base(name))
	if err != nil {
		return nil, nil, file.Locate(err)
	}
	return t, file, nil
}

// Start returns the snapshot that a target's file names, nil where it names none.
func Start(name string, t *ope.TargetTable, file *spec.File) ([]byte, error) {
	if t.Start == "" {
		return nil, nil
	}
	start, err := os.ReadFile(filepath.Join(filepath.Dir(name), t.Start))
	if err != nil {
		return nil, file.Locate(spec.Errorf("start", "%v", err))
	}
	return start, nil
}

// loggerLaw returns the law that --logger names, nil for none.
func loggerLaw(name string) (logged.Logger, error) {
	switch name {
	case "":
		return nil, nil
	case "uniform":
		return ope.Uniform{}, nil
	}
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		return nil, term.Misuse(fmt.Errorf("--logger %s: expected uniform, or a file as --target takes it%s", name,
			spec.Suggest(name, []string{"uniform"})))
	}
	if IsSaved(name) {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		saved, err := fold.ReadSaved(b)
		if err != nil {
			return nil, term.Misuse(fmt.Errorf("--logger %s: %w", name, err))
		}
		s, err := NewServed(filepath.Base(name), saved)
		if err != nil {
			return nil, term.Misuse(fmt.Errorf("--logger %s: %w", name, err))
		}
		return s, nil
	}
	t, file, err := ReadTarget(name)
	if err != nil {
		return nil, err
	}
	if law := t.Law(); law != nil {
		return law, nil
	}
	start, err := Start(name, t, file)
	switch {
	case err != nil:
		return nil, err
	case start == nil:
		return nil, term.Misuse(fmt.Errorf("--logger %s: a policy without start has learned nothing; start = "+
			"\"model.snapshot\" gives it the state with which it decided", name))
	case !ope.Exact(t.Policy):
		return nil, term.Misuse(errors.New("--logger " + name + ": this policy has no exact law"))
	}
	return ope.NewPolicyTarget(t.Label, t.Policy, "no", start, 1), nil
}
