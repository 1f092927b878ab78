package effects_test

import (
	"fmt"

	"troupe/bandit"
	"troupe/effects"
	"troupe/rng"
)

// atom is the value v of a field of words, or an id with field 0.
func atom(field, v uint64) effects.Atom {
	return effects.Atom{Hash: bandit.TagAtom(field<<44, bandit.LevelRole, v<<40) >> 11, Value: 1}
}

// Two actions and two fields. Action 1 is good for new customers, action 2 for old ones; the second field does not
// matter.
func Example() {
	key := rng.NewKey(1)
	m := effects.New(effects.Options{}, key.Stream(rng.Init))
	actions := [][]effects.Atom{{atom(0, 1)}, {atom(0, 2)}}
	for t := range uint64(600) {
		u := key.Stream(rng.Reward).Round(t)
		customer, browser := uint64(u.Intn(0, 2)), uint64(u.Intn(1, 3))
		context := []effects.Atom{atom(1, customer), atom(2, browser)}
		_, winner := m.Votes(context, actions, nil, t)
		played := winner[u.Intn(2, effects.Draws)]
		m.Decided(t, context, actions[played])
		reward := 0.
		if chance := .2 + .5*float64((uint64(played)+customer+1)%2); u.Float64(3) < chance {
			reward = 1
		}
		m.Learn(t, context, actions[played], reward)
	}
	for customer := range uint64(2) {
		votes, _ := m.Votes([]effects.Atom{atom(1, customer), atom(2, 0)}, actions, nil, 600)
		fmt.Println("customer", customer, "votes", votes)
	}
	parts, _ := m.Explained()
	for _, p := range parts[:1] {
		fmt.Printf("field %d: %.0f%% of what was found\n", p.A, 100*p.Share)
	}
	// Output:
	// customer 0 votes [64 0]
	// customer 1 votes [0 64]
	// field 1: 80% of what was found
}
