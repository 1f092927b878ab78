package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// acks are what a workload was promised.
type acks struct {
	decided, paid []string
	unknown       int
	codes         map[Code]int
}

// workload is a fixed script: one model, six decisions, six rewards, windows closed, six more. It goes
// on after errors.
func workload(s *Server, clock *fakeClock) (a acks) {
	ctx := context.Background()
	a.codes = map[Code]int{}
	note := func(err error) bool {
		if err != nil {
			a.codes[CodeOf(err)]++
			var e *Error
			if errors.As(err, &e) && e.Unknown {
				a.unknown++
			}
		}
		return err == nil
	}
	_, err := s.CreateModel(ctx, vectors("m", 3), "")
	if !note(err) {
		_, err = s.CreateModel(ctx, vectors("m", 3), "")
		note(err)
	}
	for n := range 12 {
		d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3)})
		if !note(err) {
			continue
		}
		a.decided = append(a.decided, d.EventID)
		if _, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}); note(err) {
			a.paid = append(a.paid, d.EventID)
		}
		if n == 5 {
			clock.forward(11 * time.Minute)
			_, err := s.Expire(ctx)
			note(err)
		}
	}
	return a
}

// missing says what of the promises a server does not keep.
func (a acks) missing(s *Server) []string {
	ctx := context.Background()
	var out []string
	for _, id := range a.decided {
		if _, err := s.Event(ctx, id); err != nil {
			out = append(out, fmt.Sprintf("decision: %v", err))
		}
	}
	var c Counts
	if m, err := s.GetModel(ctx, "m"); err == nil {
		c = m.Counts
	} else if len(a.decided) > 0 {
		out = append(out, err.Error())
	}
	if n := uint64(len(a.paid)); c.Rewards < n || c.Rewards > n+uint64(a.unknown) {
		out = append(out, fmt.Sprintf("%d rewards, %d were acknowledged and %d are unknown", c.Rewards, n, a.unknown))
	}
	if c.Learned != c.Rewards {
		out = append(out, fmt.Sprintf("%d rewards, %d lessons", c.Rewards, c.Learned))
	}
	return out
}

// TestFaultAtEveryStep: null: with any fault of the log at any of its steps (every fourth without
// TROUPE_LONG), and a loss of power afterwards, what was acknowledged is there and nothing is counted twice. The fault LieSync, a disk
// that says it has synced and has not, is the control: there the harness must find a loss.
func TestFaultAtEveryStep(t *testing.T) {
	ctx := context.Background()
	quick := func(o *Options) {
		o.Committer = eventlog.CommitterOptions{Try: 20 * time.Millisecond, Patience: 60 * time.Millisecond}
		o.Wait = 200 * time.Millisecond
	}
	count := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	clock := &fakeClock{}
	s := open(t, count, clock, quick)
	if a := workload(s, clock); len(a.paid) != 12 || len(a.codes) != 0 {
		t.Fatalf("without faults: %+v", a)
	}
	steps := count.Steps()
	runs, controls := 0, 0
	stride := 4
	if long() {
		stride = 1
	}
	for fault := eventlogtest.Full; fault <= eventlogtest.LieSync; fault++ {
		for n := steps; n >= 1; n -= stride {
			hit := false
			log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(i int, step eventlogtest.Step) eventlogtest.Fault {
				// A disk that lies goes on lying: a later honest sync would make up for it.
				if i < n || i > n && fault != eventlogtest.LieSync ||
					(step == eventlogtest.StepSync) != (fault >= eventlogtest.SyncError) {
					return eventlogtest.NoFault
				}
				hit = true
				return fault
			}})
			clock := &fakeClock{}
			s := open(t, log, clock, quick)
			a := workload(s, clock)
			if fault == eventlogtest.Full && hit && (a.codes[Full] == 0 || !s.Health().Ready && n < steps-4) {
				t.Fatalf("fault %v at step %d: codes %v, health %+v", fault, n, a.codes, s.Health())
			}
			_ = s.Close(ctx) // a stopped committer says so again
			after := log.Crash(nil, eventlogtest.MemoryOptions{})
			again, err := Open(ctx, Options{Log: after, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1})
			if err != nil {
				t.Fatalf("fault %v at step %d: %v", fault, n, err)
			}
			lost := a.missing(again)
			switch {
			case !hit:
			case fault == eventlogtest.LieSync:
				if len(lost) > 0 {
					controls++
				}
			case len(lost) > 0:
				t.Errorf("fault %v at step %d: %v", fault, n, lost)
			default:
				runs++
			}
			if fault != eventlogtest.LieSync {
				if _, err := again.GetModel(ctx, "m"); err == nil {
					d, err := again.Decide(ctx, "m", DecideRequest{Actions: actions(99, 3, 3)})
					if err == nil {
						_, err = again.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0})
					}
					if err != nil {
						t.Errorf("fault %v at step %d: afterwards: %v", fault, n, err)
					}
				}
			}
			if err := again.Close(ctx); err != nil {
				t.Errorf("fault %v at step %d: close: %v", fault, n, err)
			}
			_ = after.Close()
		}
	}
	if controls == 0 {
		t.Error("a disk that lies was not noticed: the harness is broken")
	}
	t.Logf("%d faults in %d steps survived; %d lies of the disk noticed", runs, steps, controls)
}

// TestFullAndBack: a full log refuses with code Full, nothing that was acknowledged is lost, and when
// there is room the server finds out by itself.
func TestFullAndBack(t *testing.T) {
	ctx := context.Background()
	full := false
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(int, eventlogtest.Step) eventlogtest.Fault {
		if full {
			return eventlogtest.Full
		}
		return eventlogtest.NoFault
	}})
	clock := &fakeClock{}
	var said bytes.Buffer
	s := open(t, log, clock, func(o *Options) {
		o.ExpireEvery, o.Logger = 2*time.Millisecond, slog.New(slog.NewTextHandler(&said, nil))
	})
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 3, 3)}))
	full = true
	_, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 3, 3)})
	wantCode(t, err, Full)
	_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1})
	wantCode(t, err, Full)
	if h := s.Health(); h.Ready || !h.Full {
		t.Fatalf("health: %+v", h)
	}
	full = false
	eventually(t, func() bool { return s.Health().Ready })
	if r, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}); err != nil || r.Status != Accepted || !s.Health().Ready {
		t.Fatalf("afterwards: %+v %v, %+v", r, err, s.Health())
	}
	// The log of the server has one line when it began and one when it ended, however many were refused.
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if begun, ended := strings.Count(said.String(), "the log is full"), strings.Count(said.String(), "takes records again"); begun != 1 || ended != 1 {
		t.Errorf("%d lines of a full log, %d of its end, want one each:\n%s", begun, ended, said.String())
	}
}

// TestDownAndBack: the engine fails in the middle of a write for want of room. The caller is told that
// the outcome is unknown, the server is not ready; when the engine is back the server is, without a
// restart, and the reward counts once, whether the caller repeats it or not.
func TestDownAndBack(t *testing.T) {
	ctx := context.Background()
	for _, repeat := range []bool{false, true} {
		var fault eventlogtest.Fault
		log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{Fault: func(int, eventlogtest.Step) eventlogtest.Fault { return fault }})
		s := open(t, log, &fakeClock{})
		must(s.CreateModel(ctx, vectors("m", 3), ""))
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 3, 3)}))
		fault = eventlogtest.NoSpace
		_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})
		var e *Error
		if wantCode(t, err, Unavailable); !errors.As(err, &e) || !e.Unknown {
			t.Errorf("error %v", err)
		}
		_, err = s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 3, 3)})
		wantCode(t, err, Full)
		if h := s.Health(); h.Ready || h.Damage != "" || !h.Full {
			t.Errorf("health: %+v", h)
		}
		fault = eventlogtest.NoFault
		log.Heal()
		// a repetition before that is a record of its own, and no second reward
		eventually(t, func() bool { h := s.Health(); return h.Ready && h.Applied == 3 })
		if repeat {
			if r := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})); r.Status != Duplicate {
				t.Errorf("repeated: %+v", r)
			}
		}
		after := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(1, 3, 3)}))
		eventually(t, func() bool { return s.Health().Applied >= after.Seq })
		if m := must(s.GetModel(ctx, "m")); !s.Health().Ready || m.Counts.Rewards != 1 || m.Counts.Learned != 1 || after.Seq != 4 {
			t.Errorf("repeat %v: %+v, decision in entry %d, health %+v", repeat, m.Counts, after.Seq, s.Health())
		}
	}
}

// TestDamageStops: an entry that is missing, or is not what was written, stops the server at the start
// and names the entry; a server that meets it while it runs becomes read-only.
func TestDamageStops(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		what   string
	}{
		{"hidden", func([]byte) []byte { return nil }, "entries 5 are missing"},
		{"flipped", func(b []byte) []byte { b[len(b)-3] ^= 4; return b }, "entry 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
			s := open(t, log, clock)
			workload(s, clock)
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			log.Damage(0, 5, c.damage)
			_, err := Open(ctx, Options{Log: log, Keys: testKeys})
			if err == nil || !strings.Contains(err.Error(), c.what) {
				t.Fatalf("error %v, want %q in it", err, c.what)
			}
		})
	}
	t.Run("live", func(t *testing.T) {
		log := &torn{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{})}
		clock := &fakeClock{}
		s := open(t, log, clock)
		must(s.CreateModel(ctx, vectors("m", 3), ""))
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 3, 3)}))
		log.tear = true
		_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1})
		wantCode(t, err, Unavailable)
		_, err = s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 3, 3)})
		wantCode(t, err, Unavailable, "read-only", "entry 3")
		if h := s.Health(); h.Ready || h.Damage == "" || h.Applied != 2 {
			t.Fatalf("health: %+v", h)
		}
		if m, err := s.GetModel(ctx, "m"); err != nil || m.Counts.Learned != 0 {
			t.Fatalf("reading: %+v %v", m, err)
		}
	})
}

// torn changes every entry that is stored after tear, behind the writer's back.
type torn struct {
	*eventlogtest.Memory
	tear bool
}

func (l *torn) Append(ctx context.Context, shard uint16, id string, b []byte) (uint64, bool, error) {
	if l.tear {
		b = append([]byte(nil), b...)
		b[len(b)-1] ^= 1
	}
	return l.Memory.Append(ctx, shard, id, b)
}
