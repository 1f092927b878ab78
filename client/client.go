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
// The nodes of a cluster are one base URL, with commas between their addresses:
//
//	c, err := client.New("https://a.example:8443,https://b.example:8443,https://c.example:8443", client.Options{})
//
// A client stays with the first one that answers. When it is out of reach, silent or answers 503, the next one
// is asked at once, with the same key, and [Options].Patience bounds how long all of them are asked. A batch of
// decisions has no key: it goes to the next node only when it was not sent, or was refused.
//
// A model that went to another server (troupe move) is followed there: the first call costs a redirect, and the client remembers
// it. Both servers must accept the key.
//
// The package needs nothing but the standard library and knows nothing of the server's code.
package client

import (
	"bytes"
	"cmp"
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
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options configure a client. Zero fields stand for the defaults.
type Options struct {
	// Key is an API key, troupe_ID_SECRET.
	Key string
	// HTTP does the requests, http.DefaultClient when nil. For many calls at once give it a
	// Transport with MaxIdleConnsPerHost of their number.
	HTTP *http.Client
	// Tries is how often a call is attempted at each address; 1 means no repetition. The default is 5, with several
	// addresses as often as Patience allows.
	Tries int
	// Backoff is the longest wait before the second attempt, default 50 ms; it doubles with each
	// one, up to 5 s (with several addresses 500 ms). The wait is random below it. A Retry-After of the server that is
	// longer wins. With several addresses there is no wait before the next one, only after the last.
	Backoff time.Duration
	// Patience is how long a call is repeated when there are several addresses, default 30 s: longer than a
	// cluster needs to elect. The context may be shorter.
	Patience time.Duration
	// Silence is how long one of several addresses may take to answer a decision, a reward, an activation or
	// a question for a model before the next one is asked, default 10 s. A call that may not be repeated waits
	// as long as the context allows.
	Silence time.Duration
}

// Client calls one server, or a cluster. It is safe for concurrent use.
type Client struct {
	at     []address
	away   moved         // models that are at other servers
	beyond *http.Client  // for these: a socket leads to its own server alone
	now    atomic.Uint32 // number of the address that is asked first
	opts   Options
	wait   func(context.Context, time.Duration) error // replaced in tests
}

// address is where a server is reached.
type address struct {
	base string
	http *http.Client
}

// New returns a client of the server at a base URL such as http://127.0.0.1:8080, or at a socket in the file system,
// unix:/run/troupe.sock. Several, separated by commas, are the nodes of a cluster. Options.HTTP does not go with a
// socket.
func New(base string, o Options) (*Client, error) {
	c := &Client{opts: o, wait: wait, beyond: stays(cmp.Or(o.HTTP, http.DefaultClient))}
	for _, text := range strings.Split(base, ",") {
		a, err := o.address(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		for _, other := range c.at {
			if other.base == a.base && a.base != socketBase {
				return nil, fmt.Errorf("client: base URL has %q twice", a.base)
			}
		}
		c.at = append(c.at, a)
	}
	switch {
	case o.Tries < 0 || o.Backoff < 0 || o.Patience < 0 || o.Silence < 0:
		return nil, fmt.Errorf("client: tries = %d, backoff = %v, patience = %v, silence = %v, expected none below 0",
			o.Tries, o.Backoff, o.Patience, o.Silence)
	case o.Tries == 0 && len(c.at) == 1:
		c.opts.Tries = 5
	case o.Tries == 0:
		c.opts.Tries = math.MaxInt
	}
	set := func(at *time.Duration, d time.Duration) {
		if *at == 0 {
			*at = d
		}
	}
	set(&c.opts.Backoff, 50*time.Millisecond)
	set(&c.opts.Patience, 30*time.Second)
	set(&c.opts.Silence, 10*time.Second)
	return c, nil
}

// socketBase is the base URL of servers at sockets.
const socketBase = "http://localhost"

// address reads one of the addresses of a base URL.
func (o *Options) address(base string) (address, error) {
	if path, ok := strings.CutPrefix(base, "unix:"); ok {
		if path == "" || o.HTTP != nil {
			return address{}, fmt.Errorf("client: base URL is %q, expected unix:PATH and no HTTP client of your own",
				base)
		}
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return address{socketBase, stays(&http.Client{Transport: t})}, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return address{}, fmt.Errorf("client: base URL is %q, expected http://HOST, https://HOST or unix:PATH, or "+
			"several with commas between them", base)
	}
	a := address{strings.TrimRight(base, "/"), o.HTTP}
	if a.http == nil {
		a.http = http.DefaultClient
	}
	a.http = stays(a.http)
	return a, nil
}

// Action is a candidate. Features is any value that becomes JSON: a map, a struct, a list of
// numbers, [Packed]; nil for an entry of the model's catalogue.
type Action struct {
	ID       string `json:"id,omitempty"`
	Features any    `json:"features,omitempty"`
	// Cost is what it costs to play the action, in units of money, nil where it is not stated.
	Cost *float64 `json:"cost,omitempty"`
	// Numbers names the numbers of the model that the action plays: nil for all, empty for none.
	Numbers []string `json:"numbers,omitzero"`
}

// Number is a number to play, such as a price: the first request with it fixes its range, later ones may narrow it.
type Number struct {
	Name   string   `json:"name"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
	Step   float64  `json:"step,omitempty"`   // only min, min + step, … are played; 0: any number of the range
	Cyclic bool     `json:"cyclic,omitempty"` // max is min again: an hour
	Log    bool     `json:"log,omitempty"`    // the range is divided evenly in logarithms
}

// Play returns a number with a range.
func Play(name string, lo, hi, step float64) Number {
	return Number{Name: name, Min: &lo, Max: &hi, Step: step}
}

// DecideRequest asks for an action.
type DecideRequest struct {
	Context   any       `json:"context,omitempty"`
	Actions   []Action  `json:"actions,omitempty"`
	Packed    *Packed   `json:"packed,omitempty"`  // instead of Actions: a row for each
	IDs       []string  `json:"ids,omitempty"`     // of the rows of Packed
	Costs     []float64 `json:"costs,omitempty"`   // of the rows of Packed, or of the catalogue
	Numbers   []Number  `json:"numbers,omitempty"` // to play, alone or with actions
	Choose    int       `json:"choose,omitempty"`  // a list of so many actions in an order; Slots names its positions
	Slots     []Slot    `json:"slots,omitempty"`   //
	Available []bool    `json:"available,omitempty"`
	Exclude   []string  `json:"exclude,omitempty"`
	Baseline  *int      `json:"baseline,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	Defer     bool      `json:"defer_activation,omitempty"`
	MinSeq    uint64    `json:"min_seq,omitempty"`
	Explain   string    `json:"explain,omitempty"` // "full"
	// IdempotencyKey is made by Decide when it is empty.
	IdempotencyKey string `json:"-"`
}

// Slot is a position of a list: its name, candidates of its own (all slots have some, or none has), and ids that may not stand
// there.
type Slot struct {
	ID      string   `json:"id,omitempty"`
	Actions []Action `json:"actions,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Baseline is the id of your own choice for this position, in the modes apprentice and shadow.
	Baseline string `json:"baseline,omitempty"`
}

// Entry is one of a list that was decided: Propensity is the exact probability of this action at this position.
type Entry struct {
	Position   int      `json:"position"`
	Slot       string   `json:"slot"`
	ID         string   `json:"id"`
	Index      int      `json:"index"`
	Propensity Fraction `json:"propensity"`
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

// PackFloat32 packs rows × cols numbers, row after row, each rounded to float32: half the bytes. It panics when x has
// another length.
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
	EventID    string   `json:"event_id"`
	Action     Chosen   `json:"action"`
	Propensity Fraction `json:"propensity"` // zero where Density is there
	// Numbers are those that are played. Where one of them has no steps, Density has the probability of its cell.
	Numbers  map[string]float64 `json:"numbers"`
	Density  *Density           `json:"density"`
	List     []Entry            `json:"list"` // of a list, from the top; Action and Propensity are then zero
	Mode     string             `json:"mode"`
	Seq      uint64             `json:"seq"`
	BasisSeq uint64             `json:"basis_seq"`
	Durable  bool               `json:"durable"`
	Repeated bool               `json:"repeated"`
	Group    string             `json:"group"` // model or control, of a model with a control group
	// what the model could not use of the request; the first affected decisions have it
	Warnings []string    `json:"warnings"`
	Would    *Would      `json:"would"`
	Explain  []Explained `json:"explain"`
}

// Density is the probability Num/Den of the cell in which numbers without steps lie, and the bounds of the cell. The density at
// the numbers is Num/Den divided by the product of the widths.
type Density struct {
	Num  uint64                `json:"num"`
	Den  uint64                `json:"den"`
	Cell map[string][2]float64 `json:"cell"`
}

// At returns the density.
func (d *Density) At() float64 {
	p := float64(d.Num) / float64(d.Den)
	for _, c := range d.Cell {
		p /= c[1] - c[0]
	}
	return p
}

// Would is what the policy would have played instead of the baseline.
type Would struct {
	Action     string   `json:"action"`
	Propensity Fraction `json:"propensity"`
	List       []Entry  `json:"list"` // of a list, in place of both
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
	EventID string   `json:"event_id"`
	Value   float64  `json:"value"`
	Cost    *float64 `json:"cost,omitempty"` // what the decision cost, in units of money
	Key     string   `json:"key,omitempty"`
	// Reward, of a model whose rewards have names, is sent in place of Value.
	Reward map[string]float64 `json:"reward,omitempty"`
}

// MarshalJSON writes what the server reads: Value, or Reward.
func (r RewardItem) MarshalJSON() ([]byte, error) {
	type plain RewardItem
	if r.Reward == nil {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		plain
		Value *float64 `json:"value,omitempty"`
	}{plain: plain(r)})
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
	RequestID  string `json:"request_id"` // the server's log names the request by it
	MovedTo    string `json:"moved_to"`   // of the code moved: the server that has the model
}

// Error says in one line what is wrong.
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

// lostError is a request without an answer, that may have arrived.
type lostError struct{ err error }

func (e *lostError) Error() string { return "troupe: no answer: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// unsentError is a request that did not leave: there was no connection.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return "troupe: not sent: " + e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// CreateModel makes a model from a configuration, any value that becomes its JSON.
func (c *Client) CreateModel(ctx context.Context, config any) error {
	return c.call(ctx, "POST", "/v1/models", nil, config, nil)
}

// CreateModelFrom makes a model that starts from a saved one: a file of troupe train, or what SaveModel returned. It is
// not repeated when its outcome is unknown; a second call is then answered with the code conflict if the model was
// made.
func (c *Client) CreateModelFrom(ctx context.Context, name string, saved []byte) error {
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	return c.repeat(ctx, once, "POST", "/v1/models/"+url.PathEscape(name)+":createFrom", header, octets(saved), nil)
}

// SaveModel reads a model without its past: configuration, seed and state, as it is now, or with a sequence as it was
// after that entry of the log.
func (c *Client) SaveModel(ctx context.Context, name string, seq uint64) ([]byte, error) {
	path := "/v1/models/" + url.PathEscape(name) + "/state?format=model"
	if seq > 0 {
		path += "&seq=" + strconv.FormatUint(seq, 10)
	}
	var out octets
	err := c.call(ctx, "GET", path, nil, nil, &out)
	return out, err
}

// Decisions copies what at most entries entries of the log (1 to 100,000,000), from sequence from on, say of the
// decisions of a model, with what became of them, to w: JSON lines with the columns of troupe log export. 0 is the
// beginning. next is where to go on; it is past applied at the end of the log. A page that broke off is an error, and a
// part of it has been written.
func (c *Client) Decisions(ctx context.Context, w io.Writer, model string, from uint64, entries int) (next,
	applied uint64, err error) {
	return c.decisions(ctx, w, model, from, entries, nil, "")
}

// EndedDecisions is Decisions as they would be if the log ended here: by the rule first a reward is final when it comes
// (reward_state early), up to the first decision without one. The last line of each call has the only key log, with
// what else a reader of estimates should know. These decisions are right for what holds at every number of them, and
// for nothing else, because their rewards chose the last of them.
func (c *Client) EndedDecisions(ctx context.Context, w io.Writer, model string, from uint64, entries int) (next,
	applied uint64, err error) {
	return c.decisions(ctx, w, model, from, entries, nil, "&ended=true")
}

// ParquetDecisions is Decisions as one Parquet file.
func (c *Client) ParquetDecisions(ctx context.Context, w io.Writer, model string, from uint64, entries int) (next,
	applied uint64, err error) {
	return c.decisions(ctx, w, model, from, entries, http.Header{"Accept": {"application/vnd.apache.parquet"}}, "")
}

func (c *Client) decisions(ctx context.Context, w io.Writer, model string, from uint64, entries int,
	header http.Header, query string) (next, applied uint64, err error) {
	page := rowPage{w: w}
	path := fmt.Sprintf("/v1/models/%s/decisions?from=%d&page_size=%d%s", url.PathEscape(model), from, entries, query)
	err = c.repeat(ctx, once, "GET", path, header, nil, &page)
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
	Kind     string            `json:"kind"`     // of the features: requests, schema or vector
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
	// Explained is what a model that reads requests has found out, nil for others and before two rewards differ.
	Explained *Findings `json:"explained"`
	// Weights are what a model that reads requests has learned of values and actions whose names the server knows
	// from the requests since it started, nil for others.
	Weights *Weights `json:"weights"`
	Failed  string   `json:"failed"`
}

// Findings are how much of what differs between decisions goes back to each field.
type Findings struct {
	Share float64 `json:"share"` // of the variance of the rewards that the model explains
	Parts []struct {
		Name  string  `json:"name"`  // of a field, or "action"; two names with " with " between them
		Share float64 `json:"share"` // of all that the model has found
	} `json:"parts"`
	More int       `json:"more"` // parts that are not listed
	Text string    `json:"text"` // the same in a sentence, empty before 100 rewards
	Far  []float64 `json:"far"`  // rewards that are far from all others
}

// Weights lists weights: first those that are the most spreads away from 0.
type Weights struct {
	Rows []Weight `json:"rows"`
	More int      `json:"more"` // that are not listed
}

// Weight is what a value of the context adds for an action to the expected reward, or an action by itself.
type Weight struct {
	Name     string   `json:"name"`     // such as context.city=Oslo × id=sport
	Features []string `json:"features"` // those of the name: of the context, then one of the action, or id
	Weight   float64  `json:"weight"`
	Spread   float64  `json:"spread"` // its standard deviation
}

// Model reads a model.
func (c *Client) Model(ctx context.Context, name string) (m Model, err error) {
	err = c.repeat(ctx, soon, "GET", "/v1/models/"+url.PathEscape(name), nil, nil, &m)
	return m, err
}

// Decide chooses an action. It makes an idempotency key when the request has none, unless calls are
// never repeated (one address and Options.Tries 1).
func (c *Client) Decide(ctx context.Context, model string, r DecideRequest) (Decision, error) {
	if r.IdempotencyKey == "" && c.repeats() {
		r.IdempotencyKey = newKey()
	}
	var header http.Header
	if r.IdempotencyKey != "" {
		header = http.Header{"Idempotency-Key": {r.IdempotencyKey}}
	}
	var d Decision
	path := "/v1/models/" + url.PathEscape(model) + ":decide"
	err := c.repeat(ctx, soon, "POST", path, header, r, &d)
	if err == nil && !d.Repeated {
		c.away.decided(path, d.EventID)
	}
	return d, err
}

// DecideBatch decides many requests on one state, all durable together. Keys of the requests are
// not used: it is repeated only when the server refused it, not when its outcome is unknown.
func (c *Client) DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideAnswer, error) {
	var out struct {
		Results []DecideAnswer `json:"results"`
	}
	path := "/v1/models/" + url.PathEscape(model) + ":decideBatch"
	err := c.repeat(ctx, once, "POST", path, nil, map[string]any{"requests": rs}, &out)
	for _, x := range out.Results {
		if x.Decision != nil && !x.Decision.Repeated {
			c.away.decided(path, x.Decision.EventID)
		}
	}
	return out.Results, err
}

// Reward pays for a decision. Under the rules sum and last, where every call would count, RewardOnce
// is the one to repeat.
func (c *Client) Reward(ctx context.Context, eventID string, value float64) (RewardResult, error) {
	key := ""
	if c.repeats() {
		key = newKey()
	}
	return c.RewardOnce(ctx, eventID, value, key)
}

// RewardOnce pays for a decision under a key of the caller's: a second call with it changes nothing. With an empty key
// it is not repeated when its outcome is unknown.
func (c *Client) RewardOnce(ctx context.Context, eventID string, value float64, key string) (RewardResult, error) {
	return c.pay(ctx, eventID, &value, nil, key)
}

// RewardCost is Reward for a decision whose cost is known now, in units of money.
func (c *Client) RewardCost(ctx context.Context, eventID string, value, cost float64) (RewardResult, error) {
	return c.pay(ctx, eventID, &value, &cost, newKey())
}

// Cost says what a decision cost, without a reward: the reward may come later, or never.
func (c *Client) Cost(ctx context.Context, eventID string, cost float64) (RewardResult, error) {
	return c.pay(ctx, eventID, nil, &cost, newKey())
}

// RewardNamed is Reward for a model whose rewards have names: one value or more by name, such as {"click": 1, "revenue": 12.5}.
// What is not named stays as it is.
func (c *Client) RewardNamed(ctx context.Context, eventID string, reward map[string]float64) (RewardResult, error) {
	return c.payList(ctx, eventID, struct {
		Reward map[string]float64 `json:"reward"`
		Key    string             `json:"key"`
	}{reward, newKey()})
}

// RewardPosition is Reward for one position of a list, from 0.
func (c *Client) RewardPosition(ctx context.Context, eventID string, position int, value float64) (RewardResult, error) {
	return c.payList(ctx, eventID, struct {
		Position int     `json:"position"`
		Value    float64 `json:"value"`
		Key      string  `json:"key"`
	}{position, value, newKey()})
}

// RewardList pays for all positions of a list, of which the first shown were on the screen: the others teach nothing. The model
// then learns at once.
func (c *Client) RewardList(ctx context.Context, eventID string, values []float64, shown int) (RewardResult, error) {
	return c.payList(ctx, eventID, struct {
		Values []float64 `json:"values"`
		Shown  int       `json:"shown"`
		Key    string    `json:"key"`
	}{values, shown, newKey()})
}

func (c *Client) payList(ctx context.Context, eventID string, body any) (r RewardResult, err error) {
	err = c.repeat(ctx, soon, "POST", "/v1/events/"+url.PathEscape(eventID)+":reward", nil, body, &r)
	return r, err
}

func (c *Client) pay(ctx context.Context, eventID string, value, cost *float64, key string) (RewardResult, error) {
	var r RewardResult
	body := struct {
		Value *float64 `json:"value,omitempty"`
		Cost  *float64 `json:"cost,omitempty"`
		Key   string   `json:"key,omitempty"`
	}{value, cost, key}
	how := soon
	if key == "" {
		how = once
	}
	err := c.repeat(ctx, how, "POST", "/v1/events/"+url.PathEscape(eventID)+":reward", nil, body, &r)
	return r, err
}

// RewardBatch pays for many decisions, at most 10,000. Items without a key get one. A server takes as many at a time as one
// request may keep it busy with; those that it did not take (429) are sent again, as long as each call takes some. Answers that
// came before an error are returned with it; the others are empty.
func (c *Client) RewardBatch(ctx context.Context, items []RewardItem) ([]RewardAnswer, error) {
	left, at := append([]RewardItem(nil), items...), make([]int, len(items))
	for i := range left {
		if at[i] = i; left[i].Key == "" {
			left[i].Key = newKey()
		}
	}
	answers := make([]RewardAnswer, len(items))
	for {
		var out struct {
			Results []RewardAnswer `json:"results"`
		}
		if err := c.repeat(ctx, soon, "POST", "/v1/rewards:batch", nil, map[string]any{"rewards": left}, &out); err != nil {
			return answers, err
		}
		if len(out.Results) != len(left) {
			return answers, fmt.Errorf("client: %d answers to %d rewards", len(out.Results), len(left))
		}
		var again []RewardItem
		var places []int
		for i, r := range out.Results {
			answers[at[i]] = r
			if p := r.Problem; p != nil && (p.Code == "moved" || p.Code == "bad_event_id" && c.away.of(c.at[0], "/v1/events/"+left[i].EventID) != c.at[0]) {
				answers[at[i]] = c.elsewhere(ctx, left[i]) // one by one: each may be at another server
			} else if p != nil && p.Status == http.StatusTooManyRequests {
				again, places = append(again, left[i]), append(places, at[i])
			}
		}
		if len(again) == 0 || len(again) == len(left) {
			return answers, nil
		}
		left, at = again, places
	}
}

// elsewhere sends a reward of a batch to the server that has its model.
func (c *Client) elsewhere(ctx context.Context, item RewardItem) (out RewardAnswer) {
	var r RewardResult
	path := "/v1/events/" + url.PathEscape(item.EventID) + ":reward"
	item.EventID = ""
	err := c.repeat(ctx, soon, "POST", path, nil, oneReward{item}, &r)
	if err == nil {
		return RewardAnswer{Result: &r}
	}
	if !errors.As(err, &out.Problem) {
		out.Problem = &Problem{Code: "unavailable", Detail: err.Error(), Unknown: Unknown(err)}
	}
	return out
}

// oneReward is the body of an item by itself, whose event is in the path.
type oneReward struct{ RewardItem }

// MarshalJSON writes what the server reads.
func (r oneReward) MarshalJSON() ([]byte, error) {
	out := map[string]any{"key": r.Key}
	if r.Reward != nil {
		out["reward"] = r.Reward
	} else {
		out["value"] = r.Value
	}
	if r.Cost != nil {
		out["cost"] = *r.Cost
	}
	return json.Marshal(out)
}

// Activate makes a deferred decision count.
func (c *Client) Activate(ctx context.Context, eventID string) (RewardResult, error) {
	var r RewardResult
	err := c.repeat(ctx, soon, "POST", "/v1/events/"+url.PathEscape(eventID)+":activate", nil, nil, &r)
	return r, err
}

// LogRecord is one record of the log of a model: a decision, a reward, an activation, a window that
// was closed (expire), a change of the model (control) or a loss. Event joins them.
type LogRecord struct {
	Seq      uint64             `json:"seq"`
	Kind     string             `json:"kind"`
	Event    string             `json:"event"`
	EventID  string             `json:"event_id"` // of a decision
	Time     time.Time          `json:"time"`
	Key      string             `json:"key"` // name of the API key
	Mode     string             `json:"mode"`
	Action   string             `json:"action"`
	Index    int                `json:"index"`
	Offered  int                `json:"offered"`
	Num      uint64             `json:"num"` // the propensity of a decision is Num/Den
	Den      uint64             `json:"den"`
	BasisSeq uint64             `json:"basis_seq"`
	X        []float64          `json:"x"`
	Deferred bool               `json:"deferred"`
	Deadline time.Time          `json:"deadline"`
	Value    *float64           `json:"value"`  // of a reward; of expire: the default reward
	Reward   map[string]float64 `json:"reward"` // of a reward of a model whose rewards have names
	Count    int                `json:"count"`  // of expire
	Act      string             `json:"act"`    // of control
}

// Log reads what at most entries entries of the log (1 to 10,000), from sequence from on, say of a
// model. next is where to go on; when it is from, there is nothing new yet. A page never changes. On a
// busy server an entry has hundreds of records: ask for a hundred entries or so.
func (c *Client) Log(ctx context.Context, model string, from uint64, entries int) (records []LogRecord, next uint64,
	err error) {
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

// call does one request that may be repeated, and may take long.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, body, into any) error {
	return c.repeat(ctx, late, method, path, header, body, into)
}

// repeats reports whether a call may be attempted more than once.
func (c *Client) repeats() bool { return c.opts.Tries > 1 || len(c.at) > 1 }

// again is how a call may be repeated.
type again int

const (
	once again = iota // not when its outcome is unknown
	late              // always; its answer may take long
	soon              // always; its answer comes soon, and another address is asked when it does not
)

// repeat does one request, again and again while that helps: at one address after the other, and after the last one
// with a wait.
func (c *Client) repeat(ctx context.Context, how again, method, path string, header http.Header, body, into any) error {
	var raw []byte
	if b, ok := body.(octets); ok {
		raw = b
	} else if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return fmt.Errorf("troupe: request: %w", err)
		}
	}
	begin := time.Now()
	var failed error
	for try := 1; ; try++ {
		pause := time.Duration(math.MaxInt64) // the shortest that a server of this round asked for
		for range c.at {
			at := c.now.Load()
			help, after, err := c.ask(ctx, how, c.at[at], method, path, header, raw, into)
			if err == nil || !help {
				return err
			}
			if failed == nil || !Unknown(failed) || Unknown(err) { // what may have been recorded stays so
				failed = err
			}
			if how == once && Unknown(err) || ctx.Err() != nil {
				return failed
			}
			pause = min(pause, after)
			c.now.CompareAndSwap(at, (at+1)%uint32(len(c.at))) // unless another call has gone on already
		}
		if Code(failed) == "leaving" && c.opts.Tries > 1 && time.Since(begin) < c.opts.Patience { // its move takes about a second
			try = min(try, 2)
		} else if try >= c.opts.Tries || len(c.at) > 1 && time.Since(begin) >= c.opts.Patience {
			return failed
		}
		if c.wait(ctx, max(pause, c.jitter(try))) != nil {
			return failed
		}
	}
}

// ask does one attempt at an address, which of several must answer soon.
func (c *Client) ask(ctx context.Context, how again, a address, method, path string, header http.Header, body []byte,
	into any) (help bool, after time.Duration, err error) {
	if how == soon && len(c.at) > 1 {
		short, cancel := context.WithTimeout(ctx, c.opts.Silence)
		defer cancel()
		ctx = short
	}
	base := a
	a = c.away.of(a, path)
	for hop := 0; ; hop++ {
		help, after, err = c.once(ctx, a, method, path, header, body, into)
		if to := next(a, base, err); to != "" && hop < mostHops {
			a = address{to, c.beyond}
			if to == base.base {
				a = base
				if model, _ := subject(path); model != "" {
					c.away.forget(path)
				}
			} else {
				c.away.note(path, a)
			}
			continue
		}
		if code := Code(err); (code == "not_found" || code == "bad_event_id") && a != base && c.away.forget(path) {
			a = base
			continue
		}
		return help, after, err
	}
}

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 64 << 20

// once does one attempt. again says that another may help, after a wait.
func (c *Client) once(ctx context.Context, a address, method, path string, header http.Header, body []byte,
	into any) (again bool, after time.Duration, err error) {
	connected := false
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, a.base+path,
		bytes.NewReader(body))
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
	res, err := a.http.Do(req)
	switch {
	case err != nil && !connected:
		return true, 0, &unsentError{err}
	case err != nil:
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
		return false, 0, fmt.Errorf("troupe: answer to %s %s: more than %d bytes; ask for less", method, path,
			maxAnswer)
	}
	if err != nil {
		return true, 0, &lostError{err}
	}
	if res.StatusCode >= 300 {
		// A gateway that gave up does not know either, so 502 and 504 count as no answer.
		p := &Problem{Status: res.StatusCode}
		if json.Unmarshal(answer, p) != nil || p.Code == "" {
			p = &Problem{Status: res.StatusCode, Code: "http", Detail: res.Status, Unknown: res.StatusCode == 502 ||
				res.StatusCode == 504}
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
// not come back together. A cluster that elects is asked more often.
func (c *Client) jitter(try int) time.Duration {
	longest := 5 * time.Second
	if len(c.at) > 1 {
		longest = 500 * time.Millisecond
	}
	most := min(c.opts.Backoff<<min(try-1, 20), longest)
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
