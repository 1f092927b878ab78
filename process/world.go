package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/rng"
)

// WorldOptions is an [[environment]] table of kind "process": a program that offers the arms and pays the rewards, by
// the rules of Options. A value is used by one experiment; its environments may be made and played from several
// goroutines.
//
// Its fields are those of Options, into which it is converted.
type WorldOptions struct {
	Command []string `key:"command" doc:"the program and its arguments; it is started in the directory of the spec, without a shell"`
	Options Table    `key:"options" doc:"what the program gets as its options; every value can be swept"`
	Files   []string `key:"files" doc:"files that the numbers depend on, beside those that command names: when one changes, cells are played again"`
	Env     []string `key:"env" doc:"environment beside PATH and HOME: NAME passes a variable on, NAME=VALUE sets it"`
	Timeout string   `key:"timeout" doc:"how long an answer may take; 0s: for ever"`
	Memory  string   `key:"memory" default:"none" doc:"address space of the program, such as 4GB (Linux)"`
	Lines   bool     `key:"lines" doc:"lines of JSON also for a program that reads frames"`

	role    string
	dir     string
	timeout time.Duration
	bytes   int64

	checked sync.Once
	fault   error

	mu    sync.Mutex
	idle  []*child
	taken map[any]*child
	hello *hello
}

// NewWorldOptions returns the defaults.
func NewWorldOptions() *WorldOptions {
	return &WorldOptions{Timeout: "60s", role: roleEnvironment}
}

func (o *WorldOptions) program() *Options { return (*Options)(o) }

// Doc implements spec.Documented.
func (o *WorldOptions) Doc() string {
	return "an environment that is a program in any language (docs/reference/process.md)"
}

// String is the command, as a user types it.
func (o *WorldOptions) String() string { return o.program().String() }

// Locate sets the directory in which the program is started and in which its files are looked for.
func (o *WorldOptions) Locate(dir string) { o.program().Locate(dir) }

// Identity is that of Options.
func (o *WorldOptions) Identity() (string, error) { return o.program().Identity() }

// Close ends the programs that no cell uses.
func (o *WorldOptions) Close() error { return o.program().Close() }

// Build implements env.Options: it tells a program of the cell, and hears what the environment is.
func (o *WorldOptions) Build(key rng.Key, _ env.DataSource) (bandit.Environment, error) {
	c, _, err := o.program().join(nil)
	if err != nil {
		return nil, err
	}
	c.cells++
	w := &world{o: o.program(), c: c, cell: c.cells}
	options := map[string]any(o.Options)
	if options == nil {
		options = map[string]any{}
	}
	seed := key.Stream(rng.Instance).Round(0).Uint64(0) >> (64 - seedBits)
	err = c.send(request{Type: "init", Cell: w.cell, Seed: &seed, Options: options})
	var a answer
	if err == nil {
		a, err = c.receive(w.cell, "ready")
	}
	if err == nil {
		err = w.know(a)
	}
	if err != nil {
		return nil, c.kill("init", err)
	}
	w.held = runtime.AddCleanup(w, release, held{w.o, c, w.cell, nil})
	return w, nil
}

// maxDim bounds the dimension that a program says: most policies keep d×d matrices.
const maxDim = 20_000

// know takes what the program says of the environment.
func (w *world) know(a answer) error {
	w.dim, w.sigma, w.largest = a.Dim, a.Sigma, a.Largest
	switch {
	case w.dim < 1 || w.dim > maxDim:
		return fmt.Errorf("its environment has dim %d, expected 1 to %d", w.dim, maxDim)
	case !(w.sigma >= 0) || math.IsInf(w.sigma, 0):
		return fmt.Errorf("its environment has sigma %v, expected a positive number, or 0 for none", w.sigma)
	case !(w.largest >= 0) || math.IsInf(w.largest, 0):
		return fmt.Errorf("its environment has largest_regret %v, expected a positive number, or 0 for none", w.largest)
	}
	return nil
}

// world is one cell of a program. It implements bandit.Environment and bandit.Settler.
type world struct {
	o    *Options
	c    *child
	cell uint32
	held runtime.Cleanup
	err  error // once the program has failed, or the cell is over

	dim            int
	sigma, largest float64

	set   bandit.ActionSet // offered last
	rows  [][]float64      // its arms, nil for the ball
	round uint32
	body  []byte // of a frame
}

// Dim implements bandit.Environment.
func (w *world) Dim() int { return w.dim }

// Sigma implements env.Noisy.
func (w *world) Sigma() (float64, bool) {
	if w.sigma == 0 {
		return 1, false
	}
	return w.sigma, true
}

// LargestRegret implements env.Bounded.
func (w *world) LargestRegret() (float64, bool) { return w.largest, w.largest > 0 }

// Reacts implements env.Reacting: a program may remember what was played, so its cells begin at round 1.
func (w *world) Reacts() {}

// Close tells the program that the cell is over, and leaves it to the next one.
func (w *world) Close() error {
	if w.err != nil {
		return nil
	}
	w.held.Stop()
	release(held{w.o, w.c, w.cell, nil})
	w.err = errors.New("process: the cell is over")
	return nil
}

// ask sends a message and reads the answer.
func (w *world) ask(r request, want string) (answer, error) {
	if w.err != nil {
		return answer{}, w.err
	}
	r.Cell, r.Round = w.cell, w.round
	err := w.c.send(r)
	var a answer
	if err == nil {
		a, err = w.c.receive(w.cell, want)
	}
	return a, w.after(r.Type, err)
}

// after ends the program when an error came from it.
func (w *world) after(during string, err error) error {
	if err == nil {
		return nil
	}
	w.held.Stop()
	w.err = w.c.kill(fmt.Sprintf("%s of round %d", during, w.round), err)
	return w.err
}

// askFrame sends what it is asked for as a frame, and returns the answer's body after its cell.
func (w *world) askFrame(kind byte, what string, seed uint64, a *bandit.Action) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	order := binary.LittleEndian
	b := order.AppendUint32(w.body[:0], w.cell)
	b = order.AppendUint32(b, w.round)
	b = order.AppendUint64(b, seed)
	switch {
	case a == nil:
	case a.Index >= 0:
		b = order.AppendUint32(order.AppendUint32(b, uint32(a.Index)), 0)
	default:
		b = order.AppendUint32(order.AppendUint32(b, math.MaxUint32), uint32(len(a.X)))
		b = appendFloats(b, a.X)
	}
	w.body = b
	w.c.frame(kind, len(b))
	w.c.in.Write(b)
	body, err := w.c.receiveFrame(w.cell, kind+3)
	return body, w.after(what, err)
}

// Offer implements bandit.Environment. Equal arms in two rounds are one set, so that a policy keeps what it computed.
func (w *world) Offer(draw rng.Source) (bandit.ActionSet, error) {
	w.round = uint32(draw.At())
	seed := draw.Uint64(0) >> (64 - seedBits)
	var rows [][]float64
	ball := false
	if w.c.hello.Packed {
		body, err := w.askFrame(frameOffer, "offer", seed, nil)
		if err != nil {
			return nil, err
		}
		if rows, ball, err = readRows(body); err != nil {
			return nil, w.after("offer", err)
		}
	} else {
		a, err := w.ask(request{Type: "offer", Seed: &seed}, "set")
		if err != nil {
			return nil, err
		}
		if a.Set != "" && (a.Set != "ball" || a.Arms != nil) {
			return nil, w.after("offer", fmt.Errorf(`its set is %q with %d arms, expected arms or "ball"`, a.Set, len(a.Arms)))
		}
		rows, ball = a.Arms, a.Set == "ball"
	}
	var err error
	switch {
	case ball:
		if w.set == nil || w.rows != nil {
			w.rows = nil
			w.set, err = actionset.NewBall(w.dim)
		}
	case rows == nil && w.rows == nil:
		err = errors.New(`its set has no arms, and is not "ball"`)
	case rows == nil || slices.EqualFunc(rows, w.rows, slices.Equal):
	default:
		err = w.take(rows)
	}
	if err := w.after("offer", err); err != nil {
		return nil, err
	}
	return w.set, nil
}

// readRows reads the rest of a frame with a set: rows, nil where they are those before, or that it is the ball.
func readRows(body []byte) (rows [][]float64, ball bool, err error) {
	if len(body) < 8 {
		return nil, false, errors.New("its set has fewer than 12 bytes")
	}
	k, d := int(int32(binary.LittleEndian.Uint32(body))), int(binary.LittleEndian.Uint32(body[4:]))
	body = body[8:]
	switch {
	case k <= 0 && k >= -1 && d == 0 && len(body) == 0:
		return nil, k < 0, nil
	case k < 1 || d < 1 || len(body)%8 != 0 || len(body)/8/k != d || len(body) != 8*k*d:
		return nil, false, fmt.Errorf("its set says %d arms of %d numbers and has %d bytes of them", k, d, len(body))
	}
	flat, _ := floats(nil, body, k*d)
	for i := range k {
		rows = append(rows, flat[i*d:(i+1)*d:(i+1)*d])
	}
	return rows, false, nil
}

// take makes the set of a list of arms.
func (w *world) take(rows [][]float64) error {
	set, err := actionset.NewFinite(rows)
	if err != nil {
		return err
	}
	if set.Dim() != w.dim {
		return fmt.Errorf("its arms have %d numbers, expected %d", set.Dim(), w.dim)
	}
	if w.set, err = actionset.Fit(set, false); err != nil {
		return err
	}
	w.rows = rows
	return nil
}

// name puts an action of the set into a message.
func (w *world) name(r *request, a bandit.Action) {
	if a.Index >= 0 {
		r.Index = &a.Index
	} else {
		r.X = a.X
	}
}

// Settle implements bandit.Settler.
func (w *world) Settle(a bandit.Action, draw rng.Source) (reward, regret float64, err error) {
	seed := draw.Uint64(0) >> (64 - seedBits)
	if w.c.hello.Packed {
		body, err := w.askFrame(frameReward, "reward", seed, &a)
		var x [2]float64
		if err == nil {
			err = w.numbers("reward", x[:], body)
		}
		if err != nil {
			return 0, 0, err
		}
		if x[0]-x[0] != 0 {
			return 0, 0, w.after("reward", fmt.Errorf("its reward is %v: %w", x[0], bandit.ErrNotFinite))
		}
		regret, err = w.regret("reward", x[1])
		return x[0], regret, err
	}
	r := request{Type: "reward", Seed: &seed}
	w.name(&r, a)
	got, err := w.ask(r, "reward")
	if err != nil {
		return 0, 0, err
	}
	if got.Reward == nil || got.Regret == nil {
		return 0, 0, w.after("reward", errors.New("its answer lacks reward or regret"))
	}
	regret, err = w.regret("reward", *got.Regret)
	return *got.Reward, regret, err
}

// numbers reads the rest of an answer that is numbers.
func (w *world) numbers(during string, dst []float64, body []byte) error {
	if _, ok := floats(dst, body, len(dst)); !ok {
		return w.after(during, fmt.Errorf("its answer has %d bytes after the cell, expected %d", len(body), 8*len(dst)))
	}
	return nil
}

// regret checks the regret of an answer.
func (w *world) regret(during string, cost float64) (float64, error) {
	switch {
	case !(cost >= -1e-9):
		return 0, w.after(during, fmt.Errorf("its regret is %v, expected at least 0", cost))
	case w.largest > 0 && cost > w.largest*(1+1e-9):
		return 0, w.after(during, fmt.Errorf("its regret is %v, above its largest_regret %v", cost, w.largest))
	case math.IsInf(cost, 1):
		return 0, w.after(during, fmt.Errorf("its regret is %v: %w", cost, bandit.ErrNotFinite))
	}
	return max(cost, 0), nil
}

// Reward implements bandit.Environment.
func (w *world) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	reward, _, err := w.Settle(a, draw)
	return reward, err
}

// Regret implements bandit.Environment.
func (w *world) Regret(a bandit.Action) (float64, error) {
	if w.c.hello.Packed {
		body, err := w.askFrame(frameRegret, "regret", 0, &a)
		var x [1]float64
		if err == nil {
			err = w.numbers("regret", x[:], body)
		}
		if err != nil {
			return 0, err
		}
		return w.regret("regret", x[0])
	}
	r := request{Type: "regret"}
	w.name(&r, a)
	got, err := w.ask(r, "regret")
	if err != nil {
		return 0, err
	}
	if got.Regret == nil {
		return 0, w.after("regret", errors.New("its answer has no regret"))
	}
	return w.regret("regret", *got.Regret)
}

var (
	_ env.Options    = (*WorldOptions)(nil)
	_ env.Noisy      = (*world)(nil)
	_ env.Bounded    = (*world)(nil)
	_ env.Reacting   = (*world)(nil)
	_ bandit.Settler = (*world)(nil)
)
