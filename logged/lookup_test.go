package logged

import (
	"strings"
	"testing"
)

// TestFeature: values of a context by path, with escapes, dots in names, and kinds that have no text.
func TestFeature(t *testing.T) {
	e := &Event{Named: []byte(`{"city": "Os\u006co", "n": 1.50, "yes": true, "none": null, "list": [1, {"x": 2}], "a.b": "dotted", "a": {"b": "inside", "c": {"d": -2e3}}, "e\"q": "", "context": {"z": "deep"}}`)}
	for path, want := range map[string]string{
		"city": "Oslo", "context.city": "Oslo", "n": "1.50", "yes": "true", "a.b": "dotted", "a.c.d": "-2e3", `e"q`: "", "context.context.z": "deep",
		"none": "?", "list": "?", "list.0": "?", "a": "?", "a.c": "?", "b": "?", "": "?", "a.c.d.e": "?", "city.x": "?",
	} {
		got, ok := e.Feature(path)
		if !ok {
			got = "?"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	if got := strings.Join(e.Features(), " "); got != `a.b a.b a.c.d city context.z e"q n yes` {
		t.Error(got)
	}
	e = &Event{Context: []float64{0.5, 2}}
	for path, want := range map[string]string{"0": "0.5", "context.1": "2", "2": "?", "-1": "?", "x": "?"} {
		got, ok := e.Feature(path)
		if !ok {
			got = "?"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	if got := strings.Join(e.Features(), " "); got != "0 1" {
		t.Error(got)
	}
	if _, ok := (&Event{}).Feature("x"); ok {
		t.Error("an event without a context has a value")
	}
}

// TestBinary: garbage is not taken for text.
func TestBinary(t *testing.T) {
	for text, want := range map[string]string{"\x00\x01|a:1 \x02": "binary data", strings.Repeat("\n", 1<<17): "64 KiB of blanks"} {
		if _, err := NewReader("x.jsonl", strings.NewReader(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}
