package actionset

import (
	"fmt"
	"math"
	"strings"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Builder makes the action sets of one kind. It is a pointer to the kind's options.
type Builder interface {
	spec.Documented
	// Dim returns the dimension of the sets in an environment whose d is as given, 0 for not
	// stated. Kinds that determine their dimension refuse another d; the others refuse 0.
	Dim(d int) (int, error)
	// Build returns the set of one replication, in dimension Dim(d). Kinds that draw arms take the
	// numbers of instance from 0 on; the others ignore it.
	Build(d int, instance rng.Source) (bandit.ActionSet, error)
}

// Redrawer is a Builder that can draw its arms anew in every round.
type Redrawer interface {
	Builder
	// Redraws reports whether it was asked to: the option redraw.
	Redraws() bool
	// Redraw returns the set of one round from the numbers of the round's rng.Offer source, from
	// 0 on. The law is that of Build.
	Redraw(d int, offer rng.Source) (bandit.ActionSet, error)
}

// Kinds is the registry of action sets; adding one is a line here and its function below.
var Kinds = spec.Registry[Builder]{
	"ball":           makeBall,
	"ellipsoid":      makeEllipsoid,
	"box":            makeBox,
	"simplex":        makeSimplex,
	"l1":             makeL,
	"polytope":       makePolytope,
	"finite":         makeFinite,
	"basis":          makeBasis,
	"hypercube":      makeHypercube,
	"random-sphere":  makeRandomSphere,
	"random-ball":    makeRandomBall,
	"random-cube":    makeRandomCube,
	"m-sets":         makeMSets,
	"paths":          makePaths,
	"spanning-trees": makeTrees,
	"assignments":    makeAssignments,
	"lists":          makeLists,
}

// Functions with names, and no literals: the linker then leaves the kinds out of a program that does not look them up.

func makeBall() Builder         { return &BallOptions{} }
func makeEllipsoid() Builder    { return &EllipsoidOptions{} }
func makeBox() Builder          { return &BoxOptions{} }
func makeSimplex() Builder      { return &SimplexOptions{} }
func makeL() Builder            { return &L1Options{} }
func makePolytope() Builder     { return &PolytopeOptions{} }
func makeFinite() Builder       { return &FiniteOptions{} }
func makeBasis() Builder        { return &BasisOptions{} }
func makeHypercube() Builder    { return &HypercubeOptions{} }
func makeRandomSphere() Builder { return &RandomSphereOptions{Arms: 50} }
func makeRandomBall() Builder   { return &RandomBallOptions{Arms: 50} }
func makeRandomCube() Builder   { return &RandomCubeOptions{Arms: 50} }
func makeMSets() Builder        { return &MSetsOptions{K: 2, Rescale: true} }
func makePaths() Builder        { return &PathsOptions{Layers: 2, Width: 2, Rescale: true} }
func makeTrees() Builder        { return &TreesOptions{Nodes: 4, Rescale: true} }
func makeAssignments() Builder  { return &AssignmentsOptions{N: 3, Rescale: true} }
func makeLists() Builder        { return &ListsOptions{Items: 5, Positions: 2} }

// Spec is one table such as { kind = "ball" }: the option `set` of an environment.
type Spec struct {
	Kind string
	Builder

	kinds *spec.Kinds // where its kind is looked up; nil for Kinds
}

// BindKinds implements spec.Binder.
func (s *Spec) BindKinds(kinds *spec.Kinds) { s.kinds = kinds }

// DecodeSpec reads the table v at path.
func (s *Spec) DecodeSpec(v any, path string) error {
	b, err := spec.DecodeTable(spec.In(s.kinds, Kinds), v, path)
	if err != nil {
		return err
	}
	if c, ok := b.(checker); ok {
		if err := c.check(); err != nil {
			return spec.Errorf(path, "%s", strings.TrimPrefix(err.Error(), "actionset: "))
		}
	}
	s.Kind, s.Builder = v.(spec.Raw)["kind"].(string), b
	return nil
}

// ExpandSpec multiplies out the sweeps in the table v.
func (s *Spec) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(spec.In(s.kinds, Kinds), v) }

// String returns the kind.
func (s Spec) String() string { return s.Kind }

// EachRound returns the builder when it draws new arms in every round.
func (s Spec) EachRound() (Redrawer, bool) {
	r, ok := s.Builder.(Redrawer)
	return r, ok && r.Redraws()
}

// checker is a Builder whose options can be wrong whatever the dimension is.
type checker interface{ check() error }

// fromEnvironment is the Dim of kinds that exist in every dimension.
func fromEnvironment(d int) (int, error) {
	if d < 1 {
		return 0, fmt.Errorf("d is %d, expected at least 1: this kind of set takes its dimension from the environment",
			d)
	}
	return d, nil
}

// own is the Dim of kinds that determine their dimension.
func own(set bandit.ActionSet, err error, d int) (int, error) {
	if err != nil {
		return 0, err
	}
	if d != 0 && d != set.Dim() {
		return 0, fmt.Errorf("d is %d, but the set has dimension %d", d, set.Dim())
	}
	return set.Dim(), nil
}

// fitOwn is the Build of kinds that determine their dimension.
func fitOwn(set Bounded, err error, d int, rescale bool) (bandit.ActionSet, error) {
	if _, err := own(set, err, d); err != nil {
		return nil, err
	}
	return Fit(set, rescale)
}

// BallOptions are the options of kind "ball".
type BallOptions struct{}

// Doc says what the kind is.
func (*BallOptions) Doc() string { return "the unit Euclidean ball" }

// Dim implements Builder.
func (*BallOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder.
func (o *BallOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) { return NewBall(d) }

// EllipsoidOptions are the options of kind "ellipsoid".
type EllipsoidOptions struct {
	Axes    []float64 `key:"axes" doc:"half axes, one for each coordinate"`
	Rescale bool      `key:"rescale" doc:"shrink into the unit ball instead of refusing"`
}

// Doc says what the kind is.
func (*EllipsoidOptions) Doc() string { return "the ellipsoid of all x with Σ (x_i/axes_i)² ≤ 1" }

func (o *EllipsoidOptions) check() error {
	_, err := o.Build(0, rng.Source{})
	return err
}

// Dim implements Builder: the number of axes.
func (o *EllipsoidOptions) Dim(d int) (int, error) {
	set, err := NewEllipsoidAxes(o.Axes)
	return own(set, err, d)
}

// Build implements Builder.
func (o *EllipsoidOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	set, err := NewEllipsoidAxes(o.Axes)
	return fitOwn(set, err, d, o.Rescale)
}

// BoxOptions are the options of kind "box".
type BoxOptions struct {
	HalfWidth float64   `key:"half_width" doc:"the box is [-half_width, half_width]^d; 0: 1/√d, the largest in the unit ball"`
	Lo        []float64 `key:"lo" doc:"lower ends, instead of half_width"`
	Hi        []float64 `key:"hi" doc:"upper ends, instead of half_width"`
	Rescale   bool      `key:"rescale" doc:"shrink into the unit ball instead of refusing"`
}

// Doc says what the kind is.
func (*BoxOptions) Doc() string { return "a box, by default [-1/√d, 1/√d]^d" }

func (o *BoxOptions) check() error {
	if o.HalfWidth < 0 {
		return fmt.Errorf("half_width is %v, expected 0 or more", o.HalfWidth)
	}
	if len(o.Lo)+len(o.Hi) == 0 {
		return nil
	}
	if o.HalfWidth != 0 {
		return fmt.Errorf("half_width and lo, hi exclude each other")
	}
	_, err := o.Build(0, rng.Source{})
	return err
}

// Dim implements Builder: the environment's, or the length of lo and hi.
func (o *BoxOptions) Dim(d int) (int, error) {
	if len(o.Lo)+len(o.Hi) == 0 {
		return fromEnvironment(d)
	}
	set, err := NewBox(o.Lo, o.Hi)
	return own(set, err, d)
}

// Build implements Builder.
func (o *BoxOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	d, err := o.Dim(d)
	if err != nil {
		return nil, err
	}
	if len(o.Lo) > 0 {
		set, err := NewBox(o.Lo, o.Hi)
		return fitOwn(set, err, d, o.Rescale)
	}
	c := o.HalfWidth
	if c == 0 {
		c = 1 / math.Sqrt(float64(d))
	}
	set, err := NewCube(d, c)
	return fitOwn(set, err, d, o.Rescale)
}

// SimplexOptions are the options of kind "simplex".
type SimplexOptions struct{}

// Doc says what the kind is.
func (*SimplexOptions) Doc() string { return "the probability simplex" }

// Dim implements Builder.
func (*SimplexOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder.
func (*SimplexOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) { return NewSimplex(d) }

// L1Options are the options of kind "l1".
type L1Options struct{}

// Doc says what the kind is.
func (*L1Options) Doc() string { return "the unit ball of the 1-norm (cross-polytope)" }

// Dim implements Builder.
func (*L1Options) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder.
func (*L1Options) Build(d int, _ rng.Source) (bandit.ActionSet, error) { return NewL1(d) }

// PolytopeOptions are the options of kind "polytope".
type PolytopeOptions struct {
	A       [][]float64 `key:"a" doc:"rows of the constraints a·x ≤ b"`
	B       []float64   `key:"b" doc:"right sides"`
	Rescale bool        `key:"rescale" doc:"shrink into the unit ball instead of refusing"`
}

// Doc says what the kind is.
func (*PolytopeOptions) Doc() string {
	return "the polytope of all x with a·x ≤ b, by linear programming"
}

func (o *PolytopeOptions) check() error {
	_, err := o.Build(0, rng.Source{})
	return err
}

// Dim implements Builder: the length of the rows.
func (o *PolytopeOptions) Dim(d int) (int, error) {
	set, err := NewPolytope(o.A, o.B)
	return own(set, err, d)
}

// Build implements Builder.
func (o *PolytopeOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	set, err := NewPolytope(o.A, o.B)
	return fitOwn(set, err, d, o.Rescale)
}

// FiniteOptions are the options of kind "finite".
type FiniteOptions struct {
	Arms    [][]float64 `key:"arms" doc:"feature vectors, one for each arm"`
	Rescale bool        `key:"rescale" doc:"shrink into the unit ball instead of refusing"`
	Ties    string      `key:"ties" doc:"of equal arms: first (the one with the smallest index is played) or share (the policy chooses among the different arms, and equal ones are played with equal probability)" default:"first"`
}

// Doc says what the kind is.
func (*FiniteOptions) Doc() string { return "a list of arms" }

func (o *FiniteOptions) check() error {
	if o.Ties != "" && o.Ties != "first" && o.Ties != "share" {
		return fmt.Errorf("ties is %q, expected \"first\" or \"share\"", o.Ties)
	}
	_, err := o.Build(0, rng.Source{})
	return err
}

// Dim implements Builder: the length of the arms.
func (o *FiniteOptions) Dim(d int) (int, error) {
	set, err := NewFinite(o.Arms)
	return own(set, err, d)
}

// Build implements Builder. With ties = "share" and two equal arms it is a *Shared.
func (o *FiniteOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	arms, err := NewFinite(o.Arms)
	set, err := fitOwn(arms, err, d, o.Rescale)
	if err != nil || o.Ties != "share" {
		return set, err
	}
	return Share(set.(*Finite)), nil
}

// BasisOptions are the options of kind "basis".
type BasisOptions struct{}

// Doc says what the kind is.
func (*BasisOptions) Doc() string { return "the d arms e_1, …, e_d: a bandit without structure" }

// Dim implements Builder.
func (*BasisOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder.
func (o *BasisOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	if _, err := fromEnvironment(d); err != nil {
		return nil, err
	}
	if err := checkCount(d, d); err != nil {
		return nil, err
	}
	block := make([]float64, d*d)
	for i := range d {
		block[i*d+i] = 1
	}
	return FiniteOf(d, block)
}

// HypercubeOptions are the options of kind "hypercube".
type HypercubeOptions struct{}

// Doc says what the kind is.
func (*HypercubeOptions) Doc() string {
	return "the 2^d vertices of [-1/√d, 1/√d]^d as arms, d ≤ 20"
}

// Dim implements Builder: at most 20.
func (*HypercubeOptions) Dim(d int) (int, error) {
	if d > 20 {
		return 0, fmt.Errorf("d is %d, but a hypercube lists 2^d arms: expected at most 20 (or kind = \"box\")", d)
	}
	return fromEnvironment(d)
}

// Build implements Builder. Coordinate j of arm i is negative where bit j of i is 0.
func (o *HypercubeOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	if _, err := o.Dim(d); err != nil {
		return nil, err
	}
	c := 1 / math.Sqrt(float64(d))
	block := make([]float64, 0, d<<d)
	for i := range 1 << d {
		for j := range d {
			block = append(block, c*float64(i>>j&1*2-1))
		}
	}
	return FiniteOf(d, block)
}

// checkCount refuses a number of arms that is not positive or too large to store.
func checkCount(arms, d int) error {
	if arms < 1 || d > 0 && arms > maxSize/d {
		return fmt.Errorf("arms is %d, expected at least 1 and arms·d at most %d", arms, maxSize)
	}
	return nil
}

// drawArms is the Build of the kinds with random arms: fill draws the arms into a row-major block.
func drawArms(arms, d int, fill func(block []float64)) (*Finite, error) {
	if _, err := fromEnvironment(d); err != nil {
		return nil, err
	}
	if err := checkCount(arms, d); err != nil {
		return nil, err
	}
	block := make([]float64, arms*d)
	fill(block)
	return FiniteOf(d, block)
}

// RandomSphereOptions are the options of kind "random-sphere".
type RandomSphereOptions struct {
	Arms  int  `key:"arms" doc:"number of arms"`
	Again bool `key:"redraw" doc:"new arms in every round, otherwise once for each replication"`
}

// Doc says what the kind is.
func (*RandomSphereOptions) Doc() string { return "arms drawn uniformly from the unit sphere" }

func (o *RandomSphereOptions) check() error { return checkCount(o.Arms, 0) }

// Dim implements Builder.
func (o *RandomSphereOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder: arm i is the sphere draw at the numbers i·d, …, i·d + d − 1.
func (o *RandomSphereOptions) Build(d int, instance rng.Source) (bandit.ActionSet, error) {
	return drawArms(o.Arms, d, func(block []float64) { instance.Spheres(block, d, 0) })
}

// Redraws implements Redrawer.
func (o *RandomSphereOptions) Redraws() bool { return o.Again }

// Redraw implements Redrawer.
func (o *RandomSphereOptions) Redraw(d int, offer rng.Source) (bandit.ActionSet, error) {
	return o.Build(d, offer)
}

// RandomBallOptions are the options of kind "random-ball".
type RandomBallOptions struct {
	Arms  int  `key:"arms" doc:"number of arms"`
	Again bool `key:"redraw" doc:"new arms in every round, otherwise once for each replication"`
}

// Doc says what the kind is.
func (*RandomBallOptions) Doc() string { return "arms drawn uniformly from the unit ball" }

func (o *RandomBallOptions) check() error { return checkCount(o.Arms, 0) }

// Dim implements Builder.
func (o *RandomBallOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder: arm i is the ball draw at the numbers i·(d+1), …, i·(d+1) + d.
func (o *RandomBallOptions) Build(d int, instance rng.Source) (bandit.ActionSet, error) {
	return drawArms(o.Arms, d, func(block []float64) {
		for i := range o.Arms {
			instance.Ball(block[i*d:(i+1)*d], i*(d+1))
		}
	})
}

// Redraws implements Redrawer.
func (o *RandomBallOptions) Redraws() bool { return o.Again }

// Redraw implements Redrawer.
func (o *RandomBallOptions) Redraw(d int, offer rng.Source) (bandit.ActionSet, error) {
	return o.Build(d, offer)
}

// RandomCubeOptions are the options of kind "random-cube".
type RandomCubeOptions struct {
	Arms    int     `key:"arms" doc:"number of arms"`
	U       float64 `key:"u" doc:"entries are uniform on [-u, u]; 0: 1/√d, the largest in the unit ball"`
	Again   bool    `key:"redraw" doc:"new arms in every round, otherwise once for each replication"`
	Rescale bool    `key:"rescale" doc:"multiply by 1/(u·√d) instead of refusing u > 1/√d"`
}

// Doc says what the kind is.
func (*RandomCubeOptions) Doc() string { return "arms with independent entries, uniform on [-u, u]" }

func (o *RandomCubeOptions) check() error {
	if !(o.U >= 0 && o.U <= limit) {
		return fmt.Errorf("u is %v, expected 0 or more", o.U)
	}
	return checkCount(o.Arms, 0)
}

// Dim implements Builder.
func (o *RandomCubeOptions) Dim(d int) (int, error) { return fromEnvironment(d) }

// Build implements Builder: entry j of arm i is the uniform number i·d + j. Whether it fits into
// the unit ball is decided by the law, the cube of radius u·√d, not by the draw: one factor holds
// for all replications and rounds.
func (o *RandomCubeOptions) Build(d int, instance rng.Source) (bandit.ActionSet, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	u, factor := o.U, 1.0
	if u == 0 {
		u = 1 / math.Sqrt(float64(d))
	}
	if r := u * math.Sqrt(float64(d)); r > 1+Tolerance {
		if !o.Rescale {
			return nil, outside(r)
		}
		factor = 1 / r
	}
	set, err := drawArms(o.Arms, d, func(block []float64) {
		instance.Uniforms(block, 0)
		for n := range block {
			block[n] *= u * factor
		}
	})
	if err != nil {
		return nil, err
	}
	set.factor = factor
	return set, nil
}

// Redraws implements Redrawer.
func (o *RandomCubeOptions) Redraws() bool { return o.Again }

// Redraw implements Redrawer.
func (o *RandomCubeOptions) Redraw(d int, offer rng.Source) (bandit.ActionSet, error) {
	return o.Build(d, offer)
}

// fitOracle is the Build of the combinatorial kinds: 0/1 vectors times 1/√Size, or as they are.
func fitOracle[O Oracle](o O, err error, d int, rescale bool) (bandit.ActionSet, error) {
	set, err := combinatorial(o, err, rescale)
	return fitOwn(set, err, d, rescale)
}

func combinatorial[O Oracle](o O, err error, rescale bool) (*Combinatorial, error) {
	if err != nil {
		return nil, err
	}
	factor := 1.0
	if rescale {
		factor = 0
	}
	return NewCombinatorial(o, factor)
}

// MSetsOptions are the options of kind "m-sets".
type MSetsOptions struct {
	K       int  `key:"k" doc:"number of coordinates chosen"`
	Rescale bool `key:"rescale" doc:"multiply the 0/1 vectors by 1/√k instead of refusing k > 1"`
}

// Doc says what the kind is.
func (*MSetsOptions) Doc() string {
	return "the k-element subsets of the d coordinates, as 0/1 vectors"
}

func (o *MSetsOptions) check() error {
	if o.K < 1 {
		return fmt.Errorf("k is %d, expected at least 1", o.K)
	}
	return nil
}

// Dim implements Builder.
func (o *MSetsOptions) Dim(d int) (int, error) {
	if d >= 1 && o.K > d {
		return 0, fmt.Errorf("k is %d, but d is %d", o.K, d)
	}
	return fromEnvironment(d)
}

// Build implements Builder.
func (o *MSetsOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	if _, err := o.Dim(d); err != nil {
		return nil, err
	}
	m, err := NewMSets(d, o.K)
	return fitOracle(m, err, d, o.Rescale)
}

// PathsOptions are the options of kind "paths".
type PathsOptions struct {
	Layers  int     `key:"layers" doc:"layers between source and sink; d = 2·width + (layers-1)·width²"`
	Width   int     `key:"width" doc:"nodes of a layer, each joined to every node of the next"`
	Edges   [][]int `key:"edges" doc:"[from, to] of each coordinate, instead of layers and width; from node 0 to the last node"`
	Rescale bool    `key:"rescale" doc:"multiply the 0/1 vectors by 1/√(edges of the longest path) instead of refusing"`
}

// Doc says what the kind is.
func (*PathsOptions) Doc() string {
	return "the paths through a graph without cycles, as 0/1 vectors over its edges"
}

func (o *PathsOptions) check() error {
	_, err := o.Build(0, rng.Source{})
	return err
}

func (o *PathsOptions) oracle() (*Paths, error) {
	if len(o.Edges) == 0 {
		return NewLayeredPaths(o.Layers, o.Width)
	}
	edges, last, err := readEdges(o.Edges)
	if err != nil {
		return nil, err
	}
	return NewPaths(edges, 0, last)
}

// readEdges turns a list of pairs into edges and finds the largest node.
func readEdges(list [][]int) (edges [][2]int, last int, err error) {
	for i, e := range list {
		if len(e) != 2 {
			return nil, 0, fmt.Errorf("edges[%d] has length %d, expected [from, to]", i, len(e))
		}
		edges = append(edges, [2]int{e[0], e[1]})
		last = max(last, e[0], e[1])
	}
	return edges, last, nil
}

// Dim implements Builder: the number of edges.
func (o *PathsOptions) Dim(d int) (int, error) {
	p, err := o.oracle()
	set, err := combinatorial(p, err, o.Rescale)
	return own(set, err, d)
}

// Build implements Builder.
func (o *PathsOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	p, err := o.oracle()
	return fitOracle(p, err, d, o.Rescale)
}

// TreesOptions are the options of kind "spanning-trees".
type TreesOptions struct {
	Nodes   int     `key:"nodes" doc:"nodes of the complete graph; d = nodes·(nodes-1)/2"`
	Edges   [][]int `key:"edges" doc:"[node, node] of each coordinate, instead of nodes"`
	Rescale bool    `key:"rescale" doc:"multiply the 0/1 vectors by 1/√(nodes-1) instead of refusing"`
}

// Doc says what the kind is.
func (*TreesOptions) Doc() string {
	return "the spanning trees of a graph, as 0/1 vectors over its edges"
}

func (o *TreesOptions) check() error {
	_, err := o.Build(0, rng.Source{})
	return err
}

func (o *TreesOptions) oracle() (*SpanningTrees, error) {
	if len(o.Edges) == 0 {
		return NewCompleteTrees(o.Nodes)
	}
	edges, _, err := readEdges(o.Edges)
	if err != nil {
		return nil, err
	}
	return NewSpanningTrees(edges)
}

// Dim implements Builder: the number of edges.
func (o *TreesOptions) Dim(d int) (int, error) {
	t, err := o.oracle()
	set, err := combinatorial(t, err, o.Rescale)
	return own(set, err, d)
}

// Build implements Builder.
func (o *TreesOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	t, err := o.oracle()
	return fitOracle(t, err, d, o.Rescale)
}

// AssignmentsOptions are the options of kind "assignments".
type AssignmentsOptions struct {
	N       int  `key:"n" doc:"number of rows and of columns; d = n²"`
	Rescale bool `key:"rescale" doc:"multiply the 0/1 vectors by 1/√n instead of refusing n > 1"`
}

// Doc says what the kind is.
func (*AssignmentsOptions) Doc() string {
	return "the n! assignments of n rows to n columns, as 0/1 vectors of n² coordinates"
}

func (o *AssignmentsOptions) check() error {
	_, err := o.Build(0, rng.Source{})
	return err
}

// Dim implements Builder: n².
func (o *AssignmentsOptions) Dim(d int) (int, error) {
	a, err := NewAssignments(o.N)
	set, err := combinatorial(a, err, o.Rescale)
	return own(set, err, d)
}

// Build implements Builder.
func (o *AssignmentsOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	a, err := NewAssignments(o.N)
	return fitOracle(a, err, d, o.Rescale)
}
