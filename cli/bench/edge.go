package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"troupe/cli/load"
	"troupe/rng"
)

// edgeCases are the rows of `troupe bench edge`.
var edgeCases = []edgeCase{
	{name: "packed", form: packedForm, model: vectorModel},
	{name: "lists", form: listsForm, model: vectorModel},
	{name: "named", form: namedForm, model: `{"id": "named", "floor": 0, "log_candidates": "none",
		"policy": {"kind": "ensemble", "m": 32}, "features": {"features": [
		{"feature": "context.user.city", "kind": "category", "levels": ["Oslo", "Paris"], "unseen": "other"},
		{"feature": "context.user.age", "kind": "number", "range": [0, 100], "outside": "clamp"},
		{"feature": "action.price", "kind": "number", "range": [0, 1]},
		{"feature": "action.brand", "kind": "category", "buckets": 8},
		{"feature": "action.text", "kind": "text", "buckets": 16}]}}`},
	{name: "batch of 64", form: packedForm, model: vectorModel, batch: 64},
	{name: "pair", form: packedForm, model: vectorModel, reward: true},
	{name: "default", form: namedForm, model: `{"id": "default"}`},
}

const vectorModel = `{"id": "vectors", "dim": 32, "floor": 0, "log_candidates": "none", "policy": {"kind": "ensemble", "m": 32}}`

// The forms of a body.
const (
	packedForm = iota
	listsForm
	namedForm
)

// edgeCase is a row: what callers send in closed loop, 64 of them, or 8 with batches.
type edgeCase struct {
	name   string
	form   int
	model  string // configuration
	batch  int    // decisions of a call, 0: one
	reward bool   // each decision gets its reward
}

func (c edgeCase) callers() int {
	if c.batch > 0 {
		return 8
	}
	return 64
}

// edgeResult is a line of the table, and of --json. Times are microseconds of processor time for a decision, medians.
type edgeResult struct {
	Row    string  `json:"row"`
	Troupe float64 `json:"troupe_us"`
	Limit  float64 `json:"limit_us"`
	Ratio  float64 `json:"ratio"`  // the median of those of the turns
	Spread float64 `json:"spread"` // of the ratio: half the distance of the quartiles over the median
}

// edgeReport is what --json prints.
type edgeReport struct {
	Hello float64      `json:"hello_us"` // GET /hello of the limit program
	Times float64      `json:"packed_over_hello"`
	Valid bool         `json:"valid"`
	Rows  []edgeResult `json:"rows"`
}

// The limit program's packed decision costs that many times GET /hello where the machine is as it should be: below, the
// sync is missing; above, something else takes the processors.
const edgeLow, edgeHigh = 2.5, 3.5

// edgeLength is how long a row of a turn takes.
const edgeLength = 700 * time.Millisecond

// benchEdge measures a server against the limit program, in turns; both are processes of the program self.
func benchEdge(ctx context.Context, out, progress io.Writer, f flags, self string, length time.Duration) error {
	dir, err := os.MkdirTemp("", "troupe-edge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	own, err := startEdge(ctx, self, dir, "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		"--ready-file", filepath.Join(dir, "ready"))
	if err != nil {
		return err
	}
	defer own.stop()
	limit, err := startEdge(ctx, self, dir, "edge-limit", filepath.Join(dir, "limit.log"))
	if err != nil {
		return err
	}
	defer limit.stop()
	rows, err := edgeRows(ctx, own)
	if err != nil {
		return err
	}
	var hello, packed []float64
	for turn := range f.rounds + 1 { // the first one warms up
		h, p, err := edgeTurn(ctx, rows, own, limit, length, turn > 0)
		if err != nil {
			return err
		}
		if turn > 0 {
			hello, packed = append(hello, h), append(packed, p)
			fmt.Fprintf(progress, "turn %d of %d\n", turn, f.rounds)
		}
	}
	report := edgeReport{Hello: 1e6 * median(hello), Times: median(packed)}
	report.Valid = report.Times >= edgeLow && report.Times <= edgeHigh
	for _, r := range rows {
		report.Rows = append(report.Rows, edgeResult{r.c.name, 1e6 * median(r.own), 1e6 * median(r.limit),
			median(r.ratio), spread(r.ratio)})
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return report.print(out)
}

// edgeRow is a row with its requests and what it took in each turn.
type edgeRow struct {
	c      edgeCase
	bodies [][]byte
	path   string
	own    []float64
	limit  []float64
	ratio  []float64
}

// edgeRows makes the models of the rows and their requests.
func edgeRows(ctx context.Context, own *edgeServer) (rows []*edgeRow, err error) {
	for _, c := range edgeCases {
		var head struct{ ID string }
		if err := json.Unmarshal([]byte(c.model), &head); err != nil {
			return nil, err
		}
		if err := own.create(ctx, c.model); err != nil {
			return nil, err
		}
		r := &edgeRow{c: c, path: "/v1/models/" + head.ID + ":decide"}
		if c.batch > 0 {
			r.path += "Batch"
		}
		source := rng.NewKey(1).Stream(rng.Instance)
		for i := range 16 {
			r.bodies = append(r.bodies, c.body(source.Round(uint64(i))))
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// edgeTurn measures every row on both servers, and notes it where it counts. It returns what GET /hello took and how
// many times that the first row took on the limit program.
func edgeTurn(ctx context.Context, rows []*edgeRow, own, limit *edgeServer, length time.Duration, counts bool) (hello,
	packed float64, err error) {
	if hello, err = limit.load(ctx, edgeCase{}, "/hello", nil, length); err != nil {
		return 0, 0, err
	}
	for i, r := range rows {
		a, err := limit.load(ctx, r.c, r.path, r.bodies, length)
		if err != nil {
			return 0, 0, err
		}
		b, err := own.load(ctx, r.c, r.path, r.bodies, length)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			packed = a / hello
		}
		if counts {
			r.limit, r.own, r.ratio = append(r.limit, a), append(r.own, b), append(r.ratio, b/a)
		}
	}
	return hello, packed, nil
}

func (r edgeReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "decision\ttroupe µs\tlimit µs\tover limit\tspread\t")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f×\t±%.0f%%\t\n", x.Row, x.Troupe, x.Limit, x.Ratio, 100*x.Spread)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	verdict := "valid"
	if !r.Valid {
		verdict = fmt.Sprintf("not valid: expected %.1f to %.1f; a disk that does not sync, or other work on the "+
			"machine", edgeLow, edgeHigh)
	}
	_, err := fmt.Fprintf(out, "GET /hello of the limit program: %.1f µs; its packed decision costs %.1f times that: "+
		"%s\n", r.Hello, r.Times, verdict)
	return err
}

// edgeServer is a process under load.
type edgeServer struct {
	cmd *exec.Cmd
	url *url.URL
}

// startEdge starts the program and waits for its address: the first line of the limit program, the ready file
// of the server.
func startEdge(ctx context.Context, self, dir string, args ...string) (*edgeServer, error) {
	s := &edgeServer{cmd: exec.CommandContext(ctx, self, args...)}
	var said bytes.Buffer
	s.cmd.Stderr = &said
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line := ""
	if args[0] == "serve" {
		line, err = waitForFile(ctx, filepath.Join(dir, "ready"))
	} else {
		line, err = bufio.NewReader(stdout).ReadString('\n')
	}
	if err == nil {
		s.url, err = url.Parse(strings.TrimSpace(line))
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("troupe %s: %w\n%s", args[0], err, said.String())
	}
	return s, nil
}

// waitForFile returns the text of a file once it has one, for at most a minute.
func waitForFile(ctx context.Context, path string) (string, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 {
			return string(b), nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
	return "", fmt.Errorf("it did not answer within a minute")
}

func (s *edgeServer) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
}

func (s *edgeServer) create(ctx context.Context, config string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String()+"/v1/models", strings.NewReader(config))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	// rows share a model
	if err == nil && res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusConflict {
		err = fmt.Errorf("a model was not made: %s %s", res.Status, b)
	}
	return err
}

// load lets callers send bodies for a time and returns the seconds of the server's processors for a decision. The time
// is repeated until the server has worked for some ticks of the system's clock, on a machine that has other work.
func (s *edgeServer) load(ctx context.Context, c edgeCase, path string, bodies [][]byte, length time.Duration) (float64,
	error) {
	used := func() float64 { return load.Scrape(ctx, http.DefaultClient, s.url.String(), "").CPU }
	least := min(0.05, length.Seconds()) // below, the clock of the processor is too coarse
	var done atomic.Int64
	before := used()
	for range 100 {
		if err := s.window(ctx, c, path, bodies, length, &done); err != nil {
			return 0, err
		}
		if spent := used() - before; spent > least && done.Load() > 0 {
			return spent / float64(done.Load()), nil
		}
	}
	return 0, fmt.Errorf("%s: %d decisions took no processor time", s.url, done.Load())
}

// errShed: the server answered 429, because decisions waited too long. What it spent on that counts, the decision does
// not.
var errShed = errors.New("too many requests")

func (s *edgeServer) window(ctx context.Context, c edgeCase, path string, bodies [][]byte, length time.Duration,
	done *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for caller := range c.callers() {
		wg.Go(func() {
			if err := s.call(ctx, c, path, bodies, caller, done); err != nil {
				failed.CompareAndSwap(nil, &err)
				cancel()
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// call is one caller: a connection of its own and requests that were written before, so that the generator takes little
// of the machine that it measures.
func (s *edgeServer) call(ctx context.Context, c edgeCase, path string, bodies [][]byte, caller int,
	done *atomic.Int64) error {
	conn, err := net.Dial("tcp", s.url.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var answer bytes.Buffer
	send := func(path string, body []byte) error {
		head := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if body != nil {
			head = fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
		}
		if _, err := conn.Write(append([]byte(head), body...)); err != nil {
			return err
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		answer.Reset()
		if _, err := answer.ReadFrom(res.Body); err != nil {
			return err
		}
		if res.StatusCode == http.StatusTooManyRequests {
			return errShed
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s %s", path, res.Status, answer.Bytes())
		}
		return nil
	}
	for i := caller; ctx.Err() == nil; i++ {
		var body []byte
		if bodies != nil {
			body = bodies[i%len(bodies)]
		}
		if err := send(path, body); err == errShed {
			continue
		} else if err != nil {
			return err
		}
		if c.reward {
			var d struct {
				EventID string `json:"event_id"`
			}
			if err := json.Unmarshal(answer.Bytes(), &d); err != nil {
				return err
			}
			if err := send("/v1/events/"+d.EventID+":reward", []byte(`{"value":0.5}`)); err != nil {
				return err
			}
		}
		done.Add(int64(max(1, c.batch)))
	}
	return nil
}

// body is a request with numbers of its own.
func (c edgeCase) body(source rng.Source) []byte {
	one := func(n uint64) json.RawMessage {
		x := make([]float64, edgeArms*edgeDim)
		source.Sub(n).Normals(x, 0)
		request := map[string]any{}
		var actions []map[string]any
		var raw []byte
		for i := range edgeArms {
			row := x[i*edgeDim : (i+1)*edgeDim]
			for j := range row {
				row[j] /= 10 * math.Sqrt2
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(row[j])))
			}
			var features any = row
			if c.form == namedForm {
				features = map[string]any{"price": math.Abs(row[0]), "brand": fmt.Sprint("b", i%7),
					"text": "a small red thing"}
			}
			actions = append(actions, map[string]any{"id": fmt.Sprint("a", i), "features": features})
		}
		switch request["actions"] = actions; c.form {
		case packedForm:
			request = map[string]any{"packed": map[string]any{"dtype": "float32", "shape": []int{edgeArms, edgeDim},
				"data": base64.StdEncoding.EncodeToString(raw)}}
		case namedForm:
			request["context"] = map[string]any{"user": map[string]any{"city": "Oslo", "age": 31}}
		}
		b, err := json.Marshal(request)
		if err != nil {
			panic(err) // maps of numbers and texts
		}
		return b
	}
	if c.batch == 0 {
		return one(0)
	}
	var all []json.RawMessage
	for i := range c.batch {
		all = append(all, one(uint64(i)))
	}
	b, err := json.Marshal(map[string]any{"requests": all})
	if err != nil {
		panic(err)
	}
	return b
}
