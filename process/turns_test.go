package process

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// turn is a cell of the tests that takes turns with others.
type turn struct {
	of    *int
	yield func(struct{}) bool
}

func (t turn) Yield()      { t.yield(struct{}{}) }
func (t turn) Worker() any { return t.of }

// byTurns plays n cells by turns on this goroutine.
func byTurns(n int, play func(i int, turns policy.Turns)) {
	worker := new(int)
	var waiting []func() (struct{}, bool)
	for i := range n {
		next, stop := iter.Pull(func(yield func(struct{}) bool) { play(i, turn{worker, yield}) })
		defer stop()
		waiting = append(waiting, next)
	}
	for len(waiting) > 0 {
		under := waiting[:0]
		for _, next := range waiting {
			if _, waits := next(); waits {
				under = append(under, next)
			}
		}
		waiting = under
	}
}

// TestTurns: cells that take turns in one program, and that end at different rounds, play what each plays alone, with
// short laws and long ones, snapshots and the ball, whose answers the others stand in front of.
func TestTurns(t *testing.T) {
	const cells = 8
	ball, err := actionset.NewBall(2)
	if err != nil {
		t.Fatal(err)
	}
	sets := make(map[[2]int]bandit.Finite) // by number of arms, 6 or 12, and which
	for _, k := range []int{6, 12} {
		for which := range 2 {
			var rows [][]float64
			for i := range k {
				rows = append(rows, []float64{float64(i+which) / 13, 0.5})
			}
			if sets[[2]int{k, which}], err = actionset.NewFinite(rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, lines := range []bool{false, true} {
		o := python(t, "mean.py", lines)
		cell := func(i int, turns policy.Turns) (string, error) {
			k := 6 + 6*(i%2) // laws of 6 arms are short, those of 12 long
			p, err := o.New(policy.Problem{Dim: 2, Arms: k, Turns: turns})
			if err != nil {
				return "", err
			}
			said := ""
			for round := 1; round < 20+5*i; round++ {
				draw := rng.NewKey(uint64(i)).Stream(rng.Select).Round(uint64(round))
				var set bandit.ActionSet = sets[[2]int{k, (round + i) % 3 / 2}]
				if (round+i)%7 == 0 {
					set = ball
				}
				var a bandit.Action
				if err := p.Select(&a, set, draw); err != nil {
					return "", err
				}
				said += fmt.Sprint(a.Index, a.X)
				if set != ball && (round+i)%5 == 0 {
					var law bandit.Law
					if err := p.(bandit.Prober).Prob(&law, set, draw); err != nil {
						return "", err
					}
					said += fmt.Sprint(law.Atoms)
				}
				if round%9 == 0 {
					b, err := p.(bandit.Snapshotter).AppendSnapshot(nil)
					if err != nil {
						return "", err
					}
					said += string(b)
				}
				if a.Index >= 0 {
					if err := p.Update(a, float64(a.Index)+draw.Normal(1), draw); err != nil {
						return "", err
					}
				}
			}
			return said, p.(*keeper).Close()
		}
		var alone, together [cells]string
		for i := range cells {
			if alone[i], err = cell(i, nil); err != nil {
				t.Fatal(err)
			}
		}
		byTurns(cells, func(i int, turns policy.Turns) {
			said, err := cell(i, turns)
			if err != nil {
				t.Errorf("cell %d: %v", i, err)
			}
			together[i] = said
		})
		for i := range cells {
			if together[i] != alone[i] || alone[i] == "" {
				t.Errorf("lines %v, cell %d: by turns\n%s\nalone\n%s", lines, i, together[i], alone[i])
			}
		}
		if len(o.idle) != 1 || len(o.taken) != 0 || len(o.idle[0].early) != 0 || o.idle[0].users != 0 {
			t.Errorf("lines %v: %d programs idle, %d taken, expected the one that played all", lines, len(o.idle), len(o.taken))
		}
	}
}

// TestTurnsFail: a fault of one cell ends the program for all of its cells, each with that fault, and the cells of other
// workers go on.
func TestTurnsFail(t *testing.T) {
	for _, fault := range []string{"die", "print", "says", "order"} {
		o := program(t, fault)
		o.Env = append(o.Env, "PROCESS_TURNS=1")
		failed := 0
		byTurns(5, func(i int, turns policy.Turns) {
			p, err := o.New(policy.Problem{Dim: 2, Arms: 3, Turns: turns})
			if err == nil {
				_, err = play(p, arms(t), 1, 5)
			}
			// A program that dies may take answers of round 2 with it, which it had not sent yet.
			if err != nil && (strings.Contains(err.Error(), "select of round 3") || fault == "die" &&
				strings.Contains(err.Error(), "select of round 2: the program ended: exit status 3")) {
				failed++
			} else {
				t.Errorf("%s, cell %d: %v", fault, i, err)
			}
		})
		if failed != 5 || len(o.taken) != 0 || len(o.idle) != 0 {
			t.Errorf("%s: %d of 5 cells failed, %d programs taken, %d idle", fault, failed, len(o.taken), len(o.idle))
		}
	}
}
