package eventlog

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Mode is the source of the action of a decision, and whether the model learns from it.
type Mode uint8

const (
	Online     Mode = iota // the policy chose; learn
	Apprentice             // the caller's baseline was played; learn from it
	Shadow                 // the caller's baseline was played; do not learn
	Frozen                 // the policy chose; do not learn
)

var modeNames = [...]string{"online", "apprentice", "shadow", "frozen"}

// String returns the name in JSON, and the number of a value without one.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "mode " + strconv.Itoa(int(m))
}

// MarshalText writes what String returns.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Notes is a set of what encoding the features of a decision met.
type Notes uint32

// The notes. Each is a bit.
const (
	NoteIgnored Notes = 1 << iota // a feature was ignored
	NoteClamped                   // a number was clamped to its range
	NoteAlike                     // candidates could not be told apart
	NoteType                      // a value had another type than the schema says
)

var noteNames = [...]string{"ignored", "clamped", "alike", "type"}

// String returns the names of the notes, with commas.
func (n Notes) String() string {
	var names []string
	for i, name := range noteNames {
		if n&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := n >> len(noteNames) << len(noteNames); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	return strings.Join(names, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (n Notes) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// FloorUnit is the denominator of Decision.Floor.
const FloorUnit = 1_000_000

// Decision is one action chosen by a model. Its propensity Num/Den is exact with respect to the
// state that was used, BasisSeq, however old that was.
type Decision struct {
	Model       ID        `json:"model" doc:"incarnation of the model"`
	BasisSeq    uint64    `json:"basis_seq" doc:"last entry of the log that this state had learned from"`
	BasisDigest ID        `json:"basis_digest,omitzero" doc:"digest of the state that decided"`
	Member      uint32    `json:"member" doc:"number of the model of the ensemble that chose, from 0"`
	Negative    bool      `json:"negative,omitzero" doc:"the sign of the member's perturbation was negative"`
	Action      string    `json:"action,omitzero" doc:"name of the action that was played"`
	Index       uint32    `json:"index" doc:"place of the action among the candidates, from 0"`
	X           []float64 `json:"x,omitempty" doc:"features of the action"`
	Num         uint64    `json:"num" doc:"numerator of the propensity"`
	Den         uint64    `json:"den" doc:"denominator of the propensity, greater than 0"`
	Mode        Mode      `json:"mode" doc:"how the action was chosen"`
	Deferred    bool      `json:"deferred,omitzero" doc:"the event counts only after an activation or a reward"`
	Offered     uint32    `json:"offered,omitzero" doc:"number of candidates"`
	Context     ID        `json:"context,omitzero" doc:"hash of the context"`
	Candidates  ID        `json:"candidates,omitzero" doc:"digest of the candidates"`
	Full        []byte    `json:"full,omitempty" doc:"copy of the candidates, in the form of the model"`
	Caller      string    `json:"caller,omitzero" doc:"name of the API key"`
	Time        int64     `json:"time,omitzero" doc:"time of the decision, in ns since 1970"`
	Deadline    int64     `json:"deadline,omitzero" doc:"end of the window for rewards, in ns since 1970"`
	Idempotency []byte    `json:"idempotency,omitempty" doc:"hash of the caller's Idempotency-Key"`
	WouldAction string    `json:"would_action,omitzero" doc:"what the policy would have played, where a baseline was played"`
	WouldNum    uint64    `json:"would_num,omitzero" doc:"numerator of the propensity of would_action, over den"`
	// the random number that j, ξ and the coin of a floor were computed from
	Draw ID `json:"draw,omitzero" doc:"random number that the choice was computed from"`

	// Atoms is the encoding of the action by a hashed encoder, in the encoder's own form; then there is no
	// X. At most MaxData bytes.
	Atoms []byte `json:"atoms,omitempty" doc:"encoding of the action by a model that reads requests"`

	// Law, Groups, Voters and Floor are the law of the draw over all K candidates, in their order. The
	// candidates of a group cannot be told apart by the policy. Candidate i is chosen with probability
	//
	//	(1 − ε) · Law[i]/Voters / g + ε/K,   ε = Floor/FloorUnit,
	//
	// where g is the number of candidates in its group.
	Law []uint64 `json:"law,omitempty" doc:"votes for each candidate's group"`
	// number of the candidate's group, from 0 in order of first appearance; nil when each is its own
	Groups []uint32 `json:"groups,omitempty" doc:"group of each candidate, numbered from 0; the policy cannot tell the members of a group apart"`
	Voters uint64   `json:"voters,omitzero" doc:"votes of all groups together"`
	Floor  uint32   `json:"floor,omitzero" doc:"exploration floor, in millionths"`

	Notes  Notes  `json:"notes,omitzero" doc:"what encoding the request met"`
	Config uint64 `json:"config,omitzero" doc:"version of the configuration that decided"`

	// Unit is the keyed hash of the value at the model's unit (IDKeys.Unit), 0 for a model without one, and Span the
	// epoch of its assignment: decisions of one unit in one span draw one policy.
	Unit ID     `json:"unit,omitzero" doc:"keyed hash of the value at the model's unit, 0 for a model without one"`
	Span uint64 `json:"span,omitzero" doc:"epoch of the unit's assignment"`

	// Costs are those of the candidates in units of money, in their order: all of them or none.
	Costs []float64 `json:"costs,omitempty" doc:"costs of the candidates in units of money, in their order"`
	// Price and the following are of a decision under a budget: the dual price that the law was made with, in units of
	// reward for a unit of money; what the decision costs in expectation, before the hard stop takes anything away.
	Price   float64 `json:"price,omitzero" doc:"under a budget: price of a unit of money, in units of reward"`
	Expects float64 `json:"expects,omitzero" doc:"under a budget: what the decision costs in expectation, before the hard stop"`
	Play    Play    `json:"play,omitzero" doc:"what a decision under a budget or a guard played"`
	// Baseline is 1 + the place of the caller's baseline among the candidates, of a guarded model; 0 otherwise.
	Baseline uint32 `json:"baseline,omitzero" doc:"1 + the place of the caller's baseline among the candidates, of a guarded model; 0 otherwise"`

	// Group and the following are of a decision of a model with a control group: the group that it was drawn into; the share
	// s = Control/FloorUnit of the control; what the control plays, the first candidate or a uniform one. Law is that of the
	// model's group. Num/Den is the probability before the group was drawn, (1 − s)·P(i | model) + s·P(i | control).
	Group        Group  `json:"group,omitzero" doc:"of a model with a control group: the group of the decision"`
	Control      uint32 `json:"control,omitzero" doc:"share of the control group, in millionths"`
	ControlFirst bool   `json:"control_first,omitzero" doc:"the control group plays the first candidate, and not a uniform one"`
	// List is of the decision of a list. Action, Index, Num and Den are then those of its first entry, and Atoms the
	// encoding of the context and of every entry, one behind the other.
	List *List `json:"list,omitempty" doc:"of a list: its entries and what their probabilities follow from"`
	// WouldList is of a list that a caller gave as its baseline, in the modes Apprentice and Shadow: the list of the policy, with its
	// law. It has no Votes, All, Allowed and Slots, which List has.
	WouldList *List `json:"would_list,omitempty" doc:"of a list that was a baseline: what the policy would have played, with its law"`

	// Numbers are the numbers that were played, in the order of the model's. The candidates are then the cells of the
	// actions: Offered is how many there are, Index which of them was played, Law has the votes of each.
	Numbers []Number `json:"numbers,omitempty" doc:"numbers that were played; the candidates are then the cells of the actions"`
}

// Group is whether a decision is one of the model or of the control group.
type Group uint32

const (
	NoGroup Group = iota // the model has no control group, or the caller's baseline was played
	GroupModel
	GroupControl
)

var groupNames = [...]string{"none", "model", "control"}

// String returns the name in JSON, and the number of a value without one.
func (g Group) String() string {
	if int(g) < len(groupNames) {
		return groupNames[g]
	}
	return "group " + strconv.Itoa(int(g))
}

// MarshalText writes what String returns.
func (g Group) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// MaxControl is the largest value of Decision.Control: half of the decisions.
const MaxControl = FloorUnit / 2

// Play says what decided.
type Play uint32

const (
	PlayLaw  Play = 0 // the law
	PlayStop Play = 1 // the hard stop of a budget has taken actions away; Law has what was left, with the floor in it
	// PlayBaseline: a guarded model played the caller's baseline; Law is that of the policy, with the floor as Floor
	// says
	PlayBaseline Play = 2
	// PlayFloors: actions that have entered have floors, or floors and caps of actions have clipped the law; Law has
	// all of it and the floor in it
	PlayFloors Play = 3
)

// Kind implements Record.
func (*Decision) Kind() Kind { return KindDecision }

func (r *Decision) check() error {
	switch {
	case r.Model == 0:
		return fmt.Errorf("decision: model is 0: %w", ErrMalformed)
	case r.Den == 0 || r.Num > r.Den || r.WouldNum > r.Den:
		return fmt.Errorf("decision: propensity %d/%d (would: %d) is not a probability: %w", r.Num, r.Den, r.WouldNum,
			ErrMalformed)
	case int(r.Mode) >= len(modeNames):
		return fmt.Errorf("decision: mode = %d is unknown: %w", r.Mode, ErrMalformed)
	case r.Offered > 0 && r.Index >= r.Offered:
		return fmt.Errorf("decision: index = %d of %d candidates: %w", r.Index, r.Offered, ErrMalformed)
	case len(r.Idempotency) > 32:
		return fmt.Errorf("decision: idempotency has %d bytes, at most 32 are allowed: %w", len(r.Idempotency),
			ErrMalformed)
	}
	return firstError(
		checkText("decision: action", r.Action), checkText("decision: caller", r.Caller),
		checkText("decision: would_action", r.WouldAction),
		checkVector("decision: x", r.X),
		checkAtoms("decision", r.X, r.Atoms), r.checkLaw(), r.checkNew(), r.checkNumbers())
}

// checkNew checks the other fields.
func (r *Decision) checkNew() error {
	if r.List != nil {
		if err := r.List.check(r, r.Action); err != nil {
			return err
		}
	}
	if err := r.checkWould(); err != nil {
		return err
	}
	switch {
	case r.Floor > FloorUnit:
		return fmt.Errorf("decision: floor = %d, want at most %d: %w", r.Floor, FloorUnit, ErrMalformed)
	case r.Notes>>len(noteNames) != 0:
		return fmt.Errorf("decision: notes = %v has unknown bits: %w", r.Notes, ErrMalformed)
	case r.Span != 0 && r.Unit == 0:
		return fmt.Errorf("decision: span = %d without a unit: %w", r.Span, ErrMalformed)
	case len(r.Costs) > 0 && uint64(len(r.Costs)) != uint64(r.Offered):
		return fmt.Errorf("decision: %d costs of %d candidates: %w", len(r.Costs), r.Offered, ErrMalformed)
	}
	switch {
	case r.Play > PlayFloors:
		return fmt.Errorf("decision: play = %d is unknown: %w", r.Play, ErrMalformed)
	case r.Baseline > r.Offered || r.Play == PlayBaseline && r.Baseline == 0:
		return fmt.Errorf("decision: baseline = %d of %d candidates, play = %d: %w", r.Baseline, r.Offered, r.Play,
			ErrMalformed)
	case r.Price == 0 && (r.Expects != 0 || r.Play == PlayStop):
		return fmt.Errorf("decision: expects = %v, play = %d without a price: %w", r.Expects, r.Play, ErrMalformed)
	case r.Price != 0 && len(r.Costs) == 0:
		return fmt.Errorf("decision: price = %v without costs: %w", r.Price, ErrMalformed)
	}
	switch {
	case r.Group > GroupControl:
		return fmt.Errorf("decision: group = %d is unknown: %w", r.Group, ErrMalformed)
	case r.Control > MaxControl:
		return fmt.Errorf("decision: control = %d, want at most %d: %w", r.Control, MaxControl, ErrMalformed)
	case (r.Group == NoGroup) != (r.Control == 0) || r.ControlFirst && r.Control == 0:
		return fmt.Errorf("decision: group = %v with control = %d, control_first = %v: %w", r.Group, r.Control, r.ControlFirst,
			ErrMalformed)
	case r.Group != NoGroup && r.Mode != Online && r.Mode != Frozen:
		return fmt.Errorf("decision: group = %v in the mode %v: %w", r.Group, r.Mode, ErrMalformed)
	}
	for name, v := range map[string]float64{"price": r.Price, "expects": r.Expects} {
		if err := checkCost(v); err != nil {
			return fmt.Errorf("decision: %s %w", name, err)
		}
	}
	for i, c := range r.Costs {
		if err := checkCost(c); err != nil {
			return fmt.Errorf("decision: costs[%d] %w", i, err)
		}
	}
	return nil
}

// checkCost refuses what is no amount of money.
func checkCost(c float64) error {
	if !(c >= 0) || math.IsInf(c, 1) {
		return fmt.Errorf("= %v is no cost, want a finite number from 0 on: %w", c, ErrMalformed)
	}
	return nil
}

// checkAtoms checks the encoding of an action, a vector or atoms.
func checkAtoms(name string, x []float64, atoms []byte) error {
	switch {
	case len(x) > 0 && len(atoms) > 0:
		return fmt.Errorf("%s: x and atoms are both set: %w", name, ErrMalformed)
	case len(atoms) > MaxData:
		return fmt.Errorf("%s: atoms have %d bytes, at most %d are allowed: %w", name, len(atoms), MaxData,
			ErrMalformed)
	}
	return nil
}

// checkLaw checks that Law and Groups describe one law over the candidates: every candidate is in it,
// groups are numbered in order, candidates of a group have one count, and the counts sum to Voters.
func (r *Decision) checkLaw() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("decision: %s: %w", fmt.Sprintf(format, a...), ErrMalformed)
	}
	k := len(r.Law)
	switch {
	case k == 0 && r.Voters != 0 || k > 0 && r.Voters == 0:
		return bad("%d votes for the law of %d candidates", r.Voters, k)
	case k > 0 && (k == 1 || k > maxList || uint64(k) != uint64(r.Offered)):
		return bad("law of %d candidates, %d were offered", k, r.Offered)
	case len(r.Groups) > 0 && (len(r.Groups) == 1 || len(r.Groups) > maxList ||
		uint64(len(r.Groups)) != uint64(r.Offered)):
		return bad("groups of %d candidates, %d were offered", len(r.Groups), r.Offered)
	}
	left := r.Voters
	add := func(i int) error {
		if r.Law[i] > left {
			return bad("law: more than %d votes", r.Voters)
		}
		left -= r.Law[i]
		return nil
	}
	if len(r.Groups) == 0 {
		for i := range r.Law {
			if err := add(i); err != nil {
				return err
			}
		}
	} else {
		var room [64]int
		first := room[:0] // the first candidate of each group
		for i, g := range r.Groups {
			switch {
			case int(g) > len(first):
				return bad("groups[%d] = %d, want at most %d", i, g, len(first))
			case int(g) == len(first):
				first = append(first, i)
				if k > 0 {
					if err := add(i); err != nil {
						return err
					}
				}
			case k > 0 && r.Law[i] != r.Law[first[g]]:
				return bad("law[%d] = %d, another candidate of group %d has %d", i, r.Law[i], g, r.Law[first[g]])
			}
		}
		if len(first) == len(r.Groups) {
			return bad("groups are left out when every candidate is its own")
		}
	}
	if left != 0 {
		return bad("law: %d of %d votes are for no candidate", left, r.Voters)
	}
	return nil
}

func (r *Decision) append(b []byte) []byte {
	b = putFixed(b, 1, uint64(r.Model))
	b = putUint(b, 2, r.BasisSeq)
	b = putFixed(b, 3, uint64(r.BasisDigest))
	b = putUint(b, 4, uint64(r.Member))
	b = putBool(b, 5, r.Negative)
	b = putBytes(b, 6, r.Action)
	b = putUint(b, 7, uint64(r.Index))
	b = putFloats(b, 8, r.X)
	b = putUint(b, 9, r.Num)
	b = putUint(b, 10, r.Den)
	b = putUint(b, 11, uint64(r.Mode))
	b = putBool(b, 12, r.Deferred)
	b = putUint(b, 13, uint64(r.Offered))
	b = putFixed(b, 14, uint64(r.Context))
	b = putFixed(b, 15, uint64(r.Candidates))
	b = putBytes(b, 16, r.Full)
	b = putBytes(b, 17, r.Caller)
	b = putInt(b, 18, r.Time)
	b = putInt(b, 19, r.Deadline)
	b = putBytes(b, 20, r.Idempotency)
	b = putBytes(b, 21, r.WouldAction)
	b = putUint(b, 22, r.WouldNum)
	b = putFixed(b, 23, uint64(r.Draw))
	b = putBytes(b, 25, r.Atoms)
	b = putUints(b, 26, r.Law)
	b = putUints(b, 27, r.Groups)
	b = putUint(b, 28, r.Voters)
	b = putUint(b, 29, uint64(r.Floor))
	b = putUint(b, 31, uint64(r.Notes))
	b = putUint(b, 32, r.Config)
	b = putFixed(b, 34, uint64(r.Unit))
	b = putUint(b, 35, r.Span)
	b = putFloats(b, 36, r.Costs)
	b = putFloat(b, 37, r.Price)
	b = putUint(b, 38, uint64(r.Play))
	b = putFloat(b, 39, r.Expects)
	b = putUint(b, 40, uint64(r.Baseline))
	b = putUint(b, 41, uint64(r.Group))
	b = putUint(b, 42, uint64(r.Control))
	b = putBool(b, 43, r.ControlFirst)
	if r.List != nil {
		b = putBytes(b, 50, r.List.append())
	}
	if r.WouldList != nil {
		b = putBytes(b, 51, r.WouldList.append())
	}
	return putNumbers(b, 60, r.Numbers)
}

func (r *Decision) field(d *decoder) {
	switch d.num {
	case 1:
		r.Model = ID(d.fixed())
	case 2:
		r.BasisSeq = d.uint()
	case 3:
		r.BasisDigest = ID(d.fixed())
	case 4:
		r.Member = d.uint32()
	case 5:
		r.Negative = d.bool()
	case 6:
		r.Action = d.text()
	case 7:
		r.Index = d.uint32()
	case 8:
		r.X = d.floats()
	case 9:
		r.Num = d.uint()
	case 10:
		r.Den = d.uint()
	case 11:
		r.Mode = Mode(min(d.uint(), 255))
	case 12:
		r.Deferred = d.bool()
	case 13:
		r.Offered = d.uint32()
	case 14:
		r.Context = ID(d.fixed())
	case 15:
		r.Candidates = ID(d.fixed())
	case 16:
		r.Full = d.bytes()
	case 17:
		r.Caller = d.text()
	case 18:
		r.Time = d.int()
	case 19:
		r.Deadline = d.int()
	case 20:
		r.Idempotency = d.bytes()
	case 21:
		r.WouldAction = d.text()
	case 22:
		r.WouldNum = d.uint()
	case 23:
		r.Draw = ID(d.fixed())
	case 25:
		r.Atoms = d.bytes()
	case 26:
		r.Law = list(d, d.slate.votes)
	case 27:
		r.Groups = list(d, d.slate.numbers)
	case 28:
		r.Voters = d.uint()
	case 29:
		r.Floor = d.uint32()
	case 31:
		r.Notes = Notes(d.uint32())
	case 32:
		r.Config = d.uint()
	case 34:
		r.Unit = ID(d.fixed())
	case 35:
		r.Span = d.uint()
	case 36:
		r.Costs = d.floats()
	case 37:
		r.Price = d.float()
	case 38:
		r.Play = Play(d.uint32())
	case 39:
		r.Expects = d.float()
	case 40:
		r.Baseline = d.uint32()
	case 41:
		r.Group = Group(d.uint32())
	case 42:
		r.Control = d.uint32()
	case 43:
		r.ControlFirst = d.bool()
	case 50:
		r.List = d.list()
	case 51:
		r.WouldList = d.list()
	case 60:
		r.Numbers = numbersOf(d)
	default:
		d.unknown()
	}
}

// Activate makes a deferred decision count.
type Activate struct {
	Event Event `json:"event"`
	Time  int64 `json:"time,omitzero"`
	Model ID    `json:"model,omitzero"` // copied from the decision, so that a model's records can be told from others'
	// Shown is 1 + how many positions of a list were on the screen, 0 where nothing is said.
	Shown uint32 `json:"shown,omitzero"`
}

// Kind implements Record.
func (*Activate) Kind() Kind { return KindActivate }
func (r *Activate) check() error {
	if r.Shown > MaxPositions+1 {
		return fmt.Errorf("activate: shown = %d: %w", r.Shown, ErrMalformed)
	}
	return r.Event.check("activate: event")
}
func (r *Activate) append(b []byte) []byte {
	return putUint(putFixed(putInt(putEvent(b, 1, r.Event), 2, r.Time), 3, uint64(r.Model)), 20, uint64(r.Shown))
}
func (r *Activate) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Time = d.int()
	case 3:
		r.Model = ID(d.fixed())
	case 20:
		r.Shown = d.uint32()
	default:
		d.unknown()
	}
}

// Reward pays for a decision. X or Atoms is copied from it, so that the learner is a fold over rewards and
// control records and needs no join.
type Reward struct {
	Event  Event     `json:"event"`
	Model  ID        `json:"model"`
	X      []float64 `json:"x,omitempty"`
	Y      float64   `json:"y"`
	Source string    `json:"source,omitzero"` // id of the API key
	Time   int64     `json:"time,omitzero"`
	// hash of the caller's key of this reward: a second one with it is a repetition
	Key ID `json:"key,omitzero"`

	Atoms []byte `json:"atoms,omitempty"` // copied from the decision; then there is no X

	Cost     float64 `json:"cost,omitzero"`      // what the event cost, in units of money
	Costed   bool    `json:"costed,omitzero"`    // it has a cost, which may be 0
	OnlyCost bool    `json:"only_cost,omitzero"` // it is no reward: Y is not read

	// Of a list with a reward for each position: which ones this call rewards, ascending, and how; Y is 0. Shown is 1 + how
	// many positions were on the screen, 0 where nothing is said.
	Positions []uint64  `json:"positions,omitempty"`
	Ys        []float64 `json:"ys,omitempty"`
	Shown     uint32    `json:"shown,omitzero"`

	// Of a model whose rewards have names: bit i of Named says that the i-th name, in ascending order, has a value here, and
	// Values are those, in that order; Y is 0.
	Named  uint64    `json:"named,omitzero"`
	Values []float64 `json:"values,omitempty"`
}

// MaxNamed bounds how many rewards a model has.
const MaxNamed = 8

// checkNamed checks the rewards with names.
func (r *Reward) checkNamed() error {
	switch {
	case r.Named>>MaxNamed != 0 || bits.OnesCount64(r.Named) != len(r.Values):
		return fmt.Errorf("reward: named = %#x with %d values: %w", r.Named, len(r.Values), ErrMalformed)
	case r.Named != 0 && (r.OnlyCost || r.Y != 0 || len(r.Positions) > 0 || r.Shown != 0):
		return fmt.Errorf("reward: named = %#x beside another reward: %w", r.Named, ErrMalformed)
	}
	return checkVector("reward: values", r.Values)
}

// Kind implements Record.
func (*Reward) Kind() Kind { return KindReward }
func (r *Reward) check() error {
	if r.Model == 0 {
		return fmt.Errorf("reward: model is 0: %w", ErrMalformed)
	}
	if err := checkCost(r.Cost); err != nil {
		return fmt.Errorf("reward: cost %w", err)
	}
	if !r.Costed && (r.Cost != 0 || r.OnlyCost && r.Shown == 0) {
		return fmt.Errorf("reward: cost = %v, only_cost = %t without costed: %w", r.Cost, r.OnlyCost, ErrMalformed)
	}
	return firstError(r.Event.check("reward: event"), r.checkPositions(), r.checkNamed(), checkVector("reward: x", r.X),
		checkFinite("reward: y", r.Y), checkText("reward: source", r.Source), checkAtoms("reward", r.X, r.Atoms))
}
func (r *Reward) append(b []byte) []byte {
	b = putEvent(b, 1, r.Event)
	b = putFixed(b, 2, uint64(r.Model))
	b = putFloats(b, 3, r.X)
	b = putFloat(b, 4, r.Y)
	b = putBytes(b, 5, r.Source)
	b = putInt(b, 6, r.Time)
	b = putFixed(b, 7, uint64(r.Key))
	b = putBytes(b, 8, r.Atoms)
	b = putFloat(b, 9, r.Cost)
	b = putBool(b, 10, r.Costed)
	b = putBool(b, 11, r.OnlyCost)
	b = putUints(b, 20, r.Positions)
	b = putFloats(b, 21, r.Ys)
	b = putUint(b, 22, uint64(r.Shown))
	b = putUint(b, 23, r.Named)
	return putFloats(b, 24, r.Values)
}
func (r *Reward) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Model = ID(d.fixed())
	case 3:
		r.X = d.floats()
	case 4:
		r.Y = d.float()
	case 5:
		r.Source = d.text()
	case 6:
		r.Time = d.int()
	case 7:
		r.Key = ID(d.fixed())
	case 8:
		r.Atoms = d.bytes()
	case 9:
		r.Cost = d.float()
	case 10:
		r.Costed = d.bool()
	case 11:
		r.OnlyCost = d.bool()
	case 20:
		r.Positions = list(d, d.slate.votes)
	case 21:
		r.Ys = d.floats()
	case 22:
		r.Shown = d.uint32()
	case 23:
		r.Named = d.uint()
	case 24:
		r.Values = d.floats()
	default:
		d.unknown()
	}
}

// Expire closes the reward window of Count events of one batch, beginning with Event. A node writes it;
// a reader never infers it from a clock.
type Expire struct {
	Event   Event   `json:"event"`
	Count   uint32  `json:"count"` // at least 1
	Model   ID      `json:"model"`
	Default bool    `json:"default,omitzero"` // those without a reward get Y
	Y       float64 `json:"y,omitzero"`
	Time    int64   `json:"time,omitzero"`
}

// Kind implements Record.
func (*Expire) Kind() Kind { return KindExpire }
func (r *Expire) check() error {
	switch {
	case r.Model == 0:
		return fmt.Errorf("expire: model is 0: %w", ErrMalformed)
	case r.Count == 0 || r.Count > MaxEvents || r.Event.Index > MaxEvents-r.Count:
		return fmt.Errorf("expire: %d events from index %d, a batch has at most %d: %w", r.Count, r.Event.Index,
			MaxEvents, ErrMalformed)
	case !r.Default && r.Y != 0:
		return fmt.Errorf("expire: y = %v without default: %w", r.Y, ErrMalformed)
	}
	return firstError(r.Event.check("expire: event"), checkFinite("expire: y", r.Y))
}
func (r *Expire) append(b []byte) []byte {
	b = putEvent(b, 1, r.Event)
	b = putUint(b, 2, uint64(r.Count))
	b = putFixed(b, 3, uint64(r.Model))
	b = putBool(b, 4, r.Default)
	b = putFloat(b, 5, r.Y)
	return putInt(b, 6, r.Time)
}
func (r *Expire) field(d *decoder) {
	switch d.num {
	case 1:
		r.Event = d.event()
	case 2:
		r.Count = d.uint32()
	case 3:
		r.Model = ID(d.fixed())
	case 4:
		r.Default = d.bool()
	case 5:
		r.Y = d.float()
	case 6:
		r.Time = d.int()
	default:
		d.unknown()
	}
}
