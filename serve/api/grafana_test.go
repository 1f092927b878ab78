package api

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/golden"
	"troupe/serve"
)

// panel is a picture of the Grafana board.
type panel struct {
	title, unit string
	stat        bool     // the newest value as a number, otherwise lines over time
	queries     []string // expressions of PromQL, each followed by its legend
}

// board is the Grafana board, by the questions that an operator has.
var board = []struct {
	question string
	panels   []panel
}{
	{"Does it answer?", []panel{
		{"Ready", "bool_yes_no", true, []string{`min(troupe_ready{instance=~"$instance"})`, "ready"}},
		{"Log is whole", "bool_yes_no", true, []string{`1 - max(troupe_log_damaged{instance=~"$instance"})`, "whole"}},
		{"Models that fail", "none", true, []string{`sum(troupe_model_failed{instance=~"$instance"}) or vector(0)`, "models"}},
		{"Up for", "s", true, []string{`time() - max(troupe_start_time_seconds{instance=~"$instance"})`, "{{instance}}"}},
		{"Answers by status", "reqps", false, []string{`sum by (status) (rate(troupe_http_requests_total{instance=~"$instance"}[$__rate_interval]))`, "{{status}}"}},
		{"Refused for load", "reqps", false, []string{
			`sum(rate(troupe_decisions_shed_total{instance=~"$instance"}[$__rate_interval]))`, "decisions that waited too long",
			`sum(rate(troupe_calls_refused_total{instance=~"$instance"}[$__rate_interval]))`, "calls too many",
			`sum(rate(troupe_connections_refused_total{instance=~"$instance"}[$__rate_interval]))`, "connections"}},
	}},
	{"How fast?", []panel{
		{"Time of a decision", "s", false, []string{
			`histogram_quantile(0.5, sum by (le) (rate(troupe_http_request_seconds_bucket{instance=~"$instance", route=~".*:decide"}[$__rate_interval])))`, "half below",
			`histogram_quantile(0.99, sum by (le) (rate(troupe_http_request_seconds_bucket{instance=~"$instance", route=~".*:decide"}[$__rate_interval])))`, "99% below"}},
		{"Decisions that wait", "none", false, []string{`troupe_decisions_waiting{instance=~"$instance"}`, "{{instance}}"}},
		{"Processor time", "percentunit", false, []string{`rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}"}},
	}},
	{"Is there room?", []panel{
		{"Log", "percentunit", false, []string{`troupe_log_bytes{instance=~"$instance"} / troupe_log_limit_bytes{instance=~"$instance"}`, "part of --max-log, {{instance}}"}},
		{"Memory", "bytes", false, []string{
			`process_resident_memory_bytes{instance=~"$instance"}`, "process, {{instance}}",
			`troupe_model_bytes{instance=~"$instance"}`, "models, {{instance}}"}},
		{"Open windows", "none", false, []string{`troupe_open_events{instance=~"$instance"}`, "{{instance}}"}},
		{"Entries not yet applied", "none", false, []string{`troupe_log_lag{instance=~"$instance"}`, "{{instance}}"}},
	}},
	{"Do the models earn?", []panel{
		{"Decisions", "ops", false, []string{`sum by (model) (rate(troupe_model_decisions_total{instance=~"$instance", model=~"$model"}[$__rate_interval]))`, "{{model}}"}},
		{"Mean reward of an hour", "none", false, []string{`sum by (model) (delta(troupe_model_cumulative_reward{instance=~"$instance", model=~"$model"}[1h])) / (sum by (model) (increase(troupe_model_rewards_total{instance=~"$instance", model=~"$model"}[1h])) + sum by (model) (increase(troupe_model_defaulted_total{instance=~"$instance", model=~"$model"}[1h])))`, "{{model}}"}},
		{"Rewards by what became of them", "ops", false, []string{`sum by (status) (rate(troupe_rewards_total{instance=~"$instance"}[$__rate_interval]))`, "{{status}}"}},
		{"Late rewards", "ops", false, []string{`sum by (model) (rate(troupe_model_late_total{instance=~"$instance", model=~"$model"}[$__rate_interval]))`, "{{model}}"}},
		{"Rewards changed at event", "none", false, []string{`troupe_model_rewards_changed_event{instance=~"$instance", model=~"$model"}`, "{{model}}"}},
	}},
	{"Is the cluster whole?", []panel{
		{"Nodes that are live", "none", false, []string{`sum by (instance) (troupe_cluster_node_live{instance=~"$instance"})`, "seen by {{instance}}"}},
		{"Since a majority was reached", "s", false, []string{`troupe_cluster_contact_seconds{instance=~"$instance"}`, "{{instance}}"}},
		{"Leader", "none", false, []string{`max by (node) (troupe_cluster_leader{instance=~"$instance"})`, "{{node}}"}},
		{"Clock", "s", false, []string{`troupe_cluster_clock_seconds{instance=~"$instance"}`, "{{instance}}"}},
	}},
}

var metricName = regexp.MustCompile(`\b(troupe|process)_[a-z_]+\b`)

// scraped returns /metrics of a server on which every metric has a value.
func scraped(t *testing.T) string {
	t.Helper()
	f := newFake("news")
	f.health.Cluster = &serve.ClusterHealth{Node: "a", Nodes: []serve.NodeHealth{{Name: "a", Live: true}}, Replicas: []eventlog.Replica{{Name: "a", Leader: true}},
		Attested: &serve.Attested{By: serve.AttestedByServers}, CertificateEnds: &time.Time{}, Verified: &time.Time{}}
	f.health.Followers = []serve.Follower{{Name: "a", Time: time.Unix(1, 0)}}
	e := newEdge(t, f, Options{})
	e.do("POST", "/v1/events/x:reward", `{"value": 1}`) // a counter with labels is there once it counted
	return e.do("GET", "/metrics", "").body
}

// TestGrafana writes docs/reference/grafana.json from the board above and from what /metrics says of each metric, and holds
// its names to /metrics.
func TestGrafana(t *testing.T) {
	metrics := scraped(t)
	help := map[string]string{}
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
			help[name] = text
		}
	}
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	y, id := 0, 0
	for _, row := range board {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": row.question, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}})
		y++
		x, height := 0, 0
		for _, p := range row.panels {
			w, h, kind := 8, 8, "timeseries"
			if p.stat {
				w, h, kind = 6, 4, "stat"
			}
			if x+w > 24 || height != 0 && h != height {
				x, y = 0, y+height
			}
			height = h
			var targets []object
			var about []string
			for i := 0; i < len(p.queries); i += 2 {
				for _, name := range metricName.FindAllString(p.queries[i], -1) {
					base := strings.TrimSuffix(name, "_bucket")
					if help[base] == "" {
						t.Errorf("panel %q asks for %s, which /metrics does not have", p.title, name)
					}
					if line := base + ": " + help[base]; len(about) == 0 || !strings.Contains(strings.Join(about, "\n"), line) {
						about = append(about, line)
					}
				}
				targets = append(targets, object{"refId": string(rune('A' + i/2)), "datasource": source, "expr": p.queries[i], "legendFormat": p.queries[i+1]})
			}
			id++
			panels = append(panels, object{"id": id, "type": kind, "title": p.title, "description": strings.Join(about, "\n"), "datasource": source,
				"gridPos": object{"h": h, "w": w, "x": x, "y": y}, "targets": targets, "fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0}, "overrides": []any{}}})
			if p.title == "Clock" || p.title == "Mean reward of an hour" { // may be below 0
				delete(panels[len(panels)-1]["fieldConfig"].(object)["defaults"].(object), "min")
			}
			x += w
		}
		y += height
	}
	variable := func(name, label, query string) object {
		return object{"name": name, "label": label, "type": "query", "datasource": source, "query": object{"query": query, "refId": name}, "definition": query,
			"includeAll": true, "multi": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"}, "refresh": 2, "sort": 1}
	}
	b, err := json.MarshalIndent(object{
		"title": "troupe", "uid": "troupe", "tags": []string{"troupe"}, "editable": true, "schemaVersion": 39, "refresh": "30s", "timezone": "browser",
		"time": object{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
			variable("instance", "Server", "label_values(troupe_info, instance)"),
			variable("model", "Model", `label_values(troupe_model_decisions_total{instance=~"$instance"}, model)`)}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../docs/reference/grafana.json", strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(b))+"\n")
}
