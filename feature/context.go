package feature

import "troupe/bandit"

// ContextFeature returns the number of the field of a feature of the context, by its path: the upper 20 bits of the
// hashes of its atoms (AtomEncoder). A dot stands between the names of nested
// objects.
func ContextFeature(path string) (field uint32) { return FieldNumber(contextName(path)) }

// ContextLevel returns the hash of the atom that a string, true or false gives at a feature of the context, where atoms
// have fields.
func ContextLevel(path, value string) (hash uint64) {
	name := contextName(path)
	return bandit.TagAtom(mix(name), bandit.LevelRole, hash64(name^seedLevel, []byte(value)))
}

func contextName(path string) uint64 { return nameBelow(seedContext, []byte(path)) }
