package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"troupe/effects"
	"troupe/feature"
	"troupe/internal/worlds"
	"troupe/rng"
)

// listEffects is the default model on lists, with the encoder and the floor of a server.
type listEffects struct {
	w       *worlds.ListWorld
	model   *effects.Model
	batch   *feature.AtomBatch
	key     rng.Key
	made    int
	context []effects.Atom
	actions [][]effects.Atom
}

func newListEffects(w *worlds.ListWorld, seed uint64) *listEffects {
	key := rng.NewKey(seed).Child("player").Child("effects").At(w.Seed)
	return &listEffects{w: w, model: effects.New(effects.Options{}, key.Stream(rng.Init)),
		batch: feature.NewAtomBatch(feature.NewAtomEncoder(feature.Limits{})), key: key}
}

// Decide implements worlds.ListPlayer.
func (p *listEffects) Decide(d *worlds.ListDecision) ([]int, error) {
	if err := p.batch.Begin(d.Context.AppendJSON(nil)); err != nil {
		return nil, err
	}
	for _, a := range d.Actions {
		var features []byte
		if a.Features != nil {
			features = a.Features.AppendJSON(nil)
		}
		if err := p.batch.Add(a.ID, features); err != nil {
			return nil, err
		}
	}
	atoms := func(of []feature.Atom) (out []effects.Atom) {
		for _, a := range of {
			out = append(out, effects.Atom{Hash: a.Hash >> 11, Value: a.Value})
		}
		return out
	}
	p.context, p.actions = atoms(p.batch.Context()), nil
	for i := range d.Actions {
		p.actions = append(p.actions, atoms(p.batch.Action(i)))
	}
	shape := effects.ListShape{K: p.w.K}
	n := len(d.Actions)
	if p.w.Sets != nil {
		var of []int
		for l, size := range p.w.Sets {
			for range size {
				of = append(of, l)
			}
		}
		shape.Apart, shape.Allowed = true, func(l, i int) bool { return of[i] == l }
	}
	draw := p.key.Stream(rng.Select).Round(uint64(p.made))
	p.made++
	list := make([]int, shape.K)
	if draw.Float64(0) < floor {
		for l := range list {
			for {
				i := draw.Intn(100+l*50+p.made%7, n)
				if (shape.Allowed == nil || shape.Allowed(l, i)) && !slices.Contains(list[:l], i) {
					list[l] = i
					break
				}
				draw = draw.Sub(1)
			}
		}
		return list, nil
	}
	x := p.model.Lists(p.context, p.actions, shape, draw.At())
	j := draw.Intn(1, effects.ListDraws)
	for l, i := range x.Lists[j*shape.K : (j+1)*shape.K] {
		list[l] = int(i)
	}
	return list, nil
}

// Reward implements worlds.ListPlayer.
func (p *listEffects) Reward(_ *worlds.ListDecision, list []int, y []float64) error {
	var entries []effects.Entry
	var played [][]effects.Atom
	for l, i := range list {
		e := effects.Entry{Action: p.actions[i]}
		if l < len(y) {
			e.Y, e.Given = y[l], true
		}
		entries, played = append(entries, e), append(played, p.actions[i])
	}
	p.model.DecidedList(uint64(p.made), p.context, played)
	p.model.LearnList(uint64(p.made), p.context, entries, p.w.Whole)
	return nil
}

// lists plays worlds of lists and prints a table: for each kind the mean share at the marks and the worst world at the
// last one, of the model and of the table that makes each position a decision; then what was learned.
func (c *config) lists(out io.Writer, names string) error {
	kinds, err := worlds.SelectLists(strings.Split(names, ","))
	if err != nil {
		return err
	}
	type cell struct {
		model, table []float64 // by mark
		learned      string
		spent        time.Duration
	}
	cells := make([][]cell, len(kinds))
	var group sync.WaitGroup
	free := make(chan struct{}, c.jobs)
	var failed error
	var mu sync.Mutex
	for k := range kinds {
		cells[k] = make([]cell, len(c.seeds))
		for s, seed := range c.seeds {
			free <- struct{}{}
			group.Go(func() {
				defer func() { <-free }()
				x := &cells[k][s]
				w := kinds[k].New(seed)
				m := newListEffects(w, seed)
				before := time.Now()
				var err error
				x.model, err = shares(w, m, c.marks)
				x.spent = time.Since(before) / time.Duration(c.marks[len(c.marks)-1])
				if err == nil {
					w = kinds[k].New(seed)
					x.table, err = shares(w, worlds.NewListTable(w, seed), c.marks)
				}
				open, nats, _ := m.model.Gate()
				x.learned = fmt.Sprintf("gate %v %.1f,", open, nats)
				for _, e := range m.model.Examined() {
					x.learned += fmt.Sprintf(" %.2f±%.2f/%.2f", e.Scale, e.Sd, e.Below)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = err
				}
			})
		}
	}
	if group.Wait(); failed != nil {
		return failed
	}
	tab := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprint(tab, "kind")
	for _, m := range c.marks {
		fmt.Fprintf(tab, "\tmodel %d", m)
	}
	for _, m := range c.marks {
		fmt.Fprintf(tab, "\ttable %d", m)
	}
	fmt.Fprintln(tab, "\tworst\tworst table\tms")
	n := len(c.marks)
	all, worst := make([]float64, 2*n), [2]float64{1, 1}
	for k := range kinds {
		sum, least := make([]float64, 2*n), [2]float64{math.Inf(1), math.Inf(1)}
		var spent time.Duration
		for s := range cells[k] {
			x := &cells[k][s]
			for i := range n {
				sum[i] += x.model[i] / float64(len(c.seeds))
				sum[n+i] += x.table[i] / float64(len(c.seeds))
			}
			least[0], least[1] = min(least[0], x.model[n-1]), min(least[1], x.table[n-1])
			spent += x.spent / time.Duration(len(c.seeds))
			if c.each {
				fmt.Fprintf(out, "%s %d: model %.2f, table %.2f; %s\n", kinds[k].Name, c.seeds[s], x.model, x.table, x.learned)
			}
		}
		fmt.Fprint(tab, kinds[k].Name)
		for i, v := range sum {
			fmt.Fprintf(tab, "\t%.3f", v)
			all[i] += v / float64(len(kinds))
		}
		fmt.Fprintf(tab, "\t%.2f\t%.2f\t%.2f\n", least[0], least[1], float64(spent.Microseconds())/1000)
		worst[0], worst[1] = min(worst[0], least[0]), min(worst[1], least[1])
	}
	fmt.Fprint(tab, "mean")
	for _, v := range all {
		fmt.Fprintf(tab, "\t%.3f", v)
	}
	fmt.Fprintf(tab, "\t%.2f\t%.2f\t\n", worst[0], worst[1])
	return tab.Flush()
}

// shares plays a world and returns the shares of the possible up to each mark.
func shares(w *worlds.ListWorld, p worlds.ListPlayer, marks []int) (out []float64, err error) {
	err = worlds.PlayLists(w, p, marks, func(_ int, share, _ float64) { out = append(out, share) })
	return out, err
}
