package worlds

import (
	"math"
	"slices"
	"strconv"
)

// wideKinds have many numbers or many actions.
var wideKinds = []Kind{
	{"embedding-context", "a context with an embedding of 32 numbers, 8 actions", Wide, "", embeddingContext},
	{"embedding-actions", "10 of 800 actions with an embedding of 32 numbers", Wide, "", embeddingActions},
	{"shared", "50 actions with features that they share, 4 segments", Wide, "", shared},
	{"news", "12 articles with tags of 40, three new ones every 100 decisions, 5 kinds of readers", Wide, "", news},
}

func embeddingContext(g *gen) func(int) Decision {
	const dim = 32
	a := actions("a", 8)
	w := g.normals(len(a), dim, 1.2/math.Sqrt(dim))
	base := g.normals(1, len(a), .3)[0]
	return func(int) Decision {
		e := make([]float64, dim)
		for j := range e {
			e[j] = round(g.NormFloat64(), 1e-4)
		}
		means := make([]float64, len(a))
		for i := range means {
			means[i] = logistic(-.8 + base[i] + dot(w[i], e))
		}
		return decide(Object{F("embedding", Nums(e...))}, a, 0, means, g.click)
	}
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func embeddingActions(g *gen) func(int) Decision {
	const dim, count, offered = 32, 800, 10
	w := g.normals(1, dim, 1)[0]
	all, means := make([]Action, count), make([]float64, count)
	for i := range all {
		e, length := make([]float64, dim), 0.
		for j := range e {
			e[j] = g.NormFloat64()
			length += e[j] * e[j]
		}
		for j := range e {
			e[j] = round(e[j]/math.Sqrt(length), 1e-5)
		}
		all[i] = Action{"doc" + strconv.Itoa(i), Object{F("embedding", Nums(e...))}}
		means[i] = logistic(-1 + 1.3*dot(w, e))
	}
	return func(int) Decision {
		a, m, cells := make([]Action, offered), make([]float64, offered), make([]int, offered)
		for i := range a {
			k := g.IntN(count)
			for slices.Contains(cells[:i], k) {
				k = g.IntN(count)
			}
			a[i], m[i], cells[i] = all[k], means[k], k
		}
		d := decide(nil, a, 0, m, g.click)
		d.Cells = cells
		return d
	}
}

func shared(g *gen) func(int) Decision {
	const segs, brands, sizes, count = 4, 6, 4, 50
	brand, size, cheap := g.normals(segs, brands, .12), g.normals(segs, sizes, .07), g.table(1, segs, -.1, .1)[0]
	all := make([]Action, count)
	means := make([][]float64, segs)
	for i := range all {
		b, s, price := g.IntN(brands), g.IntN(sizes), round(g.between(5, 100), .01)
		all[i] = Action{"sku" + strconv.Itoa(i), Object{F("brand", level("b", b)), F("size", level("z", s)), F("price", Num(price))}}
		for c := range means {
			means[c] = append(means[c], clip(.3+brand[c][b]+size[c][s]+cheap[c]*(price-52)/27, .02, .95))
		}
	}
	return func(int) Decision {
		c := g.IntN(segs)
		return decide(segment(c), all, c, means[c], g.click)
	}
}

func news(g *gen) func(int) Decision {
	const readers, tags, at, fresh, every = 5, 40, 12, 3, 100
	taste := g.normals(readers, tags, .9)
	var shown []Action
	var means [readers][]float64
	made := 0
	add := func() {
		var own []string
		var sum [readers]float64
		for range 2 + g.IntN(2) {
			k := g.IntN(tags)
			own = append(own, "tag"+strconv.Itoa(k))
			for r := range sum {
				sum[r] += taste[r][k]
			}
		}
		shown = append(shown, Action{"article" + strconv.Itoa(made), Object{F("tags", Strs(own...))}})
		for r := range means {
			means[r] = append(means[r], logistic(-1.8+sum[r]))
		}
		made++
	}
	for range at {
		add()
	}
	return func(t int) Decision {
		if t > 0 && t%every == 0 {
			shown = slices.Clone(shown[fresh:])
			for r := range means {
				means[r] = slices.Clone(means[r][fresh:])
			}
			for range fresh {
				add()
			}
		}
		r := g.IntN(readers)
		d := decide(Object{F("reader", level("r", r))}, shown, 0, means[r], g.click)
		for i := range d.Cells {
			d.Cells[i] = (made-at+i)*readers + r
		}
		return d
	}
}
