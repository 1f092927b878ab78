package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/logged"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve"
	"troupe/serve/fold"
	"troupe/serve/joined"
	"troupe/serve/model"
	"troupe/serve/train"
	"troupe/sim"
	"troupe/spec"
)

// training is one run of troupe train.
type training struct {
	in      source.Flags
	source  string
	policy  string
	schema  string
	out     string
	cap     int
	seed    uint64
	workers int
	say     io.Writer

	compiled *model.Compiled
	key      rng.Key
	beside   fold.Memory
	skipped  map[string]int
	origin   fold.Origin
}

func trainCommand() *cobra.Command {
	var t training
	c := &cobra.Command{
		Use:   "train LOG",
		Short: "Learn a log of decisions; a server's model starts from what is written",
		Long: `Learns the rewards of a log and writes a model: configuration, seed and state. A server takes it with
POST /v1/models/NAME:createFrom, or with start = "FILE" in a table of serve --models; it then decides
as if it had learned these events itself.

With --model, LOG is the data directory of a stopped server. Features, range of rewards and catalogue
are those of the model, and rewards count by its rule. Decisions whose window was open at the end are
left out.

Otherwise LOG is a file in any format of troupe convert whose actions have named features. The kind
effects, the default, needs no schema, and neither does sparse. Others need one: --schema FILE, or one
that is learned from the first 2000 events.

The kinds atoms and lazy add up blocks of events on --workers processors and write the same bytes for any
number of them. The others learn in the order of the log.

--cap N is for a log that is older than the world. The estimate is that of all events, and the members
vary as if there had been N. Kinds whose state is no sum over events, such as auto and logistic, learn N
of the events, evenly spaced.`,
		Example: `  troupe train troupe-data --model news --policy ensemble.toml --out warm.model
  troupe train events.dsjson --policy auto.toml --out warm.model`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			t.source, t.say = args[0], cmd.ErrOrStderr()
			return t.run(ctx, cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	t.in.Add(f)
	f.StringVar(&t.policy, "policy", "", "TOML file with a policy table, kind and options; default: the policy of "+
		"the served model, or the server's default")
	f.StringVar(&t.schema, "schema", "", "TOML or JSON file with the schema of named features; default: that of the "+
		"served model, or one that is learned")
	f.StringVarP(&t.out, "out", "o", "", "file of the model")
	f.IntVar(&t.cap, "cap", 0, "number of events that the log counts for; 0: all")
	f.Uint64Var(&t.seed, "seed", 1, "seed of the model's random numbers")
	f.IntVar(&t.workers, "workers", runtime.GOMAXPROCS(0), "processors; the bytes do not depend on it")
	return c
}

// sampled is how many events a schema is learned from.
const sampled = 2000

func (t *training) run(ctx context.Context, out io.Writer) error {
	switch {
	case t.out == "":
		return term.Misuse(errors.New("--out FILE is missing"))
	case t.cap < 0:
		return term.Misuse(fmt.Errorf("--cap %d: expected a number of events", t.cap))
	case t.workers < 1:
		return term.Misuse(fmt.Errorf("--workers %d: expected at least 1", t.workers))
	}
	t.key = rng.NewKey(t.seed).Child("train")
	info, err := os.Stat(t.source)
	if err != nil {
		return term.Misuse(err)
	}
	pass := t.file
	table := []string(nil)
	if info.IsDir() {
		if table, err = logged.IsTable(t.source); err != nil {
			return err
		}
	}
	if info.IsDir() && table == nil {
		if t.schema != "" {
			return term.Misuse(errors.New("--schema: the log of a server has the vectors of its model's own schema, " +
				"not the requests; leave it out"))
		}
		pass = t.directory
	}
	// The first pass finds out what the model is, and how many events there are.
	n := 0
	count := func(train.Event) error { n++; return nil }
	if err := pass(ctx, "counting", count); err != nil {
		return err
	}
	if n == 0 {
		return term.Misuse(fmt.Errorf("%s: no event with a reward that counts%s", t.source, t.left()))
	}
	trainer, err := train.New(t.compiled, t.key, train.Options{Cap: t.cap, Events: n, Workers: t.workers})
	if err != nil {
		return term.Misuse(fmt.Errorf("%s: %w", t.policyName(), err))
	}
	if err := pass(ctx, "learning", trainer.Add); err != nil {
		return err
	}
	saved, err := trainer.Finish(t.beside)
	if err != nil {
		return err
	}
	saved.Origin = t.origin
	b, err := saved.Append(nil)
	if err == nil {
		_, err = fold.ReadSaved(b)
	}
	if err != nil {
		return err
	}
	if err := fold.WriteDurable(filepath.Dir(t.out), filepath.Base(t.out), bytes.NewReader(b)); err != nil {
		return term.Misuse(fmt.Errorf("--out %s: %w", t.out, err))
	}
	how := "in the order of the log"
	if trainer.Merges() {
		how = fmt.Sprintf("in blocks of %s, joined by a tree", term.Grouped(train.Block))
	}
	if trainer.Thins() {
		how = fmt.Sprintf("of %s, evenly spaced, %s", term.Grouped(int64(n)), how)
	}
	c := &t.compiled.Config
	fmt.Fprintf(out, "%s learned %s, %s%s\n", c.Policy.Raw["kind"], term.Many(trainer.Len(), "event"), how, t.left())
	fmt.Fprintf(out, "%s  %s bytes, dimension %d; a server takes it: POST /v1/models/NAME:createFrom\n", t.out,
		term.Grouped(int64(len(b))), t.compiled.Dim)
	return nil
}

// left says what was not learned.
func (t *training) left() string {
	var parts []string
	for k, n := range t.skipped {
		parts = append(parts, fmt.Sprintf("%s left out: %s", term.Grouped(int64(n)), k))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, "; ")
}

// configure compiles the configuration with the policy of the file.
func (t *training) configure(c model.Config) error {
	if t.policy != "" {
		text, err := os.ReadFile(t.policy)
		if err != nil {
			return term.Misuse(fmt.Errorf("--policy: %w", err))
		}
		raw, file, err := spec.ReadFile(t.policy, string(text))
		if err != nil {
			return err
		}
		delete(raw, "name")
		c.Policy = model.PolicySpec{}
		if err := c.Policy.DecodeSpec(raw, ""); err != nil {
			return file.Locate(err)
		}
		if c.Features.Schema == nil && c.Dim == 0 { // the policy takes the noise from the data
			c.Sigma = 0
		}
	}
	var err error
	if t.compiled, err = c.Admit(model.DefaultLimits); err != nil && c.Features.Schema == nil && c.Dim == 0 {
		return term.Misuse(fmt.Errorf("%s: the log has the requests of a model without a schema; the kind "+
			"effects learns them: %w", t.policyName(), err))
	} else if err != nil {
		return term.Misuse(fmt.Errorf("%s: %w", t.policyName(), err))
	}
	return nil
}

func (t *training) policyName() string {
	if t.policy == "" {
		return "the model's own policy"
	}
	return "--policy " + t.policy
}

// directory reads the log of a server.
func (t *training) directory(ctx context.Context, what string, each func(train.Event) error) error {
	p := source.NewProgress(t.say, "train: "+what)
	j := joined.New(joined.Options{Model: t.in.Model, Base: serve.BaseOf(t.source), Features: true})
	t.skipped = map[string]int{}
	n := 0
	report, err := eventlog.Scan(source.Dir(t.source), source.Keys(t.source), func(d eventlog.Delivery) error {
		if p.Tick(n); ctx.Err() != nil {
			return sim.ErrInterrupted
		}
		return j.Apply(d, func(x *joined.Decided) error {
			n++
			if x.State != joined.Paid && x.State != joined.Default {
				t.skipped["reward "+string(x.State)]++
				return nil
			}
			m := j.Fold().Model(x.Record.Model)
			if m == nil {
				return nil
			}
			m = j.Fold().Current(m)
			if t.compiled == nil {
				if err := t.configure(m.Compiled.Config); err != nil {
					return err
				}
			}
			round := t.key.At(uint64(x.Key.Epoch)).Stream(rng.Perturb).Round(x.Key.Batch*eventlog.MaxEvents +
				uint64(x.Key.Index))
			event := train.Event{X: x.Record.X, Atoms: x.Record.Atoms, Reward: x.Reward, Given: x.State == joined.Paid,
				Draw: round, Time: x.Record.Time}
			if t.compiled.Dim != m.Compiled.Dim || (t.compiled.Atoms == nil) != (m.Compiled.Atoms == nil) {
				return fmt.Errorf("entry %d: a decision of dimension %d, the model began with %d: another model had "+
					"this name; --policy cannot learn both", x.Seq, m.Compiled.Dim, t.compiled.Dim)
			}
			return each(event)
		})
	})
	switch {
	case err != nil:
		return source.Error(err)
	case !report.OK():
		return &eventlog.DamagedError{Report: report}
	case j.Gap() != nil:
		return j.Gap()
	}
	if k := j.Pending(); k > 0 {
		t.skipped["the window was open at the end of the log"] = k
	}
	if f := j.Fold(); f != nil {
		t.origin = fold.Origin{Seq: f.Seq()}
		for m := range f.Models() {
			if m.Name() == j.Model {
				t.origin.Models = append(t.origin.Models, m.ID)
			}
		}
		slices.Sort(t.origin.Models)
		if m := f.Named(j.Model); m != nil {
			t.beside = m.Memory
		} else if j.Model == "" && t.in.Model != "" {
			return term.Misuse(fmt.Errorf("%s: no decision of the model %s%s", t.source, t.in.Model,
				spec.Suggest(t.in.Model, f.Names())))
		}
	}
	return nil
}

// file reads a log in a file.
func (t *training) file(ctx context.Context, what string, each func(train.Event) error) error {
	o, err := t.in.Options()
	if err != nil {
		return err
	}
	if t.compiled == nil {
		if err := t.featuresOf(o); err != nil {
			return err
		}
	}
	r, err := logged.Open(t.source, o)
	if err != nil {
		return err
	}
	defer r.Close()
	e := newEncoder(t.compiled)
	p := source.NewProgress(t.say, "train: "+what)
	var ev logged.Event
	for n := 0; ; n++ {
		if p.Tick(n); ctx.Err() != nil {
			return sim.ErrInterrupted
		}
		err := r.Read(&ev)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if ev.BadReward {
			continue
		}
		x, err := e.encode(&ev)
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: event %d: %w", t.source, n+1, err))
		}
		x.Reward, x.Given, x.Draw = ev.Reward, true, t.key.Stream(rng.Perturb).Round(uint64(n))
		if !ev.Time.IsZero() {
			x.Time = ev.Time.UnixNano()
		}
		if err := each(x); err != nil {
			return term.Misuse(fmt.Errorf("%s: %w", t.source, err))
		}
	}
	if t.origin.File, err = source.Digest(t.source); err != nil {
		return err
	}
	t.skipped = r.Skipped()
	return nil
}

// featuresOf decides how the events of a file become vectors.
func (t *training) featuresOf(o logged.Options) error {
	c := model.Default("trained")
	if o.Rewards != nil {
		if math.IsInf(o.Rewards[1]-o.Rewards[0], 1) {
			return term.Misuse(fmt.Errorf("--rewards %s: a model needs both ends of the range", t.in.Rewards))
		}
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt = o.Rewards[0], o.Rewards[1], false
	}
	kind := "effects"
	if t.policy != "" {
		text, err := os.ReadFile(t.policy)
		if err != nil {
			return term.Misuse(fmt.Errorf("--policy: %w", err))
		}
		raw, _, err := spec.ReadFile(t.policy, string(text))
		if err != nil {
			return err
		}
		kind, _ = raw["kind"].(string)
	}
	if t.schema != "" {
		text, err := os.ReadFile(t.schema)
		if err != nil {
			return term.Misuse(fmt.Errorf("--schema: %w", err))
		}
		raw, file, err := spec.ReadFile(t.schema, string(text))
		if err != nil {
			return err
		}
		if c.Features.Schema, err = feature.Decode(raw, ""); err != nil {
			return file.Locate(err)
		}
		return t.configure(c)
	}
	r, err := logged.Open(t.source, o)
	if err != nil {
		return err
	}
	defer r.Close()
	var ev logged.Event
	var samples []feature.Sample
	for len(samples) < sampled {
		if err := r.Read(&ev); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if len(ev.Slots) > 0 || ev.Context != nil || len(ev.Actions) == 0 {
			return term.Misuse(fmt.Errorf("%s: a model of the server reads requests with named features, and this "+
				"log has none, or lists of slots; dsjson, VW JSON and JSON lines with objects have them", t.source))
		}
		if x := ev.Actions[0].X; x != nil {
			c.Dim = len(x)
			return t.configure(c)
		}
		if made := policy.Kinds[kind]; made != nil {
			if _, reads := made().(policy.RequestReader); reads {
				return t.configure(c)
			}
		}
		e := ev.Clone()
		s := feature.Sample{Context: e.Named}
		for i := range e.Actions {
			s.Actions = append(s.Actions, feature.SampleAction{ID: source.ActionID(e, i), Features: e.Actions[i].Named})
		}
		samples = append(samples, s)
	}
	if len(samples) == 0 {
		return term.Misuse(fmt.Errorf("%s: an empty log", t.source))
	}
	p, err := feature.Learn(samples, feature.LearnOptions{})
	if err != nil {
		return term.Misuse(fmt.Errorf("%s: %w", t.source, err))
	}
	c.Features.Schema = p.Schema
	return t.configure(c)
}

// encoder turns the chosen action of an event into what the model learns from.
type encoder struct {
	c      *model.Compiled
	batch  *feature.Batch
	hashed *feature.AtomBatch
	atoms  []byte
}

func newEncoder(c *model.Compiled) *encoder {
	e := &encoder{c: c}
	if c.Atoms != nil {
		e.hashed = feature.NewAtomBatch(c.Atoms)
	} else {
		e.batch = feature.NewBatch(c.Encoder)
	}
	return e
}

func (e *encoder) encode(ev *logged.Event) (x train.Event, err error) {
	if ev.Chosen >= len(ev.Actions) {
		return x, errors.New("the chosen action has no features")
	}
	if e.c.Config.Dim > 0 {
		x.X = ev.Actions[ev.Chosen].X
		return x, nil
	}
	if a := &ev.Actions[ev.Chosen]; e.hashed != nil && a.Atoms != nil { // the export of a server
		e.atoms = feature.AppendAtoms(feature.AppendAtoms(e.atoms[:0], ev.Atoms), a.Atoms)
		x.Atoms = e.atoms
		return x, nil
	}
	var b interface {
		Begin(context []byte) error
		Add(id string, features []byte) error
	} = e.batch
	if e.hashed != nil {
		b = e.hashed
	}
	if err := b.Begin(ev.Named); err != nil {
		return x, err
	}
	for i := range ev.Actions {
		if err := b.Add(source.ActionID(ev, i), ev.Actions[i].Named); err != nil {
			return x, err
		}
	}
	if e.hashed == nil {
		d := e.c.Dim
		x.X = e.batch.X()[ev.Chosen*d : (ev.Chosen+1)*d]
		return x, nil
	}
	e.atoms = feature.AppendAtoms(feature.AppendAtoms(e.atoms[:0], e.hashed.Context()), e.hashed.Action(ev.Chosen))
	x.Atoms = e.atoms
	return x, nil
}
