// Package load is the command `troupe load`: users whose taste is known, at a fixed rate on a decision server, with
// what their calls took and whether the server learned; and the streams of an application, one request after the other.
// Command is all of it; results are types because their JSON is a contract.
package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"troupe/cli/term"
	"troupe/client"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/sim"
)

// flags are the flags of `troupe load`.
type flags struct {
	url, model, key string
	rate            float64
	duration        time.Duration
	callers         int
	d, k, m         int
	noise           float64
	seed            uint64
	lists           bool
	noReward        bool
	batch           int
	fsync           string
	json            bool
	stream          streamFlags
}

// Command is `troupe load`.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "load",
		Short: "Put load on a decision server, with users whose taste is known",
		Long: `Sends decisions at a fixed rate, whether or not the server keeps up, and pays each with a reward
⟨x, θ*⟩ + noise, where only this program knows θ*. Latency counts from the moment a request was due, so
stalls of the server count. It also prints the mean regret of the first and the last tenth, and that of
uniform play: does it learn?

When the server is on this machine, it prints the processor time of server
and load, and the time of a sync of the disk, measured before the load.

With --data the requests are the rows of a file (CSV, ARFF, ...) in random order, one after the other.
The columns are the context, the classes the actions, and the reward is 1 for the right class. The model
is created with its name alone. The share of right answers is printed.

With --stream the requests are like those of an application, one after the other, and what each action
earns in the mean is known. After 100, 300, 1000, ... decisions it prints the share of what the best
action earns above a uniform choice. Beside it are two rivals that know more and get the same rewards
at the same times. Streams:` + streamList() + `

--client chooses when the rewards of --data and --stream arrive, with changes of their values after
slashes. ones/wild=1e6@200 sends 1e6 in place of the 200th reward, late/scale=1000/shift=5 sends
1000y + 5, and now/equal=.5 always sends .5. What a client leaves to a window is not sent, and is over
after --window. Clients, by decisions:` + clientList() + `

The nodes of a cluster are one --url with commas. Callers are spread over them. A call that a node
refuses or does not answer is repeated at the next one with its key, for up to 30 s. A batch of
decisions has no key, and is repeated only when it was refused.

The model is created if it does not exist: an ensemble on plain vectors. Ctrl-C ends the load; what was
finished is reported. Exit code 1 when a call failed.`,
		Example: `  troupe load --rate 2000 --duration 30s
  troupe load --rate 20000 --batch 64 --duration 10s
  troupe load --rate 500 --duration 10s --lists --json
  troupe load --url http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083
  troupe load --data pendigits.arff --model digits
  troupe load --stream segments --rounds 3000 --worlds 5 --model first
  troupe load --stream lists --worlds 3 --model shelf
  troupe load --stream prices --worlds 3 --model shop
  troupe load --stream clicks7 --client ones --window 5s --model successes`,
		Args: term.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.alone(cmd.Flags().Changed); err != nil {
				return term.Misuse(err)
			}
			switch {
			case f.stream.data != "":
				if err := term.CheckGaps(f.stream.gaps); err != nil {
					return err
				}
				return stream(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &f)
			case f.stream.kind != "":
				if kind, ok := f.stream.possibleKind(); ok {
					return loadPossible(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &f, kind)
				}
				return loadWorlds(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), &f)
			}
			return load(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	f.add(c.Flags())
	return c
}

// add adds the flags to the command.
func (f *flags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.url, "url", "http://127.0.0.1:8080",
		"the server; unix:PATH for its socket; the nodes of a cluster with commas between them")
	fl.StringVar(&f.model, "model", "load", "name of the model")
	fl.StringVar(&f.key, "key", os.Getenv("TROUPE_KEY"), "API key; default is the environment's TROUPE_KEY")
	fl.Float64Var(&f.rate, "rate", 1000, "decisions a second")
	fl.DurationVar(&f.duration, "duration", 10*time.Second, "how long")
	fl.IntVar(&f.callers, "callers", 256, "requests at once; later ones wait, and their latency includes the wait")
	fl.IntVarP(&f.d, "dim", "d", 32, "length of the vectors")
	fl.IntVarP(&f.k, "arms", "K", 20, "actions of a decision")
	fl.IntVarP(&f.m, "members", "m", 32, "members of the ensemble")
	fl.Float64Var(&f.noise, "noise", 0.1, "half the width of the uniform noise")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of θ*, actions and noise")
	fl.BoolVar(&f.lists, "lists", false, "send features as JSON lists instead of packed numbers")
	fl.BoolVar(&f.noReward, "no-reward", false, "send decisions only")
	fl.IntVar(&f.batch, "batch", 1, "decisions, and rewards, in one request")
	fl.StringVar(&f.fsync, "fsync", "", "directory whose disk is measured; default is the server's, when it is on "+
		"this machine; - for none")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	s := &f.stream
	fl.StringVar(&s.kind, "stream", "", "requests like those of an application, such as segments, lists or prices (--help lists all)")
	fl.IntVar(&s.rounds, "rounds", 3000, "decisions of a world of --stream")
	fl.IntVar(&s.worlds, "worlds", 1, "how many worlds of --stream, each on a model of its own")
	fl.StringVar(&s.data, "data", "", "file whose rows are the requests; the flags below go with it")
	term.AddGaps(fl, &s.gaps)
	fl.StringVar(&s.class, "class", "", "its class column: first, last, a name or a number from 1; default is the "+
		"one named class, otherwise the last")
	fl.IntVar(&s.rows, "rows", 0, "how many rows; 0 means all")
	fl.Float64Var(&s.missing, "missing", 0, "share of the values that are left out")
	fl.IntVar(&s.useless, "useless", 0, "number of useless words, and of useless numbers, that are added to each request")
	fl.StringVar(&s.client, "client", "", "how rewards come, with --data or --stream, such as late or ones/wild=1e6@200 (above)")
	fl.DurationVar(&s.window, "window", 0, "reward window of the model; default is the server's")
	fl.BoolVar(&s.smoke, "smoke-test", false, "begin with a request that has one action and no context")
}

// The flags of each kind of load.
var (
	dataFlags  = []string{"class", "gap", "rows", "missing", "useless", "smoke-test"}
	worldFlags = []string{"rounds", "worlds"}
)

// alone refuses flags that do not go with the kind of load that was asked for.
func (f *flags) alone(changed func(flag string) bool) error {
	if f.stream.data != "" && f.stream.kind != "" {
		return errors.New("--stream and --data: expected one of them")
	}
	for _, name := range dataFlags {
		if changed(name) && f.stream.data == "" {
			return fmt.Errorf("--%s goes with --data FILE", name)
		}
	}
	for _, name := range []string{"client", "window"} {
		if changed(name) && f.stream.data == "" && f.stream.kind == "" {
			return fmt.Errorf("--%s goes with --data FILE or --stream NAME", name)
		}
	}
	for _, name := range worldFlags {
		if changed(name) && f.stream.kind == "" {
			return fmt.Errorf("--%s goes with --stream NAME", name)
		}
	}
	if changed("stream") && f.stream.kind == "" {
		_, err := f.stream.worldKind()
		return err
	}
	return nil
}

func (f *flags) check() error {
	switch {
	case !(f.rate > 0) || f.rate > 1e6:
		return fmt.Errorf("--rate %v: expected a number in (0, 1e6]", f.rate)
	case f.duration <= 0 || f.rate*f.duration.Seconds() > 5e7:
		return fmt.Errorf("--duration %v: expected a time with at most 50 million decisions", f.duration)
	case f.batch < 1 || f.batch > 256:
		return fmt.Errorf("--batch %d: expected 1 to 256", f.batch)
	case f.callers < 1 || f.callers > 10_000:
		return fmt.Errorf("--callers %d: expected 1 to 10000", f.callers)
	case f.d < 1 || f.d > 1024:
		return fmt.Errorf("--dim %d: expected 1 to 1024", f.d)
	case f.k < 1 || f.k > 1000:
		return fmt.Errorf("--arms %d: expected 1 to 1000", f.k)
	case f.m < 1 || f.m > 1000:
		return fmt.Errorf("--members %d: expected 1 to 1000", f.m)
	case !(f.noise >= 0 && f.noise <= 0.5):
		return fmt.Errorf("--noise %v: expected 0 to 0.5, so that rewards stay in [-1, 1]", f.noise)
	}
	return nil
}

// users are all simulated users: each request has its own actions and noise, computed from its
// number, so that a run can be repeated.
type users struct {
	f     flags
	key   rng.Key
	theta []float64
}

func newUsers(f flags) *users {
	u := &users{f: f, key: rng.NewKey(f.seed), theta: make([]float64, f.d)}
	u.key.Stream(rng.Instance).Round(0).Sphere(u.theta, 0)
	for i := range u.theta {
		u.theta[i] /= 2 // with the noise, rewards stay in [−1, 1]
	}
	return u
}

// inside is the length of an action: a little inside the ball, because the server refuses what rounding to float32
// would put outside.
const inside = 1 - 1e-6

// offer returns the actions of request i, K×d row after row, with their mean rewards.
func (u *users) offer(i uint64) (x, means []float64) {
	x, means = make([]float64, u.f.k*u.f.d), make([]float64, u.f.k)
	u.key.Stream(rng.Offer).Round(i).Spheres(x, u.f.d, 0)
	for j := range x {
		x[j] = float64(float32(inside * x[j]))
	}
	for a := range means {
		means[a] = linalg.Dot(x[a*u.f.d:(a+1)*u.f.d], u.theta)
	}
	return x, means
}

func (u *users) noise(i uint64) float64 {
	return u.f.noise * u.key.Stream(rng.Reward).Round(i).Uniform(0)
}

// Latencies are quantiles in milliseconds.
type Latencies struct {
	Calls int     `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// quantiles sorts seconds and reads the order statistics of rank ⌈qn⌉.
func quantiles(seconds []float64) Latencies {
	n := len(seconds)
	l := Latencies{Calls: n}
	if n == 0 {
		return l
	}
	slices.Sort(seconds)
	at := func(q float64) float64 { return 1e3 * seconds[max(0, int(math.Ceil(q*float64(n)))-1)] }
	l.P50, l.P90, l.P99, l.P999, l.Max = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
	return l
}

// Result is what a run found.
type Result struct {
	Rate        float64 `json:"rate"`     // asked for, a second
	Achieved    float64 `json:"achieved"` // decisions answered a second
	Seconds     float64 `json:"seconds"`
	Batch       int     `json:"batch"` // decisions in one call
	Interrupted bool    `json:"interrupted,omitempty"`
	// µs of the server's processors for a decision, with its reward
	ServerCPU     *float64       `json:"server_cpu_us,omitempty"`
	OwnCPU        *float64       `json:"load_cpu_us,omitempty"` // the same of this program
	Decide        Latencies      `json:"decide"`
	Reward        Latencies      `json:"reward"`
	Errors        map[string]int `json:"errors,omitempty"`   // by call, status and code
	RegretFirst   *float64       `json:"regret_first_tenth"` // null when none of them was answered
	RegretLast    *float64       `json:"regret_last_tenth"`
	RegretUniform *float64       `json:"regret_uniform"`
	Fsync         *Latencies     `json:"fsync,omitempty"`
	FsyncDir      string         `json:"fsync_dir,omitempty"`
}

// worker is what one caller notes.
type worker struct {
	decide, reward []float64
	errors         map[string]int
	regret         []regretAt
	uniform        float64
}

type regretAt struct {
	i      uint64
	regret float64
}

// load puts load on a server: it looks at the server, makes the model, sends, and prints what came of it.
func load(ctx context.Context, out, progress io.Writer, f flags) error {
	if err := f.check(); err != nil {
		return term.Misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	web := f.web()
	defer web.CloseIdleConnections()
	clients, err := f.clients(web)
	if err != nil {
		return term.Misuse(err)
	}
	result := Result{Batch: f.batch}
	before := Scrape(ctx, web, f.url, f.key)
	if err := f.measureDisk(&result, before, progress); err != nil {
		return err
	}
	if err := f.makeModel(ctx, clients); err != nil {
		return err
	}
	f.send(ctx, stop, clients, progress, &result)
	if after := Scrape(context.WithoutCancel(ctx), web, f.url, f.key); before.Here && after.CPU > before.CPU &&
		result.Decided() > 0 {
		v := 1e6 * (after.CPU - before.CPU) / float64(result.Decided())
		result.ServerCPU = &v
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(result); err != nil {
			return err
		}
	} else {
		printResult(out, result)
	}
	switch {
	case result.Interrupted:
		return term.Silently(term.Interrupted, context.Canceled)
	case len(result.Errors) > 0:
		return term.Silently(term.Failed, errors.New("calls failed"))
	}
	return nil
}

// web makes a client with a connection for each caller. For a socket it also makes the address one of HTTP.
func (f *flags) web() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = f.callers, f.callers
	if path, ok := strings.CutPrefix(f.url, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		f.url = "http://localhost"
	}
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// measureDisk measures a sync on the disk of --fsync, or of the server where it is on this machine.
func (f *flags) measureDisk(r *Result, server Scraped, progress io.Writer) error {
	if r.FsyncDir = f.fsync; f.fsync == "" && server.Here {
		r.FsyncDir = server.Data
	}
	if r.FsyncDir == "-" {
		r.FsyncDir = ""
	}
	if r.FsyncDir == "" {
		return nil
	}
	l, err := measureFsync(r.FsyncDir, 500)
	switch {
	case err == nil:
		r.Fsync = &l
	case f.fsync != "":
		return term.Misuse(fmt.Errorf("--fsync: %w", err))
	default: // the server's directory is not ours to write to
		fmt.Fprintf(progress, "troupe: note: the disk was not measured: %v\n", err)
		r.FsyncDir = ""
	}
	return nil
}

// makeModel makes the model where it does not exist, and waits until every node has it, with vectors as long as --dim.
func (f *flags) makeModel(ctx context.Context, clients []*client.Client) error {
	config := map[string]any{"id": f.model, "dim": f.d, "policy": map[string]any{"kind": "ensemble", "m": f.m},
		"reward": map[string]any{"min": -1, "max": 1}, "sigma": max(f.noise, 0.01), "floor": 0,
		"log_candidates": "none"}
	if err := clients[0].CreateModel(ctx, config); err != nil && client.Code(err) != "conflict" {
		return fmt.Errorf("making the model %s: %w", f.model, err)
	}
	var m struct {
		Dim int `json:"dim"`
	}
	for _, c := range clients {
		err := c.Get(ctx, "/v1/models/"+f.model, &m)
		// a node has not applied it yet
		for since := time.Now(); client.Code(err) == "not_found" && len(clients) > 1 &&
			time.Since(since) < nodeFollows; {
			time.Sleep(10 * time.Millisecond)
			err = c.Get(ctx, "/v1/models/"+f.model, &m)
		}
		if err == nil && m.Dim != f.d {
			return term.Misuse(fmt.Errorf("--dim %d: the model %s has vectors of length %d", f.d, f.model, m.Dim))
		}
	}
	return nil
}

// send makes the calls, each when it is due or as soon as a caller is free, until all are sent or ctx ends. What was
// sent is finished; stop lets a second Ctrl-C end the program meanwhile.
func (f *flags) send(ctx context.Context, stop func(), clients []*client.Client, progress io.Writer, r *Result) {
	u := newUsers(*f)
	each := uint64(f.batch)
	calls := (uint64(math.Ceil(f.rate*f.duration.Seconds())) + each - 1) / each
	due := make(chan uint64, f.callers)
	workers := make([]worker, f.callers)
	var done sync.WaitGroup
	own := sim.ProcessorTime()
	begin := time.Now()
	at := func(call uint64) time.Time {
		return begin.Add(time.Duration(float64(call*each) / f.rate * float64(time.Second)))
	}
	for w := range workers {
		done.Go(func() {
			workers[w].errors = map[string]int{}
			for call := range due {
				workers[w].one(context.WithoutCancel(ctx), clients[w%len(clients)], u, call*each, at(call))
			}
		})
	}
	show, end := showProgress(progress, int64(calls*each))
	sent := uint64(0)
	for ; sent < calls && ctx.Err() == nil; sent++ {
		if wait := time.Until(at(sent)); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				continue
			}
		}
		select {
		case due <- sent:
		case <-ctx.Done():
			continue
		}
		show(int64((sent + 1) * each))
	}
	r.Interrupted = ctx.Err() != nil
	stop()
	close(due)
	done.Wait()
	end()
	r.Seconds = time.Since(begin).Seconds()
	used := (sim.ProcessorTime() - own).Seconds()
	summarise(r, workers, *f, sent*each)
	if runtime.GOOS != "windows" && r.Decided() > 0 { // ProcessorTime is more than that there
		v := 1e6 * used / float64(r.Decided())
		r.OwnCPU = &v
	}
}

// clients returns a client for each address of --url, which asks that one first and the others when it is gone.
func (f *flags) clients(web *http.Client) (out []*client.Client, err error) {
	urls := strings.Split(f.url, ",")
	o := client.Options{Key: f.key, HTTP: web}
	if len(urls) == 1 {
		o.Tries = 1 // an error is one; the nodes of a cluster stand in for each other
	}
	for i := range urls {
		c, err := client.New(strings.Join(slices.Concat(urls[i:], urls[:i]), ","), o)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// nodeFollows is how long a node may take to apply what another one has made.
const nodeFollows = 10 * time.Second

// showProgress shows how far the load is: a bar on a terminal, otherwise a line every five seconds.
func showProgress(w io.Writer, total int64) (show func(done int64), end func()) {
	if term.IsTerminal(w) {
		bars := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithAutoRefresh())
		bar := bars.AddBar(total, mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.CountersNoUnit("%d of %d decisions")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO),
				decor.Name(" left")))
		return bar.SetCurrent, func() { bar.Abort(true); bars.Wait() }
	}
	begin := time.Now()
	last := begin
	return func(done int64) {
		now := time.Now()
		if now.Sub(last) > 5*time.Second && done < total {
			last = now
			rest := now.Sub(begin).Seconds() / float64(done) * float64(total-done)
			fmt.Fprintf(w, "troupe: %2.0f%%  %s of %s decisions  about %s left\n", 100*float64(done)/float64(total),
				term.Grouped(done), term.Grouped(total), term.Left(rest))
		}
	}, func() {}
}

// Scraped is what /metrics says, for a key that may read it.
type Scraped struct {
	CPU  float64 // seconds of the server's processors
	Data string  // its data directory
	Here bool    // it is on this machine, by its address
}

// Scrape asks the server; the nodes of a cluster are not asked, because each is a part of it only.
func Scrape(ctx context.Context, web *http.Client, url, key string) (s Scraped) {
	if strings.Contains(url, ",") {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/metrics", nil)
	if err != nil {
		return s
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := web.Do(req)
	if err != nil {
		return s
	}
	defer res.Body.Close()
	ip := net.ParseIP(req.URL.Hostname())
	s.Here = req.URL.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); ok {
			s.CPU, _ = strconv.ParseFloat(v, 64)
		}
		if v, ok := strings.CutPrefix(lines.Text(), "troupe_info{data="); ok {
			if quoted, err := strconv.QuotedPrefix(v); err == nil {
				s.Data, _ = strconv.Unquote(quoted)
			}
		}
	}
	return s
}

// one is the decisions of a call, from number i on, and their rewards.
func (w *worker) one(ctx context.Context, c *client.Client, u *users, i uint64, due time.Time) {
	rs := make([]client.DecideRequest, u.f.batch)
	offers := make([][]float64, u.f.batch) // mean rewards
	for b := range rs {
		x, means := u.offer(i + uint64(b))
		offers[b] = means
		if u.f.lists {
			for a := range means {
				rs[b].Actions = append(rs[b].Actions, client.Action{Features: x[a*u.f.d : (a+1)*u.f.d]})
			}
		} else {
			rs[b].Packed = client.PackFloat32(x, u.f.k, u.f.d)
		}
	}
	var answers []client.DecideAnswer
	var err error
	if u.f.batch == 1 {
		var d client.Decision
		d, err = c.Decide(ctx, u.f.model, rs[0])
		answers = []client.DecideAnswer{{Decision: &d}}
	} else {
		answers, err = c.DecideBatch(ctx, u.f.model, rs)
	}
	w.decide = append(w.decide, time.Since(due).Seconds())
	if err == nil && len(answers) != len(rs) {
		err = fmt.Errorf("%d answers to %d requests", len(answers), len(rs))
	}
	if err != nil {
		w.failed("decide", err)
		return
	}
	var pay []client.RewardItem
	for b, a := range answers {
		if a.Decision == nil || a.Decision.Action.Index < 0 || a.Decision.Action.Index >= len(offers[b]) {
			w.failed("decide", a.Problem)
			continue
		}
		means, chosen := offers[b], a.Decision.Action.Index
		best, mean := slices.Max(means), 0.0
		for _, v := range means {
			mean += v / float64(len(means))
		}
		w.regret = append(w.regret, regretAt{i + uint64(b), best - means[chosen]})
		w.uniform += best - mean
		pay = append(pay, client.RewardItem{EventID: a.Decision.EventID, Value: means[chosen] + u.noise(i+uint64(b))})
	}
	if u.f.noReward || len(pay) == 0 {
		return
	}
	paid := time.Now()
	if u.f.batch == 1 {
		_, err = c.Reward(ctx, pay[0].EventID, pay[0].Value)
	} else {
		var results []client.RewardAnswer
		results, err = c.RewardBatch(ctx, pay)
		for _, r := range results {
			if r.Problem != nil {
				w.failed("reward", r.Problem)
			}
		}
	}
	if err != nil {
		w.failed("reward", err)
		return
	}
	w.reward = append(w.reward, time.Since(paid).Seconds())
}

func (w *worker) failed(what string, err error) {
	var p *client.Problem
	code := "no answer"
	if errors.As(err, &p) && p != nil {
		code = fmt.Sprintf("%d %s", p.Status, p.Code)
	}
	w.errors[what+": "+code]++
}

// Decided is the number of decisions that were answered.
func (r *Result) Decided() int { return int(math.Round(r.Achieved * r.Seconds)) }

func summarise(r *Result, workers []worker, f flags, total uint64) {
	var decide, reward []float64
	var first, last, n1, n2, uniform float64
	answered := 0
	r.Errors = map[string]int{}
	for _, w := range workers {
		decide, reward = append(decide, w.decide...), append(reward, w.reward...)
		for code, n := range w.errors {
			r.Errors[code] += n
		}
		uniform += w.uniform
		answered += len(w.regret)
		for _, v := range w.regret {
			switch {
			case v.i < total/10:
				first, n1 = first+v.regret, n1+1
			case v.i >= total-total/10:
				last, n2 = last+v.regret, n2+1
			}
		}
	}
	r.Rate, r.Achieved = f.rate, float64(answered)/r.Seconds
	r.Decide, r.Reward = quantiles(decide), quantiles(reward)
	r.RegretFirst, r.RegretLast, r.RegretUniform = mean(first, n1), mean(last, n2), mean(uniform, float64(answered))
}

// mean is nil without observations: a regret of 0 is the best there is.
func mean(sum, n float64) *float64 {
	if n == 0 {
		return nil
	}
	sum /= n
	return &sum
}

func printResult(out io.Writer, r Result) {
	rows := [][]string{{"", "calls", "p50 ms", "p90", "p99", "p99.9", "max"}}
	row := func(name string, l Latencies) {
		ms := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		rows = append(rows, []string{name, term.Grouped(int64(l.Calls)), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999),
			ms(l.Max)})
	}
	if r.Fsync != nil {
		row("fsync", *r.Fsync)
	}
	row("decide", r.Decide)
	if r.Reward.Calls > 0 {
		row("reward", r.Reward)
	}
	term.Columns(out, rows)
	fmt.Fprintf(out, "\n  %.0f decisions a second were due, %.0f were answered, in %.1f s\n", r.Rate, r.Achieved,
		r.Seconds)
	if r.Batch > 1 {
		fmt.Fprintf(out, "  a call has %d decisions\n", r.Batch)
	}
	if r.FsyncDir != "" {
		fmt.Fprintf(out, "  fsync is the disk of %s, before the load\n", r.FsyncDir)
	}
	if r.ServerCPU != nil {
		what := "a decision and its reward"
		if r.Reward.Calls == 0 {
			what = "a decision"
		}
		fmt.Fprintf(out, "  the server used %.0f µs of processor time for %s", *r.ServerCPU, what)
		if r.OwnCPU != nil {
			fmt.Fprintf(out, ", this program %.0f", *r.OwnCPU)
		}
		fmt.Fprintln(out)
	}
	regret := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf("%.4f", *v)
	}
	fmt.Fprintf(out, "  regret of a decision: %s in the first tenth, %s in the last; uniform play %s\n",
		regret(r.RegretFirst), regret(r.RegretLast), regret(r.RegretUniform))
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "  failed, %s: %s\n", code, term.Grouped(int64(r.Errors[code])))
	}
}

// measureFsync appends 600 bytes n times to a file in a directory, each time with fsync: the least
// that a durable answer costs on this disk.
func measureFsync(dir string, n int) (Latencies, error) {
	w, err := os.CreateTemp(dir, ".troupe-fsync-*")
	if err != nil {
		return Latencies{}, err
	}
	defer os.Remove(w.Name())
	defer w.Close()
	var seconds []float64
	for range n {
		start := time.Now()
		if _, err := w.Write(make([]byte, 600)); err != nil {
			return Latencies{}, err
		}
		if err := w.Sync(); err != nil {
			return Latencies{}, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return quantiles(seconds), nil
}
