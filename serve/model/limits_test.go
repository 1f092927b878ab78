package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"troupe/eventlog"
)

// TestLimits: floors and caps are refused by path where they are wrong, with both names where two do not fit, and read back to
// themselves.
func TestLimits(t *testing.T) {
	for text, words := range map[string]string{
		`"floors":{"a":-0.1}`:                 "config.floors.a",
		`"floors":{"a":1.1}`:                  "in [0, 1]",
		`"floors":{"a":0.0000001}`:            "at most 6 decimals",
		`"floors":{"a":"x"}`:                  `floors.a: is the string "x", expected a probability`,
		`"floors":{"":0.1}`:                   "config.floors: expected the id of an action, found an empty one",
		`"floors":[0.1]`:                      "expected a table of probabilities",
		`"caps":{"a":0}`:                      "config.caps.a: expected a probability in (0, 1]",
		`"caps":{"a":-1}`:                     "config.caps.a",
		`"caps":{"a":1.5}`:                    "in (0, 1]",
		`"floors":{"a":0.3},"caps":{"a":0.2}`: "config.floors.a: is above caps.a, which is 0.2",
		`"floors":{"a":0.3,"b":0.6,"c":0.2}`:  `the floors of "b" and "a" and of 1 more sum to 1.1, expected at most 1`,
		`"floors":{"a":0.6},"entered":[{"id":"b","floor":0.5,"until":9}]`:            `the floors of "a" and "b" sum to 1.1`,
		`"caps":{"b":0.1},"entered":[{"id":"b","floor":0.5,"until":9}]`:              "config.entered[0].floor: is above caps.b, which is 0.1",
		`"floors":{"a":0.6},"entered":[{"id":"a","floor":0.5,"until":9}]`:            "",
		`"floors":{"a":0.1},"dim":2`:                                                 "config.floors: cannot be kept",
		`"floor":{"a":0.1}`:                                                          "floor",
		`"cap":{"a":0.1}`:                                                            `did you mean "caps"`,
		`"floors":{"a":0.7,"b":0.3,"<&>":0},"caps":{"c":0.000001,"a":0.7,"x.y z":1}`: "",
		`"floors":{},"caps":{}`:                                                      "",
	} {
		admits(t, `{"id":"m",`+text+`}`, words)
	}
	c := Default("m")
	c.Caps = Shares{}
	for i := range MaxLimited + 1 {
		c.Caps[fmt.Sprint(i)] = .5
	}
	if _, err := c.Admit(DefaultLimits); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("1001 caps: %v", err)
	}
}

// TestLimitsByAtom: an action that has entered again keeps its floor and its cap, and floors that have ended do not count.
func TestLimitsByAtom(t *testing.T) {
	c := Default("m")
	c.Floors, c.Caps = Shares{"a": .5, "b": .1}, Shares{"b": .2}
	for round := range 3 {
		cfg, err := c.Admit(DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		atom := cfg.Atoms.EnteredAtom("b", uint32(round))
		if got := cfg.Limits()[atom]; got != (ActionLimit{100_000, 200_000}) {
			t.Errorf("after %d entries: %+v", round, got)
		}
		if got := cfg.Limits()[cfg.Atoms.IDAtom("a")]; got != (ActionLimit{500_000, eventlog.FloorUnit}) || len(cfg.Limits()) != 2 {
			t.Errorf("a has %+v of %v", got, cfg.Limits())
		}
		if c, err = c.Enter("b", 0, 0, Prior{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"x", "y", "z"} {
		var err error
		if c, err = c.Enter(id, .4, 10, Prior{}, uint64(10*i)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	if _, err := c.Enter("b", .3, 10, Prior{}, 40); err == nil || !strings.Contains(err.Error(), "caps.b") {
		t.Errorf("a floor above the cap: %v", err)
	}
	if _, err := c.Enter("w", .2, 10, Prior{}, 29); err == nil || !strings.Contains(err.Error(), `"a" and "z"`) {
		t.Errorf("floors above 1: %v", err)
	}
}

// TestPendingRefused: an option that counts open actions is for experiments.
func TestPendingRefused(t *testing.T) {
	var c Config
	err := json.Unmarshal([]byte(`{"id":"m","dim":2,"policy":{"kind":"linucb","pending":"hallucinate"}}`), &c)
	if err == nil {
		_, err = c.Admit(DefaultLimits)
	}
	if err == nil || !strings.Contains(err.Error(), "config.policy.pending: is for experiments") {
		t.Errorf("pending in a model of the server: %v", err)
	}
}
