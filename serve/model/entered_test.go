package model

import (
	"encoding/json"
	"strings"
	"testing"
)

// admits checks that a configuration is refused with these words, or that it is taken, where there are none, and reads
// back to the same bytes.
func admits(t *testing.T, text, words string) {
	t.Helper()
	var c Config
	err := json.Unmarshal([]byte(text), &c)
	var cfg *Compiled
	if err == nil {
		cfg, err = c.Admit(DefaultLimits)
	}
	if words != "" {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", text, err, words)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	var again Config
	if err := json.Unmarshal(cfg.JSON, &again); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(again); err != nil || string(b) != string(cfg.JSON) {
		t.Errorf("%s reads back to %s, %v; was %s", text, b, err, cfg.JSON)
	}
}

// TestEntered: the list is refused by path where it is wrong, floors that sum to more than 1 with both names, and it reads back to itself.
func TestEntered(t *testing.T) {
	for text, words := range map[string]string{
		`[{"id":"a","floor":-0.1}]`:                                        "config.entered[0].floor",
		`[{"id":"a","floor":0.0000001}]`:                                   "at most 6 decimals",
		`[{"id":"a","times":-1}]`:                                          "config.entered[0].times",
		`[{"id":"a"},{"id":"a"}]`:                                          "config.entered[1].id",
		`[{"id":"a","left":true,"floor":0.1}]`:                             "has left",
		`[{"id":"a","prior":{"mean":2,"events":5}}]`:                       "expected a reward in [0, 1]",
		`[{"id":"a","prior":{"mean":0.5,"events":1001}}]`:                  "0 to 1000",
		`[{"id":"a","prior":{"meen":0.5}}]`:                                `did you mean "mean"`,
		`[{"id":"a","floors":0.5}]`:                                        `did you mean "floor"`,
		`[{"id":"a","floor":0.6,"until":9},{"id":"b","floor":0.5}]`:        `"b" and "a" and others`,
		`[{"id":"a","floor":1,"until":9},{"id":"b","left":true}]`:          "",
		`[{"id":"a","times":2,"prior":{"mean":0.5,"events":3}},{"id":""}]`: "",
	} {
		admits(t, `{"id":"m","reward":{"min":0,"max":1},"entered":`+text+`}`, words)
	}
	c := Default("m")
	for range MaxEntered {
		var err error
		if c, err = c.Leave(strings.Repeat("x", len(c.Entered)%200+1) + string(rune('a'+len(c.Entered)/200))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Leave("one more"); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("1001 actions: %v", err)
	}
	if _, err := Default("m").Enter("a", .1, 0, Prior{}, 0); err == nil || !strings.Contains(err.Error(), "floor and decisions together") {
		t.Errorf("a floor without an end: %v", err)
	}
}
