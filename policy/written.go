package policy

import "troupe/spec"

// explicit lists the options, by kind, that Written writes out with their default, because another default would give
// the same table another meaning. A change of a default does not touch tables that were written.
var explicit = map[string]struct {
	key     string
	written any
}{
	"atoms": {"key", "decision"},
}

// Written returns a policy table with the options that a log must say: their defaults where they are absent. Tables of
// bases inside are included. raw stays as it is.
func Written(raw spec.Raw) spec.Raw {
	out := make(spec.Raw, len(raw)+1)
	for k, v := range raw {
		if inner, ok := v.(spec.Raw); ok && k == "base" {
			v = Written(inner)
		}
		out[k] = v
	}
	kind, _ := raw["kind"].(string)
	if o, ok := explicit[kind]; ok && out[o.key] == nil {
		out[o.key] = o.written
	}
	return out
}
