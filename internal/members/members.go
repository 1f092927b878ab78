// Package members keeps the sums of an accumulated ensemble,
//
//	S_t^j = S_0^j + Σ_{i≤t} U_i^j X_i,  j = 1, …, m,
//
// with targets U_i^j that are functions of (round, j). It knows no regression and chooses no action:
// package policy adds a step to a Sums after each update and reads rows of it.
//
// Each number of S is added up over time in order, by one fused multiply-add for a step. So it does
// not matter when a step enters which row, and three engines give the same bits:
//
//	eager    every step enters every row at once. Best while S stays in the first cache.
//	blocked  steps wait; every 64 rounds they enter all rows, 16 members × 64 steps × all features at
//	         a time, and S crosses the memory once instead of 64 times. A row that is asked for in
//	         between is brought up to date in a copy.
//	lazy     all steps are kept; a row is brought up to date when it is asked for. Members that are
//	         never drawn cost nothing, so it wins while T is at most a few times m. Rows that the
//	         select stream is about to ask for are brought up to date together, 16 at a time.
//
// A step whose nonzero numbers lie in a short stretch of the features, as those of a disjoint model do, costs
// that stretch: it enters every row at once while the engine is eager or blocked.
package members

import (
	"cmp"
	"math"
	"slices"

	"troupe/internal/linalg"
	"troupe/rng"
)

// Names of the engines. Auto chooses by a model of the cost, and turns lazy into blocked when that
// has become the better engine.
const (
	Auto    = "auto"
	Eager   = "eager"
	Blocked = "blocked"
	Lazy    = "lazy"
)

// Config says what to keep.
type Config struct {
	Dim, Members int
	Horizon      int    // T; 0 when it is not known
	Engine       string // one of the names above; "" is Auto

	Law   rng.Law                            // of the targets, when Joint is nil
	Joint func(u []float64, draw rng.Source) // draws the targets of all members at once; the engine is Eager then
	First func(row []float64, j int)         // stores S_0^j, j from 0
}

// Sums holds S_t. Memory: m·d numbers (m rounded up to 16) and the steps that wait: eager none (and a
// table of targets), blocked 64·d, lazy T·d, at most LazySteps numbers.
//
// Reading never changes a number, it only moves work. Not safe for concurrent use.
type Sums struct {
	d, m    int
	law     rng.Law
	joint   func(u []float64, draw rng.Source)
	first   func(row []float64, j int)
	mode    mode
	auto    bool
	horizon int `horizon:"-"` // it chooses when work is done, not what it gives

	// Room for an even number of eights of members. Lazy keeps them row by row, because rows come alone
	// there: row j is d numbers from j·d. Otherwise eight rows are a panel, see linalg.Members; both have
	// the same eight rows in the same place.
	s []float64

	// Steps from, …, n−1 are not in every row: row k of x is step from+k. A run is a stretch of
	// steps whose sources are consecutive rounds of one stream.
	x       []float64
	runs    []run
	from, n int

	seen []int // lazy: steps 0, …, seen[j]−1 are in row j; −1 means that S_0^j is not drawn yet

	table table // eager: targets of the coming rounds
	asked table // targets that Targets was asked for

	// Lazy: what the select stream asks for next.
	last    rng.Source // of the last Expect
	window  rng.Source // rows asked for in the `ahead` rounds from here were up to date then
	outer   rng.Source // the same for the outer window
	reach   uint64     // and its rounds
	strange int        // sources that did not follow the one before
	numbers rng.Rows
	batch   []late
	groups  []group
	tiles   []*tile   // blocked: all members; lazy: those on their way
	targets []float64 // 16 members × (64 rounds and a quad); eager: of all members with joint
	along   [4 * rng.Lanes]float64
	row     []float64 // scratch
}

// run says that step at+k has the source src.Later(k), up to the next run.
type run struct {
	at  int
	src rng.Source
}

// group is 16 members on their way to the present, copied from S.
type group struct {
	tile
	start [rng.Lanes]int // seen, ascending
	lanes int            // members; further lanes repeat the last
}

// mode is when steps enter rows: the engine as a number.
type mode uint8

const (
	now      mode = iota // eager
	inBlocks             // blocked
	onDemand             // lazy
)

const (
	block = 64 // steps that enter S together

	// EagerSize is the number of entries of S up to which it is cheaper to add a step to all rows
	// than to bring the drawn row up to date: adding costs 0.025 ns an entry more than in a block,
	// a late row about 100 ns.
	EagerSize = 4096

	// lazyShare: lazy work is that up to a member's last draw, which for T = r·m rounds is a share
	// 1 − (1 − e^{−r})/r of all. At r = 4 they broke even when it cost 1.2 times as much a step; with the
	// outer window (below) it costs less, but T·d numbers of history are kept for it.
	lazyShare = 4

	// aloneShare is the same for a stream that cannot be predicted: rows come one by one, and a
	// step of one row costs as much as one of five rows in a block.
	aloneShare = 0.2

	// Lazy looks ahead in two windows. In a group of 16, rows that lack little wait for those that lack much: the
	// outer window has so many rows that those of a group lack about the same. Then they are all of one age, and
	// go on together from one small window to the next, so that a row that is drawn lacks 32 steps on average.
	ahead    = 64
	outAhead = 2048
)

// LazySteps bounds the numbers kept by lazy before all rows are brought up to date: 128 MB. It is a
// variable for tests.
var LazySteps = 1 << 24

// New returns S_0. The engine must be one of the names, the sizes positive: the caller has checked.
func New(c Config) *Sums {
	d, m, horizon := c.Dim, c.Members, c.Horizon
	e := &Sums{
		d: d, m: m, law: c.Law, joint: c.Joint, first: c.First, horizon: horizon,
		s:   make([]float64, (m+rng.Lanes-1)/rng.Lanes*rng.Lanes*d),
		row: make([]float64, d),
	}
	switch c.Engine {
	case "", Auto:
		e.auto = true
		switch {
		case m*d <= EagerSize:
			e.mode = now
		case horizon == 0 || horizon <= lazyShare*m:
			e.mode = onDemand
		default:
			e.mode = inBlocks
		}
	case Eager:
		e.mode = now
	case Blocked:
		e.mode = inBlocks
	case Lazy:
		e.mode = onDemand
	default:
		panic("members: unknown engine " + c.Engine)
	}
	if e.mode != now {
		e.targets = make([]float64, tileSize)
	}
	if e.mode == onDemand {
		e.seen = make([]int, m)
		for j := range e.seen {
			e.seen[j] = -1
		}
		if horizon > 0 {
			e.x = make([]float64, 0, min(horizon*d, LazySteps))
		}
		return e
	}
	if e.mode == inBlocks {
		e.blocks()
	}
	for j := range m {
		e.first(e.row, j)
		e.Store(j, e.row)
	}
	return e
}

// blocks prepares what blocked needs.
func (e *Sums) blocks() {
	e.x = make([]float64, 0, block*e.d)
	groups := make([]tile, len(e.s)/(rng.Lanes*e.d))
	e.tiles = e.tiles[:0]
	for k := range groups {
		g := &groups[k]
		g.S = e.s[k*rng.Lanes*e.d : (k+1)*rng.Lanes*e.d]
		for i := range g.Members {
			g.Members[i] = uint32(k*rng.Lanes + i)
		}
		e.tiles = append(e.tiles, g)
	}
}

// at returns the place of feature 0 of row j in its panel; feature i is 8i further.
func (e *Sums) at(j int) int { return j&^7*e.d + j&7 }

// line returns row j as lazy keeps it.
func (e *Sums) line(j int) []float64 { return e.s[j*e.d : j*e.d+e.d] }

// Store copies a row of d numbers to row j of S. Call it while Eager.
func (e *Sums) Store(j int, row []float64) {
	if e.mode == onDemand {
		copy(e.line(j), row)
		return
	}
	for i, at := 0, e.at(j); i < len(row); i, at = i+1, at+8 {
		e.s[at] = row[i]
	}
}

// Fetch copies row j of S to row. Call it while Eager.
func (e *Sums) Fetch(row []float64, j int) {
	if e.mode == onDemand {
		copy(row, e.line(j))
		return
	}
	for i, at := 0, e.at(j); i < len(row); i, at = i+1, at+8 {
		row[i] = e.s[at]
	}
}

// Panels returns rows 16g, …, 16g+15 as two panels (linalg.Members): where they lie, or, for lazy, in
// scratch, which has 16d numbers. Call Settle first.
func (e *Sums) Panels(scratch []float64, g int) []float64 {
	lie := e.s[g*rng.Lanes*e.d : (g+1)*rng.Lanes*e.d]
	if e.mode != onDemand {
		return lie
	}
	toPanel(scratch[:8*e.d], lie, e.d)
	toPanel(scratch[8*e.d:16*e.d], lie[8*e.d:], e.d)
	return scratch[:16*e.d]
}

// toPanel stores eight rows of d numbers as a panel.
func toPanel(panel, rows []float64, d int) {
	r0, r1, r2, r3 := rows[:d], rows[d:2*d], rows[2*d:3*d], rows[3*d:4*d]
	r4, r5, r6, r7 := rows[4*d:5*d], rows[5*d:6*d], rows[6*d:7*d], rows[7*d:8*d]
	for i := range d {
		p := (*[8]float64)(panel[8*i:])
		p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7] = r0[i], r1[i], r2[i], r3[i], r4[i], r5[i], r6[i], r7[i]
	}
}

// Add performs S^j ← S^j + U^j x for all j, the targets being the column layout of draw.
func (e *Sums) Add(x []float64, draw rng.Source) {
	from, to, narrow := e.narrow(x)
	switch {
	case narrow && e.mode == inBlocks:
		e.Settle()
	case narrow && e.mode == onDemand && e.auto && e.m*(to-from) <= EagerSize:
		e.settleInBlocks()
	}
	if e.mode == now || narrow && e.mode == inBlocks {
		lanes := (e.m + 7) &^ 7
		var u []float64
		if e.joint == nil {
			u = e.table.at(draw, e.m, e.law)
		} else {
			if len(e.targets) < lanes {
				e.targets = make([]float64, lanes)
			}
			e.joint(e.targets[:e.m], draw)
			u = e.targets
		}
		if !narrow {
			linalg.AddPanels(e.s[:lanes*e.d], u[:e.m], x)
			return
		}
		for j := 0; j < e.m; j += 8 {
			linalg.AddPanels(e.s[j*e.d+8*from:j*e.d+8*to], u[j:min(j+8, e.m)], x[from:to])
		}
		return
	}
	if k := len(e.runs); k == 0 || e.runs[k-1].src.Later(uint64(e.n-e.runs[k-1].at)) != draw {
		e.runs = append(e.runs, run{e.n, draw})
	}
	e.x = append(e.x, x...)
	e.n++
	switch {
	case e.mode == inBlocks:
		if e.n-e.from >= block || (draw.At()+1)%block == 0 {
			e.Settle()
		}
	case e.auto && e.n > e.limit():
		e.settleInBlocks()
	case len(e.x)+e.d > max(LazySteps, block*e.d):
		e.Settle()
	}
}

// narrowFrom is the number of features from which on a step is looked at: where its nonzero numbers lie in a quarter of
// them, as those of a disjoint model do, it enters all rows at once, in these features, whatever the engine.
const narrowFrom = 64

// narrow returns the stretch of features outside which x is 0, and whether it is short.
func (e *Sums) narrow(x []float64) (from, to int, narrow bool) {
	if e.d < narrowFrom {
		return 0, e.d, false
	}
	from, to = linalg.Support(x)
	return from, to, 4*(to-from) <= e.d && from < to
}

// settleInBlocks brings every row up to date and turns lazy into blocked.
func (e *Sums) settleInBlocks() {
	e.Settle()
	rows := make([]float64, 8*e.d)
	for at := 0; at < len(e.s); at += len(rows) {
		copy(rows, e.s[at:])
		toPanel(e.s[at:], rows, e.d)
	}
	e.mode, e.seen, e.batch, e.groups = inBlocks, nil, nil, nil
	e.blocks()
}

// limit is the number of steps after which lazy is no longer the best engine.
func (e *Sums) limit() int {
	switch {
	case e.strange > 16+e.n/16:
		return int(aloneShare * float64(e.m))
	case e.horizon > 0 && e.horizon <= lazyShare*e.m:
		return e.horizon
	}
	return lazyShare * e.m
}

// Load stores S^j in dst, d numbers.
func (e *Sums) Load(dst []float64, j int) {
	if e.mode == onDemand {
		copy(dst, e.current(j))
		return
	}
	e.Fetch(dst, j)
	if e.mode == inBlocks && e.from < e.n {
		e.walk(dst, j, e.from)
	}
}

// current brings row j up to date, for lazy, and returns it where it lies.
func (e *Sums) current(j int) []float64 {
	row, seen := e.line(j), e.seen[j]
	if seen < 0 {
		e.first(row, j)
		seen = 0
	}
	if seen < e.n {
		e.walk(row, j, seen)
	}
	e.seen[j] = e.n
	return row
}

// Engine returns the name of the engine that keeps S now.
func (e *Sums) Engine() string {
	return [...]string{now: Eager, inBlocks: Blocked, onDemand: Lazy}[e.mode]
}

// Eager reports whether every row is always up to date and the targets of the members are independent:
// then Fetch and Store move whole rows.
func (e *Sums) Eager() bool { return e.mode == now && e.joint == nil }

// Law returns the law of independent targets.
func (e *Sums) Law() rng.Law { return e.law }

// Targets stores the targets of all members in the round of draw in u, which has room for m numbers,
// rounded up to a multiple of rng.Lanes.
func (e *Sums) Targets(u []float64, draw rng.Source) {
	if e.joint != nil {
		e.joint(u[:e.m], draw)
		return
	}
	copy(u, e.asked.at(draw, e.m, e.law))
}

// LargestTarget bounds |U| for any target that is ever drawn.
func (e *Sums) LargestTarget() float64 {
	switch {
	case e.joint != nil:
		return max(7, 2*math.Sqrt(float64(e.m)))
	case e.law == rng.NormalLaw:
		return 7
	}
	return 1
}

// View returns S^j as d numbers that are step apart, step 1 or 8: where it lies, or in scratch, which has d
// numbers. It is valid until the next call of a method and must not be changed.
func (e *Sums) View(scratch []float64, j int) (s []float64, step int) {
	switch {
	case e.mode == onDemand:
		return e.current(j), 1
	case e.mode == now || e.from == e.n:
		return e.s[e.at(j):], 8
	}
	e.Load(scratch, j)
	return scratch, 1
}

// walk adds the steps from, …, n−1 to row j.
func (e *Sums) walk(row []float64, j, from int) {
	e.stretches(from, e.n, func(a, b int, src rng.Source) {
		src.FillRounds(&e.along, uint32(j), e.law)
		linalg.AddSteps(row, &e.along, int(src.At()%4), e.steps(a, b))
	})
}

func (e *Sums) steps(a, b int) []float64 { return e.x[(a-e.from)*e.d : (b-e.from)*e.d] }

// stretches cuts the steps a, …, b−1 into stretches of consecutive rounds of one stream that do not
// cross a multiple of 64. src is the source of the first step of a stretch.
func (e *Sums) stretches(a, b int, f func(a, b int, src rng.Source)) {
	k, _ := slices.BinarySearchFunc(e.runs, a+1, func(r run, t int) int { return cmp.Compare(r.at, t) })
	for k--; a < b; k++ {
		end := b
		if k+1 < len(e.runs) {
			end = min(b, e.runs[k+1].at)
		}
		for a < end {
			src := e.runs[k].src.Later(uint64(a - e.runs[k].at))
			to := min(end, a+block-int(src.At()%block))
			f(a, to, src)
			a = to
		}
	}
}

// Settle brings every row up to date and forgets the steps that waited.
func (e *Sums) Settle() {
	if e.mode == onDemand {
		order := make([]late, e.m)
		for j := range order {
			order[j] = e.late(j)
		}
		e.catchUp(order)
	} else if e.from < e.n {
		e.stretches(e.from, e.n, func(a, b int, src rng.Source) {
			addTiles(e.tiles, src, e.steps(a, b), e.d, e.law, e.targets)
		})
	}
	e.x, e.runs, e.from = e.x[:0], e.runs[:0], e.n
}

// Expect says that View is about to be called for the member that number 0 of draw chooses, draw being a
// source of the select stream. When that stream has been walking through consecutive rounds, lazy
// computes which rows the next rounds need and brings them up to date together, which costs a fourth
// of doing it one by one. A wrong guess wastes work and changes nothing. It does not look beyond a known
// horizon, or far beyond an eighth of the rounds so far. The other engines ignore it.
func (e *Sums) Expect(draw rng.Source) {
	if e.mode == onDemand {
		e.prepare(draw)
	}
}

// prepare is Expect for lazy.
func (e *Sums) prepare(draw rng.Source) {
	if draw == e.last {
		return
	}
	next := false
	for k := range uint64(4) { // a wrapper may leave rounds out
		next = next || e.last.Later(k+1) == draw
	}
	if !next {
		e.strange++
	}
	e.last = draw
	if inside := draw.At() - e.window.At(); !next || (inside < ahead && e.window.Later(inside) == draw) {
		return
	}
	e.window = draw
	left := uint64(max(e.n/8, ahead)) // a stream may end at any time, and a horizon is one that is known
	if e.horizon > 0 {
		left = uint64(max(e.horizon-e.n, 1))
	}
	if inside := draw.At() - e.outer.At(); inside >= e.reach || e.outer.Later(inside) != draw {
		e.outer, e.reach = draw, min(outAhead, left)
		e.meet(draw, e.reach)
	}
	e.meet(draw, min(ahead, left))
}

// meet brings the rows up to date that draw and the rounds after it ask for, n in all.
func (e *Sums) meet(draw rng.Source, n uint64) {
	e.batch = slices.Grow(e.batch[:0], int(n))
	for k := range n {
		if j := e.numbers.Intn(draw.Later(k), 0, e.m); e.seen[j] < e.n {
			e.batch = append(e.batch, e.late(j))
		}
	}
	e.catchUp(e.batch)
}

// late is a row, and how far it is: seen + 1 in the upper half, the row in the lower one.
type late uint64

func (e *Sums) late(j int) late { return late(e.seen[j]+1)<<32 | late(j) }

func (l late) row() int { return int(uint32(l)) }

// catchUp brings rows up to date, the ones that are late by the most first, as many at a time as leave
// room in the second cache. It sorts them; a row may come twice.
func (e *Sums) catchUp(rows []late) {
	slices.Sort(rows)
	for rows = slices.Compact(rows); len(rows) > 0; {
		k := min(len(rows), 16*rng.Lanes)
		e.advance(rows[:k])
		rows = rows[k:]
	}
}

// advance brings rows up to date, side by side. They are sorted; no row comes twice.
func (e *Sums) advance(rows []late) {
	d, width := e.d, rng.Lanes*e.d
	n := (len(rows) + rng.Lanes - 1) / rng.Lanes
	for len(e.groups) < n {
		e.groups = append(e.groups, group{tile: tile{S: make([]float64, width)}})
	}
	groups := e.groups[:n]
	begin := e.n
	for k := range groups {
		g := &groups[k]
		mine := rows[k*rng.Lanes : min(len(rows), (k+1)*rng.Lanes)]
		g.lanes = len(mine)
		for i := range g.Members {
			j := mine[min(i, len(mine)-1)].row()
			g.Members[i], g.start[i] = uint32(j), max(e.seen[j], 0)
		}
		begin = min(begin, g.start[0])
	}
	// put copies the row of lane i into the group: its time has come. A lane holds any numbers before, and
	// where the group has no member for it: they are not read.
	put := func(g *group, i int) {
		j := int(g.Members[i])
		row := e.line(j)
		if e.seen[j] < 0 {
			row = e.row // nearer than where it will lie
			e.first(row, j)
		}
		s := g.S[i/8*d*8+i%8:]
		for f, v := range row {
			s[8*f] = v
		}
	}
	e.stretches(begin, e.n, func(a, b int, src rng.Source) {
		e.tiles = e.tiles[:0]
		for k := range groups {
			g := &groups[k]
			if g.start[0] >= b {
				break // so are those of the later groups
			}
			var u []float64
			for i, at := 0, a; at < b; {
				for ; i < g.lanes && g.start[i] <= at; i++ {
					if g.start[i] == at {
						put(g, i)
					}
				}
				to := b
				if i < g.lanes {
					to = min(b, g.start[i])
				}
				switch {
				case to-at == b-a:
					e.tiles = append(e.tiles, &g.tile)
				case i > 0:
					if u == nil {
						u = tileTargets(src, &g.Members, b-a, e.law, e.targets)
					}
					linalg.AddTile(g.S, u[(at-a)*rng.Lanes:(to-a)*rng.Lanes], e.steps(at, to), d)
				}
				at = to
			}
		}
		addTiles(e.tiles, src, e.steps(a, b), d, e.law, e.targets)
	})
	for k := range groups {
		g := &groups[k]
		for i := range g.lanes {
			j := int(g.Members[i])
			if g.start[i] == e.n { // a row that is drawn for the first time before any step
				put(g, i)
			}
			row, s := e.line(j), g.S[i/8*d*8+i%8:]
			for f := range row {
				row[f] = s[8*f]
			}
			e.seen[j] = e.n
		}
	}
}

// Read stores S in dst, m×d numbers row by row.
func (e *Sums) Read(dst []float64) {
	e.Settle()
	for j := range e.m {
		e.Fetch(dst[j*e.d:j*e.d+e.d], j)
	}
}

// Owed returns about how many multiply-adds Settle has to do: what the rows lack.
func (e *Sums) Owed() int {
	if e.mode != onDemand {
		return (e.n - e.from) * e.m * e.d
	}
	steps := 0
	for _, seen := range e.seen {
		steps += e.n - max(seen, 0)
	}
	return steps * e.d
}

// Write replaces S by src, m×d numbers row by row. Steps that waited are dropped.
func (e *Sums) Write(src []float64) {
	e.x, e.runs, e.from = e.x[:0], e.runs[:0], e.n
	for j := range e.m {
		e.Store(j, src[j*e.d:j*e.d+e.d])
	}
	for j := range e.seen {
		e.seen[j] = e.n
	}
}

// table keeps the targets of all members in coming rounds, so that a call of the generator has
// enough to do. It is a cache and changes no number.
type table struct {
	src    rng.Source // round of row 0, a multiple of 4
	rounds int        // 0: there are none
	next   rng.Source // the round after the last one asked for
	k      int        // its row, if there is one
	stride int
	u      []float64 // rounds × stride
}

// tableSize bounds the table: it should leave room in the first cache.
const tableSize = 1024

// most returns the number of groups of four rounds of a full table.
func (*table) most(stride int) int { return max(1, min(tableSize/stride/4, 8)) }

// at returns the targets of members 0, …, m−1 (and a few more) in a round.
func (c *table) at(draw rng.Source, m int, law rng.Law) []float64 {
	if c.k >= c.rounds || draw != c.next {
		c.fill(draw, m, law)
	}
	row := c.u[c.k*c.stride:][:c.stride]
	c.k++
	c.next = draw.Later(1)
	return row
}

// fill computes the row of a round, and more, unless it is there, and sets k to its place.
func (c *table) fill(draw rng.Source, m int, law rng.Law) {
	stride := (m + rng.Lanes - 1) / rng.Lanes * rng.Lanes
	k := draw.At() - c.src.At()
	if k >= uint64(c.rounds) || c.src.Later(k) != draw {
		k = draw.At() % 4
		quads := 1
		if c.rounds > 0 && c.next == draw { // rounds come in order, so the coming ones will be asked for
			quads = c.most(stride)
		}
		if c.u == nil {
			c.u = make([]float64, stride*4*c.most(stride))
		}
		c.src, c.rounds, c.stride = draw.Later(-k), 4*quads, stride
		var ids [rng.Lanes]uint32
		for j := 0; j < stride; j += rng.Lanes {
			for i := range ids {
				ids[i] = uint32(min(j+i, m-1)) // what fills up the last panel is never read
			}
			c.src.FillMembers(c.u[j:], stride, &ids, quads, law)
		}
	}
	c.k = int(k)
}
