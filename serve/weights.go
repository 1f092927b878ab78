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

// WeightView is what a model with hashed features has learned of one value of the context, or of two of them together,
// for an action or a value of an action.
type WeightView struct {
	Name string `json:"name"` // such as context.city=Oslo × id=sport
	// Features are those of the name, in its order: none, one or two of the context, then one of the action, or id.
	Features []string `json:"features"`
	// Weight is what the value adds to the expected reward of a request of mean length, with the logistic link to the
	// logit. Spread is the standard deviation of the members there.
	Weight float64 `json:"weight"`
	Spread float64 `json:"spread"`
}

// WeightsView lists weights of the model that plays.
type WeightsView struct {
	Link  string       `json:"link"`  // linear: weights are in units of the reward; logistic: of the logit
	Pairs bool         `json:"pairs"` // the model reads pairs of values
	Rows  []WeightView `json:"rows"`  // the first 50, those first whose weight is the most spreads away from 0
	More  int          `json:"more,omitzero"`
}

// Bounds of what is remembered, looked at and listed.
const (
	maxLevels  = 32      // values of a feature
	maxIDs     = 64      // chosen ids
	maxAllOf   = 4096    // values of all features
	enoughOf   = 5       // requests that had a value before its text is shown
	maxReads   = 1 << 16 // coordinates
	maxActs    = 128     // actions and values of actions that are looked at
	pairedOf   = 64      // values of the context that are paired
	pairedActs = 16      // with these actions
	maxWeights = 50

	everyRequest = 1024 // the first requests are all counted, then
	everyEighth  = 8
)

// level is a value of a feature, or an id.
type level struct {
	n, over uint64 // it was counted n times, at most over of them for others
	number  bool
	x       float64
	text    []byte
}

// common counts the common values among many: when there is no room, the rarest makes room for the new one, which
// takes over its count (Metwally, Agrawal and El Abbadi 2005, Space-Saving).
type common struct {
	atoms  []uint64
	levels []level
}

// count counts a value. room is what all features together have left.
func (c *common) count(atom uint64, v *feature.Given, most int, room *int) {
	i := slices.Index(c.atoms, atom)
	switch {
	case i >= 0:
		c.levels[i].n++
		return
	case len(c.atoms) < most && *room > 0:
		*room--
		i = len(c.atoms)
		c.atoms, c.levels = append(c.atoms, atom), append(c.levels, level{})
	case len(c.atoms) == 0:
		return
	default:
		i = 0
		for j := range c.levels {
			if c.levels[j].n < c.levels[i].n {
				i = j
			}
		}
		c.levels[i].over = c.levels[i].n
	}
	l := &c.levels[i]
	c.atoms[i] = atom
	l.n++
	l.number, l.x, l.text = v.Number, v.X, append(l.text[:0], v.Level...)
}

// vocabulary is what observed knows of the names of weights. The zero value is empty.
type vocabulary struct {
	ids     common // of chosen actions
	levels  int    // of all features
	counted uint64
	inverse [2]float64 // mean of 1/length of the chosen vectors, without and with pairs
}

// chosen counts the action of a decision. The caller holds mu.
func (o *observed) chosen(w *choose.Worker, candidate int) {
	o.words.counted++
	plain, all := w.Lengths(candidate)
	for i, length := range []float64{plain, all} {
		if length > 0 {
			o.words.inverse[i] += (1/length - o.words.inverse[i]) / float64(min(o.words.counted, 100))
		}
	}
	if atom, id := w.ID(candidate); id != "" {
		room := maxIDs
		o.words.ids.count(atom, &feature.Given{Level: []byte(id)}, maxIDs, &room)
	}
}

// counts returns whether the values of the present request are counted.
func (o *observed) counts() bool { return o.requests <= everyRequest || o.requests%everyEighth == 0 }

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
		if strings.HasPrefix(name, "action") {
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
	var found []weight
	best := map[string]weight{}
	n := 0
	look := func(at uint32, x weight) {
		var ok bool
		if x.w, x.spread, ok = p.Weight(at); !ok || x.w == 0 {
			return
		}
		n++
		x.w, x.spread = float64(x.w*scale), float64(x.spread*scale)
		name := acts[x.action].feature
		if x.first >= 0 {
			name = context[x.first].feature
		}
		if old, ok := best[name]; x.second < 0 && (!ok || x.order(old) < 0) {
			best[name] = x
		}
		if found = append(found, x); len(found) == 20*maxWeights {
			slices.SortFunc(found, weight.order)
			found = found[:maxWeights]
		}
	}
	for a := range acts {
		look(h.Coordinate(acts[a].atom), weight{first: -1, second: -1, action: a})
		for c := range context {
			look(h.Coordinate(acts[a].atom, context[c].atom), weight{first: c, second: -1, action: a})
		}
	}
	if out.Pairs {
		few := context[:min(len(context), pairedOf)]
		for i := range few {
			for j := i + 1; j < len(few); j++ {
				if few[i].feature == few[j].feature {
					continue
				}
				for a := range acts[:min(len(acts), pairedActs)] {
					look(h.Coordinate(acts[a].atom, few[i].atom, few[j].atom), weight{first: i, second: j, action: a})
				}
			}
		}
	}
	slices.SortFunc(found, weight.order)
	view := func(x weight) WeightView { return x.view(context, acts) }
	for _, x := range found[:min(len(found), maxWeights)] {
		out.Rows = append(out.Rows, view(x))
	}
	out.More = n - len(out.Rows)
	if seen != nil {
		for i := range seen.Features {
			if x, ok := best[seen.Features[i].Name]; ok {
				row := view(x)
				seen.Features[i].Weight = &row
			}
		}
	}
	return out
}
