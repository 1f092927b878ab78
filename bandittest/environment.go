package bandittest

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/rng"
)

// EnvironmentConfig tells TestEnvironment what to expect. The zero value is that of an environment of the paper.
type EnvironmentConfig struct {
	// Rounds is how many rounds are looked at; 0 stands for 20.
	Rounds int
	// Radius is the largest norm of an action; 0 stands for 1, the unit ball.
	Radius float64
	// Draws is how many rewards of an action are averaged; 0 stands for 4000. An environment that answers slowly takes fewer.
	Draws int
	// Seed changes the random numbers; the suite is a function of it.
	Seed uint64
}

// TestEnvironment holds an environment to its contract. mk returns that of the replication with the given
// key, before round 1. Reported are:
//
//   - the same key gives other sets, rewards or regrets, or asking again does: an environment draws from its
//     key and from the sources that it is handed, and from nothing else;
//   - a set of another dimension than Dim, and actions outside the ball;
//   - a reward or a regret that is not finite, a regret below 0, and, on a finite set, no action with regret 0;
//   - rewards whose means do not differ by what the regrets differ by;
//   - a bandit.Settler whose Settle is not Reward and Regret, bit for bit.
//
// The promise about the means is one about chance. Its null hypothesis: over n = Draws sources of one round the
// rewards of two actions differ on average by the difference of their regrets. It is rejected at 7 standard
// errors plus 20/n of the largest reward seen; for bounded rewards that is a level of about 1e-8 for each pair.
func TestEnvironment(t TB, mk func(key rng.Key) (bandit.Environment, error), cfg EnvironmentConfig) {
	t.Helper()
	if cfg.Rounds == 0 {
		cfg.Rounds = 20
	}
	if cfg.Radius == 0 {
		cfg.Radius = 1
	}
	if cfg.Draws == 0 {
		cfg.Draws = 4000
	}
	c := &environmentTest{TB: t, cfg: cfg, key: rng.NewKey(cfg.Seed).Child("bandittest")}
	for i := range uint64(3) { // replications
		if err := c.replication(c.key.At(i), mk); err != nil {
			t.Errorf("replication %d: %v", i+1, err)
			return
		}
	}
}

type environmentTest struct {
	TB
	cfg EnvironmentConfig
	key rng.Key
}

// replication returns the first fault of one replication.
func (c *environmentTest) replication(key rng.Key, mk func(rng.Key) (bandit.Environment, error)) error {
	world, err := mk(key)
	if err != nil {
		return fmt.Errorf("it is not built: %w", err)
	}
	twin, err := mk(key)
	if err != nil {
		return fmt.Errorf("it is not built a second time: %w", err)
	}
	for t := 1; t <= c.cfg.Rounds; t++ {
		if err := c.round(t, key, world, twin); err != nil {
			return fmt.Errorf("round %d: %w", t, err)
		}
	}
	return nil
}

func (c *environmentTest) round(t int, key rng.Key, world, twin bandit.Environment) error {
	source := key.Stream(rng.Offer).Round(uint64(t))
	set, err := world.Offer(source)
	if err != nil {
		return fmt.Errorf("the offer: %w", err)
	}
	other, err := twin.Offer(source)
	if err != nil {
		return fmt.Errorf("the offer of a second environment: %w", err)
	}
	if set.Dim() != world.Dim() {
		return fmt.Errorf("the set has dimension %d, Dim says %d", set.Dim(), world.Dim())
	}
	actions, err := c.actions(set, key, t)
	if err != nil {
		return err
	}
	again, err := c.actions(other, key, t)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(actions, again, func(a, b bandit.Action) bool {
		return a.Index == b.Index &&
			slices.Equal(a.X, b.X)
	}) {
		return fmt.Errorf("two environments of one key offer other sets")
	}
	regrets := make([]float64, len(actions))
	pay := key.Stream(rng.Reward).Round(uint64(t))
	for i, a := range actions {
		if n := math.Sqrt(dot(a.X, a.X)); n > c.cfg.Radius*(1+1e-9) {
			return fmt.Errorf("an action has norm %v, expected at most %v", n, c.cfg.Radius)
		}
		r, y, err := ask(world, a, pay)
		if err != nil {
			return err
		}
		r2, y2, err := ask(twin, a, pay)
		if err != nil {
			return err
		}
		if r != r2 || y != y2 {
			return fmt.Errorf("two environments of one key pay %v and %v for an action, with regret %v and %v", y, y2,
				r, r2)
		}
		if r3, y3, err := ask(world, a, pay); err != nil || r != r3 || y != y3 {
			return fmt.Errorf("asked again, it pays %v instead of %v, with regret %v instead of %v, error %v", y3, y,
				r3, r, err)
		}
		if r < 0 {
			return fmt.Errorf("the regret of an action is %v, expected at least 0", r)
		}
		if s, ok := world.(bandit.Settler); ok {
			if ys, rs, err := s.Settle(a, pay); err != nil || ys != y || rs != r {
				return fmt.Errorf("method Settle gives reward %v and regret %v, error %v; Reward and Regret give %v "+
					"and %v", ys, rs, err, y, r)
			}
		}
		regrets[i] = r
	}
	if list, ok := set.(bandit.Finite); ok && list.Len() == len(actions) && slices.Min(regrets) > 1e-9 {
		return fmt.Errorf("the smallest regret of all %d actions is %v, expected 0", len(actions), slices.Min(regrets))
	}
	if t > 2 || len(actions) < 2 { // two rounds are enough for the means
		return nil
	}
	worst := 0
	for i, r := range regrets {
		if r > regrets[worst] {
			worst = i
		}
	}
	best := slices.Index(regrets, slices.Min(regrets))
	return c.means(world, actions[best], actions[worst], regrets[worst]-regrets[best], key, t)
}

// actions returns the actions of a finite set, at most 200 of them, and otherwise the best of 20 directions.
func (c *environmentTest) actions(set bandit.ActionSet, key rng.Key, t int) ([]bandit.Action, error) {
	var out []bandit.Action
	if list, ok := set.(bandit.Finite); ok {
		for i := range min(list.Len(), 200) {
			var a bandit.Action
			a.Set(list.At(i), i)
			out = append(out, a)
		}
		return out, nil
	}
	draw := key.Child("directions").Stream(rng.Instance).Round(uint64(t))
	theta := make([]float64, set.Dim())
	for k := range 20 {
		for i := range theta {
			theta[i] = draw.Normal(k*len(theta) + i)
		}
		var a bandit.Action
		if _, err := set.ArgMax(&a, theta); err != nil {
			return nil, fmt.Errorf("the best action: %w", err)
		}
		a.X = slices.Clone(a.X)
		out = append(out, a)
	}
	return out, nil
}

// ask returns the regret and the reward of an action.
func ask(world bandit.Environment, a bandit.Action, draw rng.Source) (regret, reward float64, err error) {
	if reward, err = world.Reward(a, draw); err != nil {
		return 0, 0, fmt.Errorf("the reward: %w", err)
	}
	if regret, err = world.Regret(a); err != nil {
		return 0, 0, fmt.Errorf("the regret: %w", err)
	}
	if reward-reward != 0 || regret-regret != 0 {
		return 0, 0, fmt.Errorf("reward %v, regret %v: %w", reward, regret, bandit.ErrNotFinite)
	}
	return regret, reward, nil
}

// means compares the mean rewards of two actions of the set offered last with the difference of their regrets.
func (c *environmentTest) means(world bandit.Environment, a, b bandit.Action, want float64, key rng.Key, t int) error {
	var sum, square, largest float64
	stream := key.Child("means").At(uint64(t)).Stream(rng.Reward)
	for i := range uint64(c.cfg.Draws) {
		ya, err := world.Reward(a, stream.Round(i))
		if err != nil {
			return err
		}
		yb, err := world.Reward(b, stream.Round(i))
		if err != nil {
			return err
		}
		d := ya - yb
		sum += d
		square += d * d
		largest = max(largest, math.Abs(ya), math.Abs(yb))
	}
	n := float64(c.cfg.Draws)
	mean := sum / n
	se := math.Sqrt(max(0, square/n-mean*mean) / n)
	if math.Abs(mean-want) > 7*se+20*largest/n+1e-12 {
		return fmt.Errorf("the rewards of two actions differ by %.4g ± %.2g on average, their regrets by %.4g", mean,
			se, want)
	}
	return nil
}
