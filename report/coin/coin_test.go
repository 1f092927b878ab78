package coin

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"troupe/ope"
)

func some(v float64) *float64 { return &v }

// result is four models, of which mid lies under the coin between small and large.
func result() *ope.CoinResult {
	return &ope.CoinResult{Events: 500, Sentence: "choosing earns 0.012 more", Policy: ope.CoinPoint{Cost: 3e-4, Reward: some(.9), Lower: .85, Upper: .94},
		Actions: []ope.CoinPoint{{Action: "large", Cost: 1.5e-2, Reward: some(.94), Lower: .8, Upper: .98},
			{Action: "<small>", Cost: 3e-5, Reward: some(.79), Lower: .7, Upper: .83}, {Action: "mid", Cost: 9e-4, Reward: some(.78), Lower: .7, Upper: .97},
			{Action: "rare", Cost: 1e-3, Lower: .3, Upper: .99}, {Action: "new", Lacking: 3}}}
}

// TestPicture: the picture is well-formed, has the points where their costs and rewards are in order, the frontier without the point
// below it, names as text, nothing that lies outside, and nothing for an action without a point.
func TestPicture(t *testing.T) {
	for _, linear := range []bool{false, true} {
		r := result()
		if linear {
			r.Actions[1].Cost = 0
		}
		text := string(Picture(r))
		d := xml.NewDecoder(strings.NewReader(text))
		at := map[string][2]float64{}
		last := [2]float64{}
		for {
			x, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if s, ok := x.(xml.StartElement); ok && s.Name.Local == "circle" {
				for _, a := range s.Attr {
					v, _ := strconv.ParseFloat(a.Value, 64)
					switch a.Name.Local {
					case "cx":
						last[0] = v
					case "cy":
						last[1] = v
					}
				}
			}
			if s, ok := x.(xml.CharData); ok && strings.Contains(string(s), ": cost") {
				name, _, _ := strings.Cut(string(s), ":")
				at[name] = last
			}
		}
		small, mid, large, own := at["<small>"], at["mid"], at["large"], at["the decisions"]
		delete(at, "rare") // an interval
		if len(at) != 4 || !(small[0] < own[0] && own[0] < mid[0] && mid[0] < large[0]) ||
			!(large[1] < own[1] && own[1] < small[1] && small[1] < mid[1]) {
			t.Errorf("points %v", at)
		}
		for _, v := range at {
			if v[0] < left || v[0] > width-right || v[1] < top || v[1] > height-bottom {
				t.Errorf("a point outside: %v", at)
			}
		}
		if f := regexp.MustCompile(`dasharray="6 4" d="([^"]+)"`).FindStringSubmatch(text); f == nil ||
			strings.Count(f[1], "L") != 16 {
			t.Errorf("the frontier is not from small to large: %v", f)
		}
		if !strings.Contains(text, "<title>rare: cost 0.001, reward between 0.300 and 0.990</title></path>") {
			t.Errorf("no interval without a point in\n%s", text)
		}
		if n := strings.Count(text, "<circle"); n != 4 {
			t.Errorf("%d points, expected 4: rare has an interval only", n)
		}
		for _, no := range []string{"<small>", "NaN", "Inf", "http", ">new<"} {
			if strings.Contains(text, no) {
				t.Errorf("the picture has %s:\n%s", no, text)
			}
		}
	}
	none := result()
	none.Actions = none.Actions[4:]
	if Picture(none) != "" || Picture(nil) != "" || Picture(&ope.CoinResult{}) != "" {
		t.Error("a picture of nothing")
	}
}

// TestFrontier: of four points the hull has those that no coin beats.
func TestFrontier(t *testing.T) {
	got := ""
	for _, p := range frontier([]ope.CoinPoint{{Action: "a", Cost: 1, Reward: some(.1)}, {Action: "b", Cost: 1, Reward: some(.2)},
		{Action: "c", Cost: 2, Reward: some(.3)}, {Action: "d", Cost: 3, Reward: some(.6)}, {Action: "e", Cost: 4, Reward: some(.5)}}) {
		got += p.Action
	}
	if got != "bd" {
		t.Errorf("the frontier is %s, want bd", got)
	}
}
