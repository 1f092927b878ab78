package bandit

// Role is what an atom of a hashed request says of its field.
type Role uint8

// The roles of atoms.
const (
	LevelRole  Role = iota // a string, a boolean or an id: one of the values of its field
	BinRole                // the part of the range of a number in which a value lies, or a value of a number with few
	ValueRole              // a number, standardised
	WordRole               // a word of a text
	FormRole               // the decimal form of a number whose scale is not known yet
	NumberRole             // a number as it was sent
)

// TagAtom returns a hash that begins with the upper 20 bits of field, then three bits of the role, then the upper 41
// bits of hash.
func TagAtom(field uint64, role Role, hash uint64) uint64 {
	return field>>44<<44 | uint64(role&7)<<41 | hash>>23
}

// Atoms are what a sparse vector was made of, where it ends with a list of them.
type Atoms struct {
	Context, Action int       // how many atoms there are of both; the first of the action is its id
	OwnPairs        int       // how many pairs have the id, at the start of the pairs
	Vector          int       // length of the vector without the list
	x               []float64 // hash and value of each atom
}

// AtomList appends a list of atoms to a sparse vector. All its entries have the coordinate First, from which on no
// other entry lies. An atom is two of them: the upper 53 bits of its hash as a whole number, and its value; three
// counts end the list.
type AtomList struct {
	At    []uint32
	X     []float64
	First uint32
}

// Append adds an atom.
func (l *AtomList) Append(hash uint64, value float64) {
	l.At = append(l.At, l.First, l.First)
	l.X = append(l.X, float64(hash>>11), value)
}

// End ends the list of so many atoms of the context, then of the action.
func (l *AtomList) End(context, action, ownPairs int) {
	l.At = append(l.At, l.First, l.First, l.First)
	l.X = append(l.X, float64(ownPairs), float64(action), float64(context))
}

// ReadAtoms returns the list at the end of a vector, whose entries have coordinate first. ok is false without one.
func ReadAtoms(at []uint32, x []float64, first uint32) (a Atoms, ok bool) {
	n := len(at)
	if n < 3 || len(x) != n || at[n-1] != first {
		return a, false
	}
	own, action, context := x[n-3], x[n-2], x[n-1]
	const most = 1 << 20
	if !(own >= 0 && own < most && action >= 1 && action < most && context >= 0 && context < most) {
		return a, false
	}
	a = Atoms{Context: int(context), Action: int(action), OwnPairs: int(own)}
	length := 2*(a.Context+a.Action) + 3
	if a.Vector = n - length; a.Vector < 1+2*a.Context+a.OwnPairs || at[n-length] != first {
		return a, false
	}
	a.x = x[a.Vector : n-3]
	return a, true
}

// Len returns the number of atoms, those of the context first.
func (a *Atoms) Len() int { return a.Context + a.Action }

// At returns atom i: the upper 53 bits of its hash, and its value.
func (a *Atoms) At(i int) (hash uint64, value float64) { return uint64(a.x[2*i]), a.x[2*i+1] }

// FieldOf returns the field and the role of an atom by the upper 53 bits of its hash.
func FieldOf(hash uint64) (field uint32, role Role) { return uint32(hash >> 33), Role(hash >> 30 & 7) }
