package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	lent   *lentListener
	served chan struct{}
}

// answerEarly begins to answer on a listener. giveBack returns it.
func answerEarly(node logServer, in *serveInputs, listener net.Listener) *joining {
	o := &joining{node: node, lent: &lentListener{Listener: listener}, served: make(chan struct{})}
	listener = o.lent
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

// giveBack ends the early answers and returns the listener, which stays open: nobody is refused, and connections that were
// not accepted yet belong to the next server. A call that was sent to this one still gets its answer, which is the last of
// its connection; http.Server.Shutdown would drop what it has read and not begun. Connections that send nothing end after
// ReadHeaderTimeout.
func (o *joining) giveBack() (net.Listener, error) {
	if err := o.lent.Close(); err != nil {
		return nil, err
	}
	<-o.served
	return o.lent.Listener, o.lent.deadline(time.Time{})
}

// lentListener is a listener that a server uses for a while: Close ends its Accept, and leaves the listener open.
type lentListener struct {
	net.Listener
	returned atomic.Bool
}

func (l *lentListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && l.returned.Load() {
		return nil, net.ErrClosed
	}
	return c, err
}

func (l *lentListener) Close() error {
	l.returned.Store(true)
	return l.deadline(time.Unix(1, 0))
}

// deadliner is a listener that ends its Accept at a time.
type deadliner interface{ SetDeadline(time.Time) error }

var (
	_ deadliner = (*net.TCPListener)(nil)
	_ deadliner = (*net.UnixListener)(nil)
)

// deadline sets the time at which Accept returns. Ports and sockets have one.
func (l *lentListener) deadline(at time.Time) error {
	d, ok := l.Listener.(deadliner)
	if !ok {
		return fmt.Errorf("a listener of type %T cannot be given back", l.Listener)
	}
	return d.SetDeadline(at)
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
