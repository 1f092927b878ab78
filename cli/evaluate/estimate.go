package evaluate

import (
	"context"
	"errors"
	"io"
	"math"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/sim"
)

// fitPropensities fits the model of the logger of a file without propensities, and returns the file read with that law.
func fitPropensities(ctx context.Context, l logFile) (logFile, *ope.Fitted, error) {
	const folds = 5
	fitted, err := ope.FitPropensities(ctx, folds, func(law logged.Logger) (ope.Source, error) {
		return l.by(law).read()
	})
	if ctx.Err() != nil {
		return l, nil, sim.ErrInterrupted
	}
	if err != nil {
		return l, nil, ofData(err)
	}
	return l.by(fitted.Logger()), fitted, nil
}

// by is the file with the law of its logger.
func (l logFile) by(law logged.Logger) logFile {
	l.options.Logger = law
	return l
}

// estimated is the result of the estimators, before the log has had its say, and what was read for it.
type estimated struct {
	result *ope.Result
	read   *watched
}

// estimate estimates the values of the targets on the decisions behind the first skip ones. What was read is open until the caller closes it.
func estimate(ctx context.Context, q *question, log decisions, s *selection, fitted *ope.Fitted, skip int, progress io.Writer) (*estimated, error) {
	f, err := openPart(q, log, skip)
	if err != nil {
		return nil, err
	}
	o := q.options
	o.Targets, o.Learns, o.Estimated, o.Marginal = s.targets, s.learns, fitted, q.marginal
	o.Progress = source.NewProgress(progress, "evaluate").At
	o.Adaptive, o.Rewards = adaptive(q, f.r), rewardRange(q, f.r)
	if o.Crossfit > 0 {
		o.Reopen = func() (ope.Source, error) { return openPart(q, log, skip) }
	}
	w := &watched{part: f}
	if lo, hi := o.Rewards[0], o.Rewards[1]; lo < hi && hi-lo < math.Inf(1) && o.NoSequence == "" {
		w.coin, w.control = ope.NewCoinLog(lo, hi), ope.NewControlLog(lo, hi, o.Level)
	}
	r, err := ope.Evaluate(ctx, w, o)
	if err != nil {
		f.Close()
		if ctx.Err() != nil {
			return nil, sim.ErrInterrupted
		}
		return nil, ofData(err)
	}
	return &estimated{r, w}, nil
}

// adaptive says whether the logger learned: yes, no or unknown.
func adaptive(q *question, r logReader) string {
	if _, server := r.(serverReader); server || r.Format() == "export" {
		return "yes"
	}
	if q.logger != "" || q.fitted {
		return "no" // its law is one that does not learn
	}
	return "unknown"
}

// rewardRange is the range of rewards: what the flags give, or else the range of the model of a server, or [0, 1].
func rewardRange(q *question, r logReader) *ope.Pair {
	if s, ok := r.(serverReader); ok && !q.ranged {
		p := s.Range()
		return &p
	}
	return q.options.Rewards
}

// watched passes the decisions on to the estimators, and to what else reads them.
type watched struct {
	part    *part
	coin    *ope.CoinLog    // nil: not asked
	control *ope.ControlLog // the same
	bare    int             // decisions without candidates
}

// Read implements ope.Source.
func (w *watched) Read(e *logged.Event) error {
	if err := w.part.Read(e); err != nil {
		return err
	}
	if len(e.Actions) == 0 && len(e.Slots) == 0 {
		w.bare++
	}
	if w.coin != nil {
		w.coin.Add(e)
	}
	if w.control != nil {
		w.control.Add(e)
	}
	return nil
}

// ofData gives faults of the data the exit code 2.
func ofData(err error) error {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return err
	}
	return term.Misuse(err)
}
