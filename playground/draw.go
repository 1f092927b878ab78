package playground

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/theory"
)

// views are the half widths of the plane: the smallest that holds most members is shown.
var views = []float64{1.25, 2.5, 5, 10, 20, 40}

// model is one model of an ensemble in the plane.
type model struct {
	j     int
	xi    float64
	theta [2]float64
	arm   int  // that it chooses, bandit.NoIndex on the disc
	drawn bool // the policy drew it in this round
}

// mind is what a policy knows when it chooses.
type mind struct {
	seat   *seat
	ridge  policy.Regression // nil without a regression
	models []model
	signs  int
	half   float64 // of the view
}

// mind looks into a policy.
func (g *Game) mind(look int) (m mind) {
	s := g.seats[look]
	m.seat, m.half = s, views[0]
	inner := bandit.Innermost(s.player)
	if r, ok := inner.(interface{ Ridge() policy.Regression }); ok {
		m.ridge = r.Ridge()
	}
	var v bandit.View
	who, ok := inner.(bandit.Viewer)
	if !ok || !who.View(&v, uint64(g.t)) || v.Mixed {
		m.zoom()
		return m
	}
	j, xi := -1, 0.0
	if d, ok := s.player.(bandit.MemberDrawer); ok {
		j, xi = d.DrawnMember(g.choose.Round(uint64(g.t)))
	}
	m.signs = len(v.Signs)
	var best bandit.Action
	for i := range v.M {
		for _, sign := range v.Signs {
			one := model{j: i, xi: sign}
			v.Model(one.theta[:], i, sign)
			if _, err := g.set.ArgMax(&best, one.theta[:]); err != nil {
				continue // a model that the oracle refuses is not drawn
			}
			one.arm = best.Index
			// With restarts the drawn member may be one of another copy, which is not the one that is shown.
			one.drawn = i == j && sign == xi && slices.Equal(best.X, s.x.X)
			m.models = append(m.models, one)
		}
	}
	m.zoom()
	return m
}

// zoom chooses the view.
func (m *mind) zoom() {
	var far []float64
	for _, one := range m.models {
		far = append(far, max(math.Abs(one.theta[0]), math.Abs(one.theta[1])))
	}
	if m.ridge != nil {
		theta := m.ridge.Theta()
		far = append(far, math.Abs(theta[0]), math.Abs(theta[1]))
	}
	if len(far) == 0 {
		return
	}
	slices.Sort(far)
	reach := far[(len(far)-1)*9/10]
	for _, m.half = range views {
		if reach < 0.95*m.half {
			return
		}
	}
}

// canvas is the plane on an SVG of a size.
type canvas struct {
	strings.Builder
	size, half float64
}

func (c *canvas) at(p []float64) (x, y float64) {
	k := c.size / 2 / c.half
	return c.size/2 + float64(k*p[0]), c.size/2 - float64(k*p[1])
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// px writes a coordinate.
func px(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }

// Half returns half the width of the plane that Plane shows of a policy.
func (g *Game) Half(look int) float64 { m := g.mind(look); return m.half }

// Plane draws the plane of θ as a policy sees it in this round: its estimate, the confidence ellipse, every member
// with its mirror image, the drawn one marked, and the arms as directions. It is an SVG of the size in pixels.
func (g *Game) Plane(look int, size int) string {
	m := g.mind(look)
	c := &canvas{size: float64(size), half: m.half}
	c.printf(`<svg class="plane" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%s">`, size, size, g.planeWords(m))
	mid, unit := c.size/2, c.size/2/m.half
	c.printf(`<path class="axis" d="M0 %s H%d M%[1]s 0 V%d"/>`, px(mid), size, size)
	c.printf(`<circle class="unit" cx="%s" cy="%[1]s" r="%s"/>`, px(mid), px(unit))
	g.drawArms(c, m)
	if m.ridge != nil {
		sigma, _ := g.world.(env.Noisy).Sigma()
		root := math.Sqrt(m.ridge.Lambda())
		beta := root + float64(sigma*(theory.Beta(m.ridge.Lambda(), 0.1, max(0, m.ridge.LogDetRatio()))-root))
		c.ellipse("beta", m.ridge, beta)
		k, _ := g.setup.Players[look].kind()
		if own, ok := bandit.Innermost(m.seat.player).(interface{ Scale() float64 }); ok && k.scale && !k.members {
			c.ellipse("own", m.ridge, own.Scale())
		}
	}
	g.drawModels(c, m)
	if m.ridge != nil {
		x, y := c.at(m.ridge.Theta())
		c.printf(`<path class="hat" d="M%s %s h14 m-7 -7 v14"/>`, px(x-7), px(y))
	}
	x, y := c.at(g.Theta())
	c.printf(`<path class="star" d="M%s %sl2.4 5.6 6.1.5-4.6 4 1.4 6-5.3-3.2-5.3 3.2 1.4-6-4.6-4 6.1-.5z"/>`, px(x), px(y-8))
	c.printf(`<text class="scale" x="%d" y="%d">%s</text>`, size-4, size-6, "±"+number(m.half))
	c.WriteString("</svg>")
	return c.String()
}

// drawArms draws the arms on the unit circle.
func (g *Game) drawArms(c *canvas, m mind) {
	set, ok := g.set.(bandit.Finite)
	if !ok {
		return
	}
	for i := range set.Len() {
		x := set.At(i)
		x1, y1 := c.at(x)
		lx, ly := c.at([]float64{x[0] + float64(0.14*c.half*x[0]), x[1] + float64(0.14*c.half*x[1])})
		class := fmt.Sprintf("arm c%d", i+1)
		if i == m.seat.x.Index {
			class += " played"
		}
		c.printf(`<g class="%s"><path d="M%s %sL%s %s"/><rect x="%s" y="%s" width="9" height="9"/><text x="%s" y="%s">%d</text></g>`,
			class, px(c.size/2), px(c.size/2), px(x1), px(y1), px(x1-4.5), px(y1-4.5), px(lx), px(ly+4.5), i+1)
	}
}

// drawModels draws the members and their mirror images.
func (g *Game) drawModels(c *canvas, m mind) {
	for i := 0; m.signs == 2 && i+1 < len(m.models); i += 2 {
		x1, y1 := c.at(m.models[i].theta[:])
		x2, y2 := c.at(m.models[i+1].theta[:])
		class := "pair"
		if m.models[i].drawn || m.models[i+1].drawn {
			class = "pair drawn"
		}
		c.printf(`<path class="%s" d="M%s %sL%s %s"/>`, class, px(x1), px(y1), px(x2), px(y2))
	}
	for _, one := range m.models {
		x, y := c.at(one.theta[:])
		class := "member"
		if one.xi < 0 {
			class = "member mirror"
		}
		if one.arm >= 0 {
			class += fmt.Sprintf(" c%d", one.arm+1)
		}
		if one.drawn {
			c.printf(`<circle class="lit" cx="%s" cy="%s" r="10"/>`, px(x), px(y))
		}
		c.printf(`<circle class="%s" cx="%s" cy="%s" r="4"/>`, class, px(x), px(y))
	}
}

// ellipse draws {θ : ‖θ − θ̂‖_V ≤ r}.
func (c *canvas) ellipse(class string, ridge policy.Regression, r float64) {
	v := ridge.V()
	a, b, d := v[0], v[1], v[3]
	mean, gap := (a+d)/2, math.Hypot((a-d)/2, b)
	angle := math.Atan2(2*b, a-d) / 2 // of the axis of the larger eigenvalue
	x, y := c.at(ridge.Theta())
	k := c.size / 2 / c.half
	c.printf(`<ellipse class="%s" cx="%s" cy="%s" rx="%s" ry="%s" transform="rotate(%s %[2]s %[3]s)"/>`, class, px(x), px(y),
		px(k*r/math.Sqrt(mean+gap)), px(k*r/math.Sqrt(max(mean-gap, 1e-12))), px(-angle*180/math.Pi))
}

// Regret draws the sums of the regrets so far, of every policy, as an SVG of the size in pixels.
func (g *Game) Regret(look, width, height int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="regret" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%s">`+"\n",
		width, height, g.regretWords())
	const left, right, top, bottom = 46.0, 12.0, 10.0, 24.0
	w, h := float64(width)-left-right, float64(height)-top-bottom
	rounds := max(20, g.t)
	most := 0.0
	for i := range g.seats {
		most = max(most, g.RegretOf(i))
	}
	step := tick(max(most, 0.4) / 4)
	high := step * math.Ceil(max(most, 0.4)/step)
	for v := 0.0; v <= high*1.0001; v += step {
		y := top + float64(h*(1-v/high))
		fmt.Fprintf(&b, `<path class="grid" d="M%s %s H%s"/><text class="ty" x="%s" y="%s">%s</text>`+"\n", px(left), px(y),
			px(left+w), px(left-6), px(y+4), number(math.Round(v*1000)/1000))
	}
	fmt.Fprintf(&b, `<text class="tx" x="%s" y="%d">round %d</text>`+"\n", px(left+w), height-6, rounds)
	for i, s := range g.seats {
		class := fmt.Sprintf("line p%d", i+1)
		if i == look {
			class += " look"
		}
		fmt.Fprintf(&b, `<path class="%s" d="%s"/>`+"\n", class, curve(s.regret, rounds, left, top, w, h, high))
	}
	b.WriteString("</svg>")
	return b.String()
}

// curve is the path of a sum over the rounds, with about one point for each pixel.
func curve(sums []float64, rounds int, left, top, w, h, high float64) string {
	var b strings.Builder
	every := max(1, int(float64(rounds)/w))
	for t := 1; t <= len(sums); t++ {
		if t%every != 0 && t != 1 && t != len(sums) {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("M")
		} else {
			b.WriteString("L")
		}
		b.WriteString(px(left+float64(w*float64(t)/float64(rounds))) + " " + px(top+float64(h*(1-sums[t-1]/high))))
	}
	return b.String()
}

// tick rounds a step up to 1, 2 or 5 times a power of ten.
func tick(x float64) float64 {
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, f := range []float64{1, 2, 5} {
		if f*base >= x {
			return f * base
		}
	}
	return 10 * base
}
