package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"troupe/eventlog"
	"troupe/serve"
)

// logDir is where the event log of a data directory is: in its directory log. The log's own
// directory is taken too.
func logDir(dir string) string {
	if info, err := os.Stat(filepath.Join(dir, "log")); err == nil && info.IsDir() {
		return filepath.Join(dir, "log")
	}
	return dir
}

// exported is one row of an export: a decision with what became of it.
type exported struct {
	Event       string    `json:"event" parquet:"event"` // epoch/batch/index
	Seq         uint64    `json:"seq" parquet:"seq"`
	Time        time.Time `json:"time" parquet:"time,timestamp(nanosecond)"`
	Model       string    `json:"model" parquet:"model,dict"`
	Incarnation string    `json:"incarnation" parquet:"incarnation,dict"`
	Mode        string    `json:"mode" parquet:"mode,dict"`
	Action      string    `json:"action" parquet:"action,dict"`
	Index       uint32    `json:"index" parquet:"index"`
	Offered     uint32    `json:"offered" parquet:"offered"`
	Num         uint64    `json:"num" parquet:"num"`
	Den         uint64    `json:"den" parquet:"den"`
	Propensity  float64   `json:"propensity" parquet:"propensity"`
	BasisSeq    uint64    `json:"basis_seq" parquet:"basis_seq"`
	X           []float64 `json:"x" parquet:"x"`
	Active      bool      `json:"active" parquet:"active"`
	// Rewards counts the reward records of the event, whether or not they counted for the model.
	Rewards uint32   `json:"rewards" parquet:"rewards"`
	First   *float64 `json:"reward_first" parquet:"reward_first,optional"`
	Sum     *float64 `json:"reward_sum" parquet:"reward_sum,optional"`
	Last    *float64 `json:"reward_last" parquet:"reward_last,optional"`
	// Delay is from the decision to the first reward.
	Delay *float64 `json:"delay_seconds" parquet:"delay_seconds,optional"`
	// Expired: the window was closed. Default is the reward that was given then, if any.
	Expired bool     `json:"expired" parquet:"expired"`
	Default *float64 `json:"default" parquet:"default,optional"`
}

// outcome is what the log says of an event after its decision.
type outcome struct {
	rewards          uint32
	first, sum, last float64
	firstTime        int64
	active, expired  bool
	defaulted        bool
	y                float64
}

func logExportCommand() *cobra.Command {
	var format, out, model string
	c := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write decisions joined with their rewards as JSONL or Parquet",
		Long: `Writes one row for each decision: model, action, exact propensity, features, and what became of it
(first, sum and last reward, delay, end of the window). The files are read while no server uses them,
nothing is changed. On a damaged log nothing is written and the exit code is 1: see troupe log verify.`,
		Example: `  troupe log export --format parquet --out decisions.parquet
  troupe log export troupe-data --model news | head`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if format != "jsonl" && format != "parquet" {
				return misuse(fmt.Errorf("--format %s: expected jsonl or parquet", format))
			}
			if format == "parquet" && out == "" {
				return misuse(errors.New("--format parquet needs --out FILE"))
			}
			if out == "" {
				return logError(exportLog(cmd.OutOrStdout(), logDir(dataDir(args)), format, model))
			}
			// Nothing appears under the name before it is whole.
			w, err := os.CreateTemp(filepath.Dir(out), ".troupe-export-*")
			if err != nil {
				return err
			}
			defer os.Remove(w.Name())
			if err := exportLog(w, logDir(dataDir(args)), format, model); err != nil {
				w.Close()
				return logError(err)
			}
			if err := errors.Join(w.Chmod(0o644), w.Sync(), w.Close()); err != nil {
				return err
			}
			return os.Rename(w.Name(), out)
		},
	}
	c.Flags().StringVar(&format, "format", "jsonl", "jsonl or parquet")
	c.Flags().StringVarP(&out, "out", "o", "", "file; default stdout")
	c.Flags().StringVar(&model, "model", "", "decisions of this model only")
	return c
}

// exportLog reads the log twice: what became of the events, then the decisions. Memory is about 100
// bytes for each event with an outcome.
func exportLog(w io.Writer, dir, format, model string) error {
	outcomes := map[eventlog.Event]*outcome{}
	names := map[eventlog.ID]string{}
	of := func(e eventlog.Event) *outcome {
		if outcomes[e] == nil {
			outcomes[e] = &outcome{}
		}
		return outcomes[e]
	}
	report, err := eventlog.Scan(dir, func(d eventlog.Delivery) error {
		for _, r := range d.Events() {
			switch r := r.(type) {
			case *eventlog.Control:
				if r.Name != "" {
					names[r.Model] = r.Name
				} else if names[r.Model] == "" {
					names[r.Model] = names[r.From]
				}
			case *eventlog.Activate:
				of(r.Event).active = true
			case *eventlog.Reward:
				o := of(r.Event)
				if o.rewards++; o.rewards == 1 {
					o.first, o.firstTime = r.Y, r.Time
				}
				o.sum += r.Y
				o.last = r.Y
			case *eventlog.Expire:
				for i := range r.Count {
					e := r.Event
					e.Index += i
					o := of(e)
					o.expired, o.defaulted, o.y = true, r.Default && o.rewards == 0, r.Y
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !report.OK() {
		return &eventlog.DamagedError{Report: report}
	}
	rows, flush := rowWriter(w, format)
	_, err = eventlog.Scan(dir, func(d eventlog.Delivery) error {
		for i, r := range d.Events() {
			r, ok := r.(*eventlog.Decision)
			if !ok || model != "" && names[r.Model] != model {
				continue
			}
			key := d.Key(i)
			row := exported{
				Event: fmt.Sprintf("%v/%d/%d", key.Epoch, key.Batch, key.Index), Seq: d.Seq, Time: time.Unix(0, r.Time).UTC(),
				Model: names[r.Model], Incarnation: r.Model.String(), Mode: r.Mode.String(), Action: r.Action, Index: r.Index,
				Offered: r.Offered, Num: r.Num, Den: r.Den, Propensity: float64(r.Num) / float64(r.Den), BasisSeq: r.BasisSeq,
				X: slices.Clone(r.X), Active: !r.Deferred,
			}
			if o := outcomes[key]; o != nil {
				row.Active = row.Active || o.active || o.rewards > 0
				row.Rewards, row.Expired = o.rewards, o.expired
				if o.rewards > 0 {
					delay := float64(o.firstTime-r.Time) / 1e9
					row.First, row.Sum, row.Last, row.Delay = &o.first, &o.sum, &o.last, &delay
				}
				if o.defaulted {
					row.Default = &o.y
				}
			}
			if err := rows(row); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}

// rowWriter returns functions that write a row and end the file.
func rowWriter(w io.Writer, format string) (row func(exported) error, flush func() error) {
	if format == "parquet" {
		p := parquet.NewGenericWriter[exported](w, parquet.Compression(&parquet.Zstd))
		buf := make([]exported, 0, 512)
		write := func() error {
			_, err := p.Write(buf)
			buf = buf[:0]
			return err
		}
		return func(r exported) error {
				if buf = append(buf, r); len(buf) < cap(buf) {
					return nil
				}
				return write()
			}, func() error {
				if err := write(); err != nil {
					return err
				}
				return p.Close()
			}
	}
	b := bufio.NewWriterSize(w, 1<<16)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	return func(r exported) error { return e.Encode(r) }, b.Flush
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
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(events) == 0 {
				return misuse(errors.New("--event is missing: the id that decide answered"))
			}
			return logError(replayEvents(cmd.Context(), cmd.OutOrStdout(), dataDir(args), events))
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
	s, err := serve.Open(ctx, serve.Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1, ExpireEvery: -1})
	if err != nil {
		return openError(dir, err)
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
