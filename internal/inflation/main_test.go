package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"troupe/experiments"
	"troupe/report"
	"troupe/sim"
	"troupe/spec"
)

// TestWrite plays the ball and the three arms at a hundredth of their sizes and writes the figure and the tables of the page.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for name, horizon := range map[string]string{"inflation": "1000", "inflation-arms": "500"} {
		e, ok := experiments.Find("paper/" + name)
		if !ok {
			t.Fatalf("no experiment paper/%s", name)
		}
		for key, value := range map[string]string{"replications": "2", "horizon": horizon} {
			var err error
			if e.Text, err = spec.Override(e.File, e.Text, key, value); err != nil {
				t.Fatal(err)
			}
		}
		x, err := sim.Parse(e.File, e.Text, sim.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sim.Run(t.Context(), x, sim.Options{Dir: filepath.Join(dir, name)}); err != nil {
			t.Fatal(err)
		}
	}
	svg := filepath.Join(dir, "f.svg")
	stdout := os.Stdout
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = null
	err = write(dir, svg)
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	run, err := report.Load(filepath.Join(dir, "inflation"))
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := ratio(run, ball(4), "ts(scale=2)", "ts(scale=2)", 1000); !ok || math.Abs(r.Value-1) > 1e-12 {
		t.Errorf("a policy against itself: %+v, %v", r, ok)
	}
	if m := sizes(run, "frozen"); len(m) != 18 || m[17] != 256 {
		t.Errorf("members %v", m)
	}
}
