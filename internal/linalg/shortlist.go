package linalg

import (
	"math"
	"math/bits"

	"troupe/internal/cpu"
)

// Shortlist keeps the scores p of K arms for panels of eight members while they follow the steps p_a ← fma(w_a, h,
// p_a), and says after each which arm leads for each member and sign, as Leads do. It looks only at the arms that can
// be in the lead: of many arms few are, and a step moves the others by less than they are behind.
//
// The scores themselves stand still for up to ShortlistSteps steps. A panel has a list of arms whose scores move on
// beside them, and for each arm that is not on it the deficit by which its values b ± cp were behind the lead at the
// beginning, at least: the least over eight members and both signs. Since then its values have gained at most
//
//	rise_a = b_a − b_a(0) + |c| Σ_t |w_ta| H_t,   H_t = max_j |h_tj|,
//
// and the least of the leads has lost drop = max (lead(0) − lead). So while deficit_a − rise_a > drop the arm leads
// nowhere, and an arm for which this is not certain joins the list, its score by the steps since then, one after the
// other. After ShortlistSteps steps all scores take them at once, with the same operations, and the lists are made
// again: of the arms that would have come near the lead if the last steps had come again.
//
// Where lists get as long as half of the arms all scores follow every step, and every arm is looked at.
//
// Memory: about 1.7·K numbers for each member. Not safe for concurrent use.
type Shortlist struct {
	arms, ld, panels, members int
	used, signs               int // panels of members, and signs that are asked about
	mask                      uint64
	leads                     []Leads

	p    []float64 // [panels][arms][8]
	wait shortlistStep
	here bool // there is a step that neither p nor lists have seen

	// Without lists.
	listed bool
	pause  int // questions until the next try
	dull   int // the last pause

	n       int       // steps that lists have seen and p has not
	w       []float64 // [ShortlistSteps][arms]
	h       []float64 // [panels/2][ShortlistSteps][16]
	zero    []float64 // a step that moves nothing
	room    int
	list    []uint64  // [panels][room] arms
	now     []float64 // [panels][room][8], their scores
	size    []int     // lengths of the lists
	deficit []float64 // [panels][ld]; +Inf on the list
	begin   []float64 // [panels][2][8] leads when the lists were made; −Inf of none
	limit   []float64 // the drops of the last look, and the slack
	base0   []float64 // b(0)
	c0      float64
	swing   []float64 // Σ |w_ta| H_t
	rise    []float64 // [ld]
	along   [ShortlistSteps]float64
}

type shortlistStep struct {
	w, u []float64
	arm  int
}

const (
	// ShortlistSteps is the number of steps for which scores stand still.
	ShortlistSteps = 16

	// ShortlistArms is the number of arms from which on there are lists.
	ShortlistArms = 24

	shortlistChunk  = 16  // panels that are looked at together
	shortlistPause  = 16  // questions without lists
	shortlistMost   = 64  // at most, after many tries
	shortlistShort  = 4   // steps that lists must last to be worth making
	shortlistMargin = 0.5 // share of the last rises and drops that an arm may be behind to be on a new list
)

// NewShortlist returns a shortlist of arms for members, 8 in a panel and an even number of panels. Arms are at most
// 2²⁰. With one sign, leads for the other may be anything, as those of lanes behind the last member.
func NewShortlist(arms, members, signs int) *Shortlist {
	if arms < 1 || arms > 1<<20 || members < 1 || signs < 1 || signs > 2 {
		panic(badLength)
	}
	panels := (members + Members - 1) / Members * 2
	return &Shortlist{
		arms: arms, ld: (arms + 15) &^ 15, panels: panels, members: members, used: (members + 7) / 8, signs: signs,
		mask:  uint64(1)<<bits.Len(uint(arms-1)) - 1,
		leads: make([]Leads, panels), p: make([]float64, panels*arms*8),
		wait: shortlistStep{w: make([]float64, arms), u: make([]float64, 8*panels)},
	}
}

// Scores returns the place of the scores of a pair of panels, 16 members, which Restart takes up: p_a of member j is
// number (j/8·K + a)·8 + j mod 8.
func (c *Shortlist) Scores(pair int) []float64 {
	return c.p[pair*Members*c.arms : (pair+1)*Members*c.arms]
}

// Restart begins with the scores as they are in Scores.
func (c *Shortlist) Restart() {
	c.here, c.listed, c.n, c.pause = false, false, 0, 0
	c.forget()
}

// Step moves all scores: w has a number for each arm, u one for each member, and h = u − p_arm.
func (c *Shortlist) Step(w, u []float64, arm int) {
	if len(w) != c.arms || len(u) < c.members || arm < 0 || arm >= c.arms {
		panic(badLength)
	}
	c.settle()
	copy(c.wait.w, w)
	copy(c.wait.u, u[:c.members])
	c.wait.arm, c.here = arm, true
}

// settle takes the step that waits, without a look at the leaders.
func (c *Shortlist) settle() {
	if !c.here {
		return
	}
	c.here = false
	if c.listed {
		c.take(c.base0, c.c0)
		for g := range c.panels {
			w, h := c.w[(c.n-1)*c.arms:], c.row(g, c.n-1)
			for i, a := range c.list[g*c.room:][:c.size[g]] {
				row := (*[8]float64)(c.now[(g*c.room+i)*8:])
				for l := range row {
					row[l] = math.FMA(w[a], h[l], row[l])
				}
			}
		}
		if c.n == ShortlistSteps {
			c.fold()
		}
		return
	}
	u := c.wait.u
	for g := range c.panels {
		p := c.p[g*8*c.arms : (g+1)*8*c.arms]
		played := (*[8]float64)(p[8*c.wait.arm:])
		var h [8]float64
		for l := range h {
			h[l] = u[8*g+l] - played[l]
		}
		AddPanels(p, h[:], c.wait.w)
	}
}

// row returns h of a panel in a step.
func (c *Shortlist) row(g, step int) *[8]float64 {
	return (*[8]float64)(c.h[((g/2)*ShortlistSteps+step)*Members+g%2*8:])
}

// take makes h of the step that waits and adds it to the others. The rise is that for a base and a factor.
func (c *Shortlist) take(base []float64, by float64) {
	w, arm := c.wait.w, c.wait.arm
	for s := range c.n {
		c.along[s] = c.w[s*c.arms+arm]
	}
	var most float64
	switch level := cpu.Kernels(); level {
	case cpu.AVX512:
		most = shortlistTakeAVX512(&c.p[8*arm], c.arms, &c.along[0], c.n, &c.h[0], &c.wait.u[0], c.panels)
	case cpu.AVX2:
		most = shortlistTakeAVX2(&c.p[8*arm], c.arms, &c.along[0], c.n, &c.h[0], &c.wait.u[0], c.panels)
	default:
		for g := range c.panels {
			v := *(*[8]float64)(c.p[(g*c.arms+arm)*8:])
			for s, by := range c.along[:c.n] {
				h := c.row(g, s)
				for l := range v {
					v[l] = math.FMA(by, h[l], v[l])
				}
			}
			h := c.row(g, c.n)
			for l := range h {
				h[l] = c.wait.u[8*g+l] - v[l]
				most = max(most, math.Abs(h[l]))
			}
		}
	}
	copy(c.w[c.n*c.arms:], w)
	c.n++
	c.move(w, most*(1+0x1p-40), base, by) // more than all roundings of the sums
}

// move adds the step to the swing and makes the rise, by the base and the factor of now.
func (c *Shortlist) move(w []float64, most float64, base []float64, by float64) {
	by = math.Abs(by)
	switch level := cpu.Kernels(); level {
	case cpu.AVX512:
		shortlistRiseAVX512(&w[0], c.arms, most, &c.swing[0], &base[0], &c.base0[0], by, &c.rise[0])
		return
	case cpu.AVX2:
		shortlistRiseAVX2(&w[0], c.arms, most, &c.swing[0], &base[0], &c.base0[0], by, &c.rise[0])
		return
	}
	for a, v := range w[:c.arms] {
		c.swing[a] = math.FMA(math.Abs(v), most, c.swing[a])
		c.rise[a] = math.FMA(by, c.swing[a], base[a]-c.base0[a])
	}
}

// fold adds the steps since the beginning to all scores, and gives up the lists.
func (c *Shortlist) fold() {
	for pair := range c.panels / 2 {
		AddTile(c.Scores(pair), c.h[pair*ShortlistSteps*Members:][:c.n*Members], c.w[:c.n*c.arms], c.arms)
	}
	c.n, c.listed = 0, false
}

// Look calls f with the leads of all panels, some panels at a time from the first on, until it fails. base has a number
// for each arm. An arm is left out only where its value is behind the lead by more than slack, where sums of a few
// products are off by less than a tenth of it; size is a bound of all |p|.
func (c *Shortlist) Look(base []float64, by, slack, size float64, f func(first int, leads []Leads) error) error {
	if len(base) != c.arms {
		panic(badLength)
	}
	listed := c.listed
	if listed {
		if c.here {
			c.take(base, by)
		} else {
			c.move(c.zero, 0, base, by)
		}
		// What moves beside w: the factor of p.
		slack += float64(1.01 * math.Abs(by-c.c0) * size)
	}
	for first := 0; first < c.used; first += shortlistChunk {
		n := min(shortlistChunk, c.used-first)
		switch {
		case c.listed:
			if !c.lists(first, n, base, by, slack) { // a list is full: what was said so far is right
				c.here = false
				if c.n < shortlistShort {
					c.giveUp()
				}
				c.fold()
				FindLeads(c.leads[first:first+n], c.p[first*8*c.arms:(first+n)*8*c.arms], base, by)
			}
		case c.here:
			StepLeads(c.leads[first:first+n], c.p[first*8*c.arms:(first+n)*8*c.arms], c.wait.w, c.wait.u[first*8:],
				c.wait.arm, base, by)
		default:
			FindLeads(c.leads[first:first+n], c.p[first*8*c.arms:(first+n)*8*c.arms], base, by)
		}
		if err := f(first, c.leads[first:first+n]); err != nil {
			return err
		}
	}
	c.here = false
	switch {
	case c.listed && c.n == ShortlistSteps:
		c.dull = 0
		c.fold()
		c.make(base, by, slack)
	case c.listed:
	case c.pause > 0:
		c.pause--
	case c.arms >= ShortlistArms:
		c.make(base, by, slack)
	}
	return nil
}

// lists takes the last step and sets the leads of some panels. It reports false where a list is full.
func (c *Shortlist) lists(first, n int, base []float64, by, slack float64) bool {
	for wanted := c.pass(first, n, base, by, slack); wanted != 0; wanted &= wanted - 1 {
		g := first + bits.TrailingZeros64(wanted)
		if !c.join(g, c.limit[g], base, by) {
			return false
		}
	}
	return true
}

// pass moves the scores on the lists of some panels, and sets leads and limits. Bit g of the answer is set where
// panel first+g wants an arm that is not on its list.
func (c *Shortlist) pass(first, n int, base []float64, by, slack float64) (wanted uint64) {
	w, h, even, odd := c.zero, c.zero, 0, 0
	if c.here {
		w, h, even, odd = c.w[(c.n-1)*c.arms:], c.h[(first/2*ShortlistSteps+c.n-1)*Members:], 64,
			(ShortlistSteps*Members-8)*8
	}
	switch level := cpu.Kernels(); level {
	case cpu.AVX512:
		return shortlistPassAVX512(&c.now[first*c.room*8], &c.list[first*c.room], &c.size[first], c.room, &w[0],
			&base[0], by, &c.leads[first],
			c.mask, n, &h[0], even, odd, &c.begin[16*first], &c.deficit[first*c.ld], &c.rise[0], c.ld, slack,
			&c.limit[first])
	case cpu.AVX2:
		return shortlistPassAVX2(&c.now[first*c.room*8], &c.list[first*c.room], &c.size[first], c.room, &w[0], &base[0],
			by, &c.leads[first],
			c.mask, n, &h[0], even, odd, &c.begin[16*first], &c.deficit[first*c.ld], &c.rise[0], c.ld, slack,
			&c.limit[first])
	}
	for g := first; g < first+n; g++ {
		h := c.zero
		if c.here {
			h = c.row(g, c.n-1)[:]
		}
		l := &c.leads[g]
		l.none(c.mask)
		for i, a := range c.list[g*c.room:][:c.size[g]] {
			row := (*[8]float64)(c.now[(g*c.room+i)*8:])
			for k, v := range row {
				v = math.FMA(w[a], h[k], v)
				row[k] = v
				l.add(0, k, int(a), math.FMA(by, v, base[a]))
				l.add(1, k, int(a), math.FMA(-by, v, base[a]))
			}
		}
		drop := math.Inf(-1)
		for k := range l.First {
			for i, v := range l.First[k] {
				drop = max(drop, c.begin[16*g+8*k+i]-v)
			}
		}
		c.limit[g] = drop + slack
		for a, v := range c.deficit[g*c.ld:][:c.arms] {
			if v-c.rise[a] <= c.limit[g] {
				wanted |= 1 << (g - first)
				break
			}
		}
	}
	return wanted
}

// join puts the arms on the list of a panel that are behind by no more than limit, and into its leads. It reports false
// where the list is full.
func (c *Shortlist) join(g int, limit float64, base []float64, by float64) bool {
	if cpu.Kernels() == cpu.AVX512 {
		size := shortlistJoinAVX512(&c.deficit[g*c.ld], &c.rise[0], c.ld, limit, &c.list[g*c.room], &c.now[g*c.room*8],
			c.size[g], c.room, &c.p[g*c.arms*8],
			&c.w[0], c.arms, &c.row(g, 0)[0], c.n, &base[0], by, &c.leads[g], c.mask)
		if size < 0 {
			return false
		}
		c.size[g] = size
		return true
	}
	l, size := &c.leads[g], c.size[g]
	for a, v := range c.deficit[g*c.ld:][:c.arms] {
		if !(v-c.rise[a] <= limit) {
			continue
		}
		if size == c.room {
			return false
		}
		c.deficit[g*c.ld+a] = math.Inf(1)
		c.list[g*c.room+size] = uint64(a)
		row := (*[8]float64)(c.now[(g*c.room+size)*8:])
		*row = *(*[8]float64)(c.p[(g*c.arms+a)*8:])
		for s := range c.n {
			h, w := c.row(g, s), c.w[s*c.arms+a]
			for k := range row {
				row[k] = math.FMA(w, h[k], row[k])
			}
		}
		for k, v := range row {
			l.add(0, k, a, math.FMA(by, v, base[a]))
			l.add(1, k, a, math.FMA(-by, v, base[a]))
		}
		size++
		c.size[g] = size
	}
	return true
}

// make makes the lists, after a look at scores that have seen all steps.
func (c *Shortlist) make(base []float64, by, slack float64) {
	if c.list == nil {
		c.room = c.arms/2 + 8
		c.w, c.h = make([]float64, ShortlistSteps*c.arms), make([]float64, c.panels*8*ShortlistSteps)
		c.zero = make([]float64, max(c.arms, 8))
		c.list, c.now, c.size = make([]uint64, c.panels*c.room), make([]float64, 8*c.panels*c.room),
			make([]int, c.panels)
		c.deficit, c.begin, c.limit = make([]float64, c.panels*c.ld), make([]float64, 16*c.panels),
			make([]float64, c.panels)
		c.base0, c.swing, c.rise = make([]float64, c.arms), make([]float64, c.arms), make([]float64, c.ld)
		for i := range c.deficit {
			c.deficit[i] = math.Inf(1)
		}
	}
	for a := range c.rise {
		c.rise[a] *= shortlistMargin
	}
	for g := range c.used {
		begin := (*[16]float64)(c.begin[16*g:])
		none := func(by float64) { // sets the leads of members that are not asked about
			for i := range begin {
				if i/8 >= c.signs || 8*g+i%8 >= c.members {
					begin[i] = by
				}
			}
		}
		for k := range c.leads[g].First {
			copy(begin[8*k:], c.leads[g].First[k][:])
		}
		none(math.Inf(1)) // every arm is far behind
		c.behind(g, base, by)
		none(math.Inf(-1)) // and will lose nothing
		c.size[g] = 0
		if !c.join(g, float64(shortlistMargin*max(c.limit[g], 0))+slack, base, by) {
			c.giveUp()
			return
		}
	}
	copy(c.base0, base)
	clear(c.swing)
	c.c0, c.listed = by, true
}

// giveUp goes without lists for a while, longer each time until they have lasted.
func (c *Shortlist) giveUp() {
	c.pause = max(shortlistPause, min(2*c.dull, shortlistMost))
	c.dull = c.pause
	c.forget()
}

// forget forgets how far arms came near the lead.
func (c *Shortlist) forget() {
	clear(c.rise)
	clear(c.limit)
}

// behind sets the deficits of a panel.
func (c *Shortlist) behind(g int, base []float64, by float64) {
	begin := (*[16]float64)(c.begin[16*g:])
	switch level := cpu.Kernels(); level {
	case cpu.AVX512:
		shortlistBehindAVX512(&c.deficit[g*c.ld], &c.p[g*c.arms*8], &base[0], c.arms, by, &begin[0])
		return
	case cpu.AVX2:
		shortlistBehindAVX2(&c.deficit[g*c.ld], &c.p[g*c.arms*8], &base[0], c.arms, by, &begin[0])
		return
	}
	for a, b := range base {
		row := (*[8]float64)(c.p[(g*c.arms+a)*8:])
		least := math.Inf(1)
		for k, v := range row {
			least = min(least, begin[k]-math.FMA(by, v, b), begin[8+k]-math.FMA(-by, v, b))
		}
		c.deficit[g*c.ld+a] = least
	}
}

// Listed reports whether the next look is at lists, and returns the number of arms on them, for tests.
func (c *Shortlist) Listed() (arms int, listed bool) {
	for _, n := range c.size {
		arms += n
	}
	return arms, c.listed
}
