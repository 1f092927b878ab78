// Package feature turns requests with named features into vectors in the unit ball.
//
// A linear bandit sees an action as a vector x ∈ 𝔹^d; an application sees a user with a city and
// an age and a list of articles with a price and a title. Between the two stands a schema.
//
// Four nouns:
//
//   - a Schema says which features there are, how each becomes numbers, and which pairs are
//     multiplied. It is data: JSON or a TOML table, decoded strictly, with one canonical form
//     whose hash is its identity. Learn proposes one from a sample of requests, with its reasons;
//   - an Encoder is a compiled schema: the dimension d, the scale, the name of every coordinate,
//     the warnings. It never changes and is safe for concurrent use;
//   - a Batch is the scratch space of one goroutine: Begin reads the context, Add one action at a
//     time, X is the K×d block of vectors. In the steady state it allocates nothing;
//   - an Error names the path of the offending field, its value and what was expected.
//
// # What the vector is
//
// Every feature has a name that begins with where it comes from — context.user.city,
// action.price, or id, the action's own stable id — and a kind, which turns its value into a
// block of numbers with Euclidean norm at most 1:
//
//	number    one coordinate, [min, max] mapped to [−1, 1]
//	boolean   one coordinate, ±1
//	category  a coordinate for each level (one-hot), or a signed one of B hashed buckets
//	text      words (and pairs of neighbours) counted in B signed hashed buckets, length 1
//	vector    n given numbers, divided by a bound on their norm
//	hash      everything below a name that no other feature reads, in B signed hashed buckets
//
// A feature that is missing or null is a block of zeros. A cross of two features is the outer
// product of their blocks, again with norm at most 1. In a shared model
//
//	x = s · (1, w₁φ₁, …, w_nφ_n, (w_aφ_a) ⊗ (w_bφ_b), …),   s = 1/√B,
//
// with B the sum of the squares of the weights (1 for the intercept, w_a²w_b² for a cross), so
// ‖x‖ ≤ 1 whatever the request says, and x depends on each block linearly: the scale s is a
// constant of the schema, never of the request. (A schema with B = 1, such as a plain vector, has
// s = 1 exactly; otherwise s is smaller by one part in 2⁴⁰, more than rounding can add.) In a
// disjoint model that vector stands in the action's own block among zeros: every action id has
// its own parameters, d = (number of ids) × (length of the shared vector).
//
// What is the same for all actions of a request (the intercept, a context feature that is not
// crossed with anything of the action) adds the same amount to every score of a shared model. It
// helps to explain rewards and cannot change the ranking; Encoder.Warnings says so.
//
// # Learned on first sight
//
// Learn looks at a sample and writes what it found (levels, ranges, bounds) into a Schema as if a
// person had declared it. Nothing is adapted afterwards: an Encoder holds no statistics, a value
// outside a learned range is clamped to it, and another range is another schema with another
// identity, hence another model. So the vectors of an event can be recomputed for ever from the
// request and the schema in the log.
//
// # The same bits
//
// Equal bytes give equal bits on every amd64 machine and under any order of keys: products are
// rounded before they are added, and whatever is summed over keys or words is a sum of integers or
// of multiples of 2⁻³⁰, which is exact in any order. Letters are those of the Unicode tables of the
// Go release.
//
// # Without a schema
//
// An AtomEncoder reads any request as atoms: the values of its fields, words by their hashes and numbers as they are.
// Its vectors are lists of atoms (bandit.Sparse, bandit.AtomList) for the policy kind "effects", which finds the scales of
// numbers and its own coordinates. A server that folds a log uses it like this:
//
//   - a decision takes a AtomBatch, calls Begin and Add, and passes the batch to Select and Prob as the action set.
//     Groups finds equal candidates;
//   - its record keeps AppendAtoms of the context and of the chosen action. They give the vector again (ReadAtoms,
//     AtomEncoder.AppendVector), so that folding a reward needs no request and no encoder state.
//
// # Hostile input
//
// The reader is strict: RFC 8259 and nothing more, no key twice (also not across the objects of a
// list, nor once nested and once dotted), no invalid UTF-8, no number beyond float64, and limits on
// bytes, depth, keys, string length, actions and K·d. It is our own because encoding/json keeps
// the last of two equal keys without a word, and because it reads straight into the vectors.
package feature
