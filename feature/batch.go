package feature

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Batch encodes one request after the other: Begin, then Add for each action. It is the scratch
// space of one goroutine; once it has seen requests of some size it allocates nothing more.
type Batch struct {
	enc   *Encoder
	ready bool // Begin has succeeded
	x     []float64
	k     int
	phi   []float64
	given []int // by column: absent, null, or how many scalars were added
	// opened[k] is the element of the list (see element) in which prefix k was last an object.
	opened  []uint64
	element uint64
	reader  reader
	scalar  scalar
	path    []byte
	others  []other // keys that the schema does not have, to see that none comes twice
	names   []byte
	numbers []float64 // unpacked

	request uint64   // number of the request, for sighted
	sighted []glance // by column

	lenient  bool
	met      Met
	meetings []meeting
	metNames []byte
}

const (
	absent = -2
	null   = -1
)

// maxName bounds the bytes of a name such as user.address.city. The work for a name that the
// schema does not have grows with the square of this.
const maxName = 256

// other is a key that the schema does not have.
type other struct {
	hash    uint32
	leaf    bool
	from    int // names[from:to] is its path
	to      int
	element uint64
}

// NewBatch returns an empty batch for the encoder.
func NewBatch(e *Encoder) *Batch {
	return &Batch{
		enc: e, phi: make([]float64, e.phi), given: make([]int, len(e.columns)),
		sighted: make([]glance, len(e.columns)),
		opened:  make([]uint64, max(e.context.prefixes, e.action.prefixes)+1),
	}
}

// Encoder returns the batch's encoder.
func (b *Batch) Encoder() *Encoder { return b.enc }

// Len returns K, how many actions were added since Begin.
func (b *Batch) Len() int { return b.k }

// X returns the vectors, K×d row-major. The slice belongs to the batch and is valid until the next
// Begin.
func (b *Batch) X() []float64 { return b.x[:b.k*b.enc.dim] }

// Row returns the vector of action i.
func (b *Batch) Row(i int) []float64 {
	if i < 0 || i >= b.k {
		panic("feature: no such row")
	}
	d := b.enc.dim
	return b.x[i*d : (i+1)*d : (i+1)*d]
}

// Begin starts a request: it forgets the actions and reads the context, an object, a list of
// objects, a vector where the schema has one, or nothing (no bytes, or null). After an error the
// batch has no context and Add panics.
func (b *Batch) Begin(context []byte) error {
	b.ready, b.k = false, 0
	b.x = b.x[:0]
	b.request++
	b.met, b.meetings, b.metNames, b.scalar.met = 0, b.meetings[:0], b.metNames[:0], 0
	if err := b.read(&b.enc.context, context); err != nil {
		return err
	}
	b.ready = true
	return nil
}

// Add appends the vector of an action with this id and these features, in the forms that Begin
// takes. Where the schema does not use the id it may be empty. An error leaves the batch as it
// was.
func (b *Batch) Add(id string, features []byte) error {
	if !b.ready {
		panic("feature: Add without a successful Begin")
	}
	e := b.enc
	if err := b.room(1); err != nil {
		return err
	}
	if err := b.addID(id); err != nil {
		return err
	}
	if err := b.read(&e.action, features); err != nil {
		return err
	}
	b.row()
	return nil
}

// AddPacked appends one action for each row of a packed matrix (see Unpack) of shape [K, n]; the
// schema's action must be one vector of size n. ids has one id for each row, or is empty where the
// schema does not use ids. An error leaves the batch as it was.
func (b *Batch) AddPacked(ids []string, packed []byte) error {
	if !b.ready {
		panic("feature: AddPacked without a successful Begin")
	}
	e, before := b.enc, b.k
	fail := func(err error) error {
		b.k, b.x = before, b.x[:before*e.dim]
		return err
	}
	if e.action.root < 0 {
		return &Error{Code: Value, Path: "actions",
			Problem: "expected named features: the schema has no vector named action"}
	}
	r := &b.reader
	err := r.start(packed, &e.limits)
	rows := 0
	var shape [2]int
	if err == nil {
		b.numbers, shape, err = r.packed(b.numbers)
	}
	if err == nil {
		err = r.end()
	}
	if rows = shape[0]; err == nil && (shape[1] == 0 || len(ids) != 0 && len(ids) != rows) {
		err = &Error{Code: Value, Problem: expected("a matrix with one row for each of %d ids, found %d rows of %d",
			len(ids), rows, shape[1])}
	}
	if err != nil {
		return b.wrong(err, "actions")
	}
	if err := b.room(rows); err != nil {
		return err
	}
	for i := range rows {
		id := ""
		if len(ids) > 0 {
			id = ids[i]
		}
		if err := b.addID(id); err != nil {
			return fail(err)
		}
		b.clear(&e.action)
		c := &e.columns[e.action.root]
		if err := b.takePacked(&e.action, e.action.root, c, b.numbers[i*shape[1]:(i+1)*shape[1]]); err != nil {
			return fail(err)
		}
		if err := b.finish(&e.action); err != nil {
			return fail(err)
		}
		b.row()
	}
	return nil
}

// room refuses more actions than the limits allow.
func (b *Batch) room(n int) error {
	l := &b.enc.limits
	if k := b.k + n; k > l.Actions || k > l.Cells/b.enc.dim {
		return &Error{Code: Limit, Path: "actions", Problem: expected("at most %d actions (d = %d)",
			min(l.Actions, l.Cells/b.enc.dim), b.enc.dim)}
	}
	return nil
}

func (b *Batch) addID(id string) error {
	e := b.enc
	if e.ids < 0 {
		return nil
	}
	c := &e.columns[e.ids]
	dst := b.phi[c.from:c.to]
	clear(dst)
	if id == "" && b.lenient {
		return nil
	}
	if id == "" {
		return &Error{Code: Missing, Path: b.at("id"), Problem: "is missing or empty"}
	}
	if len(id) > e.limits.String {
		return b.wrong(tooLong(e.limits.String, len(id)), b.at("id"))
	}
	if !utf8.ValidString(id) {
		return &Error{Code: Value, Path: b.at("id"), Problem: notUTF8}
	}
	v := &b.scalar
	b.names = append(b.names[:0], id...)
	v.kind, v.text, v.list, v.seed = 's', b.names, false, c.seed
	if want := c.block.add(dst, 0, v); want != "" {
		return &Error{Code: Value, Path: b.at("id"), Value: `"` + shorten([]byte(id), 60) + `"`, Problem: want}
	}
	b.sight(e.ids, v)
	if v.met != 0 {
		b.meetValue(c)
	}
	for i := range dst {
		dst[i] *= c.weight
	}
	return nil
}

// at is the path of a field of the action that is being added.
func (b *Batch) at(field string) string { return "actions[" + strconv.Itoa(b.k) + "]." + field }

// row multiplies the blocks out.
func (b *Batch) row() {
	e := b.enc
	from := len(b.x)
	b.x = slices.Grow(b.x, e.dim)[:from+e.dim]
	row := b.x[from:]
	clear(row)
	if !e.disjoint {
		e.multiply(row, b.phi, e.scale)
	} else {
		c := &e.columns[e.ids]
		for i, v := range b.phi[c.from:c.to] {
			if v != 0 {
				e.multiply(row[i*e.base:(i+1)*e.base], b.phi, float64(v*e.scale))
			}
		}
	}
	for i, v := range row {
		if math.Abs(v) < 0x1p-1022 { // −0 and what is smaller than a normal number
			row[i] = 0
		}
	}
	b.k++
}

// multiply stores s·(1, φ₁, …, φ_a ⊗ φ_b, …) in row, which is zero.
func (e *Encoder) multiply(row, phi []float64, s float64) {
	if e.start == 1 {
		row[0] = s
	}
	for i := range e.columns {
		c := &e.columns[i]
		if c.at < 0 {
			continue
		}
		dst := row[c.at : c.at+c.to-c.from]
		for j, v := range phi[c.from:c.to] {
			dst[j] = v * s
		}
	}
	for i := range e.crosses {
		x := &e.crosses[i]
		a, b := phi[e.columns[x.a].from:e.columns[x.a].to], phi[e.columns[x.b].from:e.columns[x.b].to]
		for j, v := range a {
			if v == 0 {
				continue
			}
			v *= s
			dst := row[x.at+j*len(b) : x.at+(j+1)*len(b)]
			for k, w := range b {
				dst[k] = v * w
			}
		}
	}
}

// clear forgets the values of one side.
func (b *Batch) clear(s *side) {
	for _, i := range s.columns {
		c := &b.enc.columns[i]
		clear(b.phi[c.from:c.to])
		b.given[i] = absent
	}
	b.others, b.names = b.others[:0], b.names[:0]
	b.path = b.path[:0]
	b.element++
}

// finish ends the blocks of one side.
func (b *Batch) finish(s *side) error {
	for _, i := range s.columns {
		c := &b.enc.columns[i]
		if b.given[i] < 0 {
			if c.required {
				return &Error{Code: Missing, Path: b.nameOf(s, c), Problem: "is missing"}
			}
			continue
		}
		dst := b.phi[c.from:c.to]
		want := c.block.finish(dst, b.given[i], &b.scalar)
		if b.scalar.met != 0 {
			b.meetValue(c)
		}
		if v, is := c.block.(*vector); want != "" && b.lenient && (!is || b.given[i] != v.size) {
			clear(dst)
			b.meet(MetType, c.name, nil)
			continue
		}
		if want != "" {
			return &Error{Code: Value, Path: b.nameOf(s, c), Value: "a list of " + strconv.Itoa(b.given[i]),
				Problem: want}
		}
		if c.weight != 1 {
			for j := range dst {
				dst[j] *= c.weight
			}
		}
	}
	return nil
}

// base is how the side is called in the path of an error.
func (b *Batch) base(s *side) string {
	if s == &b.enc.action {
		return "actions[" + strconv.Itoa(b.k) + "]"
	}
	return s.prefix
}

func (b *Batch) nameOf(s *side, c *column) string {
	return b.base(s) + strings.TrimPrefix(c.name, s.prefix)
}

// here is the path of the value that is being read.
func (b *Batch) here(s *side) string {
	if len(b.path) == 0 {
		return b.base(s)
	}
	return b.base(s) + "." + shorten(b.path, 200)
}

// wrong gives an error of the reader its path.
func (b *Batch) wrong(err error, path string) error {
	if e, ok := err.(*Error); ok && e.Path == "" {
		e.Path = path
	}
	return err
}

// read encodes one side from its JSON value.
func (b *Batch) read(s *side, json []byte) error {
	b.clear(s)
	r := &b.reader
	err := r.start(json, &b.enc.limits)
	if err == nil && !r.empty() {
		if err = b.whole(s); err == nil {
			err = r.end()
		}
	}
	if err != nil {
		return b.wrong(err, b.here(s))
	}
	return b.finish(s)
}

// whole reads the value of a side: null, an object, a list of objects that are read as one, or a
// vector.
func (b *Batch) whole(s *side) error {
	r := &b.reader
	switch c := r.peek(); {
	case c == 'n':
		return r.literal("null")
	case s.root >= 0:
		return b.leaf(s, s.root)
	case c == '{':
		return b.object(s)
	case c == '[':
		if err := r.down(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := r.next(first, ']')
			if err != nil || !more {
				return err
			}
			if r.peek() != '{' {
				return b.shape("expected an object with named features")
			}
			b.element++
			if err := b.object(s); err != nil {
				return err
			}
		}
	}
	return b.shape("expected an object with named features")
}

// shape refuses a value of the wrong form, once it is known to be JSON.
func (b *Batch) shape(want string) error {
	r := &b.reader
	from := r.i
	if err := r.skip(); err != nil {
		return err
	}
	return &Error{Code: Value, Value: shorten(r.b[from:r.i], 60), Problem: want}
}

// object reads the members of an object at b.path.
func (b *Batch) object(s *side) error {
	r := &b.reader
	if err := r.down(); err != nil {
		return err
	}
	n := len(b.path)
	for first := true; ; first = false {
		more, err := r.next(first, '}')
		if err != nil || !more {
			return err
		}
		key, err := r.key()
		if err != nil {
			return err
		}
		if n > 0 {
			b.path = append(b.path, '.')
		}
		hidden := key[0] == '_'
		b.path = append(b.path, key...)
		if len(b.path) > maxName {
			return &Error{Code: Limit, Problem: expected("at most %d bytes in a name with its dots", maxName)}
		}
		if err := b.member(s, hidden); err != nil {
			return err
		}
		b.path = b.path[:n]
	}
}

// member reads the value at b.path.
func (b *Batch) member(s *side, hidden bool) error {
	r := &b.reader
	c := r.peek()
	node, known := s.nodes[string(b.path)]
	if known && node >= 0 {
		if b.given[node] != absent {
			return duplicate()
		}
		return b.leaf(s, node)
	}
	if known {
		if b.opened[-node] == b.element {
			return duplicate()
		}
		b.opened[-node] = b.element
		if c == '{' {
			return b.object(s)
		}
		if c == 'n' {
			return r.literal("null")
		}
	}
	if err := b.remember(hidden || c != '{'); err != nil {
		return err
	}
	if hidden {
		return r.skip()
	}
	if c == '{' {
		return b.object(s)
	}
	if w, ok := s.rest(b.path); ok {
		return b.leaf(s, w)
	}
	if !s.refuse {
		if c != 'n' {
			b.meet(MetIgnored, s.prefix, b.path)
		}
		return r.skip()
	}
	return &Error{Code: Unknown, Problem: "is not a feature of the schema"}
}

func duplicate() error { return &Error{Code: Duplicate, Problem: "is given twice"} }

// rest returns the column of kind hash that takes path, the one with the longest name.
func (s *side) rest(path []byte) (int, bool) {
	if len(s.wild) == 0 {
		return 0, false
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '.' {
			if c, ok := s.wild[string(path[:i])]; ok {
				return c, true
			}
		}
	}
	c, ok := s.wild[""]
	return c, ok
}

// remember refuses a key that the schema does not have when it comes again: a value twice anywhere
// in the side, an object twice in the same element of its list.
func (b *Batch) remember(leaf bool) error {
	h := murmur3(b.path, 0)
	for i := range b.others {
		o := &b.others[i]
		if o.hash == h && (o.leaf && leaf || o.element == b.element) && string(b.names[o.from:o.to]) == string(b.path) {
			return duplicate()
		}
	}
	from := len(b.names)
	b.names = append(b.names, b.path...)
	b.others = append(b.others, other{h, leaf, from, len(b.names), b.element})
	return nil
}

// leaf reads the value of column i: a scalar, a list of scalars, packed numbers.
func (b *Batch) leaf(s *side, i int) error {
	r := &b.reader
	c := &b.enc.columns[i]
	v := &b.scalar
	v.path, v.seed, v.list = b.path, c.seed, false
	switch r.peek() {
	case 'n':
		if b.given[i] == absent {
			b.given[i] = null
		}
		return r.literal("null")
	case '{':
		if _, ok := c.block.(*vector); ok {
			from, depth := r.i, r.depth
			err := b.packedLeaf(s, i, c)
			if e := (*Error)(nil); b.lenient && errors.As(err, &e) && e.Code == Value {
				r.i, r.depth = from, depth
				b.spoil(i, c)
				return r.skip()
			}
			return err
		}
	case '[':
		if err := r.down(); err != nil {
			return err
		}
		b.given[i] = max(b.given[i], 0)
		v.list = true
		for first := true; ; first = false {
			more, err := r.next(first, ']')
			if err != nil || !more {
				return err
			}
			if err := b.scalarOf(i, c); err != nil {
				return err
			}
		}
	}
	b.given[i] = max(b.given[i], 0)
	return b.scalarOf(i, c)
}

// packedLeaf reads packed numbers as the value of column i, a vector.
func (b *Batch) packedLeaf(s *side, i int, c *column) (err error) {
	var shape [2]int
	if b.numbers, shape, err = b.reader.packed(b.numbers); err != nil {
		return err
	}
	if shape[1] != 0 {
		return &Error{Code: Value, Problem: expected("packed numbers of shape [n], found [%d, %d]", shape[0], shape[1])}
	}
	return b.takePacked(s, i, c, b.numbers)
}

// scalarOf reads one scalar into column i.
func (b *Batch) scalarOf(i int, c *column) error {
	r, v := &b.reader, &b.scalar
	var err error
	switch ch := r.peek(); ch {
	case '"':
		v.kind = 's'
		v.text, err = r.string(r.limits.String)
	case 't':
		v.kind, err = 't', r.literal("true")
	case 'f':
		v.kind, err = 'f', r.literal("false")
	case 'n':
		v.kind, err = '0', r.literal("null")
	case '{', '[':
		if b.lenient {
			b.spoil(i, c)
			return r.skip()
		}
		what := "expected a value, not an object"
		if ch == '[' {
			what = "expected a value, not a list in a list"
		}
		return b.shape(what)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		v.kind = 'n'
		v.x, v.text, err = r.number()
	default:
		return r.syntax("a value")
	}
	if err != nil {
		return err
	}
	want := c.block.add(b.phi[c.from:c.to], b.given[i], v)
	if want != "" && b.lenient {
		switch v.convert(c.block) {
		case converted:
			b.meet(MetType, c.name, nil)
			want = c.block.add(b.phi[c.from:c.to], b.given[i], v)
		case unreadable:
			b.spoil(i, c)
			return nil
		}
	}
	if want != "" {
		return &Error{Code: Value, Value: v.show(), Problem: want}
	}
	b.sight(i, v)
	if v.met != 0 {
		b.meetValue(c)
	}
	b.given[i]++
	return nil
}

// takePacked adds unpacked numbers to column i, a vector.
func (b *Batch) takePacked(s *side, i int, c *column, numbers []float64) error {
	b.given[i] = 0
	if len(numbers) != c.to-c.from {
		return &Error{Code: Value, Path: b.nameOf(s, c), Value: strconv.Itoa(len(numbers)) + " packed numbers",
			Problem: expected("a list of %d numbers", c.to-c.from)}
	}
	copy(b.phi[c.from:c.to], numbers)
	b.sight(i, &b.scalar)
	b.given[i] = len(numbers)
	return nil
}

// show prints a scalar for a message.
func (v *scalar) show() string {
	what := ""
	if v.list {
		what = "a list with "
	}
	switch v.kind {
	case 't':
		return what + "true"
	case 'f':
		return what + "false"
	case '0':
		return what + "null"
	case 's':
		return what + `"` + shorten(v.text, 60) + `"`
	}
	return what + shorten(v.text, 40)
}
