package main

import (
	"troupe/bandit"
	"troupe/feature"
	"troupe/internal/worlds"
	"troupe/policy"
	"troupe/rng"
)

// random is the model of random effects with the encoder and the floor of a server.
type random struct {
	policy *policy.Effects
	batch  *feature.AtomBatch
	key    rng.Key
	made   int
	open   map[int]bandit.Action
	action bandit.Action
	law    bandit.Law
	out    []float64
	text   []byte
}

func newRandom(w *worlds.World, seed uint64) (worlds.Player, error) {
	key := rng.NewKey(seed).Child("player").Child("effects").At(w.Seed)
	p, err := policy.NewEffects(policy.EffectsOptions{}, policy.Problem{Init: key.Stream(rng.Init)})
	if err != nil {
		return nil, err
	}
	return &random{policy: p, batch: feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{})), key: key,
		open: map[int]bandit.Action{}}, nil
}

const floor = .01 // of a server

// Decide implements worlds.Player.
func (p *random) Decide(context worlds.Object, actions []worlds.Action) (int, []float64, error) {
	p.text = context.AppendJSON(p.text[:0])
	if err := p.batch.Begin(p.text); err != nil {
		return 0, nil, err
	}
	for i := range actions {
		var features []byte
		if actions[i].Features != nil {
			features = actions[i].Features.AppendJSON(nil)
		}
		if err := p.batch.Add(actions[i].ID, features); err != nil {
			return 0, nil, err
		}
	}
	draw := p.key.Stream(rng.Select).Round(uint64(p.made))
	if err := p.policy.SelectProb(&p.action, &p.law, p.batch, draw.Sub(0)); err != nil {
		return 0, nil, err
	}
	i, k := p.action.Index, len(actions)
	if draw.Float64(0) < floor {
		i = draw.Intn(2, k)
	}
	p.out = p.out[:0]
	for j := range actions {
		p.out = append(p.out, (1-floor)*p.law.Atoms[j].P+floor/float64(k))
	}
	at, x := p.batch.Nonzeros(i)
	var a bandit.Action
	a.SetSparse(at, x, i)
	p.open[p.made] = a
	p.made++
	return i, p.out, p.policy.Decided(uint64(p.made-1), a)
}

// Reward implements worlds.Player.
func (p *random) Reward(decision int, y float64) error {
	defer delete(p.open, decision)
	return p.policy.Settled(uint64(decision), p.open[decision], y)
}

// Skip implements worlds.Player.
func (p *random) Skip(decision int) error {
	p.policy.Dropped(uint64(decision))
	delete(p.open, decision)
	return nil
}

// Stated implements worlds.Stater.
func (p *random) Stated() int { return len(p.policy.Model().Changes()) }
