package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"troupe/rng"
)

// TestBenchEdge measures once and shortly: every row is decided by both programs without an error, and has a cost on both sides. It says
// nothing about how fast they are.
func TestBenchEdge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts two processes")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "troupe") // as TestMain knows the program
	if err := os.Symlink(exe, self); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	var out bytes.Buffer
	if err := benchEdge(t.Context(), &out, io.Discard, benchFlags{rounds: 1, json: true}, self, 25*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var r edgeReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(edgeCases) || !(r.Hello > 0) {
		t.Fatalf("%d rows, want %d: %s", len(r.Rows), len(edgeCases), out.Bytes())
	}
	for _, x := range r.Rows {
		if !(x.Troupe > 0) || !(x.Limit > 0) || !(x.Ratio > 0) {
			t.Errorf("%+v", x)
		}
	}
}

// TestLimitReads: the limit program scores the numbers that were sent, packed as float32 or as a list.
func TestLimitReads(t *testing.T) {
	source := rng.NewKey(1).Stream(rng.Instance).Round(0)
	var q [2]limitRequest
	var x [2][]float64
	for i, form := range []int{packedForm, listsForm} {
		if err := json.Unmarshal(edgeCase{form: form}.body(source), &q[i]); err != nil {
			t.Fatal(err)
		}
		var err error
		if x[i], err = q[i].vectors(nil); err != nil || len(x[i]) != edgeArms*edgeDim {
			t.Fatalf("%d numbers: %v", len(x[i]), err)
		}
	}
	for i, v := range x[0] {
		if math.Abs(v-x[1][i]) > 1e-6 {
			t.Fatalf("number %d is %v packed and %v in a list", i, v, x[1][i])
		}
	}
	var l limitServer
	for j := range l.members {
		l.members[j][j] = 1 // the best candidate of member j has the largest coordinate j
	}
	a, record, err := l.decide(&q[0], nil)
	want := 0
	for j := range edgeMembers {
		best := 0
		for i := range edgeArms {
			if x[0][i*edgeDim+j] > x[0][best*edgeDim+j] {
				best = i
			}
		}
		if best == a.Action.Index {
			want++
		}
	}
	if err != nil || a.Propensity.Num != want || len(record) != edgeRecord {
		t.Errorf("%+v, a record of %d bytes, %v; want %d votes", a, len(record), err, want)
	}
	if _, err := l.answer("/v1/models/m:decide", []byte(`{"other": 1}`)); err == nil {
		t.Error("an unknown member is accepted")
	}
}
