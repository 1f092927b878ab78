package load

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// What was not answered has no regret: 0 would be the best there is.
func TestLoadUnanswered(t *testing.T) {
	r := Result{Seconds: 1}
	summarise(&r, []worker{{uniform: 0.25, regret: []regretAt{{0, 0.5}}}}, flags{}, 100)
	var out strings.Builder
	printResult(&out, r)
	if want := "0.5000 in the first tenth, – in the last; uniform play 0.2500"; !strings.Contains(out.String(), want) {
		t.Errorf("the output lacks %q:\n%s", want, out.String())
	}
	if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"regret_last_tenth":null`) {
		t.Errorf("JSON: %s, %v", b, err)
	}
}

func TestQuantiles(t *testing.T) {
	var x []float64
	for i := range 1000 {
		x = append(x, float64((i*7)%1000+1)/1e3)
	}
	l := quantiles(x)
	for _, c := range []struct{ got, want float64 }{{l.P50, 500}, {l.P90, 900}, {l.P99, 990}, {l.P999, 999}, {l.Max, 1000}} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("quantiles = %+v", l)
		}
	}
	if l := quantiles(nil); l.Calls != 0 || l.Max != 0 {
		t.Errorf("quantiles of nothing = %+v", l)
	}
	if l := quantiles([]float64{0.002}); l.P50 != 2 || l.P999 != 2 {
		t.Errorf("quantiles of one = %+v", l)
	}
}

// The simulated users: rewards stay in [−1, 1] and a request is the same whenever it is made.
func TestUsers(t *testing.T) {
	u := newUsers(flags{d: 6, k: 9, noise: 0.5, seed: 3})
	for i := range uint64(500) {
		x, means := u.offer(i)
		again, _ := u.offer(i)
		for a, m := range means {
			var q float64
			for j := range 6 {
				q += x[a*6+j] * x[a*6+j]
			}
			if y := m + u.noise(i); math.Abs(y) > 1 || q > 1 || q < 0.999 || x[a*6] != again[a*6] {
				t.Fatalf("request %d, action %d: reward %v, norm² %v", i, a, y, q)
			}
		}
	}
}
