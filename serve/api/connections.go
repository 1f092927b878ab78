package api

import (
	lists "container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections bounds the open connections. At the limit the one that was idle longest is closed for a new one, so that
// nobody is locked out by connections that do nothing; where none is idle the new one is closed. An address may hold a
// share of the connections only.
type connections struct {
	most   int
	shares *shares
	open   atomic.Int64 // now
	closed func()       // counts one that was closed

	mu   sync.Mutex
	idle lists.List // of net.Conn, the one that is idle longest first
	at   map[net.Conn]*lists.Element
	kept map[net.Conn]string // those that count, and their addresses
}

func newConnections(most int, closed func()) *connections {
	return &connections{most: most, shares: newShares(most), closed: closed, at: map[net.Conn]*lists.Element{},
		kept: map[net.Conn]string{}}
}

// state is the ConnState of a server.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.at[conn]; e != nil {
		c.idle.Remove(e)
		delete(c.at, conn)
	}
	switch s {
	case http.StateNew:
		address := hostOf(conn.RemoteAddr().String())
		n := c.open.Add(1)
		c.kept[conn] = address
		switch {
		case !c.shares.take(address): // one of its own goes
			c.shares.force(address)
			c.drop(conn, address)
		case n > int64(c.most):
			c.drop(conn, "")
		}
	case http.StateIdle:
		c.at[conn] = c.idle.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		c.gone(conn)
	}
}

// leavers counts how many requests of a connection were given up by their client. Streams of HTTP/2 that are opened and reset
// cost nothing but work, so that a connection with little else is closed.
type leavers struct {
	conn       net.Conn
	left, held atomic.Int64
}

type leaversKey struct{}

// mostLeft is how many requests of a connection may be given up before those that are not count.
const mostLeft = 100

// withLeavers is the ConnContext of a server.
func withLeavers(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, leaversKey{}, &leavers{conn: c})
}

// ended notes the end of a request, and closes a connection of which most are given up. It reports whether it did.
func ended(ctx context.Context, gone bool) bool {
	l, ok := ctx.Value(leaversKey{}).(*leavers)
	switch {
	case !ok:
		return false
	case !gone:
		l.held.Add(1)
		return false
	case l.left.Add(1) <= mostLeft+l.held.Load():
		return false
	}
	l.conn.Close()
	return true
}

// gone ends the count of a connection, once.
func (c *connections) gone(conn net.Conn) {
	if address, ok := c.kept[conn]; ok {
		c.open.Add(-1)
		c.shares.release(address)
		delete(c.kept, conn)
	}
}

// idling returns how many connections are idle, for tests.
func (c *connections) idling() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Len()
}

// drop closes the connection that is idle longest, of an address unless that is "", or else the new one.
func (c *connections) drop(fresh net.Conn, address string) {
	c.closed()
	for e := c.idle.Front(); e != nil; e = e.Next() {
		if conn := e.Value.(net.Conn); address == "" || c.kept[conn] == address {
			c.idle.Remove(e)
			delete(c.at, conn)
			fresh = conn
			break
		}
	}
	c.gone(fresh)
	go fresh.Close() // what becomes of it is told under mu
}

// shares counts what addresses hold of something: each may hold three quarters of it, so that one caller does not keep
// out the others, and a proxy through which all come has most of it. An address that is not known, such as that of a
// socket in the file system, is not bounded.
type shares struct {
	most int
	mu   sync.Mutex
	held map[string]int
}

func newShares(of int) *shares {
	most := of * 3 / 4
	if of < 16 { // three quarters of a few would be one less, for nothing
		most = of
	}
	return &shares{most: most, held: map[string]int{}}
}

// take takes a part, and reports false when the address holds its share already.
func (s *shares) take(address string) bool {
	if address == "" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[address] >= s.most {
		return false
	}
	s.held[address]++
	return true
}

// force takes a part beyond the share, of what is about to be closed.
func (s *shares) force(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[address]++
}

// release gives a part back.
func (s *shares) release(address string) {
	if address == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[address]--; s.held[address] <= 0 {
		delete(s.held, address)
	}
}

// hostOf is the host of an address of the network, "" for another one.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}
