package logged

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// even plays every action alike.
type even struct{}

func (even) Name() string { return "uniform" }

func (even) Law(dst []float64, _ *Event, _ []float64) error {
	for i := range dst {
		dst[i] = 1 / float64(len(dst))
	}
	return nil
}

// uneven plays the first of three actions by half, in events with position 1 by a tenth.
type uneven struct{}

func (uneven) Name() string { return "uneven" }

func (uneven) Law(dst []float64, e *Event, _ []float64) error {
	if len(dst) != 3 {
		return errors.New("three actions only")
	}
	copy(dst, []float64{.5, .25, .25})
	if e.Position == 1 {
		copy(dst, []float64{.1, .3, .6})
	}
	return nil
}

// TestLogger: events get the law of the logger, by what they say; propensities that contradict it are counted over the whole
// log, which is refused at its end with the first three, in every format that has lines or rows; a law of another number of
// actions is refused at its event.
func TestLogger(t *testing.T) {
	good := `{"action":0,"reward":1,"propensity":0.5}
{"action":2,"reward":0,"propensity":0.6,"position":1}
{"action":1,"reward":1,"propensity":0.25}
{"action":1,"reward":1}
`
	o := Options{Logger: uneven{}, Actions: 3}
	all := mustRead(t, textFile(t, "good.jsonl", good), o)
	for i, law := range [][]float64{{.5, .25, .25}, {.1, .3, .6}, {.5, .25, .25}, {.5, .25, .25}} {
		if !slices.Equal(all[i].Law, law) || all[i].Propensity != law[all[i].Chosen] {
			t.Errorf("event %d: law %v, propensity %v", i+1, all[i].Law, all[i].Propensity)
		}
	}
	bad := good + `{"action":0,"reward":1,"propensity":0.25}
{"action":0,"reward":1,"propensity":0.5}
{"action":0,"reward":1,"propensity":0.5,"position":1}
{"action":2,"reward":1,"propensity":0.2}
{"action":2,"reward":1,"propensity":0.3}
`
	n := 0
	for _, skip := range []string{"", "all"} {
		o.SkipBad = skip
		_, _, err := readAll(textFile(t, "bad.jsonl", bad), o)
		for _, want := range []string{"bad.jsonl:5", "propensity: 0.25, expected 0.5, as --logger uneven says (4 of 9",
			"line 7: 0.5, expected 0.1; line 8: 0.2, expected 0.25)"} {
			if n++; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("--skip-bad=%s: %v, expected %q in it", skip, err, want)
			}
		}
	}
	o.SkipBad = ""
	csv := "action,reward,propensity\n"
	for range 5 {
		csv += "0,1,.5\n1,0,.4\n"
	}
	if _, _, err := readAll(textFile(t, "bad.csv", csv), o); err == nil || !strings.Contains(err.Error(), "(5 of 10 propensities contradict it; line 5: 0.4, expected 0.25; line 7") {
		t.Error(err)
	}
	o.Actions = 4
	if _, _, err := readAll(textFile(t, "four.csv", "action,reward,propensity\n0,1,.5\n"), o); err == nil || !strings.Contains(err.Error(), "four.csv:2: law: three actions only, expected an event that --logger uneven could decide") {
		t.Error(err)
	}
	// A law that the log has is compared, too.
	law := `{"action":0,"reward":1,"propensity":0.5,"law":[0.5,0.3,0.2]}` + "\n"
	if _, _, err := readAll(textFile(t, "law.jsonl", law), Options{Logger: uneven{}}); err == nil || !strings.Contains(err.Error(), "law[1] 0.3, expected 0.25") {
		t.Error(err)
	}
	if len(all) != 4 || n != 6 {
		t.Error(fmt.Sprint(len(all), n))
	}
}
