package api

import (
	"strings"
	"testing"
)

// TestFewEffective: a comparison with less than ten effective decisions has a band and no line, and no number. By hand:
// 597 weights 1/(3·.98) = .340 and three of 1/(3·(1/300)) = 100 have the mean .84, and (Σw)²/Σw² = 503²/30,069 = 8.4.
// With thirty plays at 1/30 in place of the three, 503²/3,069 = 82, and there is a line.
func TestFewEffective(t *testing.T) {
	r := terms{min: 0, max: 1, rule: "first"}
	for _, x := range []struct {
		rare, den uint64
		line      bool
	}{{3, 300, false}, {30, 30, true}} {
		h := &modelHistory{}
		for i := range uint64(600) {
			d := &past{rule: "first", num: 98, den: 100, offered: 3, y: 1, rewarded: true}
			if i%(600/x.rare) == 7 {
				d.num, d.den, d.y, d.index = 1, x.den, 0, 1
			}
			h.decisions = append(h.decisions, d)
		}
		es, outside := estimate(h, &r)
		last := &es[len(es)-1]
		c := drawCurve(es, outside == 0, "", "")
		if !last.supports() || last.shown() != x.line || (c.Other != "") != x.line || c.OtherBand == "" || last.size < 8 || last.size > 90 {
			t.Errorf("%d plays at 1/%d: size %.3g, line %q, band %d characters", x.rare, x.den, last.size, c.Other, len(c.OtherBand))
		}
		if between := strings.Contains(c.Label, "Uniform play: between"); between == x.line {
			t.Errorf("label %q", c.Label)
		}
		v := &modelView{}
		v.versusUniform(h, &r, es, outside, func() *againstUniform { return nil })
		text := strings.Join(v.CurveText, " ")
		if strings.Contains(text, "Uniform play would have earned") != x.line || strings.Contains(text, "and 10 are needed") == x.line {
			t.Errorf("%q", text)
		}
	}
}
