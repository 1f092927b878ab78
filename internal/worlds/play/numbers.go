package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"troupe/effects"
	"troupe/feature"
	"troupe/internal/worlds"
	"troupe/rng"
	"troupe/serve/numbers"
)

// numberEffects is the default model on numbers, with the encoder, the cells and the floor of a server.
type numberEffects struct {
	w     *worlds.NumberWorld
	model *effects.Model
	batch *feature.AtomBatch
	grid  *numbers.Grid
	key   rng.Key
}

func newNumberEffects(w *worlds.NumberWorld, seed uint64) *numberEffects {
	key := rng.NewKey(seed).Child("player").Child("numbers").At(w.Seed)
	var of []numbers.Range
	for _, r := range w.Numbers {
		of = append(of, numbers.Range{Name: r.Name, Min: r.Min, Max: r.Max, Step: r.Step, Cyclic: r.Cyclic, Log: r.Log})
	}
	return &numberEffects{w: w, model: effects.New(effects.Options{}, key.Stream(rng.Init)), grid: numbers.Whole(of), key: key,
		batch: feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{}))}
}

func effectsAtoms(of []feature.Atom) (out []effects.Atom) {
	for _, a := range of {
		out = append(out, effects.Atom{Hash: a.Hash >> 11, Value: a.Value})
	}
	return out
}

// step makes decision t and learns its reward. It returns what was played.
func (p *numberEffects) step(t int) (offer int, values []float64, err error) {
	w := p.w
	if err := p.batch.Begin(w.Contexts[t].AppendJSON(nil)); err != nil {
		return 0, nil, err
	}
	masks := []uint8{p.grid.All()}
	if w.Offers == nil {
		p.batch.AddAlone()
	} else {
		masks = nil
	}
	for i, id := range w.Offers {
		if err := p.batch.Add(id, nil); err != nil {
			return 0, nil, err
		}
		if masks = append(masks, p.grid.All()); i < w.Bare {
			masks[i] = 0
		}
	}
	var actions [][]feature.Atom
	for i := range masks {
		actions = append(actions, p.batch.Action(i))
	}
	candidates, of := p.grid.Expand(actions, masks)
	context, cells := effectsAtoms(p.batch.Context()), make([][]effects.Atom, len(candidates))
	for i := range cells {
		cells[i] = effectsAtoms(candidates[i])
	}
	draw := p.key.Stream(rng.Select).Round(uint64(t))
	i := draw.Intn(1, len(cells))
	if draw.Float64(0) >= floor {
		_, winner := p.model.Votes(context, cells, nil, draw.At())
		i = winner[draw.Intn(2, effects.Draws)]
	}
	offer = int(of[i])
	var own []float64
	values = make([]float64, len(w.Numbers))
	for k, c := range p.grid.Of(nil, masks[offer], i-slices.Index(of, of[i])) {
		values[c.Number] = c.At(draw.Float64(3 + k))
		own = append(own, values[c.Number])
	}
	action := effectsAtoms(p.grid.Exact(candidates[i], masks[offer], own))
	p.model.Decided(uint64(t), context, action)
	p.model.Learn(uint64(t), context, action, w.Reward(t, offer, values))
	return offer, values, nil
}

// shares plays the world and returns the shares of the possible up to each mark.
func (p *numberEffects) shares(marks []int) (out []float64, err error) {
	var got, best, uniform float64
	for t := range p.w.Contexts {
		offer, values, err := p.step(t)
		if err != nil {
			return nil, err
		}
		b, u := p.w.Possible(t)
		got, best, uniform = got+p.w.Mean(t, offer, values), best+b, uniform+u
		if slices.Contains(marks, t+1) {
			out = append(out, (got-uniform)/(best-uniform))
		}
	}
	return out, nil
}

// numberKinds are the kinds by names, or by base, held and all.
func numberKinds(names string) (out []worlds.NumberKind, err error) {
	for name := range strings.SplitSeq(names, ",") {
		if name != "all" && name != "base" && name != "held" {
			k, err := worlds.NumberKindOf(name)
			if err != nil {
				return nil, err
			}
			out = append(out, k)
			continue
		}
		for _, k := range worlds.NumberKinds() {
			if name == "all" || k.Held == (name == "held") {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

// spread is the distribution of shares at one mark.
type spread []float64

// String has the mean, the median, the quantiles of 5% and 1%, and the worst.
func (s spread) String() string {
	s = slices.Sorted(slices.Values(s))
	m, _ := mean(s)
	at := func(q float64) float64 { return s[int(q*float64(len(s)))] }
	return fmt.Sprintf("%.3f\t%.3f\t%.2f\t%.2f\t%.2f", m, at(.5), at(.05), at(.01), s[0])
}

// numbers plays each world with so many models, whose seeds are 0, 1, …, and prints the distribution of their shares.
func (c *config) numbers(out io.Writer, names string, models int) error {
	kinds, err := numberKinds(names)
	if err != nil {
		return err
	}
	tab := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tab, "kind\tafter\tmean\tmedian\t5%\t1%\tworst\tmodels")
	all := make([]spread, len(c.marks))
	for _, k := range kinds {
		n := len(c.seeds) * models
		got, failed := make([][]float64, n), make([]error, n)
		free := make(chan struct{}, c.jobs)
		var group sync.WaitGroup
		for i := range n {
			free <- struct{}{}
			group.Go(func() {
				defer func() { <-free }()
				w, err := k.New(c.seeds[i/models], c.marks[len(c.marks)-1])
				if err == nil {
					got[i], err = newNumberEffects(w, uint64(i%models)).shares(c.marks)
				}
				failed[i] = err
			})
		}
		group.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
		for m, t := range c.marks {
			var s spread
			for i := range got {
				s = append(s, got[i][m])
			}
			fmt.Fprintf(tab, "%s\t%d\t%v\t%d\n", k.Name, t, s, n)
			all[m] = append(all[m], s...)
		}
	}
	for m, t := range c.marks {
		fmt.Fprintf(tab, "all\t%d\t%v\t%d\n", t, all[m], len(all[m]))
	}
	return tab.Flush()
}
