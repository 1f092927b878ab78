// Package move moves a model from one server to another: troupe move.
//
//	m := move.Mover{From: move.Server{URL: "https://a.example"}, To: move.Server{URL: "https://b.example"}}
//	r, err := m.Move(ctx, "news")
//
// The servers keep how far a move is, so one that was interrupted anywhere goes on with the same call, and Undo takes it back until
// the other server has the model.
package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Server is one of the two.
type Server struct {
	URL  string
	Key  string       // with the scope admin, "" for a server without keys
	HTTP *http.Client // http.DefaultClient when nil
}

// Mover moves models. Every field but From and To may be zero.
type Mover struct {
	From, To Server
	// Address is how clients reach To, its URL when empty. From sends them there.
	Address string
	// Patience is how long a call is repeated that a server cannot answer now, default 30 s.
	Patience time.Duration
	// Step, if any, is called before each step, with its name: depart, parcel, arrive, gone, turn, stay.
	Step func(name string)
}

// Result says what a move did.
type Result struct {
	Move    string        // its number
	Bytes   int           // of the parcel, 0 where it had arrived before
	Open    uint64        // windows that came
	Digest  string        // of the state, at both servers
	Paused  time.Duration // from the beginning of depart to the end of arrive, 0 for a move that goes on after an interruption
	Already bool          // the model was there
}

// state is how far a server says that a move is.
type state struct {
	State       string `json:"state"`
	Incarnation string `json:"incarnation"`
	Move        string `json:"move"`
	Came        string `json:"came"`
	To          string `json:"to"`
	Digest      string `json:"digest"`
	Open        uint64 `json:"open"`
}

// Refused is an answer that repeating does not change.
type Refused struct {
	Server, Code, Detail string
	Status               int
}

// Error says in one line what is wrong.
func (e *Refused) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.Server, e.Status, e.Code, e.Detail)
}

// address is how clients reach To.
func (m *Mover) address() string {
	if m.Address != "" {
		return strings.TrimRight(m.Address, "/")
	}
	return strings.TrimRight(m.To.URL, "/")
}

// Move moves a model, or goes on with a move that was interrupted.
func (m *Mover) Move(ctx context.Context, model string) (r Result, err error) {
	address := m.address()
	from, err := m.state(ctx, &m.From, model)
	if err != nil {
		return r, err
	}
	to, err := m.state(ctx, &m.To, model)
	if err != nil {
		return r, err
	}
	begin, fresh := time.Now(), false
	switch from.State {
	case "absent":
		return r, fmt.Errorf("%s has no model %q", m.From.URL, model)
	case "gone":
		if from.To != address {
			return r, fmt.Errorf("%s: the model went to %s", m.From.URL, from.To)
		}
		return Result{Move: from.Move, Digest: to.Digest, Open: to.Open, Already: true}, nil
	case "closed":
		if from.To != address {
			return r, fmt.Errorf("%s: the model is about to go to %s: end that move with --to, or undo it", m.From.URL, from.To)
		}
	default:
		if to.State == "here" || to.State == "closed" {
			return r, fmt.Errorf("%s has a model %q already", m.To.URL, model)
		}
		m.step("depart")
		if from, err = m.post(ctx, &m.From, model, "depart", map[string]string{"to": address}); err != nil {
			return r, err
		}
		fresh = true
	}
	r.Move, r.Digest = from.Move, from.Digest
	if to.Came != from.Move {
		m.step("parcel")
		var parcel []byte
		if err := m.call(ctx, &m.From, "GET", model, "/parcel", content{}, func(b []byte) error { parcel = b; return nil }); err != nil {
			return r, err
		}
		m.step("arrive")
		if err := m.call(ctx, &m.To, "POST", model, ":arrive", content{"application/octet-stream", parcel}, func(b []byte) error { return json.Unmarshal(b, &to) }); err != nil {
			return r, fmt.Errorf("%w; the model is closed at %s: repeat the command, or undo the move", err, m.From.URL)
		}
		r.Bytes = len(parcel)
		// Where a window has ended at the new server already, the model has learned what that says.
		if to.Came == from.Move && to.Open == from.Open && to.Digest != from.Digest && fresh {
			return r, fmt.Errorf("the state has the digest %s at %s and %s at %s: nothing is dropped, tell us", from.Digest, m.From.URL, to.Digest,
				m.To.URL)
		}
	}
	if r.Open = to.Open; fresh {
		r.Paused = time.Since(begin)
	}
	m.step("gone")
	_, err = m.post(ctx, &m.From, model, "gone", map[string]string{"move": from.Move})
	return r, err
}

// Undo takes back a move that has not arrived: the other server turns it away for good, and the model opens again.
func (m *Mover) Undo(ctx context.Context, model string) error {
	from, err := m.state(ctx, &m.From, model)
	if err != nil {
		return err
	}
	if from.State != "closed" {
		return fmt.Errorf("%s: the model is %s: there is no move to undo", m.From.URL, from.State)
	}
	if from.To != m.address() { // another server would turn away what it was never sent, and the model would be at two
		return fmt.Errorf("%s: the model is about to go to %s: undo that move with --to", m.From.URL, from.To)
	}
	m.step("turn")
	if _, err := m.post(ctx, &m.To, model, "turn", map[string]string{"move": from.Move, "incarnation": from.Incarnation}); err != nil {
		return err
	}
	m.step("stay")
	_, err = m.post(ctx, &m.From, model, "stay", map[string]string{"move": from.Move})
	return err
}

func (m *Mover) step(name string) {
	if m.Step != nil {
		m.Step(name)
	}
}

func (m *Mover) state(ctx context.Context, s *Server, model string) (out state, err error) {
	err = m.call(ctx, s, "GET", model, "/move", content{}, func(b []byte) error { return json.Unmarshal(b, &out) })
	return out, err
}

func (m *Mover) post(ctx context.Context, s *Server, model, verb string, body any) (out state, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return out, err
	}
	err = m.call(ctx, s, "POST", model, ":"+verb, content{"application/json", b}, func(b []byte) error { return json.Unmarshal(b, &out) })
	return out, err
}

// content is the body of a request, the zero value for none.
type content struct {
	kind string // its Content-Type
	body []byte
}

// mostAnswer bounds an answer: a parcel has at most 256 MiB.
const mostAnswer = 257 << 20

// call does one request, again while the server cannot answer. Every step may be repeated.
func (m *Mover) call(ctx context.Context, s *Server, method, model, path string, c content, read func([]byte) error) error {
	patience := m.Patience
	if patience == 0 {
		patience = 30 * time.Second
	}
	begin := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		b, err := s.once(ctx, method, "/v1/models/"+url.PathEscape(model)+path, c)
		if err == nil {
			return read(b)
		}
		var refused *Refused
		if errors.As(err, &refused) || time.Since(begin) > patience {
			return err
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

func (s *Server) once(ctx context.Context, method, path string, c content) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.URL, "/")+path, bytes.NewReader(c.body))
	if err != nil {
		return nil, &Refused{Server: s.URL, Detail: err.Error()}
	}
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	h := http.DefaultClient
	if s.HTTP != nil {
		h = s.HTTP
	}
	own := *h
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := own.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return nil, err
	}
	if len(b) == mostAnswer {
		return nil, &Refused{Server: s.URL, Status: res.StatusCode, Detail: fmt.Sprintf("the answer has more than %d bytes", mostAnswer)}
	}
	if res.StatusCode < 300 {
		return b, nil
	}
	var p struct{ Code, Detail string }
	_ = json.Unmarshal(b, &p)
	refused := &Refused{Server: s.URL, Code: p.Code, Detail: p.Detail, Status: res.StatusCode}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented && res.StatusCode != http.StatusInsufficientStorage {
		return nil, errors.New(refused.Error())
	}
	return nil, refused
}
