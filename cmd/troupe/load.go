package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"troupe/client"
	"troupe/rng"
)

// loadFlags are the flags of `troupe load`.
type loadFlags struct {
	url, model, key string
	rate            float64
	duration        time.Duration
	callers         int
	d, k, m         int
	noise           float64
	seed            uint64
	lists           bool
	noReward        bool
	fsync           string
	json            bool
}

func loadCommand() *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:   "load",
		Short: "Put load on a decision server, with users whose taste is known",
		Long: `Sends decisions at a fixed rate, whether or not the server keeps up, and pays each with a reward
⟨x, θ*⟩ + noise of a θ* that only this program knows. Latency counts from the moment a request was due,
not from when it could be sent, so a server that stalls is not flattered. Beside latencies it prints
the mean regret of the first and the last tenth and that of uniform play: does it learn?

The model is made when it does not exist: an ensemble on plain vectors. Exit code 1 when a call failed.`,
		Example: `  troupe load --rate 2000 --duration 30s
  troupe load --rate 500 --duration 10s --lists --json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.url, "url", "http://127.0.0.1:8080", "the server")
	fl.StringVar(&f.model, "model", "load", "name of the model")
	fl.StringVar(&f.key, "key", os.Getenv("TROUPE_KEY"), "API key; default is the environment's TROUPE_KEY")
	fl.Float64Var(&f.rate, "rate", 1000, "decisions a second")
	fl.DurationVar(&f.duration, "duration", 10*time.Second, "how long")
	fl.IntVar(&f.callers, "callers", 256, "requests at once; more are due later, and their latency says so")
	fl.IntVarP(&f.d, "dim", "d", 32, "length of the vectors")
	fl.IntVarP(&f.k, "arms", "K", 20, "actions of a decision")
	fl.IntVarP(&f.m, "members", "m", 32, "members of the ensemble")
	fl.Float64Var(&f.noise, "noise", 0.1, "half the width of the uniform noise")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of θ*, actions and noise")
	fl.BoolVar(&f.lists, "lists", false, "send features as JSON lists instead of packed numbers")
	fl.BoolVar(&f.noReward, "no-reward", false, "send decisions only")
	fl.StringVar(&f.fsync, "fsync", "", "measure the disk of this directory too, before the load")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return c
}

func (f *loadFlags) check() error {
	switch {
	case !(f.rate > 0) || f.rate > 1e6:
		return fmt.Errorf("--rate %v: expected a number in (0, 1e6]", f.rate)
	case f.duration <= 0 || f.rate*f.duration.Seconds() > 5e7:
		return fmt.Errorf("--duration %v: expected a time with at most 50 million decisions", f.duration)
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
	f     loadFlags
	key   rng.Key
	theta []float64
}

func newUsers(f loadFlags) *users {
	u := &users{f: f, key: rng.NewKey(f.seed), theta: make([]float64, f.d)}
	direction(u.theta, u.key.Stream(rng.Instance).Round(0), 0)
	for i := range u.theta {
		u.theta[i] /= 2 // with the noise, rewards stay in [−1, 1]
	}
	return u
}

// direction fills x with a uniform direction from the numbers j0, j0+1, … of a source, a little
// inside the ball: the server refuses what rounding would put outside.
func direction(x []float64, draw rng.Source, j0 int) {
	var q float64
	for j := range x {
		x[j] = draw.Normal(j0 + j)
		q += x[j] * x[j]
	}
	scale := (1 - 1e-9) / math.Sqrt(q)
	for j := range x {
		x[j] *= scale
	}
}

// offer returns the actions of request i, K×d row after row, with their mean rewards.
func (u *users) offer(i uint64) (x, means []float64) {
	x, means = make([]float64, u.f.k*u.f.d), make([]float64, u.f.k)
	draw := u.key.Stream(rng.Offer).Round(i)
	for a := range means {
		row := x[a*u.f.d : (a+1)*u.f.d]
		direction(row, draw, a*u.f.d)
		for j, v := range row {
			means[a] += v * u.theta[j]
		}
	}
	return x, means
}

func (u *users) noise(i uint64) float64 {
	return u.f.noise * u.key.Stream(rng.Reward).Round(i).Uniform(0)
}

// latencies are quantiles in milliseconds.
type latencies struct {
	Calls int     `json:"calls"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
}

// quantiles sorts seconds and reads the order statistics of rank ⌈qn⌉.
func quantiles(seconds []float64) latencies {
	n := len(seconds)
	l := latencies{Calls: n}
	if n == 0 {
		return l
	}
	slices.Sort(seconds)
	at := func(q float64) float64 { return 1e3 * seconds[max(0, int(math.Ceil(q*float64(n)))-1)] }
	l.P50, l.P90, l.P99, l.P999, l.Max = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
	return l
}

// loadResult is what a run found.
type loadResult struct {
	Rate          float64        `json:"rate"`     // asked for, a second
	Achieved      float64        `json:"achieved"` // decisions answered a second
	Seconds       float64        `json:"seconds"`
	Decide        latencies      `json:"decide"`
	Reward        latencies      `json:"reward"`
	Errors        map[string]int `json:"errors,omitempty"` // by code
	RegretFirst   float64        `json:"regret_first_tenth"`
	RegretLast    float64        `json:"regret_last_tenth"`
	RegretUniform float64        `json:"regret_uniform"`
	Fsync         *latencies     `json:"fsync,omitempty"`
}

// loadWorker is what one caller notes.
type loadWorker struct {
	decide, reward []float64
	errors         map[string]int
	regret         []regretAt
	uniform        float64
}

type regretAt struct {
	i      uint64
	regret float64
}

func load(ctx context.Context, out, progress io.Writer, f loadFlags) error {
	if err := f.check(); err != nil {
		return misuse(err)
	}
	var result loadResult
	if f.fsync != "" {
		l, err := measureFsync(f.fsync, 500)
		if err != nil {
			return err
		}
		result.Fsync = &l
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = f.callers, f.callers
	defer transport.CloseIdleConnections()
	c, err := client.New(f.url, client.Options{Key: f.key, HTTP: &http.Client{Transport: transport, Timeout: 30 * time.Second}, Tries: 1})
	if err != nil {
		return misuse(err)
	}
	config := map[string]any{"id": f.model, "dim": f.d, "policy": map[string]any{"kind": "ensemble", "m": f.m}, "sigma": max(f.noise, 0.01), "log_candidates": "none"}
	if err := c.CreateModel(ctx, config); err != nil && client.Code(err) != "conflict" {
		return fmt.Errorf("making the model %s: %w", f.model, err)
	}
	var m struct {
		Dim int `json:"dim"`
	}
	if err := c.Get(ctx, "/v1/models/"+f.model, &m); err == nil && m.Dim != f.d {
		return misuse(fmt.Errorf("--dim %d: the model %s has vectors of length %d", f.d, f.model, m.Dim))
	}

	u := newUsers(f)
	total := uint64(math.Ceil(f.rate * f.duration.Seconds()))
	due := make(chan uint64, f.callers)
	workers := make([]loadWorker, f.callers)
	var done sync.WaitGroup
	begin := time.Now()
	for w := range workers {
		done.Go(func() {
			workers[w].errors = map[string]int{}
			for i := range due {
				workers[w].one(ctx, c, u, i, begin.Add(time.Duration(float64(i)/f.rate*float64(time.Second))))
			}
		})
	}
	last := begin
	for i := uint64(0); i < total && ctx.Err() == nil; i++ {
		at := begin.Add(time.Duration(float64(i) / f.rate * float64(time.Second)))
		if wait := time.Until(at); wait > 0 {
			time.Sleep(wait)
		}
		due <- i
		if now := time.Now(); now.Sub(last) > 5*time.Second {
			last = now
			fmt.Fprintf(progress, "%s of %s decisions\n", grouped(int64(i)), grouped(int64(total)))
		}
	}
	close(due)
	done.Wait()
	result.Seconds = time.Since(begin).Seconds()
	summarise(&result, workers, f, total)
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(result)
	} else {
		printLoad(out, result)
	}
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && len(result.Errors) > 0 {
		err = &silentError{exitFailed, errors.New("calls failed")}
	}
	return err
}

// one is decision i and its reward.
func (w *loadWorker) one(ctx context.Context, c *client.Client, u *users, i uint64, due time.Time) {
	x, means := u.offer(i)
	var r client.DecideRequest
	if u.f.lists {
		for a := range means {
			r.Actions = append(r.Actions, client.Action{Features: x[a*u.f.d : (a+1)*u.f.d]})
		}
	} else {
		r.Packed = client.PackFloat64(x, u.f.k, u.f.d)
	}
	d, err := c.Decide(ctx, u.f.model, r)
	w.decide = append(w.decide, time.Since(due).Seconds())
	if err != nil {
		w.failed("decide", err)
		return
	}
	best, mean := slices.Max(means), 0.0
	for _, v := range means {
		mean += v / float64(len(means))
	}
	w.regret = append(w.regret, regretAt{i, best - means[d.Action.Index]})
	w.uniform += best - mean
	if u.f.noReward {
		return
	}
	paid := time.Now()
	if _, err := c.Reward(ctx, d.EventID, means[d.Action.Index]+u.noise(i)); err != nil {
		w.failed("reward", err)
		return
	}
	w.reward = append(w.reward, time.Since(paid).Seconds())
}

func (w *loadWorker) failed(what string, err error) {
	code := client.Code(err)
	if code == "" {
		code = "no answer"
	}
	w.errors[what+": "+code]++
}

func summarise(r *loadResult, workers []loadWorker, f loadFlags, total uint64) {
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
	r.RegretFirst, r.RegretLast, r.RegretUniform = first/max(1, n1), last/max(1, n2), uniform/max(1, float64(answered))
}

func printLoad(out io.Writer, r loadResult) {
	rows := [][]string{{"", "calls", "p50 ms", "p90", "p99", "p99.9", "max"}}
	row := func(name string, l latencies) {
		ms := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		rows = append(rows, []string{name, grouped(int64(l.Calls)), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max)})
	}
	if r.Fsync != nil {
		row("fsync", *r.Fsync)
	}
	row("decide", r.Decide)
	if r.Reward.Calls > 0 {
		row("reward", r.Reward)
	}
	columns(out, rows)
	fmt.Fprintf(out, "\n  %.0f decisions a second were due, %.0f were answered, in %.1f s\n", r.Rate, r.Achieved, r.Seconds)
	fmt.Fprintf(out, "  regret of a decision: %.4f in the first tenth, %.4f in the last; uniform play %.4f\n", r.RegretFirst, r.RegretLast, r.RegretUniform)
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(out, "  failed, %s: %s\n", code, grouped(int64(r.Errors[code])))
	}
}

// measureFsync appends 600 bytes n times to a file in a directory, each time with fsync: the least
// that a durable answer costs on this disk.
func measureFsync(dir string, n int) (latencies, error) {
	name := filepath.Join(dir, ".troupe-fsync")
	w, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return latencies{}, err
	}
	defer os.Remove(name)
	defer w.Close()
	var seconds []float64
	for range n {
		start := time.Now()
		if _, err := w.Write(make([]byte, 600)); err != nil {
			return latencies{}, err
		}
		if err := w.Sync(); err != nil {
			return latencies{}, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return quantiles(seconds), nil
}
