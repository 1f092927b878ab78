package actionset

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"troupe/bandit"
)

// Oracle maximises a linear function over a non-empty family of subsets of {0, …, n−1}, each
// written as a 0/1 vector. It is immutable and safe for concurrent use.
type Oracle interface {
	// Dim returns n.
	Dim() int
	// Size returns the largest number of elements of a member: √Size is the largest norm.
	Size() int
	// ArgMax sets in to a member with the largest Σ_{i ∈ member} weights[i]; equal weights give the
	// same member. Both slices have length n, do not overlap, and the weights are finite.
	ArgMax(in []bool, weights []float64)
}

// Family is an Oracle that can tell its members.
type Family interface {
	Oracle
	// Member reports whether a subset belongs to the family.
	Member(in []bool) bool
}

// Combinatorial is the set {f·1_S : S in the family of an Oracle}, 1_S the 0/1 vector of S. It is
// finite but does not list its elements: it is no bandit.Finite and its actions have no index.
type Combinatorial struct {
	oracle Oracle
	factor float64
	pool   sync.Pool // *[]bool of length n
}

// NewCombinatorial returns the set of the oracle's 0/1 vectors times factor; factor 0 stands for
// 1/√Size, which brings the set into the unit ball.
func NewCombinatorial(o Oracle, factor float64) (*Combinatorial, error) {
	if err := checkDim(o.Dim()); err != nil {
		return nil, err
	}
	if factor == 0 {
		factor = 1 / math.Sqrt(float64(max(1, o.Size())))
	}
	if !(factor > 0 && factor <= limit) {
		return nil, fmt.Errorf("actionset: factor is %v, expected a positive number, or 0 for 1/√%d", factor, o.Size())
	}
	c := &Combinatorial{oracle: o, factor: factor}
	c.pool.New = func() any { in := make([]bool, o.Dim()); return &in }
	return c, nil
}

// Dim returns n.
func (c *Combinatorial) Dim() int { return c.oracle.Dim() }

// Oracle returns the oracle.
func (c *Combinatorial) Oracle() Oracle { return c.oracle }

// Radius returns factor·√Size.
func (c *Combinatorial) Radius() float64 { return c.factor * math.Sqrt(float64(c.oracle.Size())) }

// Factor returns the value of the entries that are not 0.
func (c *Combinatorial) Factor() float64 { return c.factor }

// ArgMax returns f·1_S for the oracle's S.
func (c *Combinatorial) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	n := c.oracle.Dim()
	if err := check(theta, n); err != nil {
		return 0, err
	}
	p := c.pool.Get().(*[]bool)
	in := *p
	c.oracle.ArgMax(in, theta)
	x := grow(dst, n)
	var value float64
	for i, yes := range in {
		x[i] = 0
		if yes {
			x[i] = c.factor
			value += float64(c.factor * theta[i])
		}
	}
	c.pool.Put(p)
	return value, nil
}

// Contains reports whether x is within tol of a member in every coordinate. It panics when the
// oracle is not a Family; all oracles of this package are.
func (c *Combinatorial) Contains(x []float64, tol float64) bool {
	checkPoint(x, c.Dim())
	in := make([]bool, len(x))
	for i, v := range x {
		in[i] = v > c.factor/2
		want := 0.0
		if in[i] {
			want = c.factor
		}
		if !(math.Abs(v-want) <= tol) {
			return false
		}
	}
	return c.oracle.(Family).Member(in)
}

// heavier orders elements by decreasing weight, equals by number: a strict order, so sorting by it
// has one result.
func heavier(weights []float64) func(a, b int) int {
	return func(a, b int) int {
		switch {
		case weights[a] > weights[b]:
			return -1
		case weights[a] < weights[b]:
			return 1
		}
		return a - b
	}
}

func numbered(order []int) {
	for i := range order {
		order[i] = i
	}
}

// MSets is the family of the k-element subsets of n coordinates.
type MSets struct {
	n, k int
	pool sync.Pool // *[]int of length n
}

// NewMSets returns the subsets of size k, 1 ≤ k ≤ n.
func NewMSets(n, k int) (*MSets, error) {
	if err := checkDim(n); err != nil {
		return nil, err
	}
	if k < 1 || k > n {
		return nil, fmt.Errorf("actionset: k is %d, expected 1 to %d, the dimension", k, n)
	}
	m := &MSets{n: n, k: k}
	m.pool.New = func() any { order := make([]int, n); return &order }
	return m, nil
}

// Dim returns n.
func (m *MSets) Dim() int { return m.n }

// Size returns k.
func (m *MSets) Size() int { return m.k }

// ArgMax picks the k heaviest coordinates, the lower among equals: of the best subsets the
// lexicographically first. Cost: n·log n comparisons.
func (m *MSets) ArgMax(in []bool, weights []float64) {
	p := m.pool.Get().(*[]int)
	order := *p
	numbered(order)
	slices.SortFunc(order, heavier(weights))
	clear(in)
	for _, i := range order[:m.k] {
		in[i] = true
	}
	m.pool.Put(p)
}

// Member reports whether exactly k coordinates are in.
func (m *MSets) Member(in []bool) bool {
	k := 0
	for _, yes := range in {
		if yes {
			k++
		}
	}
	return k == m.k
}

// Paths is the family of the paths from a source to a sink of a directed graph without cycles;
// coordinate e is edge e.
type Paths struct {
	edges        [][2]int
	source, sink int
	order        []int   // nodes that reach the sink, the sink first, every node after its heads
	out          [][]int // out[v]: edges from v to nodes that reach the sink, ascending
	size         int
	pool         sync.Pool // *pathScratch
}

type pathScratch struct {
	best   []float64 // heaviest path from the node to the sink
	choice []int     // its first edge
}

// NewPaths returns the paths from source to sink in the graph with the given edges (from, to) on
// nodes 0, 1, …. It refuses negative nodes, cycles, and a sink that the source does not reach. An
// edge that lies on no such path is allowed: its coordinate is always 0.
func NewPaths(edges [][2]int, source, sink int) (*Paths, error) {
	if len(edges) == 0 {
		return nil, fmt.Errorf("actionset: edges is empty, expected at least one edge")
	}
	nodes, err := countNodes(edges)
	if err != nil {
		return nil, err
	}
	if source < 0 || source >= nodes || sink < 0 || sink >= nodes || source == sink {
		return nil, fmt.Errorf("actionset: source is %d and sink is %d, expected two different nodes below %d", source,
			sink, nodes)
	}

	peeled, err := peel(edges, nodes)
	if err != nil {
		return nil, err
	}
	p := &Paths{edges: slices.Clone(edges), source: source, sink: sink, out: make([][]int, nodes)}
	reaches := make([]bool, nodes)
	reaches[sink] = true
	for e, uv := range edges { // ascending edges in every list
		p.out[uv[0]] = append(p.out[uv[0]], e)
	}
	for _, v := range peeled {
		if v == sink {
			p.out[v] = nil // a path ends at the sink
			p.order = append(p.order, v)
			continue
		}
		p.out[v] = slices.DeleteFunc(p.out[v], func(e int) bool { return !reaches[edges[e][1]] })
		if len(p.out[v]) > 0 {
			reaches[v] = true
			p.order = append(p.order, v)
		}
	}
	if !reaches[source] {
		return nil, fmt.Errorf("actionset: there is no path from node %d to node %d", source, sink)
	}
	p.pool.New = func() any { return &pathScratch{make([]float64, nodes), make([]int, nodes)} }

	// The longest path is the heaviest one when every edge weighs 1.
	ones := make([]float64, len(edges))
	for i := range ones {
		ones[i] = 1
	}
	in := make([]bool, len(edges))
	p.ArgMax(in, ones)
	for _, yes := range in {
		if yes {
			p.size++
		}
	}
	return p, nil
}

// peel orders the nodes so that heads come before tails: it takes off nodes without outgoing edges, which is Kahn's
// algorithm backwards. An edge on a cycle is an error.
func peel(edges [][2]int, nodes int) ([]int, error) {
	pending := make([]int, nodes)
	into := make([][]int, nodes)
	for e, uv := range edges {
		pending[uv[0]]++
		into[uv[1]] = append(into[uv[1]], e)
	}
	var peeled []int
	for v, n := range pending {
		if n == 0 {
			peeled = append(peeled, v)
		}
	}
	for i := 0; i < len(peeled); i++ {
		for _, e := range into[peeled[i]] {
			u := edges[e][0]
			if pending[u]--; pending[u] == 0 {
				peeled = append(peeled, u)
			}
		}
	}
	if len(peeled) < nodes {
		// Every node left has an edge to a node left: walk until the walk must be on a cycle.
		var on int
		for e, steps := 0, 0; steps <= nodes; e = (e + 1) % len(edges) {
			if u, v := edges[e][0], edges[e][1]; pending[v] > 0 && (steps == 0 || u == edges[on][1]) {
				on = e
				steps++
			}
		}
		return nil, fmt.Errorf("actionset: edges[%d] = [%d, %d] is on a cycle, expected a graph without cycles", on,
			edges[on][0], edges[on][1])
	}
	return peeled, nil
}

// countNodes returns 1 + the largest node number.
func countNodes(edges [][2]int) (int, error) {
	nodes := 0
	for e, uv := range edges {
		for _, v := range uv {
			// A node without edges costs memory and means nothing, so a number far beyond
			// what the edges can use is a mistake.
			if v < 0 || v > 2*len(edges) {
				return 0, fmt.Errorf("actionset: edges[%d] = [%d, %d], expected nodes from 0 to at most %d (twice "+
					"the number of edges)", e, uv[0], uv[1], 2*len(edges))
			}
			nodes = max(nodes, v+1)
		}
	}
	return nodes, nil
}

// NewLayeredPaths returns the paths through layers ≥ 1 layers of width ≥ 1 nodes: from the source
// (node 0) to every node of the first layer, from every node of a layer to every node of the next,
// from every node of the last layer to the sink (the last node). Each path has layers+1 edges,
// there are width^layers of them in dimension 2·width + (layers−1)·width².
func NewLayeredPaths(layers, width int) (*Paths, error) {
	if layers < 1 || width < 1 || layers > maxSize/width/width {
		return nil, fmt.Errorf("actionset: layers is %d and width is %d, expected both at least 1 and layers·width² "+
			"at most %d", layers, width, maxSize)
	}
	var edges [][2]int
	for i := range width {
		edges = append(edges, [2]int{0, 1 + i})
	}
	for l := range layers - 1 {
		for i := range width {
			for j := range width {
				edges = append(edges, [2]int{1 + l*width + i, 1 + (l+1)*width + j})
			}
		}
	}
	sink := 1 + layers*width
	for i := range width {
		edges = append(edges, [2]int{1 + (layers-1)*width + i, sink})
	}
	return NewPaths(edges, 0, sink)
}

// Dim returns the number of edges.
func (p *Paths) Dim() int { return len(p.edges) }

// Size returns the number of edges of the longest path.
func (p *Paths) Size() int { return p.size }

// ArgMax finds the heaviest path by dynamic programming from the sink: best(v) = max over edges
// e = (v, w) of weights[e] + best(w), the lower edge among equals. Cost: one addition for an edge.
func (p *Paths) ArgMax(in []bool, weights []float64) {
	s := p.pool.Get().(*pathScratch)
	for _, v := range p.order {
		if v == p.sink {
			s.best[v] = 0
			continue
		}
		best, choice := math.Inf(-1), -1
		for _, e := range p.out[v] {
			if b := weights[e] + s.best[p.edges[e][1]]; b > best {
				best, choice = b, e
			}
		}
		s.best[v], s.choice[v] = best, choice
	}
	clear(in)
	for v := p.source; v != p.sink; v = p.edges[s.choice[v]][1] {
		in[s.choice[v]] = true
	}
	p.pool.Put(s)
}

// Member reports whether the edges are exactly those of one path from source to sink.
func (p *Paths) Member(in []bool) bool {
	left := 0
	for _, yes := range in {
		if yes {
			left++
		}
	}
	for v := p.source; v != p.sink; left-- {
		next := -1
		for _, e := range p.out[v] {
			if in[e] {
				if next >= 0 {
					return false
				}
				next = e
			}
		}
		if next < 0 {
			return false
		}
		v = p.edges[next][1]
	}
	return left == 0
}

// SpanningTrees is the family of the spanning trees of a connected undirected graph; coordinate e
// is edge e.
type SpanningTrees struct {
	edges [][2]int
	nodes int
	pool  sync.Pool // *treeScratch
}

type treeScratch struct{ order, parent []int }

// NewSpanningTrees returns the spanning trees of the graph with the given edges on nodes 0, 1, ….
// It refuses loops and graphs that are not connected. Parallel edges are allowed.
func NewSpanningTrees(edges [][2]int) (*SpanningTrees, error) {
	if len(edges) == 0 {
		return nil, fmt.Errorf("actionset: edges is empty, expected at least one edge")
	}
	nodes, err := countNodes(edges)
	if err != nil {
		return nil, err
	}
	for e, uv := range edges {
		if uv[0] == uv[1] {
			return nil, fmt.Errorf("actionset: edges[%d] = [%d, %d] is a loop", e, uv[0], uv[1])
		}
	}
	t := &SpanningTrees{edges: slices.Clone(edges), nodes: nodes}
	t.pool.New = func() any { return &treeScratch{make([]int, len(edges)), make([]int, nodes)} }
	in := make([]bool, len(edges))
	t.ArgMax(in, make([]float64, len(edges)))
	if !t.Member(in) {
		return nil, fmt.Errorf("actionset: the graph of %d nodes and %d edges is not connected", nodes, len(edges))
	}
	return t, nil
}

// NewCompleteTrees returns the spanning trees of the complete graph on n ≥ 2 nodes, n^{n−2} trees
// in dimension n(n−1)/2. Edges are numbered (0,1), (0,2), …, (1,2), ….
func NewCompleteTrees(n int) (*SpanningTrees, error) {
	if n < 2 || n > 1<<10 {
		return nil, fmt.Errorf("actionset: nodes is %d, expected 2 to %d", n, 1<<10)
	}
	var edges [][2]int
	for i := range n {
		for j := i + 1; j < n; j++ {
			edges = append(edges, [2]int{i, j})
		}
	}
	return NewSpanningTrees(edges)
}

// Dim returns the number of edges.
func (t *SpanningTrees) Dim() int { return len(t.edges) }

// Size returns the number of nodes less one.
func (t *SpanningTrees) Size() int { return t.nodes - 1 }

// ArgMax is Kruskal's algorithm with the heaviest edge first, the lower edge among equals. Cost:
// n·log n comparisons for n edges.
func (t *SpanningTrees) ArgMax(in []bool, weights []float64) {
	s := t.pool.Get().(*treeScratch)
	numbered(s.order)
	slices.SortFunc(s.order, heavier(weights))
	numbered(s.parent)
	clear(in)
	for _, e := range s.order {
		in[e] = join(s.parent, t.edges[e])
	}
	t.pool.Put(s)
}

// Member reports whether the edges form a spanning tree.
func (t *SpanningTrees) Member(in []bool) bool {
	parent := make([]int, t.nodes)
	numbered(parent)
	joined := 0
	for e, yes := range in {
		if yes {
			if !join(parent, t.edges[e]) {
				return false
			}
			joined++
		}
	}
	return joined == t.nodes-1
}

// join merges the two trees that an edge connects and reports whether they were different.
func join(parent []int, edge [2]int) bool {
	a, b := root(parent, edge[0]), root(parent, edge[1])
	parent[a] = b
	return a != b
}

func root(parent []int, v int) int {
	for parent[v] != v {
		parent[v] = parent[parent[v]] // path halving
		v = parent[v]
	}
	return v
}

// Assignments is the family of the perfect matchings of n rows to n columns, the n×n permutation
// matrices; coordinate i·n + j is row i with column j.
type Assignments struct {
	n    int
	pool sync.Pool // *matchScratch
}

type matchScratch struct {
	u, v, least []float64
	row, from   []int
	used        []bool
}

// NewAssignments returns the n! assignments of n ≥ 1 rows to n columns, in dimension n².
func NewAssignments(n int) (*Assignments, error) {
	if n < 1 || n > 1<<10 {
		return nil, fmt.Errorf("actionset: n is %d, expected 1 to %d", n, 1<<10)
	}
	a := &Assignments{n: n}
	a.pool.New = func() any {
		return &matchScratch{
			u: make([]float64, n+1), v: make([]float64, n+1), least: make([]float64, n+1),
			row: make([]int, n+1), from: make([]int, n+1), used: make([]bool, n+1),
		}
	}
	return a, nil
}

// Dim returns n².
func (a *Assignments) Dim() int { return a.n * a.n }

// Size returns n.
func (a *Assignments) Size() int { return a.n }

// ArgMax is the Hungarian method by shortest augmenting paths (Jonker and Volgenant 1987): rows are
// matched one after the other, each along a path of least reduced cost −w_ij − u_i − v_j, kept
// non-negative by the potentials u, v; the lower column among equals. Cost: O(n³).
func (a *Assignments) ArgMax(in []bool, weights []float64) {
	n := a.n
	s := a.pool.Get().(*matchScratch)
	clear(s.u)
	clear(s.v)
	clear(s.row) // row[j]: the row, from 1, that column j, from 1, is matched to; 0 for none
	for i := 1; i <= n; i++ {
		// Dijkstra from row i over columns; column 0 is where the new row waits.
		for j := range s.least {
			s.least[j], s.used[j] = math.Inf(1), false
		}
		s.row[0] = i
		at := 0
		for s.row[at] != 0 {
			s.used[at] = true
			r := s.row[at]
			delta, next := math.Inf(1), -1
			for j := 1; j <= n; j++ {
				if s.used[j] {
					continue
				}
				if c := -weights[(r-1)*n+j-1] - s.u[r] - s.v[j]; c < s.least[j] {
					s.least[j], s.from[j] = c, at
				}
				if s.least[j] < delta {
					delta, next = s.least[j], j
				}
			}
			for j := range s.least {
				if s.used[j] {
					s.u[s.row[j]] += delta
					s.v[j] -= delta
				} else {
					s.least[j] -= delta
				}
			}
			at = next
		}
		for at != 0 { // turn the path around
			s.row[at] = s.row[s.from[at]]
			at = s.from[at]
		}
	}
	clear(in)
	for j := 1; j <= n; j++ {
		in[(s.row[j]-1)*n+j-1] = true
	}
	a.pool.Put(s)
}

// Member reports whether there is exactly one element in each row and each column.
func (a *Assignments) Member(in []bool) bool {
	rows, cols := make([]int, a.n), make([]int, a.n)
	for e, yes := range in {
		if yes {
			rows[e/a.n]++
			cols[e%a.n]++
		}
	}
	for i := range a.n {
		if rows[i] != 1 || cols[i] != 1 {
			return false
		}
	}
	return true
}
