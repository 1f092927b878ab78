package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"troupe/serve"
)

// metrics are what /metrics shows. Numbers of the service are read when they are scraped.
type metrics struct {
	models   serve.ModelService
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	rewards  *prometheus.CounterVec
	cutOff   prometheus.Counter
	shed     prometheus.Counter
	waited   prometheus.Histogram

	// The series that exist, so that a request does not look its labels up. A new one makes a new map.
	routes   atomic.Pointer[map[routeStatus]routeSeries]
	routesMu sync.Mutex
}

// maxModelLabels bounds the series that models make.
const maxModelLabels = 200

// newMetrics returns the metrics of a server; waiting is how many decisions wait for their turn.
func newMetrics(svc serve.Service, o *Options, waiting func() int) *metrics {
	m := &metrics{
		models:   svc,
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_http_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "troupe_http_request_seconds",
			Help: "Time from the first byte of the request to the last of the answer.",
			Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .128, .25, .5, 1, 2,
				5, 10},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100}, []string{"route"}),
		cutOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "troupe_connections_refused_total", Help: "Connections closed because there were too many."}),
		rewards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_rewards_total", Help: "Rewards by what became of them: accepted, duplicate, late, ignored, " +
				"or refused."}, []string{"status"}),
	}
	m.routes.Store(&map[routeStatus]routeSeries{})
	m.shed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "troupe_decisions_shed_total", Help: "Requests for decisions answered 429 because they waited too " +
			"long; nothing was decided."})
	m.waited = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:                        "troupe_decision_wait_seconds",
		Help:                        "Time that requests for decisions waited for their turn, those that did.",
		Buckets:                     []float64{.001, .002, .004, .008, .016, .032, .064, .128, .25, .5},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100})
	line := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "troupe_decisions_waiting", Help: "Requests for decisions that wait for their turn."},
		func() float64 { return float64(waiting()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "troupe_info",
		Help:        "Always 1; the labels say what runs, and on which directory.",
		ConstLabels: prometheus.Labels{"data": o.Data, "version": o.Version}})
	info.Set(1)
	m.registry.MustRegister(info, m.cutOff, m.shed, m.waited, line, m.requests, m.seconds, m.rewards,
		newServiceCollector(svc),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// serve answers /metrics with the models that the key of the request sees. Numbers of the whole server are the
// same for every key.
func (m *metrics) serve(w http.ResponseWriter, r *http.Request) {
	models := prometheus.NewRegistry()
	models.MustRegister(newModelCollector(m.models, requestOf(r.Context()).holder))
	promhttp.HandlerFor(prometheus.Gatherers{m.registry, models},
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// routeSeries are the series of one route and status.
type routeSeries struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// routeStatus is what one of these series is of.
type routeStatus struct {
	pattern string
	status  int
}

// request counts one request. A route is a pattern, so the number of series does not depend on what
// is asked.
func (m *metrics) request(pattern string, status int, took time.Duration) {
	key := routeStatus{pattern, status}
	series, ok := (*m.routes.Load())[key]
	if !ok {
		series = m.newRoute(key)
	}
	series.requests.Inc()
	series.seconds.Observe(took.Seconds())
}

// newRoute makes the series of a route and status.
func (m *metrics) newRoute(key routeStatus) routeSeries {
	route := strings.ReplaceAll(key.pattern, "/:", ":")
	if route == "" {
		route = "none"
	}
	series := routeSeries{m.requests.WithLabelValues(route, strconv.Itoa(key.status)), m.seconds.WithLabelValues(route)}
	m.routesMu.Lock()
	defer m.routesMu.Unlock()
	routes := maps.Clone(*m.routes.Load())
	routes[key] = series
	m.routes.Store(&routes)
	return series
}

func (m *metrics) reward(status serve.RewardStatus, err error) {
	var p *Problem
	if errors.As(err, &p) {
		return // the key may not reward this event
	}
	if err != nil {
		status = "refused"
	}
	m.rewards.WithLabelValues(string(status)).Inc()
}

// number is one number of the service or of a model, H being where it is.
type number[H any] struct {
	name, help string
	kind       prometheus.ValueType
	of         func(h *H) float64
}

var healthNumbers = []number[serve.Health]{
	{"troupe_ready", "1 when decisions and rewards are answered.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return one(h.Ready) }},
	{"troupe_log_damaged", "1 when the log is not what was written; the server is read-only.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return one(h.Damage != "") }},
	{"troupe_log_full", "1 when the last append was refused for room.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return one(h.Full) }},
	{"troupe_log_bytes", "Bytes that the log has, about.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.LogBytes) }},
	{"troupe_log_limit_bytes", "Bytes that the log may have; then it refuses.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.LogLimit) }},
	{"troupe_log_last_seq", "Last sequence that this process wrote.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Log) }},
	{"troupe_log_applied_seq", "Last sequence that was verified and folded.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Applied) }},
	{"troupe_log_lag", "Sequences written and not yet folded.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Lag) }},
	{"troupe_commit_batches_total", "Batches made durable.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Batches) }},
	{"troupe_commit_events_total", "Records in them.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Events) }},
	{"troupe_commit_retries_total", "Attempts to store a batch after the first.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Retries) }},
	{"troupe_commit_refused_total", "Batches that the log refused.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Refused) }},
	{"troupe_commit_void_total", "Batches that a cluster stored too late to count.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Void) }},
	{"troupe_commit_waiting_bytes", "Bytes waiting for the disk.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Committer.Waiting) }},
	{"troupe_snapshot_seq", "Sequence of the newest snapshot.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Snapshot) }},
	{"troupe_snapshot_failed", "1 when the last attempt to write a snapshot failed.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return one(h.SnapshotError != "") }},
	{"troupe_models", "Models.", prometheus.GaugeValue, func(h *serve.Health) float64 { return float64(h.Models) }},
	{"troupe_models_awake", "Models that are not laid aside.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Awake) }},
	{"troupe_model_bytes", "Memory that the models take, about.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.ModelBytes) }},
	{"troupe_open_events", "Decisions whose reward window is open.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Open) }},
	{"troupe_calls_in_flight", "Calls of the service at once.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.InFlight) }},
	{"troupe_calls_refused_total", "Calls answered too busy.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Refused) }},
	{"troupe_malformed_event_ids_total", "Texts sent as event ids that are none.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Malformed) }},
	{"troupe_forged_event_ids_total", "Event ids that this server did not make, or that were changed.", prometheus.CounterValue,
		func(h *serve.Health) float64 { return float64(h.Forged) }},
	{"troupe_log_missing_acked_total", "Event ids of this server whose decision is not in the log. Anything but 0 is " +
		"an alarm.", prometheus.CounterValue, func(h *serve.Health) float64 { return float64(h.Missing) }},
	{"troupe_recovery_seconds", "Time to fold the log at the start.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return h.Recovery.Took.Seconds() }},
	{"troupe_start_time_seconds", "Start of the server, seconds since 1970.", prometheus.GaugeValue,
		func(h *serve.Health) float64 { return float64(h.Started.UnixNano()) / 1e9 }},
}

var modelNumbers = []number[serve.Counts]{
	{"troupe_model_decisions_total", "Decisions of a model, over its life.", prometheus.CounterValue,
		func(c *serve.Counts) float64 { return float64(c.Decisions) }},
	{"troupe_model_rewards_total", "Rewards that counted.", prometheus.CounterValue,
		func(c *serve.Counts) float64 { return float64(c.Rewards) }},
	{"troupe_model_cumulative_reward", "Sum of the rewards that counted, defaults included.", prometheus.GaugeValue,
		func(c *serve.Counts) float64 { return c.RewardSum }},
	{"troupe_model_late_total", "Rewards after the window.", prometheus.CounterValue,
		func(c *serve.Counts) float64 { return float64(c.Late) }},
	{"troupe_model_defaulted_total", "Windows that closed without a reward and counted with the default reward.",
		prometheus.CounterValue, func(c *serve.Counts) float64 { return float64(c.Defaulted) }},
	{"troupe_model_expired_total", "Windows that closed without a reward.", prometheus.CounterValue,
		func(c *serve.Counts) float64 { return float64(c.Expired) }},
	{"troupe_model_open_events", "Decisions whose window is open.", prometheus.GaugeValue,
		func(c *serve.Counts) float64 { return float64(c.Open) }},
}

// noteNumbers are the counts of decisions by what encoding met, under the words of serve.Model.Notes.
var noteNumbers = []struct{ note, name, help string }{
	{"ignored", "troupe_model_ignored_features_total",
		"Decisions with a feature or a level that the schema of the model does not name."},
	{"clamped", "troupe_model_clamped_features_total",
		"Decisions with a number outside the range of the schema of the model."},
	{"type", "troupe_model_mistyped_features_total", "Decisions with a feature of another type than the model knows."},
	{"alike", "troupe_model_alike_candidates_total", "Decisions with candidates that the model cannot tell apart."},
}

// serviceCollector reads the health of the service when /metrics is asked.
type serviceCollector struct {
	svc   serve.NodeService
	descs []*prometheus.Desc // of healthNumbers
}

func newServiceCollector(svc serve.NodeService) serviceCollector {
	c := serviceCollector{svc: svc}
	for _, n := range healthNumbers {
		c.descs = append(c.descs, prometheus.NewDesc(n.name, n.help, nil, nil))
	}
	return c
}

// What a node of a cluster says of itself and of the others.
var (
	contactDesc = prometheus.NewDesc("troupe_cluster_contact_seconds",
		"Since this node last reached a majority of the cluster.", nil, nil)
	clockDesc = prometheus.NewDesc("troupe_cluster_clock_seconds", "This node's clock less the median of the nodes'.",
		nil, nil)
	leaderDesc = prometheus.NewDesc("troupe_cluster_leader", "1 for the node that leads the log.", []string{"node"},
		nil)
	liveDesc = prometheus.NewDesc("troupe_cluster_node_live", "1 when the node wrote a checkpoint in the last 3 s.",
		[]string{"node"}, nil)
	differsDesc = prometheus.NewDesc("troupe_cluster_node_differs",
		"1 when the digest of the node's models was not this node's when they were compared last.", []string{"node"},
		nil)
	electDesc = prometheus.NewDesc("troupe_cluster_elections_total",
		"How often another node led the log than before.", nil, nil)
	unwrittenDesc = prometheus.NewDesc("troupe_cluster_unwritten_entries_total",
		"Entries of the log that have no effect because no node of the cluster has written them. Anything but 0 is an "+
			"alarm.", nil, nil)
	declaredDesc = prometheus.NewDesc("troupe_cluster_declared_void_entries_total",
		"Entries of the log that have no effect because an operator has declared them void.", nil, nil)
	drainedDesc = prometheus.NewDesc("troupe_cluster_drained", "1 when this node is drained and may be stopped.", nil,
		nil)
	mayStopDesc = prometheus.NewDesc("troupe_cluster_may_stop",
		"1 for a node that may be stopped now without a pause for more than an election, as this node knows the others.",
		[]string{"node"}, nil)
	damagedDesc = prometheus.NewDesc("troupe_cluster_replica_damaged",
		"1 when the files of this node's replica are known to be damaged.", nil, nil)
	repairsDesc = prometheus.NewDesc("troupe_cluster_replica_repairs_total",
		"How often the files of this node's replica were damaged and made anew from the other nodes, over all starts.",
		nil, nil)
	verifiedDesc = prometheus.NewDesc("troupe_cluster_replica_verified_timestamp_seconds",
		"Unix time at which all files of this node's replica were read last and were whole.", nil, nil)
	followDesc = prometheus.NewDesc("troupe_backup_asked_timestamp_seconds",
		"Unix time at which a backup that follows the log has asked this server last, for a day.", []string{"backup"}, nil)
	trustDesc = prometheus.NewDesc("troupe_cluster_attested",
		"1 when the NATS servers of others that have the log are known to keep what they acknowledge; by is servers, "+
			"or who vouches for them.", []string{"by"}, nil)
	behindDesc = prometheus.NewDesc("troupe_cluster_replica_lag",
		"How many entries a node's replica of the log is behind its leader, as the leader says.", []string{"node"}, nil)
	offsetDesc = prometheus.NewDesc("troupe_cluster_node_clock_seconds", "A node's clock less this node's, about.",
		[]string{"node"}, nil)
	baseDesc = prometheus.NewDesc("troupe_cluster_base_seq",
		"Entry of the newest base of the log, 0 when it was never trimmed.", nil, nil)
	trimDesc = prometheus.NewDesc("troupe_cluster_trim_pending",
		"1 while entries wait to be removed that a base takes the place of.", nil, nil)
	ownBaseDesc = prometheus.NewDesc("troupe_cluster_node_base_seq",
		"Entry of the newest base that the node has, as its newest checkpoint says.", []string{"node"}, nil)
	certDesc = prometheus.NewDesc("troupe_cluster_certificate_end_timestamp_seconds",
		"Unix time until which the certificate that this node shows the others is valid.", nil, nil)
	nodeDesc = prometheus.NewDesc("troupe_cluster_node_applied_seq",
		"The newest entry that the node had applied in its newest checkpoint.", []string{"node"}, nil)
)

func (c serviceCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range append(c.descs, contactDesc, clockDesc, leaderDesc, liveDesc, differsDesc, electDesc, drainedDesc,
		mayStopDesc,
		damagedDesc, behindDesc, offsetDesc, nodeDesc, baseDesc, trimDesc, ownBaseDesc, trustDesc, unwrittenDesc,
		declaredDesc, certDesc, repairsDesc, verifiedDesc, followDesc) {
		out <- d
	}
}

func (c serviceCollector) cluster(x *serve.ClusterHealth, out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(contactDesc, x.Contact)
	gauge(clockDesc, x.Clock)
	gauge(drainedDesc, one(x.Drained))
	gauge(damagedDesc, one(x.Damage != ""))
	gauge(baseDesc, float64(x.Base))
	gauge(trimDesc, one(x.Trim != ""))
	out <- prometheus.MustNewConstMetric(electDesc, prometheus.CounterValue, float64(x.Elections))
	out <- prometheus.MustNewConstMetric(unwrittenDesc, prometheus.CounterValue, float64(x.Unwritten))
	out <- prometheus.MustNewConstMetric(declaredDesc, prometheus.CounterValue, float64(x.Declared))
	out <- prometheus.MustNewConstMetric(repairsDesc, prometheus.CounterValue, float64(x.Repairs))
	if x.Verified != nil {
		gauge(verifiedDesc, float64(x.Verified.Unix()))
	}
	if x.CertificateEnds != nil {
		gauge(certDesc, float64(x.CertificateEnds.Unix()))
	}
	if x.Attested != nil {
		gauge(trustDesc, one(x.Attested.Is), x.Attested.By)
	}
	for _, r := range x.Replicas {
		gauge(leaderDesc, one(r.Leader), r.Name)
		gauge(behindDesc, float64(r.Lag), r.Name)
	}
	mayStop := serve.MayStop(x.Fitness())
	for _, n := range x.Nodes {
		gauge(mayStopDesc, one(slices.Contains(mayStop, n.Name)), n.Name)
		gauge(liveDesc, one(n.Live), n.Name)
		gauge(differsDesc, one(n.Differs), n.Name)
		gauge(nodeDesc, float64(n.Applied), n.Name)
		gauge(offsetDesc, n.Clock, n.Name)
		gauge(ownBaseDesc, float64(n.Base), n.Name)
	}
}

func (c serviceCollector) Collect(out chan<- prometheus.Metric) {
	h := c.svc.Health()
	for i, n := range healthNumbers {
		out <- prometheus.MustNewConstMetric(c.descs[i], n.kind, n.of(&h))
	}
	for _, f := range h.Followers {
		out <- prometheus.MustNewConstMetric(followDesc, prometheus.GaugeValue, float64(f.Time.Unix()), f.Name)
	}
	if h.Cluster != nil {
		c.cluster(h.Cluster, out)
	}
}

// modelCollector reads the models that a key sees, at most maxModelLabels of them.
type modelCollector struct {
	svc            serve.ModelService
	key            *holder
	descs          []*prometheus.Desc // of modelNumbers
	notes          []*prometheus.Desc // of noteNumbers
	explained, far *prometheus.Desc
	failed         *prometheus.Desc

	noticed *prometheus.Desc
}

func newModelCollector(svc serve.ModelService, key *holder) modelCollector {
	label := []string{"model"}
	c := modelCollector{svc: svc, key: key, failed: prometheus.NewDesc("troupe_model_failed",
		"1 when the policy of a model could not make the newest decision.", label, nil),
		noticed: prometheus.NewDesc("troupe_model_rewards_changed_event",
			"Learned events before the rewards of a model changed, as it noticed last; 0 when it noticed nothing.",
			label, nil)}
	for _, n := range modelNumbers {
		c.descs = append(c.descs, prometheus.NewDesc(n.name, n.help, label, nil))
	}
	for _, n := range noteNumbers {
		c.notes = append(c.notes, prometheus.NewDesc(n.name, n.help, label, nil))
	}
	c.explained = prometheus.NewDesc("troupe_model_explained_ratio",
		"Share of the variance of the rewards that a model that reads requests explains.", label, nil)
	c.far = prometheus.NewDesc("troupe_model_far_rewards",
		"Rewards that are far from all others: each counts as their mean until there is a second one.", label, nil)
	return c
}

func (c modelCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range append(slices.Concat(c.descs, c.notes), c.explained, c.far) {
		out <- d
	}
	out <- c.failed
	out <- c.noticed
}

func (c modelCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	seen := 0
	for after, more := "", true; more && seen < maxModelLabels; {
		var models []serve.Model
		var err error
		if models, more, err = c.svc.ListModels(ctx, after, maxModelLabels); err != nil || len(models) == 0 {
			return
		}
		for _, m := range models {
			after = m.Name
			if !c.key.sees(m.Name) || seen == maxModelLabels {
				continue
			}
			seen++
			for i, n := range modelNumbers {
				out <- prometheus.MustNewConstMetric(c.descs[i], n.kind, n.of(&m.Counts), m.Name)
			}
			for i, n := range noteNumbers {
				out <- prometheus.MustNewConstMetric(c.notes[i], prometheus.CounterValue, float64(m.Notes[n.note]),
					m.Name)
			}
			if e := m.Explained; e != nil {
				out <- prometheus.MustNewConstMetric(c.explained, prometheus.GaugeValue, e.Share, m.Name)
				out <- prometheus.MustNewConstMetric(c.far, prometheus.GaugeValue, float64(len(e.Far)), m.Name)
			}
			var noticed uint64
			if m.Noticed != nil {
				noticed = m.Noticed.At
			}
			out <- prometheus.MustNewConstMetric(c.noticed, prometheus.GaugeValue, float64(noticed), m.Name)
			out <- prometheus.MustNewConstMetric(c.failed, prometheus.GaugeValue, one(m.Failed != ""), m.Name)
		}
	}
}
