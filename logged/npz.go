package logged

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// npyArray is one member of a zip of arrays, read row by row.
type npyArray struct {
	name  string
	shape []int
	kind  string // one of npySizes
	size  int    // bytes of a number
	width int    // numbers in a row: the product of shape[1:]
	// columns is the whole array where its first index runs fastest (Fortran order); row i is read from everywhere in it.
	columns []byte
	at      int  // the next row of columns
	none    bool // not an array: None
	r       *bufio.Reader
	close   func() error
	raw     []byte
	row     []float64
}

var (
	npyDescr = regexp.MustCompile(`'descr'\s*:\s*(?:'([^']*)'|(\[))`)
	npyOrder = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape = regexp.MustCompile(`'shape'\s*:\s*\(([^)]*)\)`)
)

// npySizes are the types that are read.
var npySizes = map[string]int{"<f8": 8, "<f4": 4, "<f2": 2, "<i8": 8, "<i4": 4, "<i2": 2, "|i1": 1, "<u8": 8, "<u4": 4,
	"<u2": 2, "|u1": 1, "|b1": 1}

// mostColumns bounds an array in Fortran order, which is held in memory.
const mostColumns = 1 << 30

// openNPY reads the header of a member: NPY 1.0, 2.0 and 3.0.
func openNPY(f *zip.File) (*npyArray, error) {
	name := strings.TrimSuffix(f.Name, ".npy")
	fault := func(found, want string, args ...any) error {
		return &Error{Field: name, Found: found, Want: fmt.Sprintf(want, args...), Reason: "npz", fatal: true}
	}
	rc, err := f.Open()
	if err != nil {
		return nil, fault(err.Error(), "an array")
	}
	a := &npyArray{name: name, r: bufio.NewReaderSize(rc, 1<<16), close: rc.Close}
	failed := func(err error) (*npyArray, error) { rc.Close(); return nil, err }
	head := make([]byte, 12)
	if _, err := io.ReadFull(a.r, head[:10]); err != nil || string(head[:6]) != "\x93NUMPY" {
		return failed(fault("not a NumPy array", "a member in NPY format"))
	}
	n, from := int(binary.LittleEndian.Uint16(head[8:])), 10
	if head[6] > 1 {
		if _, err := io.ReadFull(a.r, head[10:]); err != nil {
			return failed(fault("a cut header", "a member in NPY format"))
		}
		n, from = int(binary.LittleEndian.Uint32(head[8:])), 12
	}
	if head[6] < 1 || head[6] > 3 || n > 1<<16 {
		return failed(fault(fmt.Sprintf("NPY version %d.%d with a header of %d bytes", head[6], head[7], n),
			"NPY 1.0 to 3.0"))
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(a.r, text); err != nil {
		return failed(fault("a cut header", "a member in NPY format"))
	}
	descr, order, shape := npyDescr.FindSubmatch(text), npyOrder.FindSubmatch(text), npyShape.FindSubmatch(text)
	if descr == nil || order == nil || shape == nil {
		return failed(fault("header "+shown(text), "descr, fortran_order and shape"))
	}
	a.kind = string(descr[1])
	size, ok := npySizes[a.kind]
	switch {
	case strings.Contains(a.kind, "O"):
		pickle, err := io.ReadAll(io.LimitReader(a.r, 1<<12))
		if a.none = err == nil && strings.Trim(string(shape[1]), " ,") == "" && isPickledNone(pickle); a.none {
			return a, nil
		}
		return failed(fault("an array of Python objects (pickled)", "numbers, or None; a pickle is a program and is not read"))
	case !ok:
		return failed(fault("numbers of type "+a.kind, "<f8, <f4, <f2, whole numbers of 1 to 8 bytes (little-endian) or |b1"))
	}
	a.size, a.width = size, 1
	total := 1
	for i, part := range strings.Split(string(shape[1]), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		side, err := strconv.Atoi(strings.TrimSuffix(part, "L"))
		if err != nil || side < 0 || side > 1<<40 || side > 0 && total > 1<<50/max(side, 1) {
			return failed(fault("shape ("+string(shape[1])+")", "sides that can be"))
		}
		a.shape = append(a.shape, side)
		total *= side
		if i > 0 {
			a.width *= side
		}
	}
	if want := uint64(from + n + total*size); f.UncompressedSize64 != want {
		return failed(fault(fmt.Sprintf("%d bytes", f.UncompressedSize64), "%d, as the shape (%s) of %s says", want,
			shape[1], a.kind))
	}
	if a.width > 1<<22 {
		return failed(fault(fmt.Sprintf("%d numbers in a row", a.width), "at most %d", 1<<22))
	}
	if string(order[1]) == "True" && a.width > 1 && total > a.width {
		if uint64(total*size) > 1100*(f.CompressedSize64+1) { // deflate packs 1032 bytes into one at best
			return failed(fault(fmt.Sprintf("%d bytes from %d", total*size, f.CompressedSize64), "a whole array"))
		}
		if total*size > mostColumns {
			return failed(fault(fmt.Sprintf("Fortran order and %d bytes", total*size),
				"C order (numpy.ascontiguousarray), or at most %d bytes", mostColumns))
		}
		a.columns = make([]byte, total*size)
		if _, err := io.ReadFull(a.r, a.columns); err != nil {
			return failed(fault(err.Error(), "a whole array"))
		}
	}
	return a, nil
}

// isPickledNone reports whether a pickle is NumPy's of an array without sides that holds None: what numpy.savez writes of a
// value that is None. It looks at the instructions and carries out none: each must be one of those that such a pickle has,
// each name one of NumPy's for an array of objects, and the array's contents must be the list [None].
func isPickledNone(b []byte) bool {
	var ops []byte // without those that only remember or frame
	for i := 0; i < len(b); {
		op := b[i]
		i++
		text, skip := -1, 0 // bytes that tell how long a text is; bytes of a number
		switch op {
		case 0x80, 'q', 'h', 'K': // PROTO, BINPUT, BINGET, BININT1
			skip = 1
		case 0x95: // FRAME
			skip = 8
		case 'r', 'j', 'J': // LONG_BINPUT, LONG_BINGET, BININT
			skip = 4
		case 0x94, 0x93, '(', 't', 0x85, 0x86, 0x87, ')', 'R', 'b', 'N', 0x88, 0x89, ']', 'a', '.':
		case 0x8c, 'C': // SHORT_BINUNICODE, SHORT_BINBYTES
			text = 1
		case 'X': // BINUNICODE
			text = 4
		case 'c': // GLOBAL: two lines
			for range 2 {
				end := bytes.IndexByte(b[i:], '\n')
				if end < 0 || !slices.Contains(numpyNames, string(b[i:i+end])) {
					return false
				}
				i += end + 1
			}
		default:
			return false
		}
		if text > 0 {
			if i+text > len(b) {
				return false
			}
			n := int(b[i])
			if text == 4 {
				n = int(binary.LittleEndian.Uint32(b[i:]))
			}
			if i += text; n > 64 || i+n > len(b) || !slices.Contains(numpyNames, string(b[i:i+n])) {
				return false
			}
			i += n
		}
		if i += skip; i > len(b) {
			return false
		}
		switch op {
		case 0x94, 'q', 'r', 0x95:
		default:
			ops = append(ops, op)
		}
		if op == '.' {
			return i == len(b) && bytes.HasSuffix(ops, []byte{']', 'N', 'a', 't', 'b', '.'}) &&
				bytes.Count(ops, []byte{']'}) == 1
		}
	}
	return false
}

// numpyNames are the texts in such a pickle.
var numpyNames = []string{"numpy.core.multiarray", "numpy._core.multiarray", "_reconstruct", "numpy", "ndarray", "dtype",
	"O8", "O", "|", "b"}

// next reads the next row.
func (a *npyArray) next() ([]float64, error) {
	if a.raw == nil {
		a.raw, a.row = make([]byte, a.width*a.size), make([]float64, a.width)
	}
	if a.columns != nil {
		a.gather()
	} else if _, err := io.ReadFull(a.r, a.raw); err != nil {
		return nil, &Error{Field: a.name, Found: err.Error(), Want: "a whole array", Reason: "npz", fatal: true}
	}
	for i := range a.row {
		b := a.raw[i*a.size:]
		switch a.kind {
		case "<f8":
			a.row[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case "<f4":
			a.row[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case "<f2":
			a.row[i] = half(binary.LittleEndian.Uint16(b))
		case "<i8":
			a.row[i] = float64(int64(binary.LittleEndian.Uint64(b)))
		case "<i4":
			a.row[i] = float64(int32(binary.LittleEndian.Uint32(b)))
		case "<i2":
			a.row[i] = float64(int16(binary.LittleEndian.Uint16(b)))
		case "|i1":
			a.row[i] = float64(int8(b[0]))
		case "<u8":
			a.row[i] = float64(binary.LittleEndian.Uint64(b))
		case "<u4":
			a.row[i] = float64(binary.LittleEndian.Uint32(b))
		case "<u2":
			a.row[i] = float64(binary.LittleEndian.Uint16(b))
		default: // |u1 and |b1
			a.row[i] = float64(b[0])
		}
	}
	return a.row, nil
}

// gather copies the next row of an array in Fortran order into raw: element (i, k, l) of n × K × L is number i + n·(k + K·l).
func (a *npyArray) gather() {
	n, last := a.shape[0], 1
	for _, side := range a.shape[2:] {
		last *= side
	}
	middle := a.width / last
	for k := range middle {
		for l := range last {
			from := (a.at + n*(k+middle*l)) * a.size
			copy(a.raw[(k*last+l)*a.size:][:a.size], a.columns[from:])
		}
	}
	a.at++
}

// half is a number of 16 bits (IEEE 754 binary16).
func half(b uint16) float64 {
	sign, exponent, fraction := 1.0, int(b>>10&31), float64(b&1023)/1024
	if b>>15 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -14)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1+fraction, exponent-15)
}

// npzNames are the arrays of obp's BanditFeedback, and of an evaluation beside it.
var npzNames = []string{"context", "action", "reward", "pscore", "position", "action_context", "pi_b", "action_dist",
	"estimated_rewards_by_reg_model"}

type npzSource struct {
	r       *Reader
	a       map[string]*npyArray
	n, k    int
	row     int
	actions [][]float64 // rows of action_context
}

func newNPZ(r *Reader, f *os.File, size int64) (source, error) {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, &Error{Found: err.Error(), Want: "a zip of NumPy arrays", fatal: true}
	}
	s := &npzSource{r: r, a: map[string]*npyArray{}}
	packed, unpacked := uint64(0), uint64(0)
	var names []string
	known := npzNames
	for _, m := range z.File {
		if m.Name == "slate_id.npy" {
			known = npzListNames
		}
	}
	for _, m := range z.File {
		packed, unpacked = packed+m.CompressedSize64, unpacked+m.UncompressedSize64
		name := strings.TrimSuffix(m.Name, ".npy")
		names = append(names, name)
		if !slices.Contains(known, name) {
			continue
		}
		if s.a[name] != nil {
			err = &Error{Field: name, Found: "two arrays of this name", Want: "one", fatal: true}
		} else {
			s.a[name], err = openNPY(m)
			if err == nil && s.a[name].none { // as if it were not there
				s.a[name].close()
				delete(s.a, name)
			}
		}
		if err != nil {
			delete(s.a, name)
			s.close()
			return nil, err
		}
	}
	switch {
	case packed > uint64(size):
		err = &Error{Found: "members that overlap: a zip bomb", Want: "each array once", fatal: true}
	case unpacked > 1<<30 && unpacked > 300*uint64(size):
		err = &Error{Found: fmt.Sprintf("%d bytes that unpack to %d: a zip bomb", size, unpacked),
			Want: "at most 300 times as many", fatal: true}
	case s.a["slate_id"] != nil:
		err = s.listShapes()
	default:
		err = s.shapes(names)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	if s.a["slate_id"] != nil {
		return s.slates(), nil
	}
	return s, nil
}

// shapes checks that the arrays fit each other.
func (s *npzSource) shapes(names []string) error {
	need := []string{"action", "reward", "pscore"}
	if s.r.o.Logger != nil {
		need = need[:2]
	}
	for _, name := range need {
		if s.a[name] == nil {
			return &Error{Field: name, Found: "no such array", Want: "obp's arrays; the file has " +
				strings.Join(names, ", "), fatal: true}
		}
	}
	for _, name := range []string{"action", "reward", "pscore", "position"} {
		if a := s.a[name]; a != nil && len(a.shape) > 1 && a.width == 1 { // a column vector
			a.shape = a.shape[:1]
		}
	}
	if len(s.a["action"].shape) != 1 {
		return &Error{Field: "action", Found: fmt.Sprint("shape ", s.a["action"].shape), Want: "(n,)", fatal: true}
	}
	s.n = s.a["action"].shape[0]
	for _, name := range npzNames {
		a := s.a[name]
		if a == nil {
			continue
		}
		sides := map[string]int{"context": 2, "action_context": 2, "pi_b": 3, "action_dist": 3,
			"estimated_rewards_by_reg_model": 3}[name]
		sides = max(sides, 1)
		if len(a.shape) != sides && !(sides == 3 && len(a.shape) == 2) {
			return &Error{Field: name, Found: fmt.Sprint("shape ", a.shape),
				Want: []string{"(n,) or (n, 1)", "(rows, numbers)", "(n, actions) or (n, actions, positions)"}[sides-1], fatal: true}
		}
		if name == "action_context" {
			for range a.shape[0] {
				x, err := a.next()
				if err != nil {
					return err
				}
				s.actions = append(s.actions, slices.Clone(x))
				if len(s.actions) > MaxActions {
					return &Error{Field: name, Found: "too many rows", Want: fmt.Sprintf("at most %d", MaxActions),
						fatal: true}
				}
			}
		} else if a.shape[0] != s.n {
			return &Error{Field: name, Found: fmt.Sprintf("%d rows", a.shape[0]),
				Want: fmt.Sprintf("%d, as action has", s.n), fatal: true}
		}
		k := 0
		if name == "action_context" {
			k = a.shape[0]
		} else if sides == 3 {
			k = a.shape[1]
		}
		if k > 0 && s.k > 0 && k != s.k {
			return &Error{Field: name, Found: fmt.Sprintf("%d actions", k), Want: fmt.Sprintf("%d, as before", s.k),
				fatal: true}
		}
		s.k = max(s.k, k)
		if len(a.shape) == 3 && a.shape[2] > 1 && s.a["position"] == nil {
			return &Error{Field: name, Found: fmt.Sprintf("%d positions", a.shape[2]),
				Want: "an array position that says which", fatal: true}
		}
	}
	if s.k == 0 {
		s.k = s.r.o.Actions
	}
	return nil
}

func (s *npzSource) close() error {
	for _, a := range s.a {
		a.close()
	}
	return nil
}

func (s *npzSource) place() (line, column, row int) { return 0, 0, s.row }

func (s *npzSource) next(e *Event) error {
	if s.row == s.n {
		return io.EOF
	}
	s.row++
	fault, err := s.event(e)
	if err != nil {
		return err
	}
	if fault != nil {
		fault.Row = s.row
		return fault
	}
	if s.r.o.Position != "" && strconv.Itoa(e.Position) != s.r.o.Position {
		return errSkip("of another position")
	}
	return nil
}

func (s *npzSource) event(e *Event) (*Error, error) {
	rows := map[string][]float64{}
	for name, a := range s.a {
		if name == "action_context" {
			continue
		}
		x, err := a.next()
		if err != nil {
			return nil, err
		}
		rows[name] = x
	}
	e.K = s.k
	whole := func(name string) (int, *Error) {
		v := rows[name][0]
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return 0, bad(name, number(v), "a whole number")
		}
		return int(v), nil
	}
	var fault *Error
	if e.Chosen, fault = whole("action"); fault != nil {
		return fault, nil
	}
	if rows["position"] != nil {
		if e.Position, fault = whole("position"); fault != nil {
			return fault, nil
		}
		if e.Position < 0 {
			return bad("position", strconv.Itoa(e.Position), "a place from 0"), nil
		}
	}
	if rows["pscore"] != nil {
		if e.Propensity = rows["pscore"][0]; e.Propensity == 0 {
			return bad("propensity", "0", "a number in (0, 1]"), nil
		}
	}
	if x := rows["context"]; x != nil {
		e.Context = e.numbers(len(x))
		copy(e.Context, x)
	}
	for _, l := range []struct {
		name string
		into *[]float64
	}{{"pi_b", &e.Law}, {"action_dist", &e.Target}, {"estimated_rewards_by_reg_model", &e.Q}} {
		x := rows[l.name]
		if x == nil {
			continue
		}
		at, lists := 0, len(x)/s.k
		if lists > 1 {
			if at = e.Position; at >= lists {
				return bad("position", strconv.Itoa(at), "a place from 0 to %d", lists-1), nil
			}
		}
		*l.into = e.numbers(s.k)
		for k := range *l.into {
			(*l.into)[k] = x[k*lists+at]
		}
	}
	for _, x := range s.actions {
		e.action().X = x
	}
	if fault := s.r.lawful(e, 0); fault != nil {
		return fault, nil
	}
	e.Reward, e.BadReward = rows["reward"][0], true
	if fault := e.check(&s.r.o); fault != nil {
		return fault, nil
	}
	e.BadReward = false
	return checkReward("reward", e.Reward, &s.r.o), nil
}
