package api

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/ope"
	"troupe/serve"
)

var (
	//go:embed page/model.html
	modelText string

	modelTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("model").Parse(modelText)) })
)

// modelPages are the page of a model and what its forms ask for.
type modelPages struct {
	svc interface {
		serve.ModelService
		serve.RecordService
		serve.EventService
	}
	opts    *Options
	decides *decisionCalls
	coins   *coinCalls
	pays    *controlCalls
	faults  *faults
	exports chan struct{} // semaphore of those that read the whole log
	turns   turns
}

// turns are those of answers that keep a processor busy for a tenth of a second: half of the processors work on them, so that short
// requests find one. The others wait.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// enter waits for a turn until ctx ends. leave ends the turn.
func (t turns) enter(ctx context.Context) (leave func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, problem("too_busy", "", "too many pages wait for a processor").After(time.Second)
	}
}

func (a *modelPages) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /models/{model}", a.page)
	mux.HandleFunc("POST /models/{model}/try", a.tryPage)
	mux.HandleFunc("POST /models/{model}/act", a.actPage)
}

// modelView is what the template shows.
type modelView struct {
	Style, ModelStyle       template.CSS
	Now, Name, URL, Version string
	Lead                    []string
	Warnings                []warning
	Facts                   []named
	Read                    string // which part of the log
	Broken                  string
	Losses                  []string
	Head                    string
	Curve                   *curve
	CurveLead               string
	CurveText               []string
	earns                   earned
	Coins                   []coinPage
	Control                 *controlPage
	Lists                   *listsPage
	Rewards                 *rewardsPage
	Actions                 []actionRow
	MoreActions             int
	Numbers                 []numberPage
	Histogram               *histogram
	Decisions               []decisionRow
	DecisionsText           string
	Requests                []decisionRow
	Schema                  []schemaRow
	SchemaText              string
	Seen                    []seenRow
	SeenText                string
	Learned                 []named
	LearnedText             string
	Weights                 []named
	WeightsText             string
	Config                  string
	Changes                 []changeRow
	ChangesText             string
	Request, TryKey         string
	MayTry, MayAct, Paused  bool
	Refused                 string // why a change was refused
	Tried                   *tried
	Search                  *search
	Segments                *segmentsView
}

// tried is the answer to the form.
type tried struct {
	Problem   string
	Event     string
	Action    string
	Answer    named // propensity
	Explained []triedRow
}

type triedRow struct{ Action, Propensity, Votes, Score string }

func (a *modelPages) page(w http.ResponseWriter, r *http.Request) {
	a.show(w, r, http.StatusOK, "", nil, "")
}

// tryPage decides the request of the form and shows the page with the answer.
func (a *modelPages) tryPage(w http.ResponseWriter, r *http.Request) {
	name, ctx := r.PathValue("model"), r.Context()
	for _, scope := range []Scope{Read, Decide} {
		if err := allow(ctx, scope, name); err != nil {
			a.faults.refuse(w, r, err)
			return
		}
	}
	if !a.faults.readForm(w, r, a.opts.MaxBody) {
		return
	}
	text := r.PostForm.Get("request")
	d, err := a.try(ctx, name, text, r.PostForm.Get("key"))
	if err != nil {
		p := a.faults.failed(ctx, err)
		a.show(w, r, p.Status, text, &tried{Problem: inWords(p)}, "")
		return
	}
	t := &tried{Event: d.EventID, Action: d.Action.ID, Answer: named{fmt.Sprintf("%d/%d", d.Propensity.Num,
		d.Propensity.Den), short(d.Propensity.Float())}}
	for _, e := range d.Explain {
		row := triedRow{e.ID, fmt.Sprintf("%d/%d", e.Propensity.Num, e.Propensity.Den), "–", "–"}
		if e.Voters > 0 {
			row.Votes = fmt.Sprintf("%d/%d", e.Votes, e.Voters)
		}
		if e.Score != nil {
			row.Score = short(*e.Score)
		}
		t.Explained = append(t.Explained, row)
	}
	a.show(w, r, http.StatusOK, text, t, "")
}

// actPage pauses, resumes, copies or rolls back the model, when the form has its name as confirmation, and sends the
// browser to the page of the model or its copy.
func (a *modelPages) actPage(w http.ResponseWriter, r *http.Request) {
	name, ctx := r.PathValue("model"), r.Context()
	for _, scope := range []Scope{Read, Admin} {
		if err := allow(ctx, scope, name); err != nil {
			a.faults.refuse(w, r, err)
			return
		}
	}
	if !a.faults.readForm(w, r, a.opts.MaxBody) {
		return
	}
	to, err := a.act(ctx, name, r.PostForm)
	if err != nil {
		p := a.faults.failed(ctx, err)
		a.show(w, r, p.Status, "", nil, inWords(p))
		return
	}
	http.Redirect(w, r, "/models/"+url.PathEscape(to)+"#configuration", http.StatusSeeOther)
}

// act does what a form asks for and returns the name of the model to look at.
func (a *modelPages) act(ctx context.Context, name string, form url.Values) (to string, err error) {
	if form.Get("confirm") != name {
		return "", &fieldError{Field: "confirm", Want: "is not the name of the model; nothing was changed"}
	}
	switch act := form.Get("act"); act {
	case "pause":
		_, err = a.svc.PauseModel(ctx, name, caller(ctx))
	case "resume":
		_, err = a.svc.ResumeModel(ctx, name, caller(ctx))
	case "clone":
		copied := form.Get("name")
		if copied == "" {
			return "", &fieldError{Field: "name", Want: "is empty, expected the name of the copy"}
		}
		if err := allow(ctx, Admin, copied); err != nil {
			return "", err
		}
		_, err = a.svc.CloneModel(ctx, serve.CloneRequest{From: name, Name: copied, Caller: caller(ctx)})
		return copied, err
	case "rollback":
		seq, bad := strconv.ParseUint(form.Get("to_seq"), 10, 64)
		if bad != nil || seq == 0 {
			return "", &fieldError{Field: "to_seq", Want: "is not the number of a log entry"}
		}
		_, err = a.svc.RollbackModel(ctx, serve.RollbackRequest{Name: name, ToSeq: seq, Caller: caller(ctx)})
	default:
		return "", &fieldError{Field: "act", Want: "is not pause, resume, clone or rollback"}
	}
	return name, err
}

// try makes a deferred decision: it is recorded, and counts only after :activate or a reward.
func (a *modelPages) try(ctx context.Context, name, text, key string) (serve.Decision, error) {
	var b decideBody
	if err := decodeJSON([]byte(text), &b); err != nil {
		return serve.Decision{}, err
	}
	b.Explain, b.DeferActivation = "full", true
	req, err := b.request(a.decides.most, "", key, caller(ctx))
	if err != nil {
		return serve.Decision{}, err
	}
	return a.decides.svc.Decide(ctx, name, req)
}

// show writes the page.
func (a *modelPages) show(w http.ResponseWriter, r *http.Request, status int, request string, answer *tried,
	refused string) {
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
	case a.exports <- struct{}{}:
		defer func() { <-a.exports }()
	default:
		a.faults.fail(w, r, problem("too_busy", "", fmt.Sprintf("%d other readings of the log are under way", maxExports)))
		return
	}
	leave, err := a.turns.enter(ctx)
	if err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	defer leave()
	by := strings.TrimSpace(r.URL.Query().Get("by"))
	h, err := readHistory(ctx, a.svc, &m, bounds{pageEntries, pageDecisions, by != "", true})
	if err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	v := a.viewOf(ctx, &m, h)
	v.URL, v.Request, v.Tried, v.TryKey = baseURL(r), request, answer,
		"page-"+requestOf(ctx).id+"-"+fmt.Sprint(a.opts.Clock.Now().UnixNano())
	v.MayTry, v.MayAct, v.Paused, v.Refused = requestOf(ctx).holder.may(Decide), requestOf(ctx).holder.may(Admin),
		m.Paused, refused
	v.Search = searched(ctx, a.svc, r.URL.Query(), &m, h)
	t := termsOf(&m)
	if v.Segments = h.segments(ctx, by, &t); v.Segments.Refused != "" && status == http.StatusOK {
		status = http.StatusUnprocessableEntity
	}
	if request == "" {
		v.Request = exampleRequest(remembered(m.Requests))
	}
	var b bytes.Buffer
	if err := modelTemplate().Execute(&b, v); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin") // the form's Origin header must not become null
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// remembered returns the requests whose texts are whole, the newest first.
func remembered(requests []serve.RequestView) (out [][]byte) {
	for _, r := range slices.Backward(requests) {
		if r.Cut {
			continue
		}
		body := []byte("{")
		if r.Context != "" {
			body = append(append(append(body, `"context": `...), r.Context...), ", "...)
		}
		out = append(out, append(append(append(body, `"actions": `...), r.Actions...), '}'))
	}
	return out
}

// exampleRequest is what the form begins with: the first one that is whole and short enough of the newest in
// memory.
func exampleRequest(requests [][]byte) string {
	for _, r := range requests {
		var b bytes.Buffer
		if len(r) > 0 && len(r) < 4096 && decodeJSON(r, &decideBody{}) == nil && json.Indent(&b, r, "", "  ") == nil {
			return b.String()
		}
	}
	return "{\n  \"context\": {\"user\": {\"city\": \"Oslo\", \"age\": 31}},\n  \"actions\": [\n    {\"id\": \"a\", " +
		"\"features\": {\"price\": 0.4}},\n    {\"id\": \"b\", \"features\": {\"price\": 0.9}}\n  ]\n}"
}

// viewOf fills the page from the model and the newest entries of its log.
func (a *modelPages) viewOf(ctx context.Context, m *serve.Model, h *modelHistory) *modelView {
	v := &modelView{Style: template.CSS(styleSheet), ModelStyle: template.CSS(modelStyle), Name: m.Name,
		Version: a.opts.Version, Broken: h.broken, Losses: h.losses}
	v.Now = a.opts.Clock.Now().UTC().Format("2 Jan 2006, 15:04:05 UTC")
	v.Warnings = together(historyWarnings(h, m), countWarnings(m))
	v.Facts = factsOf(m)
	v.Read = readText(m, h)
	t := termsOf(m)
	v.curve(h, &t, func() *againstUniform { return h.against(ctx, m, &t) })
	v.Coins = a.coins.pages(ctx, m, h)
	v.Control = a.pays.page(ctx, m, h)
	if p, mean, known := listsOf(h, &t); p != nil {
		p.examined(m.Explained)
		if v.Lists = p; len(h.decisions) == 0 {
			v.CurveLead, v.earns = "This model plays lists; what they earn stands by position below.", earned{known: known, mean: mean, list: true}
		}
	}
	v.Rewards = rewardsOf(h, m, &t)
	v.Actions, v.MoreActions = actionsOf(h, &t)
	v.Numbers = numbersOf(h, m, &t)
	if s := m.Foretell; s != nil {
		for i := range v.Numbers {
			v.Numbers[i].Curves = curvesOf(ctx, s, m, h, v.Numbers[i].Name)
		}
		if v.Lists != nil {
			v.Lists.Best, v.Lists.BestText = bestLists(ctx, s, m, h)
		}
	}
	v.Histogram = histogramOf(h)
	v.Decisions = newestDecisions(h, m.Requests)
	v.Requests = newestRequests(h, m.Requests)
	if ds := h.decisions; len(ds) >= someDecisions && !slices.ContainsFunc(ds,
		func(d *past) bool { return d.context != ds[0].context }) {
		v.DecisionsText = fmt.Sprintf("All %s decisions read have the same context, or none.", grouped(uint64(len(ds))))
	}
	v.Schema, v.SchemaText = schemaOf(m)
	v.Seen, v.SeenText = seenOf(m)
	v.Learned, v.LearnedText = a.learned(ctx, m)
	v.Weights, v.WeightsText = weightsOf(m)
	v.Config = configText(m.Config)
	v.Changes = changesOf(h.changes)
	v.ChangesText = fmt.Sprintf("Version %d of the configuration.", m.ConfigVersion)
	if h.from > h.first {
		v.ChangesText += " Changes between the creation and entry " + grouped(h.from) +
			" are not listed, but for the last one; the export of the log has all."
	}
	v.Head = modelHeadline(m, &v.earns, v.Control)
	v.Lead = append(v.Lead, stateOf(m))
	if len(v.Warnings) == 0 && m.Counts.Decisions > 0 {
		v.Lead = append(v.Lead, "Nothing in its counts or its newest decisions calls for a warning.")
	}
	return v
}

// stateOf says whether the model decides, and of a guarded one how far its policy is.
func stateOf(m *serve.Model) string {
	mode := cmp.Or(m.Config.Mode, string(serve.Online))
	switch g := m.Guard; {
	case m.Paused:
		return "This model is paused: decisions are refused, rewards still count."
	case g == nil || mode != string(serve.Guarded):
		return "This model is " + mode + "."
	default:
		next, earned := "the baseline of its request", fmt.Sprintf("at most %s less than", short(-g.Lower))
		if g.Plays {
			next = "the policy"
		}
		if g.Lower >= 0 {
			earned = fmt.Sprintf("at least %s more than", short(g.Lower))
		}
		return fmt.Sprintf("This model is guarded: the next decision plays %s. The policy has played %s of %s decisions. "+
			"All together have earned %s the baselines in the mean, %s%% sure whenever you look; the margin is %s.",
			next, grouped(g.Policy), grouped(g.Decisions), earned, short(100*m.Config.Guard.Confidence),
			short(m.Config.Guard.Margin))
	}
}

// readText says what the page looked at.
func readText(m *serve.Model, h *modelHistory) string {
	if len(h.decisions) == 0 && len(h.lists) > 0 {
		return fmt.Sprintf("From the log, entries %s to %s: %s lists of this model. It is the same after a restart.", grouped(h.from),
			grouped(h.to), grouped(uint64(len(h.lists))))
	}
	if len(h.decisions) == 0 {
		return fmt.Sprintf("No decision of this model is in log entries %s to %s.", grouped(h.from), grouped(h.to))
	}
	s := fmt.Sprintf("From the log, entries %s to %s: %s decisions of this model.", grouped(h.from), grouped(h.to),
		grouped(uint64(len(h.decisions))))
	if h.from > h.first {
		s += fmt.Sprintf(" The page reads back until it has %s decisions or has read %s entries or %d MiB; older decisions are "+
			"in the counts above and in the export of the log.", grouped(pageDecisions), grouped(pageEntries), pageBytes>>20)
	}
	return s + " It is the same after a restart."
}

func factsOf(m *serve.Model) []named {
	c := &m.Counts
	mean := "–"
	if c.Rewards > 0 {
		mean = short(c.RewardSum / float64(c.Rewards))
	}
	return []named{
		{"decisions", grouped(c.Decisions)}, {"rewards", grouped(c.Rewards)}, {"mean of the rewards sent", mean},
		{"windows open", grouped(c.Open)}, {"late rewards", grouped(c.Late)},
		{"windows closed without a reward", grouped(c.Expired)},
		{"of these with the default", grouped(c.Defaulted)}, {"repeated rewards", grouped(c.Duplicates)},
		{"rewards that did not count", grouped(c.Ignored)},
		{"updates of the policy", grouped(c.Learned)},
	}
}

// curve fills the picture of the rewards and the sentences below it. against compares the model with uniform play on
// the same decisions.
func (v *modelView) curve(h *modelHistory, t *terms, against func() *againstUniform) {
	es, outside := estimate(h, t)
	say := v.say
	if len(es) == 0 {
		v.CurveLead = "No decision among those read has a final reward yet."
		if t.unsettling {
			say("A reward is final when the window of its decision is over.")
		}
		return
	}
	last := &es[len(es)-1]
	var from, to string
	for _, d := range h.decisions {
		if _, final := h.value(d, t); final {
			if to = when(d.time); from == "" {
				from = to
			}
		}
	}
	v.Curve = drawCurve(es, outside == 0, from, to)
	if c := t.noticed; c != nil {
		if v.Curve != nil {
			v.Curve.mark(c.At, t.learned, last.n)
		}
		say("The rewards changed between about event %s and event %s, when it was noticed (posterior %.2f).", grouped(c.At),
			grouped(c.Seen), c.Posterior)
	}
	v.earns = earned{known: true, mean: last.played.Mean, weighed: last.supports() && outside == 0 && last.shown()}
	v.CurveLead = fmt.Sprintf("The line is the mean of the %s decisions before each place; the newest have %s.",
		grouped(uint64(recentOf(last.n))), short(last.recent))
	mean := fmt.Sprintf("Mean reward %s over %s decisions with a final reward", short(last.played.Mean),
		grouped(uint64(last.n)))
	switch {
	case outside > 0:
		say("%s. There is no interval: %s rewards are outside the present range.", mean, grouped(uint64(outside)))
	case outside < 0:
		say("%s. There is no interval: decisions of one unit share a draw. troupe evaluate has intervals that count units.",
			mean)
	default:
		say("%s, between %s and %s at any time you look.", mean, short(last.played.Low), short(last.played.High))
	}
	v.versusUniform(h, t, es, outside, against)
	if !t.declared && outside == 0 {
		say("The bounds take for granted that rewards stay in [%s, %s]: no range was declared.", short(t.min),
			short(t.max))
	}
	if t.missing {
		say("A missing reward counts as %s here, for all decisions whose window is over.", short(t.fallback))
	}
	if t.unsettling {
		say("Decisions whose window is open are not among them.")
	} else {
		say("Decisions without a reward are not among them, because a missing reward counts as nothing.")
	}
}

// say adds a sentence below the picture of the rewards.
func (v *modelView) say(format string, args ...any) {
	v.CurveText = append(v.CurveText, fmt.Sprintf(format, args...))
}

// versusUniform compares the model with uniform play, as far as the log supports it.
func (v *modelView) versusUniform(h *modelHistory, t *terms, es []estimates, outside int,
	against func() *againstUniform) {
	say, last := v.say, &es[len(es)-1]
	switch {
	case last.weighed == 0:
		say("The log supports no comparison with uniform play: the model's own choices were not played.")
	case last.supports() && outside == 0:
		if last.shown() {
			say("Uniform play would have earned %s by inverse propensities (SNIPS, effective sample size %s), between %s "+
				"and %s.",
				short(last.uniform.Mean), grouped(round(last.size)), short(last.uniform.Low), short(last.uniform.High))
		} else {
			say("What uniform play would have earned lies between %s and %s. The log supports no number: the effective "+
				"sample size is %s decisions, and %d are needed.", short(last.uniform.Low), short(last.uniform.High),
				grouped(round(last.size)), ope.LeastEffective)
		}
		u := against()
		switch {
		case u != nil:
			v.earns.more = &u.more
			say("%s", u.text())
		case last.played.Low > last.uniform.High:
			say("The model is better than uniform play.")
		case last.played.High < last.uniform.Low:
			say("The model is worse than uniform play.")
		default:
			say("The intervals overlap: the difference is not certain yet.")
		}
		if texts := baselineText(es, outside); texts != nil {
			v.CurveText = append(append(v.CurveText, texts...), planText(h, t, last)...)
		}
		say("These intervals hold together, at all times, with probability 95%%.")
	case outside == 0:
		say("What uniform play would have earned lies between %s and %s. The log supports no number: the weights "+
			"1/(K·p) have mean %s, which should be near 1, and an effective sample size of %s decisions. Actions "+
			"that are rarely or never taken cannot be compared; a larger floor would make them comparable.",
			short(last.uniform.Low), short(last.uniform.High), short(last.weight), grouped(round(last.size)))
		if u := against(); u != nil { // it holds with any support
			say("%s", u.text())
		}
	}
}

// schemaRow is one feature of the schema.
type schemaRow struct{ Name, Kind, Rest string }

const maxSchemaRows = 200

// schemaOf lists the features.
func schemaOf(m *serve.Model) (rows []schemaRow, text string) {
	switch {
	case m.Kind == "requests":
		return nil, "Requests are read as they come: every name, type and value, and nothing is declared." + notesText(m)
	case m.Config.Features.Schema == nil && m.Dim > 0:
		return nil, fmt.Sprintf("The model has no schema; its vectors have %d numbers.", m.Dim)
	case m.Config.Features.Schema == nil:
		return nil, "The model has no schema yet."
	}
	var s struct {
		Model    string                       `json:"model"`
		Unknown  string                       `json:"unknown"`
		Features []map[string]json.RawMessage `json:"features"`
		Crosses  [][]string                   `json:"crosses"`
	}
	if err := json.Unmarshal(m.Config.Features.Schema.Canonical(), &s); err != nil {
		return nil, "The schema cannot be read: " + err.Error()
	}
	plain := func(b json.RawMessage) (text string) {
		if json.Unmarshal(b, &text) != nil {
			text = string(b)
		}
		return text
	}
	for _, f := range s.Features[:min(len(s.Features), maxSchemaRows)] {
		row := schemaRow{Name: plain(f["feature"]), Kind: plain(f["kind"])}
		var rest []string
		for _, k := range sortedKeys(f) {
			if k != "feature" && k != "kind" {
				rest = append(rest, k+" "+clipped(string(f[k]), 160))
			}
		}
		row.Rest = strings.Join(rest, "; ")
		rows = append(rows, row)
	}
	text = fmt.Sprintf("%d features and %d crosses, in %d coordinates; model %s.", len(s.Features), len(s.Crosses),
		m.Dim, cmp.Or(s.Model, "shared"))
	if len(rows) < len(s.Features) {
		text += fmt.Sprintf(" The table has the first %d.", len(rows))
	}
	return rows, text + notesText(m)
}

// seenRow is what the requests had of a feature.
type seenRow struct{ Name, Kind, Share, Range, Ignored, Clamped, Mistyped, Weight string }

// seenOf lists what the requests had of each feature.
func seenOf(m *serve.Model) (rows []seenRow, text string) {
	if m.Seen == nil {
		return nil, "What requests have of each feature is counted from the start of the server on; none has come yet."
	}
	count := func(n uint64) string {
		if n == 0 {
			return "–"
		}
		return grouped(n)
	}
	for _, f := range m.Seen.Features {
		row := seenRow{
			Name: clipped(f.Name, 120), Kind: cmp.Or(f.Kind, "–"), Weight: "–",
			Share: short(100 * float64(f.Requests) / float64(m.Seen.Requests)), Range: "–",
			Ignored: count(f.Ignored), Clamped: count(f.Clamped),
			Mistyped: count(f.Mistyped),
		}
		if f.Weight != nil {
			row.Weight = weightText(f.Weight) + ", " + clipped(f.Weight.Name, 240)
		}
		if f.Low != nil {
			row.Range = short(*f.Low) + " to " + short(*f.High)
		}
		rows = append(rows, row)
	}
	text = fmt.Sprintf("What the %s requests since the start of the server had of each feature.",
		grouped(m.Seen.Requests))
	if m.Seen.More > 0 {
		text += fmt.Sprintf(" %s more features are not listed.", grouped(uint64(m.Seen.More)))
	}
	return rows, text
}

// notesText says how many decisions had features that were ignored, clamped and so on.
func notesText(m *serve.Model) string {
	var out []string
	for _, k := range sortedKeys(m.Notes) {
		out = append(out, fmt.Sprintf("%s %s", k, grouped(m.Notes[k])))
	}
	if len(out) == 0 {
		return " No decision had a feature that was ignored, clamped or of another type."
	}
	return " Decisions by what encoding met: " + strings.Join(out, ", ") + "."
}

// explained lists the shares of what a model has found out.
func explained(e *serve.ExplainedView) (out []named, text string) {
	for _, p := range e.Parts[:min(len(e.Parts), maxWeightRows)] {
		out = append(out, named{clipped(p.Name, 240), fmt.Sprintf("%.1f%%", 100*p.Share)})
	}
	if text = e.Text; text == "" {
		text = "What matters is said after 100 rewards."
	}
	return out, text
}

// The weights are shown for models that are not large: reading them copies the state.
const (
	maxWeightDim  = 2048
	maxWeightRows = 24
)

// learned lists the largest weights.
func (a *modelPages) learned(ctx context.Context, m *serve.Model) ([]named, string) {
	switch {
	case m.Explained != nil:
		return explained(m.Explained)
	case m.Kind == "requests":
		return nil, "All rewards so far are equal, or there are none: nothing can be said of what matters."
	case m.Dim == 0:
		return nil, "There are no weights yet."
	}
	if m.Dim > maxWeightDim {
		return nil, fmt.Sprintf("The model has %d coordinates; GET /v1/models/%s/state has their weights.", m.Dim,
			m.Name)
	}
	s, err := a.svc.State(ctx, m.Name)
	if err != nil {
		return nil, "The weights cannot be read: " + problemOf(err).Detail
	}
	if len(s.Theta) == 0 {
		return nil, "The policy has no weights to show."
	}
	order := make([]int, len(s.Theta))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(math.Abs(s.Theta[j]), math.Abs(s.Theta[i])) })
	var out []named
	for _, i := range order[:min(len(order), maxWeightRows)] {
		name := fmt.Sprintf("coordinate %d", i)
		if i < len(s.Coordinates) {
			name = clipped(s.Coordinates[i], 120)
		}
		value := short(s.Theta[i])
		if i < len(s.Spread) {
			value += " ± " + short(s.Spread[i])
		}
		out = append(out, named{name, value})
	}
	text := fmt.Sprintf("The largest weights of the estimate θ̂ after %s updates, of %d", grouped(s.Learned),
		len(s.Theta))
	if len(s.Spread) > 0 {
		text += ", with the spread of the members, one standard deviation"
	}
	return out, text + "."
}

// weightText prints a weight with its standard deviation.
func weightText(w *serve.WeightView) string { return short(w.Weight) + " ± " + short(w.Spread) }

// weightsOf lists the weights of a model that reads requests whose names are known.
func weightsOf(m *serve.Model) (out []named, text string) {
	w := m.Weights
	switch {
	case w == nil:
		return nil, ""
	case len(w.Rows) == 0:
		return nil, "The weights belong to hashes. Their names come from requests since the start of the server, of " +
			"values that at least five had; no weight has one yet."
	}
	for i := range w.Rows {
		out = append(out, named{clipped(w.Rows[i].Name, 240), weightText(&w.Rows[i])})
	}
	text = "What a value adds to the expected reward, for the action after the ×, with its standard deviation. Those come " +
		"first that are the most deviations away from 0. Names are those of values that at least five requests since the " +
		"start of the server had."
	if w.More > 0 {
		text += fmt.Sprintf(" %s more are not listed.", grouped(uint64(w.More)))
	}
	return out, text
}

const maxConfigText = 16 << 10

// configText prints the configuration; a long catalogue is cut.
func configText(c serve.ModelConfig) string {
	var note string
	if len(c.Actions) > maxActionRows {
		note = fmt.Sprintf("\n… and %d more actions", len(c.Actions)-maxActionRows)
		c.Actions = c.Actions[:maxActionRows]
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err.Error()
	}
	return clipped(string(b), maxConfigText) + note
}
