package policy

import "troupe/spec"

// changed lists the options whose default is not what it was when logs of version 1 were written: by
// kind, the default then and the default now. A log of version 1 holds a policy table as its author
// wrote it, so an absent key means the default then.
//
// A change of a default adds a row here; a row is never changed but in its second column.
var changed = map[string][]struct {
	key       string
	then, now any
}{
	"atoms": {{"key", "epoch", "decision"}},
}

// Version1 returns the table of a policy that a log of version 1 holds, with the keys written out
// whose absence means something else today. Tables of bases inside are included. raw stays as it is.
func Version1(raw spec.Raw) spec.Raw {
	return written(raw, func(then, _ any) any { return then })
}

// Written returns a policy table with today's default for the absent keys whose default has changed
// since version 1, so that Version1 changes nothing in it.
func Written(raw spec.Raw) spec.Raw {
	return written(raw, func(_, now any) any { return now })
}

func written(raw spec.Raw, pick func(then, now any) any) spec.Raw {
	out := make(spec.Raw, len(raw)+1)
	for k, v := range raw {
		if inner, ok := v.(spec.Raw); ok && k == "base" {
			v = written(inner, pick)
		}
		out[k] = v
	}
	kind, _ := raw["kind"].(string)
	for _, c := range changed[kind] {
		if _, ok := out[c.key]; !ok {
			out[c.key] = pick(c.then, c.now)
		}
	}
	return out
}
