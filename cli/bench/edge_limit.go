package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/internal/linalg"
)

// The limit program of `troupe bench edge` is the least that a durable decision server does: net/http, the same JSON
// and the same JSON library, for every member the scores of all candidates and the best one, one record in a file with
// group commit and fsync, an answer of the same shape. It has no hash chain, no keys, no idempotency, no metrics, no
// ids and no learning, so that a server's processor time over this one's says what all of that costs.

const (
	edgeDim     = 32
	edgeMembers = 32
	edgeArms    = 20
	edgeRecord  = 420 // bytes of a decision in the log of troupe
	edgeReward  = 96  // and of a reward
)

// EdgeLimitCommand is the process that `troupe bench edge` starts.
func EdgeLimitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "edge-limit FILE", Short: "The limit program of bench edge", Hidden: true, Args: term.Arguments(1, 1),
		Example: "  troupe edge-limit limit.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			return serveLimit(args[0], cmd.OutOrStdout())
		},
	}
}

// serveLimit serves until the process ends, records in the file path, and writes its URL to out.
func serveLimit(path string, out io.Writer) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l := &limitServer{wake: make(chan struct{}, 1), flight: newFlight(0)}
	for j := range l.members {
		for i := range l.members[j] {
			l.members[j][i] = math.Sin(float64(j*edgeDim + i))
		}
	}
	failed := make(chan error, 2)
	go func() { failed <- l.write(file) }()
	go func() { failed <- (&http.Server{Handler: l}).Serve(listener) }()
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	return <-failed
}

type limitServer struct {
	members [edgeMembers][edgeDim]float64
	matrix  sync.Pool // of *[]float64

	mu     sync.Mutex
	flight *flight
	wake   chan struct{}
}

// flight are the records that one write and one sync make durable.
type flight struct {
	records []byte
	done    chan struct{}
}

func newFlight(size int) *flight {
	return &flight{records: make([]byte, 0, size), done: make(chan struct{})}
}

// commit returns when the record is durable.
func (l *limitServer) commit(record []byte) {
	l.mu.Lock()
	f := l.flight
	f.records = append(f.records, record...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-f.done
}

// write is the committer.
func (l *limitServer) write(file *os.File) error {
	for range l.wake {
		l.mu.Lock()
		f := l.flight
		if len(f.records) > 0 {
			l.flight = newFlight(len(f.records) + 4096)
		}
		l.mu.Unlock()
		if len(f.records) == 0 {
			continue
		}
		if _, err := file.Write(f.records); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		close(f.done)
	}
	return nil
}

// The request and the answer of a decision, as the server has them.
type (
	limitRequest struct {
		Context jsontext.Value `json:"context"`
		Actions []struct {
			ID       string         `json:"id"`
			Features jsontext.Value `json:"features"`
		} `json:"actions"`
		Packed *struct {
			Dtype string `json:"dtype"`
			Shape []int  `json:"shape"`
			Data  string `json:"data"`
		} `json:"packed"`
	}
	limitBatch struct {
		Requests []limitRequest `json:"requests"`
	}
	limitAnswer struct {
		EventID string `json:"event_id"`
		Action  struct {
			ID    string `json:"id"`
			Index int    `json:"index"`
		} `json:"action"`
		Propensity struct {
			Num int `json:"num"`
			Den int `json:"den"`
		} `json:"propensity"`
		Mode     string `json:"mode"`
		Seq      int    `json:"seq"`
		BasisSeq int    `json:"basis_seq"`
		Durable  bool   `json:"durable"`
	}
	limitItem struct {
		Decision limitAnswer `json:"decision"`
	}
	limitResults struct {
		Results []limitItem `json:"results"`
	}
)

// ServeHTTP implements http.Handler: the path says what is asked, by its end.
func (l *limitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(0, r.ContentLength))
	_, err := io.ReadFull(r.Body, body)
	var out []byte
	if err == nil {
		out, err = l.answer(r.URL.Path, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out) // a client that has gone
}

func (l *limitServer) answer(path string, body []byte) ([]byte, error) {
	strict := json.RejectUnknownMembers(true)
	switch {
	case path == "/metrics":
		return fmt.Appendf(nil, "process_cpu_seconds_total %g\n", processTime()), nil
	case path == "/hello":
		return []byte(`{"hello":"world"}`), nil
	case strings.HasSuffix(path, ":decide"):
		var q limitRequest
		if err := json.Unmarshal(body, &q, strict); err != nil {
			return nil, err
		}
		a, record, err := l.decide(&q, nil)
		if err != nil {
			return nil, err
		}
		l.commit(record)
		return json.Marshal(a)
	case strings.HasSuffix(path, ":decideBatch"):
		var b limitBatch
		if err := json.Unmarshal(body, &b, strict); err != nil {
			return nil, err
		}
		out := limitResults{Results: make([]limitItem, len(b.Requests))}
		var records []byte
		for i := range b.Requests {
			var err error
			if out.Results[i].Decision, records, err = l.decide(&b.Requests[i], records); err != nil {
				return nil, err
			}
		}
		l.commit(records)
		return json.Marshal(out)
	case strings.HasSuffix(path, ":reward"):
		var v struct {
			Value float64 `json:"value"`
		}
		if err := json.Unmarshal(body, &v, strict); err != nil {
			return nil, err
		}
		l.commit(make([]byte, edgeReward))
		return []byte(`{"status":"accepted","seq":4}`), nil
	}
	return nil, fmt.Errorf("no such path: %s", path)
}

// decide scores every candidate by every member, and appends the record.
func (l *limitServer) decide(q *limitRequest, records []byte) (a limitAnswer, _ []byte, err error) {
	room, _ := l.matrix.Get().(*[]float64)
	if room == nil {
		room = new([]float64)
	}
	defer l.matrix.Put(room)
	if *room, err = q.vectors((*room)[:0]); err != nil {
		return a, records, err
	}
	x := *room
	k := len(x) / edgeDim
	if k == 0 || len(x) != k*edgeDim {
		return a, records, fmt.Errorf("%d numbers, expected a multiple of %d", len(x), edgeDim)
	}
	votes := make([]int, k)
	for j := range l.members {
		best, at := math.Inf(-1), 0
		for i := range k {
			if s := linalg.Dot(x[i*edgeDim:(i+1)*edgeDim], l.members[j][:]); s > best {
				best, at = s, i
			}
		}
		votes[at]++
	}
	chosen := 7 % k
	n := len(records)
	records = append(records, make([]byte, edgeRecord)...)
	for i, v := range x[chosen*edgeDim : (chosen+1)*edgeDim] {
		binary.LittleEndian.PutUint64(records[n+8*i:], math.Float64bits(v))
	}
	a = limitAnswer{EventID: "0402frnxfjrs0y001g00r5rdx6r4apmbsg", Mode: "online", Seq: 3, BasisSeq: 2, Durable: true}
	a.Action.ID, a.Action.Index, a.Propensity.Num, a.Propensity.Den = strconv.Itoa(chosen), chosen, votes[chosen],
		2*edgeMembers
	return a, records, nil
}

// vectors appends the candidates: packed float32, lists of numbers, or named features that are hashed.
func (q *limitRequest) vectors(x []float64) ([]float64, error) {
	if q.Packed != nil {
		raw, err := base64.StdEncoding.DecodeString(q.Packed.Data)
		for i := 0; i+4 <= len(raw); i += 4 {
			x = append(x, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:]))))
		}
		return x, err
	}
	var context [edgeDim]float64
	if err := addHashed(context[:], q.Context); err != nil {
		return x, err
	}
	for _, a := range q.Actions {
		if a.Features.Kind() == '[' {
			for _, number := range strings.Split(strings.Trim(string(a.Features), "[]"), ",") {
				v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
				if err != nil {
					return x, err
				}
				x = append(x, v)
			}
			continue
		}
		x = append(x, context[:]...)
		if err := addHashed(x[len(x)-edgeDim:], a.Features); err != nil {
			return x, err
		}
	}
	return x, nil
}

// addHashed adds the members of an object to places that their names and words hash to.
func addHashed(row []float64, object jsontext.Value) error {
	in := jsontext.NewDecoder(bytes.NewReader(object))
	name := ""
	add := func(word string, v float64) {
		h := fnv.New32a()
		_, _ = io.WriteString(h, name)
		_, _ = io.WriteString(h, word)
		row[h.Sum32()%edgeDim] += v
	}
	for {
		t, err := in.ReadToken()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t.Kind() {
		case '"':
			if _, n := in.StackIndex(in.StackDepth()); n%2 == 1 {
				name = t.String()
			} else {
				add(t.String(), 0.2)
			}
		case '0':
			add("", t.Float()/100)
		case 't', 'f':
			add("", 0.1)
		}
	}
}
