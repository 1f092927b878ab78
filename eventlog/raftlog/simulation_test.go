package raftlog

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"troupe/internal/await"
)

var seedFlag = flag.Uint64("seed", 0, "play this seed of the simulator and print its trace")

// TestSimulation plays seeds. TROUPE_SEEDS=FROM:TO says which; TROUPE_LONG=1 plays more. A failure prints the seed, and
// -seed plays it again with a trace.
func TestSimulation(t *testing.T) {
	from, to := uint64(1), uint64(150)
	if os.Getenv("TROUPE_LONG") != "" {
		to = 3000
	}
	if v := os.Getenv("TROUPE_SEEDS"); v != "" {
		a, b, _ := strings.Cut(v, ":")
		var err, err2 error
		if from, err = strconv.ParseUint(a, 10, 64); err == nil {
			to, err2 = strconv.ParseUint(b, 10, 64)
		}
		if err != nil || err2 != nil || from > to {
			t.Fatalf("TROUPE_SEEDS = %q, want FROM:TO", v)
		}
	}
	if *seedFlag != 0 {
		s := simulate(simOptions{seed: *seedFlag, trace: os.Stdout})
		t.Logf("seed %d: trace %x, %v", *seedFlag, s.hash, s.err)
		if s.err != nil {
			t.Error(s.err)
		}
		return
	}
	total := map[string]int{}
	failed := 0
	began := time.Now()
	for seed := from; seed <= to; seed++ {
		s := simulate(simOptions{seed: seed})
		for k, v := range s.counts {
			total[k] += v
		}
		if s.err != nil {
			t.Errorf("seed %d: %v\n\tgo test ./eventlog/raftlog -run 'TestSimulation$' -seed %d", seed, s.err, seed)
			if failed++; failed >= 10 {
				break
			}
		}
		if (seed-from+1)%5000 == 0 {
			fmt.Printf("%d seeds, %d entries, %d steps, %v\n", seed-from+1, total["entries"], total["steps"], time.Since(began).Round(time.Second))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%9d %s", total[k], k)
	}
}

// planted are faults that the simulator must find, each within a number of seeds behind the first one. TROUPE_LONG=1 prints how many it took.
var planted = []struct {
	name  string
	seeds uint64
	opt   simOptions
}{
	{"a disk that does not sync", 100, simOptions{disk: "no sync"}},
	{"after a failed sync the end of the log is not written again", 3000, simOptions{disk: "not again"}},
	{"the vote is not saved", 1000, simOptions{plant: plants{forgetVote: true}}},
	{"an end mark that an entry can have", 200, simOptions{endMark: true}},
	{"the commit index is saved before the entries", 200, simOptions{plant: plants{commitFirst: true}}},
	{"messages leave before their term is durable", 100, simOptions{plant: plants{early: true}}},
	{"a lost disk comes back under its raft id", 1000, simOptions{reused: true}},
	{"a batch is taken twice", 200, simOptions{plant: plants{twice: true}}},
	{"a segment is repaired with what comes", 400, simOptions{seed: 150, plant: plants{anyFile: true}}},
	{"a recovery keeps the raft id and the cluster", 200, simOptions{naive: true}},
}

// TestPlanted: each planted fault is found.
func TestPlanted(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			for seed := p.opt.seed + 1; seed <= p.opt.seed+p.seeds; seed++ {
				o := p.opt
				o.seed = seed
				if s := simulate(o); s.err != nil {
					t.Logf("seed %d: %.300v", seed, s.err)
					return
				}
			}
			t.Errorf("not found by %d seeds", p.seeds)
		})
	}
}

// TestSeed: a seed gives the same trace each time.
func TestSeed(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		a, b := simulate(simOptions{seed: seed}), simulate(simOptions{seed: seed})
		if a.hash != b.hash || a.counts["steps"] != b.counts["steps"] {
			t.Errorf("seed %d: traces %x and %x, %d and %d steps", seed, a.hash, b.hash, a.counts["steps"], b.counts["steps"])
		}
	}
}

// TestStaleMessages: a leader is behind a connection that hangs for 9 s, and a new one goes on. When the connection works again,
// what was queued on it must not silence the cluster: messages that waited for more than a second are thrown away, and an
// answer to an old one makes a leader send 64 KiB and not more. A node takes 20 ms to send a MiB. The control keeps all
// messages and sends up to 1 MiB in each.
func TestStaleMessages(t *testing.T) {
	silence := func(o simOptions) time.Duration {
		o.seed, o.nodes, o.calm, o.payload, o.cost = 7, 3, true, 20_000, 20*time.Millisecond
		const from, to = 4 * time.Second, 13 * time.Second
		s := simulateWith(o, func(s *sim) {
			var leader *simNode
			s.after(from, func() {
				s.held = map[[2]int][]heldMessage{}
				for _, n := range s.nodes {
					if n.core.leader {
						leader = n
					}
				}
				for _, n := range s.nodes {
					if n != leader {
						s.held[[2]int{n.slot, leader.slot}], s.held[[2]int{leader.slot, n.slot}] = nil, nil
					}
				}
			})
			s.after(to, func() {
				held := s.held
				s.held = nil
				for _, a := range s.nodes {
					for _, b := range s.nodes {
						for _, x := range held[[2]int{a.slot, b.slot}] {
							if o.maxAge == 0 || s.now-x.at <= o.maxAge {
								s.send(a, x.m)
							}
						}
					}
				}
			})
		})
		if s.err != nil {
			t.Fatal(s.err)
		}
		longest, last := time.Duration(0), to
		for _, at := range s.answers {
			if at > to && at < to+4*time.Second {
				longest, last = max(longest, at-last), at
			}
		}
		return max(longest, to+4*time.Second-last)
	}
	good, control := silence(simOptions{maxAge: time.Second}), silence(simOptions{plant: plants{large: true}})
	t.Logf("silence %v, control %v", good, control)
	if good > 300*time.Millisecond || control < 600*time.Millisecond {
		t.Errorf("silence of %v, want at most 300 ms; of %v in the control, want at least 600 ms", good, control)
	}
}

// TestFailover: after the leader is killed, or cut off, the clients of the other nodes have an answer within 2 s at the median and 3 s
// in 99 of 100 cases, in simulated time. In the others both nodes that are left become candidates at once, and vote for themselves.
func TestFailover(t *testing.T) {
	seeds := uint64(20)
	if os.Getenv("TROUPE_LONG") != "" {
		seeds = 500
	}
	for _, cut := range []bool{false, true} {
		var all []time.Duration
		for seed := uint64(1); seed <= seeds; seed++ {
			const at = 4 * time.Second
			s := simulateWith(simOptions{seed: seed, nodes: 3, calm: true}, func(s *sim) {
				s.quietEnd = 8 * time.Second
				s.after(at, func() {
					s.answers = nil
					for _, n := range s.nodes {
						if !n.core.leader {
							continue
						}
						if cut {
							s.sever(n, true, true, 4*time.Second)
						} else {
							n.kill(false)
							s.after(4*time.Second, n.boot)
						}
						for _, x := range s.nodes { // the clients of the others are asked
							x.client.deaf = x == n
						}
						return
					}
				})
			})
			if s.err != nil {
				t.Fatalf("seed %d: %v", seed, s.err)
			}
			last, longest := at, time.Duration(0)
			for _, x := range s.answers {
				longest, last = max(longest, x-last), x
			}
			all = append(all, longest)
		}
		slices.Sort(all)
		over, _ := slices.BinarySearch(all, 3*time.Second)
		over = len(all) - over
		t.Logf("cut off %v: longest silence, median %v, worst %v, %d of %d above 3 s", cut, all[len(all)/2], all[len(all)-1], over, len(all))
		if all[len(all)/2] > 2*time.Second || over > len(all)/100 || all[len(all)-1] > 5*time.Second {
			t.Errorf("cut off %v: median %v, %d of %d above 3 s, worst %v", cut, all[len(all)/2], over, len(all), all[len(all)-1])
		}
	}
}

// TestHistories: the calls of all clients, appends and reads, have one order that fits their times and results (porcupine). Reads
// that do not ask the leader have none: the control.
func TestHistories(t *testing.T) {
	model := porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, in, out any) (bool, any) {
			n, seq := state.(uint64), out.(uint64)
			if in.(bool) {
				return seq == n, n
			}
			return seq == n+1, n + 1
		},
	}
	seeds := uint64(60)
	if os.Getenv("TROUPE_LONG") != "" {
		seeds = 2000
	}
	for _, control := range []bool{false, true} {
		wrong, operations := 0, 0
		for seed := uint64(1); seed <= seeds; seed++ {
			s := simulate(simOptions{seed: seed, stale: control})
			if s.err != nil {
				t.Fatalf("seed %d: %v", seed, s.err)
			}
			if s.counts["recoveries"] > 0 { // which may lose what was acknowledged
				continue
			}
			var ops []porcupine.Operation
			for _, x := range s.history {
				ops = append(ops, porcupine.Operation{ClientId: x.client, Input: x.read, Output: x.seq, Call: int64(x.call), Return: int64(x.end)})
			}
			operations += len(ops)
			switch r := porcupine.CheckOperationsTimeout(model, ops, await.Limit); {
			case r == porcupine.Illegal:
				if wrong++; !control {
					t.Errorf("seed %d: no order of %d calls fits", seed, len(ops))
				}
			case r == porcupine.Unknown:
				t.Errorf("seed %d: no answer about %d calls", seed, len(ops))
			}
		}
		if t.Logf("control %v: %d calls of %d seeds, %d histories without an order", control, operations, seeds, wrong); control && wrong == 0 {
			t.Error("no history of the control is wrong")
		}
	}
}
