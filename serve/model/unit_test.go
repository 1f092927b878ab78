package model

import "testing"

// TestUnit: a unit that is no path, that no decision could keep or that is a feature is refused by name.
func TestUnit(t *testing.T) {
	for text, words := range map[string]string{
		`"unit":"context.user.id"`: "",
		`"unit":""`:                "",
		`"unit":"user.id"`:         "config.unit",
		`"unit":"context"`:         "such as context.user.id",
		`"unit":"context."`:        "has an empty name",
		`"unit":"context..id"`:     "has an empty name",
		`"unit":"action.id"`:       "below context",
		`"unit":7`:                 "unit",
		`"units":"context.id"`:     `did you mean "unit"`,
		`"unit":"context.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q"`:                                                        "at most 16 names",
		`"unit":"context.id","dim":2`:                                                                               "",
		`"unit":"context.id","dim":2,"policy":{"kind":"atoms","key":"round"}`:                                       `config.unit: needs members that last, and policy.key is "round"`,
		`"unit":"context.id","dim":2,"policy":{"kind":"atoms","key":"epoch"}`:                                       "",
		`"unit":"context.id","features":{"features":[{"feature":"context.id","kind":"category","levels":["a"]}]}`:   "config.unit: is a feature of the schema",
		`"unit":"context.id","features":{"features":[{"feature":"context.hour","kind":"category","levels":["a"]}]}`: "",
	} {
		admits(t, `{"id":"m",`+text+`}`, words)
	}
}
