package raftnet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog"
	"troupe/eventlog/raftlog"
	"troupe/timing"
)

// Options say who this node is and how it speaks.
type Options struct {
	Cluster  eventlog.ID
	ID       uint64
	Listener net.Listener
	// TLS has the certificate of this node, and in RootCAs and ClientCAs who vouches for those of the others. Both sides of a
	// connection must show one.
	TLS *tls.Config
	// Check refuses certificates, for instance revoked ones. It may be nil. Recheck applies it to open connections.
	Check func(raftlog.Member, *x509.Certificate) error
	// Dial makes a connection to a node, to its address when it is nil.
	Dial  func(context.Context, raftlog.Member) (net.Conn, error)
	Clock timing.Clock
	Logf  func(format string, a ...any) // may be nil
}

// Node takes what the others send. *raftlog.Log is one.
type Node interface {
	Receive(group uint16, m *pb.Message)
	File(group uint16, first uint64, b []byte, at int64) error
}

// Answers is a Node that answers questions (Net.Call).
type Answers interface {
	Node
	// Answer returns the answer to a question of the node that has this name in its certificate. It need not be a member. An error goes
	// to the caller as a text.
	Answer(ctx context.Context, name string, question []byte) ([]byte, error)
}

var (
	_ Node            = (*raftlog.Log)(nil)
	_ raftlog.Network = (*Net)(nil)
	_ raftlog.Peers   = (*Net)(nil)
)

// Times of a connection. A side that hears nothing for quiet takes it for dead. A message that waited for stale is thrown away.
const (
	pingEvery   = 500 * time.Millisecond
	quiet       = time.Second
	quietLarge  = 10 * time.Second // on the connection of entries, where a batch may take long
	handshake   = 2 * time.Second
	dialAgain   = 200 * time.Millisecond
	stale       = time.Second
	fetchWithin = 30 * time.Second
)

// Bounds of what waits for a connection, and of connections.
const (
	maxQueued      = 4096
	maxQueuedBytes = 8 << 20
	maxAccepted    = 64
)

// Net is the network of a node. Its methods may be called from many goroutines.
type Net struct {
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	slots  chan struct{} // of accepted connections
	node   atomic.Pointer[Node]

	mu       sync.Mutex
	peers    map[uint64]*peer
	accepted map[net.Conn]accepted
	closed   bool
	refused  atomic.Uint64
	said     atomic.Pointer[string] // the newest reason for a refusal, which is not said each 200 ms
}

type accepted struct {
	from uint64
	lane lane
	cert *x509.Certificate
}

type peer struct {
	member raftlog.Member
	cancel context.CancelFunc
	lanes  map[lane]*link
	fetch  sync.Mutex // a fetch at a time
	conn   *tls.Conn  // of fetches, nil for none
}

// link is a connection that this node makes, and what waits for it.
type link struct {
	net  *Net
	to   raftlog.Member
	lane lane

	mu    sync.Mutex
	queue []queued
	bytes int
	wake  chan struct{}      // capacity 1
	stop  context.CancelFunc // of the present connection, nil for none
	live  atomic.Bool
}

type queued struct {
	group uint16
	m     *pb.Message
	size  int
	at    timing.Instant
}

// New makes the network of a node. The peers are those that are there before a log tells of others. Close must be called; it closes the
// listener too.
func New(o Options, peers ...raftlog.Member) (*Net, error) {
	switch {
	case o.Cluster == 0 || o.ID == 0:
		return nil, fmt.Errorf("raftnet: cluster = %v, id = %d, want both", o.Cluster, o.ID)
	case o.Listener == nil:
		return nil, errors.New("raftnet: listener is not set")
	case o.TLS == nil || len(o.TLS.Certificates) == 0 || o.TLS.RootCAs == nil || o.TLS.ClientCAs == nil:
		return nil, errors.New("raftnet: tls needs a certificate of this node, RootCAs and ClientCAs")
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	n := &Net{opt: o, slots: make(chan struct{}, maxAccepted), peers: map[uint64]*peer{}, accepted: map[net.Conn]accepted{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.SetPeers(peers...); err != nil {
		n.cancel()
		return nil, err
	}
	return n, nil
}

// SetPeers says which other nodes there are. It implements raftlog.Peers: a log tells its network. Connections with nodes that are not among them, or whose name or address changed, are closed.
func (n *Net) SetPeers(peers ...raftlog.Member) error {
	for i, p := range peers {
		if p.ID == 0 || p.Name == "" || p.Addr == "" || slices.ContainsFunc(peers[:i], func(x raftlog.Member) bool { return x.ID == p.ID }) {
			return fmt.Errorf("raftnet: peer %+v, want an id of its own, a name and an address", p)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return eventlog.ErrClosed
	}
	for id, p := range n.peers {
		if !slices.Contains(peers, p.member) {
			p.cancel()
			delete(n.peers, id)
			for c, a := range n.accepted {
				if a.from == id {
					_ = c.Close()
				}
			}
		}
	}
	for _, x := range peers {
		if x.ID == n.opt.ID || n.peers[x.ID] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(n.ctx)
		p := &peer{member: x, cancel: cancel, lanes: map[lane]*link{}}
		for _, on := range []lane{laneControl, laneEntries} {
			p.lanes[on] = &link{net: n, to: x, lane: on, wake: make(chan struct{}, 1)}
		}
		for _, l := range p.lanes {
			n.work.Go(func() { l.run(ctx, p) })
		}
		n.work.Go(func() { // what is under way for a fetch ends with the peer
			<-ctx.Done()
			p.fetch.Lock()
			defer p.fetch.Unlock()
			p.drop()
		})
		n.peers[x.ID] = p
	}
	return nil
}

// Recheck asks Options.Check again for the certificates of accepted connections, and closes those that it refuses. Connections that
// this node made are made anew, which asks it, too.
func (n *Net) Recheck() {
	if n.opt.Check == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		for _, l := range p.lanes {
			l.hangUp()
		}
	}
	for c, a := range n.accepted {
		if p := n.peers[a.from]; p == nil || n.opt.Check(p.member, a.cert) != nil {
			n.refused.Add(1)
			_ = c.Close()
		}
	}
}

// Refused returns how many connections were refused, or closed for what they sent.
func (n *Net) Refused() uint64 { return n.refused.Load() }

// Connected returns whether this node has both connections to another one.
func (n *Net) Connected(id uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	return p != nil && p.lanes[laneControl].live.Load() && p.lanes[laneEntries].live.Load()
}

// Send implements raftlog.Network.
func (n *Net) Send(group uint16, m *pb.Message) {
	n.mu.Lock()
	p := n.peers[m.GetTo()]
	n.mu.Unlock()
	if p == nil {
		return
	}
	on, size := laneControl, 100
	for _, e := range m.Entries {
		size += len(e.Data) + 16
	}
	if s := m.GetSnapshot(); s != nil {
		size += len(s.Data)
	}
	if len(m.Entries) > 0 || m.Snapshot != nil {
		on = laneEntries
	}
	l := p.lanes[on]
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= maxQueued || l.bytes+size > maxQueuedBytes {
		return
	}
	l.queue = append(l.queue, queued{group, m, size, n.opt.Clock.Mark()})
	l.bytes += size
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// next returns the oldest message that is not too old.
func (l *link) next() (queued, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		q := l.queue[0]
		l.queue[0] = queued{}
		l.queue = l.queue[1:]
		if l.bytes -= q.size; l.net.opt.Clock.Since(q.at) <= stale {
			return q, true
		}
	}
	l.queue = nil
	return queued{}, false
}

// deadline is the time of day of the machine, which connections ask for.
func deadline(d time.Duration) time.Time { return time.Now().Add(d) }

func (l *link) quiet() time.Duration {
	if l.lane == laneEntries {
		return quietLarge
	}
	return quiet
}

// hangUp ends the present connection.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
}

// run keeps the connection, and makes a new one when it fails. When the connection of heartbeats fails, that of entries, which
// waits longer, is made anew, too.
func (l *link) run(ctx context.Context, p *peer) {
	said := ""
	for ctx.Err() == nil {
		err := l.once(ctx)
		if l.live.Swap(false) && l.lane == laneControl {
			p.lanes[laneEntries].hangUp()
		}
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said { // not each 200 ms
			l.net.opt.Logf("node %d (%s): %v", l.to.ID, l.to.Name, err)
			said = text
		}
		l.net.opt.Clock.Sleep(ctx, dialAgain)
	}
}

// once makes a connection and sends on it until it fails.
func (l *link) once(ctx context.Context) error {
	c, err := l.net.dial(ctx, l.to, l.lane)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.stop = cancel
	l.mu.Unlock()
	closed := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer closed()
	defer c.Close()
	heard := make(chan error, 1)
	l.net.work.Go(func() { // the other side says nothing but pong
		r := bufio.NewReader(c)
		for {
			if err := c.SetReadDeadline(deadline(l.quiet())); err != nil {
				heard <- err
				return
			}
			kind, _, err := readFrame(r, nil)
			if err == nil && kind != framePong {
				err = errFrame
			}
			if err != nil {
				heard <- err
				return
			}
			l.live.Store(true)
		}
	})
	ping := l.net.opt.Clock.Ticker(pingEvery)
	defer ping.Stop()
	var buf, text []byte
	send := func(kind byte, content ...[]byte) error {
		if err := c.SetWriteDeadline(deadline(l.quiet())); err != nil {
			return err
		}
		var err error
		buf, err = writeFrame(c, buf, kind, content...)
		return err
	}
	if err := send(framePing); err != nil {
		return err
	}
	for {
		for q, ok := l.next(); ok; q, ok = l.next() {
			text = binary.LittleEndian.AppendUint16(text[:0], q.group)
			if text, err = (proto.MarshalOptions{}).MarshalAppend(text, q.m); err != nil {
				return err
			}
			if err := send(frameMessage, text); err != nil {
				return err
			}
			select {
			case err := <-heard:
				return err
			case <-ping.C:
				if err := send(framePing); err != nil {
					return err
				}
			default:
			}
		}
		select {
		case <-l.wake:
		case <-ping.C:
			if err := send(framePing); err != nil {
				return err
			}
		case err := <-heard:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dial makes a connection to a node and says hello.
func (n *Net) dial(ctx context.Context, to raftlog.Member, on lane) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	var raw net.Conn
	var err error
	if n.opt.Dial != nil {
		raw, err = n.opt.Dial(ctx, to)
	} else {
		raw, err = (&net.Dialer{}).DialContext(ctx, "tcp", to.Addr)
	}
	if err != nil {
		return nil, err
	}
	conf := n.opt.TLS.Clone()
	host, _, err := net.SplitHostPort(to.Addr)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	conf.MinVersion, conf.ServerName = tls.VersionTLS13, host
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if n.opt.TLS.VerifyConnection != nil {
			if err := n.opt.TLS.VerifyConnection(s); err != nil {
				return err
			}
		}
		return n.check(to, s)
	}
	c := tls.Client(raw, conf)
	err = c.HandshakeContext(ctx)
	if err == nil {
		err = c.SetDeadline(deadline(handshake))
	}
	if err == nil {
		_, err = writeFrame(c, nil, frameHello, hello{on, n.opt.Cluster, n.opt.ID, to.ID}.encode())
	}
	if err == nil {
		var kind byte
		if kind, _, err = readFrame(c, nil); err == nil && kind != frameWelcome {
			err = errFrame
		}
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// check refuses a certificate that is not of a node, or that Options.Check refuses.
func (n *Net) check(p raftlog.Member, s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("raftnet: no certificate")
	}
	if name := s.PeerCertificates[0].Subject.CommonName; p.Name != "" && name != p.Name {
		return fmt.Errorf("raftnet: a certificate of node %q, want one of %q", name, p.Name)
	}
	if n.opt.Check != nil {
		return n.opt.Check(p, s.PeerCertificates[0])
	}
	return nil
}

// Serve takes connections of the others, and gives what they send to a node, until Close.
func (n *Net) Serve(node Node) {
	n.node.Store(&node)
	conf := n.opt.TLS.Clone()
	conf.MinVersion, conf.ClientAuth = tls.VersionTLS13, tls.RequireAndVerifyClientCert
	conf.SessionTicketsDisabled = true // a revoked certificate must not come back
	n.work.Go(func() {
		for {
			raw, err := n.opt.Listener.Accept()
			if err != nil {
				if n.ctx.Err() != nil {
					return
				}
				n.opt.Logf("accept: %v", err)
				if !n.opt.Clock.Sleep(n.ctx, dialAgain) {
					return
				}
				continue
			}
			select {
			case n.slots <- struct{}{}:
			default:
				n.refused.Add(1)
				_ = raw.Close()
				continue
			}
			n.work.Go(func() {
				defer func() { <-n.slots }()
				c := tls.Server(raw, conf)
				stop := context.AfterFunc(n.ctx, func() { _ = c.Close() })
				defer stop()
				defer c.Close()
				if err := n.take(c, node); errors.Is(err, errFrame) {
					n.refused.Add(1)
					text := err.Error()
					if before := n.said.Swap(&text); before == nil || *before != text {
						n.opt.Logf("a connection from %v was closed: %v", raw.RemoteAddr(), err)
					}
				}
			})
		}
	})
}

// take reads what a connection brings.
func (n *Net) take(c *tls.Conn, node Node) error {
	if err := c.SetDeadline(deadline(handshake)); err != nil {
		return err
	}
	if err := c.HandshakeContext(n.ctx); err != nil {
		n.refused.Add(1)
		return err
	}
	r := bufio.NewReader(c)
	kind, b, err := readFrame(r, make([]byte, 0, helloSize))
	if err != nil {
		return err
	}
	h, ok := parseHello(b)
	if kind == frameHello && ok && h.cluster == n.opt.Cluster && h.lane == laneCall {
		return n.answer(c, r, node)
	}
	n.mu.Lock()
	p := n.peers[h.from]
	n.mu.Unlock()
	if kind != frameHello || !ok || h.cluster != n.opt.Cluster || h.to != n.opt.ID || p == nil {
		return fmt.Errorf("%w: a hello of node %d in cluster %v to node %d", errFrame, h.from, h.cluster, h.to)
	}
	if err := n.check(p.member, c.ConnectionState()); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if !n.enter(c, accepted{h.from, h.lane, c.ConnectionState().PeerCertificates[0]}) {
		return eventlog.ErrClosed
	}
	defer n.leave(c)
	wait := quiet
	switch h.lane {
	case laneEntries:
		wait = quietLarge
	case laneFetch:
		wait = fetchWithin
	}
	out, err := writeFrame(c, nil, frameWelcome)
	for err == nil {
		if err = c.SetDeadline(deadline(wait)); err != nil {
			break
		}
		if kind, b, err = readFrame(r, b[:0]); err != nil {
			break
		}
		switch {
		case kind == framePing:
			out, err = writeFrame(c, out, framePong)
		case kind == frameMessage && h.lane != laneFetch && len(b) >= 2:
			var m pb.Message
			if err := proto.Unmarshal(b[2:], &m); err != nil || m.GetFrom() != h.from || m.GetTo() != n.opt.ID {
				return fmt.Errorf("%w: a message of node %d to node %d on a connection of node %d (%v)", errFrame, m.GetFrom(), m.GetTo(), h.from, err)
			}
			node.Receive(binary.LittleEndian.Uint16(b), &m)
		case kind == frameFetch && h.lane == laneFetch:
			f, ok := parseFetch(b)
			if !ok {
				return errFrame
			}
			part := make([]byte, f.n)
			if node.File(f.group, f.first, part, int64(f.at)) == nil {
				out, err = writeFrame(c, out, frameFile, part)
			} else {
				out, err = writeFrame(c, out, frameNone)
			}
		default:
			return errFrame
		}
	}
	return err
}

// answer answers the question that a connection brings.
func (n *Net) answer(c *tls.Conn, r *bufio.Reader, node Node) error {
	s := c.ConnectionState()
	if err := n.check(raftlog.Member{Name: s.PeerCertificates[0].Subject.CommonName}, s); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if _, err := writeFrame(c, nil, frameWelcome); err != nil {
		return err
	}
	kind, b, err := readFrame(r, nil)
	a, ok := node.(Answers)
	switch {
	case err != nil:
		return err
	case kind != frameCall || !ok:
		return errFrame
	}
	if err := c.SetDeadline(deadline(fetchWithin)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(n.ctx, fetchWithin-handshake)
	defer cancel()
	answer, err := a.Answer(ctx, s.PeerCertificates[0].Subject.CommonName, b)
	if err != nil {
		_, err = writeFrame(c, nil, frameNone, []byte(err.Error()))
		return err
	}
	_, err = writeFrame(c, nil, frameFile, answer)
	return err
}

// Call asks the node at an address a question, and returns its answer, of at most 2 MiB. A name must be that in its certificate; its id
// does not count. The question takes a connection of its own.
func (n *Net) Call(ctx context.Context, to raftlog.Member, question []byte) ([]byte, error) {
	to.ID = 0
	c, err := n.dial(ctx, to, laneCall)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.SetDeadline(deadline(fetchWithin)); err != nil {
		return nil, err
	}
	if _, err := writeFrame(c, nil, frameCall, question); err != nil {
		return nil, err
	}
	kind, b, err := readFrame(c, nil)
	switch {
	case err != nil:
		return nil, err
	case kind == frameNone:
		return nil, &CallError{to.Name, string(b)}
	case kind != frameFile:
		return nil, errFrame
	}
	return b, nil
}

// CallError is a question that a node has not answered.
type CallError struct{ Node, Why string }

// Error says in one line what is wrong.
func (e *CallError) Error() string { return fmt.Sprintf("node %s: %s", e.Node, e.Why) }

// enter notes an accepted connection. An older one of the same node for the same use is closed.
func (n *Net) enter(c net.Conn, a accepted) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.peers[a.from] == nil {
		return false
	}
	for old, x := range n.accepted {
		if x.from == a.from && x.lane == a.lane {
			_ = old.Close()
		}
	}
	n.accepted[c] = a
	return true
}

func (n *Net) leave(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.accepted, c)
}

// Fetch implements raftlog.Network.
func (n *Net) Fetch(ctx context.Context, group uint16, node, first uint64, b []byte, at int64) (err error) {
	n.mu.Lock()
	p := n.peers[node]
	n.mu.Unlock()
	if p == nil {
		return fmt.Errorf("raftnet: node %d is not known", node)
	}
	p.fetch.Lock()
	defer p.fetch.Unlock()
	defer func() {
		if err != nil {
			p.drop()
		}
	}()
	if p.conn == nil {
		if p.conn, err = n.dial(ctx, p.member, laneFetch); err != nil {
			return err
		}
	}
	c := p.conn
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	stop2 := context.AfterFunc(n.ctx, func() { _ = c.Close() })
	defer stop2()
	if err := c.SetDeadline(deadline(fetchWithin)); err != nil {
		return err
	}
	if _, err := writeFrame(c, nil, frameFetch, fetch{group, first, uint64(at), uint32(len(b))}.encode()); err != nil {
		return err
	}
	kind, part, err := readFrame(c, b[:0:len(b)])
	switch {
	case err != nil:
		return err
	case kind != frameFile || len(part) != len(b):
		return fmt.Errorf("raftnet: node %d has no such file", node)
	}
	return nil
}

// drop closes the connection of fetches. The caller holds fetch.
func (p *peer) drop() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// Close ends all connections and waits for their goroutines.
func (n *Net) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	err := n.opt.Listener.Close()
	n.work.Wait()
	return err
}
