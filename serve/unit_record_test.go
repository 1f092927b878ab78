package serve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
)

// unitRounds is how many decisions a world of TestUnitRegret has.
const unitRounds = 4000

// unitShare plays a world of 4 segments × 6 actions, whose means are uniform on [0, 1], with a default model, and returns
// the share of what is possible above uniform play, of all rounds and of the last quarter. Persons visit at random, and
// each is of one segment. With a unit the persons are its values, without one the model is told of none.
func unitShare(t *testing.T, seed uint64, persons int, unit bool) (all, late float64) {
	t.Helper()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.Wait = 10 * time.Minute })
	c := DefaultConfig("m")
	if unit {
		united(&c)
	}
	must(s.CreateModel(t.Context(), c, ""))
	r := rand.New(rand.NewPCG(seed, 37))
	var means [4][6]float64
	for i := range means {
		for k := range means[i] {
			means[i][k] = r.Float64()
		}
	}
	offered := named("a", "b", "c", "d", "e", "f")
	var got, most [2]float64
	for n := range unitRounds {
		person, luck := r.IntN(persons), r.Float64()
		segment := person % 4
		context := fmt.Appendf(nil, `{"segment": "s%d"}`, segment)
		if unit {
			context = fmt.Appendf(nil, `{"segment": "s%d", "user": {"id": %d}}`, segment, person)
		}
		d := must(s.Decide(t.Context(), "m", DecideRequest{Context: context, Actions: offered}))
		mean, uniform := means[segment], 0.
		for _, m := range mean {
			uniform += m / 6
		}
		for k := range got {
			if k == 0 || n >= unitRounds*3/4 {
				got[k] += mean[d.Action.Index] - uniform
				most[k] += slices.Max(mean[:]) - uniform
			}
		}
		y := 0.
		if luck < mean[d.Action.Index] {
			y = 1
		}
		must(s.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: y}))
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return got[0] / most[0], got[1] / most[1]
}

// TestUnitRegret measures what a unit costs (docs/record/change.md). WORLDS says how many worlds, 10 otherwise.
func TestUnitRegret(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD=1 measures: some minutes")
	}
	worlds := 10
	if v := os.Getenv("WORLDS"); v != "" {
		worlds, _ = strconv.Atoi(v)
	}
	for _, persons := range []int{200, 20} {
		var sum [2][2]float64 // without and with a unit; all rounds and the last quarter
		var difference, square float64
		for seed := range uint64(worlds) {
			var share [2][2]float64
			for k := range share {
				share[k][0], share[k][1] = unitShare(t, seed, persons, k == 1)
				sum[k][0] += share[k][0] / float64(worlds)
				sum[k][1] += share[k][1] / float64(worlds)
			}
			d := share[1][0] - share[0][0]
			difference += d
			square += float64(d * d)
		}
		n := float64(worlds)
		mean := difference / n
		t.Logf("%d persons, %d worlds: share of the possible %.3f without a unit, %.3f with one (difference %.3f ± %.3f), in the last quarter %.3f and %.3f",
			persons, worlds, sum[0][0], sum[1][0], mean, math.Sqrt(max(0, square/n-mean*mean)/(n-1)), sum[0][1], sum[1][1])
	}
}
