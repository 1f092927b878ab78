package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve/joined"
)

// decisions are those of a log: of a file, of the data directory of a server, or of a copy of what a running server has.
type decisions interface {
	// read begins to read them; each call begins with the first one.
	read() (logReader, error)
}

var (
	_ decisions = logFile{}
	_ decisions = serverCopy{}
	_ decisions = directory{}
)

// logReader reads the decisions of a log.
type logReader interface {
	ope.Source
	Format() string
	Arms() []string // names of the actions, nil where they have none
	Skipped() map[string]int
	Bad() (int, []string)
	BadBy() map[string]int
	Warnings() []string
	Close() error
}

// serverReader reads the log of a server, which says more than its decisions. Model, Ended and Notes are complete when all was read.
type serverReader interface {
	logReader
	Model() string
	After() uint64   // the entry that all decisions are behind: a target has learned what came before
	Base() uint64    // the entry at which a trimmed log begins, 0 where nothing was trimmed
	Range() ope.Pair // of rewards, at the first decision
	Ended() *joined.Ended
	Notes() []string
}

var (
	_ logReader    = (*logged.Reader)(nil)
	_ serverReader = (*copyReader)(nil)
	_ serverReader = (*directoryReader)(nil)
)

// openLog says where the decisions of a question are. It copies those of a running server, unless copied has them from an earlier
// question.
func openLog(ctx context.Context, q *question, m *models, copied *copied, progress io.Writer) (decisions, error) {
	switch {
	case q.overHTTP():
		return copyServer(ctx, q, m, copied, progress)
	case q.directory():
		d := directory{dir: q.source, model: m.name, after: m.after, learned: m.learned, outcome: q.read.Outcome, early: q.plan.on}
		if q.ranged {
			d.rewards, d.flag = q.read.Rewards, q.rangeFlag()
		}
		return d, nil
	}
	return logFile{q.file, q.read}, nil
}

// overHTTP reports whether the log is that of a running server.
func (q *question) overHTTP() bool { return source.IsAddress(q.source) }

// directory reports whether the log is the data directory of a server, and not one of Parquet files.
func (q *question) directory() bool {
	info, err := os.Stat(q.source)
	if err != nil || !info.IsDir() {
		return false
	}
	files, err := logged.IsTable(q.source)
	return err != nil || files == nil
}

// checkLog refuses flags that the log of a server makes needless, since it has propensities, laws and units of its own, and --law marginal
// without one.
func (q *question) checkLog() error {
	switch server := q.overHTTP() || q.directory(); {
	case server && q.logger != "":
		return term.Misuse(fmt.Errorf("--logger %s: the log of a server has its propensities and laws; --logger is for files",
			q.logger))
	case server && q.fitted:
		return term.Misuse(errors.New("--propensities estimate: the log of a server has its propensities"))
	case server && q.unit != "":
		return term.Misuse(fmt.Errorf("--unit %s: the log of a server has the units of its model; --unit is for files", q.unit))
	case !q.marginal:
		return nil
	}
	if !q.directory() {
		return term.Misuse(fmt.Errorf("--law marginal: %s: it draws decisions anew in the states that decided, so "+
			"the log must be the data directory of a server that is stopped", q.source))
	}
	return nil
}

// rangeFlag is the flag that gives the range of rewards.
func (q *question) rangeFlag() string {
	if name := q.read.Outcome; name != "" {
		return "--outcome " + name + "=MIN:MAX"
	}
	return "--rewards"
}

// logFile is a file, or a directory of Parquet files.
type logFile struct {
	name    string
	options logged.Options
}

func (l logFile) read() (logReader, error) {
	r, err := logged.Open(l.name, l.options)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// part reads the decisions of a time, behind the first ones.
type part struct {
	r           logReader
	from, until time.Time       // zero: no bound
	skip        int             // so many decisions of that time come first
	seen        int             // decisions of that time
	left        int             // decisions of another time
	units       map[string]bool // of decisions that were left out: the draws of their later ones were known
}

// openPart opens what a question reads of its log, behind the first skip decisions.
func openPart(q *question, log decisions, skip int) (*part, error) {
	r, err := log.read()
	if err != nil {
		return nil, err
	}
	return &part{r: r, from: q.from, until: q.until, skip: skip}, nil
}

// Read implements ope.Source.
func (p *part) Read(e *logged.Event) error {
	for {
		if err := p.r.Read(e); err != nil {
			return err
		}
		if !p.from.IsZero() && e.Time.Before(p.from) || !p.until.IsZero() && !e.Time.Before(p.until) {
			p.left++
			p.leave(e)
			continue
		}
		if p.seen++; p.seen <= p.skip {
			p.leave(e)
			continue
		}
		e.Again = e.Unit != "" && p.units[e.Unit]
		return nil
	}
}

// leave notes the unit of a decision that is left out.
func (p *part) leave(e *logged.Event) {
	if e.Unit == "" {
		return
	}
	if p.units == nil {
		p.units = map[string]bool{}
	}
	if !p.units[e.Unit] {
		p.units[strings.Clone(e.Unit)] = true
	}
}

// Close closes the log.
func (p *part) Close() error { return p.r.Close() }

// inFile gives an error of the file that was read the name that was typed, and says of a running server why there is nothing.
func inFile(err error, q *question, log decisions) error {
	var fault *logged.Error
	if !errors.As(err, &fault) {
		return err
	}
	if q.file != q.source && fault.File == q.file {
		fault.File = "-"
		return err
	}
	if c, ok := log.(serverCopy); ok && fault.File == c.file {
		return c.fault(err, fault)
	}
	return err
}
