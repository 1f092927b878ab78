package log

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/client"
	"troupe/eventlog"
	"troupe/internal/rows"
	"troupe/serve"
	"troupe/serve/fold"
	"troupe/serve/joined"
	"troupe/sim"
)

// Row is a row of an export. The name of its type stands in the schema of Parquet files, which is why it has two.
type Row = decisionRow

// decisionRow is one row of an export: a decision with what became of it. It is a format: docs/reference/formats.md.
type decisionRow struct {
	// epoch/batch/index, the key in the log
	Event       string    `json:"event" parquet:"event"`
	EventID     *string   `json:"event_id" parquet:"event_id,optional"`      // what its caller got
	Seq         uint64    `json:"seq" parquet:"seq"`                         // log entry
	Time        time.Time `json:"time" parquet:"time,timestamp(nanosecond)"` // by the server's clock
	Model       string    `json:"model" parquet:"model,dict"`                // name
	Incarnation string    `json:"incarnation" parquet:"incarnation,dict"`    //
	Mode        string    `json:"mode" parquet:"mode,dict"`                  //
	Action      string    `json:"action" parquet:"action,dict"`              // what was played
	Index       uint32    `json:"index" parquet:"index"`                     // its place in the request
	// its place among those that were available
	Row     uint32 `json:"row" parquet:"row"`
	Offered uint32 `json:"offered" parquet:"offered"` // how many were available
	// the propensity is num/den, exact
	Num        uint64    `json:"num" parquet:"num"`
	Den        uint64    `json:"den" parquet:"den"`               //
	Propensity float64   `json:"propensity" parquet:"propensity"` // the quotient, rounded
	BasisSeq   uint64    `json:"basis_seq" parquet:"basis_seq"`   // the state that decided
	X          []float64 `json:"x" parquet:"x,list"`              // features of the action
	// probabilities of those that were available; null: not recorded
	Law []float64 `json:"law" parquet:"law,list,optional"`
	// of those that were available; null: not kept, or hashed
	Candidates []joined.Dense `json:"candidates" parquet:"candidates,list,optional"`
	// hashed features of the context (row -1) and of each candidate
	SparseRow   []int32       `json:"sparse_row" parquet:"sparse_row,list,optional"`
	SparseHash  []joined.Hash `json:"sparse_hash" parquet:"sparse_hash,list,optional"`   //
	SparseValue []float64     `json:"sparse_value" parquet:"sparse_value,list,optional"` //
	Active      bool          `json:"active" parquet:"active"`                           // not deferred, or activated
	// records, whether or not they counted for the model
	Rewards uint32   `json:"rewards" parquet:"rewards"`
	First   *float64 `json:"reward_first" parquet:"reward_first,optional"` // null: there was none
	Sum     *float64 `json:"reward_sum" parquet:"reward_sum,optional"`     //
	Last    *float64 `json:"reward_last" parquet:"reward_last,optional"`   //
	// from the decision to the first reward
	Delay   *float64 `json:"delay_seconds" parquet:"delay_seconds,optional"`
	Expired bool     `json:"expired" parquet:"expired"` // the window was closed
	// the reward that was given then, if any
	Default *float64 `json:"default" parquet:"default,optional"`
	// what counts by the model's rule
	Reward *float64 `json:"reward" parquet:"reward,optional"`
	// numbers that were played, by name; then offered counts the cells of all actions, and row is that of the cell
	Numbers map[string]float64 `json:"numbers,omitempty" parquet:"-"`
	Played  []joined.Number    `json:"-" parquet:"numbers,list,optional"`
	// density at the numbers, and the cell in which they are uniform, where one has no steps
	Density *float64              `json:"density,omitempty" parquet:"density,optional"`
	Cell    map[string][2]float64 `json:"cell,omitempty" parquet:"-"`
	// what each of those that were available costs; absent: not stated
	Costs []float64 `json:"costs,omitempty" parquet:"costs,list,optional"`
	// what it cost: as a call said it, otherwise as it was stated
	Cost *float64 `json:"cost,omitempty" parquet:"cost,optional"`
	// under a budget: the price, and whether the hard stop took actions away
	Price   *float64 `json:"price,omitempty" parquet:"price,optional"`
	Stopped *bool    `json:"stopped,omitempty" parquet:"stopped,optional"`
	// keyed hash of the value at the model's unit; absent: it has none
	Unit string `json:"unit,omitempty" parquet:"unit,optional"`
	// of a model with a control group: model or control; the share of the control; uniform or first
	Group        string   `json:"group,omitempty" parquet:"group,optional,dict"`
	Control      *float64 `json:"control,omitempty" parquet:"control,optional"`
	ControlPlays string   `json:"control_plays,omitempty" parquet:"control_plays,optional,dict"`
	// of a list: its positions, and how many; the columns of one action are then those of the first entry, the reward is the sum,
	// or the one of the list
	Slots     []joined.SlotColumn `json:"slots,omitempty" parquet:"slots,list,optional"`
	Positions uint32              `json:"positions,omitempty" parquet:"positions,optional"`
	OneReward bool                `json:"one_reward,omitempty" parquet:"one_reward,optional"`
	// paid, default, none, pending, inactive, ignored, unknown
	State string `json:"reward_state" parquet:"reward_state,dict"`

	// columns reward.NAME, of a model with rewards
	names  []string
	values []*float64
}

// More implements rows.More.
func (r decisionRow) More() (names []string, values []*float64) { return r.names, r.values }

// unknownState: the decision is older than the base of a trimmed log.
const unknownState = "unknown"

// outcome is what the log says of an event after its decision.
type outcome struct {
	rewards          uint32
	first, sum, last float64
	firstTime        int64
	active, expired  bool
	byName           bool // its rewards have names, and reward_first and so on are not one number
	defaulted        bool
	y                float64
	state            joined.State
	slots            []joined.SlotColumn // of a list
	named            *joined.Decided     // with rewards that have names
	counts           float64             // the reward by the model's rule, NaN without one
	cost             float64             // NaN where none is known
}

func logExportCommand() *cobra.Command {
	var format, out, model, key string
	var ignored bool
	c := &cobra.Command{
		Use:   "export [DIR | http://HOST]",
		Short: "Write decisions joined with their rewards as JSONL or Parquet",
		Long: `Writes one row for each decision: model, action, exact propensity, features, candidates where they
are kept, the probabilities of all actions, and its outcome. The outcome is the first, the sum and the
last reward, the delay, the end of the window, and the reward that counts by the model's rule.

The files are read while no server uses them, and nothing is changed. On a damaged log nothing is
written and the exit code is 1: see troupe log verify. A file appears under its name when it is whole,
and replaces an older one. The columns: docs/reference/formats.md.

With the address of a server that runs, and --model, the rows are those of GET /v1/models/NAME/decisions,
which has fewer columns; --key is an API key that may read. Decisions that have no effect, because another
node of the cluster had decided for their key first or their model is not known any more, are left out.`,
		Example: `  troupe log export --format parquet --out decisions.parquet
  troupe log export troupe-data --model news | head
  troupe log export http://127.0.0.1:8080 --model news --out decisions.jsonl`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "jsonl" && format != "parquet" {
				return term.Misuse(fmt.Errorf("--format %s: expected jsonl or parquet", format))
			}
			if format == "parquet" && out == "" {
				return term.Misuse(errors.New("--format parquet needs --out FILE"))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			e := export{ctx: ctx, data: dataDir(args), format: format, model: model, key: key, ignored: ignored,
				progress: cmd.ErrOrStderr()}
			err := e.write(cmd.OutOrStdout(), out)
			if e.ctx.Err() != nil {
				err = fmt.Errorf("%w; nothing was written", sim.ErrInterrupted)
				if out == "" {
					err = fmt.Errorf("%w; what was written is not whole", sim.ErrInterrupted)
				}
			}
			return source.Error(err)
		},
	}
	c.Flags().StringVar(&key, "key", os.Getenv("TROUPE_KEY"),
		"API key of a server that runs; default is the environment's TROUPE_KEY")
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl or parquet")
	c.Flags().StringVarP(&out, "out", "o", "", "file; default stdout")
	c.Flags().StringVar(&model, "model", "", "decisions of this model only")
	c.Flags().BoolVar(&ignored, "ignored", false, "write decisions that have no effect, too: their reward_state is "+
		"ignored")
	return c
}

// export is one run of log export.
type export struct {
	ctx           context.Context
	data          string
	format, model string
	key           string // API key
	ignored       bool   // write decisions without effect, too
	progress      io.Writer
	began, told   time.Time

	// What the first pass found.
	outcomes map[eventlog.Event]*outcome
	names    map[eventlog.ID]string // of models
	columns  []string               // reward.NAME, of rewards with names
	blind    bool                   // the log was trimmed and there is no base: nothing is known of what counted
	base     uint64                 // entry of the state that the log begins with
	last     uint64                 // its last entry
}

// write exports to a file, or to stdout when out is empty.
func (e *export) write(stdout io.Writer, out string) error {
	if out == "" {
		return e.run(stdout)
	}
	switch info, err := os.Stat(out); {
	case err == nil && info.IsDir():
		return term.Misuse(fmt.Errorf("--out %s: is a directory, expected a file", out))
	case err == nil && !info.Mode().IsRegular(): // a pipe, a terminal
		w, err := os.OpenFile(out, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(e.run(w), w.Close())
	}
	dir := filepath.Dir(out)
	w, err := os.CreateTemp(dir, ".troupe-export-*")
	if err != nil {
		return term.Misuse(fmt.Errorf("--out %s: %w", out, err))
	}
	defer os.Remove(w.Name())
	if err := e.run(w); err != nil {
		return errors.Join(err, w.Close())
	}
	if err := errors.Join(w.Chmod(0o644), w.Sync(), w.Close()); err != nil {
		return err
	}
	if err := os.Rename(w.Name(), out); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fetch copies the decisions of a server that runs.
func (e *export) fetch(w io.Writer) error {
	if e.ignored {
		return term.Misuse(errors.New("--ignored reads a data directory; of a server that runs " +
			"GET /v1/models/NAME/log?ignored=true lists them"))
	}
	c, err := client.New(e.data, client.Options{Key: e.key})
	if err != nil {
		return term.Misuse(err)
	}
	if e.model, err = source.ModelOf(e.ctx, c, e.data, e.model); err != nil {
		return err
	}
	const most = 100_000_000
	if e.format == "parquet" {
		next, applied, err := c.ParquetDecisions(e.ctx, w, e.model, 0, most)
		if err == nil && next <= applied {
			err = fmt.Errorf("the log has more than %s entries; --format jsonl takes them", term.Grouped(most))
		}
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: %w", e.data, err))
		}
		return nil
	}
	for from := uint64(0); ; {
		next, applied, err := c.Decisions(e.ctx, w, e.model, from, most)
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: %w", e.data, err))
		}
		if next > applied || next == from {
			return nil
		}
		from = next
	}
}

// tell says how far a long export is, every five seconds.
func (e *export) tell(pass int, seq, last uint64) error {
	now := time.Now()
	if e.began.IsZero() {
		e.began, e.told = now, now
	}
	if now.Sub(e.told) >= 5*time.Second {
		e.told = now
		of := ""
		if last > 0 {
			of = " of " + term.Grouped(int64(last))
		}
		fmt.Fprintf(e.progress, "troupe: export: pass %d of 2, entry %s%s, %v\n", pass, term.Grouped(int64(seq)), of,
			now.Sub(e.began).Round(time.Second))
	}
	return e.ctx.Err()
}

// run reads the log twice: what became of the events, then the decisions. Memory is about 100 bytes for
// each event with an outcome, and what Parquet holds back of 10,000 rows.
func (e *export) run(w io.Writer) error {
	if source.IsAddress(e.data) {
		return e.fetch(w)
	}
	labels, err := serve.ReadLabels(e.data)
	if err != nil {
		return err
	}
	e.outcomes, e.names = map[eventlog.Event]*outcome{}, labels.Names
	if err := e.readOutcomes(); err != nil {
		return err
	}
	return e.writeRows(w, labels)
}

// of is what became of an event.
func (e *export) of(key eventlog.Event) *outcome {
	if e.outcomes[key] == nil {
		e.outcomes[key] = &outcome{cost: math.NaN()}
	}
	return e.outcomes[key]
}

// settled notes what counted for the model.
func (e *export) settled(x *joined.Decided) error {
	o := e.of(x.Key)
	o.state, o.counts, o.cost = x.State, x.Reward, x.Cost
	o.slots = joined.SlotColumns(x)
	if len(x.Rewards) > 0 {
		o.named = &joined.Decided{State: x.State, Rewards: x.Rewards}
		for _, r := range x.Rewards {
			if column := joined.ColumnOf(r.Name); (e.model == "" || x.Name == e.model) && !slices.Contains(e.columns, column) {
				e.columns = append(e.columns, column)
			}
		}
	}
	return nil
}

// readOutcomes is the first pass: what became of the events.
func (e *export) readOutcomes() error {
	// The base of a trimmed log is in a snapshot. Without one (a log alone) nothing is known of what counted.
	j := joined.New(joined.Options{All: true, Base: func(first uint64) (*fold.Fold, error) {
		f, err := serve.BaseOf(e.data)(first)
		e.blind = err != nil
		return f, err
	}})
	report, err := eventlog.Scan(source.Dir(e.data), source.Keys(e.data), func(d eventlog.Delivery) error {
		if !e.blind {
			if err := j.Apply(d, e.settled); err != nil && !e.blind {
				return err
			}
		}
		for _, r := range d.Events() {
			e.note(r)
		}
		e.last = d.Seq
		return e.tell(1, d.Seq, 0)
	})
	if err != nil {
		return err
	}
	if !report.OK() {
		return &eventlog.DamagedError{Report: report}
	}
	if e.blind {
		fmt.Fprintf(e.progress, "troupe: export: the log was trimmed and %s has no snapshot that can be its base: "+
			"every reward_state is %s\n", e.data, unknownState)
	} else {
		for x := range j.Rest() {
			if err := e.settled(x); err != nil {
				return err
			}
		}
	}
	e.base = j.Base()
	return j.Gap()
}

// note takes from a record what it says of events, and the names of models.
func (e *export) note(r eventlog.Record) {
	switch r := r.(type) {
	case *eventlog.Control:
		if r.Name != "" {
			e.names[r.Model] = r.Name
		} else if e.names[r.Model] == "" {
			e.names[r.Model] = e.names[r.From]
		}
	case *eventlog.Activate:
		e.of(r.Event).active = true
	case *eventlog.Reward:
		if r.OnlyCost {
			return
		}
		o := e.of(r.Event)
		if o.rewards++; o.rewards == 1 {
			o.first, o.firstTime = r.Y, r.Time
		}
		o.byName = r.Named != 0
		o.sum += r.Y
		o.last = r.Y
	case *eventlog.Expire:
		for i := range r.Count {
			key := r.Event
			key.Index += i
			o := e.of(key)
			o.expired, o.defaulted, o.y = true, r.Default && o.rewards == 0, r.Y
		}
	}
}

// writeRows is the second pass: the decisions.
func (e *export) writeRows(w io.Writer, labels serve.Labels) error {
	out := rows.JSON[decisionRow](w)
	if e.format == "parquet" {
		slices.Sort(e.columns)
		out = rows.Parquet[decisionRow](w, 10_000, e.columns...)
	}
	again := uint64(0)
	_, err := eventlog.Scan(source.Dir(e.data), source.Keys(e.data), func(d eventlog.Delivery) error {
		again = d.Seq
		for i, r := range d.Events() {
			r, ok := r.(*eventlog.Decision)
			if !ok || e.model != "" && e.names[r.Model] != e.model {
				continue
			}
			row, err := exportRow(d, i, r, labels, e.outcomes[d.Key(i)])
			if row.State == "" {
				if row.State = string(joined.Ignored); e.blind || d.Seq <= e.base {
					row.State = unknownState
				}
			}
			if err != nil {
				return fmt.Errorf("entry %d, record %d: %w", d.Seq, i, err)
			}
			if row.State == string(joined.Ignored) && !e.ignored {
				continue
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
		return e.tell(2, d.Seq, e.last)
	})
	if err == nil && again != e.last {
		err = fmt.Errorf("%s: the log had %d entries and has %d: a server was started meanwhile; export again", e.data,
			e.last, again)
	}
	if err == nil {
		err = out.Close()
	}
	return err
}

// exportRow makes the row of a decision.
func exportRow(d eventlog.Delivery, i uint32, r *eventlog.Decision, labels serve.Labels, o *outcome) (decisionRow,
	error) {
	key := d.Key(i)
	row := decisionRow{
		Event: fmt.Sprintf("%v/%d/%d", key.Epoch, key.Batch, key.Index), Seq: d.Seq, Time: time.Unix(0, r.Time).UTC(),
		Model: labels.Names[r.Model], Incarnation: r.Model.String(), Mode: r.Mode.String(), Action: r.Action,
		Index: r.Index, Row: r.Index,
		Offered: r.Offered, Num: r.Num, Den: r.Den, Propensity: float64(r.Num) / float64(r.Den), BasisSeq: r.BasisSeq,
		X: r.X, Active: !r.Deferred,
	}
	if row.X == nil {
		row.X = []float64{}
	}
	if id := labels.EventID(key, d.Seq); id != "" {
		row.EventID = &id
	}
	candidates, sparse, places, err := joined.Candidates(r.Full)
	if err != nil {
		return row, err
	}
	row.Candidates, row.SparseRow, row.SparseHash, row.SparseValue = candidates, sparse.Row, sparse.Hash, sparse.Value
	row.Law, row.Costs = joined.Law(r), r.Costs
	row.Price, row.Stopped = joined.Budget(r)
	row.Group, row.Control, row.ControlPlays = joined.GroupColumns(r)
	row.Numbers, row.Played, row.Density, row.Cell = joined.NumberColumns(r)
	if r.Unit != 0 {
		row.Unit = r.Unit.String()
	}
	if places != nil {
		if int(r.Index) >= len(places) {
			return row, fmt.Errorf("action %d of %d candidates", r.Index, len(places))
		}
		row.Index = uint32(places[r.Index])
	}
	if o == nil {
		return row, nil
	}
	if l := r.List; l != nil {
		row.Slots, row.Positions, row.OneReward = o.slots, uint32(l.K()), l.Whole
	}
	row.State = string(o.state)
	if o.named != nil {
		row.names, row.values = joined.RewardColumns(o.named)
	}
	if o.state == joined.Paid || o.state == joined.Default {
		row.Reward = &o.counts
	}
	row.Active = row.Active || o.active || o.rewards > 0
	row.Rewards, row.Expired = o.rewards, o.expired
	if o.rewards > 0 {
		delay := float64(o.firstTime-r.Time) / 1e9
		if row.Delay = &delay; !o.byName {
			row.First, row.Sum, row.Last = &o.first, &o.sum, &o.last
		}
	}
	if o.cost == o.cost {
		row.Cost = &o.cost
	}
	if o.defaulted {
		row.Default = &o.y
	}
	return row, nil
}

func logReplayCommand() *cobra.Command {
	var events []string
	c := &cobra.Command{
		Use:   "replay [DIR]",
		Short: "Decide past events once more and compare with what was recorded",
		Long: `Folds the log up to the state that decided, draws the same member again and compares action,
propensity, member and the digest of the state with what is recorded. The server must not be running.
Exit code 1 when one differs.`,
		Example: `  troupe log replay --event 040202frnxfjrs0y001g00r5rdx6r4apmbsg
  troupe log replay troupe-data --event ID1 --event ID2`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(events) == 0 {
				return term.Misuse(errors.New("--event is missing: the id that decide answered"))
			}
			return source.Error(replayEvents(cmd.Context(), cmd.OutOrStdout(), dataDir(args), events))
		},
	}
	c.Flags().StringSliceVar(&events, "event", nil, "id of an event (may be repeated)")
	return c
}

// replayEvents opens the directory as the server would, but writes no snapshot on the way and closes
// no window.
func replayEvents(ctx context.Context, out io.Writer, dir string, events []string) (err error) {
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		return fmt.Errorf("%s: %w", dir, eventlog.ErrNoLog)
	}
	s, err := serve.Open(ctx, serve.Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1, ExpireEvery: -1,
		KeepLogVersion: true})
	if err != nil {
		return source.OpenError(dir, err)
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	differ := 0
	for _, id := range events {
		r, err := s.Replay(ctx, id)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		r.Recorded.Full = nil // the candidates, in bytes: nothing for the eye
		if err := enc.Encode(r); err != nil {
			return err
		}
		if !r.Equal {
			differ++
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d events were not decided as recorded", differ, len(events))
	}
	return nil
}
