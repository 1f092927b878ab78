package sim

import (
	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// World is a decoded [[environment]] table.
type World interface {
	spec.Documented
	// Build returns the environment of the replication with the given key.
	Build(key rng.Key) (bandit.Environment, error)
}
