package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/report"
)

// complete adds to a result what the log says beside its decisions, and what to doubt for it.
func complete(q *question, e *estimated, s *selection, model string, skip int) *ope.Result {
	r, log := e.result, e.read.part.r
	var warning string
	if r.Coin, warning = e.read.coin.Result(r.Level); warning != "" {
		r.Warnings = append(r.Warnings, warning)
	}
	describe(r, q, e.read.part, model, skip)
	controlOf(r, e.read.control)
	if server, ok := log.(serverReader); ok {
		serverDoubts(r, q, server)
	}
	if format := log.Format(); e.read.bare > 0 && (format == "export" || format == "server") {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s without candidates (log_candidates = \"none\"): targets and "+
			"the reward model know an action by its place in the request, not by its id",
			term.Many(e.read.bare, "decision")))
	}
	for _, t := range s.trained {
		if q.split == 0 && q.learn == "no" && t.Empty() {
			r.Warnings = append(r.Warnings, t.Name()+" has learned nothing: --split trains it on the first "+
				"part of the log, --learn log on the way")
		}
	}
	return r
}

// describe fills in what the reader knows.
func describe(r *ope.Result, q *question, p *part, model string, skip int) {
	r.Log.Source, r.Log.Format, r.Log.Names = q.source, p.r.Format(), p.r.Arms()
	if model != "" {
		r.Log.Model = &model
	}
	for k, n := range p.r.Skipped() {
		if k == "pending" {
			r.Log.Pending = n
			continue
		}
		r.Log.Skipped[k] = n
	}
	if p.left > 0 {
		r.Log.Skipped["outside --from and --to"] = p.left
	}
	if skip > 0 {
		r.Log.Skipped["before --split"] = skip
	}
	if s, ok := p.r.(serverReader); ok {
		if name := s.Model(); name != "" {
			r.Log.Model = &name
		}
		if s.After() > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("only decisions after entry %d of the log: a target has learned "+
				"what came before", s.After()))
		}
	}
	r.Warnings = append(r.Warnings, p.r.Warnings()...)
	if _, first := p.r.Bad(); len(first) > 0 {
		r.Warnings = append(r.Warnings, first...)
		by := p.r.BadBy()
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			if reason == logged.BadReward { // the rest of the event was kept, and the sequence takes the worst case
				continue
			}
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d events left out (bad %s): the sequence holds only if that did "+
				"not depend on what was played or paid", by[reason], reason))
			for _, t := range r.Targets {
				r.Unsure(t, "events with a bad "+reason+" were left out")
			}
		}
	}
}

// serverDoubts takes sequences back that the server's log does not allow.
func serverDoubts(r *ope.Result, q *question, s serverReader) {
	l := s.Ended()
	why := ""
	switch {
	case (l.Ranges > 1 || l.Widened) && !q.ranged:
		why = "the range of rewards was changed while the log was written; --rewards min,max fixes one"
	case l.Activation != "":
		why = l.Activation
	case r.Log.Units > 0 && s.Base() > 0:
		why = fmt.Sprintf("units may have decided before entry %d, where the trimmed log begins, and their draws were known then", s.Base())
	case r.Log.Units > 0 && s.After() > 0:
		why = fmt.Sprintf("units may have decided before entry %d of the log already, and their draws were known then", s.After())
	}
	if !l.Declared && !l.Widened && !q.ranged {
		r.Warnings = append(r.Warnings, undeclared(r.Rewards))
	}
	if why == "" {
		return
	}
	for _, t := range r.Targets {
		r.Unsure(t, why)
	}
	r.Coin, r.Control = nil, nil // their intervals are sequences
	r.Warnings = append(r.Warnings, "no sequence: "+why)
}

// undeclared warns of a range that the model does not declare.
func undeclared(r ope.Pair) string {
	return fmt.Sprintf("rewards are taken to lie in [%g, %g]: the model does not declare a range, and no reward was "+
		"outside; --rewards min,max fixes one", r[0], r[1])
}

// errSilent: the log can tell about no target, for want of overlap or because it contradicts its own propensities.
var errSilent = term.Silently(3, errors.New("the log can tell about no target"))

// withhold takes back the plain estimates that the overlap does not carry, unless they are forced, and reports whether the log can tell
// about no target.
func withhold(r *ope.Result, force bool) (silent bool) {
	silent = true
	for _, t := range r.Targets {
		if !r.Silent(t) && t.Contradicted == nil {
			silent = false
		}
		if !force {
			r.Withhold(t)
		}
	}
	return silent
}

// present writes the page of a result where one is wanted, and prints the result.
func (o *outputFlags) present(out io.Writer, r *ope.Result, source string) error {
	silent := withhold(r, o.force)
	page := ""
	if !o.json || o.dir != "" {
		var err error
		if page, err = report.BuildEvaluation(o.pageDir(source, r.Log.Model), r, pageMeta()); err != nil {
			return err
		}
	}
	if o.json {
		if err := writeJSON(out, r); err != nil {
			return err
		}
	} else {
		printResult(out, r, page, source)
	}
	if silent && !o.force {
		return errSilent
	}
	return nil
}

// pageDir is where the page goes; its name says what was evaluated.
func (o *outputFlags) pageDir(source string, model *string) string {
	if o.dir != "" {
		return o.dir
	}
	name := strings.Trim(strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)), "*?-")
	if source == "-" || name == "" {
		name = "log"
	}
	if model != nil {
		name = *model
	}
	return filepath.Join("runs", "evaluate-"+name)
}

func pageMeta() report.EvaluateMeta {
	return report.EvaluateMeta{When: time.Now().Format("2 January 2006"), Command: term.Line(os.Args[1:])}
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
