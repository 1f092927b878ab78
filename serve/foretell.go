package serve

import (
	"context"

	"troupe/bandit"
	"troupe/effects"
	"troupe/feature"
	"troupe/policy"
	"troupe/serve/choose"
)

// foretelling implements Foretelling of a model by its newest version.
type foretelling struct {
	writer *writer
	state  *state
	name   string
}

var _ Foretelling = (*foretelling)(nil)

// with calls f with the policy of a model as it is now, and what makes vectors of its features.
func (x *foretelling) with(ctx context.Context, f func(p policy.Foreteller, v *choose.Version) error) error {
	done, err := x.writer.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	e, v, err := x.state.model(x.name)
	if err != nil {
		return err
	}
	w, err := e.workers.Take(v)
	for err == choose.ErrOld {
		v = x.state.publishedOf(e)
		w, err = e.workers.Take(v)
	}
	if err != nil {
		return nil // a model that cannot decide has nothing to say
	}
	defer e.workers.Put(w)
	p, ok := bandit.Innermost(w.Policy()).(policy.Foreteller)
	if !ok || v.Compiled.Atoms == nil {
		return nil
	}
	return f(p, v)
}

// Curve implements Foretelling.
func (x *foretelling) Curve(ctx context.Context, features []byte, number string, u []float64) (out *LearnedCurve, err error) {
	err = x.with(ctx, func(p policy.Foreteller, v *choose.Version) error {
		all, err := readAtoms(features)
		if err != nil || len(all) != 2 {
			return err
		}
		knob, field := 0, feature.PlayedField(number)
		for _, a := range all[1][1:] { // behind its id
			f, role := bandit.FieldOf(a.Hash >> 11)
			if role != bandit.PlayedRole {
				continue
			}
			if f == field {
				break
			}
			knob++
		}
		at, values := v.Compiled.Atoms.AppendVector(nil, nil, all[0], all[1])
		c := &LearnedCurve{Mean: make([]float64, len(u)), SD: make([]float64, len(u))}
		ok, err := p.Curve(bandit.Action{At: at, X: values, Index: bandit.NoIndex}, knob, u, c.Mean, c.SD)
		if ok {
			out = c
		}
		return err
	})
	return out, err
}

// BestList implements Foretelling.
func (x *foretelling) BestList(ctx context.Context, lists []PlayedList) (out *BestList, err error) {
	err = x.with(ctx, func(p policy.Foreteller, v *choose.Version) error {
		var entries []bandit.Action
		var ids []string
		place := map[string]int{} // in ids
		stood := map[[2]int]bool{}
		k := 0
		for _, l := range lists {
			if err := ctx.Err(); err != nil {
				return err
			}
			all, err := readAtoms(l.Features)
			if err != nil || len(all) != 1+len(l.Actions) {
				return err
			}
			k = max(k, len(l.Actions))
			for pos, id := range l.Actions {
				at, known := place[id]
				if !known {
					at = len(ids)
					ids, place[id] = append(ids, id), at
					i, values := v.Compiled.Atoms.AppendVector(nil, nil, all[0], all[1+pos])
					entries = append(entries, bandit.Action{At: i, X: values, Index: bandit.NoIndex})
				}
				stood[[2]int{pos, at}] = true
			}
		}
		if k == 0 {
			return nil
		}
		shape := effects.ListShape{K: k, Allowed: func(l, i int) bool { return stood[[2]int{l, i}] }}
		list, value, approximate, err := p.BestList(entries, shape)
		if err != nil || list == nil {
			return err
		}
		out = &BestList{Expected: value, Approximate: approximate}
		for _, i := range list {
			out.Actions = append(out.Actions, ids[i])
		}
		return nil
	})
	return out, err
}

// readAtoms reads the features of a record: those of the context, and of each action.
func readAtoms(b []byte) (all [][]feature.Atom, err error) {
	for len(b) > 0 {
		var a []feature.Atom
		if a, b, err = feature.ReadAtoms(nil, b); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
