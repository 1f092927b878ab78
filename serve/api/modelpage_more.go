package api

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/ope"
	"troupe/serve"
)

var (
	//go:embed page/live.js
	liveScript string
	//go:embed page/new.html
	newText string

	newTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("new").Parse(newText)) })
)

func (a *API) morePageRoutes() {
	a.mux.HandleFunc("GET /models/{model}/live", a.live)
	a.mux.HandleFunc("GET /models", a.newPage)
	a.mux.HandleFunc("POST /models", a.createPage)
	a.mux.HandleFunc("GET /live.js", func(w http.ResponseWriter, r *http.Request) {
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
func (a *API) live(w http.ResponseWriter, r *http.Request) {
	name, ctx := r.PathValue("model"), r.Context()
	if err := a.allow(ctx, Read, name); err != nil {
		a.fail(w, r, problemOf(err))
		return
	}
	m, err := a.svc.GetModel(ctx, name)
	if err != nil {
		a.fail(w, r, problemOf(err))
		return
	}
	select {
	case a.lives <- struct{}{}:
		defer func() { <-a.lives }()
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
		m.Warnings, m.Learning})
	return fmt.Sprintf("%016x", h.Sum64())
}

// newPage shows the form that makes a model.
func (a *API) newPage(w http.ResponseWriter, r *http.Request) {
	a.showNew(w, r, http.StatusOK, "", "", "")
}

func (a *API) showNew(w http.ResponseWriter, r *http.Request, status int, id, config, refused string) {
	ctx := r.Context()
	if err := a.allow(ctx, Read, ""); err != nil {
		a.fail(w, r, problemOf(err))
		return
	}
	v := struct {
		Style, ModelStyle            template.CSS
		Version, ID, Config, Refused string
		May                          bool
	}{template.CSS(styleSheet), template.CSS(modelStyle), a.opts.Version, id, config, refused,
		requestOf(ctx).holder.may(Admin)}
	var b bytes.Buffer
	if err := newTemplate().Execute(&b, v); err != nil {
		a.fail(w, r, problemOf(err))
		return
	}
	writeForm(w, status, b.Bytes())
}

// writeForm writes a page that has a form and no script.
func writeForm(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin") // the form's Origin header must not become null
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'self'; "+
			"frame-ancestors 'none'")
	w.WriteHeader(status)
	w.Write(page)
}

// createPage makes the model of the form and sends the browser to its page.
func (a *API) createPage(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := a.allow(ctx, Admin, ""); err != nil {
		a.fail(w, r, problemOf(err))
		return
	}
	if !a.readForm(w, r) {
		return
	}
	id, text := r.PostForm.Get("id"), r.PostForm.Get("config")
	err := a.createFrom(ctx, id, text)
	if err != nil {
		p := problemOf(err)
		a.explain(ctx, p, err)
		requestOf(ctx).problem = p.Code
		a.showNew(w, r, p.Status, id, text, inWords(p))
		return
	}
	http.Redirect(w, r, "/models/"+url.PathEscape(id), http.StatusSeeOther)
}

func (a *API) createFrom(ctx context.Context, id, text string) error {
	fields := map[string]json.RawMessage{}
	if strings.TrimSpace(text) != "" {
		if err := decodeJSON([]byte(text), &fields); err != nil {
			return err
		}
	}
	name, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if given, ok := fields["id"]; ok && !bytes.Equal(bytes.TrimSpace(given), name) {
		return &fieldError{Field: "id", Want: "is given twice, by the field above and in the JSON"}
	}
	fields["id"] = name
	whole, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	var c serve.ModelConfig
	if err := json.Unmarshal(whole, &c); err != nil {
		return serve.ConfigError(err)
	}
	if err := a.allow(ctx, Admin, id); err != nil {
		return err
	}
	_, err = a.svc.CreateModel(ctx, c, caller(ctx))
	return err
}

// search is what the form above the decisions asks for.
type search struct {
	Find, State string
	States      []string
	Text        string // what was found
	Rows        []decisionRow
}

// searchStates are the choices of the form; the first stands for all.
var searchStates = []string{"any state", "rewarded", "default", "no reward", "waiting", "not activated"}

// maxFound bounds the rows of a search.
const maxFound = 100

// searched looks for decisions among those that were read, and for an event with this id among all. It returns nil when
// nothing is asked.
func (a *API) searched(ctx context.Context, q url.Values, m *serve.Model, h *modelHistory) *search {
	s := &search{Find: strings.TrimSpace(q.Get("find")), State: q.Get("state"), States: searchStates}
	if !slices.Contains(searchStates, s.State) {
		s.State = searchStates[0]
	}
	if s.Find == "" && s.State == searchStates[0] {
		return s
	}
	found := 0
	var rows []*past
	for _, d := range slices.Backward(h.decisions) {
		if s.Find != "" && d.action != s.Find && !strings.Contains(d.action, s.Find) &&
			!strings.HasSuffix(d.id, strings.TrimPrefix(s.Find, "…")) {
			continue
		}
		if s.State != searchStates[0] && d.state() != s.State {
			continue
		}
		if found++; len(rows) < maxFound {
			rows = append(rows, d)
		}
	}
	s.Rows = rowsOf(rows)
	s.Text = fmt.Sprintf("%s of the %s decisions read", grouped(uint64(found)), grouped(uint64(len(h.decisions))))
	if found > maxFound {
		s.Text += fmt.Sprintf("; the newest %d are shown", maxFound)
	}
	s.Text += "."
	if found == 0 && s.Find != "" {
		if v, err := a.svc.Event(ctx, s.Find); err == nil && v.Model == m.Name {
			d := &past{
				id: v.EventID, action: v.Action.ID, num: v.Decision.Num, den: v.Decision.Den,
				offered: v.Decision.Offered, mode: v.Decision.Mode,
				context: v.Decision.Context, candidates: v.Decision.Candidates, time: v.Decision.Time,
				closed: v.Status == "closed", inactive: v.Status == "inactive", rewarded: v.Value != nil,
			}
			if v.Value != nil {
				d.y = *v.Value
			}
			s.Rows, s.Text = rowsOf([]*past{d}),
				"This event is older than the decisions read. Its reward is known while its window is open."
		}
	}
	return s
}

// state says how far a decision is, in a word or two.
func (d *past) state() string {
	switch {
	case d.fallback:
		return "default"
	case d.rewarded:
		return "rewarded"
	case d.closed:
		return "no reward"
	case d.inactive:
		return "not activated"
	}
	return "waiting"
}

// baselineText compares the model with the first candidate of each request, which is Personalizer's baseline.
func baselineText(es []estimates, outside int) (out []string) {
	last := &es[len(es)-1]
	if last.weighed < fewDecisions || outside > 0 {
		return nil
	}
	f := &last.first
	if !(last.firstWeight > 0.8 && last.firstWeight < 1.25) {
		return []string{fmt.Sprintf("What the first candidate of each request would have earned lies between %s and "+
			"%s; it was played too rarely for a number.", short(f.Low), short(f.High))}
	}
	verdict := "The intervals of the model and of this baseline overlap: the difference is not certain yet."
	switch {
	case last.played.Low > f.High:
		verdict = "The model is better than this baseline."
	case last.played.High < f.Low:
		verdict = "The model is worse than this baseline."
	}
	if d := &last.less; d.Low > 0 || d.High < 0 {
		word, lo, hi := "better", d.Low, d.High
		if d.High < 0 {
			word, lo, hi = "worse", -d.High, -d.Low
		}
		verdict = fmt.Sprintf("On the same decisions the model is %s than this baseline, by %s to %s (95 %% sure by "+
			"itself, at any time you look).", word, short(lo), short(hi))
	}
	return []string{fmt.Sprintf("The baseline, the first candidate of each request, would have earned %s by inverse "+
		"propensities, between %s and %s.", short(f.Mean), short(f.Low), short(f.High)), verdict}
}

// planText says after how many decisions a model that is better than the first candidate of each request by a tenth is
// known to be: by the laws, and by the mean reward as the base rate.
func planText(h *modelHistory, t *terms, last *estimates) []string {
	scale := t.max - t.min
	rate := (last.played.Mean - t.min) / scale
	if !(rate > 0.001 && rate < 0.999) || last.less.Low > 0 || last.less.High < 0 {
		return nil
	}
	var times [2]int64
	n, first := 0, 0
	o := ope.PlanOptions{Rate: 1 - rate, Rewards: ope.Pair{t.min, t.max}, Plain: true} // 1 − y: the baseline has more
	p, err := ope.NewPlanner(o)
	if err != nil {
		return nil
	}
	for _, d := range h.decisions {
		if !d.policy() || d.num == 0 {
			continue
		}
		if n++; n == 1 || d.time < times[0] {
			times[0] = d.time
		}
		times[1] = max(times[1], d.time)
		if d.index == 0 && d.num < d.den {
			pb := float64(d.num) / float64(d.den)
			p.AddWeighted([]float64{pb, 1 - pb}, []float64{1, 0}, 1/pb)
			first++
		}
	}
	if first < fewDecisions {
		return nil
	}
	x, err := p.Plan(scale * rate / 10)
	if err != nil || x.Decisions == 0 {
		return nil
	}
	text := fmt.Sprintf("If the model is better than this baseline by a tenth, that is known after about %s decisions "+
		"with 80 %% chance", grouped(round(x.Decisions)))
	if per := (times[1] - times[0]) / int64(max(n-1, 1)); per > 0 && x.Decisions < 1e9 {
		text += fmt.Sprintf(", %s at the rate of these", lasting(time.Duration(x.Decisions)*time.Duration(per)))
	}
	if x.Least != nil {
		text += fmt.Sprintf("; half as many would do with %.2g %% of uniform decisions more", 100**x.Share)
	}
	return []string{text + "."}
}

// lasting says a time in its largest unit.
func lasting(d time.Duration) string {
	if h := d.Hours(); h >= 48 {
		return fmt.Sprintf("%.2g days", h/24)
	} else if h >= 2 {
		return fmt.Sprintf("%.2g hours", h)
	}
	return fmt.Sprintf("%.2g minutes", d.Minutes())
}
