// Package client calls a troupe decision server over HTTP.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	d, err := c.Decide(ctx, "news", client.DecideRequest{
//		Context: map[string]any{"user": map[string]any{"city": "Oslo", "age": 31}},
//		Actions: []client.Action{{ID: "a", Features: features}, {ID: "b", Features: others}},
//	})
//	r, err := c.Reward(ctx, d.EventID, 1)
//
// Calls are repeated when the server is busy, restarting or out of reach, for as long as the context
// allows, at most [Options].Tries times. Repeating is safe: a decision carries an idempotency key, so
// that the second attempt gets the decision of the first, and a reward is known by its event. When a
// call ends with an error that is [Unknown], the server may or may not have recorded it; call again
// with the same request and key.
//
// The package needs nothing but the standard library and knows nothing of the server's code.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options configure a client. Zero fields stand for the defaults.
type Options struct {
	// Key is an API key, troupe_ID_SECRET.
	Key string
	// HTTP does the requests, http.DefaultClient when nil. For many calls at once give it a
	// Transport with MaxIdleConnsPerHost of their number.
	HTTP *http.Client
	// Tries is how often a call is attempted, default 5; 1 means no repetition.
	Tries int
	// Backoff is the longest wait before the second attempt, default 50 ms; it doubles with each
	// one, up to 5 s. The wait is random below it. A Retry-After of the server that is longer wins.
	Backoff time.Duration
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	base string
	opts Options
	wait func(context.Context, time.Duration) error // replaced in tests
}

// New returns a client of the server at a base URL such as http://127.0.0.1:8080, or at a socket in the file system,
// unix:/run/troupe.sock. Options.HTTP does not go with a socket.
func New(base string, o Options) (*Client, error) {
	if path, ok := strings.CutPrefix(base, "unix:"); ok {
		if path == "" || o.HTTP != nil {
			return nil, fmt.Errorf("client: base URL is %q, expected unix:PATH and no HTTP client of your own", base)
		}
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		base, o.HTTP = "http://localhost", &http.Client{Transport: t}
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("client: base URL is %q, expected http://HOST, https://HOST or unix:PATH", base)
	}
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	if o.Tries == 0 {
		o.Tries = 5
	}
	if o.Backoff == 0 {
		o.Backoff = 50 * time.Millisecond
	}
	return &Client{base: strings.TrimRight(base, "/"), opts: o, wait: wait}, nil
}

// Action is a candidate. Features is any value that becomes JSON: a map, a struct, a list of
// numbers, [Packed]; nil for an entry of the model's catalogue.
type Action struct {
	ID       string `json:"id,omitempty"`
	Features any    `json:"features,omitempty"`
}

// DecideRequest asks for an action.
type DecideRequest struct {
	Context   any      `json:"context,omitempty"`
	Actions   []Action `json:"actions,omitempty"`
	Packed    *Packed  `json:"packed,omitempty"` // instead of Actions: a row for each
	IDs       []string `json:"ids,omitempty"`    // of the rows of Packed
	Available []bool   `json:"available,omitempty"`
	Exclude   []string `json:"exclude,omitempty"`
	Baseline  *int     `json:"baseline,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Defer     bool     `json:"defer_activation,omitempty"`
	MinSeq    uint64   `json:"min_seq,omitempty"`
	Explain   string   `json:"explain,omitempty"` // "full"
	// IdempotencyKey is made by Decide when it is empty.
	IdempotencyKey string `json:"-"`
}

// Packed is a block of numbers, much cheaper for the server than lists of them.
type Packed struct {
	Type  string `json:"dtype"` // float32 or float64
	Shape [2]int `json:"shape"` // rows, columns
	Data  []byte `json:"data"`  // row after row, little endian
}

// PackFloat64 packs rows × cols numbers, row after row. It panics when x has another length.
func PackFloat64(x []float64, rows, cols int) *Packed {
	if len(x) != rows*cols {
		panic("client: PackFloat64: len(x) is not rows × cols")
	}
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return &Packed{Type: "float64", Shape: [2]int{rows, cols}, Data: b}
}

// PackFloat32 packs rows × cols numbers, row after row, each rounded to float32: half the bytes. It panics when x has another
// length.
func PackFloat32(x []float64, rows, cols int) *Packed {
	if len(x) != rows*cols {
		panic("client: PackFloat32: len(x) is not rows × cols")
	}
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return &Packed{Type: "float32", Shape: [2]int{rows, cols}, Data: b}
}

// Fraction is an exact probability.
type Fraction struct {
	Num uint64 `json:"num"`
	Den uint64 `json:"den"`
}

// Float returns the quotient.
func (f Fraction) Float() float64 { return float64(f.Num) / float64(f.Den) }

// Chosen is an action with its place among the candidates.
type Chosen struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
}

// Decision is what the server decided. It was durable before it was sent.
type Decision struct {
	EventID    string      `json:"event_id"`
	Action     Chosen      `json:"action"`
	Propensity Fraction    `json:"propensity"`
	Mode       string      `json:"mode"`
	Seq        uint64      `json:"seq"`
	BasisSeq   uint64      `json:"basis_seq"`
	Durable    bool        `json:"durable"`
	Repeated   bool        `json:"repeated"`
	Warnings   []string    `json:"warnings"` // what the model could not use of the request; the first affected decisions have it
	Would      *Would      `json:"would"`
	Explain    []Explained `json:"explain"`
}

// Would is what the policy would have played instead of the baseline.
type Would struct {
	Action     string   `json:"action"`
	Propensity Fraction `json:"propensity"`
}

// Explained is one candidate in the eyes of the policy.
type Explained struct {
	Chosen
	Propensity Fraction `json:"propensity"`
	Votes      uint64   `json:"votes"`
	Voters     uint64   `json:"voters"`
	Alike      int      `json:"alike"` // candidates with equal features, which share votes and probability; 0 for one
	Score      *float64 `json:"score"`
}

// RewardResult is the effect of a reward: accepted, duplicate, late or ignored.
type RewardResult struct {
	Status string `json:"status"`
	Seq    uint64 `json:"seq"`
}

// RewardItem is one reward of a batch.
type RewardItem struct {
	EventID string  `json:"event_id"`
	Value   float64 `json:"value"`
	Key     string  `json:"key,omitempty"`
}

// RewardAnswer is one answer of a batch: a result or a problem.
type RewardAnswer struct {
	Result  *RewardResult `json:"result"`
	Problem *Problem      `json:"problem"`
}

// DecideAnswer is one answer of a batch: a decision or a problem.
type DecideAnswer struct {
	Decision *Decision `json:"decision"`
	Problem  *Problem  `json:"problem"`
}

// Problem is an error that the server answered.
type Problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Code       string `json:"code"`
	Detail     string `json:"detail"`
	Field      string `json:"field"`
	RetryAfter int    `json:"retry_after"` // seconds
	Unknown    bool   `json:"unknown_outcome"`
}

func (p *Problem) Error() string {
	s := fmt.Sprintf("troupe: %d %s", p.Status, p.Code)
	if p.Field != "" {
		s += ": " + p.Field
	}
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	return s
}

// Code returns the code of a *Problem, "" for other errors.
func Code(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// Unknown reports whether the call may have been recorded although it failed: the connection broke
// after the request was sent, or the server said so.
func Unknown(err error) bool {
	var p *Problem
	var lost *lostError
	return errors.As(err, &p) && p.Unknown || errors.As(err, &lost)
}

// lostError is a request without an answer.
type lostError struct{ err error }

func (e *lostError) Error() string { return "troupe: no answer: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// CreateModel makes a model from a configuration, any value that becomes its JSON.
func (c *Client) CreateModel(ctx context.Context, config any) error {
	return c.call(ctx, "POST", "/v1/models", nil, config, nil)
}

// CreateModelFrom makes a model that starts from a saved one: a file of troupe train, or what SaveModel returned. It is not repeated
// when its outcome is unknown; a second call is then answered with the code conflict if the model was made.
func (c *Client) CreateModelFrom(ctx context.Context, name string, saved []byte) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	return c.repeat(ctx, false, "POST", "/v1/models/"+url.PathEscape(name)+":createFrom", header, octets(saved), nil)
}

// SaveModel reads a model without its past: configuration, seed and state, as it is now, or with a sequence as it was after that
// entry of the log.
func (c *Client) SaveModel(ctx context.Context, name string, seq uint64) ([]byte, error) {
	path := "/v1/models/" + url.PathEscape(name) + "/state?format=model"
	if seq > 0 {
		path += "&seq=" + strconv.FormatUint(seq, 10)
	}
	var out octets
	err := c.call(ctx, "GET", path, nil, nil, &out)
	return out, err
}

// Decisions copies what at most entries entries of the log (1 to 100,000,000), from sequence from on, say of the decisions of a model, with
// what became of them, to w: JSON lines with the columns of troupe log export. 0 is the beginning. next is where to go on; it is past
// applied at the end of the log. A page that broke off is an error, and a part of it has been written.
func (c *Client) Decisions(ctx context.Context, w io.Writer, model string, from uint64, entries int) (next, applied uint64, err error) {
	page := rowPage{w: w}
	path := fmt.Sprintf("/v1/models/%s/decisions?from=%d&page_size=%d", url.PathEscape(model), from, entries)
	err = c.repeat(ctx, false, "GET", path, nil, nil, &page)
	return page.next, page.applied, err
}

// rowPage is the target of an answer in JSON lines that are copied.
type rowPage struct {
	w             io.Writer
	next, applied uint64
}

func (p *rowPage) read(header http.Header, body io.Reader) (err error) {
	if p.next, err = strconv.ParseUint(header.Get("Log-Next"), 10, 64); err != nil {
		return fmt.Errorf("header Log-Next: %w", err)
	}
	if p.applied, err = strconv.ParseUint(header.Get("Log-Applied"), 10, 64); err != nil {
		return fmt.Errorf("header Log-Applied: %w", err)
	}
	_, err = io.Copy(p.w, body)
	return err
}

// octets is a body that is not JSON.
type octets []byte

func (o *octets) read(_ http.Header, body io.Reader) (err error) {
	*o, err = io.ReadAll(body)
	return err
}

// Model is what the server says of a model, in part; Get reads all of it.
type Model struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`     // of the features: hashed, schema, vector or learn
	Warnings []string          `json:"warnings"` // what it ignores, cannot tell apart or has assumed, and what to do
	Notes    map[string]uint64 `json:"notes"`    // decisions by what encoding met
	Range    struct {
		Min      float64 `json:"min"`
		Max      float64 `json:"max"`
		Declared bool    `json:"declared"`
	} `json:"range"`
	// Missing is what an event without a reward counts, nil when it teaches nothing.
	Missing *struct {
		Value   float64 `json:"value"`
		Adopted bool    `json:"adopted"` // from the data
	} `json:"missing"`
	Failed string `json:"failed"`
}

// Model reads a model.
func (c *Client) Model(ctx context.Context, name string) (m Model, err error) {
	err = c.Get(ctx, "/v1/models/"+url.PathEscape(name), &m)
	return m, err
}

// Decide chooses an action. It makes an idempotency key when the request has none, unless calls are
// never repeated (Options.Tries 1).
func (c *Client) Decide(ctx context.Context, model string, r DecideRequest) (Decision, error) {
	if r.IdempotencyKey == "" && c.opts.Tries > 1 {
		r.IdempotencyKey = newKey()
	}
	var header http.Header
	if r.IdempotencyKey != "" {
		header = http.Header{"Idempotency-Key": {r.IdempotencyKey}}
	}
	var d Decision
	err := c.call(ctx, "POST", "/v1/models/"+url.PathEscape(model)+":decide", header, r, &d)
	return d, err
}

// DecideBatch decides many requests on one state, all durable together. Keys of the requests are
// not used: it is repeated only when the server refused it, not when its outcome is unknown.
func (c *Client) DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideAnswer, error) {
	var out struct {
		Results []DecideAnswer `json:"results"`
	}
	err := c.repeat(ctx, false, "POST", "/v1/models/"+url.PathEscape(model)+":decideBatch", nil, map[string]any{"requests": rs}, &out)
	return out.Results, err
}

// Reward pays for a decision. Under the rules sum and last, where every call would count, RewardOnce
// is the one to repeat.
func (c *Client) Reward(ctx context.Context, eventID string, value float64) (RewardResult, error) {
	key := ""
	if c.opts.Tries > 1 {
		key = newKey()
	}
	return c.RewardOnce(ctx, eventID, value, key)
}

// RewardOnce pays for a decision under a key of the caller's: a second call with it changes nothing.
func (c *Client) RewardOnce(ctx context.Context, eventID string, value float64, key string) (RewardResult, error) {
	var r RewardResult
	body := struct {
		Value float64 `json:"value"`
		Key   string  `json:"key,omitempty"`
	}{value, key}
	err := c.call(ctx, "POST", "/v1/events/"+url.PathEscape(eventID)+":reward", nil, body, &r)
	return r, err
}

// RewardBatch pays for many decisions. Items without a key get one.
func (c *Client) RewardBatch(ctx context.Context, items []RewardItem) ([]RewardAnswer, error) {
	own := append([]RewardItem(nil), items...)
	for i := range own {
		if own[i].Key == "" {
			own[i].Key = newKey()
		}
	}
	var out struct {
		Results []RewardAnswer `json:"results"`
	}
	err := c.call(ctx, "POST", "/v1/rewards:batch", nil, map[string]any{"rewards": own}, &out)
	return out.Results, err
}

// Activate makes a deferred decision count.
func (c *Client) Activate(ctx context.Context, eventID string) (RewardResult, error) {
	var r RewardResult
	err := c.call(ctx, "POST", "/v1/events/"+url.PathEscape(eventID)+":activate", nil, nil, &r)
	return r, err
}

// LogRecord is one record of the log of a model: a decision, a reward, an activation, a window that
// was closed (expire), a change of the model (control) or a loss. Event joins them.
type LogRecord struct {
	Seq      uint64    `json:"seq"`
	Kind     string    `json:"kind"`
	Event    string    `json:"event"`
	EventID  string    `json:"event_id"` // of a decision
	Time     time.Time `json:"time"`
	Key      string    `json:"key"` // name of the API key
	Mode     string    `json:"mode"`
	Action   string    `json:"action"`
	Index    int       `json:"index"`
	Offered  int       `json:"offered"`
	Num      uint64    `json:"num"` // the propensity of a decision is Num/Den
	Den      uint64    `json:"den"`
	BasisSeq uint64    `json:"basis_seq"`
	X        []float64 `json:"x"`
	Deferred bool      `json:"deferred"`
	Deadline time.Time `json:"deadline"`
	Slot     string    `json:"slot"`
	Value    *float64  `json:"value"` // of a reward; of expire: the default reward
	Count    int       `json:"count"` // of expire
	Act      string    `json:"act"`   // of control
}

// Log reads what at most entries entries of the log (1 to 10,000), from sequence from on, say of a
// model. next is where to go on; when it is from, there is nothing new yet. A page never changes. On a
// busy server an entry has hundreds of records: ask for a hundred entries or so.
func (c *Client) Log(ctx context.Context, model string, from uint64, entries int) (records []LogRecord, next uint64, err error) {
	var page logPage
	path := fmt.Sprintf("/v1/models/%s/log?from=%d&page_size=%d", url.PathEscape(model), from, entries)
	err = c.call(ctx, "GET", path, nil, nil, &page)
	return page.records, page.next, err
}

// logPage is the target of an answer in JSON lines.
type logPage struct {
	records []LogRecord
	next    uint64
}

// read takes the lines as they come: a page may be large.
func (p *logPage) read(header http.Header, body io.Reader) (err error) {
	p.records = nil
	if p.next, err = strconv.ParseUint(header.Get("Log-Next"), 10, 64); err != nil {
		return fmt.Errorf("header Log-Next: %w", err)
	}
	for lines := json.NewDecoder(body); ; {
		var r LogRecord
		switch err := lines.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		p.records = append(p.records, r)
	}
}

// Get reads a path such as /v1/models/news into a value, for everything that has no method here.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.call(ctx, "GET", path, nil, nil, into)
}

// call does one request that may be repeated.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, body, into any) error {
	return c.repeat(ctx, true, method, path, header, body, into)
}

// repeat does one request, again and again while that helps. Unless safe it ends with an unknown
// outcome.
func (c *Client) repeat(ctx context.Context, safe bool, method, path string, header http.Header, body, into any) error {
	var raw []byte
	if b, ok := body.(octets); ok {
		raw = b
	} else if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("troupe: request: %w", err)
		}
	}
	for try := 1; ; try++ {
		again, after, err := c.once(ctx, method, path, header, raw, into)
		if err == nil || !again || !safe && Unknown(err) || try >= c.opts.Tries || ctx.Err() != nil {
			return err
		}
		if c.wait(ctx, max(after, jitter(c.opts.Backoff, try))) != nil {
			return err
		}
	}
}

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 64 << 20

// once does one attempt. again says that another may help, after a wait.
func (c *Client) once(ctx context.Context, method, path string, header http.Header, body []byte, into any) (again bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return false, 0, fmt.Errorf("troupe: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil && header["Content-Type"] == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Key)
	}
	res, err := c.opts.HTTP.Do(req)
	if err != nil {
		return true, 0, &lostError{err}
	}
	defer res.Body.Close()
	if page, ok := into.(interface {
		read(http.Header, io.Reader) error
	}); ok && res.StatusCode < 300 {
		if err := page.read(res.Header, res.Body); err != nil { // it broke off, or is not what it should be
			return true, 0, &lostError{err}
		}
		return false, 0, nil
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && len(answer) == maxAnswer {
		return false, 0, fmt.Errorf("troupe: answer to %s %s: more than %d bytes; ask for less", method, path, maxAnswer)
	}
	if err != nil {
		return true, 0, &lostError{err}
	}
	if res.StatusCode >= 300 {
		// A gateway that gave up does not know either, so 502 and 504 count as no answer.
		p := &Problem{Status: res.StatusCode}
		if json.Unmarshal(answer, p) != nil || p.Code == "" {
			p = &Problem{Status: res.StatusCode, Code: "http", Detail: res.Status, Unknown: res.StatusCode == 502 || res.StatusCode == 504}
		}
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 && s < 3600 {
			after = time.Duration(s) * time.Second
		}
		switch res.StatusCode {
		case 429, 502, 503, 504, 507:
			again = true
		}
		return again, after, p
	}
	if into == nil {
		return false, 0, nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return false, 0, fmt.Errorf("troupe: answer to %s %s: %w", method, path, err)
	}
	return false, 0, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// jitter is uniform below backoff·2^(try−1), at most 5 s, so that clients that failed together do
// not come back together.
func jitter(backoff time.Duration, try int) time.Duration {
	most := min(backoff<<min(try-1, 20), 5*time.Second)
	var b [8]byte
	rand.Read(b[:])
	return time.Duration(float64(most) * float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53))
}

// newKey makes an idempotency key.
func newKey() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
