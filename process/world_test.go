package process

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"troupe/bandit"
	"troupe/bandittest"
	"troupe/rng"
)

// pythonWorld returns options of the environment in testdata.
func pythonWorld(t testing.TB, arms string, lines bool) *WorldOptions {
	t.Helper()
	from := python(t, "worlds.py", lines)
	o := NewWorldOptions()
	o.Command, o.Env, o.Lines = from.Command, from.Env, from.Lines
	o.Options = Table{"arms": arms}
	o.Locate(from.dir)
	t.Cleanup(func() { o.Close() })
	return o
}

// tour plays rounds of an environment with actions that depend on nothing, and prints what it answers to the last bit.
func tour(w bandit.Environment, key rng.Key, from, to int) (string, error) {
	var said strings.Builder
	for t := uint64(from); t <= uint64(to); t++ {
		set, err := w.Offer(key.Stream(rng.Offer).Round(t))
		if err != nil {
			return "", err
		}
		a := bandit.Action{X: make([]float64, set.Dim()), Index: bandit.NoIndex}
		a.X[t%uint64(set.Dim())] = 0.5
		if list, ok := set.(bandit.Finite); ok {
			a.Set(list.At(int(t)%list.Len()), int(t)%list.Len())
			fmt.Fprint(&said, list.Len())
		}
		reward, regret, err := w.(bandit.Settler).Settle(a, key.Stream(rng.Reward).Round(t))
		if err != nil {
			return "", err
		}
		again, err := w.Regret(a)
		if err != nil {
			return "", err
		}
		if again != regret {
			return "", fmt.Errorf("round %d: regret %v and %v", t, regret, again)
		}
		fmt.Fprintf(&said, " %x %x %x\n", math.Float64bits(a.X[0]), math.Float64bits(reward), math.Float64bits(regret))
	}
	return said.String(), nil
}

// An environment in Python keeps the contract of environments over frames and over lines, and answers the same to the
// bit over both. The suite averages 120 rewards of an action, 4,000 with TROUPE_LONG.
func TestPythonEnvironment(t *testing.T) {
	t.Parallel()
	draws := 120
	if os.Getenv("TROUPE_LONG") != "" {
		draws = 4000
	}
	for _, arms := range []string{"fixed", "new", "ball"} {
		var said [2]string
		for i, lines := range []bool{false, true} {
			o := pythonWorld(t, arms, lines)
			build := func(key rng.Key) (bandit.Environment, error) { return o.Build(key, nil) }
			if lines == (arms == "ball") && arms != "fixed" { // the suite asks many times for two actions
				bandittest.TestEnvironment(t, build, bandittest.EnvironmentConfig{Rounds: 1, Draws: draws})
			}
			w, err := build(rng.NewKey(3))
			if err != nil {
				t.Fatal(err)
			}
			if got := w.(*world).c.hello.Packed; got == lines {
				t.Errorf("lines = %v, and the program says packed = %v", lines, got)
			}
			if said[i], err = tour(w, rng.NewKey(4), 1, 40); err != nil {
				t.Fatal(err)
			}
		}
		if said[0] != said[1] || said[0] == "" {
			t.Errorf("%s: frames:\n%s\nlines:\n%s", arms, said[0], said[1])
		}
	}
}

// TestEnvironmentKilled: an environment that is killed with SIGKILL at random places fails the cell there, whatever it is
// asked next, and the cell played again, in another process, is the same to the bit. 6 places, 50 with TROUPE_LONG.
func TestEnvironmentKilled(t *testing.T) {
	t.Parallel()
	const rounds = 15
	places := 3 // of lines, and of frames
	if os.Getenv("TROUPE_LONG") != "" {
		places = 25
	}
	key := rng.NewKey(6)
	place := rand.New(rand.NewPCG(32, 3))
	for _, lines := range []bool{false, true} {
		o := pythonWorld(t, "new", lines)
		build := func() *world {
			w, err := o.Build(key, nil)
			if err != nil {
				t.Fatal(err)
			}
			return w.(*world)
		}
		want, err := tour(build(), key, 1, rounds)
		if err != nil {
			t.Fatal(err)
		}
		for k := range places {
			w := build()
			round := uint64(1 + place.IntN(rounds))
			if _, err := tour(w, key, 1, int(round)-1); err != nil {
				t.Fatal(err)
			}
			var set bandit.ActionSet
			stage := k % 3 // before the offer, the reward or the regret
			if stage > 0 {
				if set, err = w.Offer(key.Stream(rng.Offer).Round(round)); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Kill(w.c.cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			asked := ""
			a := bandit.Action{X: []float64{1, 0, 0}, Index: 1}
			switch stage {
			case 0:
				asked = "offer"
				_, err = w.Offer(key.Stream(rng.Offer).Round(round))
			case 1:
				asked = "reward"
				a.Set(set.(bandit.Finite).At(1), 1)
				_, _, err = w.Settle(a, key.Stream(rng.Reward).Round(round))
			default:
				asked = "regret"
				_, err = w.Regret(a)
			}
			if said := fmt.Sprintf("%s of round %d: the program ended: signal: killed", asked, round); err == nil ||
				!strings.Contains(err.Error(), said) {
				t.Fatalf("killed: %v, expected %q", err, said)
			}
			if _, err := w.Regret(a); err == nil {
				t.Fatal("a failed cell goes on")
			}
			w = build()
			if got, err := tour(w, key, 1, rounds); err != nil || got != want {
				t.Fatalf("after the kill in round %d before the %s: %v\n%s\nexpected\n%s", round, asked, err, got, want)
			}
			w.Close() //nolint:errcheck // the next cell takes its program
		}
	}
}

// answerWrongly is an environment of the tests that greets, is ready, and then answers a frame with what fault says.
func answerWrongly(fault string) {
	in := bufio.NewReader(os.Stdin)
	if _, err := readLine(in); err != nil {
		return
	}
	fmt.Println(`{"type":"hello","protocol":1,"role":"environment","packed":true}`)
	write := func(kind byte, body []byte) {
		b := binary.LittleEndian.AppendUint32([]byte{mark, kind}, uint32(len(body)))
		os.Stdout.Write(append(b, body...)) //nolint:errcheck // the test sees that nothing came
	}
	order := binary.LittleEndian
	cell := order.AppendUint32(nil, 1)
	arms := appendFloats(order.AppendUint32(order.AppendUint32(cell, 2), 2), []float64{1, 0, 0, 1})
	for {
		kind, _, err := readFrame(in, nil)
		if err != nil {
			return
		}
		name, _, _ := strings.Cut(fault, " ")
		switch {
		case kind == frameJSON:
			write(frameJSON, []byte(`{"type":"ready","cell":1,"dim":2,"largest_regret":1}`))
		case kind == frameOffer && name == "kind":
			write(framePaid, arms)
		case kind == frameOffer && name == "cell":
			write(frameSet, append([]byte{9}, arms[1:]...))
		case kind == frameOffer && name == "short":
			write(frameSet, arms[:8])
		case kind == frameOffer && name == "cut":
			write(frameSet, arms[:len(arms)-8])
		case kind == frameOffer && name == "before":
			write(frameSet, order.AppendUint32(order.AppendUint32(cell, 0), 0))
		case kind == frameOffer && name == "says":
			write(frameJSON, []byte(`{"type":"error","cell":1,"message":"no data left"}`))
		case kind == frameOffer && name == "infinite":
			write(frameSet, appendFloats(order.AppendUint32(order.AppendUint32(cell, 1), 2), []float64{math.Inf(1), 0}))
		case kind == frameOffer:
			write(frameSet, arms)
		case name == "reward":
			write(framePaid, appendFloats(cell, []float64{math.NaN(), 0}))
		case name == "regret":
			write(framePaid, appendFloats(cell, []float64{1, math.NaN()}))
		case name == "negative":
			write(framePaid, appendFloats(cell, []float64{1, -1}))
		case name == "large":
			write(framePaid, appendFloats(cell, []float64{1, math.Inf(1)}))
		case name == "long":
			write(framePaid, appendFloats(cell, []float64{1, 0, 0}))
		default:
			write(framePaid, appendFloats(cell, []float64{1, 0.5}))
		}
	}
}

// Every frame of an environment that cannot be is an error that says what it was.
func TestEnvironmentFrames(t *testing.T) {
	for fault, want := range map[string]string{
		"":         "",
		"kind":     "a frame of kind 10 with 44 bytes, expected kind 9 for cell 1",
		"cell":     "a frame of kind 9 with 44 bytes, expected kind 9 for cell 1",
		"short":    "its set has fewer than 12 bytes",
		"cut":      "its set says 2 arms of 2 numbers and has 24 bytes of them",
		"before":   `its set has no arms, and is not "ball"`,
		"says":     "it says: no data left",
		"infinite": "+Inf",
		"reward":   "its reward is NaN",
		"regret":   "its regret is NaN, expected at least 0",
		"negative": "its regret is -1, expected at least 0",
		"large":    "its regret is +Inf, above its largest_regret 1",
		"long":     "its answer has 24 bytes after the cell, expected 16",
	} {
		o := NewWorldOptions()
		from := program(t, fault)
		o.Command, o.Env = from.Command, append(from.Env, "PROCESS_ANSWERS=world")
		w, err := o.Build(rng.NewKey(1), nil)
		if err == nil {
			var set bandit.ActionSet
			if set, err = w.Offer(rng.NewKey(1).Stream(rng.Offer).Round(1)); err == nil {
				var a bandit.Action
				a.Set(set.(bandit.Finite).At(1), 1)
				_, _, err = w.(bandit.Settler).Settle(a, rng.NewKey(1).Stream(rng.Reward).Round(1))
			}
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", fault, err, want)
		}
		o.Close()
	}
}
