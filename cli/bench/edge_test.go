package bench

import (
	"encoding/json"
	"math"
	"testing"

	"troupe/rng"
)

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
