package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// TestBench plays the smallest configuration once and reads what comes out.
func TestBench(t *testing.T) {
	var out, notes bytes.Buffer
	if code := execute(context.Background(), []string{"bench", "a", "--rounds", "1", "--json"}, &out, &notes); code != 0 {
		t.Fatalf("exit code %d: %s", code, notes.String())
	}
	var results []map[string]any
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	r := results[0]
	if r["config"] != "A" || r["engine"] != "auto" || !(r["ns_per_round"].(float64) > 10) || !(r["ratio_reference"].(float64) > 0) || r["ratio_numpy"] != nil {
		t.Errorf("result: %v", r)
	}
	for _, key := range []string{"spread", "ratio_limit"} {
		if _, ok := r[key]; !ok {
			t.Errorf("result has no %s: %v", key, r)
		}
	}
}

// TestBenchRefuses: names and numbers that make no sense are misuse.
func TestBenchRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		`no configuration is called "Z"`: {"bench", "Z"},
		"rounds is 0":                    {"bench", "A", "--rounds", "0"},
		`against is "julia"`:             {"bench", "A", "--against", "julia"},
		`engine is "fast"`:               {"bench", "A", "--engine", "fast"},
	} {
		var out, notes bytes.Buffer
		if code := execute(context.Background(), args, &out, &notes); code == 0 || !strings.Contains(notes.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, notes.String())
		}
	}
}

// TestMedianAndSpread on numbers small enough to see.
func TestMedianAndSpread(t *testing.T) {
	if m := median([]float64{5, 1, 3}); m != 3 {
		t.Errorf("median %v", m)
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
	if s := spread([]float64{9, 10, 11, 8, 12}); s != 0.1 {
		t.Errorf("spread %v", s)
	}
	if s := spread([]float64{7}); s != 0 {
		t.Errorf("spread of one number %v", s)
	}
}
