package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/internal/await"
	"troupe/serve"
)

// stranger is a caller with an address of its own, and a connection for each request. One that has to wait until the server
// closes an idle connection, which it does after two minutes, fails.
func stranger(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// times sends n decisions and returns how long they took, the shortest first.
func times(t *testing.T, c *http.Client, url string, n int) (all []time.Duration) {
	t.Helper()
	for i := range n {
		begin := time.Now()
		r, err := c.Post(url+"/v1/models/m:decide", "application/json", strings.NewReader(`{"actions":[{"id":"a"},{"id":"b"}]}`))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Fatalf("request %d: status %d", i, r.StatusCode)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all
}

// compare logs two measurements. The callers share the processors with the server and with other programs, so that the
// times of a busy machine say little.
func compare(t *testing.T, alone, with []time.Duration) {
	t.Helper()
	t.Logf("p50 %v, p99 %v alone; p50 %v, p99 %v beside", alone[len(alone)/2], alone[len(alone)*99/100], with[len(with)/2], with[len(with)*99/100])
}

// TestTenThousandIdle: 10,000 connections that are kept alive and idle, with the default limits, do not make another caller wait.
func TestTenThousandIdle(t *testing.T) {
	n := 1000
	o := Options{Connections: 400}
	if os.Getenv("TROUPE_LONG") != "" {
		n, o = 10_000, Options{}
	}
	e := newEdge(t, newFake("m"), o)
	address := e.serveOn(t)
	other := stranger(t)
	alone := times(t, other, "http://"+address, 100)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(await.Limit))
		bufio.NewReader(c).ReadString('\n')
	}
	with := times(t, other, "http://"+address, 100)
	compare(t, alone, with)
	// A busy machine delays some calls in both measurements: the caller is held up only where each hundred is slow.
	slow := func(all []time.Duration) bool { return all[99] > 3*alone[99]+50*time.Millisecond }
	for until := time.Now().Add(await.Limit / 2); slow(with); with = times(t, other, "http://"+address, 100) {
		if time.Now().After(until) {
			t.Fatalf("beside %d idle connections the slowest of 100 calls takes %v each time, %v alone", n, with[99], alone[99])
		}
	}
	if open := e.connections.open.Load(); open > int64(e.opts.Connections)+8 {
		t.Errorf("%d connections are open", open)
	}
}

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// TestStreamsOpenedAndReset: connections of HTTP/2 that open streams and reset them at once are closed, and another caller is served.
func TestStreamsOpenedAndReset(t *testing.T) {
	e := newEdge(t, newFake("m"), Options{})
	s := httptest.NewUnstartedServer(nil)
	s.Config, s.EnableHTTP2 = e.Server(), true
	s.StartTLS()
	defer s.Close()
	other := stranger(t)
	alone := times(t, other, s.URL, 50)
	block := append([]byte{0x83, 0x87, 0x01, 9}, "localhost"...)      // POST, https, :authority
	block = append(append(block, 0x04, 19), "/v1/models/m:decide"...) // :path
	var stop atomic.Bool
	var streams, dials atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond) // 20,000 a second of all: the callers share the processors with the server
			defer pace.Stop()
			for !stop.Load() {
				c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
				if err != nil {
					continue
				}
				dials.Add(1)
				go io.Copy(io.Discard, c)
				c.SetWriteDeadline(time.Now().Add(5 * time.Second))
				_, err = c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...))
				for id := uint32(1); err == nil && !stop.Load() && id < 20_000; {
					var burst []byte
					for range 50 {
						burst = append(append(burst, frame(1, 0x4, id, block)...), frame(3, 0, id, []byte{0, 0, 0, 8})...)
						id += 2
						streams.Add(1)
					}
					_, err = c.Write(burst)
					<-pace.C
				}
				c.Close()
			}
		})
	}
	await.Until(t, "20,000 streams are opened and reset", func() bool { return streams.Load() >= 20_000 })
	with := times(t, other, s.URL, 50)
	stop.Store(true)
	callers.Wait()
	compare(t, alone, with)
	if n, d := streams.Load(), dials.Load(); n > 4000*d { // a connection that stays open has 10,000
		t.Errorf("%d streams over %d connections: those that only reset are not closed", n, d)
	}
}

// slowly is a service whose decisions take longer than the time of a request.
type slowly struct {
	serve.Service
	takes time.Duration
}

func (s slowly) Decide(ctx context.Context, model string, r serve.DecideRequest) (serve.Decision, error) {
	time.Sleep(s.takes) // longer than the limit, which is one of the machine
	return s.Service.Decide(ctx, model, r)
}

// GetModel looks at its time first, as a server does.
func (s slowly) GetModel(ctx context.Context, name string) (serve.Model, error) {
	if err := ctx.Err(); err != nil {
		return serve.Model{}, err
	}
	return s.Service.GetModel(ctx, name)
}

// TestAfterSlowAnswer: a connection of which a request took longer than the time for its body serves the next one.
func TestAfterSlowAnswer(t *testing.T) {
	for _, path := range []string{"/v1/models/news:decide", "/v1/models/news:decide?x=1"} { // the short way, and the other
		e := newEdge(t, newFake("news"), Options{Timeout: 50 * time.Millisecond})
		e.via.Service = slowly{e.via.Service, 200 * time.Millisecond}
		address := e.serveOn(t)
		body := `{"actions": [{"id": "a"}, {"id": "b"}]}`
		sends := []string{
			fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body),
			"GET /v1/models/news HTTP/1.1\r\nHost: localhost\r\n\r\n",
		}
		for note := range await.Tries(t) { // a busy machine may take the 50 ms for the second request too: on another connection then
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(await.Limit))
			from, status, text := bufio.NewReader(c), 0, []byte(nil)
			for _, send := range sends {
				if _, err = io.WriteString(c, send); err != nil {
					break
				}
				a, e := http.ReadResponse(from, nil)
				if err = e; err != nil {
					break
				}
				status = a.StatusCode
				if text, err = io.ReadAll(a.Body); err != nil {
					break
				}
			}
			if err == nil && status == 200 {
				break
			}
			note("%s: status %d, error %v: %s", path, status, err, text)
		}
	}
}

// TestLastAnswer: an answer is the last of its connection where net/http has ended the context of that, as it does when the
// time to read passed; a stream of HTTP/2 has a context of its own.
func TestLastAnswer(t *testing.T) {
	e := newEdge(t, newFake("news"), Options{})
	for _, c := range []struct {
		major int
		over  bool
		want  string
	}{{1, false, ""}, {1, true, "close"}, {2, true, ""}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/models/news", nil)
		if r.ProtoMajor = c.major; c.over {
			cancel()
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != c.want {
			t.Errorf("HTTP/%d, context over %t: Connection %q, expected %q", c.major, c.over, got, c.want)
		}
	}
}
