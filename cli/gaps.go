package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"troupe/cli/term"
	"troupe/sim"
	"troupe/spec"
)

// withGaps writes the texts of --gap into the spec, as the key gaps of each environment that reads a data set: the spec
// that a manifest holds, and that share, check and merge read, is the spec that was run.
func withGaps(x *sim.Experiment, file, text string, gaps []string, kinds sim.Catalogue) (*sim.Experiment, string, error) {
	if err := term.CheckGaps(gaps); err != nil {
		return nil, "", err
	}
	var quoted []string
	for _, g := range gaps {
		quoted = append(quoted, strconv.Quote(g))
	}
	value := "[" + strings.Join(quoted, ", ") + "]"
	var done []string // tables; a sweep makes several environments of one
	var err error
	for i := range x.Environments {
		c := &x.Environments[i]
		takes := slices.ContainsFunc(spec.Options(c.Options), func(o spec.Option) bool { return o.Key == "gaps" })
		if !takes || slices.Contains(done, c.Place()) {
			continue
		}
		if text, err = spec.Insert(file, text, c.Place(), "gaps", value); err != nil {
			return nil, "", err
		}
		done = append(done, c.Place())
	}
	if done == nil {
		return nil, "", term.Misuse(fmt.Errorf("--gap %s: no environment of %s reads a data set", gaps[0], x.Name))
	}
	x, err = sim.Parse(file, text, kinds)
	return x, text, err
}
