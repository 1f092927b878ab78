// Package actionset holds the action sets 𝒳 of a linear bandit, seen through their linear
// maximisation oracle: given θ, some x ∈ argmax_{x∈𝒳} ⟨x, θ⟩ and the value J(θ) = max ⟨x, θ⟩.
//
// Three nouns:
//
//   - a set is a bandit.ActionSet: Finite lists its arms; Ball, Ellipsoid, Box, Simplex and L1 have
//     a closed form; Polytope solves a small linear program; Combinatorial asks an Oracle (MSets,
//     Paths, SpanningTrees, Assignments) for the best 0/1 vector;
//   - a Spec is one table of an experiment file, `set = { kind = "ball" }`, and Kinds is the list
//     of what it may say; a Builder makes the set from it, with the instance's random numbers;
//   - a factor is what Scale multiplied a set by to bring it into the unit ball, the paper's
//     assumption 𝒳 ⊂ 𝔹^d. Build refuses a set that leaves the unit ball unless it may rescale it;
//     the Go constructors accept any size and state it with Radius.
//
// All sets are immutable, safe for concurrent use, and allocate nothing in ArgMax once dst.X has
// capacity d and the scratch space of the sets that need some (Polytope, Combinatorial) is warm.
//
// # Ties
//
// The answer is a function of theta alone, never of earlier calls. Where several x are best:
//
//	Finite, Simplex, L1   the lowest index (L1: and the positive sign)
//	Ball, Ellipsoid       only θ = 0 ties: the image of e_1
//	Box                   the upper end of a coordinate with θ_i = 0
//	MSets                 the lower coordinates, so the lexicographically first set
//	Paths                 from the source on, the lower edge
//	SpanningTrees         Kruskal's order: heavier edges first, then lower edges
//	Assignments           the successive shortest path method, rows in order, lower column first
//	Polytope              the vertex where the simplex method ends from its fixed start
//
// Arms of a Finite set may be equal. Share makes them share: a policy chooses among the different ones (Groups), and
// the arm of the group is drawn (Shared.Member).
//
// The index of an action is its arm number in a Finite set and bandit.NoIndex everywhere else, the
// simplex and the combinatorial sets included: only a set that lists its arms has arm numbers.
//
// # Limits
//
// An entry of theta that is NaN or infinite is refused with bandit.ErrNotFinite, and one beyond ±2⁵⁰⁰ with
// bandit.ErrNumerical, as are numbers of that size in a set: below it no product or sum in this package can overflow. A
// theta of the wrong length panics. Constructors look at the numbers of a set, but FiniteUnread, whose first ArgMax
// does.
package actionset
