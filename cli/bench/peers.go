package bench

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// peers are the programs that --against names.
type peers struct {
	gonum bool
	numpy *numpyPeer
}

// goWorld is the linear bandit that the two programs in Go below play.
type goWorld struct {
	r    *rand.Rand
	star []float64
	arms []float64 // K×d
	top  float64   // the largest mean
}

func newGoWorld(c benchCase, seed int) *goWorld {
	w := &goWorld{r: rand.New(rand.NewPCG(uint64(seed), 1)), star: make([]float64, c.d), arms: make([]float64, c.k*c.d),
		top: 1}
	w.sphere(w.star, 1)
	if c.k > 0 {
		w.top = math.Inf(-1)
	}
	for a := range c.k {
		x := w.arms[a*c.d : (a+1)*c.d]
		w.sphere(x, 1)
		w.top = max(w.top, loopDot(x, w.star))
	}
	return w
}

// sphere draws a point of the sphere of radius size.
func (w *goWorld) sphere(x []float64, size float64) {
	var q float64
	for i := range x {
		x[i] = w.r.NormFloat64()
		q += x[i] * x[i]
	}
	for i := range x {
		x[i] *= size / math.Sqrt(q)
	}
}

func loopDot(a, b []float64) float64 {
	var s float64
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// plainGo is Algorithm 1 as one would write it in Go: rows, loops, math/rand/v2. It keeps S and
// solves the member that was drawn. It returns nanoseconds of processor time a round, and the regret; a
// budget of +Inf seconds plays to the horizon and looks at no clock in between.
func plainGo(c benchCase, seed int, budget float64) (ns, regret float64) {
	d, m := c.d, c.m
	w := newGoWorld(c, seed)
	r := w.r
	const lambda = 5.0
	s := make([][]float64, m)
	for j := range s {
		s[j] = make([]float64, d)
		w.sphere(s[j], math.Sqrt(lambda*float64(d)))
	}
	inv := make([][]float64, d)
	for i := range inv {
		inv[i] = make([]float64, d)
		inv[i][i] = 1 / lambda
	}
	arms := make([][]float64, c.k)
	for a := range arms {
		arms[a] = w.arms[a*d : (a+1)*d]
	}
	hat, theta, gain, x := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
	start := processTime()
	for t := 1; ; t++ {
		j, sign := r.IntN(m), float64(1-2*r.IntN(2))
		for i := range theta {
			theta[i] = hat[i] + sign*loopDot(inv[i], s[j])
		}
		if c.k > 0 {
			best := math.Inf(-1)
			for _, a := range arms {
				if v := loopDot(a, theta); v > best {
					best, x = v, a
				}
			}
		} else {
			n := math.Sqrt(loopDot(theta, theta))
			for i := range theta {
				x[i] = theta[i] / n
			}
		}
		mean := loopDot(x, w.star)
		regret += w.top - mean
		y := mean + r.NormFloat64()
		for i := range gain {
			gain[i] = loopDot(inv[i], x)
		}
		size := 1 + loopDot(x, gain)
		e := (y - loopDot(x, hat)) / size
		for i, g := range gain {
			hat[i] += g * e
			row := inv[i]
			for k, h := range gain {
				row[k] -= g * h / size
			}
		}
		for j := range s {
			u := 2*r.Float64() - 1
			row := s[j]
			for i, v := range x {
				row[i] += u * v
			}
		}
		if t == c.horizon || t%16 == 0 && !math.IsInf(budget, 1) && processTime()-start > budget {
			return 1e9 * (processTime() - start) / float64(t), regret
		}
	}
}

// gonumGo is the same algorithm, optimised where the time goes: gonum's BLAS kernels (in
// assembly on amd64) for everything that grows, S in float32, which halves its bytes, and two targets
// from one step of a splitmix generator. The arithmetic of V⁻¹ and of the scores is float64.
func gonumGo(c benchCase, seed int, budget float64) (ns, regret float64) {
	d, m := c.d, c.m
	w := newGoWorld(c, seed)
	const lambda = 5.0
	s := blas32.General{Rows: m, Cols: d, Stride: d, Data: make([]float32, m*d)}
	row := make([]float64, d)
	for j := range m {
		w.sphere(row, math.Sqrt(lambda*float64(d)))
		for i, v := range row {
			s.Data[j*d+i] = float32(v)
		}
	}
	inv := blas64.General{Rows: d, Cols: d, Stride: d, Data: make([]float64, d*d)}
	for i := range d {
		inv.Data[i*d+i] = 1 / lambda
	}
	arms := blas64.General{Rows: c.k, Cols: d, Stride: d, Data: w.arms}
	vector := func(n int) blas64.Vector { return blas64.Vector{N: n, Inc: 1, Data: make([]float64, n)} }
	hat, theta, gain, member, x, scores := vector(d), vector(d), vector(d), vector(d), vector(d), vector(c.k)
	star := blas64.Vector{N: d, Inc: 1, Data: w.star}
	narrow := blas32.Vector{N: d, Inc: 1, Data: make([]float32, d)}
	u := blas32.Vector{N: m, Inc: 1, Data: make([]float32, m+1)}
	state := uint64(seed)
	start := processTime()
	for t := 1; ; t++ {
		j, sign := w.r.IntN(m), float64(1-2*w.r.IntN(2))
		for i, v := range s.Data[j*d : (j+1)*d] {
			member.Data[i] = float64(v)
		}
		copy(theta.Data, hat.Data)
		blas64.Gemv(blas.NoTrans, sign, inv, member, 1, theta)
		if c.k > 0 {
			blas64.Gemv(blas.NoTrans, 1, arms, theta, 0, scores)
			best := 0
			for a, v := range scores.Data {
				if v > scores.Data[best] {
					best = a
				}
			}
			x.Data = w.arms[best*d : (best+1)*d]
		} else {
			copy(x.Data, theta.Data)
			blas64.Scal(1/blas64.Nrm2(theta), x)
		}
		mean := blas64.Dot(x, star)
		regret += w.top - mean
		y := mean + w.r.NormFloat64()
		blas64.Gemv(blas.NoTrans, 1, inv, x, 0, gain)
		size := 1 + blas64.Dot(x, gain)
		blas64.Axpy((y-blas64.Dot(x, hat))/size, gain, hat)
		blas64.Ger(-1/size, gain, gain, inv)
		for j := 0; j < m; j += 2 {
			state += 0x9e3779b97f4a7c15
			z := state
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			z ^= z >> 31
			u.Data[j] = float32(int32(z)) * 0x1p-31
			u.Data[j+1] = float32(int32(z>>32)) * 0x1p-31
		}
		for i, v := range x.Data {
			narrow.Data[i] = float32(v)
		}
		blas32.Ger(1, u, narrow, s)
		if t == c.horizon || t%16 == 0 && !math.IsInf(budget, 1) && processTime()-start > budget {
			return 1e9 * (processTime() - start) / float64(t), regret
		}
	}
}

// numpyProgram is the peer in Python.
//
//go:embed numpy.py
var numpyProgram string

// numpyPeer is a running numpy program.
type numpyPeer struct {
	Numpy string `json:"numpy"`
	BLAS  string `json:"blas"`
	Fast  bool   `json:"fast"` // its BLAS is an optimised one

	python string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
}

// startNumpy tries the python3 of the path, then Debian's.
func startNumpy() (*numpyPeer, error) {
	p, err := startPython("python3")
	if err != nil {
		if q, second := startPython("/usr/bin/python3"); second == nil {
			return q, nil
		}
	}
	return p, err
}

func startPython(name string) (*numpyPeer, error) {
	p := &numpyPeer{python: name, cmd: exec.Command(name, "-u", "-c", numpyProgram)}
	p.cmd.Env = numpyEnvironment(os.Environ())
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	p.cmd.Stderr = &complaint
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	if err := p.read(p); err != nil {
		_ = p.cmd.Wait() // for its complaint
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		return nil, fmt.Errorf("%s has no numpy (Debian: python3-numpy): %s", name, lines[len(lines)-1])
	}
	return p, nil
}

// numpyEnvironment is the environment of the peer: one thread, like ours, and none of the variables by
// which a user can make OpenBLAS pick the kernels of another processor or block for another cache.
func numpyEnvironment(from []string) []string {
	env := slices.DeleteFunc(slices.Clone(from), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains([]string{"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS",
			"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}, name)
	})
	return append(env, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1")
}

func (p *numpyPeer) read(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// ask sends a question and reads the answer.
func (p *numpyPeer) ask(question map[string]any) (us float64, design string, err error) {
	b, err := json.Marshal(question)
	if err != nil {
		return 0, "", err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return 0, "", err
	}
	var answer struct {
		US     float64 `json:"us"`
		Design string  `json:"design"`
	}
	if err := p.read(&answer); err != nil {
		return 0, "", fmt.Errorf("numpy stopped: %w", err)
	}
	if !(answer.US > 0) {
		return 0, "", errors.New("numpy gave no time")
	}
	return answer.US, answer.Design, nil
}

// question asks about a configuration.
func question(c benchCase, seed int) map[string]any {
	return map[string]any{"d": c.d, "K": c.k, "m": c.m, "rounds": c.horizon, "budget": 0.25, "seed": seed,
		"gemm": c.prob,
		"sets": c.sets, "law": c.law, "blocks": c.blocks()}
}

// measure returns nanoseconds of processor time a round of the better of the program's two designs, and
// which that is; for a configuration that asks for propensities the time of a float32 matrix product
// of arms and members, which is a part of them.
func (p *numpyPeer) measure(c benchCase, seed int) (ns float64, design string, err error) {
	us, design, err := p.ask(question(c, seed))
	return 1000 * us, design, err
}

// play plays replications to the horizon with one design, in a process of its own.
func (p *numpyPeer) play(c benchCase, design string, turn, core, replications int) error {
	q, err := startPython(p.python)
	if err != nil {
		return err
	}
	defer q.stop()
	ask := question(c, 1000*turn+100*core)
	ask["design"], ask["replications"] = design, replications
	_, _, err = q.ask(ask)
	return err
}

func (p *numpyPeer) stop() {
	_ = p.in.Close() // ends its loop
	_ = p.cmd.Wait()
}
