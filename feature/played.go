package feature

import "troupe/bandit"

const seedPlayed = 0x706c61796564

// PlayedAtom returns the hash of the atom of a number that is played (bandit.PlayedRole), by its name. Its value says where
// the number lies in its range, from 0 to 1; of a cyclic number 1 is 0 again.
func PlayedAtom(name string, cyclic bool) uint64 {
	var flags uint64
	if cyclic {
		flags = bandit.CyclicNumber
	}
	return bandit.TagAtom(mix(hash64(seedPlayed, []byte(name))), bandit.PlayedRole, flags)
}

// PlayedField returns the number of the field of a number that is played, by its name, as FieldNumber does for a feature.
func PlayedField(name string) uint32 {
	f, _ := bandit.FieldOf(PlayedAtom(name, false) >> 11)
	return f
}

// AddAlone appends the action of a request that has no actions and plays numbers only: its id is no value that is learned.
func (b *AtomBatch) AddAlone() {
	if !b.ready {
		panic("feature: AddAlone without a successful Begin")
	}
	b.atoms = append(b.atoms, Atom{bandit.TagAtom(0, bandit.PlayedRole, 0), 1})
	b.finish(len(b.atoms) - 1)
}
