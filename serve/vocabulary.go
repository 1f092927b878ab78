package serve

import (
	"slices"

	"troupe/feature"
)

// Bounds of what is remembered, looked at and listed.
const (
	maxLevels  = 32      // values of a feature
	maxIDs     = 64      // chosen ids
	maxAllOf   = 4096    // values of all features
	enoughOf   = 5       // requests that had a value before its text is shown
	maxReads   = 1 << 16 // coordinates
	maxActs    = 128     // actions and values of actions that are looked at
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
}
