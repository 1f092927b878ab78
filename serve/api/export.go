package api

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"troupe/eventlog"
	"troupe/internal/rows"
	"troupe/serve"
	"troupe/serve/joined"
)

// logRow is one record of the log, as a line of JSON or a row of Parquet. Which fields a kind of
// record has is in their comments: d decision, a activate, r reward, e expire, c control, l loss.
type logRow struct {
	Seq        uint64             `json:"seq" parquet:"seq" doc:"log entry"`
	Kind       string             `json:"kind" parquet:"kind,dict" enum:"decision,activate,reward,expire,control,loss" doc:"kind of the record"`
	Event      string             `json:"event,omitempty" parquet:"event,optional" doc:"the decision that it is or concerns, epoch/batch/index: joins rewards with decisions"`
	EventID    string             `json:"event_id,omitempty" parquet:"event_id,optional" doc:"of a decision: the id that its caller got"`
	Time       time.Time          `json:"time,omitzero" parquet:"time,timestamp(nanosecond)" doc:"by the server's clock"`
	Key        string             `json:"key,omitempty" parquet:"key,optional,dict" doc:"name of the API key"`
	Mode       string             `json:"mode,omitempty" parquet:"mode,optional,dict" doc:"of a decision"`
	Action     string             `json:"action,omitempty" parquet:"action,optional,dict" doc:"of a decision: what was played"`
	Index      *uint32            `json:"index,omitempty" parquet:"index,optional" doc:"of a decision: its place among the available candidates"`
	Offered    *uint32            `json:"offered,omitempty" parquet:"offered,optional" doc:"of a decision: the number of available candidates"`
	Num        *uint64            `json:"num,omitempty" parquet:"num,optional" doc:"of a decision: its propensity is num/den"`
	Den        *uint64            `json:"den,omitempty" parquet:"den,optional" doc:"of a decision: denominator of the propensity"`
	BasisSeq   *uint64            `json:"basis_seq,omitempty" parquet:"basis_seq,optional" doc:"of a decision: the state that decided"`
	X          []float64          `json:"x,omitempty" parquet:"x,list" doc:"of a decision: features of the action"`
	Law        []float64          `json:"law,omitempty" parquet:"law,list,optional" doc:"of a decision: the probability of each available candidate, where the log has it"`
	Costs      []float64          `json:"costs,omitempty" parquet:"costs,list,optional" doc:"of a decision: what each available candidate costs, in units of money, where it was stated"`
	Price      *float64           `json:"price,omitempty" parquet:"price,optional" doc:"of a decision under a budget: what a unit of money cost, in units of reward"`
	Stopped    *bool              `json:"stopped,omitempty" parquet:"stopped,optional" doc:"of a decision under a budget: the hard stop took actions away; law is that of what was left"`
	Cost       *float64           `json:"cost,omitempty" parquet:"cost,optional" doc:"of a reward: what the decision cost, where the call says it"`
	Deferred   *bool              `json:"deferred,omitempty" parquet:"deferred,optional" doc:"of a decision: it counts only after activate or a reward"`
	Deadline   time.Time          `json:"deadline,omitzero" parquet:"deadline,optional,timestamp(nanosecond)" doc:"of a decision: end of its window"`
	Unit       string             `json:"unit,omitempty" parquet:"unit,optional" doc:"of a decision: keyed hash of the value at the model's unit; decisions with one of them are of one unit"`
	Group      string             `json:"group,omitempty" parquet:"group,optional,dict" enum:"model,control" doc:"of a decision of a model with a control group: whether the model chose, or the control group; num, den and law are those of both together"`
	Control    *float64           `json:"control,omitempty" parquet:"control,optional" doc:"of such a decision: the share of the control group"`
	Plays      string             `json:"control_plays,omitempty" parquet:"control_plays,optional,dict" enum:"uniform,first" doc:"of such a decision: what the control group plays"`
	WouldPlay  string             `json:"would_action,omitempty" parquet:"would_action,optional,dict" doc:"of a decision that played a baseline: the policy's choice"`
	WouldNum   *uint64            `json:"would_num,omitempty" parquet:"would_num,optional" doc:"and its propensity, over den"`
	Value      *float64           `json:"value,omitempty" parquet:"value,optional" doc:"of a reward, or of expire: the default reward, if any"`
	Reward     map[string]float64 `json:"reward,omitempty" parquet:"-" doc:"of a reward of a model with rewards: its values by name, in place of value"`
	Named      []namedColumn      `json:"-" parquet:"reward,list,optional"`
	Count      *uint32            `json:"count,omitempty" parquet:"count,optional" doc:"of expire: it closes the windows of the model's events index, index+1, …: the number of places of the batch"`
	Act        string             `json:"act,omitempty" parquet:"act,optional,dict" doc:"of control: create, import, configure, pause, resume, clone, rollback, delete"`
	First      *uint64            `json:"first,omitempty" parquet:"first,optional" doc:"of loss: the first lost entry"`
	Last       *uint64            `json:"last,omitempty" parquet:"last,optional" doc:"of loss: the last lost entry"`
	LossReason string             `json:"reason,omitempty" parquet:"reason,optional" doc:"of loss: why the entries are lost"`
	Ignored    *bool              `json:"ignored,omitempty" parquet:"ignored,optional" doc:"with ignored=true: it has no effect, because another node had decided for its key first, or its batch was stored twice or too late"`
}

// namedColumn is a reward with a name in Parquet.
type namedColumn struct {
	Name  string  `parquet:"name,dict"`
	Value float64 `parquet:"value"`
}

func rowOf(r serve.LogRecord) logRow {
	at := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns).UTC()
	}
	row := logRow{Seq: r.Seq, Kind: r.Record.Kind().String(), EventID: r.EventID}
	if r.Ignored {
		row.Ignored = &r.Ignored
	}
	if r.Event != (eventlog.Event{}) {
		row.Event = fmt.Sprintf("%v/%d/%d", r.Event.Epoch, r.Event.Batch, r.Event.Index)
	}
	switch x := r.Record.(type) {
	case *eventlog.Decision:
		row.Time, row.Deadline, row.Key, row.Mode, row.Action = at(x.Time), at(x.Deadline), x.Caller, joined.Mode(x),
			x.Action
		row.Index, row.Offered, row.Num, row.Den, row.BasisSeq = &x.Index, &x.Offered, &x.Num, &x.Den, &x.BasisSeq
		row.X, row.Deferred, row.Law = x.X, &x.Deferred, joined.Law(x)
		row.Costs = x.Costs
		row.Price, row.Stopped = joined.Budget(x)
		row.Group, row.Control, row.Plays = joined.GroupColumns(x)
		if x.Unit != 0 {
			row.Unit = x.Unit.String()
		}
		if x.WouldAction != "" {
			row.WouldPlay, row.WouldNum = x.WouldAction, &x.WouldNum
		}
	case *eventlog.Activate:
		row.Time = at(x.Time)
	case *eventlog.Reward:
		row.Time, row.Key, row.Value = at(x.Time), x.Source, &x.Y
		if x.OnlyCost {
			row.Value = nil
		}
		if len(r.Reward) > 0 {
			row.Value, row.Reward = nil, r.Reward
			for _, name := range slices.Sorted(maps.Keys(r.Reward)) {
				row.Named = append(row.Named, namedColumn{name, r.Reward[name]})
			}
		}
		if x.Costed {
			row.Cost = &x.Cost
		}
	case *eventlog.Expire:
		row.Time, row.Count = at(x.Time), &x.Count
		if x.Default {
			row.Value = &x.Y
		}
	case *eventlog.Control:
		row.Time, row.Key, row.Act = at(x.Time), x.Caller, x.Act.String()
	case *eventlog.Loss:
		row.Time, row.First, row.Last, row.LossReason = at(x.Time), &x.First, &x.Last, x.Reason
	}
	return row
}

// joinedRow is a decision with what became of it: columns of troupe log export.
type joinedRow struct {
	Event       string                `json:"event" parquet:"event" doc:"key in the log, epoch/batch/index"`
	EventID     string                `json:"event_id" parquet:"event_id" doc:"the id that its caller got"`
	Seq         uint64                `json:"seq" parquet:"seq" doc:"log entry"`
	Time        time.Time             `json:"time" parquet:"time,timestamp(nanosecond)" doc:"by the server's clock"`
	Model       string                `json:"model" parquet:"model,dict" doc:"name of the model"`
	Mode        string                `json:"mode" parquet:"mode,dict" doc:"how the action was chosen"`
	Action      string                `json:"action" parquet:"action,dict" doc:"what was played"`
	Row         uint32                `json:"row" parquet:"row" doc:"its place among the available candidates"`
	Offered     uint32                `json:"offered" parquet:"offered" doc:"how many were available"`
	Num         uint64                `json:"num" parquet:"num" doc:"the propensity is num/den"`
	Den         uint64                `json:"den" parquet:"den" doc:"denominator of the propensity"`
	Propensity  float64               `json:"propensity" parquet:"propensity" doc:"the quotient, rounded"`
	BasisSeq    uint64                `json:"basis_seq" parquet:"basis_seq" doc:"the state that decided"`
	Law         []float64             `json:"law" parquet:"law,list,optional" doc:"probabilities of the available candidates; null: not recorded"`
	Candidates  []joined.Dense        `json:"candidates" parquet:"candidates,list,optional" doc:"their vectors; null: not kept, or hashed"`
	SparseRow   []int32               `json:"sparse_row" parquet:"sparse_row,list,optional" doc:"hashed features in coordinate form: of the context (row -1) and of each candidate"`
	SparseHash  []joined.Hash         `json:"sparse_hash" parquet:"sparse_hash,list,optional" doc:"hash of each feature in sparse_row"`
	SparseValue []float64             `json:"sparse_value" parquet:"sparse_value,list,optional" doc:"number of each feature in sparse_row"`
	Active      bool                  `json:"active" parquet:"active" doc:"not deferred, or activated, or rewarded"`
	Reward      *float64              `json:"reward" parquet:"reward,optional" doc:"what counts by the model's rule"`
	Costs       []float64             `json:"costs,omitempty" parquet:"costs,list,optional" doc:"what each available candidate costs, in units of money; absent: not stated"`
	Cost        *float64              `json:"cost,omitempty" parquet:"cost,optional" doc:"what the decision cost: as a call said it, otherwise as it was stated"`
	Price       *float64              `json:"price,omitempty" parquet:"price,optional" doc:"under a budget: what a unit of money cost, in units of reward"`
	Stopped     *bool                 `json:"stopped,omitempty" parquet:"stopped,optional" doc:"under a budget: the hard stop took actions away; law is that of what was left"`
	Unit        string                `json:"unit,omitempty" parquet:"unit,optional" doc:"keyed hash of the value at the model's unit; absent: it has none"`
	Group       string                `json:"group,omitempty" parquet:"group,optional,dict" enum:"model,control" doc:"of a model with a control group: whether the model chose, or the control group; num, den and law are those of both together"`
	Control     *float64              `json:"control,omitempty" parquet:"control,optional" doc:"share of the control group"`
	Plays       string                `json:"control_plays,omitempty" parquet:"control_plays,optional,dict" enum:"uniform,first" doc:"what the control group plays"`
	Numbers     map[string]float64    `json:"numbers,omitempty" parquet:"-" doc:"numbers that were played, by name; then offered counts the cells of all actions, and row is that of the cell"`
	Played      []joined.Number       `json:"-" parquet:"numbers,list,optional"`
	Density     *float64              `json:"density,omitempty" parquet:"density,optional" doc:"density at the numbers, where one of them has no steps"`
	Cell        map[string][2]float64 `json:"cell,omitempty" parquet:"-" doc:"bounds of the cell of each number without steps; it is uniform there"`
	Slots       []joined.SlotColumn   `json:"slots,omitempty" parquet:"slots,list,optional" doc:"of a list, its positions; the columns of one action are then those of its first entry, and reward is the sum of the positions or the one of the list"`
	Positions   uint32                `json:"positions,omitempty" parquet:"positions,optional" doc:"of a list: how many it has"`
	OneReward   bool                  `json:"one_reward,omitempty" parquet:"one_reward,optional" doc:"of a list: it has one reward"`
	State       string                `json:"reward_state" parquet:"reward_state,dict" enum:"paid,default,none,pending,inactive,early" doc:"early: with ended=true, a first reward that is final before its window is over"`

	// columns reward.NAME, of a model with rewards
	names  []string
	values []*float64
}

// More implements rows.More.
func (r joinedRow) More() (names []string, values []*float64) { return r.names, r.values }

// endedLine is the last line of an answer with ended=true.
type endedLine struct {
	Log *joined.Ended `json:"log"`
}

// early is the state of a decision that counts with its first reward at the end of the log.
const early = "early"

// endedRowOf is the row of a decision as it is if the log ends here.
func endedRowOf(d serve.JoinedDecision) (joinedRow, error) {
	became, open := d.Became(), d.State == joined.Pending
	state, decided := string(became), *d.Decided
	decided.State = became
	row, err := joinedRowOf(serve.JoinedDecision{Decided: &decided, EventID: d.EventID})
	if open && became == joined.Paid {
		state = early
	}
	row.State = state
	return row, err
}

func joinedRowOf(d serve.JoinedDecision) (joinedRow, error) {
	r := d.Record
	row := joinedRow{
		Event: fmt.Sprintf("%v/%d/%d", d.Key.Epoch, d.Key.Batch, d.Key.Index), EventID: d.EventID, Seq: d.Seq,
		Time:  time.Unix(0, r.Time).UTC(),
		Model: d.Name, Mode: joined.Mode(r), Action: r.Action, Row: r.Index, Offered: r.Offered, Num: r.Num,
		Den:        r.Den,
		Propensity: float64(r.Num) / float64(r.Den), BasisSeq: r.BasisSeq, Law: joined.Law(r),
		Active: d.State != joined.Inactive, State: string(d.State),
	}
	if l := r.List; l != nil {
		row.Slots, row.Positions, row.OneReward = joined.SlotColumns(d.Decided), uint32(l.K()), l.Whole
	}
	row.Costs = r.Costs
	row.Price, row.Stopped = joined.Budget(r)
	row.Group, row.Control, row.Plays = joined.GroupColumns(r)
	row.Numbers, row.Played, row.Density, row.Cell = joined.NumberColumns(r)
	if r.Unit != 0 {
		row.Unit = r.Unit.String()
	}
	if d.Cost == d.Cost {
		row.Cost = &d.Cost
	}
	dense, sparse, _, err := joined.Candidates(r.Full)
	row.Candidates, row.SparseRow, row.SparseHash, row.SparseValue = dense, sparse.Row, sparse.Hash, sparse.Value
	if d.State == joined.Paid || d.State == joined.Default {
		row.Reward = &d.Reward
	}
	row.names, row.values = joined.RewardColumns(d.Decided)
	return row, err
}

// maxExports bounds the exports at once: each reads the log, and keeps rows in memory for Parquet, while
// decisions wait for the same disk.
const maxExports = 4

// quietExport is how long an export may wait for the log, or for its client.
const quietExport = 10 * time.Minute

const (
	typeNDJSON  = "application/x-ndjson"
	typeParquet = "application/vnd.apache.parquet"
)

// logFormat reads Accept: the first type that is known.
func logFormat(accept string) (string, error) {
	if accept == "" {
		return typeNDJSON, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		switch t, _, _ := mime.ParseMediaType(part); t {
		case typeNDJSON, "application/*", "*/*":
			return typeNDJSON, nil
		case typeParquet:
			return typeParquet, nil
		}
	}
	return "", problem("not_acceptable", "header.Accept", "expected "+typeNDJSON+" or "+typeParquet)
}

type logIn struct {
	Model    string `path:"model" maxLength:"64" doc:"name of the model"`
	From     uint64 `query:"from" doc:"first log entry; default is the beginning"`
	To       uint64 `query:"to" doc:"last log entry; default is the end"`
	PageSize int    `query:"page_size" minimum:"1" maximum:"10000" default:"1000" doc:"largest number of log entries"`
	Ignored  bool   `query:"ignored" doc:"list records that have no effect, too, each with ignored: true"`
	Accept   string `header:"Accept" doc:"application/x-ndjson (default) or application/vnd.apache.parquet"`
}

// recordCalls read what is recorded of a model.
type recordCalls struct {
	svc     serve.RecordService
	exports chan struct{} // semaphore of those that read the whole log
	faults  *faults
}

// page checks what both exports ask for, and returns the format and how many entries.
func (a *recordCalls) page(ctx context.Context, in *logIn) (format string, entries int, err error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return "", 0, err
	}
	if format, err = logFormat(in.Accept); err != nil {
		return "", 0, err
	}
	n := uint64(in.PageSize)
	if in.To != 0 {
		first := max(in.From, 1)
		if in.To < first {
			return "", 0, &fieldError{Field: "query.to", Want: fmt.Sprintf("is before from, which is %d", first)}
		}
		n = min(n, in.To-first+1)
	}
	return format, int(n), nil
}

type decisionsIn struct {
	Model    string `path:"model" maxLength:"64" doc:"name of the model"`
	From     uint64 `query:"from" doc:"first log entry; default is the beginning, or where a log that was trimmed begins"`
	To       uint64 `query:"to" doc:"last log entry; default is the end"`
	PageSize int    `query:"page_size" minimum:"1" maximum:"100000000" default:"1000" doc:"largest number of log entries. A page is computed from the nearest snapshot on, so one large page is cheaper than many"`
	Ended    bool   `query:"ended" doc:"decisions are as they would be if the log ended here: by the rule first a reward is final when it comes (reward_state early), up to the first decision without one. A last line has the only key log, with what else a reader of estimates should know. What came before it was chosen by its rewards: it is right for what holds at every n, and for nothing else. Not with Parquet"`
	Accept   string `header:"Accept" doc:"application/x-ndjson (default) or application/vnd.apache.parquet"`
}

func (a *recordCalls) log(ctx context.Context, in *logIn) (*huma.StreamResponse, error) {
	format, n, err := a.page(ctx, in)
	if err != nil {
		return nil, err
	}
	page, err := a.svc.Log(ctx, in.Model, in.From, n)
	if err != nil {
		return nil, err
	}
	return stream(a, span{page.Next, page.Applied, in.To}, format, nil, func(each func(logRow) error) error {
		records := page.Records
		if in.Ignored {
			records = page.All
		}
		for record, err := range records {
			if err == nil {
				err = each(rowOf(record))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func (a *recordCalls) decisions(ctx context.Context, in *decisionsIn) (*huma.StreamResponse, error) {
	format, n, err := a.page(ctx, &logIn{Model: in.Model, From: in.From, To: in.To, PageSize: in.PageSize,
		Accept: in.Accept})
	if err != nil {
		return nil, err
	}
	if in.Ended && format == typeParquet {
		return nil, &fieldError{Field: "query.ended", Want: "is for " + typeNDJSON + " and not for Parquet"}
	}
	// A page takes as long as the log is: it ends when the client is gone, not with the time of one request.
	page, err := a.svc.Decisions(context.WithoutCancel(ctx), in.Model, in.From, n)
	if err != nil {
		return nil, err
	}
	at := span{page.Next, page.Applied, in.To}
	if in.Ended {
		return stream(a, at, format, nil, func(each func(any) error) error {
			for d, err := range page.Decisions {
				var row joinedRow
				if err == nil {
					row, err = endedRowOf(d)
				}
				if err == nil {
					err = each(row)
				}
				if err != nil {
					return err
				}
			}
			return each(endedLine{page.Ended()})
		}), nil
	}
	columns := make([]string, len(page.Rewards))
	for i, name := range page.Rewards {
		columns[i] = joined.ColumnOf(name)
	}
	return stream(a, at, format, columns, func(each func(joinedRow) error) error {
		for d, err := range page.Decisions {
			var row joinedRow
			if err == nil {
				row, err = joinedRowOf(d)
			}
			if err == nil {
				err = each(row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// span is where a page ends: the next entry, the end of the log, and what was asked for.
type span struct{ next, applied, to uint64 }

// stream answers with rows, whose type has the columns more beside its own in Parquet, while no more than maxExports are under way.
func stream[T any](a *recordCalls, at span, format string, more []string, each func(func(T) error) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(quietExport)) // before the first row
		n := 0
		all := each
		each := func(row func(T) error) error {
			return all(func(x T) error {
				if n++; n%256 == 1 {
					_ = control.SetWriteDeadline(time.Now().Add(quietExport))
				}
				return row(x)
			})
		}
		select {
		case a.exports <- struct{}{}:
			defer func() { <-a.exports }()
		default:
			a.faults.fail(w, r, problem("too_busy", "", fmt.Sprintf("%d exports are under way",
				maxExports)).After(time.Second))
			return
		}
		writeRows(a.faults, w, r, at, format, more, each)
	}}
}

// describeLog completes the document of the exports, whose answers huma does not know.
func describeLog(doc *huma.OpenAPI) {
	for path, row := range map[string]reflect.Type{"/v1/models/{model}/log": reflect.TypeFor[logRow](),
		"/v1/models/{model}/decisions": reflect.TypeFor[joinedRow]()} {
		schema := doc.Components.Schemas.Schema(row, true, "")
		if row == reflect.TypeFor[joinedRow]() {
			doc.Components.Schemas.SchemaFromRef(schema.Ref).AdditionalProperties = &huma.Schema{Type: huma.TypeNumber, Nullable: true,
				Description: "of a model with rewards a column reward.NAME for each: what counts of it, null where nothing does"}
		}
		answer := doc.Paths[path].Get.Responses["200"]
		answer.Description = "the rows, one a line"
		answer.Content = map[string]*huma.MediaType{typeNDJSON: {Schema: schema},
			typeParquet: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
		answer.Headers = map[string]*huma.Param{
			"Log-Next": {Description: "the entry to go on with; the end is where it is beyond Log-Applied",
				Schema: &huma.Schema{Type: "integer"}},
			"Log-Applied": {Description: "the end of the log, when the answer began",
				Schema: &huma.Schema{Type: "integer"}},
			"Link": {Description: `the next page, rel="next", while there is one`,
				Schema: &huma.Schema{Type: "string"}},
		}
	}
}

// writeRows writes a page. When the log cannot be read to the page's end it cuts the connection, so that the
// client sees that the page is not whole.
func writeRows[T any](f *faults, w http.ResponseWriter, r *http.Request, at span, format string,
	more []string, each func(func(T) error) error) {
	h := w.Header()
	h.Set("Content-Type", format)
	h.Set("Cache-Control", "no-store")
	h.Set("Log-Next", strconv.FormatUint(at.next, 10))
	h.Set("Log-Applied", strconv.FormatUint(at.applied, 10))
	if at.next <= at.applied && (at.to == 0 || at.next <= at.to) {
		q := r.URL.Query()
		q.Set("from", strconv.FormatUint(at.next, 10))
		h.Set("Link", "<"+strings.Replace(r.URL.EscapedPath(), "/:", ":", 1)+"?"+q.Encode()+`>; rel="next"`)
	}
	out := rows.JSON[T](w)
	if format == typeParquet {
		out = rows.Parquet[T](w, 50_000, more...)
	}
	if err := each(out.Write); err != nil {
		if begun, ok := w.(*response); ok && begun.status == 0 {
			for _, name := range []string{"Content-Type", "Log-Next", "Log-Applied", "Link"} {
				h.Del(name)
			}
			f.refuse(w, r, err)
			return
		}
		panic(http.ErrAbortHandler)
	}
	if out.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}
