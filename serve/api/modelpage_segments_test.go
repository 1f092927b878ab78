package api

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"troupe/logged"
	"troupe/ope"
)

// TestSegmentsPage: the page says for whom the model is better than the first candidate of each request, with the numbers that
// an evaluation of the decisions of each segment by itself gives at the level of all rows, and a forest plot of them. What cannot be
// compared is refused and named.
func TestSegmentsPage(t *testing.T) {
	e, _ := newReal(t, Options{})
	e.do("POST", "/v1/models", `{"id": "shop", "floor": 0.5, "reward": {"min": 0, "max": 1}}`).want(t, "create", 201)
	page := func(by string) answer { return e.do("GET", "/models/shop?by="+by, "") }
	page("").want(t, "without a field", 200, "in segments by a field of the context that you name")
	refused := func(by, word string) {
		t.Helper()
		if a := page(by); a.status != 422 || !strings.Contains(a.body, word) || strings.Contains(a.body, "<script>") {
			t.Errorf("%s: status %d, expected 422 and %q in\n%s", by, a.status, word, a.body)
		}
	}
	refused("city", "choices have no final reward yet")
	cities := []string{"Oslo", "Bergen", "Troms"}
	means := [][2]float64{{0.1, 0.9}, {0.9, 0.1}, {0.5, 0.5}} // of the first and the second candidate
	events := map[string][]logged.Event{}
	for n := range 720 {
		city := []int{0, 1, 0, 2, 0, 1}[n%6]
		a := e.do("POST", "/v1/models/shop:decide", fmt.Sprintf(`{"context": {"city": %q, "n": %d}, "actions": [{"id": "a"}, {"id": "b"}]}`, cities[city], n%7))
		k, y := field[struct{ Index int }](t, a, "action").Index, 0.0
		p := field[struct{ Num, Den float64 }](t, a, "propensity")
		if float64(n/6%10) < 10*means[city][k] {
			y = 1
		}
		e.do("POST", "/v1/events/"+field[string](t, a, "event_id")+":reward", fmt.Sprintf(`{"value": %g}`, y)).want(t, "reward", 200)
		x := logged.Event{K: 2, Chosen: k, Reward: y, Propensity: p.Num / p.Den, Position: logged.NoPosition}
		events[cities[city]], events["all"] = append(events[cities[city]], x), append(events["all"], x)
	}
	got := page("city%3DOslo|Bergen|Troms")
	got.want(t, "by city", 200, "in Oslo better by", "in Bergen worse by", "elsewhere too close to call", `<div class="forest"><div class="plot rows"`,
		"if the field was chosen without looking at these rewards", "city=Oslo|Bergen|Troms")
	rows := regexp.MustCompile(`<tr><th scope="row">(\w+)</th><td>([^<]+)</td><td>(\S+) … (\S+)</td>`).FindAllStringSubmatch(html.UnescapeString(got.body), -1)
	if len(rows) != 4 {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	for _, row := range rows {
		own := pastSource(events[row[1]])
		n := len(own)
		r, err := ope.Evaluate(t.Context(), &own, ope.Options{Targets: []ope.Target{firstCandidate{}}, Estimators: []string{"ips"}, Level: 1 - 0.05/4})
		if err != nil {
			t.Fatal(err)
		}
		want := r.Targets[0].Uplift.Sequence
		lo, _ := strconv.ParseFloat(row[3], 64)
		hi, _ := strconv.ParseFloat(row[4], 64)
		if row[2] != grouped(uint64(n)) || math.Abs(lo+want[1]) > 1e-3 || math.Abs(hi+want[0]) > 1e-3 {
			t.Errorf("%q: of its %d events alone %v", row[0], n, *want)
		}
	}
	page("city").want(t, "hashes", 200, "city #", "names those that you know")
	for by, word := range map[string]string{
		"ctiy":                 "Ctiy: no event has context.ctiy",
		"city%3DOslo|Rome":     "no event is in the segment &#34;Rome&#34;",
		"n%3D0:3:":             "hashed features, which keep no numbers",
		"city%3DOslo|Oslo":     "not there before",
		"n%3D3:2":              "expected more than the one before",
		"%3Cscript%3E%3Dx%7Cy": "no event has context.&lt;script&gt;",
	} {
		refused(by, word)
	}
}
