package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/internal/await"
)

// TestOneCallerLocksNobodyOut: one caller holds what it can of idle connections, slow headers, slow bodies that say that they are
// large, malformed chunks, resets and pipelined requests; another one is served all the time, with a new connection for each
// request, and probes are answered.
func TestOneCallerLocksNobodyOut(t *testing.T) {
	const connections = 64
	for name, hold := range map[string]struct {
		send string // on each connection
		n    int
		read bool // an answer comes
	}{
		"idle":          {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 8 * connections, true},
		"silent":        {"", 3 * connections, false},
		"slow headers":  {"POST /v1/models/m:decide HTTP/1.1\r\nHost: localh", 3 * connections, false},
		"slow bodies":   {"POST /v1/models/m:decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{", 3 * connections, false},
		"slow chunks":   {"POST /v1/models/m:decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 3 * connections, false},
		"broken chunks": {"POST /v1/models/m:decide HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 3 * connections, true},
		"pipelined":     {strings.Repeat("GET /v1/models/m HTTP/1.1\r\nHost: localhost\r\n\r\n", 50), 3 * connections, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEdge(t, newFake("m"), Options{Connections: connections, Concurrent: 32, Timeout: 20 * time.Second})
			address := e.serveOn(t)
			// The other caller has an address of its own.
			other := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}, Timeout: time.Minute}
			var wait sync.WaitGroup
			var held []net.Conn
			for range hold.n {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, c)
				io.WriteString(c, hold.send) // may be refused
				if hold.read {
					wait.Go(func() {
						c.SetReadDeadline(time.Now().Add(await.Limit))
						bufio.NewReader(c).ReadString('\n')
					})
				}
			}
			defer func() {
				for i, c := range held {
					if tcp := c.(*net.TCPConn); i%2 == 0 {
						tcp.SetLinger(0) // a reset
					}
					c.Close()
				}
				wait.Wait()
			}()
			served := 0
			for i := range 30 {
				method, path, body := "POST", "/v1/models/m:decide", fmt.Sprintf(`{"actions":[{"id":"a"}],"context":{"i":%d}}`, i)
				if i%5 == 4 {
					method, path, body = "GET", []string{"/livez", "/readyz"}[i/5%2], ""
				}
				q, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				a, err := other.Do(q)
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					continue
				}
				a.Body.Close()
				if a.StatusCode == 200 {
					served++
				} else {
					t.Errorf("request %d, %s: status %d", i, path, a.StatusCode)
				}
			}
			if n := e.connections.open.Load(); served < 30 || n > connections+8 {
				t.Errorf("%d of 30 requests were served, %d connections are open", served, n)
			}
		})
	}
}
