package playground

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"troupe/bandit"
)

func sceneLinks() (links []string) {
	for _, s := range Scenes {
		links = append(links, s.Link)
	}
	return links
}

// sceneAt plays a scene, with another seed unless that is 0.
func sceneAt(t *testing.T, name string, round, seed int) *Game {
	t.Helper()
	for _, s := range Scenes {
		if s.Name == name {
			setup := s.State(0).Setup
			if seed > 0 {
				setup.Seed = seed
			}
			g, err := Play(setup, round)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
	}
	t.Fatal(name)
	return nil
}

// counts returns by arm how many models of a policy choose it.
func counts(g *Game, look int) (n []uint64) {
	for _, a := range g.seats[look].law.Atoms {
		n = append(n, a.Count)
	}
	return n
}

func bestArm(g *Game) int { return g.best(g.set.(bandit.Finite)) }

func isTrue(t *testing.T, what string, ok bool) {
	t.Helper()
	if !ok {
		t.Errorf("not true: %s", what)
	}
}

// TestScenes: every mark is in its game, and what the scenes say is so.
func TestScenes(t *testing.T) {
	for _, s := range Scenes {
		for i := range s.Marks {
			state := s.State(i)
			if _, err := ParseLink(state.Link()); err != nil {
				t.Errorf("%s, mark %d: %v", s.Name, i+1, err)
			}
		}
	}
	t.Run("greedy", func(t *testing.T) {
		g := sceneAt(t, "greedy", 10, 0)
		n := counts(g, 1)
		isTrue(t, "most of 32, 5 others", n[bestArm(g)] == 27)
		g = sceneAt(t, "greedy", 60, 0)
		isTrue(t, "arm 5 since round 2", g.seats[0].pulls[4] == 59 && bestArm(g) != 4)
		g = sceneAt(t, "greedy", 500, 0)
		isTrue(t, "the same regret in every round", g.seats[0].pulls[4] == 499)
		isTrue(t, "the ensemble has found the best arm", g.seats[1].regret[499] == g.seats[1].regret[449])
		for seed := 1; seed <= 12; seed++ {
			g := sceneAt(t, "greedy", 500, seed)
			lost := g.RegretOf(0) > g.RegretOf(1)
			isTrue(t, fmt.Sprintf("seed %d", seed), lost == (seed == 7 || seed == 9 || seed == 10))
		}
	})
	t.Run("posterior", testPosterior)
	t.Run("few", testFew)
	t.Run("sigma", testSigma)
	t.Run("change", testChange)
}

func testPosterior(t *testing.T) {
	for arm, n := range counts(sceneAt(t, "posterior", 1, 0), 0) {
		isTrue(t, fmt.Sprintf("arm %d has some that choose it", arm+1), n > 0)
	}
	g := sceneAt(t, "posterior", 600, 0)
	isTrue(t, "127 of 128", counts(g, 0)[bestArm(g)] == 127)
	// The second moments of the members are those of the posterior, r²V⁻¹, within the error of 64 of them.
	g = sceneAt(t, "posterior", 15, 0)
	m := g.mind(0)
	var xx, xy, yy float64
	for _, one := range m.models {
		x, y := one.theta[0]-m.ridge.Theta()[0], one.theta[1]-m.ridge.Theta()[1]
		xx, xy, yy = xx+x*x/128, xy+x*y/128, yy+y*y/128
	}
	inv := m.ridge.Inv()
	for _, c := range [][2]float64{{xx, inv[0]}, {yy, inv[3]}} { // σ = 1
		isTrue(t, fmt.Sprintf("%v is near %v", c[0], c[1]), c[0]/c[1] > 0.6 && c[0]/c[1] < 1.6)
	}
	isTrue(t, "they are long in the same direction", xy*inv[1] > 0)
}

func testFew(t *testing.T) {
	for seed := 1; seed <= 12; seed++ {
		g := sceneAt(t, "few", 1, seed)
		u := [2]float64{g.Action(0).X[0], g.Action(0).X[1]}
		left := 0
		for left == 0 && g.T() < 500 {
			if err := g.Step(); err != nil {
				t.Fatal(err)
			}
			if x := g.Action(0).X; math.Abs(x[0]*u[1]-x[1]*u[0]) > 0.02 {
				left = g.T()
			}
		}
		isTrue(t, fmt.Sprintf("seed %d leaves in %d", seed, left), left >= 24 && left <= 234 && (seed != 10 || left == 111))
	}
	g := sceneAt(t, "few", 500, 0)
	isTrue(t, "most of its regret is from the line", g.seats[0].regret[110] > g.RegretOf(0)/2)
}

func testSigma(t *testing.T) {
	g := sceneAt(t, "sigma", 30, 0)
	isTrue(t, "all 32 choose the same", strings.Contains(LawText(g.seats[0].prober, &g.seats[0].law), "32/32"))
	for _, n := range counts(g, 2) {
		isTrue(t, "no arm has more than half", n <= 16)
	}
	g = sceneAt(t, "sigma", 1000, 0)
	isTrue(t, "the small one is stuck", g.seats[0].regret[999]-g.seats[0].regret[949] > 20)
	isTrue(t, "9 of 32", counts(g, 2)[bestArm(g)] == 9)
	isTrue(t, "the right one pays least", g.RegretOf(1) < g.RegretOf(0) && g.RegretOf(1) < g.RegretOf(2))
	for seed := 1; seed <= 12; seed++ {
		g := sceneAt(t, "sigma", 1000, seed)
		more := g.RegretOf(0) > g.RegretOf(1)
		isTrue(t, fmt.Sprintf("seed %d: %v", seed, more), more == (seed == 4 || seed == 9 || seed == 11))
	}
}

func testChange(t *testing.T) {
	g := sceneAt(t, "change", 299, 0)
	for i, s := range g.seats {
		isTrue(t, fmt.Sprintf("policy %d plays the best arm", i+1), s.x.Index == bestArm(g))
	}
	old := bestArm(g)
	g = sceneAt(t, "change", 330, 0)
	isTrue(t, "the old arm is played", g.seats[0].x.Index == old && bestArm(g) != old)
	isTrue(t, "restarts play the new one", g.seats[1].x.Index == bestArm(g))
	g = sceneAt(t, "change", 800, 0)
	isTrue(t, "most of the regret is after the change", g.seats[0].regret[299] < g.RegretOf(0)/2)
	isTrue(t, "restarts lose less", g.RegretOf(1) < g.RegretOf(0)/10 && g.RegretOf(3) < g.RegretOf(2)/10)
}
