package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/logged"
)

// Flags are the flags of every command that reads a log of decisions.
type Flags struct {
	format, columns, ids, Logger, Unit, skipBad, position, unique, Rewards, Model string
	Actions                                                                       int
	names                                                                         []string // of actions
	tolerance                                                                     float64
	lists                                                                         bool
	Gaps                                                                          []string // texts that mark a missing value
	Outcomes                                                                      []string // NAME or NAME=MIN:MAX
}

// Add adds the flags to a command.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.format, "format", "", "format of the log: "+strings.Join(logged.Formats,
		", ")+"; default: by content")
	flags.StringVar(&f.columns, "columns", "",
		"columns of a table: action=arm,reward=click,propensity=prob,context=x0:x1,law=pi_*")
	flags.StringVar(&f.ids, "ids", "", "actions are numbered from 0 or 1, where the format leaves it open")
	flags.Var((*actionsFlag)(f), "actions", "number of actions, where the log does not say it; or NAME,NAME,…: their "+
		"names in order, where a table has names")
	flags.StringVar(&f.Logger, "logger", "", "the logging policy, if it is known and the log has only propensities: "+
		"uniform, or a file as --target takes it; every propensity is checked against it")
	flags.StringVar(&f.Unit, "unit", "", "whose decisions depend on each other: a column of a table, or a path of the context such as "+
		"user.id; default: the key or column unit, if there is one")
	flags.StringVar(&f.skipBad, "skip-bad", "",
		"leave bad events out and count them; above 1% of all it fails, unless all")
	flags.Lookup("skip-bad").NoOptDefVal = "yes"
	flags.StringVar(&f.position, "position", "", "events of this position only, as the file counts")
	flags.BoolVar(&f.lists, "lists", false, "obd: consecutive rows of one time and one user, at different positions, "+
		"are one event")
	flags.StringVar(&f.unique, "ids-unique", "yes",
		"no: an id may come twice, and 8 bytes of memory for each event are saved")
	flags.Float64Var(&f.tolerance, "law-tolerance", 0, "how far from 1 the logger's or a target's law may sum beyond the "+
		"rounding of its numbers; it is scaled to 1")
	flags.StringVar(&f.Rewards, "rewards", "",
		"min,max: the range of rewards; one of them may be missing where it is not known")
	term.AddGaps(flags, &f.Gaps)
	flags.StringArrayVar(&f.Outcomes, "outcome", nil, "NAME or NAME=MIN:MAX: which of several rewards (reward.NAME of a table, a key of "+
		"the object reward) and its range; evaluate takes several")
	flags.StringVar(&f.Model, "model", "", "decisions of this model only")
}

// actionsFlag is the value of --actions: how many there are, or their names.
type actionsFlag Flags

// String implements pflag.Value.
func (f *actionsFlag) String() string {
	switch {
	case f.names != nil:
		return strings.Join(f.names, ",")
	case f.Actions == 0:
		return ""
	}
	return strconv.Itoa(f.Actions)
}

// Type implements pflag.Value.
func (*actionsFlag) Type() string { return "K or names" }

// Set implements pflag.Value.
func (f *actionsFlag) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > logged.MaxActions {
			return fmt.Errorf("%d, expected 1 to %d, or names", n, logged.MaxActions)
		}
		f.Actions, f.names = n, nil
		return nil
	}
	f.names = strings.Split(text, ",")
	for i, name := range f.names {
		if f.names[i] = strings.TrimSpace(name); f.names[i] == "" || slices.Contains(f.names[:i], f.names[i]) {
			return fmt.Errorf("the name %q, expected names that are not empty, each once", f.names[i])
		}
	}
	f.Actions = len(f.names)
	return nil
}

// Options turns the flags into reader options.
func (f *Flags) Options() (logged.Options, error) {
	o := logged.Options{Format: f.format, IDs: f.ids, Actions: f.Actions, Names: f.names, Unit: f.Unit, SkipBad: f.skipBad,
		Position: f.position, Model: f.Model, Lists: f.lists,
		LawTolerance: f.tolerance, Gaps: f.Gaps}
	err := term.CheckGaps(f.Gaps)
	if err != nil {
		return o, err
	}
	if o.Logger, err = loggerLaw(f.Logger); err != nil {
		return o, err
	}
	if o.Columns, err = logged.ParseColumns(f.columns); err != nil {
		return o, err
	}
	switch f.unique {
	case "yes":
	case "no":
		o.Repeats = true
	default:
		return o, term.Misuse(fmt.Errorf("--ids-unique %s: expected yes or no", f.unique))
	}
	name, rewards, between := "", f.Rewards, ","
	switch {
	case len(f.Outcomes) > 1:
		return o, term.Misuse(fmt.Errorf("--outcome: %d rewards, expected one here", len(f.Outcomes)))
	case len(f.Outcomes) == 1:
		var ranged bool
		if name, rewards, ranged = strings.Cut(f.Outcomes[0], "="); name == "" || ranged && rewards == "" {
			return o, term.Misuse(fmt.Errorf("--outcome %s: expected NAME or NAME=MIN:MAX", f.Outcomes[0]))
		}
		if between = ":"; !ranged {
			rewards, between = f.Rewards, ","
		}
		o.Outcome = name
	}
	if rewards != "" {
		lo, hi, ok := strings.Cut(rewards, between)
		r := [2]float64{math.Inf(-1), math.Inf(1)}
		for i, text := range []string{lo, hi} {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			v, err := strconv.ParseFloat(text, 64)
			ok = ok && err == nil && v-v == 0
			r[i] = v
		}
		if !ok || !(r[0] < r[1]) || lo == "" && hi == "" {
			if between == ":" {
				return o, term.Misuse(fmt.Errorf("--outcome %s: expected NAME=MIN:MAX with MIN below MAX; either may be left out, as in "+
					"%s=0: or =:1", f.Outcomes[0], name))
			}
			return o, term.Misuse(fmt.Errorf("--rewards %s: expected min,max with min below max, such as 0,1; one of "+
				"them may be missing, such as 0,", f.Rewards))
		}
		o.Rewards = &r
	}
	return o, nil
}

// Progress says every five seconds how far a long command is.
type Progress struct {
	w           io.Writer
	what        string
	began, told time.Time
	n           int
}

// NewProgress begins to count what a command does, such as "train".
func NewProgress(w io.Writer, what string) *Progress {
	now := time.Now()
	return &Progress{w: w, what: what, began: now, told: now}
}

// Tick counts an event, the n-th, and looks at the clock after every 1024.
func (p *Progress) Tick(n int) {
	if p.n++; p.n%1024 == 0 {
		p.At(n)
	}
}

// At says that n events are done, where five seconds have passed since it was said.
func (p *Progress) At(n int) {
	if now := time.Now(); now.Sub(p.told) >= 5*time.Second {
		p.told = now
		fmt.Fprintf(p.w, "troupe: %s: %s, %v\n", p.what, term.Many(n, "event"), now.Sub(p.began).Round(time.Second))
	}
}

// Digest tells files of decisions apart: SHA-256 of the size and of the first MiB.
func Digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, info.Size())
	if _, err := io.Copy(h, io.LimitReader(f, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ActionID is the id of an action: a server needs one.
func ActionID(e *logged.Event, i int) string {
	if id := e.Actions[i].ID; id != "" {
		return id
	}
	return fmt.Sprint(i)
}
