package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// One operation of a history. Each belongs to one idempotency key, and so to one event: a partition.
type histIn struct {
	key      string
	op       string // decide, find, reward, activate, get, close
	rule     string // of the model that the key belongs to
	deferred bool
	learns   bool
	y        float64
	rkey     string
	nodes    bool // of a cluster: one that is behind may call a repetition what is late; neither has an effect
	unknown  bool // the answer was that nobody knows; what follows is nothing or anything
}

type histOut struct {
	id     string // decide, find; empty for not found
	status string
	y      float64 // get, when it is rewarded
}

// histState is what is true of one event.
type histState struct {
	id     string // empty: not decided; ?: decided in a call without an answer
	active bool
	paid   bool
	closed bool
	y      float64
	rkeys  string
}

// histModel is the server's promise for one event, as a machine with one step at a time.
var histModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		var keys []string
		for _, op := range history {
			k := op.Input.(histIn).key
			if byKey[k] == nil {
				keys = append(keys, k)
			}
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, k := range keys {
			parts = append(parts, byKey[k])
		}
		return parts
	},
	Init: func() any { return histState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(histState), input.(histIn), output.(histOut)
		ok := func(want string) bool { return in.unknown || out.status == want }
		switch in.op {
		case "decide":
			switch {
			case in.unknown && s.id == "":
				s = histState{id: "?", active: !in.deferred}
			case in.unknown:
			case s.id == "":
				s = histState{id: out.id, active: !in.deferred}
			case s.id == "?":
				s.id = out.id
			default:
				return s.id == out.id, s
			}
			return in.unknown || out.id != "", s
		case "find":
			if s.id == "?" && out.id != "" {
				s.id = out.id
			}
			return s.id == out.id, s
		case "reward":
			again := in.rule == "first" && s.paid || in.rule != "first" && in.rkey != "" && contains(s.rkeys, in.rkey)
			switch {
			case s.closed:
				return ok("late") || in.nodes && again && ok("duplicate"), s
			case again:
				return ok("duplicate"), s
			}
			if in.rule != "first" && in.rkey != "" {
				s.rkeys += in.rkey + " "
			}
			if in.rule == "sum" {
				s.y += in.y
			} else {
				s.y = in.y
			}
			s.paid, s.active = true, true
			if !in.learns {
				return ok("ignored"), s
			}
			return ok("accepted"), s
		case "activate":
			switch {
			case !in.deferred:
				return ok("duplicate"), s
			case s.closed:
				return ok("late") || in.nodes && s.active && ok("duplicate"), s
			case s.active:
				return ok("duplicate"), s
			}
			s.active = true
			return ok("accepted"), s
		case "get":
			switch {
			case s.closed:
				return ok("closed"), s
			case s.paid:
				return ok("rewarded") && out.y == s.y, s
			case !s.active:
				return ok("inactive"), s
			}
			return ok("open"), s
		case "close":
			s.closed = true
			return true, s
		}
		panic(in.op)
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

func contains(words, w string) bool {
	for len(words) > 0 {
		var first string
		if _, err := fmt.Sscan(words, &first); err != nil {
			return false
		}
		if first == w {
			return true
		}
		words = words[len(first)+1:]
	}
	return false
}

// histModels are who decides: each rule, and one that does not learn.
var histModels = []struct {
	name, rule string
	mode       Mode
}{{"first", "first", Online}, {"sum", "sum", Online}, {"last", "last", Online}, {"frozen", "first", Frozen}}

// histServers are those that callers ask: one, or the nodes of a cluster, any of them.
type histServers struct {
	all     []*Server
	forward func(time.Duration) // their clocks
}

func histSingle(t *testing.T, log eventlog.Log) histServers { return histSingleOf(t, log, 0) }

func histSingleOf(t *testing.T, log eventlog.Log, keysKept int) histServers {
	clock := &fakeClock{}
	s := open(t, log, clock, func(o *Options) {
		o.Committer = eventlog.CommitterOptions{Try: 3 * time.Millisecond, Patience: 4 * time.Millisecond, Batch: 3000}
		o.keysKept = keysKept
	})
	return histServers{all: []*Server{s}, forward: clock.forward}
}

func histCluster(t *testing.T, log eventlog.Log) (h histServers) { return histClusterOf(t, log, 0) }

func histClusterOf(t *testing.T, log eventlog.Log, keysKept int) (h histServers) {
	var clocks []*nodeClock
	for i := range nodeNames {
		clocks = append(clocks, &nodeClock{})
		s, err := openNode(t, log, i, clocks[i], func(o *Options) {
			o.Committer = eventlog.CommitterOptions{Try: 3 * time.Millisecond, Patience: 10 * time.Millisecond, Batch: 3000}
			o.keysKept = keysKept
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		h.all = append(h.all, s)
	}
	h.forward = func(by time.Duration) {
		for _, c := range clocks {
			c.off.Add(int64(by))
		}
	}
	return h
}

// level waits until a node of a cluster has applied what is in the log: without that its answers may be some seconds old, which is no
// fault.
func (h histServers) level(t *testing.T, s *Server) {
	if len(h.all) == 1 {
		return
	}
	info, err := s.log.Info(context.Background(), 0)
	if err == nil {
		_, err = s.progress.until(context.Background(), info.Last)
	}
	if err != nil {
		t.Error(err)
	}
}

// observe lets many callers work on few keys at once, through rounds of the clock, and returns what
// everyone saw and when. lie may change what is noted.
func observe(t *testing.T, seed uint64, servers func(*testing.T, eventlog.Log) histServers, lie func(histIn, *histOut)) (ops []porcupine.Operation, unknown int) {
	t.Helper()
	var faults atomic.Int64
	var began atomic.Bool
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(int, eventlogtest.Step) eventlogtest.Fault {
		if !began.Load() {
			return eventlogtest.NoFault
		}
		switch faults.Add(1) % 23 {
		case 3:
			return eventlogtest.LoseAck
		case 10:
			return eventlogtest.LateRequest
		}
		return eventlogtest.NoFault
	}})
	ctx := context.Background()
	h := servers(t, log)
	for _, m := range histModels {
		for note := range await.Tries(t) { // a slow machine does not answer in the 4 ms that the committer has here
			_, err := h.all[0].CreateModel(ctx, vectors(m.name, 3, func(c *ModelConfig) { c.Reward.Rule, c.Mode = Rule(m.rule), string(m.mode) }), "")
			if err == nil || CodeOf(err) == Conflict {
				break
			}
			if CodeOf(err) != Unavailable {
				t.Fatal(err)
			}
			note("%v", err)
		}
	}
	for _, s := range h.all {
		for _, m := range histModels {
			eventually(t, func() bool { _, err := s.GetModel(ctx, m.name); return err == nil })
		}
	}
	began.Store(true)
	var now atomic.Int64
	var mu sync.Mutex
	note := func(client int, in histIn, out histOut, call int64, err error) (happened bool) {
		back := now.Add(1)
		var e *Error
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &e):
			return false // before anything was sent
		case errors.As(err, &e) && e.Unknown:
			in.unknown, back = true, 1<<60
		case in.op == "find" && CodeOf(err) == NotFound:
		case CodeOf(err) == Unavailable:
			return false // refused while the log finds out about another batch
		default:
			t.Errorf("%+v: %v", in, err)
			return true
		}
		if lie != nil && !in.unknown {
			lie(in, &out)
		}
		mu.Lock()
		defer mu.Unlock()
		if in.unknown {
			unknown++
			client = 1000 + len(ops)
		}
		ops = append(ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: back})
		return true
	}
	const callers, perRound, rounds, keys = 6, 30, 4, 5
	var ids sync.Map // key → event id
	var ends int64   // when the clocks were put on
	for round := range rounds {
		var wg sync.WaitGroup
		for u := range callers {
			random := rand.New(rand.NewPCG(seed, uint64(round*callers+u)))
			wg.Go(func() {
				for n := 0; n < perRound; n++ {
					happened := true
					m := histModels[random.IntN(len(histModels))]
					// Keys of this round and of the one before, whose windows are being closed.
					r := max(0, round-random.IntN(2))
					k := random.IntN(keys)
					in := histIn{key: fmt.Sprintf("%s/%d/%d", m.name, r, k), rule: m.rule, deferred: k%2 == 1, learns: m.mode == Online, nodes: len(h.all) > 1}
					id, known := ids.Load(in.key)
					if !known && r != round {
						continue // an event belongs to the round in which it is decided
					}
					c, cancel := ctx, func() {}
					if random.IntN(4) == 0 {
						c, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
					}
					s := h.all[random.IntN(len(h.all))]
					call := now.Add(1)
					switch what := random.IntN(10); {
					case !known || what < 2:
						in.op = "decide"
						d, err := s.Decide(c, m.name, DecideRequest{Actions: actions(k, 3, 3), Deferred: in.deferred, IdempotencyKey: in.key})
						happened = note(u, in, histOut{id: d.EventID}, call, err)
						if err == nil {
							ids.LoadOrStore(in.key, d.EventID)
						}
					case what < 3:
						in.op = "find"
						h.level(t, s)
						found, err := s.EventOfKey(ctx, m.name, in.key)
						note(u, in, histOut{id: found}, call, err)
					case what < 7:
						in.op, in.y = "reward", float64(random.IntN(5))/4-0.5
						if random.IntN(2) == 0 {
							in.rkey = fmt.Sprint("r", random.IntN(2))
						}
						got, err := s.Reward(c, RewardRequest{EventID: id.(string), Value: in.y, Key: in.rkey})
						happened = note(u, in, histOut{status: string(got.Status)}, call, err)
					case what < 8:
						in.op = "activate"
						got, err := s.Activate(c, id.(string), "")
						happened = note(u, in, histOut{status: string(got.Status)}, call, err)
					default:
						in.op = "get"
						h.level(t, s)
						got, err := s.Event(ctx, id.(string))
						out := histOut{status: got.Status}
						if got.Value != nil {
							out.y = *got.Value
						}
						note(u, in, out, call, err)
					}
					cancel()
					if !happened {
						n--
						time.Sleep(time.Millisecond) // a log that is away refuses at once
					}
				}
			})
		}
		if round > 0 { // the windows of the round before end while the callers work
			wg.Go(func() {
				if len(h.all) == 1 { // the nodes of a cluster do it by themselves
					var err error
					await.Poll(func() bool { _, err = h.all[0].Expire(ctx); return CodeOf(err) != Unavailable })
					if err != nil {
						t.Error(err)
						return
					}
				}
				ids.Range(func(key, id any) bool {
					k := key.(string)
					var r int
					for _, m := range histModels {
						if n, _ := fmt.Sscanf(k, m.name+"/%d/", &r); n == 1 && r == round-1 {
							eventually(t, func() bool {
								e, err := h.all[0].Event(ctx, id.(string))
								return t.Failed() || err == nil && e.Status == "closed"
							})
							note(100, histIn{key: k, op: "close", rule: m.rule}, histOut{}, ends, nil)
						}
					}
					return true
				})
			})
		}
		wg.Wait()
		ends = now.Add(1)
		h.forward(11 * time.Minute)
	}
	return ops, unknown
}

// linear looks for the order of a history that TestLinearizable describes.
func linear(ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(histModel, ops, await.Limit)
}

// linearizable fails when there is none, and shows the event.
func linearizable(t *testing.T, seed uint64, servers func(*testing.T, eventlog.Log) histServers) {
	t.Helper()
	ops, unknown := observe(t, seed, servers, nil)
	if res := linear(ops); res != porcupine.Ok {
		for _, part := range histModel.Partition(ops) {
			if linear(part) != porcupine.Ok {
				for _, op := range part {
					t.Logf("%d–%d %s", op.Call, op.Return, histModel.DescribeOperation(op.Input, op.Output))
				}
				break
			}
		}
		t.Fatalf("seed %d: %d operations: %v", seed, len(ops), res)
	}
	t.Logf("seed %d: %d operations in %d events, %d without an answer", seed, len(ops), len(histModel.Partition(ops)), unknown)
}

// TestLinearizable: null: what concurrent callers see of an event, of its key, its rewards, its
// activation and the end of its window, is what one caller after the other would have seen, although
// the log loses answers and callers give up. porcupine looks for that order. The controls plant a fault
// each and must be found out.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	n := 2
	if os.Getenv("TROUPE_LONG") != "" {
		n = 50
	}
	for seed := range uint64(n) {
		linearizable(t, seed, histSingle)
	}
	controls := map[string]func(histIn, *histOut){
		"a second reward counts": func(in histIn, out *histOut) {
			if in.op == "reward" && in.rule == "first" && out.status == "duplicate" {
				out.status = "accepted"
			}
		},
		"a reward is not seen": func(in histIn, out *histOut) {
			if in.op == "get" && out.status == "rewarded" {
				out.status = "open"
			}
		},
		"a closed window takes rewards": func(in histIn, out *histOut) {
			if in.op == "reward" && out.status == "late" {
				out.status = "accepted"
			}
		},
		"a repeated decision is another": func(in histIn, out *histOut) {
			if in.op == "find" && out.id != "" {
				out.id += "x"
			}
		},
	}
	for name, lie := range controls {
		if ops, _ := observe(t, 7, histSingle, lie); linear(ops) != porcupine.Illegal {
			t.Errorf("control %q passes: the harness is blind", name)
		}
	}
	// And one in the server itself: it forgets a key when the window closes.
	none := func(t *testing.T, log eventlog.Log) histServers { return histSingleOf(t, log, -1) }
	if ops, _ := observe(t, 8, none, nil); linear(ops) != porcupine.Illegal {
		t.Error("a server that forgets keys too early passes: the harness is blind")
	}
}

// TestLinearizableNodes: null: the same of three nodes, when each call goes to any of them. Calls that only look wait until the node has applied what
// is in the log: without that they may be some seconds old. Controls: a node that answers another one's key with a decision of its own, and
// nodes that forget keys.
func TestLinearizableNodes(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("takes some seconds")
	}
	for seed := range uint64(10) {
		linearizable(t, seed, histCluster)
	}
	fault := func(name string, servers func(*testing.T, eventlog.Log) histServers, lie func(histIn, *histOut)) {
		for seed := range uint64(5) {
			if ops, _ := observe(t, seed, servers, lie); linear(ops) == porcupine.Illegal {
				return
			}
		}
		t.Errorf("%s five times: the harness is blind", name)
	}
	var n atomic.Int64
	fault("a node that decides again passes", histCluster, func(in histIn, out *histOut) {
		if in.op == "decide" && n.Add(1)%2 == 0 {
			out.id += "x"
		}
	})
	none := func(t *testing.T, log eventlog.Log) histServers { return histClusterOf(t, log, -1) }
	fault("nodes that forget keys pass", none, nil)
}
