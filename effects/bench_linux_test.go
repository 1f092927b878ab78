package effects

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"troupe/rng"
)

// pairs plays decisions with numbers in the context, and learns each reward at once.
type pairs struct {
	m       *Model
	r       *rand.Rand
	weights [][]float64
	acts    [][]Atom
	context []Atom
	n       uint64
}

func newPairs(numbers, actions int) *pairs {
	p := &pairs{m: New(rng.NewKey(1)), r: rand.New(rand.NewPCG(1, 2))}
	for k := range actions {
		p.acts = append(p.acts, []Atom{word(99, fmt.Sprint("a", k))})
		w := make([]float64, numbers)
		for j := range w {
			w[j] = p.r.NormFloat64()
		}
		p.weights = append(p.weights, w)
	}
	return p
}

func (p *pairs) play() {
	p.context = p.context[:0]
	for j := range p.weights[0] {
		p.context = append(p.context, num(uint64(j), p.r.NormFloat64()))
	}
	_, winner := p.m.Votes(p.context, p.acts, nil, p.n)
	k := winner[p.r.IntN(voters)]
	y := p.r.NormFloat64()
	for j, w := range p.weights[k] {
		y += w * p.context[j].Value
	}
	p.m.Decided(p.n, p.context, p.acts[k])
	p.m.Learn(p.n, p.context, p.acts[k], y)
	p.n++
}

// processor is what this thread has used.
func processor() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkPair is a decision with its reward: Votes, Decided and Learn with all estimates, in processor time: the mean
// of the first 1,000, and their 99th per cent in units of the median.
func BenchmarkPair(b *testing.B) {
	for _, size := range [][2]int{{4, 5}, {16, 5}, {16, 10}, {64, 20}, {256, 100}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			const events = 1000
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var took []time.Duration
			for range b.N {
				p := newPairs(size[0], size[1])
				for range events {
					began := processor()
					p.play()
					took = append(took, processor()-began)
				}
				b.ReportMetric(float64(p.m.bytes())/1000, "kB")
			}
			var sum time.Duration
			for _, t := range took {
				sum += t
			}
			slices.Sort(took)
			b.ReportMetric(float64(sum.Nanoseconds())/1000/float64(len(took)), "µs/pair")
			b.ReportMetric(float64(took[len(took)*99/100])/float64(took[len(took)/2]), "p99/median")
			b.ReportMetric(0, "ns/op")
		})
	}
}
