package worlds

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// baseKinds are streams of ordinary applications: 25 kinds.
var baseKinds = []Kind{
	{"segments", "8 segments × 6 actions, clicks; an age that does not matter", Base, "", segments},
	{"budget", "five offers, prices in the request, and a budget; the best price is a share of it", Base, "", budgets},
	{"hours", "5 actions, each best at an hour of the day", Base, "", hours},
	{"users", "300 users with a taste of their own beside what all like", Base, "", users},
	{"nested", "nested fields of which two matter, a missing one, ids, numbers of size 1e6 and 1e-3", Base, "", nested},
	{"scales", "two numbers of size 1e6 and 1e-3, means linear in both", Base, "", scales},
	{"pairs", "country × device, 18 cells without main effects, a session id beside them", Base, "", pairs},
	{"geo", "latitude × longitude, each action good around places of its own", Base, "", geo},
	{"additive", "four fields whose effects add up", Base, "", additive},
	{"hold", "send or hold: hold pays 0, send −.02 or, rarely, .98", Base, "", hold},
	{"revenue", "a conversion of 1 to 8% times an amount, log-normal", Base, "", revenue},
	{"dwell", "seconds with a long tail", Base, "", dwell},
	{"useless", "one field that matters beside three that do not", Base, "", useless},
	{"groups", "20 groups beside 10,000 ids of users", Base, "", groups},
	{"ids", "6 actions, no context", Base, "", alone},
	{"peak", "8 prices for three kinds of customers, the revenue has a peak", Base, "", peak},
	{"items", "8 items at a time, which come and go, rating × genre", Base, "", items},
	{"negative", "costs: all rewards are below 0", Base, "", negative},
	{"conversion", "successes 150 decisions late in the mean, zeros when a window of 400 closes", Base, "ones", conversion},
	{"late", "every reward 200 decisions late", Base, "late", segmentsAlone},
	{"texts", "offers with a text of six words, each seen once", Base, "", texts},
	{"newcomer", "a good sixth action from decision 1,000 on", Base, "", newcomer},
	{"banners", "10 banners, clicks of ½ to 4%, no context", Base, "", banners},
	{"clicks7", "4 segments × 5 actions, clicks of 1 to 7%", Base, "", rates(.01, .07)},
	{"clicks4", "4 segments × 5 actions, clicks of ½ to 4%", Base, "", rates(.005, .04)},
}

func segments(g *gen) func(int) Decision {
	return tabled(g, g.table(8, 6, .05, .6), func(c int) Object {
		return append(segment(c), F("age", Num(float64(18+g.IntN(62)))))
	}, g.click)
}

func segmentsAlone(g *gen) func(int) Decision {
	return tabled(g, g.table(6, 5, .05, .6), segment, g.click)
}

func conversion(g *gen) func(int) Decision {
	return tabled(g, g.table(4, 5, .05, .5), segment, g.click)
}

func rates(lo, hi float64) func(*gen) func(int) Decision {
	return func(g *gen) func(int) Decision { return tabled(g, g.table(4, 5, lo, hi), segment, g.click) }
}

func alone(g *gen) func(int) Decision {
	return tabled(g, g.table(1, 6, .1, .6), func(int) Object { return nil }, g.click)
}

func banners(g *gen) func(int) Decision {
	return tabled(g, g.table(1, 10, .005, .04), func(int) Object { return nil }, g.click)
}

func budgets(g *gen) func(int) Decision {
	best, width, top := g.logBetween(.4, 1.6), g.between(.3, .7), g.between(.4, .7)
	return func(t int) Decision {
		budget := g.logBetween(20, 500)
		a, means, cell := make([]Action, 5), make([]float64, 5), make([]int, 5)
		for i := range a {
			price := round(budget*g.logBetween(.15, 5), .01)
			x := math.Log(price / budget / best)
			means[i] = .03 + top*math.Exp(-x*x/(2*width*width))
			cell[i] = int(clip(2*(math.Log(price/budget)+2), 0, 8))
			a[i] = Action{"offer-" + strconv.Itoa(t) + "-" + strconv.Itoa(i), Object{F("price", Num(price))}}
		}
		d := decide(Object{F("budget", Num(math.Round(budget)))}, a, 0, means, g.click)
		d.Cells = cell
		return d
	}
}

func hours(g *gen) func(int) Decision {
	a := actions("a", 5)
	at, height := g.table(1, 5, 0, 24)[0], g.table(1, 5, .12, .28)[0]
	return func(int) Decision {
		h := g.IntN(24)
		means := make([]float64, len(a))
		for i := range means {
			means[i] = .3 + height[i]*math.Cos((float64(h)-at[i])*math.Pi/12)
		}
		return decide(Object{F("hour", Num(float64(h)))}, a, h/4, means, g.click)
	}
}

func users(g *gen) func(int) Decision {
	common, own := g.table(1, 5, .15, .4)[0], g.normals(300, 5, .15)
	for _, row := range own {
		for i := range row {
			row[i] = clip(common[i]+row[i], .01, .95)
		}
	}
	return tabled(g, own, func(c int) Object { return Object{F("user", level("u", c))} }, g.click)
}

func nested(g *gen) func(int) Decision {
	a := actions("plan-", 5)
	means := g.table(5*2, len(a), .05, .6) // four countries and none × two devices
	return func(t int) Decision {
		country, device := g.IntN(5), g.IntN(2)
		user := []Field{F("id", Str("u-"+strconv.Itoa(g.IntN(100000))))}
		if country < 4 {
			user = append(user, F("country", level("c", country)))
		}
		user = append(user, F("income", Num(math.Round(g.between(2e4, 3e6)))))
		context := Object{
			F("request", Str("r"+strconv.Itoa(1000000+t))),
			F("user", Obj(user...)),
			F("client", Obj(F("device", Str([]string{"phone", "desktop"}[device])), F("error_rate", Num(round(g.between(0, .004), 1e-7))),
				F("beta", Is(g.IntN(2) == 0)))),
		}
		c := country*2 + device
		return decide(context, a, c, means[c], g.click)
	}
}

func scales(g *gen) func(int) Decision {
	a := actions("a", 5)
	slope := g.normals(2, len(a), .14)
	base := g.table(1, len(a), .3, .5)[0]
	return func(int) Decision {
		x, y := g.NormFloat64(), g.NormFloat64()
		means := make([]float64, len(a))
		for i := range means {
			means[i] = clip(base[i]+slope[0][i]*x+slope[1][i]*y, .01, .99)
		}
		context := Object{F("turnover", Num(math.Round(2e6+8e5*x))), F("rate", Num(round(.005+.0015*y, 1e-7)))}
		return decide(context, a, quarter(x)*4+quarter(y), means, g.click)
	}
}

// quarter returns in which quarter of the standard normal law a number is.
func quarter(z float64) int {
	switch {
	case z < -.6745:
		return 0
	case z < 0:
		return 1
	case z < .6745:
		return 2
	}
	return 3
}

func pairs(g *gen) func(int) Decision {
	a := actions("a", 4)
	means := g.table(18, len(a), .05, .6)
	return func(t int) Decision {
		c := g.IntN(18)
		context := Object{F("country", level("c", c/3)), F("device", level("d", c%3)),
			F("session", Str("s"+strconv.Itoa(1e6+7*t+g.IntN(7))))}
		return decide(context, a, c, means[c], g.click)
	}
}

func geo(g *gen) func(int) Decision {
	a := actions("shop", 4)
	type bump struct{ lat, lon, height, width float64 }
	bumps := make([][3]bump, len(a))
	for i := range bumps {
		for j := range bumps[i] {
			bumps[i][j] = bump{g.between(36, 60), g.between(-8, 30), g.between(.25, .6), g.between(3, 6)}
		}
	}
	return func(int) Decision {
		lat, lon := round(g.between(36, 60), 1e-4), round(g.between(-8, 30), 1e-4)
		means := make([]float64, len(a))
		for i := range means {
			m := .06
			for _, b := range bumps[i] {
				dy, dx := (lat-b.lat)/b.width, (lon-b.lon)/(1.5*b.width)
				m += b.height * math.Exp(-(dy*dy+dx*dx)/2)
			}
			means[i] = min(m, .95)
		}
		cell := int((lat-36)/6.001)*4 + int((lon+8)/9.501)
		return decide(Object{F("lat", Num(lat)), F("lon", Num(lon))}, a, cell, means, g.click)
	}
}

func additive(g *gen) func(int) Decision {
	a := actions("a", 5)
	parts := make([][][]float64, 4)
	for f := range parts {
		parts[f] = g.normals(4, len(a), .09)
	}
	return func(int) Decision {
		means, cell := make([]float64, len(a)), 0
		context := make(Object, len(parts))
		for f := range parts {
			v := g.IntN(4)
			cell = 4*cell + v
			context[f] = F([]string{"age_group", "region", "tier", "channel"}[f], level("v", v))
			for i := range means {
				means[i] += parts[f][v][i]
			}
		}
		for i := range means {
			means[i] = clip(.35+means[i], .02, .98)
		}
		return decide(context, a, cell, means, g.click)
	}
}

func hold(g *gen) func(int) Decision {
	const cost = .02
	a := []Action{{ID: "send"}, {ID: "hold"}}
	p := make([]float64, 5)
	for i := range p {
		p[i] = g.logBetween(.003, .08)
	}
	return func(int) Decision {
		c := g.IntN(len(p))
		d := decide(segment(c), a, c, []float64{p[c] - cost, 0}, g.click)
		d.Rewards[0], d.Rewards[1] = g.click(p[c])-cost, 0
		return d
	}
}

func revenue(g *gen) func(int) Decision {
	const sd = .8
	rate, amount := g.table(4, 5, .01, .08), make([]float64, 5)
	for i := range amount {
		amount[i] = g.logBetween(15, 60)
	}
	a := actions("offer", 5)
	return func(int) Decision {
		c := g.IntN(len(rate))
		means := make([]float64, len(a))
		for i := range means {
			means[i] = rate[c][i] * amount[i] * math.Exp(sd*sd/2)
		}
		d := decide(segment(c), a, c, means, g.click)
		for i := range d.Rewards {
			bought, spent := g.click(rate[c][i]), amount[i]*math.Exp(sd*g.pay.NormFloat64())
			d.Rewards[i] = round(bought*spent, .01)
		}
		return d
	}
}

func dwell(g *gen) func(int) Decision {
	const sd = 1.
	means := g.normals(5, 5, .55)
	for _, row := range means {
		for i := range row {
			row[i] = math.Exp(math.Log(25) + row[i] + sd*sd/2)
		}
	}
	return tabled(g, means, func(c int) Object { return Object{F("section", level("sec", c))} }, func(m float64) float64 {
		return m * math.Exp(sd*g.pay.NormFloat64()-sd*sd/2)
	})
}

func useless(g *gen) func(int) Decision {
	return tabled(g, g.table(4, 5, .05, .6), func(c int) Object {
		return Object{F("campaign", level("k", g.IntN(12))), F("plan", level("p", c)), F("browser", level("b", g.IntN(7))),
			F("visits", Num(math.Floor(g.ExpFloat64()*12)))}
	}, g.click)
}

func groups(g *gen) func(int) Decision {
	return tabled(g, g.table(20, 4, .05, .6), func(c int) Object {
		return Object{F("user", level("user-", g.IntN(10_000))), F("group", level("g", c))}
	}, g.click)
}

func peak(g *gen) func(int) Decision {
	a := actions("p", 8)
	prices := make([]float64, len(a))
	for i := range a {
		prices[i] = math.Round(5 * math.Pow(1.45, float64(i)))
		a[i].Features = Object{F("price", Num(prices[i]))}
	}
	buys := make([][]float64, 3)
	for c := range buys {
		worth, spread := g.logBetween(8, 60), g.between(.15, .4)
		buys[c] = make([]float64, len(a))
		for i, p := range prices {
			buys[c][i] = logistic(math.Log(worth/p) / spread)
		}
	}
	return func(int) Decision {
		c := g.IntN(len(buys))
		means := make([]float64, len(a))
		for i, p := range buys[c] {
			means[i] = p * prices[i]
		}
		d := decide(Object{F("customer", Str([]string{"private", "small", "large"}[c]))}, a, c, means, g.click)
		for i, p := range buys[c] {
			d.Rewards[i] = prices[i] * g.click(p)
		}
		return d
	}
}

func items(g *gen) func(int) Decision {
	const genres, every = 5, 30
	effect := g.normals(1, genres, .12)[0]
	slope := g.between(.08, .14)
	var shown []Action
	var means []float64
	var cells []int
	made := 0
	add := func() {
		rating, genre := round(g.between(1, 5), .1), g.IntN(genres)
		shown = append(shown, Action{"item" + strconv.Itoa(made), Object{F("rating", Num(rating)), F("genre", level("genre", genre))}})
		means = append(means, clip(.03+slope*(rating-1)+effect[genre], .01, .95))
		cells = append(cells, genre*4+int(min(rating-1, 3.9)))
		made++
	}
	for range 8 {
		add()
	}
	return func(t int) Decision {
		if t > 0 && t%every == 0 {
			shown, means, cells = slices.Clone(shown[1:]), slices.Clone(means[1:]), slices.Clone(cells[1:])
			add()
		}
		d := decide(nil, shown, 0, means, g.click)
		d.Cells = cells
		return d
	}
}

func negative(g *gen) func(int) Decision {
	return tabled(g, g.table(4, 5, -12, -2), func(c int) Object { return Object{F("depot", level("d", c))} }, g.normal(2))
}

func texts(g *gen) func(int) Decision {
	const words = 60
	effect := g.normals(1, words, .5)[0]
	return func(t int) Decision {
		a, means := make([]Action, 5), make([]float64, 5)
		for i := range a {
			var text []string
			sum := -1.2
			for range 6 {
				w := g.IntN(words)
				text, sum = append(text, "word"+strconv.Itoa(w)), sum+effect[w]
			}
			means[i] = logistic(sum)
			a[i] = Action{"mail-" + strconv.Itoa(t) + "-" + strconv.Itoa(i), Object{F("subject", Str(strings.Join(text, " ")))}}
		}
		return decide(nil, a, 0, means, g.click)
	}
}

func newcomer(g *gen) func(int) Decision {
	const at = 1000
	means, all := g.table(4, 6, .05, .5), actions("a", 6)
	for _, row := range means {
		row[5] = min(row[5]+.3, .8)
	}
	return func(t int) Decision {
		c, k := g.IntN(len(means)), 5
		if t >= at {
			k = 6
		}
		d := decide(segment(c), all[:k], 0, means[c][:k], g.click)
		for i := range d.Cells {
			d.Cells[i] = 6*c + i
		}
		return d
	}
}
