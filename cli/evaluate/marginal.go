package evaluate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/serve"
	"troupe/serve/joined"
)

// further is how many draws beside --redraws the correction of dr-marginal takes.
const further = 16

// redrawFile has draws of the decisions of a log anew, in their order. The zero value is none.
type redrawFile struct {
	name  string
	first int // draws of each decision
}

func (f redrawFile) remove() {
	if f.name != "" {
		os.Remove(f.name)
	}
}

// open begins to read, nil where there is none.
func (f redrawFile) open() (*redrawReader, error) {
	if f.name == "" {
		return nil, nil
	}
	return openRedraws(f.name, f.first)
}

// with is the log with draws of its decisions anew.
func (d directory) with(f redrawFile) directory {
	d.redraws = f
	return d
}

// redraw draws the decisions of a model anew for --law marginal, into a file in their order. The caller removes the file, also after an
// error.
func redraw(ctx context.Context, q *question, log decisions, name string, progress io.Writer) (out redrawFile, err error) {
	first, err := log.read() // refuses a log without events before anything is drawn
	if err != nil {
		return out, err
	}
	after := uint64(0)
	if s, ok := first.(serverReader); ok {
		after = s.After()
	}
	if err := first.Close(); err != nil {
		return out, err
	}
	s, err := lookAt(ctx, q.source)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	if name == "" {
		models, more, err := s.ListModels(ctx, "", 1)
		switch {
		case err != nil:
			return out, err
		case more:
			return out, term.Misuse(errors.New("--law marginal: --model NAME is missing: the log has several"))
		case len(models) == 1:
			name = models[0].Name
		}
	}
	f, err := os.CreateTemp("", fmt.Sprintf("troupe-redraws-%d-*", rand.Uint32()))
	if err != nil {
		return out, err
	}
	out = redrawFile{f.Name(), q.redraws}
	defer f.Close()
	w, b := bufio.NewWriterSize(f, 1<<20), []byte(nil)
	err = s.Redraw(ctx, name, serve.RedrawOptions{First: q.redraws, Further: further, Seed: q.options.Seed, From: after,
		Workers: q.options.Workers, Progress: remaining(progress, q.redraws)},
		func(r *serve.Redrawn) error {
			b = binary.AppendUvarint(b[:0], r.Seq)
			b = binary.AppendUvarint(b, uint64(r.Key.Index))
			b = binary.AppendUvarint(b, uint64(len(r.Counts)))
			for _, c := range r.Counts {
				b = binary.AppendUvarint(b, uint64(c))
			}
			for _, a := range r.Further {
				b = binary.AppendUvarint(b, uint64(a))
			}
			_, err := w.Write(b)
			return err
		})
	var shared *serve.NotFreshError
	if errors.As(err, &shared) {
		return out, term.Misuse(fmt.Errorf("--law marginal: %w", err))
	}
	if err != nil {
		return out, term.Misuse(fmt.Errorf("%s: %w", q.source, err))
	}
	return out, w.Flush()
}

// remaining returns a function that prints every few seconds how much is drawn, and how long the rest takes.
func remaining(w io.Writer, times int) func(done, of int) {
	var began, told time.Time
	return func(done, of int) {
		now := time.Now()
		switch {
		case began.IsZero():
			began, told = now, now.Add(-4*time.Second) // the first time after a second
			return
		case now.Sub(told) < 5*time.Second || done == 0:
			return
		}
		told = now
		left := now.Sub(began) * time.Duration(of-done) / time.Duration(done)
		fmt.Fprintf(w, "troupe: evaluate: %s of %s drawn anew %s times each, about %v left\n",
			term.Grouped(int64(done)),
			term.Many(of, "decision"), term.Grouped(int64(times)), left.Round(time.Second))
	}
}

// lookAt opens the directory of a server that is stopped, and leaves it as it is.
func lookAt(ctx context.Context, dir string) (*serve.Server, error) {
	s, err := serve.Open(ctx, serve.Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1, ExpireEvery: -1,
		TrimEvery: -1, KeepLogVersion: true})
	if err != nil {
		return nil, source.OpenError(dir, err)
	}
	return s, nil
}

// redrawReader reads what redraw wrote, beside the decisions in the same order.
type redrawReader struct {
	file  *os.File
	b     *bufio.Reader
	first int
	seq   uint64 // of next
	index uint32
	next  *logged.Redraws // nil: none is read
	over  bool
}

func openRedraws(file string, first int) (*redrawReader, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	return &redrawReader{file: f, b: bufio.NewReaderSize(f, 1<<18), first: first}, nil
}

// of returns the draws of a decision, nil where it has none.
func (r *redrawReader) of(d *joined.Decided) (*logged.Redraws, error) {
	for {
		if r.next == nil && !r.over {
			if err := r.read(); err != nil {
				return nil, err
			}
		}
		switch {
		case r.over || r.seq > d.Seq || r.seq == d.Seq && r.index > d.Key.Index:
			return nil, nil
		case r.seq == d.Seq && r.index == d.Key.Index:
			out := r.next
			r.next = nil
			return out, nil
		}
		r.next = nil // of a decision that is no event
	}
}

func (r *redrawReader) read() error {
	var failed error
	number := func() uint64 {
		v, err := binary.ReadUvarint(r.b)
		if failed == nil {
			failed = err
		}
		return v
	}
	r.seq = number()
	if failed == io.EOF {
		r.over = true
		return nil
	}
	r.index = uint32(number())
	n := number()
	if failed != nil || n > logged.MaxActions {
		return errors.Join(failed, errors.New("the file of redraws is damaged"))
	}
	r.next = &logged.Redraws{N: r.first, Counts: make([]uint32, n), Further: make([]uint32, further)}
	for _, list := range [][]uint32{r.next.Counts, r.next.Further} {
		for i := range list {
			list[i] = uint32(number())
		}
	}
	return failed
}

func (r *redrawReader) close() {
	if r != nil {
		r.file.Close()
	}
}
