package evaluate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// models are the targets of a question that are served models as they were, and what they say about the log: they are not compared on
// decisions that they have learned from.
type models struct {
	served  map[string]*source.Served // by target
	name    string                    // of the model whose decisions are evaluated: --model, or that of NAME@SEQ; "": it is not given
	after   uint64                    // only decisions behind this entry
	learned []learnedPart
}

// learnedPart is what a target has learned of the log of a server.
type learnedPart struct {
	target string
	origin fold.Origin
}

// readModels reads the targets that are served models.
func readModels(ctx context.Context, q *question) (*models, error) {
	m := &models{served: map[string]*source.Served{}, name: q.model}
	for _, target := range q.targets {
		name, seq, at := servedName(target)
		if _, err := os.Stat(target); err == nil {
			at = false
		}
		var b []byte
		var err error
		switch {
		case at:
			if m.name == "" {
				m.name = name
			}
			b, err = modelAt(ctx, q, name, seq)
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
			return nil, term.Misuse(fmt.Errorf("--target %s: %w", target, err))
		}
		if q.learn != "no" {
			return nil, term.Misuse(fmt.Errorf("--learn %s: %s is a model as it was, and learns nothing", q.learn, target))
		}
		label := target
		if !at {
			label = filepath.Base(target)
		}
		if m.served[target], err = source.NewServed(label, saved); err != nil {
			return nil, term.Misuse(fmt.Errorf("--target %s: %w", target, err))
		}
		m.after = max(m.after, seq)
		switch {
		case saved.Origin.File != "" && !q.overHTTP():
			if err := unlearned(q.source, target, saved); err != nil {
				return nil, err
			}
		case len(saved.Origin.Models) > 0:
			m.learned = append(m.learned, learnedPart{target, saved.Origin})
		}
	}
	return m, nil
}

// unlearned refuses a target that was trained on the events of the file that is evaluated.
func unlearned(log, target string, saved *fold.Saved) error {
	info, err := os.Stat(log)
	if err != nil || info.IsDir() {
		return err
	}
	digest, err := source.Digest(log)
	if err == nil && digest == saved.Origin.File {
		err = term.Misuse(fmt.Errorf("--target %s: it was trained on the events of %s; --target POLICY.toml "+
			"--split 0.5 trains on one part and evaluates on the other", target, log))
	}
	return err
}

// behind returns the entry behind which the targets have learned nothing of the log of the models that has reports.
func behind(after uint64, learned []learnedPart, has func(eventlog.ID) bool) uint64 {
	for _, p := range learned {
		if slices.ContainsFunc(p.origin.Models, has) {
			after = max(after, p.origin.Seq)
		}
	}
	return after
}

// modelAt reads a model as it was after an entry.
func modelAt(ctx context.Context, q *question, name string, seq uint64) (b []byte, err error) {
	if q.overHTTP() {
		c, err := client.New(q.source, client.Options{Key: q.key})
		if err != nil {
			return nil, err
		}
		return c.SaveModel(ctx, name, seq)
	}
	if info, err := os.Stat(q.source); err != nil || !info.IsDir() {
		return nil, errors.Join(err, errors.New("NAME@SEQ is a model of a server: the log must be its data "+
			"directory, or its address"))
	}
	s, err := lookAt(ctx, q.source)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	return s.SaveModel(ctx, name, seq)
}

// copied is what was copied of a running server: the same decisions for all of several rewards, also while it goes on.
type copied struct {
	file string // "": nothing yet
	log  *joined.Ended
}

// remove removes the file.
func (c *copied) remove() {
	if c.file != "" {
		os.Remove(c.file)
	}
}

// serverCopy is a file with the decisions of a running server, and what the server says beside them.
type serverCopy struct {
	file    string
	options logged.Options
	log     *joined.Ended
	source  string // address of the server
	model   string
	after   uint64
}

func (c serverCopy) read() (logReader, error) {
	r, err := logged.Open(c.file, c.options)
	if err != nil {
		return nil, err
	}
	return &copyReader{r, c}, nil
}

// fault is an error of the file as one of the server.
func (c serverCopy) fault(err error, fault *logged.Error) error {
	fault.File = c.source
	if !fault.Empty {
		return err
	}
	where := "of " + orAny(c.model)
	if c.after > 0 {
		where += fmt.Sprintf(" after entry %d", c.after)
	}
	return term.Misuse(fmt.Errorf("%s: no decision %s with a final reward, or with a window that is over: there "+
		"is nothing to evaluate yet%s", c.source, where, fault.Left))
}

// copyReader reads a copy of the log of a running server.
type copyReader struct {
	file *logged.Reader
	copy serverCopy
}

func (r *copyReader) Read(e *logged.Event) error { return r.file.Read(e) }

func (r *copyReader) Format() string { return "server" }

func (r *copyReader) Arms() []string { return r.file.Arms() }

func (r *copyReader) Skipped() map[string]int {
	out := maps.Clone(r.file.Skipped())
	if out == nil {
		out = map[string]int{}
	}
	maps.Copy(out, r.copy.log.Skipped)
	return out
}

func (r *copyReader) Bad() (int, []string) { return r.file.Bad() }

func (r *copyReader) BadBy() map[string]int { return r.file.BadBy() }

func (r *copyReader) Warnings() []string {
	return append(endedWarnings(r.copy.log, r.file.Skipped()["pending"]), r.file.Warnings()...)
}

func (r *copyReader) Close() error { return r.file.Close() }

func (r *copyReader) Model() string { return r.copy.model }

func (r *copyReader) After() uint64 { return r.copy.after }

func (r *copyReader) Base() uint64 { return 0 }

func (r *copyReader) Range() ope.Pair { return r.copy.log.Range }

func (r *copyReader) Ended() *joined.Ended { return r.copy.log }

func (r *copyReader) Notes() []string { return r.copy.log.Notes }

// copyServer copies the decisions of a running server to a file, with what became of them. It takes those that are copied already.
func copyServer(ctx context.Context, q *question, m *models, copied *copied, progress io.Writer) (decisions, error) {
	c, err := client.New(q.source, client.Options{Key: q.key})
	if err != nil {
		return nil, term.Misuse(err)
	}
	out := serverCopy{source: q.source, options: q.read}
	if out.model, err = source.ModelOf(ctx, c, q.source, m.name); err != nil {
		return nil, err
	}
	var x struct {
		Incarnation eventlog.ID `json:"incarnation"`
	}
	if err := c.Get(ctx, "/v1/models/"+out.model, &x); err != nil {
		return nil, term.Misuse(fmt.Errorf("%s: %w", q.source, err))
	}
	out.after = behind(m.after, m.learned, func(id eventlog.ID) bool { return id == x.Incarnation })
	out.options.Format, out.options.Open = "export", q.plan.on
	if !q.ranged {
		out.options.Rewards = nil // the log says it
	}
	if copied.file == "" {
		if err := copied.fill(ctx, c, out, progress); err != nil {
			return nil, err
		}
	}
	out.file, out.log = copied.file, copied.log
	return out, nil
}

// fill copies the decisions of a server, page by page.
func (c *copied) fill(ctx context.Context, from *client.Client, of serverCopy, progress io.Writer) error {
	f, err := os.CreateTemp("", fmt.Sprintf("troupe-evaluate-%d-*.jsonl", rand.Uint32()))
	if err != nil {
		return err
	}
	c.file = f.Name()
	defer f.Close()
	w := &allButLast{w: bufio.NewWriterSize(f, 1<<20)}
	p := source.NewProgress(progress, "evaluate: entries read")
	at := of.after + 1
	if of.after == 0 {
		at = 0 // the beginning, or the base of a log that was trimmed
	}
	for {
		next, applied, err := from.EndedDecisions(ctx, w, of.model, at, 100_000_000)
		if err == nil {
			c.log, err = endOfPage(c.log, w.take())
		}
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: %w", of.source, err))
		}
		if p.Tick(int(next)); next > applied || next == at {
			return w.w.Flush()
		}
		at = next
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

// endOfPage adds the last line of an answer to what earlier pages said, nil for the first. Several pages have one range and all notes.
func endOfPage(before *joined.Ended, line []byte) (*joined.Ended, error) {
	var x struct {
		Log *joined.Ended `json:"log"`
	}
	if err := json.Unmarshal(line, &x); err != nil || x.Log == nil {
		return nil, errors.New("the answer ends without a line with the key log: the server's version is older than this " +
			"one. Evaluate its data directory when it is stopped")
	}
	if before == nil {
		return x.Log, nil
	}
	a, b := before, x.Log
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
	return a, nil
}
