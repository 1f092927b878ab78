package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/eventlog"
)

// What a server of a NATS cluster that others run must say of itself before a log is kept there: that it syncs every
// write, and a version that this program was tested with. The system account answers $SYS.REQ.SERVER.PING.JSZ with one
// report of each server.

// OldestServer is the oldest version of NATS servers that may have a log, NextServer the first one that may not: what
// is fixed later in the same line of versions is welcome, and an unknown line is not.
const (
	OldestServer = "2.15.2"
	NextServer   = "2.16.0"
)

// AttestError says why the servers of a log are not known to keep what they acknowledge.
type AttestError struct {
	Server string // its name, empty when it is not about one
	Reason string
	// Silent: something was not said, which passes when an answer was only late. Otherwise a server has said what is
	// wrong.
	Silent bool
}

// Error says in one line what is wrong.
func (e *AttestError) Error() string {
	if e.Server == "" {
		return e.Reason
	}
	return "the NATS server " + e.Server + " " + e.Reason
}

// serverReport is what a server says of itself.
type serverReport struct {
	Server struct {
		Name      string `json:"name"`
		Cluster   string `json:"cluster"`
		Version   string `json:"ver"`
		JetStream bool   `json:"jetstream"`
	} `json:"server"`
	Data *struct {
		Disabled bool `json:"disabled"`
		Config   struct {
			SyncAlways   bool          `json:"sync_always"`
			SyncInterval time.Duration `json:"sync_interval"`
		} `json:"config"`
		Meta *struct {
			Replicas []eventlog.Replica `json:"replicas"` // of the engine's own group, from its leader only
		} `json:"meta_cluster"`
	} `json:"data"`
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

// judgeReports returns why a log whose replicas are at peers, in a cluster of NATS, may not be trusted, nil when it
// may. Every server with JetStream in the cluster must report well, because the engine may place the log on any of
// them. A server that has the log must report, unless it is away; then those that report must be a majority. peers is
// empty before there is a log: then replicas servers must report.
func judgeReports(cluster string, peers []eventlog.Replica, replicas int, reports []serverReport) error {
	reported, answered := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		s := r.Server
		answered[s.Name] = true
		if s.Cluster != cluster {
			continue
		}
		has := slices.ContainsFunc(peers, func(p eventlog.Replica) bool { return p.Name == s.Name })
		switch {
		case r.Error != nil:
			return &AttestError{s.Name, "reports an error: " + r.Error.Description, false}
		case r.Data == nil || r.Data.Disabled || !s.JetStream:
			if has {
				// it may be starting
				return &AttestError{s.Name, "has the log and reports that its JetStream is off", true}
			}
			continue
		case !allowedServer(s.Version):
			return &AttestError{s.Name, fmt.Sprintf("reports the version %q, expected %s or later, below %s", s.Version,
				OldestServer, NextServer), false}
		case !r.Data.Config.SyncAlways:
			return &AttestError{s.Name, fmt.Sprintf("reports sync_always: false (it syncs every %v), so it loses "+
				"what it has acknowledged when its power goes: set sync_interval: always in its jetstream block",
				r.Data.Config.SyncInterval), false}
		}
		reported[s.Name] = true
	}
	if len(reported) == 0 {
		return &AttestError{"", "no NATS server with JetStream in the cluster of the log answers: are these the " +
			"credentials of its system account?", true}
	}
	for _, r := range reports {
		if r.Data == nil || r.Data.Meta == nil {
			continue
		}
		for _, p := range r.Data.Meta.Replicas {
			if !answered[p.Name] && !away(&p) {
				return &AttestError{p.Name, "may have the log and does not report", true}
			}
		}
	}
	here := 0
	for _, p := range peers {
		switch {
		case reported[p.Name]:
			here++
		case !away(&p):
			return &AttestError{p.Name, "has the log and does not report", true}
		}
	}
	switch {
	case len(peers) == 0 && len(reported) < replicas:
		return &AttestError{"", fmt.Sprintf("NATS servers with JetStream that report: %d, expected at least %d, "+
			"which are to have the log", len(reported), replicas), true}
	case here <= len(peers)/2 && len(peers) > 0:
		return &AttestError{"", fmt.Sprintf("%d of the %d NATS servers that have the log report, expected a majority",
			here, len(peers)), true}
	}
	return nil
}

// away reports whether a server is stopped or cut off, so that it acknowledges nothing: the leader of its group has not
// heard of it. Of one that was killed the engine itself says so after minutes only, and a leader that never heard of it
// says 0.
func away(p *eventlog.Replica) bool {
	return p.Offline || !p.Leader && (p.Active > peerAway || p.Active == 0 && !p.Current)
}

const peerAway = 4 * time.Second // servers say something to their leader each second

// allowedServer reports whether a version is at least OldestServer and below NextServer. Previews of any version are
// not allowed.
func allowedServer(version string) bool {
	v, ok := parseVersion(version)
	oldest, _ := parseVersion(OldestServer)
	next, _ := parseVersion(NextServer)
	return ok && slices.Compare(v, oldest) >= 0 && slices.Compare(v, next) < 0
}

func parseVersion(text string) (v []int, ok bool) {
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, false
		}
		v = append(v, int(n))
	}
	return v, len(v) == 3
}

const (
	reportWait = 2 * time.Second        // for the reports of all servers
	reportMore = 250 * time.Millisecond // for one more, when nothing says how many there are
	mostServer = 1000                   // reports that are read
)

// askServers collects the reports of all servers over a connection of the system account. It returns when those of the
// replicas and of the servers in the engine's own group are there, or after reportWait.
func askServers(ctx context.Context, nc *nats.Conn, peers []eventlog.Replica) ([]serverReport, error) {
	ctx, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, nil); err != nil {
		return nil, err
	}
	missing, group := map[string]bool{}, false
	for _, p := range peers {
		missing[p.Name] = !away(&p)
	}
	var out []serverReport
	for len(out) < mostServer {
		wait, stop := ctx, context.CancelFunc(func() {})
		if len(out) > 0 && all(missing) {
			if group {
				return out, nil
			}
			wait, stop = context.WithTimeout(ctx, reportMore)
		}
		m, err := sub.NextMsgWithContext(wait)
		stop()
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
			// what is missing is for the judge
			return out, nil
		case err != nil:
			return nil, err
		}
		var r serverReport
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return nil, fmt.Errorf("a server's report is not readable: %w", err)
		}
		out = append(out, r)
		if r.Data != nil && r.Data.Meta != nil && len(r.Data.Meta.Replicas) > 0 {
			group = true
			for _, p := range r.Data.Meta.Replicas {
				if _, known := missing[p.Name]; !known {
					missing[p.Name] = !away(&p)
				}
			}
		}
		missing[r.Server.Name] = false
	}
	return out, nil
}

// all reports whether nothing is missing.
func all(missing map[string]bool) bool {
	for _, m := range missing {
		if m {
			return false
		}
	}
	return true
}
