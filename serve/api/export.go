package api

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"troupe/eventlog"
	"troupe/internal/rows"
	"troupe/serve"
)

// logRow is one record of the log, as a line of JSON or a row of Parquet. Which fields a kind of
// record has is in their comments: d decision, a activate, r reward, e expire, c control, l loss.
type logRow struct {
	Seq        uint64    `json:"seq" parquet:"seq" doc:"log entry"`
	Kind       string    `json:"kind" parquet:"kind,dict" enum:"decision,activate,reward,expire,control,loss"`
	Event      string    `json:"event,omitempty" parquet:"event,optional" doc:"the decision that it is or concerns, epoch/batch/index: joins rewards with decisions"`
	EventID    string    `json:"event_id,omitempty" parquet:"event_id,optional" doc:"of a decision: the id that its caller got"`
	Time       time.Time `json:"time,omitzero" parquet:"time,timestamp(nanosecond)" doc:"by the server's clock"`
	Key        string    `json:"key,omitempty" parquet:"key,optional,dict" doc:"name of the API key"`
	Mode       string    `json:"mode,omitempty" parquet:"mode,optional,dict" doc:"of a decision"`
	Action     string    `json:"action,omitempty" parquet:"action,optional,dict" doc:"of a decision: what was played"`
	Index      *uint32   `json:"index,omitempty" parquet:"index,optional" doc:"of a decision: its place among the available candidates"`
	Offered    *uint32   `json:"offered,omitempty" parquet:"offered,optional" doc:"of a decision: the number of available candidates"`
	Num        *uint64   `json:"num,omitempty" parquet:"num,optional" doc:"of a decision: its propensity is num/den"`
	Den        *uint64   `json:"den,omitempty" parquet:"den,optional"`
	BasisSeq   *uint64   `json:"basis_seq,omitempty" parquet:"basis_seq,optional" doc:"of a decision: the state that decided"`
	X          []float64 `json:"x,omitempty" parquet:"x,list" doc:"of a decision: features of the action"`
	Deferred   *bool     `json:"deferred,omitempty" parquet:"deferred,optional" doc:"of a decision: it counts only after activate or a reward"`
	Deadline   time.Time `json:"deadline,omitzero" parquet:"deadline,optional,timestamp(nanosecond)" doc:"of a decision: end of its window"`
	WouldPlay  string    `json:"would_action,omitempty" parquet:"would_action,optional,dict" doc:"of a decision that played a baseline: the policy's choice"`
	WouldNum   *uint64   `json:"would_num,omitempty" parquet:"would_num,optional" doc:"and its propensity, over den"`
	Slot       string    `json:"slot,omitempty" parquet:"slot,optional,dict" doc:"of a decision: the place that it is for, when one call chose for several"`
	Value      *float64  `json:"value,omitempty" parquet:"value,optional" doc:"of a reward, or of expire: the default reward, if any"`
	Count      *uint32   `json:"count,omitempty" parquet:"count,optional" doc:"of expire: it closes the windows of the model's events index, index+1, …, so many places of the batch"`
	Act        string    `json:"act,omitempty" parquet:"act,optional,dict" doc:"of control: create, import, configure, pause, resume, clone, rollback, delete"`
	First      *uint64   `json:"first,omitempty" parquet:"first,optional" doc:"of loss: the first lost entry"`
	Last       *uint64   `json:"last,omitempty" parquet:"last,optional" doc:"of loss: the last lost entry"`
	LossReason string    `json:"reason,omitempty" parquet:"reason,optional"`
}

func rowOf(r serve.LogRecord) logRow {
	at := func(ns int64) time.Time {
		if ns == 0 {
			return time.Time{}
		}
		return time.Unix(0, ns).UTC()
	}
	row := logRow{Seq: r.Seq, Kind: r.Record.Kind().String(), EventID: r.EventID}
	if r.Event != (eventlog.Event{}) {
		row.Event = fmt.Sprintf("%v/%d/%d", r.Event.Epoch, r.Event.Batch, r.Event.Index)
	}
	switch x := r.Record.(type) {
	case *eventlog.Decision:
		row.Time, row.Deadline, row.Key, row.Mode, row.Action = at(x.Time), at(x.Deadline), x.Caller, x.Mode.String(), x.Action
		row.Index, row.Offered, row.Num, row.Den, row.BasisSeq = &x.Index, &x.Offered, &x.Num, &x.Den, &x.BasisSeq
		row.X, row.Deferred, row.Slot = x.X, &x.Deferred, x.Slot
		if x.WouldAction != "" {
			row.WouldPlay, row.WouldNum = x.WouldAction, &x.WouldNum
		}
	case *eventlog.Activate:
		row.Time = at(x.Time)
	case *eventlog.Reward:
		row.Time, row.Key, row.Value = at(x.Time), x.Source, &x.Y
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

// maxExports bounds the exports at once: each reads the log, and keeps rows in memory for Parquet, while
// decisions wait for the same disk.
const maxExports = 4

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
	PageSize int    `query:"page_size" minimum:"1" maximum:"10000" default:"1000" doc:"at most so many log entries"`
	Accept   string `header:"Accept" doc:"application/x-ndjson (default) or application/vnd.apache.parquet"`
}

func (a *API) exportLog(ctx context.Context, in *logIn) (*huma.StreamResponse, error) {
	if err := a.allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	format, err := logFormat(in.Accept)
	if err != nil {
		return nil, err
	}
	n := uint64(in.PageSize)
	if in.To != 0 {
		first := max(in.From, 1)
		if in.To < first {
			return nil, &fieldError{Field: "query.to", Want: fmt.Sprintf("is before from, which is %d", first)}
		}
		n = min(n, in.To-first+1)
	}
	page, err := a.svc.Log(ctx, in.Model, in.From, int(n))
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		select {
		case a.exports <- struct{}{}:
			defer func() { <-a.exports }()
		default:
			a.fail(w, r, problem("too_busy", "", fmt.Sprintf("%d exports are under way", maxExports)).after(time.Second))
			return
		}
		a.writeLog(w, r, page, format, in.To)
	}}, nil
}

// describeLog completes the document of exportLog, whose answer huma does not know.
func (a *API) describeLog() {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[logRow](), true, "")
	answer := a.huma.OpenAPI().Paths["/v1/models/{model}/log"].Get.Responses["200"]
	answer.Description = "the records, one a line"
	answer.Content = map[string]*huma.MediaType{typeNDJSON: {Schema: schema}, typeParquet: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
	answer.Headers = map[string]*huma.Param{
		"Log-Next":    {Description: "the entry to go on with", Schema: &huma.Schema{Type: "integer"}},
		"Log-Applied": {Description: "the end of the log, when the answer began", Schema: &huma.Schema{Type: "integer"}},
		"Link":        {Description: `the next page, rel="next", while there is one`, Schema: &huma.Schema{Type: "string"}},
	}
}

// writeLog writes a page. When the log cannot be read to the page's end it cuts the connection, so that the
// client sees that the page is not whole.
func (a *API) writeLog(w http.ResponseWriter, r *http.Request, page serve.LogPage, format string, to uint64) {
	h := w.Header()
	h.Set("Content-Type", format)
	h.Set("Cache-Control", "no-store")
	h.Set("Log-Next", strconv.FormatUint(page.Next, 10))
	h.Set("Log-Applied", strconv.FormatUint(page.Applied, 10))
	if page.Next <= page.Applied && (to == 0 || page.Next <= to) {
		q := r.URL.Query()
		q.Set("from", strconv.FormatUint(page.Next, 10))
		h.Set("Link", "<"+strings.Replace(r.URL.EscapedPath(), "/:", ":", 1)+"?"+q.Encode()+`>; rel="next"`)
	}
	out := rows.JSON[logRow](w)
	if format == typeParquet {
		out = rows.Parquet[logRow](w, 50_000)
	}
	for record, err := range page.Records {
		if err == nil {
			err = out.Write(rowOf(record))
		}
		if begun, ok := w.(*response); err != nil && ok && begun.status == 0 {
			for _, name := range []string{"Content-Type", "Log-Next", "Log-Applied", "Link"} {
				h.Del(name)
			}
			a.fail(w, r, problemOf(err))
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if out.Close() != nil {
		panic(http.ErrAbortHandler)
	}
}
