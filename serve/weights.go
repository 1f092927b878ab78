package serve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"troupe/effects"
	"troupe/serve/choose"
)

// The weights of a model that reads requests belong to hashes. Their names come from the requests: the server
// remembers the common values of each feature and the ids that were chosen, and reads their coefficients.

// word is an atom with its name.
type word struct {
	atom    uint64
	feature string
	text    string // after the name
	n       uint64
}

// dictionary returns the atoms of the context and of actions whose names are known, common ones first.
func (o *observed) dictionary() (context, action []word) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, s := range o.features {
		var own []word
		for i, l := range s.common.levels {
			if l.n-l.over >= enoughOf && s.common.atoms[i] != 0 {
				own = append(own, word{s.common.atoms[i], name, "=" + string(l.text), l.n})
			}
		}
		if strings.HasPrefix(name, "action") { // the namespace, context or action, with which the path of every value begins
			action = append(action, own...)
		} else {
			context = append(context, own...)
		}
	}
	order := func(a, b word) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.feature, b.feature), cmp.Compare(a.text, b.text))
	}
	slices.SortFunc(context, order)
	slices.SortFunc(action, order)
	var ids []word
	for i, l := range o.words.ids.levels {
		ids = append(ids, word{o.words.ids.atoms[i], "id", "=" + string(l.text), l.n})
	}
	slices.SortFunc(ids, order)
	return context, append(ids, action...)
}

// weigher is a policy whose coefficients have names in the requests.
type weigher interface{ Model() *effects.Model }

// weight is one that was found.
type weight struct {
	context, action int // in the dictionary, −1 for none
	w, spread       float64
}

func (a weight) order(b weight) int {
	return cmp.Or(cmp.Compare(math.Abs(b.w)/b.spread, math.Abs(a.w)/a.spread), cmp.Compare(a.action, b.action),
		cmp.Compare(a.context, b.context))
}

// view returns a weight with its name.
func (x weight) view(context, acts []word) WeightView {
	row := WeightView{Weight: x.w, Spread: x.spread}
	if c := x.context; c >= 0 {
		row.Name += context[c].feature + context[c].text + " × "
		row.Features = append(row.Features, context[c].feature)
	}
	a := &acts[x.action]
	row.Name += a.feature + a.text
	row.Features = append(row.Features, a.feature)
	return row
}

// weigh lists the weights of a version whose names are known, nil for other features, and stores the largest one of
// each feature in seen.
func (s *state) weigh(e *entry, v *choose.Version, seen *SeenView) *WeightsView {
	h := v.Compiled.Atoms
	if h == nil {
		return nil
	}
	w, err := e.workers.Take(v)
	for err == choose.ErrOld {
		v = s.publishedOf(e)
		w, err = e.workers.Take(v)
	}
	if err != nil || v.Compiled.Atoms != h {
		return nil
	}
	defer e.workers.Put(w)
	p, ok := w.Policy().(weigher)
	if !ok {
		return nil
	}
	context, acts := e.dictionary()
	out := &WeightsView{Rows: []WeightView{}}
	acts = acts[:min(len(acts), maxActs)]
	if len(acts) == 0 {
		return out
	}
	context = context[:min(len(context), maxReads/len(acts))]
	l := &weighing{m: p.Model(), context: context, acts: acts, best: map[string]weight{}}
	l.all()
	slices.SortFunc(l.found, weight.order)
	for _, x := range l.found[:min(len(l.found), maxWeights)] {
		out.Rows = append(out.Rows, x.view(context, acts))
	}
	out.More = l.n - len(out.Rows)
	if seen != nil {
		for i := range seen.Features {
			if x, ok := l.best[seen.Features[i].Name]; ok {
				row := x.view(context, acts)
				seen.Features[i].Weight = &row
			}
		}
	}
	return out
}

// weighing collects the weights of a model: the largest, the largest of each feature, and how many there are.
type weighing struct {
	m             *effects.Model
	context, acts []word
	found         []weight
	best          map[string]weight
	n             int
}

// all looks at the coefficients of the actions and of their pairs with what was seen in contexts.
func (l *weighing) all() {
	for a := range l.acts {
		for c := -1; c < len(l.context); c++ {
			x, hash := weight{context: c, action: a}, uint64(0)
			name := l.acts[a].feature
			if c >= 0 {
				hash, name = l.context[c].atom>>11, l.context[c].feature
			}
			var ok bool
			if x.w, x.spread, ok = l.m.Coefficient(l.acts[a].atom>>11, l.acts[a].feature == "id", hash); !ok || x.w == 0 {
				continue
			}
			l.n++
			if old, ok := l.best[name]; !ok || x.order(old) < 0 {
				l.best[name] = x
			}
			if l.found = append(l.found, x); len(l.found) == 20*maxWeights {
				slices.SortFunc(l.found, weight.order)
				l.found = l.found[:maxWeights]
			}
		}
	}
}
