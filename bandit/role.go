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
	PlayedRole             // a number that is played: where it lies in its range, from 0 to 1. Of field 0 it is the id of an action without one
)

// TagAtom returns a hash that begins with the upper 20 bits of field, then three bits of the role, then the upper 41
// bits of hash.
func TagAtom(field uint64, role Role, hash uint64) uint64 {
	return field>>44<<44 | uint64(role&7)<<41 | hash>>23
}

// CyclicNumber is set in the hash of an atom of PlayedRole where 1 is 0 again.
const CyclicNumber = 1 << 34

// AtomList is the sparse vector of a request: the list of the atoms of its context and of an action, all at coordinate 0.
// An atom is two entries, the upper 53 bits of its hash as a whole number, and its value; two counts end the list.
type AtomList struct {
	At []uint32
	X  []float64
}

// Append adds an atom.
func (l *AtomList) Append(hash uint64, value float64) {
	l.At = append(l.At, 0, 0)
	l.X = append(l.X, float64(hash>>11), value)
}

// End ends the list of so many atoms of the context, then of the action, of which the first is its id.
func (l *AtomList) End(context, action int) {
	l.At = append(l.At, 0, 0)
	l.X = append(l.X, float64(action), float64(context))
}

// FieldOf returns the field and the role of an atom by the upper 53 bits of its hash.
func FieldOf(hash uint64) (field uint32, role Role) { return uint32(hash >> 33), Role(hash >> 30 & 7) }
