package api

import (
	"net/http"
	"strings"
)

// hotRoute is one of the hot routes, or none.
type hotRoute int

const (
	notHot hotRoute = iota
	hotDecide
	hotDecides
	hotReward
	hotRewards
)

// hotOperations are those that a running application calls all the time. Both ways to serve them (hot.go) take them
// from here.
var hotOperations = [...]op{
	hotDecide: {id: "decide", method: "POST", path: "/v1/models/{model}:decide", scope: Decide, body: decideBody{},
		summary: "Choose an action",
		doc: "The answer has the event's id, the action, its exact propensity as a quotient of integers, and the " +
			"log entry that holds it. 200 means durable."},
	hotDecides: {id: "decideBatch", method: "POST", path: "/v1/models/{model}:decideBatch", scope: Decide,
		body:    decideBatchBody{},
		summary: "Choose many actions on one state",
		doc: "At most 256, decided on one state: basis_seq is the same in all, and at least the largest min_seq among them. " +
			"A bad request gets a problem of its own. With the header Idempotency-Key " +
			"item i has the key KEY/i, so a repeated batch makes no new decisions."},
	hotReward: {id: "reward", method: "POST", path: "/v1/events/{event}:reward", scope: Reward, body: rewardBody{},
		summary: "Send a reward",
		doc: "status: accepted; duplicate (the event has its reward); late (the window is closed; recorded, does " +
			"not count); ignored (recorded, does not count). Repeating a call is safe."},
	hotRewards: {id: "rewardBatch", method: "POST", path: "/v1/rewards:batch", scope: Reward, body: rewardBatchBody{},
		summary: "Send many rewards",
		doc: "At most 10,000, each with its own result or problem. A server takes as many as one request may keep its processor busy " +
			"with: rewards behind them have the problem too_busy (429), nothing of them is recorded, and they are sent again in " +
			"another request."},
}

// hotPath is how a hot route is recognised: the path of its operation around the model or the event that it names.
type hotPath struct {
	prefix, suffix string
	name           int    // longest name, 0 for a path without one
	key            int    // longest idempotency key, so that those of a batch's items are at most 256
	pattern        string // in the metrics and the log
}

var hotPaths = [...]hotPath{
	hotDecide:  pathOf(hotDecide, 64, 256),
	hotDecides: pathOf(hotDecides, 64, 252),
	hotReward:  pathOf(hotReward, 256, 256),
	hotRewards: pathOf(hotRewards, 0, 256),
}

func pathOf(route hotRoute, name, key int) hotPath {
	o := hotOperations[route]
	p := hotPath{prefix: o.path, name: name, key: key, pattern: o.method + " " + splitVerb(o.path)}
	if name > 0 {
		from, to := strings.IndexByte(o.path, '{'), strings.IndexByte(o.path, '}')
		p.prefix, p.suffix = o.path[:from], o.path[to+1:]
	}
	return p
}

// hot returns the hot route of a request and the model or event that it names, or notHot.
func hot(r *http.Request) (route hotRoute, name string) {
	u := r.URL
	if r.Method != http.MethodPost || u.RawPath != "" || u.RawQuery != "" || u.ForceQuery || r.ContentLength <= 0 ||
		len(r.TransferEncoding) > 0 {
		return notHot, ""
	}
	for route = hotDecide; ; route++ {
		if route > hotRewards {
			return notHot, ""
		}
		p := &hotPaths[route]
		if p.name == 0 && u.Path == p.prefix {
			return route, ""
		}
		if p.name > 0 && len(u.Path) > len(p.prefix)+len(p.suffix) && strings.HasPrefix(u.Path, p.prefix) &&
			strings.HasSuffix(u.Path, p.suffix) {
			name = u.Path[len(p.prefix) : len(u.Path)-len(p.suffix)]
			break
		}
	}
	if len(name) > hotPaths[route].name {
		return notHot, ""
	}
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return notHot, ""
		}
	}
	return route, name
}

// plainHeaders reports whether the headers that change what a body means or how an answer looks are absent or usual,
// and returns the idempotency key.
func plainHeaders(h http.Header, most int) (key string, ok bool) {
	for _, name := range []string{"Content-Type", "Accept"} {
		if v := h[name]; len(v) > 1 || len(v) == 1 && v[0] != "application/json" &&
			(name != "Accept" || v[0] != "*/*") {
			return "", false
		}
	}
	if h["Content-Encoding"] != nil || h[timeoutHeader] != nil && patience(h[timeoutHeader]) == 0 {
		return "", false
	}
	v := h["Idempotency-Key"]
	if len(v) == 0 {
		return "", true
	}
	if key = v[0]; len(v) > 1 || len(key) > most {
		return "", false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return "", false
		}
	}
	return key, true
}
