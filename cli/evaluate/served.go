package evaluate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/client"
	"troupe/eventlog"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve/fold"
	"troupe/serve/joined"
)

// servedName splits NAME@SEQ.
func servedName(target string) (name string, seq uint64, ok bool) {
	at := strings.LastIndexByte(target, '@')
	if at < 1 {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(target[at+1:], 10, 64)
	return target[:at], seq, err == nil && seq > 0
}

// overHTTP reports whether the log is that of a server that runs.
func (e *evaluation) overHTTP() bool { return source.IsAddress(e.source) }

// prepare loads the targets that are served models, which say what part of the log may be evaluated, and then the log
// of a server that runs.
func (e *evaluation) prepare(ctx context.Context, o *ope.Options) error {
	e.served = map[string]*source.Served{}
	for _, target := range e.targets {
		name, seq, at := servedName(target)
		if _, err := os.Stat(target); err == nil {
			at = false
		}
		var b []byte
		var err error
		switch {
		case at:
			if e.in.Model == "" {
				e.in.Model = name
			}
			b, err = e.modelAt(ctx, name, seq)
		case source.IsSaved(target):
			b, err = os.ReadFile(target)
		default:
			continue
		}
		var saved *fold.Saved
		if err == nil {
			saved, err = fold.ReadSaved(b)
		}
		if err != nil {
			return term.Misuse(fmt.Errorf("--target %s: %w", target, err))
		}
		if e.learn != "no" {
			return term.Misuse(fmt.Errorf("--learn %s: %s is a model as it was, and learns nothing", e.learn, target))
		}
		label := target
		if !at {
			label = filepath.Base(target)
		}
		if e.served[target], err = source.NewServed(label, saved); err != nil {
			return term.Misuse(fmt.Errorf("--target %s: %w", target, err))
		}
		if err := e.unlearned(target, seq, saved); err != nil {
			return err
		}
	}
	if e.overHTTP() {
		return e.fetch(ctx, o)
	}
	return nil
}

// unlearned sees to it that a target is evaluated on events that it has not learned.
func (e *evaluation) unlearned(target string, seq uint64, saved *fold.Saved) error {
	if e.after = max(e.after, seq); saved.Origin.File != "" && !e.overHTTP() {
		info, err := os.Stat(e.source)
		if err != nil || info.IsDir() {
			return err
		}
		digest, err := source.Digest(e.source)
		if err == nil && digest == saved.Origin.File {
			err = term.Misuse(fmt.Errorf("--target %s: it was trained on the events of %s; --target POLICY.toml "+
				"--split 0.5 trains on one part and evaluates on the other", target, e.source))
		}
		return err
	}
	if len(saved.Origin.Models) > 0 {
		e.learned = append(e.learned, learnedPart{target, saved.Origin})
	}
	return nil
}

// learnedPart is what a target has learned of the log of a server.
type learnedPart struct {
	target string
	origin fold.Origin
}

// skipLearned leaves out what the targets have learned of the log of these incarnations.
func (e *evaluation) skipLearned(has func(eventlog.ID) bool) {
	for _, p := range e.learned {
		if slices.ContainsFunc(p.origin.Models, has) {
			e.after = max(e.after, p.origin.Seq)
		}
	}
}

// modelAt reads a model as it was after an entry.
func (e *evaluation) modelAt(ctx context.Context, name string, seq uint64) (b []byte, err error) {
	if e.overHTTP() {
		c, err := client.New(e.source, client.Options{Key: e.key})
		if err != nil {
			return nil, err
		}
		return c.SaveModel(ctx, name, seq)
	}
	if info, err := os.Stat(e.source); err != nil || !info.IsDir() {
		return nil, errors.Join(err, errors.New("NAME@SEQ is a model of a server: the log must be its data "+
			"directory, or its address"))
	}
	s, err := lookAt(ctx, e.source)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	return s.SaveModel(ctx, name, seq)
}

// copied is what was fetched of a server that runs: the same decisions for all of several rewards, also while it goes on.
type copied struct {
	file string
	log  *joined.Ended
}

// fetch copies the decisions of a server that runs to a file, with what became of them. It takes those that are copied already.
func (e *evaluation) fetch(ctx context.Context, o *ope.Options) error {
	c, err := client.New(e.source, client.Options{Key: e.key})
	if err != nil {
		return term.Misuse(err)
	}
	if e.in.Model, err = source.ModelOf(ctx, c, e.source, e.in.Model); err != nil {
		return err
	}
	var m struct {
		Incarnation eventlog.ID `json:"incarnation"`
	}
	if err := c.Get(ctx, "/v1/models/"+e.in.Model, &m); err != nil {
		return term.Misuse(fmt.Errorf("%s: %w", e.source, err))
	}
	e.skipLearned(func(id eventlog.ID) bool { return id == m.Incarnation })
	if !e.ranged() {
		e.read.Rewards = nil // the log says it
	}
	if e.copied != nil && e.copied.file != "" {
		e.fetched, e.log = e.copied.file, e.copied.log
		return nil
	}
	f, err := os.CreateTemp("", fmt.Sprintf("troupe-evaluate-%d-*.jsonl", rand.Uint32()))
	if err != nil {
		return err
	}
	e.fetched = f.Name()
	if e.copied != nil {
		e.copied.file = e.fetched
	}
	defer f.Close()
	w := &allButLast{w: bufio.NewWriterSize(f, 1<<20)}
	p := source.NewProgress(e.say, "evaluate: entries read")
	from := e.after + 1
	if e.after == 0 {
		from = 0 // the beginning, or the base of a log that was trimmed
	}
	for {
		next, applied, err := c.EndedDecisions(ctx, w, e.in.Model, from, 100_000_000)
		if err == nil {
			err = e.endOfPage(w.take())
		}
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: %w", e.source, err))
		}
		if p.Tick(int(next)); next > applied || next == from {
			if e.copied != nil {
				e.copied.log = e.log
			}
			return w.w.Flush()
		}
		from = next
	}
}

// allButLast writes lines, and keeps the last one.
type allButLast struct {
	w    *bufio.Writer
	last []byte // what came behind the last line feed but one
}

func (l *allButLast) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		if i == 0 {
			i = len(p)
		}
		if k := len(l.last); k > 0 && l.last[k-1] == '\n' {
			if _, err := l.w.Write(l.last); err != nil {
				return 0, err
			}
			l.last = l.last[:0]
		}
		l.last, p = append(l.last, p[:i]...), p[i:]
	}
	return n, nil
}

// take returns the last line, which was not written.
func (l *allButLast) take() []byte {
	defer func() { l.last = nil }()
	return l.last
}

// endOfPage reads the last line of an answer. Several pages have one range and all notes.
func (e *evaluation) endOfPage(line []byte) error {
	var x struct {
		Log *joined.Ended `json:"log"`
	}
	if err := json.Unmarshal(line, &x); err != nil || x.Log == nil {
		return errors.New("the answer ends without a line with the key log: the server's version is older than this " +
			"one. Evaluate its data directory when it is stopped")
	}
	if e.log == nil {
		e.log = x.Log
		return nil
	}
	a, b := e.log, x.Log
	if b.Ranges > 1 || b.Ranges > 0 && b.Range != a.Range {
		a.Ranges = max(a.Ranges, 2)
	}
	a.Widened, a.Declared = a.Widened || b.Widened, a.Declared && b.Declared
	a.Early, a.Activation = a.Early+b.Early, cmp.Or(a.Activation, b.Activation)
	for _, note := range b.Notes { // a page reads on until its windows are over
		if !slices.Contains(a.Notes, note) {
			a.Notes = append(a.Notes, note)
		}
	}
	return nil
}

// ofServer names the server in a fault of the file with its decisions, and says why there are none.
func (e *evaluation) ofServer(err error) error {
	var fault *logged.Error
	if e.stdin != "" && errors.As(err, &fault) && fault.File == e.stdin {
		fault.File = "-"
	}
	if e.fetched == "" || !errors.As(err, &fault) || fault.File != e.fetched {
		return err
	}
	fault.File = e.source
	if fault.Empty {
		where := "of " + orAny(e.in.Model)
		if e.after > 0 {
			where += fmt.Sprintf(" after entry %d", e.after)
		}
		return term.Misuse(fmt.Errorf("%s: no decision %s with a final reward, or with a window that is over: there "+
			"is nothing to evaluate yet%s", e.source, where, fault.Left))
	}
	return err
}

// undeclared warns of a range that the model does not declare.
func undeclared(r ope.Pair) string {
	return fmt.Sprintf("rewards are taken to lie in [%g, %g]: the model does not declare a range, and no reward was "+
		"outside; --rewards min,max fixes one", r[0], r[1])
}
