package serve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"troupe/feature"
	"troupe/serve/choose"
)

// The weights of a model with hashed features belong to hashes. Their names come from the requests: the server
// remembers the common values of each feature and the ids that were chosen, finds their coordinates, and reads those.

// word is an atom with its name.
type word struct {
	atom    uint64
	feature string
	text    string // after the name
	n       uint64
}

// dictionary returns the atoms of the context and of actions whose names are known, common ones first, and 1/length.
func (o *observed) dictionary(h *feature.Hashed, known *feature.Statistics) (context, action []word, inverse [2]float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, s := range o.features {
		var own []word
		if r, ok := known.Of(s.feature); ok && s.feature != 0 {
			for _, p := range h.Parts(&r) {
				own = append(own, word{p.Atom, name, p.Text, s.requests})
			}
		}
		counts := len(own)
		for i, l := range s.common.levels {
			atom := s.common.atoms[i]
			if l.number {
				atom = h.LevelAtom(known, s.feature, l.x)
			}
			if l.n-l.over < enoughOf || atom == 0 {
				continue
			}
			// A number that came before its scale was known and after has two atoms among the common ones, and one now.
			if k := slices.IndexFunc(own[counts:], func(w word) bool { return w.atom == atom }); k >= 0 {
				own[counts+k].n += l.n
				continue
			}
			own = append(own, word{atom, name, "=" + string(l.text), l.n})
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
	return context, append(ids, action...), o.words.inverse
}

// weigher is what the policies of hashed features have in common.
type weigher interface {
	Weight(at uint32) (w, spread float64, ok bool)
	Playing() (link string, pairs bool)
	Normalised() bool // the vectors are divided by their lengths
}

// weight is one that was found.
type weight struct {
	first, second, action int // in the dictionary, −1 for none
	w, spread             float64
}

func (a weight) order(b weight) int {
	return cmp.Or(cmp.Compare(math.Abs(b.w)/b.spread, math.Abs(a.w)/a.spread), cmp.Compare(a.action, b.action),
		cmp.Compare(a.first, b.first), cmp.Compare(a.second, b.second))
}

// view returns a weight with its name.
func (x weight) view(context, acts []word) WeightView {
	row := WeightView{Weight: x.w, Spread: x.spread}
	for _, c := range []int{x.first, x.second} {
		if c >= 0 {
			row.Name += context[c].feature + context[c].text + " × "
			row.Features = append(row.Features, context[c].feature)
		}
	}
	a := &acts[x.action]
	row.Name += a.feature + a.text
	row.Features = append(row.Features, a.feature)
	return row
}

// weigh lists the weights of a version whose names are known, nil for other features, and stores the largest one of
// each feature in seen.
func (s *state) weigh(e *entry, v *choose.Version, seen *SeenView) *WeightsView {
	h := v.Compiled.Hashed
	if h == nil {
		return nil
	}
	w, err := e.workers.Take(v)
	for err == choose.ErrOld {
		v = s.publishedOf(e)
		w, err = e.workers.Take(v)
	}
	if err != nil || v.Compiled.Hashed != h {
		return nil
	}
	defer e.workers.Put(w)
	p, ok := w.Policy().(weigher)
	if !ok {
		return nil
	}
	context, acts, inverse := e.dictionary(h, v.State.Statistics())
	out := &WeightsView{Rows: []WeightView{}}
	out.Link, out.Pairs = p.Playing()
	scale := inverse[0]
	if out.Pairs {
		scale = inverse[1]
	}
	if !p.Normalised() {
		scale = 1
	}
	acts = acts[:min(len(acts), maxActs)]
	if len(acts) == 0 || scale == 0 {
		return out
	}
	context = context[:min(len(context), maxReads/len(acts))]
	l := &weighing{p: p, scale: scale, context: context, acts: acts, best: map[string]weight{}}
	l.all(h, out.Pairs)
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

// weighing collects the weights of a policy: the largest, the largest of each feature, and how many there are.
type weighing struct {
	p             weigher
	scale         float64
	context, acts []word
	found         []weight
	best          map[string]weight
	n             int
}

// all looks at the coordinates of the actions, of their pairs with what was seen in contexts and, with pairs, of these
// with each other.
func (l *weighing) all(h *feature.Hashed, pairs bool) {
	acts, context := l.acts, l.context
	for a := range acts {
		l.look(h.Coordinate(acts[a].atom), weight{first: -1, second: -1, action: a})
		for c := range context {
			l.look(h.Coordinate(acts[a].atom, context[c].atom), weight{first: c, second: -1, action: a})
		}
	}
	if !pairs {
		return
	}
	few := context[:min(len(context), pairedOf)]
	for i := range few {
		for j := i + 1; j < len(few); j++ {
			if few[i].feature == few[j].feature {
				continue
			}
			for a := range acts[:min(len(acts), pairedActs)] {
				l.look(h.Coordinate(acts[a].atom, few[i].atom, few[j].atom), weight{first: i, second: j, action: a})
			}
		}
	}
}

// look takes the weight of a coordinate, unless it is 0.
func (l *weighing) look(at uint32, x weight) {
	var ok bool
	if x.w, x.spread, ok = l.p.Weight(at); !ok || x.w == 0 {
		return
	}
	l.n++
	x.w, x.spread = float64(x.w*l.scale), float64(x.spread*l.scale)
	name := l.acts[x.action].feature
	if x.first >= 0 {
		name = l.context[x.first].feature
	}
	if old, ok := l.best[name]; x.second < 0 && (!ok || x.order(old) < 0) {
		l.best[name] = x
	}
	if l.found = append(l.found, x); len(l.found) == 20*maxWeights {
		slices.SortFunc(l.found, weight.order)
		l.found = l.found[:maxWeights]
	}
}
