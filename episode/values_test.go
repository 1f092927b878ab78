package episode

import (
	"fmt"
	"slices"
	"testing"

	"troupe/rng"
)

// reader is an agent whose values are read before some episodes.
type reader struct {
	*tabular
	at   []int
	read [][]float64 // by episode of at and model
}

func (r *reader) Begin(k int, draw rng.Source) {
	if slices.Contains(r.at, k) {
		for i := range r.Models() {
			v := make([]float64, r.size.Steps*r.size.States)
			r.Values(v, i)
			r.read = append(r.read, v)
		}
	}
	r.tabular.Begin(k, draw)
}

// TestValues: reading the values of the members changes nothing; before the first episode they are the priors; a
// member agrees with itself with the other sign where nothing is left to learn, and not elsewhere.
func TestValues(t *testing.T) {
	for name, o := range map[string]AgentOptions{"ensemble": ens(rlsvi(3)), "atoms": atm(rlsvi(3))} {
		t.Run(name, func(t *testing.T) {
			world, err := sea(6).Problem(rng.NewKey(1))
			if err != nil {
				t.Fatal(err)
			}
			play := func(read bool) (log string, r *reader) {
				key := rng.NewKey(1)
				agent, err := o.Agent(SettingOf(world, key, 200))
				if err != nil {
					t.Fatal(err)
				}
				r = &reader{tabular: agent.(*tabular)}
				if read {
					r.at = []int{1, 10, 200}
				}
				if err := Play(world, r, key, 200, observe(func(k int, p Played) error {
					log += fmt.Sprintln(k, p)
					return nil
				})); err != nil {
					t.Fatal(err)
				}
				return log, r
			}
			plain, _ := play(false)
			watched, r := play(true)
			if plain != watched {
				t.Error("the agent plays other episodes when its values are read")
			}
			const models, states = 6, 36
			if len(r.read) != 3*models {
				t.Fatalf("%d lists of values, expected %d", len(r.read), 3*models)
			}
			spread := func(at, h, s int) (width float64) {
				lo, hi := r.read[at*models][h*6+s], r.read[at*models][h*6+s]
				for _, v := range r.read[at*models:][:models] {
					lo, hi = min(lo, v[h*6+s]), max(hi, v[h*6+s])
				}
				return hi - lo
			}
			if w := spread(0, 5, 5); w < 0.3 {
				t.Errorf("before the first episode the models differ by %v in the last state", w)
			}
			// After 200 episodes the treasure was found, and the way to it visited again and again.
			if w := spread(2, 5, 5); w > 0.2 {
				t.Errorf("after 200 episodes the models differ by %v where they went", w)
			}
			if v := r.read[2*models][0]; v < 0.7 || v > 1.3 {
				t.Errorf("after 200 episodes the first state is worth %v, the optimum is 0.99", v)
			}
			if len(r.read[0]) != states {
				t.Errorf("%d values, expected %d", len(r.read[0]), states)
			}
		})
	}
}

type observe func(k int, p Played) error

func (o observe) Episode(k int, p Played) error { return o(k, p) }
