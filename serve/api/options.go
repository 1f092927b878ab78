package api

import (
	"log/slog"
	"time"

	"troupe/timing"
)

// Options configure the edge. Zero fields stand for the defaults.
type Options struct {
	// Keys are the API keys and their scopes; nil allows every request everything, which is for loopback.
	Keys *Keys
	// Hosts are the names under which the server may be called, in the header Host; nil means any.
	// LoopbackHosts are right for a server on loopback: a page of another site that makes a browser
	// resolve its own name to 127.0.0.1 is refused.
	Hosts []string
	// Origins are the pages of other sites that may call from a browser, as in the header Origin (CheckOrigin). They may
	// decide and reward, with a key that has no other scope; so there must be Keys. nil means none.
	Origins []string
	// Adapters are other APIs in front of the same service, for the clients of other products. Close closes them.
	Adapters []Adapter
	// MaxBody bounds the bytes of a body, default 1 MiB.
	MaxBody int64
	// MaxActions bounds K in one decision, default 1000.
	MaxActions int
	// Concurrent bounds the requests at once, default 1024, and apart from them those with rewards and activations;
	// more are answered 429.
	Concurrent int
	// Connections bounds the open connections, default 4096, of which an address holds at most three quarters. Beyond, the
	// one that is idle longest is closed; where none is idle what comes is closed without an
	// answer. Each takes a file descriptor, and without one the log could not go on.
	Connections int
	// Timeout bounds one request, default 10 s.
	Timeout time.Duration
	// Data is the data directory, for /metrics and the status page.
	Data string
	// Version is what the pages and the OpenAPI document call this program.
	Version string
	// Logger gets one line for a request that failed, and with Debug one for every request. It
	// gets no features, no rewards, no secrets.
	Logger *slog.Logger
	// Clock is the machine's when it is not set. Deadlines of connections are the machine's in any case.
	Clock timing.Clock
}

func (o *Options) setDefaults() {
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.MaxActions == 0 {
		o.MaxActions = 1000
	}
	if o.Concurrent == 0 {
		o.Concurrent = 1024
	}
	if o.Connections == 0 {
		o.Connections = 4096
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Version == "" {
		o.Version = "devel"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// LoopbackHosts are the names of a server that listens on loopback.
var LoopbackHosts = []string{"localhost", "127.0.0.1", "::1"}
