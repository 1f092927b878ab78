package worlds

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// heldKinds are for the last measurement: no constant of a learner may be chosen on them.
var heldKinds = []Kind{
	{"held-pareto", "3 arms, revenue with a Pareto tail, 5 regions and a useless campaign", Held, "", heldPareto},
	{"held-batch", "30 decisions about one shop at a time, rewards at the end of each 30", Held, "batch", heldBatch},
	{"held-three", "three fields that matter only together, two that do not", Held, "", heldThree},
	{"held-tags", "a bag of 2 to 6 of 70 tags in the context", Held, "", heldTags},
	{"held-counts", "counts of events, Poisson", Held, "", heldCounts},
	{"held-ratings", "ratings 1 to 5 that all rise in the first 600 decisions", Held, "", heldRatings},
	{"held-percent", "percentages, a number and a field", Held, "", heldPercent},
	{"held-disasters", "small costs and rare disasters", Held, "", heldDisasters},
	{"held-cold", "a new item every 20 decisions, up to 16 at a time, with category, quality and age", Held, "", heldCold},
	{"held-bigids", "150 users of four hidden tastes, ids as JSON numbers above 2⁵³", Held, "", heldBigIDs},
	{"held-weekday", "timestamps; what is good depends on the weekend and on the part of the day", Held, "", heldWeekday},
	{"held-zip", "3,000 postal codes, some frequent, each with an effect of its own; and a state", Held, "", heldZip},
	{"held-flags", "ten booleans and a list of six numbers; two booleans and one number matter", Held, "", heldFlags},
	{"held-noise", "actions whose rewards differ in their noise by a factor of 20", Held, "", heldNoise},
}

func heldPareto(g *gen) func(int) Decision {
	const tail = 2.2 // of the amount: the variance is finite, barely
	rate, a := g.table(5, 3, .02, .12), actions("layout", 3)
	least := make([]float64, len(a))
	for i := range least {
		least[i] = g.logBetween(10, 25)
	}
	return func(int) Decision {
		c := g.IntN(len(rate))
		means := make([]float64, len(a))
		for i := range means {
			means[i] = rate[c][i] * least[i] * tail / (tail - 1)
		}
		d := decide(Object{F("campaign", level("c", g.IntN(9))), F("region", level("r", c))}, a, c, means, g.click)
		for i := range d.Rewards {
			d.Rewards[i] = g.click(rate[c][i]) * least[i] * math.Pow(g.pay.Float64(), -1/tail)
		}
		return d
	}
}

func heldBatch(g *gen) func(int) Decision {
	means, a, c := g.table(12, 5, .1, .6), actions("shelf", 5), 0
	return func(t int) Decision {
		if t%30 == 0 {
			c = g.IntN(len(means))
		}
		return decide(Object{F("shop", level("shop", c)), F("position", Num(float64(t%30)))}, a, c, means[c], g.click)
	}
}

func heldThree(g *gen) func(int) Decision {
	a := actions("a", 3)
	means := g.table(12, len(a), .05, .65) // 2 × 2 × 3
	return func(int) Decision {
		c := g.IntN(12)
		context := Object{F("new", Is(c&1 > 0)), F("theme", Str([]string{"dark", "light"}[c>>1&1])), F("tier", level("t", c/4)),
			F("os", level("os", g.IntN(4))), F("language", level("l", g.IntN(6)))}
		return decide(context, a, c, means[c], g.click)
	}
}

func heldTags(g *gen) func(int) Decision {
	const tags = 70
	a := actions("a", 4)
	effect := g.normals(tags, len(a), .6)
	base := g.normals(1, len(a), .4)[0]
	return func(int) Decision {
		n := 2 + g.IntN(5)
		list, sum := make([]string, n), slices.Clone(base)
		first := 0
		for j := range list {
			k := int(float64(tags) * g.Float64() * g.Float64()) // small numbers are more frequent
			if j == 0 {
				first = k
			}
			list[j] = "tag" + strconv.Itoa(k)
			for i := range sum {
				sum[i] += effect[k][i] / math.Sqrt(float64(n)/2)
			}
		}
		for i := range sum {
			sum[i] = logistic(-.8 + sum[i])
		}
		return decide(Object{F("interests", Strs(list...))}, a, first, sum, g.click)
	}
}

// poisson draws a Poisson count with a small mean.
func (g *gen) poisson(mean float64) float64 {
	n, p, least := 0., g.pay.Float64(), math.Exp(-mean)
	for p > least && n < 1000 {
		n++
		p *= g.pay.Float64()
	}
	return n
}

func heldCounts(g *gen) func(int) Decision {
	means := g.normals(4, 5, .5)
	for _, row := range means {
		for i := range row {
			row[i] = 2 * math.Exp(row[i])
		}
	}
	return tabled(g, means, func(c int) Object {
		return Object{F("page", Str([]string{"home", "search", "product", "cart"}[c])), F("logged_in", Is(g.IntN(2) == 0))}
	}, g.poisson)
}

func heldRatings(g *gen) func(int) Decision {
	taste, a := g.normals(5, 5, .6), actions("recipe", 5)
	return func(t int) Decision {
		c := g.IntN(len(taste))
		rise := min(float64(t)/600, 1) * 1.2
		means, p := make([]float64, len(a)), [5][4]float64{}
		for i := range means {
			means[i] = 1
			for k := range 4 { // the chance of more than k+1 stars
				p[i][k] = logistic(1.2 - 1.1*float64(k) + taste[c][i] + rise - 1.2)
				means[i] += p[i][k]
			}
		}
		d := decide(Object{F("diet", level("diet", c))}, a, c, means, g.click)
		for i := range d.Rewards {
			u := g.pay.Float64()
			d.Rewards[i] = 1
			for k := range 4 {
				d.Rewards[i] += count(u < p[i][k])
			}
		}
		return d
	}
}

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func heldPercent(g *gen) func(int) Decision {
	a := actions("codec", 4)
	base, slope := g.normals(3, len(a), .5), g.normals(1, len(a), .7)[0]
	return func(int) Decision {
		c, z := g.IntN(3), g.NormFloat64()
		means := make([]float64, len(a))
		for i := range means {
			means[i] = 100 * logistic(base[c][i]+slope[i]*z)
		}
		context := Object{F("link", Str([]string{"fibre", "cable", "mobile"}[c])), F("bandwidth", Num(math.Round(1000*math.Exp(.8*z+3))))}
		return decide(context, a, c*4+quarter(z), means, func(m float64) float64 {
			return m + .7*min(m, 100-m)*(g.pay.Float64()-.5) // uniform around the mean, within 0 to 100
		})
	}
}

func heldDisasters(g *gen) func(int) Decision {
	a := actions("route", 4)
	cost, risk := g.table(4, len(a), 1, 6), g.table(1, len(a), .002, .05)[0]
	return func(int) Decision {
		c := g.IntN(len(cost))
		means := make([]float64, len(a))
		for i := range means {
			means[i] = -cost[c][i] - 60*risk[i]
		}
		d := decide(Object{F("zone", level("z", c))}, a, c, means, g.click)
		for i := range d.Rewards {
			d.Rewards[i] = -cost[c][i]*g.pay.ExpFloat64() - 60*g.click(risk[i])
		}
		return d
	}
}

func heldCold(g *gen) func(int) Decision {
	const readers, categories, most, every = 3, 6, 16, 20
	taste, slope := g.normals(readers, categories, .7), g.between(.4, 1.2)
	type item struct {
		id       string
		category int
		quality  float64
		born     int
	}
	var shown []item
	made := 0
	add := func(t int) {
		shown = append(shown, item{"c" + strconv.Itoa(made), g.IntN(categories), round(g.Float64(), .001), t})
		made++
	}
	for range 10 {
		add(0)
	}
	return func(t int) Decision {
		if t > 0 && t%every == 0 {
			if len(shown) >= most {
				shown = slices.Delete(shown, 0, 1)
			}
			add(t)
		}
		r := g.IntN(readers)
		a, means, cells := make([]Action, len(shown)), make([]float64, len(shown)), make([]int, len(shown))
		for i, x := range shown {
			a[i] = Action{x.id, Object{F("category", level("cat", x.category)), F("quality", Num(x.quality)),
				F("days", Num(float64((t-x.born)/20)))}}
			means[i] = logistic(-1.5 + taste[r][x.category] + slope*(x.quality-.5)*2)
			cells[i] = (r*categories+x.category)*3 + int(x.quality*2.99)
		}
		d := decide(Object{F("reader", level("r", r))}, a, 0, means, g.click)
		d.Cells = cells
		return d
	}
}

func heldBigIDs(g *gen) func(int) Decision {
	means, a := g.table(4, 4, .05, .65), actions("a", 4)
	taste, first := make([]int, 150), uint64(1)<<60+uint64(g.IntN(1<<30))
	for i := range taste {
		taste[i] = g.IntN(len(means))
	}
	return func(int) Decision {
		u := g.IntN(len(taste))
		// ids in a row differ by less than a float64 tells apart
		return decide(Object{F("user_id", Int(first+uint64(u)))}, a, u, means[taste[u]], g.click)
	}
}

func heldWeekday(g *gen) func(int) Decision {
	const parts = 4
	means, a := g.table(2*parts, 4, .05, .6), actions("menu", 4)
	start := time.Date(2031, 3, 1+g.IntN(28), 0, 0, 0, 0, time.UTC)
	return func(t int) Decision {
		at := start.Add(time.Duration(t) * 37 * time.Minute)
		c := at.Hour() / (24 / parts)
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
			c += parts
		}
		context := Object{F("at", Str(at.Format(time.RFC3339))), F("unix", Num(float64(at.Unix()))),
			F("weekday", Str(at.Weekday().String())), F("hour", Num(float64(at.Hour())))}
		return decide(context, a, c, means[c], g.click)
	}
}

func heldZip(g *gen) func(int) Decision {
	const codes, states = 3000, 6
	a := actions("flyer", 4)
	state, own := g.table(states, len(a), .1, .5), g.normals(codes, len(a), .1)
	return func(int) Decision {
		u := g.Float64()
		z := min(int(codes*u*u*u*u), codes-1)
		s := z * 7 % states
		means := make([]float64, len(a))
		for i := range means {
			means[i] = clip(state[s][i]+own[z][i], .01, .95)
		}
		context := Object{F("zip", Str(strconv.Itoa(10000+z*29))), F("state", level("st", s))}
		return decide(context, a, s, means, g.click)
	}
}

func heldFlags(g *gen) func(int) Decision {
	const flags, numbers = 10, 6
	a := actions("a", 4)
	main, slope := g.table(4, len(a), .1, .5), g.normals(1, len(a), .12)[0]
	first, second, which := g.IntN(flags/2), flags/2+g.IntN(flags/2), g.IntN(numbers)
	return func(int) Decision {
		on := make([]Field, flags)
		var set [flags]bool
		for i := range on {
			set[i] = g.IntN(2) == 0
			on[i] = F("f"+strconv.Itoa(i), Is(set[i]))
		}
		x := make([]float64, numbers)
		for i := range x {
			x[i] = round(g.between(-1, 1), .001)
		}
		c := int(count(set[first]) + 2*count(set[second]))
		means := make([]float64, len(a))
		for i := range means {
			means[i] = clip(main[c][i]+slope[i]*x[which], .01, .95)
		}
		return decide(Object{F("flags", Obj(on...)), F("profile", Nums(x...))}, a, c*2+int(count(x[which] > 0)), means, g.click)
	}
}

func heldNoise(g *gen) func(int) Decision {
	means, a := g.table(4, 5, -1, 1), actions("ad", 5)
	noise := make([]float64, len(a))
	for i := range noise {
		noise[i] = .2 * math.Pow(20, float64(i)/float64(len(a)-1))
	}
	g.Shuffle(len(noise), func(i, j int) { noise[i], noise[j] = noise[j], noise[i] })
	return func(int) Decision {
		c := g.IntN(len(means))
		d := decide(segment(c), a, c, means[c], g.click)
		for i, m := range means[c] {
			d.Rewards[i] = m + noise[i]*g.pay.NormFloat64()
		}
		return d
	}
}
