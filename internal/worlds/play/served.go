package main

import (
	"slices"

	"troupe/bandit"
	"troupe/feature"
	"troupe/internal/worlds"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
)

// served is the model that a server makes from a name alone, put together as the server does it: encoder, statistics of
// numbers, policy and floor.
type served struct {
	compiled *model.Compiled
	policy   model.Policy
	batch    *feature.HashedBatch
	stats    *feature.Statistics
	seen     feature.Observer
	key      rng.Key
	made     int
	learned  int
	open     map[int]bandit.Action
	action   bandit.Action
	law      bandit.Law
	out      []float64
	text     []byte

	noticed uint64 // event at which the last change was stated
	stated  int
}

func newServed(w *worlds.World, seed uint64) (worlds.Player, error) {
	c, err := model.Default("worlds").Admit(model.DefaultLimits)
	if err != nil {
		return nil, err
	}
	key := rng.NewKey(seed).Child("player").Child("served").At(w.Seed)
	p, err := c.NewPolicy(key)
	if err != nil {
		return nil, err
	}
	return &served{compiled: c, policy: p, batch: feature.NewHashedBatch(c.Hashed, nil), key: key,
		open: map[int]bandit.Action{}}, nil
}

// Decide implements worlds.Player.
func (p *served) Decide(context worlds.Object, actions []worlds.Action) (int, []float64) {
	p.batch.Use(p.stats)
	p.text = context.AppendJSON(p.text[:0])
	must(p.batch.Begin(p.text))
	for i := range actions {
		var features []byte
		if actions[i].Features != nil {
			features = actions[i].Features.AppendJSON(nil)
		}
		must(p.batch.Add(actions[i].ID, features))
	}
	source := p.key.Stream(rng.Select).Round(uint64(p.made))
	must(p.policy.(bandit.Joint).SelectProb(&p.action, &p.law, p.batch, source.Sub(0)))
	choice, k := p.action.Index, len(actions)
	if source.Intn(0, int(p.compiled.FloorDen)) < int(p.compiled.FloorNum) {
		choice = source.Intn(1, k)
	}
	floor := p.compiled.Config.Floor
	p.out = p.out[:0]
	for _, a := range p.law.Atoms {
		p.out = append(p.out, (1-floor)*a.P+floor/float64(k))
	}
	at, x := p.batch.Nonzeros(choice)
	p.open[p.made] = bandit.Action{At: slices.Clone(at), X: slices.Clone(x), Index: choice}
	p.made++
	for _, s := range p.seen.Look(p.batch, p.stats) {
		with, err := p.stats.With(s)
		must(err)
		p.stats = with
	}
	return choice, p.out
}

// Reward implements worlds.Player. A reward that the policy refuses is not learned, as in the server.
func (p *served) Reward(decision int, y float64) {
	_ = p.policy.Update(p.open[decision], y, p.key.Stream(rng.Perturb).Round(uint64(p.learned)))
	p.learned++
	delete(p.open, decision)
	if n, ok := p.policy.(policy.Noticer); ok {
		if c := n.Changed(); c.Seen != p.noticed {
			p.noticed = c.Seen
			p.stated++
		}
	}
}

// Stated implements worlds.Stater.
func (p *served) Stated() int { return p.stated }

// Skip implements worlds.Player.
func (p *served) Skip(decision int) { delete(p.open, decision) }

// must panics on an error that worlds and compiled models rule out.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
