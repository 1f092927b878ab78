package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve"
	"troupe/serve/api"
)

const (
	openAgain = time.Second     // after the log gave no answer while the server opened
	goneAgain = 5 * time.Second // after the servers said that there is no log
	saidAgain = time.Minute     // the reason in the log
)

// joining is a node of a cluster whose log is not there yet. It answers at once, and waits without end: after a loss
// of power all machines start together and are busy, and a node that ends by itself would have to be started by hand.
type joining struct {
	node   logServer
	reason atomic.Pointer[string]
	server *http.Server
	served chan struct{}
}

// answerEarly begins to answer on a listener, which close closes.
func answerEarly(node logServer, in *serveInputs, listener net.Listener) *joining {
	o := &joining{node: node, served: make(chan struct{})}
	o.say("it starts")
	o.server = &http.Server{Handler: api.Waiting(in.keys, node.name(), o.why), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	if in.certs != nil {
		o.server.TLSConfig = in.certs.config()
		listener = tls.NewListener(listener, o.server.TLSConfig)
	}
	go func() {
		defer close(o.served)
		_ = o.server.Serve(listener)
	}()
	return o
}

func (o *joining) close() {
	_ = o.server.Close()
	<-o.served
}

func (o *joining) say(reason string) { o.reason.Store(&reason) }

// why is the reason why the node is not ready: what it waits for, and what became of the newest try.
func (o *joining) why() string {
	if w := o.node.waits(); w != "" {
		return "this node waits for the log of the cluster: " + w
	}
	return "this node waits for the log of the cluster: " + *o.reason.Load()
}

// open opens the log and the server on it. It tries again while the log gives no answer, until ctx ends.
func (o *joining) open(ctx context.Context, options serve.Options, logger *slog.Logger) (*serve.Server, error) {
	if err := o.node.open(ctx, &options); err != nil {
		return nil, err
	}
	var said sync.Once
	for {
		o.say("it folds its entries")
		server, err := serve.Open(ctx, options)
		if !errors.Is(err, eventlog.ErrSilent) || ctx.Err() != nil {
			return server, err
		}
		o.say(err.Error())
		said.Do(func() { logger.Warn("the log does not answer yet; this node waits", "error", err.Error()) })
		if !options.Clock.Sleep(ctx, openAgain) {
			return nil, err
		}
	}
}
