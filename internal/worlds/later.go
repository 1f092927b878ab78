package worlds

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// laterKinds were written after the model of default.md stood, and before what it has of word × number, booleans and
// shared means: ten kinds. Nothing was chosen on them.
var laterKinds = []Kind{
	{"later-calls", "weekday and hour as numbers, a support queue; who answers best depends on working hours", Later, "", laterCalls},
	{"later-funnel", "the step of a session, device and new or not: clicks of 2 to 25%", Later, "", laterFunnel},
	{"later-offers", "five offers with price, discount and brand; loyal customers like their brand", Later, "", laterOffers},
	{"later-routes", "milliseconds of six routes, load on a logarithmic scale, five regions", Later, "late", laterRoutes},
	{"later-switch", "twelve booleans; one turns the best of two actions around, one adds to both", Later, "", laterSwitch},
	{"later-alarm", "wait pays 0; to act pays −1 or 3, by a number and a kind of machine", Later, "", laterAlarm},
	{"later-gate", "a plan matters where a flag is set; without it one action is best", Later, "", laterGate},
	{"later-many", "40 ids without features, clicks of 2 to 30%", Later, "", laterMany},
	{"later-topics", "a text of four to eight of 60 words in the context, two topics", Later, "batch", laterTopics},
	{"later-hotels", "12 candidates with four numbers, three kinds of guests with weights of their own", Later, "", laterHotels},
}

func laterCalls(g *gen) func(int) Decision {
	a := actions("team", 4)
	means := g.table(3, len(a), .2, .8) // night, working hours, weekend
	start := time.Date(2030, 1, 1+g.IntN(28), 0, 0, 0, 0, time.UTC)
	return func(t int) Decision {
		at := start.Add(time.Duration(t)*23*time.Minute + time.Duration(g.IntN(1200))*time.Second)
		c := 0
		switch d, h := at.Weekday(), at.Hour(); {
		case d == time.Saturday || d == time.Sunday:
			c = 2
		case h >= 8 && h < 18:
			c = 1
		}
		context := Object{F("weekday", Num(float64(at.Weekday()))), F("hour", Num(float64(at.Hour()))), F("queue", Num(float64(g.IntN(30))))}
		return decide(context, a, c, means[c], g.click)
	}
}

func laterFunnel(g *gen) func(int) Decision {
	const steps = 10
	a := actions("hint", 4)
	device, fresh := g.normals(3, len(a), .5), g.normals(2, len(a), .5)
	slope := g.normals(1, len(a), .8)[0]
	return func(int) Decision {
		s, d, n := 1+g.IntN(steps), g.IntN(3), g.IntN(2)
		means := make([]float64, len(a))
		for i := range means {
			means[i] = clip(logistic(-2.2+device[d][i]+fresh[n][i]+slope[i]*(float64(s)-5.5)/4.5), .02, .25)
		}
		context := Object{F("session", Obj(F("step", Num(float64(s))), F("returning", Is(n == 1)))),
			F("device", Str([]string{"phone", "tablet", "desktop"}[d]))}
		return decide(context, a, (d*2+n)*2+int(count(s > 5)), means, g.click)
	}
}

func laterOffers(g *gen) func(int) Decision {
	const brands, segments = 5, 5
	likes, effect := make([]int, segments), g.normals(1, brands, .5)[0]
	for i := range likes {
		likes[i] = g.IntN(brands)
	}
	sensitive := g.between(.5, 1.5)
	return func(t int) Decision {
		s := g.IntN(segments)
		a, means, cells := make([]Action, 5), make([]float64, 5), make([]int, 5)
		for i := range a {
			price, off, b := round(g.logBetween(5, 200), .01), []float64{0, 5, 10, 20, 30}[g.IntN(5)], g.IntN(brands)
			a[i] = Action{"deal-" + strconv.Itoa(t) + "-" + strconv.Itoa(i),
				Object{F("price", Num(price)), F("discount", Num(off)), F("brand", level("b", b))}}
			means[i] = logistic(-1.5 + effect[b] + 1.2*count(likes[s] == b) + off/20 - sensitive*math.Log(price/30)/2)
			cells[i] = (s*brands+b)*6 + 2*int(count(price > 30)) + int(off/15)
		}
		d := decide(Object{F("segment", level("s", s)), F("visits", Num(float64(g.IntN(40))))}, a, 0, means, g.click)
		d.Cells = cells
		return d
	}
}

func laterRoutes(g *gen) func(int) Decision {
	a := actions("route", 6)
	base, slope := g.normals(5, len(a), .4), g.table(1, len(a), 0, .35)[0]
	return func(int) Decision {
		r, load := g.IntN(5), g.logBetween(1, 2000)
		means := make([]float64, len(a))
		for i := range means {
			means[i] = -80 * math.Exp(base[r][i]+slope[i]*math.Log(load)/2)
		}
		q := min(int(math.Log(load)/math.Log(2000)*4), 3)
		return decide(Object{F("region", level("r", r)), F("load", Num(math.Round(load)))}, a, r*4+q, means, func(m float64) float64 {
			return m * math.Exp(.5*g.pay.NormFloat64()-.125)
		})
	}
}

func laterSwitch(g *gen) func(int) Decision {
	const flags = 12
	a := actions("variant", 2)
	turn, lift, gap := g.IntN(flags), g.IntN(flags), g.between(.1, .25)
	return func(int) Decision {
		on := make([]Field, flags)
		var set [flags]bool
		for i := range on {
			set[i] = g.IntN(3) == 0
			on[i] = F("has_"+strconv.Itoa(i), Is(set[i]))
		}
		base := .3 + .2*count(set[lift])
		means := []float64{base, base + gap}
		if set[turn] {
			means[0], means[1] = means[1], means[0]
		}
		return decide(on, a, int(count(set[turn])+2*count(set[lift])), means, g.click)
	}
}

func laterAlarm(g *gen) func(int) Decision {
	a := actions("", 2)
	a[0].ID, a[1].ID = "wait", "act"
	middle, width := g.normals(1, 4, 10)[0], g.between(4, 12)
	return func(int) Decision {
		m, heat := g.IntN(4), 60+15*g.NormFloat64()
		p := logistic((heat - 68 - middle[m]) / width)
		d := decide(Object{F("machine", level("m", m)), F("heat", Num(round(heat, .1)))}, a, m*4+int(clip((heat-38)/15, 0, 3)),
			[]float64{0, 4*p - 1}, g.click)
		d.Rewards[0], d.Rewards[1] = 0, 4*g.click(p)-1
		return d
	}
}

func laterGate(g *gen) func(int) Decision {
	a := actions("page", 5)
	plan, other := g.table(6, len(a), .05, .5), g.table(1, len(a), .05, .5)[0]
	return func(int) Decision {
		p, member := g.IntN(6), g.IntN(2) == 0
		c, means := 6, other
		if member {
			c, means = p, plan[p]
		}
		return decide(Object{F("plan", level("plan", p)), F("member", Is(member)), F("country", level("c", g.IntN(8)))}, a, c, means, g.click)
	}
}

func laterMany(g *gen) func(int) Decision {
	return tabled(g, g.table(1, 40, .02, .3), func(int) Object { return nil }, g.click)
}

func laterTopics(g *gen) func(int) Decision {
	const words, topics = 60, 4
	a := actions("answer", 4)
	means, of := g.table(topics, len(a), .1, .7), make([]int, words)
	for i := range of {
		of[i] = g.IntN(topics)
	}
	return func(int) Decision {
		topic, n := g.IntN(topics), 4+g.IntN(5)
		text := make([]string, n)
		for i := range text {
			w := g.IntN(words)
			for try := 0; of[w] != topic && try < 3; try++ { // most words are of the topic
				w = g.IntN(words)
			}
			text[i] = "w" + strconv.Itoa(w)
		}
		return decide(Object{F("question", Str(strings.Join(text, " ")))}, a, topic, means[topic], g.click)
	}
}

func laterHotels(g *gen) func(int) Decision {
	const guests = 3
	weight := g.normals(guests, 4, .6)
	return func(t int) Decision {
		c := g.IntN(guests)
		a, means, cells := make([]Action, 12), make([]float64, 12), make([]int, 12)
		for i := range a {
			z := g.normals(1, 4, 1)[0]
			sum := 0.
			for j, w := range weight[c] {
				sum += w * z[j]
			}
			a[i] = Action{"hotel" + strconv.Itoa((37*t+41*i)%500), Object{F("price", Num(math.Round(90*math.Exp(.5*z[0])))),
				F("stars", Num(round(3+z[1], .5))), F("distance", Num(round(math.Exp(z[2]), .1))), F("score", Num(round(7.5+z[3], .1)))}}
			means[i] = logistic(-1.5 + sum)
			cells[i] = (c*3+int(clip(1.5+z[0], 0, 2.9)))*3 + int(clip(1.5+z[3], 0, 2.9))
		}
		d := decide(Object{F("guest", Str([]string{"business", "family", "couple"}[c]))}, a, 0, means, g.click)
		d.Cells = cells
		return d
	}
}
