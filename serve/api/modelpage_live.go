package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"troupe/serve"
)

//go:embed page/live.js
var liveScript string

// livePages tell browsers that the page of a model would show something else.
type livePages struct {
	svc      serve.ModelService
	opts     *Options
	faults   *faults
	places   chan struct{}   // semaphore
	shutdown <-chan struct{} // closed when the server stops
}

func (a *livePages) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /models/{model}/live", a.live)
	mux.HandleFunc("GET /live.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		w.Write([]byte(liveScript))
	})
}

// Live streams: at most maxLive at a time, each for as long as a request may take; the browser comes back by itself. A
// model is looked at once in liveEvery.
const (
	maxLive   = 64
	liveEvery = time.Second
)

// live sends an event "change" whenever the page of the model would show something else.
func (a *livePages) live(w http.ResponseWriter, r *http.Request) {
	name, ctx := r.PathValue("model"), r.Context()
	if err := allow(ctx, Read, name); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	m, err := a.svc.GetModel(ctx, name)
	if err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default:
		w.WriteHeader(http.StatusNoContent) // the page does not come back, and stays as it is
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	ctx, cancel := context.WithTimeout(ctx, a.opts.Timeout*9/10) // a request that ends late is no fault
	defer cancel()
	last := r.Header.Get("Last-Event-ID")
	fmt.Fprintf(w, "retry: %d\n\n", liveEvery.Milliseconds())
	tick := a.opts.Clock.Ticker(liveEvery)
	defer tick.Stop()
	for {
		if now := stampOf(&m); now != last {
			if last == "" { // the page is as new as this
				fmt.Fprintf(w, "id: %s\nevent: begin\ndata: {}\n\n", now)
			} else {
				fmt.Fprintf(w, "id: %s\nevent: change\ndata: {\"decisions\": %d, \"rewards\": %d}\n\n", now,
					m.Counts.Decisions, m.Counts.Rewards)
			}
			last = now
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-a.shutdown:
			return
		case <-tick.C:
		}
		if m, err = a.svc.GetModel(ctx, name); err != nil {
			return
		}
	}
}

// stampOf names what the page of a model depends on.
func stampOf(m *serve.Model) string {
	h := fnv.New64a()
	json.NewEncoder(h).Encode([]any{m.Incarnation, m.ConfigVersion, m.Paused, m.Failed, m.Changed, m.Counts, m.Notes,
		m.Warnings})
	return fmt.Sprintf("%016x", h.Sum64())
}
