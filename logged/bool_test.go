package logged

import (
	"slices"
	"testing"
)

// TestBooleanRewards: true and false of JSON lines are rewards 1 and 0, in slots too, as in CSV and npz; nothing else that is
// no number is a reward.
func TestBooleanRewards(t *testing.T) {
	file := textFile(t, "t.jsonl", `{"action":0,"reward":true,"propensity":0.5}`+"\n"+`{"action":1,"reward":false,"propensity":0.5}`+"\n")
	got, _, err := readAll(file, Options{Actions: 2})
	if err != nil {
		t.Fatal(err)
	}
	var rewards []float64
	for _, e := range got {
		rewards = append(rewards, e.Reward)
	}
	if !slices.Equal(rewards, []float64{1, 0}) {
		t.Errorf("rewards %v, expected 1 and 0", rewards)
	}
	for _, v := range []string{`"true"`, `[true]`, `{}`} {
		refused(t, textFile(t, "t.jsonl", `{"action":0,"reward":`+v+`,"propensity":0.5}`+"\n"), Options{Actions: 2}, "expected a number")
	}
	refused(t, textFile(t, "t.jsonl", `{"action":0,"reward":1,"propensity":true}`+"\n"), Options{Actions: 2}, "propensity: true")
}
