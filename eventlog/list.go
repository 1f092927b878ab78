package eventlog

import (
	"encoding/binary"
	"fmt"
	"math/big"
)

// MaxPositions is the largest number of positions of a list.
const MaxPositions = 50

// List is what the decision of a list has beside that of an action: k positions, from the top. Counts are of the members
// that voted for a list, N = Voters, and every probability of the law follows from them and the exploration floor
// ε = Floor/FloorUnit of the decision. With U permitted lists, of which U_l begin with the first l entries and W_l have the
// entry of position l there,
//
//	P(first l entries) = (1 − ε) · Prefix_l/(N · Π_{j≤l} Free_j) + ε · U_l/U
//	P(entry at l)      = (1 − ε) · Marginal_l/(N · Alike_l) + ε · W_l/U.
//
// Of candidates that the policy cannot tell apart, a member plays each order with the same probability: counts are then of
// their groups (Decision.Groups), Free_l is how many of the entry's group no entry above has, Alike_l the size of the group.
//
// U_l/U and W_l/U are closed forms of Sizes where every candidate may stand everywhere (Π 1/(n − j), 1/n) or no candidate
// may stand at two positions (Apart: Π 1/n_j, 1/n_l); otherwise they are counted, in Ways and Placed.
//
// A list that a caller gave as its baseline (Decision.WouldList is then the policy's) was played with probability 1. Its counts are
// those of the policy's members all the same, and say how probable the policy would have made it.
type List struct {
	IDs    []string `json:"ids" doc:"names of the actions that were played, by position"`
	Index  []uint64 `json:"index" doc:"their places among the actions of the request, or of their slot where it has its own"`
	Rows   []uint64 `json:"rows" doc:"their places among the candidates"`
	Slots  []string `json:"slots,omitempty" doc:"names of the positions, where the request has them"`
	Voters uint64   `json:"voters" doc:"members that voted"`
	Sizes  []uint64 `json:"sizes" doc:"how many candidates may stand at each position"`
	Apart  bool     `json:"apart,omitzero" doc:"no candidate may stand at two positions"`
	Ways   []uint64 `json:"ways,omitempty" doc:"permitted lists that begin with the first l entries, l = 0 to k, where they are counted"`
	Placed []uint64 `json:"placed,omitempty" doc:"permitted lists with the entry at its position, where they are counted"`

	Prefix   []uint64 `json:"prefix" doc:"members whose list begins with the first l entries, l = 1 to k"`
	Free     []uint64 `json:"free,omitempty" doc:"unused candidates of the entry's group; absent: each is 1"`
	Marginal []uint64 `json:"marginal" doc:"members with the entry at its position"`
	Alike    []uint64 `json:"alike,omitempty" doc:"size of the entry's group; absent: each is 1"`

	Votes   []uint64 `json:"votes,omitempty" doc:"of a full log: members with candidate i, or its group, at position l, at i·k + l"`
	All     []uint64 `json:"all,omitempty" doc:"of a full log: permitted lists with candidate i at position l, at i·k + l, where they are counted"`
	Allowed []byte   `json:"allowed,omitempty" doc:"bit i·k + l: candidate i may stand at position l; absent: each may stand everywhere"`

	Whole bool `json:"whole,omitzero" doc:"the list has one reward"`
}

// K is the number of positions.
func (l *List) K() int { return len(l.Rows) }

// Permits reports whether candidate i may stand at position p.
func (l *List) Permits(i, p int) bool {
	if len(l.Allowed) == 0 {
		return true
	}
	at := i*l.K() + p
	return l.Allowed[at/8]>>(at%8)&1 == 1
}

// PrefixProb returns the probability of the first n entries, 0 ≤ n ≤ k, exactly.
func (r *Decision) PrefixProb(n int) *big.Rat {
	l := r.List
	if n == 0 || r.WouldList != nil {
		return big.NewRat(1, 1)
	}
	members := new(big.Rat).SetFrac(natural(l.Prefix[n-1]), natural(l.Voters))
	uniform := big.NewRat(1, 1)
	for p := range n {
		if len(l.Free) > 0 {
			members.Mul(members, new(big.Rat).SetFrac(natural(1), natural(l.Free[p])))
		}
		size := l.Sizes[p]
		if !l.Apart {
			size -= uint64(p)
		}
		if len(l.Ways) == 0 {
			uniform.Mul(uniform, new(big.Rat).SetFrac(natural(1), natural(size)))
		}
	}
	if len(l.Ways) > 0 {
		uniform.SetFrac(natural(l.Ways[n]), natural(l.Ways[0]))
	}
	return r.mixed(members, uniform)
}

// MarginalProb returns the probability of the entry at position p there, exactly.
func (r *Decision) MarginalProb(p int) *big.Rat {
	l := r.List
	if r.WouldList != nil {
		return big.NewRat(1, 1)
	}
	alike, placed := uint64(1), uint64(0)
	if len(l.Alike) > 0 {
		alike = l.Alike[p]
	}
	if len(l.Placed) > 0 {
		placed = l.Placed[p]
	}
	return r.marginal(l.Marginal[p], alike, placed, p)
}

// CandidateProb returns the probability with which the policy plays candidate i at position p, exactly, also where a baseline was
// played. It needs Votes; alike is the size of its group.
func (r *Decision) CandidateProb(i, p int, alike uint64) *big.Rat {
	l := r.List
	if !l.Permits(i, p) {
		return new(big.Rat)
	}
	at := i*l.K() + p
	placed := uint64(0)
	if len(l.All) > 0 {
		placed = l.All[at]
	}
	return r.marginal(l.Votes[at], alike, placed, p)
}

func (r *Decision) marginal(votes, alike, placed uint64, p int) *big.Rat {
	l := r.List
	members := new(big.Rat).SetFrac(natural(votes), new(big.Int).Mul(natural(l.Voters), natural(alike)))
	uniform := new(big.Rat)
	if len(l.Ways) > 0 {
		uniform.SetFrac(natural(placed), natural(l.Ways[0]))
	} else {
		uniform.SetFrac(natural(1), natural(l.Sizes[p]))
	}
	return r.mixed(members, uniform)
}

func (r *Decision) mixed(members, uniform *big.Rat) *big.Rat {
	floor := big.NewRat(int64(r.Floor), FloorUnit)
	members.Mul(members, new(big.Rat).Sub(big.NewRat(1, 1), floor))
	return members.Add(members, uniform.Mul(uniform, floor))
}

func natural(x uint64) *big.Int { return new(big.Int).SetUint64(x) }

// Would returns a decision that has the list of the policy, with its law, in place of the baseline that was played; nil without.
func (r *Decision) Would() *Decision {
	if r.WouldList == nil {
		return nil
	}
	return &Decision{Offered: r.Offered, Floor: r.Floor, Groups: r.Groups, List: r.WouldList}
}

// checkWould refuses the list of a policy that does not fit to the baseline that was played.
func (r *Decision) checkWould() error {
	l, bad := r.WouldList, func(what string) error { return fmt.Errorf("decision: would_list: %s: %w", what, ErrMalformed) }
	baseline := r.Mode == Apprentice || r.Mode == Shadow
	switch {
	case l == nil && r.List != nil && baseline:
		return bad("is missing, a baseline was played")
	case l == nil:
		return nil
	case r.List == nil || !baseline:
		return bad("without a baseline that was played")
	case l.K() != r.List.K() || len(l.Votes)+len(l.All)+len(l.Allowed)+len(l.Slots) > 0 || l.Whole:
		return bad("has other positions than the list, or parts that the list has")
	}
	return l.check(r, r.WouldAction)
}

// check refuses a list whose parts do not fit together. first is the name of its first entry.
func (l *List) check(r *Decision, first string) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("decision: list: %s: %w", fmt.Sprintf(format, a...), ErrMalformed)
	}
	k, n := l.K(), int(r.Offered)
	switch {
	case k < 1 || k > MaxPositions:
		return bad("%d positions, expected 1 to %d", k, MaxPositions)
	case len(l.IDs) != k || len(l.Index) != k || len(l.Sizes) != k || len(l.Prefix) != k || len(l.Marginal) != k:
		return bad("a part has another length than %d", k)
	case len(l.Slots) != 0 && len(l.Slots) != k, len(l.Free) != 0 && len(l.Free) != k, len(l.Alike) != 0 && len(l.Alike) != k:
		return bad("an optional part has another length than %d", k)
	case len(l.Ways) != 0 && (len(l.Ways) != k+1 || len(l.Placed) != k || l.Apart) || len(l.Ways) == 0 && len(l.Placed)+len(l.All) > 0:
		return bad("ways and placed have other lengths")
	case len(l.Votes) != 0 && len(l.Votes) != n*k, len(l.All) != 0 && len(l.All) != n*k, len(l.Allowed) != 0 && len(l.Allowed) != (n*k+7)/8:
		return bad("a table has another size than %d × %d", n, k)
	case l.Voters == 0 || len(r.Law) > 0:
		return bad("%d voters, and a law of %d actions", l.Voters, len(r.Law))
	}
	last := l.Voters
	for p := range k {
		switch {
		case l.Rows[p] >= uint64(n):
			return bad("rows[%d] = %d of %d candidates", p, l.Rows[p], n)
		case l.Prefix[p] > last || l.Marginal[p] > l.Voters || l.Prefix[p] > l.Marginal[p]:
			return bad("prefix[%d] = %d, marginal[%d] = %d of %d", p, l.Prefix[p], p, l.Marginal[p], last)
		case l.Sizes[p] == 0 || l.Sizes[p] > uint64(n) || !l.Apart && len(l.Ways) == 0 && l.Sizes[p] != uint64(n):
			return bad("sizes[%d] = %d of %d candidates", p, l.Sizes[p], n)
		case len(l.Free) > 0 && (l.Free[p] == 0 || l.Free[p] > uint64(n)), len(l.Alike) > 0 && (l.Alike[p] == 0 || l.Alike[p] > uint64(n)):
			return bad("a group at position %d has an impossible size", p)
		case len(l.Ways) > 0 && (l.Ways[p+1] == 0 || l.Ways[p+1] > l.Ways[p] || l.Placed[p] < l.Ways[p+1] && p == 0 || l.Placed[p] > l.Ways[0]):
			return bad("ways[%d] = %d of %d", p+1, l.Ways[p+1], l.Ways[p])
		case !l.Permits(int(l.Rows[p]), p):
			return bad("candidate %d may not stand at position %d", l.Rows[p], p)
		}
		for q := range p {
			if l.Rows[q] == l.Rows[p] {
				return bad("candidate %d stands at positions %d and %d", l.Rows[p], q, p)
			}
		}
		last = l.Prefix[p]
		if err := firstError(checkText("decision: list: ids", l.IDs[p])); err != nil {
			return err
		}
	}
	if k > n || l == r.List && l.Rows[0] != uint64(r.Index) || l.IDs[0] != first {
		return bad("%d positions of %d candidates; the first is %q", k, n, first)
	}
	for _, s := range l.Slots {
		if err := checkText("decision: list: slots", s); err != nil {
			return err
		}
	}
	return nil
}

func (l *List) append() []byte {
	b := putTexts(nil, 1, l.IDs)
	b = putUints(b, 2, l.Index)
	b = putUints(b, 3, l.Rows)
	b = putTexts(b, 4, l.Slots)
	b = putUint(b, 5, l.Voters)
	b = putUints(b, 6, l.Sizes)
	b = putBool(b, 7, l.Apart)
	b = putUints(b, 8, l.Ways)
	b = putUints(b, 9, l.Placed)
	b = putUints(b, 10, l.Prefix)
	b = putUints(b, 11, l.Free)
	b = putUints(b, 12, l.Marginal)
	b = putUints(b, 13, l.Alike)
	b = putUints(b, 14, l.Votes)
	b = putUints(b, 15, l.All)
	b = putBytes(b, 16, l.Allowed)
	return putBool(b, 17, l.Whole)
}

func (d *decoder) list() *List {
	if !d.want(wireBytes) {
		return nil
	}
	l := &List{}
	in := decoder{rest: d.data, what: d.what + ": list"} // its parts are copies: a list is kept longer than its batch
	counts := func() []uint64 { return list(&in, in.slate.votes) }
	for in.next() {
		switch in.num {
		case 1:
			l.IDs = in.texts()
		case 2:
			l.Index = counts()
		case 3:
			l.Rows = counts()
		case 4:
			l.Slots = in.texts()
		case 5:
			l.Voters = in.uint()
		case 6:
			l.Sizes = counts()
		case 7:
			l.Apart = in.bool()
		case 8:
			l.Ways = counts()
		case 9:
			l.Placed = counts()
		case 10:
			l.Prefix = counts()
		case 11:
			l.Free = counts()
		case 12:
			l.Marginal = counts()
		case 13:
			l.Alike = counts()
		case 14:
			l.Votes = counts()
		case 15:
			l.All = counts()
		case 16:
			l.Allowed = in.bytes()
		case 17:
			l.Whole = in.bool()
		default:
			in.unknown()
		}
	}
	if in.err != nil && d.err == nil {
		d.err = in.err
	}
	return l
}

// putTexts writes texts, each after its length.
func putTexts(b []byte, num uint32, texts []string) []byte {
	if len(texts) == 0 {
		return b
	}
	var in []byte
	for _, t := range texts {
		in = append(binary.AppendUvarint(in, uint64(len(t))), t...)
	}
	return putBytes(b, num, in)
}

func (d *decoder) texts() (out []string) {
	if !d.want(wireBytes) {
		return nil
	}
	for p := d.data; len(p) > 0; {
		n, k := uvarint(p)
		if k == 0 || n > uint64(len(p)-k) || len(out) >= maxList {
			d.fail("bad text at place %d", len(out))
			return nil
		}
		out, p = append(out, string(p[k:k+int(n)])), p[k+int(n):]
	}
	return out
}

// checkPositions checks the rewards of entries of a list.
func (r *Reward) checkPositions() error {
	switch {
	case len(r.Positions) != len(r.Ys):
		return fmt.Errorf("reward: %d positions and %d values: %w", len(r.Positions), len(r.Ys), ErrMalformed)
	case len(r.Positions) > MaxPositions || r.Shown > MaxPositions+1:
		return fmt.Errorf("reward: %d positions, shown = %d: %w", len(r.Positions), r.Shown, ErrMalformed)
	case len(r.Positions) > 0 && (r.OnlyCost || r.Y != 0):
		return fmt.Errorf("reward: y = %v beside values of positions: %w", r.Y, ErrMalformed)
	}
	for i, p := range r.Positions {
		if p >= MaxPositions || i > 0 && p <= r.Positions[i-1] {
			return fmt.Errorf("reward: positions[%d] = %d: %w", i, p, ErrMalformed)
		}
	}
	return checkVector("reward: ys", r.Ys)
}
