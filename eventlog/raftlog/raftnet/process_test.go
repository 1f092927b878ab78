package raftnet

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"troupe/eventlog/raftlog"
	"troupe/internal/await"
	"troupe/timing"
)

// process is a node in a process of its own, in a directory with its name, its certificate and its key. It prints its address and
// takes lines: "where name address …", "append on|off size", "rate n seconds size", "cut", "mend", "leader", "read".
func process(dir string) {
	fatal := func(err error) {
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var id, voters uint64
	_, err := fmt.Sscan(os.Getenv("RAFTNET_ID"), &id, &voters)
	fatal(err)
	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	fatal(err)
	pool.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	fatal(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(err)
	var mu sync.Mutex
	where := map[string]string{}
	var members []raftlog.Member
	for v := uint64(1); v <= voters; v++ {
		members = append(members, raftlog.Member{ID: v, Name: name(v), Addr: name(v)})
	}
	n, err := New(Options{Cluster: 7, ID: id, Listener: listener, TLS: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool},
		Dial: func(ctx context.Context, m raftlog.Member) (net.Conn, error) {
			mu.Lock()
			at := where[m.Addr]
			mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, "tcp", at)
		}})
	fatal(err)
	o := raftlog.Options{Dir: filepath.Join(dir, "log"), Cluster: 7, ID: id, Reserve: -1, Network: n}
	if _, err := os.Stat(o.Dir); errors.Is(err, os.ErrNotExist) {
		fatal(raftlog.Create(o, members...))
	}
	l, err := raftlog.Open(o)
	fatal(err)
	n.Serve(l)
	var out sync.Mutex
	say := func(format string, a ...any) {
		out.Lock()
		defer out.Unlock()
		_, _ = fmt.Printf(format+"\n", a...)
	}
	say("at %s", listener.Addr())
	ctx, clock := context.Background(), timing.Clock{}
	start := time.Now().UnixNano()
	var on atomic.Bool
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		switch f[0] {
		case "where":
			mu.Lock()
			for i := 1; i+1 < len(f); i += 2 {
				where[f[i]] = f[i+1]
			}
			mu.Unlock()
		case "append": // a caller with a call each 10 ms at most
			if on.Swap(f[1] == "on") || f[1] != "on" {
				continue
			}
			go func() {
				for k := 0; on.Load(); k++ {
					began, batch := clock.Mark(), fmt.Sprintf("%d/%d/%d", id, start, k)
					for on.Load() {
						try, cancel := context.WithTimeout(ctx, 10*time.Second)
						seq, _, err := l.Append(try, 0, batch, []byte(batch+" "+strings.Repeat("x", 250)))
						if cancel(); err == nil {
							say("ack %d %s", seq, batch)
							break
						}
					}
					clock.Sleep(ctx, 10*time.Millisecond-clock.Since(began))
				}
				say("off")
			}()
		case "rate":
			var rate, seconds, size int
			_, err := fmt.Sscan(strings.Join(f[1:], " "), &rate, &seconds, &size)
			fatal(err)
			go func() {
				var before, after syscall.Rusage
				fatal(syscall.Getrusage(syscall.RUSAGE_SELF, &before))
				times := make([]time.Duration, rate*seconds)
				var wg sync.WaitGroup
				data := []byte(strings.Repeat("r", size))
				began := clock.Mark()
				for k := range times {
					at := time.Duration(k) * time.Second / time.Duration(rate)
					clock.Sleep(ctx, at-clock.Since(began))
					wg.Go(func() { // counted from when it was due
						_, _, err := l.Append(ctx, 0, fmt.Sprintf("%d/%d/r%d", id, clock.Mark(), k), data)
						fatal(err)
						times[k] = clock.Since(began) - at
					})
				}
				wg.Wait()
				clock.Sleep(ctx, time.Duration(seconds)*time.Second-clock.Since(began))
				fatal(syscall.Getrusage(syscall.RUSAGE_SELF, &after))
				slices.Sort(times)
				p := func(q int) int64 {
					if len(times) == 0 {
						return 0
					}
					return times[(len(times)-1)*q/100].Microseconds()
				}
				cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				say("rate %d %d %d %d", len(times), p(50), p(99), cpu/1000)
			}()
		case "cut": // connections end, and are refused
			fatal(n.SetPeers())
		case "mend":
			fatal(n.SetPeers(members...))
		case "leader":
			say("leader %d", l.Status(0).Leader)
		case "read":
			try, cancel := context.WithTimeout(ctx, 2*time.Minute)
			fatal(l.Ready(try, 0))
			cancel()
			info, err := l.Info(ctx, 0)
			fatal(err)
			for e, err := range l.Read(ctx, 0, 1) {
				fatal(err)
				say("entry %d %.200s", e.Seq, e.Data)
				if e.Seq == info.Last {
					break
				}
			}
			say("end")
		}
	}
	os.Exit(0) // as a process that is killed
}

// fleet is nodes in processes.
type fleet struct {
	t     *testing.T
	dir   string
	nodes []*proc
	mu    sync.Mutex
	acks  map[string]string // batch to number
	times []timing.Instant  // of answers
	clock timing.Clock
}

type proc struct {
	id    uint64
	cmd   *exec.Cmd
	in    io.WriteCloser
	at    string
	lines chan string
	done  chan struct{}
}

func newFleet(t *testing.T, n int) *fleet {
	f := &fleet{t: t, dir: t.TempDir(), acks: map[string]string{}}
	ca := newAuthority()
	for id := uint64(1); id <= uint64(n); id++ {
		dir := filepath.Join(f.dir, name(id))
		c := ca.tls(name(id)).Certificates[0]
		key := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))
		if err := errors.Join(os.Mkdir(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}), 0o600),
			os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600),
			os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600)); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, &proc{id: id})
	}
	for _, p := range f.nodes {
		f.start(p)
	}
	t.Cleanup(func() {
		for _, p := range f.nodes {
			f.kill(p)
		}
	})
	return f
}

func (f *fleet) start(p *proc) {
	f.t.Helper()
	p.cmd = exec.Command(must(os.Executable()))
	p.cmd.Env = append(os.Environ(), "RAFTNET_PROCESS="+filepath.Join(f.dir, name(p.id)), fmt.Sprintf("RAFTNET_ID=%d %d", p.id, len(f.nodes)))
	p.cmd.Stderr = os.Stderr
	p.in = must(p.cmd.StdinPipe())
	out := must(p.cmd.StdoutPipe())
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.lines, p.done = make(chan string, 100_000), make(chan struct{})
	go func() {
		defer close(p.done)
		r := bufio.NewScanner(out)
		for r.Scan() {
			rest, ok := strings.CutPrefix(r.Text(), "ack ")
			if !ok {
				p.lines <- r.Text()
				continue
			}
			seq, batch, _ := strings.Cut(rest, " ")
			f.mu.Lock()
			f.acks[batch] = seq
			f.times = append(f.times, f.clock.Mark())
			f.mu.Unlock()
		}
	}()
	p.at = strings.TrimPrefix(f.line(p, "at "), "at ")
	where := "where"
	for _, x := range f.nodes {
		if x.at != "" {
			where += " " + name(x.id) + " " + x.at
		}
	}
	for _, x := range f.nodes {
		if x.cmd != nil {
			_, _ = fmt.Fprintln(x.in, where) // one that was killed does not read it
		}
	}
}

func (f *fleet) tell(p *proc, format string, a ...any) {
	f.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", a...); err != nil {
		f.t.Fatal(err)
	}
}

// line waits for a line that begins with a word.
func (f *fleet) line(p *proc, word string) string {
	f.t.Helper()
	limit := f.clock.After(2 * time.Minute)
	for {
		select {
		case s := <-p.lines:
			if strings.HasPrefix(s, word) {
				return s
			}
		case <-limit:
			f.t.Fatalf("node %d: waited in vain for %q", p.id, word)
		}
	}
}

func (f *fleet) kill(p *proc) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (f *fleet) leader() *proc {
	f.t.Helper()
	for note := range await.Tries(f.t) {
		note("no node says that it leads")
		for _, p := range f.nodes {
			f.tell(p, "leader")
			var id uint64
			if _, err := fmt.Sscanf(f.line(p, "leader"), "leader %d", &id); err != nil {
				f.t.Fatal(err)
			}
			if id == p.id {
				return p
			}
		}
	}
	return nil
}

// silence waits until there were some answers after a moment, and returns the longest time without one since then.
func (f *fleet) silence(from timing.Instant, atLeast time.Duration) time.Duration {
	f.t.Helper()
	wait(f.t, "answers", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		n := 0
		for _, at := range f.times {
			if at > from {
				n++
			}
		}
		return n >= 20 && f.clock.Since(from) >= atLeast
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	longest, last := time.Duration(0), from
	for _, at := range f.times {
		if at > from {
			longest, last = max(longest, time.Duration(at-last)), at
		}
	}
	return longest
}

// check reads all logs: they are equal, and have every batch that was acknowledged at its place, once.
func (f *fleet) check() int {
	f.t.Helper()
	for _, p := range f.nodes {
		f.tell(p, "append off")
	}
	var first map[string]string
	for _, p := range f.nodes {
		f.tell(p, "read")
		all, batches := map[string]string{}, map[string]bool{}
		for s := f.line(p, "e"); s != "end"; s = f.line(p, "e") {
			x := strings.Fields(s)
			batch := x[2]
			if all[x[1]] = batch; batches[batch] && batch[0] != 'r' {
				f.t.Errorf("node %d: batch %s is there twice", p.id, batch)
			}
			batches[batch] = true
		}
		f.mu.Lock()
		for batch, seq := range f.acks {
			if all[seq] != batch {
				f.t.Errorf("node %d: batch %s was acknowledged as %s, which is %q", p.id, batch, seq, all[seq])
			}
		}
		f.mu.Unlock()
		for seq, batch := range first {
			if x, ok := all[seq]; ok && x != batch {
				f.t.Errorf("node %d: entry %s is %s, not %s", p.id, seq, x, batch)
			}
		}
		first = all
	}
	return len(f.acks)
}

func summary(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("median %.2f s, worst %.2f s of %d", all[len(all)/2].Seconds(), all[len(all)-1].Seconds(), len(all))
}

// TestProcesses: three processes under faults. Nothing that was acknowledged is lost or altered. With TROUPE_RECORD=1 it is played as often
// as the record says, and measured; with TROUPE_LONG=1 once each.
func TestProcesses(t *testing.T) {
	record := os.Getenv("TROUPE_RECORD") != ""
	if !record && os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG=1 plays three processes")
	}
	times := func(n int) int {
		if record {
			return n
		}
		return 1
	}
	f := newFleet(t, 3)
	begin := func() {
		for _, p := range f.nodes {
			f.tell(p, "append on")
		}
		f.silence(f.clock.Mark(), 0)
	}
	begin()
	follower := func() *proc {
		l := f.leader()
		return f.nodes[l.id%3]
	}
	var during, after []time.Duration
	for range times(20) {
		l := f.leader()
		at := f.clock.Mark()
		f.kill(l)
		during = append(during, f.silence(at, time.Second))
		at = f.clock.Mark()
		f.start(l)
		f.tell(l, "append on")
		after = append(after, f.silence(at, time.Second))
	}
	t.Logf("leader killed: %s; its return: %s", summary(during), summary(after))
	for _, how := range []string{"stopped", "cut off"} {
		during, after = nil, nil
		for range times(8) {
			p := follower()
			at := f.clock.Mark()
			if how == "stopped" {
				_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			} else {
				f.tell(p, "cut")
			}
			during = append(during, f.silence(at, 3*time.Second))
			at = f.clock.Mark()
			if how == "stopped" {
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
			} else {
				f.tell(p, "mend")
			}
			after = append(after, f.silence(at, 2*time.Second))
		}
		t.Logf("follower %s for 3 s: during %s; at its return %s", how, summary(during), summary(after))
	}
	var ready []time.Duration
	for range times(5) {
		for _, p := range f.nodes {
			f.kill(p)
		}
		at := f.clock.Mark()
		for _, p := range f.nodes {
			f.start(p)
		}
		started, last := f.clock.Since(at), int64(0)
		for _, p := range f.nodes {
			f.tell(p, "rate 1 1 100")
		}
		for _, p := range f.nodes {
			var n, took int64
			if _, err := fmt.Sscanf(f.line(p, "rate"), "rate %d %d", &n, &took); err != nil {
				t.Fatal(err)
			}
			last = max(last, took)
		}
		ready = append(ready, started+time.Duration(last)*time.Microsecond)
		begin()
	}
	t.Logf("all killed and started: all have answered after at most %s", summary(ready))
	t.Logf("%d batches acknowledged, compared at all nodes", f.check())
}

// TestProcessor measures appends at three processes and at one, in turns.
func TestProcessor(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD=1 measures")
	}
	three, one := newFleet(t, 3), newFleet(t, 1)
	play := func(f *fleet, rate, size int) (p50, p99, cpu int) {
		const seconds = 5
		for i, p := range f.nodes {
			n := rate / len(f.nodes)
			if i == 0 {
				n += rate % len(f.nodes)
			}
			f.tell(p, "rate %d %d %d", n, seconds, size)
		}
		for _, p := range f.nodes {
			var n, a, b, c int
			if _, err := fmt.Sscanf(f.line(p, "rate"), "rate %d %d %d %d", &n, &a, &b, &c); err != nil {
				t.Fatal(err)
			}
			p50, p99, cpu = p50+a, max(p99, b), cpu+c
		}
		return p50 / len(f.nodes), p99, cpu / (rate * seconds)
	}
	play(three, 30, 300) // until there is a leader
	play(one, 30, 300)
	for _, c := range []struct{ rate, size int }{{300, 300}, {100, 64 * 300}} {
		var ratios, p50 []float64
		for range 5 {
			a50, a99, a := play(three, c.rate, c.size)
			b50, b99, b := play(one, c.rate, c.size)
			t.Logf("%d a second of %d bytes: three nodes p50 %d µs, p99 %d µs, processor %d µs an append; one node %d, %d, %d", c.rate, c.size, a50, a99, a, b50, b99, b)
			ratios, p50 = append(ratios, float64(a)/float64(b)), append(p50, float64(a50))
		}
		slices.Sort(ratios)
		slices.Sort(p50)
		t.Logf("%d a second of %d bytes: p50 %.1f ms, processor %.1f times that of one (%.1f to %.1f)", c.rate, c.size, p50[2]/1000, ratios[2], ratios[0], ratios[4])
	}
}
