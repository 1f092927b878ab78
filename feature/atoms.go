package feature

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"troupe/bandit"
)

// AtomEncoder is the encoder of models without a schema: a request becomes atoms, each a 64-bit hash, which begins with 20
// bits of its field and three of its role (bandit.Role), and a value. It never changes and is safe for concurrent use.
//
//	string, boolean   one atom for (name, level), value 1
//	number            one atom for (name), whose value is the number; a whole number from ±2⁵³ on, which a float64 may
//	                  not hold, is text: its digits
//	list of numbers   each is a number of its own, name[0], name[1], …
//	other lists       each element adds its atoms under the list's name
//	object            its members, with names joined by dots; a key with dots is the same name as keys below one another
//	null, missing     none
//
// A string of more than three words has one more atom for each word, together of length 1. An action has the atom (id,
// its id) and those of its features.
//
// The vector of an action is the list of the atoms of the context and of the action (bandit.AtomList).
type AtomEncoder struct{ limits Limits }

// NewAtomEncoder returns the encoder.
func NewAtomEncoder(limits Limits) *AtomEncoder { return &AtomEncoder{limits.filled()} }

// Dim returns 1: all entries of a vector have one coordinate.
func (h *AtomEncoder) Dim() int { return 1 }

// tag returns the hash of an atom.
func (h *AtomEncoder) tag(field uint64, role bandit.Role, hash uint64) uint64 {
	return bandit.TagAtom(mix(field), role, hash)
}

// FieldNumber returns the number of the field of a feature, the upper 20 bits of the hashes of its atoms, by the hash
// of its name (Given.Feature).
func FieldNumber(feature uint64) uint32 { return uint32(mix(feature) >> 44) }

// Atom is one value of a request.
type Atom struct {
	Hash  uint64
	Value float64
}

// mix is the finaliser of MurmurHash3 (64 bits), a bijection.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hash64 hashes bytes under a seed: a multiply–mix over words of eight bytes.
func hash64(seed uint64, b []byte) uint64 {
	h := seed ^ mix(uint64(len(b))+0x9e3779b97f4a7c15)
	for ; len(b) >= 8; b = b[8:] {
		h = mix(h ^ binary.LittleEndian.Uint64(b))
	}
	var w uint64
	for i := len(b) - 1; i >= 0; i-- {
		w = w<<8 | uint64(b[i])
	}
	return mix(h ^ w ^ 0x2545f4914f6cdd1d)
}

// AppendVector appends the vector of the action with these atoms in this context: the first atom of the action is its
// id.
func (h *AtomEncoder) AppendVector(at []uint32, x []float64, context, action []Atom) ([]uint32, []float64) {
	l := bandit.AtomList{At: at, X: x}
	for _, a := range context {
		l.Append(a.Hash, a.Value)
	}
	for _, a := range action {
		l.Append(a.Hash, a.Value)
	}
	l.End(len(context), len(action))
	return l.At, l.X
}

// IDAtom returns the hash of an action's first atom, that of its id.
func (h *AtomEncoder) IDAtom(id string) uint64 { return h.idAtom([]byte(id)) }

// EnteredAtom is IDAtom of an action that has entered so many times: the hash of another action for every number.
func (h *AtomEncoder) EnteredAtom(id string, times uint32) uint64 {
	return h.enteredAtom([]byte(id), times)
}

func (h *AtomEncoder) enteredAtom(id []byte, times uint32) uint64 {
	if times == 0 {
		return h.idAtom(id)
	}
	return h.tag(seedID, bandit.LevelRole, mix(hash64(seedID, id)+uint64(times)))
}

func (h *AtomEncoder) idAtom(id []byte) uint64 {
	return h.tag(seedID, bandit.LevelRole, hash64(seedID, id))
}

// AppendAtoms appends atoms for a log: the count (uvarint), then for each its hash as 8 bytes,
// little-endian, and a byte that is 0 for value 1, 1 for a float32 that follows, and 2 for a float64.
func AppendAtoms(b []byte, atoms []Atom) []byte {
	b = binary.AppendUvarint(b, uint64(len(atoms)))
	for _, a := range atoms {
		b = binary.LittleEndian.AppendUint64(b, a.Hash)
		if a.Value == 1 {
			b = append(b, 0)
			continue
		}
		if v := float32(a.Value); float64(v) == a.Value {
			b = append(b, 1)
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			continue
		}
		b = append(b, 2)
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(a.Value))
	}
	return b
}

// maxAtoms bounds the atoms of a context and of an action.
const maxAtoms = 1 << 14

// ReadAtoms is the inverse of AppendAtoms: it appends the atoms to dst and returns the bytes after them.
func ReadAtoms(dst []Atom, b []byte) (atoms []Atom, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > maxAtoms || n*9 > uint64(len(b)-k) {
		return dst, b, errors.New("feature: atoms are cut short or too many")
	}
	b = b[k:]
	for range n {
		if len(b) < 9 || b[8] > 2 || b[8] == 1 && len(b) < 13 || b[8] == 2 && len(b) < 17 {
			return dst, b, errors.New("feature: an atom is cut short or of an unknown form")
		}
		a := Atom{binary.LittleEndian.Uint64(b), 1}
		switch b[8] {
		case 1:
			a.Value = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[9:])))
			b = b[4:]
		case 2:
			a.Value = math.Float64frombits(binary.LittleEndian.Uint64(b[9:]))
			b = b[8:]
		}
		if a.Value-a.Value != 0 {
			return dst, b, fmt.Errorf("feature: an atom has the value %v, expected a finite number", a.Value)
		}
		b = b[9:]
		dst = append(dst, a)
	}
	return dst, b, nil
}

// AtomBatch encodes one request after the other: Begin, then Add for each action, as Batch does. It is
// the set of its actions (bandit.Sparse), valid until the next Begin. It is the scratch space of one
// goroutine; once it has seen requests of some size it allocates nothing more.
type AtomBatch struct {
	enc   *AtomEncoder
	ready bool
	times map[string]uint32 // how often actions have entered

	atoms   []Atom // of the context, then of every action
	bounds  []int  // atoms of the context end at bounds[0], of action i at bounds[i+1]
	from    []int  // vector of action i: from[i] ≤ k < from[i+1]
	at      []uint32
	x       []float64
	numbers []float64

	reader reader
	path   []byte
	text   []byte
	keys   []uint64 // names of the object that is read, to see that none comes twice
	seen   []sighting
	names  []byte
}

// sighting is a feature that the request has.
type sighting struct {
	feature  uint64
	kind     byte // 'n' number, 's' string, 't' text of several words, 'b' boolean, '0' null
	x        float64
	from, to int // in names

	atom    uint64 // of the level, 0 without one
	levelTo int    // the level's text follows the name, up to here
}

// maxLevel is how much of a level's text a batch keeps for people.
const maxLevel = 64

// Values calls f with each value of the request, in order. Names begin with "context" or "action".
func (b *AtomBatch) Values(f func(Given)) {
	for i := range b.seen {
		v := &b.seen[i]
		kind := v.kind
		f(Given{
			Name: b.names[v.from:v.to], Kind: kind, X: v.x, Number: v.kind == 'n',
			Feature: v.feature, Level: b.names[v.to:max(v.to, v.levelTo)], Atom: v.atom,
		})
	}
}

// NewAtomBatch returns an empty batch for the encoder.
func NewAtomBatch(h *AtomEncoder) *AtomBatch {
	return &AtomBatch{enc: h}
}

// Enter says how often actions have entered, by id: the first atom of such an action is EnteredAtom. It holds for the
// requests that follow.
func (b *AtomBatch) Enter(times map[string]uint32) { b.times = times }

// Len returns K, how many actions were added since Begin.
func (b *AtomBatch) Len() int { return max(0, len(b.bounds)-1) }

// Dim implements bandit.ActionSet.
func (b *AtomBatch) Dim() int { return b.enc.Dim() }

// Context returns the atoms of the context in ascending order of hashes.
func (b *AtomBatch) Context() []Atom { return b.atoms[:b.bounds[0]] }

// Action returns the atoms of action i; the first is its id.
func (b *AtomBatch) Action(i int) []Atom { return b.atoms[b.bounds[i]:b.bounds[i+1]] }

// Nonzeros implements bandit.Sparse.
func (b *AtomBatch) Nonzeros(i int) (at []uint32, value []float64) {
	k, l := b.from[i], b.from[i+1]
	return b.at[k:l:l], b.x[k:l:l]
}

// ArgMax implements bandit.ActionSet for a theta of Dim numbers: the lowest index among equals.
func (b *AtomBatch) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if len(theta) != b.Dim() {
		panic("feature: theta has the wrong length")
	}
	best, arm := math.Inf(-1), -1
	for i := range b.Len() {
		at, x := b.Nonzeros(i)
		var v float64
		for k, c := range at {
			v += float64(x[k] * theta[c])
		}
		if v-v != 0 {
			return 0, fmt.Errorf("feature: theta gives action %d the value %v: %w", i, v, bandit.ErrNotFinite)
		}
		if v > best {
			best, arm = v, i
		}
	}
	if arm < 0 {
		return 0, errors.New("feature: the batch has no actions")
	}
	at, x := b.Nonzeros(arm)
	dst.SetSparse(at, x, arm)
	return best, nil
}

// Same reports whether actions i and j have the same vector: the same atoms. Two actions without an id
// and with equal features do; two with different ids do not.
func (b *AtomBatch) Same(i, j int) bool { return slices.Equal(b.Action(i), b.Action(j)) }

// Groups stores in dst, for every action, the smallest index of an action with the same atoms, and
// returns it with the number of groups. Cost: one map of K hashes.
func (b *AtomBatch) Groups(dst []int) (first []int, groups int) {
	k := b.Len()
	dst = slices.Grow(dst[:0], k)[:k]
	seen := make(map[uint64]int, k)
	for i := range k {
		h := uint64(0)
		for _, a := range b.Action(i) {
			h = mix(h ^ mix(a.Hash^math.Float64bits(a.Value)*0x9e3779b97f4a7c15))
		}
		j, ok := seen[h]
		switch {
		case !ok:
			seen[h], j = i, i
		case !b.Same(i, j): // a collision of 64 bits
			for j = 0; j < i && !b.Same(i, j); j++ {
			}
		}
		if dst[i] = j; j == i {
			groups++
		}
	}
	return dst, groups
}

// Begin starts a request: it forgets the actions and reads the context, an object, a list, or nothing
// (no bytes, or null). After an error the batch has no context and Add panics.
func (b *AtomBatch) Begin(context []byte) error {
	b.ready = false
	b.atoms, b.bounds, b.from, b.at, b.x = b.atoms[:0], b.bounds[:0], append(b.from[:0], 0), b.at[:0], b.x[:0]
	b.seen, b.names = b.seen[:0], b.names[:0]
	if err := b.read(seedContext, context); err != nil {
		return err
	}
	slices.SortFunc(b.atoms, compareAtoms)
	b.bounds = append(b.bounds, len(b.atoms))
	b.ready = true
	return nil
}

func compareAtoms(a, b Atom) int {
	switch {
	case a.Hash != b.Hash && a.Hash < b.Hash, a.Hash == b.Hash && a.Value < b.Value:
		return -1
	case a == b:
		return 0
	}
	return 1
}

const (
	seedContext = 0x636f6e74657874
	seedAction  = 0x616374696f6e
	seedID      = 0x6964
	seedLevel   = 0x6c6576656c
	seedBin     = 0x62696e
	seedValue   = 0x76616c7565
	seedWord    = 0x776f7264
)

// Add appends the vector of an action with this id and these features, in the forms that Begin takes.
// Without an id, actions are told apart by their features only. An error leaves the batch as it was.
func (b *AtomBatch) Add(id string, features []byte) error {
	if err := b.id(id); err != nil {
		return err
	}
	k, seen, names := len(b.atoms)-1, len(b.seen), len(b.names)
	if err := b.read(seedAction, features); err != nil {
		b.atoms, b.seen, b.names = b.atoms[:k], b.seen[:seen], b.names[:names]
		return err
	}
	b.finish(k)
	return nil
}

// id begins an action.
func (b *AtomBatch) id(id string) error {
	if !b.ready {
		panic("feature: Add without a successful Begin")
	}
	l := &b.enc.limits
	if b.Len() >= l.Actions || len(b.at) >= 64*l.Cells {
		return &Error{Code: Limit, Path: "actions", Problem: expected("at most %d actions", min(b.Len(), l.Actions))}
	}
	where := func() string { return "actions[" + strconv.Itoa(b.Len()) + "].id" }
	if len(id) > l.String {
		e := tooLong(l.String, len(id)).(*Error)
		e.Path = where()
		return e
	}
	if !utf8.ValidString(id) {
		return &Error{Code: Value, Path: where(), Problem: notUTF8}
	}
	b.text = append(b.text[:0], id...)
	b.atoms = append(b.atoms, Atom{b.enc.enteredAtom(b.text, b.times[id]), 1})
	return nil
}

// finish ends an action whose atoms begin at k.
func (b *AtomBatch) finish(k int) {
	action := b.atoms[k:]
	slices.SortFunc(action[1:], compareAtoms)
	b.bounds = append(b.bounds, len(b.atoms))
	b.at, b.x = b.enc.AppendVector(b.at, b.x, b.Context(), action)
	b.from = append(b.from, len(b.at))
}

// AddPacked appends one action for each row of a packed matrix (see Unpack): entry i of a row is the
// number feature [i]. ids has one id for each row, or is empty. An error leaves the batch as it was.
func (b *AtomBatch) AddPacked(ids []string, packed []byte) error {
	if !b.ready {
		panic("feature: Add without a successful Begin")
	}
	r := &b.reader
	err := r.start(packed, &b.enc.limits)
	var shape [2]int
	if err == nil {
		b.numbers, shape, err = r.packed(b.numbers)
	}
	if err == nil {
		err = r.end()
	}
	if err == nil && (shape[1] == 0 || shape[1] > b.enc.limits.Values || len(ids) != 0 && len(ids) != shape[0]) {
		err = &Error{Code: Value, Problem: expected("a matrix with one row for each of %d ids and at most %d "+
			"columns, found %d rows of %d", len(ids), b.enc.limits.Values, shape[0], shape[1])}
	}
	if err != nil {
		return b.wrong(err, "actions")
	}
	atoms, bounds, seen, names, at := len(b.atoms), len(b.bounds), len(b.seen), len(b.names), len(b.at)
	for i := range shape[0] {
		id := ""
		if len(ids) > 0 {
			id = ids[i]
		}
		if err := b.id(id); err != nil {
			b.atoms, b.bounds, b.seen, b.names, b.at, b.x, b.from = b.atoms[:atoms], b.bounds[:bounds], b.seen[:seen],
				b.names[:names], b.at[:at], b.x[:at], b.from[:bounds]
			return err
		}
		k := len(b.atoms) - 1
		b.path = append(b.path[:0], "action"...)
		for j, v := range b.numbers[i*shape[1] : (i+1)*shape[1]] {
			b.element(seedAction, j, v)
		}
		b.finish(k)
	}
	return nil
}

func (b *AtomBatch) wrong(err error, path string) error {
	if e, ok := err.(*Error); ok && e.Path == "" {
		e.Path = path
	}
	return err
}

// read appends the atoms of one JSON value.
func (b *AtomBatch) read(seed uint64, value []byte) error {
	r := &b.reader
	b.keys, b.path = b.keys[:0], append(b.path[:0], "context"...)
	if seed == seedAction {
		b.path = append(b.path[:0], "action"...) // the name is the same for every action
	}
	if len(value) == 0 {
		return nil
	}
	err := r.start(value, &b.enc.limits)
	if err == nil && r.empty() {
		return nil
	}
	if err == nil {
		err = b.value(seed)
	}
	if err == nil {
		err = r.end()
	}
	if err == nil && len(b.atoms) > maxAtoms*max(1, len(b.bounds)) {
		err = &Error{Code: Limit, Problem: expected("at most %d features", maxAtoms)}
	}
	if err != nil {
		path := "context"
		if seed == seedAction {
			path = "actions[" + strconv.Itoa(b.Len()) + "]"
		}
		if i := slices.Index(b.path, '.'); i >= 0 {
			path += shorten(b.path[i:], 200)
		}
		return b.wrong(err, path)
	}
	return nil
}

// value reads a value under the name that seed is the hash of.
func (b *AtomBatch) value(seed uint64) error {
	r := &b.reader
	switch c := r.peek(); c {
	case '{':
		return b.object(seed)
	case '[':
		return b.list(seed)
	case '"':
		s, err := r.string(r.limits.String)
		if err != nil {
			return err
		}
		b.string(seed, s)
		return nil
	case 't', 'f', 'n':
		at := r.i
		if err := r.skip(); err != nil {
			return err
		}
		if c == 'n' {
			b.note(seed, '0', 0)
			return nil
		}
		b.note(seed, 'b', 0)
		b.level(seed, seed, bandit.LevelRole, r.b[at:r.i])
		b.tell(r.b[at:r.i])
		return nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		from := r.i
		x, _, err := r.number()
		if err != nil {
			return err
		}
		if text := r.b[from:r.i]; digits(text, x) {
			b.level(seed, seed, bandit.LevelRole, text)
			b.note(seed, 's', 0)
			b.tell(text)
			return nil
		}
		b.number(seed, x)
		return nil
	}
	return r.syntax("a value")
}

func (b *AtomBatch) object(seed uint64) error {
	r := &b.reader
	if err := r.down(); err != nil {
		return err
	}
	first := len(b.keys)
	for open := true; ; open = false {
		more, err := r.next(open, '}')
		if err != nil {
			return err
		}
		if !more {
			b.keys = b.keys[:first]
			return nil
		}
		k, err := r.key()
		if err != nil {
			return err
		}
		if k[0] == '_' { // never a feature, as in VW's JSON
			if err := r.skip(); err != nil {
				return err
			}
			continue
		}
		length := len(b.path)
		b.path = append(append(b.path, '.'), k...)
		if len(b.path) > maxName {
			return &Error{Code: Limit, Problem: expected("a name of at most %d bytes", maxName)}
		}
		name := nameBelow(seed, k)
		if slices.Contains(b.keys[first:], name) {
			return &Error{Code: Duplicate, Problem: "is given twice"}
		}
		b.keys = append(b.keys, name)
		if err := b.value(name); err != nil {
			return err
		}
		b.path = b.path[:length]
	}
}

// nameBelow hashes a key below a name; a dotted key is the same name as nested keys.
func nameBelow(seed uint64, key []byte) uint64 {
	for {
		i := slices.Index(key, '.')
		if i <= 0 || i == len(key)-1 {
			return hash64(seed, key)
		}
		seed, key = hash64(seed, key[:i]), key[i+1:]
	}
}

func (b *AtomBatch) list(seed uint64) error {
	r := &b.reader
	if err := r.down(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		more, err := r.next(n == 0, ']')
		if err != nil || !more {
			return err
		}
		if c := r.peek(); c == '-' || '0' <= c && c <= '9' {
			x, _, err := r.number()
			if err != nil {
				return err
			}
			b.element(seed, n, x)
			continue
		}
		if err := b.value(seed); err != nil {
			return err
		}
	}
}

// element reads entry n of a list of numbers.
func (b *AtomBatch) element(seed uint64, n int, x float64) {
	length := len(b.path)
	b.path = append(strconv.AppendInt(append(b.path, '['), int64(n), 10), ']')
	b.number(mix(seed+uint64(n)+1), x)
	b.path = b.path[:length]
}

// push adds an atom of a field, the hash of a feature's name.
func (b *AtomBatch) push(field uint64, role bandit.Role, h uint64, v float64) {
	b.atoms = append(b.atoms, Atom{b.enc.tag(field, role, h), v})
}

func (b *AtomBatch) level(field, seed uint64, role bandit.Role, text []byte) {
	b.push(field, role, hash64(seed^seedLevel, text), 1)
}

// string reads a text.
func (b *AtomBatch) string(seed uint64, s []byte) {
	b.level(seed, seed, bandit.LevelRole, s)
	gaps := 0
	for i := 1; i+1 < len(s); i++ {
		if s[i] == ' ' && s[i+1] != ' ' {
			gaps++
		}
	}
	if gaps < 3 {
		b.note(seed, 's', 0)
		b.tell(s)
		return
	}
	b.note(seed, 't', 0)
	b.tell(s)
	first := len(b.atoms)
	b.text = words(b.text[:0], s, func(buf []byte, start, end int) {
		if len(b.atoms)-first < 64 {
			b.push(seed, bandit.WordRole, hash64(seed^seedWord, buf[start:end]), 1)
		}
	})
	n := len(b.atoms) - first
	v := float64(float32(1 / math.Sqrt(float64(max(n, 1)))))
	for i := first; i < len(b.atoms); i++ {
		b.atoms[i].Value = v
	}
}

// note remembers a feature that the request has.
func (b *AtomBatch) note(seed uint64, kind byte, x float64) {
	from := len(b.names)
	b.names = append(b.names, b.path...)
	b.seen = append(b.seen, sighting{feature: seed, kind: kind, x: x, from: from, to: len(b.names)})
}

// tell keeps the text of the newest atom, which is a level of the newest sighting.
func (b *AtomBatch) tell(text []byte) {
	v := &b.seen[len(b.seen)-1]
	if len(text) > maxLevel {
		n := maxLevel
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		b.names = append(append(b.names, text[:n]...), "…"...)
	} else {
		b.names = append(b.names, text...)
	}
	v.atom, v.levelTo = b.atoms[len(b.atoms)-1].Hash, len(b.names)
}

// number reads a number.
func (b *AtomBatch) number(seed uint64, x float64) {
	b.note(seed, 'n', x)
	b.push(seed, bandit.NumberRole, 0, x+0) // −0 is 0
}

// digits reports whether a number has to be read as text: it is whole, and a float64 does not hold it.
func digits(text []byte, x float64) bool {
	return math.Abs(x) >= 1<<53 && !bytes.ContainsAny(text, ".eE")
}

var _ bandit.Sparse = (*AtomBatch)(nil)
