package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"troupe/serve"
)

// apiEdge is the Edge of an API.
type apiEdge struct {
	opts    *Options
	models  *modelCalls
	events  serve.EventService
	metrics *metrics
	faults  *faults
	exports chan struct{}
}

func (e apiEdge) Allow(ctx context.Context, s Scope, model string) error {
	return allow(ctx, s, model)
}

func (e apiEdge) AllowEvent(ctx context.Context, s Scope, eventID string) error {
	return allowEvent(ctx, e.events, s, eventID)
}

func (e apiEdge) AllowsModel(ctx context.Context, s Scope) func(model string) error {
	return allowsModel(ctx, s)
}

func (e apiEdge) Caller(ctx context.Context) string { return caller(ctx) }

func (e apiEdge) Body(w http.ResponseWriter, r *http.Request, into any) ([]byte, error) {
	raw, err := readBody(w, r, e.opts.MaxBody)
	if err == nil {
		err = decodeJSON(raw, into)
	}
	return raw, err
}

func (e apiEdge) Fail(w http.ResponseWriter, r *http.Request, err error) {
	e.faults.fail(w, r, e.faults.problem(r.Context(), err))
}

func (e apiEdge) Edit(ctx context.Context, model string, change func(*serve.ModelConfig) error) (serve.Model, error) {
	return e.models.edit(ctx, model, 0, change)
}

func (e apiEdge) Rewarded(status serve.RewardStatus, err error) { e.metrics.reward(status, err) }

func (e apiEdge) Export(ctx context.Context) (done func(), err error) {
	select {
	case e.exports <- struct{}{}:
		return func() { <-e.exports }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e apiEdge) MaxActions() int { return e.opts.MaxActions }

func (e apiEdge) Now() time.Time { return e.opts.Clock.Now() }

func (e apiEdge) Logger() *slog.Logger { return e.opts.Logger }

// mount adds the routes of an adapter.
func (e apiEdge) mount(x Adapter, svc serve.Service, mux *http.ServeMux, d *document) {
	tag, _ := x.Tag()
	for _, r := range x.Routes(e, svc) {
		for _, pattern := range r.Patterns {
			mux.HandleFunc(r.Method+" "+pattern, r.Serve)
		}
		if doc := r.Doc; doc != nil {
			d.describe(op{id: doc.ID, method: r.Method, path: doc.Path, scope: doc.Scope, status: doc.Status,
				body: doc.Body, summary: doc.Summary, doc: doc.Text},
				description{tag: tag, answer: doc.Answer, fault: doc.Fault, example: doc.Example, parameters: doc.Parameters})
		}
	}
}
