package api

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/playground/page"
	"troupe/serve"
)

var (
	//go:embed page/status.html
	statusText string

	// Parsed on first use: other commands than the server show none.
	statusTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("status").Parse(statusText)) })
)

// maxPageModels bounds the status page, maxWarned the models whose warning it quotes.
const (
	maxPageModels = 200
	maxWarned     = 5
)

// statusPages are the status page, the probes, the metrics and the playground.
type statusPages struct {
	svc interface {
		serve.ModelService
		serve.NodeService
	}
	opts     *Options
	metrics  *metrics
	flow     *flow
	verdicts *verdicts
	faults   *faults
}

// routes adds the pages and probes of the server as a whole.
func (a *statusPages) routes(mux *http.ServeMux, d *document) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := allow(r.Context(), Read, ""); err != nil {
			a.faults.refuse(w, r, err)
			return
		}
		a.metrics.serve(w, r)
	})
	mux.HandleFunc("GET /{$}", a.statusPage)
	d.describe(op{id: "livez", method: "GET", path: "/livez", summary: "Ask whether the process answers",
		doc: "Needs no key."}, description{tag: "server", text: "text/plain"})
	d.describe(op{id: "readyz", method: "GET", path: "/readyz",
		summary: "Ask whether decisions and rewards are answered", doc: "503 with the reason when not. Needs no key; where " +
			"the server has keys, what a node of a cluster knows of the others needs one with the scope read, backup or admin. " +
			"failed names the models that cannot decide, to a caller that may read them; the others are served."},
		description{tag: "server", answer: readiness{}, fault: readiness{}})
	d.describe(op{id: "metrics", method: "GET", path: "/metrics", scope: Read, summary: "Read the metrics",
		doc: "In the format of Prometheus."}, description{tag: "server", text: "text/plain", fault: Problem{}})
	mux.HandleFunc("GET /playground", a.playground)
}

// readiness is what /readyz says: enough to decide whether to send requests here, and nothing about the models but which of
// them cannot decide.
type readiness struct {
	Ready   bool   `json:"ready" doc:"decisions and rewards are answered"`
	Reason  string `json:"reason,omitempty" doc:"why they are not"`
	Damage  string `json:"damage,omitempty" doc:"what is wrong with the log; then the server is read-only"`
	Full    bool   `json:"full,omitempty" doc:"the log or its disk is full"`
	Applied uint64 `json:"applied" doc:"last entry of the log that the models have learned from"`
	Log     uint64 `json:"log" doc:"last entry of the log"`
	Lag     uint64 `json:"lag" doc:"entries that the models have not learned from yet"`
	// Durability says what 200 means: fsync on this machine's disk, or on the disks of a majority of the nodes.
	Durability string `json:"durability" doc:"what a 200 means: fsync, on the disk of this machine; majority, on the disks of most nodes"`
	// Failed are the models whose policies cannot decide, of those that the caller may read. The others are served, so the
	// server is ready.
	Failed []string `json:"failed,omitempty" doc:"models that cannot decide, to a caller that may read them; the others are served"`
	// Cluster is how this node sees the others. Where the server has keys it is for callers with one.
	Cluster *serve.ClusterHealth `json:"cluster,omitempty"`
}

func (a *statusPages) readyz(w http.ResponseWriter, r *http.Request) {
	h := a.svc.Health()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !h.Ready {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	x := readiness{h.Ready, h.Reason, h.Damage, h.Full, h.Applied, h.Log, h.Lag, durability(h), nil, h.Cluster}
	if holder := requestOf(r.Context()).holder; x.Cluster != nil && !holder.may(Read) && !holder.may(Backup) {
		x = x.public()
	}
	for _, name := range h.Failed {
		if holder := requestOf(r.Context()).holder; holder.may(Read) && holder.sees(name) {
			x.Failed = append(x.Failed, name)
		}
	}
	json.NewEncoder(w).Encode(x)
}

// public leaves out what a node knows of the others: names, versions, fingerprints of keys. The reason may have names.
func (x readiness) public() readiness {
	x.Cluster = nil
	if x.Reason != "" {
		x.Reason = "this node does not answer decisions now; with a key that has the scope read, /readyz says why"
	}
	return x
}

func durability(h serve.Health) string {
	if h.Cluster != nil {
		return "majority"
	}
	return "fsync"
}

// playgroundPage is made on first use. Where the binary has no program for it, it is the page of five pictures.
var playgroundPage = sync.OnceValues(func() (*page.Page, error) {
	program, err := page.Builtin()
	if err != nil {
		program = nil
	}
	return page.Render(program)
})

// playground answers the page that plays policies in the plane. It is the same for everybody and needs no key.
func (a *statusPages) playground(w http.ResponseWriter, r *http.Request) {
	p, err := playgroundPage()
	if err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy", p.CSP+"; frame-ancestors 'none'")
	w.Write(p.HTML)
}

// modelRow is one model on the status page.
type modelRow struct {
	Name, DecisionsRate, RewardsRate, Decisions, Rewards, Mean, Late, Waiting, Mode, Warnings string

	urgent bool
	rate   float64
}

func (a *statusPages) statusPage(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := allow(ctx, Read, ""); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	now := a.opts.Clock.Now()
	h := a.svc.Health()
	models, more, err := a.svc.ListModels(ctx, "", maxPageModels)
	// a server that cannot read its state, as a node that is cut off, still says why
	if err != nil && serve.CodeOf(err) != serve.Unavailable {
		a.faults.refuse(w, r, err)
		return
	}
	models = slices.DeleteFunc(models, func(m serve.Model) bool { return !requestOf(ctx).holder.sees(m.Name) })
	var p struct {
		Style          template.CSS
		Now, Head, URL string
		Version, More  string
		Lead           string
		Alarms         []alarm
		Warned         []named // models with their first warning
		Facts, Log     []named
		Server         []named
		Own            []named   // what a node of a cluster says of itself
		Nodes          []nodeRow // and of all
		Models         []modelRow
		Hour           *hour
	}
	p.Style, p.Version, p.URL = template.CSS(styleSheet), a.opts.Version, baseURL(r)
	p.Now = now.UTC().Format("2 Jan 2006, 15:04:05 UTC")
	p.Alarms = alarms(&h, models)
	warned := a.verdicts.warnings(ctx, models, now)
	minutes := a.flow.lastHour(now)
	p.Head = headline(p.Alarms, h.Models, countWarned(models, warned), decisionsOf(minutes)+a.flow.unsampled(models))
	if len(p.Alarms) == 0 && h.Models > 0 {
		p.Lead = "Every decision and reward that was answered is on the disk."
		if h.Cluster != nil {
			p.Lead = "Every decision and reward that was answered is on the disks of most nodes."
		}
	}
	var total flowing
	p.Models, p.Warned, total = a.modelRows(models, warned, now)
	if more {
		p.More = fmt.Sprintf("These are the first %d; /v1/models has all.", maxPageModels)
	}
	p.Facts = []named{
		{"decisions a minute", total.text(total.decisions)},
		{"rewards a minute", total.text(total.rewards)},
		{"since the start", now.Sub(h.Started).Truncate(time.Second).String()},
	}
	p.Hour = hourOf(minutes, now)
	p.Server, p.Log = serverFacts(&h), logFacts(&h)
	if h.Cluster != nil {
		p.Own, p.Nodes = clusterFacts(h.Cluster)
	}
	if a.opts.Data != "" {
		p.Server = append(p.Server, named{"Data directory", a.opts.Data})
	}
	var b bytes.Buffer
	if err := statusTemplate().Execute(&b, p); err != nil {
		a.faults.refuse(w, r, err)
		return
	}
	writePage(w, b.Bytes())
}

// flowing is how many decisions and rewards all models have a minute; known is whether there is a rate to show, which
// is not so in the first moments.
type flowing struct {
	decisions, rewards float64
	known              bool
}

func (f flowing) text(rate float64) string {
	if !f.known {
		return "–"
	}
	return grouped(round(rate))
}

// modelRows are the rows of the models, those with a failure first, then by decisions a minute; the first warnings of
// the first of them; and the sum of their rates.
func (a *statusPages) modelRows(models []serve.Model, warned map[string][]warning, now time.Time) (rows []modelRow,
	first []named, total flowing) {
	total.known = len(models) == 0
	for _, m := range models {
		row := modelRow{
			Warnings: "–",
			Name:     m.Name, DecisionsRate: "–", RewardsRate: "–", Decisions: grouped(m.Counts.Decisions),
			Rewards: grouped(m.Counts.Rewards),
			Mean:    "–", Late: grouped(m.Counts.Late), Waiting: grouped(m.Counts.Open), Mode: m.Config.Mode,
			urgent: m.Failed != "",
		}
		if w := warned[m.Name]; len(w) > 0 {
			row.Warnings = strconv.Itoa(len(w))
			if m.Failed == "" && len(first) < maxWarned {
				first = append(first, named{m.Name, w[0].What})
			}
		}
		if m.Paused {
			row.Mode = "paused"
		}
		if m.Failed != "" {
			row.Mode = "failed"
		}
		if n := m.Counts.Rewards + m.Counts.Defaulted; n > 0 { // the sum has the default rewards too
			row.Mean = strconv.FormatFloat(m.Counts.RewardSum/float64(n), 'f', 3, 64)
		}
		if d, y, ok := a.flow.perMinute(m.Name, now, m.Counts); ok {
			row.DecisionsRate, row.RewardsRate, row.rate = grouped(round(d)), grouped(round(y)), d
			total = flowing{total.decisions + d, total.rewards + y, true}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b modelRow) int {
		switch {
		case a.urgent != b.urgent:
			return int(one(b.urgent) - one(a.urgent))
		case a.rate > b.rate:
			return -1
		case a.rate < b.rate:
			return 1
		}
		return 0
	})
	return rows, first, total
}

// countWarned counts the models with warnings; those that failed are among the alarms.
func countWarned(models []serve.Model, warned map[string][]warning) (n int) {
	for _, m := range models {
		if m.Failed == "" && len(warned[m.Name]) > 0 {
			n++
		}
	}
	return n
}

// logSize says how full the log is.
func logSize(h *serve.Health) string {
	mb := func(n uint64) string {
		if n >= 1e9 {
			return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + " GB"
		}
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
	}
	if h.LogLimit == 0 {
		return mb(h.LogBytes)
	}
	return fmt.Sprintf("%s of %s, %.1f%%", mb(h.LogBytes), mb(h.LogLimit), 100*float64(h.LogBytes)/float64(h.LogLimit))
}

// serverFacts are for everybody who looks at the page, logFacts for those who operate the server.
func serverFacts(h *serve.Health) []named {
	out := []named{{"Log on the disk", logSize(h)}}
	var refused []string
	if h.Malformed > 0 {
		refused = append(refused, grouped(h.Malformed)+" that do not look like an event id")
	}
	if h.Forged > 0 {
		refused = append(refused, grouped(h.Forged)+" with an unknown event id")
	}
	if len(refused) > 0 {
		out = append(out, named{"Rewards refused since the start", strings.Join(refused, ", ")})
	}
	return out
}

func logFacts(h *serve.Health) []named {
	perBatch := "–"
	if h.Committer.Batches > 0 {
		perBatch = strconv.FormatFloat(float64(h.Committer.Events)/float64(h.Committer.Batches), 'f', 1, 64)
	}
	snapshot := "none yet"
	if h.Snapshot > 0 {
		snapshot = "up to entry " + grouped(h.Snapshot)
	}
	out := []named{
		{"Verified and applied", "up to entry " + grouped(h.Applied)},
		{"Written by this process", "up to entry " + grouped(h.Log)},
		{"Lag", grouped(h.Lag) + " entries"},
		{"Reward windows open", grouped(h.Open)},
		{"Batches", fmt.Sprintf("%s, with %s records each on average; %s tried again, %s refused",
			grouped(h.Committer.Batches), perBatch, grouped(h.Committer.Retries), grouped(h.Committer.Refused))},
		{"Waiting for the disk", grouped(uint64(max(0, h.Committer.Waiting))) + " bytes"},
		{"Snapshot", snapshot},
		{"Last start", fmt.Sprintf("%s batches folded in %v, after a snapshot of entry %s", grouped(h.Recovery.Batches),
			h.Recovery.Took.Round(time.Millisecond), grouped(h.Recovery.Snapshot))},
		{"Writer", h.Epoch.String()},
		{"Event ids without their decision", grouped(h.Missing)},
	}
	for _, f := range h.Followers {
		text := fmt.Sprintf("up to entry %s, asked on %s", grouped(f.Last), f.Time.UTC().Format("2006-01-02 15:04:05"))
		if !f.Waited {
			text += "; the log is trimmed without waiting for it"
		}
		out = append(out, named{"Backup " + f.Name, text})
	}
	return out
}

// nodeRow is one node on the status page.
type nodeRow struct{ Name, Seen, Applied, Replica, Clock string }

func clusterFacts(c *serve.ClusterHealth) (own []named, nodes []nodeRow) {
	numbers := strings.ReplaceAll(strings.Trim(fmt.Sprint(c.KeyNumbers), "[]"), " ", ", ")
	own = []named{
		{"This node", c.Node},
		{"Reached a majority", fmt.Sprintf("%.1f s ago", c.Contact)},
		{"Clock, less the median", fmt.Sprintf("%+.3f s", c.Clock)},
		{"Keys of event ids, first the one in use", numbers},
		{"Batches stored too late to count", grouped(c.Void)},
		{"Changes of the leader since the start", grouped(c.Elections)},
		{"May be stopped now", serve.MayStopText(c.Fitness())},
	}
	if c.Unwritten > 0 {
		own = append(own, named{"Entries that no node has written", fmt.Sprintf("%s, without effect; the newest is %d",
			grouped(c.Unwritten), c.UnwrittenEntry)})
	}
	if c.Declared > 0 {
		own = append(own, named{"Entries that were declared void", grouped(c.Declared) + ", without effect"})
	}
	if c.CertificateEnds != nil {
		own = append(own, named{"Certificate", "valid until " + c.CertificateEnds.UTC().Format(time.DateOnly)})
	}
	if c.Damage != "" {
		own = append(own, named{"Files of the replica", "damaged: " + c.Damage + "; " +
			cmp.Or(c.Unrepaired, "the node makes them anew from the others")})
	} else if c.Verified != nil {
		own = append(own, named{"Files of the replica", fmt.Sprintf("all read and whole on %s, up to entry %s",
			c.Verified.UTC().Format("2006-01-02 15:04"), grouped(c.VerifiedEntry))})
	}
	if c.Repaired != nil {
		own = append(own, named{"Made anew from the others", fmt.Sprintf("%d times, last on %s", c.Repairs,
			c.Repaired.UTC().Format("2006-01-02 15:04"))})
	}
	if c.Drained {
		own = append(own, named{"Stop", "drained, may be stopped"})
	}
	if a := c.Attested; a != nil {
		text := "not attested"
		switch {
		case a.Is && a.By == serve.AttestedByServers:
			text = "they report that they sync always"
		case a.Is:
			text = a.By + " vouches for them"
		}
		own = append(own, named{"Servers of the log", text})
	}
	for _, n := range c.Nodes {
		row := nodeRow{Name: n.Name, Seen: "never", Applied: grouped(n.Applied), Clock: "–"}
		if n.Heard >= 0 {
			row.Seen, row.Clock = fmt.Sprintf("%.1f s ago", n.Heard), fmt.Sprintf("%+.3f s", n.Clock)
		}
		for _, r := range c.Replicas {
			if r.Name != n.Name {
				continue
			}
			switch {
			case r.Leader:
				row.Replica = "leads"
			case r.Offline:
				row.Replica = "not there, " + grouped(r.Lag) + " entries behind"
			case r.Lag > 0:
				row.Replica = grouped(r.Lag) + " entries behind"
			case r.Behind != "":
				row.Replica = r.Behind
			default:
				row.Replica = "follows"
			}
		}
		nodes = append(nodes, row)
	}
	return own, nodes
}
