package logged

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// member is one array of a zip: a header and its bytes.
type member struct {
	name, header string
	data         []byte
}

func npy(descr, shape string, values ...float64) []byte {
	var b []byte
	for _, v := range values {
		switch descr {
		case "<f8":
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case "<f4":
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case "<i8":
			b = binary.LittleEndian.AppendUint64(b, uint64(int64(v)))
		case "<i4", "<u4":
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
		case "<u8":
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case "<i2", "<u2":
			b = binary.LittleEndian.AppendUint16(b, uint16(int16(v)))
		case "<f2": // of numbers that are a sum of halves
			fraction, exponent := math.Frexp(v)
			bits := uint16(0)
			if v != 0 {
				bits = uint16(exponent+14)<<10 | uint16((2*fraction-1)*1024)
			}
			b = binary.LittleEndian.AppendUint16(b, bits)
		default:
			b = append(b, byte(v))
		}
	}
	return b
}

func writeZip(t *testing.T, name string, members ...member) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		w, err := z.Create(m.name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		h := m.header + strings.Repeat(" ", 63-(9+len(m.header))%64) + "\n"
		w.Write(append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(h))), h...))
		w.Write(m.data)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func array(name, descr, shape string, values ...float64) member {
	return member{name, fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape), npy(descr, shape, values...)}
}

// TestArrays: types, positions, and every refusal of obp's arrays.
func TestArrays(t *testing.T) {
	dir := t.TempDir()
	action, reward, pscore := array("action", "<i4", "2,", 1, 0), array("reward", "|b1", "2,", 1, 0), array("pscore", "<f4", "2,", 0.5, 0.25)
	law := array("pi_b", "<f8", "2, 2, 2", 0.25, 0.5, 0.75, 0.5, 0.25, 0.75, 0.75, 0.25)
	position := array("position", "<i8", "2,", 1, 0)
	name := filepath.Join(dir, "ok.npz")
	writeZip(t, name, action, reward, pscore, law, position)
	all := mustRead(t, name, Options{})
	if len(all) != 2 || all[0].Chosen != 1 || all[0].Reward != 1 || all[0].Law[1] != 0.5 || all[1].Law[0] != 0.25 || all[0].Position != 1 {
		t.Errorf("read %+v", all)
	}
	pickled := member{"reward", "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", []byte("\x80\x04")}
	fortran := member{"context", "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 268435456), }", npy("<f8", "", 1, 2, 3, 4)}
	lies := member{"context", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1000000000), }", npy("<f8", "", 1, 2)}
	for _, c := range []struct {
		members []member
		want    string
	}{
		{[]member{action, pickled, pscore}, "pickled"},
		{[]member{action, array("reward", "<f8", "3,", 1, 0, 1), pscore}, "reward: 3 rows, expected 2"},
		{[]member{action, reward, pscore, fortran}, "bytes, expected"},
		{[]member{action, reward, pscore, {"position", "{'descr': '|O', 'fortran_order': False, 'shape': (), }", []byte("\x80\x03cos\nsystem\nq\x00X\x02\x00\x00\x00lsq\x01\x85q\x02Rq\x03.")}}, "position: an array of Python objects (pickled), expected numbers, or None"},
		{[]member{action, reward, pscore, {"position", "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", pickledNone(3)}}, "pickled"},
		{[]member{action, reward, {"pscore", "{'descr': '|O', 'fortran_order': False, 'shape': (), }", pickledNone(3)}}, "pscore: no such array"},
		{[]member{array("action", "<i4", "1, 2", 1, 0), reward, pscore}, "action: shape [1 2], expected (n,)"},
		{[]member{action, array("reward", "<f8", "2, 2", 1, 0, 1, 0), pscore}, "reward: shape [2 2], expected (n,) or (n, 1)"},
		{[]member{action, reward, pscore, lies}, "bytes, expected"},
		{[]member{action, reward}, "pscore: no such array"},
		{[]member{action, reward, pscore, law}, "2 positions, expected an array position"},
		{[]member{action, reward, array("pscore", "<f8", "2,", 0.5, math.NaN())}, "row 2: propensity: NaN"},
		{[]member{action, array("reward", "<f8", "2,", 1, math.Inf(1)), pscore}, "row 2: reward: +Inf"},
		{[]member{array("action", "<f8", "2,", 0.5, 1), reward, pscore}, "row 1: action: 0.5, expected a whole number"},
		{[]member{array("action", ">i8", "2,", 0, 1), reward, pscore}, "numbers of type >i8"},
	} {
		name := filepath.Join(dir, "bad.npz")
		writeZip(t, name, c.members...)
		if _, _, err := readAll(name, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %q", err, c.want)
		}
	}
	// A zip whose members unpack to far more than they are.
	bomb := filepath.Join(dir, "bomb.npz")
	n := 1 << 20
	writeZip(t, bomb, array("action", "<i4", "1,", 0), array("reward", "<f8", "1,", 0), array("pscore", "<f8", "1,", 1),
		member{"padding", "{'descr': '|b1', 'fortran_order': False, 'shape': (1048576,), }", make([]byte, n)})
	b, err := os.ReadFile(bomb)
	if err != nil {
		t.Fatal(err)
	}
	// The directory of the archive says more than there is: what a bomb does.
	padding := "{'descr': '|b1', 'fortran_order': False, 'shape': (1048576,), }"
	old, lie := binary.LittleEndian.AppendUint32(nil, uint32(n+10+len(padding)+63-(9+len(padding))%64+1)), binary.LittleEndian.AppendUint32(nil, 0xf0000000)
	if i := bytes.LastIndex(b, old); i >= 0 {
		copy(b[i:], lie)
	} else {
		t.Fatal("the size is not in the directory")
	}
	if err := os.WriteFile(bomb, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(bomb, Options{}); err == nil || !strings.Contains(err.Error(), "zip bomb") {
		t.Errorf("a zip bomb: %v", err)
	}
}

// pickledNone is what pickle (Python 3.11, NumPy 1.24) makes of numpy.array(None, dtype=object); version 2 of NumPy has
// another name of the module.
func pickledNone(protocol int) []byte {
	text := map[int]string{
		3: "8003636e756d70792e636f72652e6d756c746961727261790a5f7265636f6e7374727563740a7100636e756d70790a6e6461727261790a71014b008571024301627103877104527105284b0129636e756d70790a64747970650a710658020000004f3871078988877108527109284b0358010000007c710a4e4e4e4affffffff4affffffff4b3f74710b62895d710c4e6174710d622e",
		4: "80049586000000000000008c156e756d70792e636f72652e6d756c74696172726179948c0c5f7265636f6e7374727563749493948c056e756d7079948c076e6461727261799493944b0085944301629487945294284b012968038c0564747970659493948c024f3894898887945294284b038c017c944e4e4e4affffffff4affffffff4b3f749462895d944e617494622e",
	}[protocol]
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// TestPickledNone: numpy.savez writes a value None as a pickle, and obp's feedback has one. That pickle is recognised without
// carrying out anything; others are refused: cut anywhere, with another name, and with another value in its list.
func TestPickledNone(t *testing.T) {
	for _, protocol := range []int{3, 4} {
		good := pickledNone(protocol)
		if !isPickledNone(good) {
			t.Fatalf("protocol %d is refused", protocol)
		}
		if two := bytes.Replace(good, []byte("numpy.core."), []byte("numpy._core."), 1); protocol == 3 && !isPickledNone(two) {
			t.Error("NumPy 2 is refused")
		}
		for i := range good {
			if isPickledNone(good[:i]) {
				t.Errorf("protocol %d: cut at %d is taken", protocol, i)
			}
		}
		for _, change := range [][2]string{{"_reconstruct", "_reconstrucT"}, {"ndarray", "matrix\x00"}, {"numpy", "posix"}, {"]q\x0cN", "]q\x0c\x88"}, {"]\x94N", "]\x94\x88"}, {"Nat", "Ret"}} {
			if bad := bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1); !bytes.Equal(bad, good) && isPickledNone(bad) {
				t.Errorf("protocol %d with %q for %q is taken", protocol, change[1], change[0])
			}
		}
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "obp.npz")
	writeZip(t, name, array("n_rounds", "<i8", ""), array("action", "<i8", "2,", 1, 0), array("reward", "<i8", "2,", 1, 0), array("pscore", "<f8", "2,", 0.5, 0.5),
		member{"position", "{'descr': '|O', 'fortran_order': False, 'shape': (), }", pickledNone(3)}, array("pi_b", "<f8", "2, 2, 1", 0.5, 0.5, 0.5, 0.5))
	if all := mustRead(t, name, Options{}); len(all) != 2 || all[0].Position != NoPosition || all[0].Chosen != 1 || all[0].Law[0] != 0.5 {
		t.Errorf("%+v", all)
	}
}

// TestArrayTypes: every type of numbers, column vectors, and Fortran order, are the same events.
func TestArrayTypes(t *testing.T) {
	c := func(descr, shape string, values ...float64) func(name string) member {
		return func(name string) member { return array(name, descr, shape, values...) }
	}
	// Element (i, k, l) of n × K × L in Fortran order is number i + n(k + K·l): laws (.25 .75), (.5 .5) at position 0 and
	// (.75 .25), (.125 .875) at position 1.
	fortran := func(name string) member {
		m := array(name, "<f8", "2, 2, 2", 0.25, 0.5, 0.75, 0.5, 0.75, 0.125, 0.25, 0.875)
		m.header = strings.Replace(m.header, "False", "True", 1)
		return m
	}
	want := [][]float64{{0.75, 0.25}, {0.5, 0.5}}
	file := filepath.Join(t.TempDir(), "t.npz")
	for i, whole := range []string{"<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "<f8", "<f4", "<f2"} {
		shape := []string{"2,", "2, 1", "2, 1, 1"}[i%3]
		context := array("context", "<f4", "2, 3", 1, 4, 2, 5, 3, 6)
		context.header = strings.Replace(context.header, "False", "True", 1)
		writeZip(t, file, c(whole, shape, 0, 1)("action"), c(whole, shape, 1, 0)("reward"), c("<f2", shape, 0.75, 0.5)("pscore"),
			c(whole, shape, 1, 0)("position"), fortran("pi_b"), context)
		all, _, err := readAll(file, Options{})
		if err != nil {
			t.Errorf("%s: %v", whole, err)
			continue
		}
		for i, e := range all {
			if !slices.Equal(e.Law, want[i]) || e.Chosen != i || e.Reward != float64(1-i) || e.Propensity != want[i][e.Chosen] ||
				!slices.Equal(e.Context, []float64{float64(3*i + 1), float64(3*i + 2), float64(3*i + 3)}) {
				t.Errorf("%s, row %d: %+v", whole, i, e)
			}
		}
	}
	for _, c := range []struct {
		bits uint16
		want float64
	}{{0, 0}, {0x3c00, 1}, {0xc000, -2}, {0x3555, 0.333251953125}, {1, 0x1p-24}, {0x7bff, 65504}, {0x7c00, math.Inf(1)}} {
		if got := half(c.bits); got != c.want {
			t.Errorf("half %#x is %v, want %v", c.bits, got, c.want)
		}
	}
	writeZip(t, file, array("action", "|i1", "1,", -1), array("reward", "<f8", "1,", 1), array("pscore", "<f8", "1,", 1))
	refused(t, file, Options{}, "row 1: action: -1, expected an index")
}

// TestForeignParquet: tables of other writers: other widths, plain columns with --columns, nulls with their row.
func TestForeignParquet(t *testing.T) {
	dir := t.TempDir()
	type row struct {
		Arm    string    `parquet:"arm"`
		Click  *bool     `parquet:"click,optional"`
		Prob   float32   `parquet:"prob"`
		When   time.Time `parquet:"when,timestamp(millisecond)"`
		P0, P1 float32   `parquet:",optional"`
		X      []float32 `parquet:"x,list"`
		Other  string    `parquet:"other"`
	}
	yes, at := true, time.Date(2026, 5, 4, 10, 0, 0, 5e6, time.UTC)
	name := filepath.Join(dir, "t.parquet")
	if err := parquet.WriteFile(name, []row{{"b", &yes, 0.5, at, 0.5, 0.5, []float32{1, 2}, "z"}, {"a", nil, 0.5, at, 0.5, 0.5, nil, "z"}}); err != nil {
		t.Fatal(err)
	}
	columns, err := ParseColumns("action=arm,reward=click,propensity=prob,time=when,law=P*,context=x")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(name, Options{Columns: columns}); err == nil ||
		!strings.Contains(err.Error(), "action: b, expected a number: nothing says which column of a law is this action's") {
		t.Errorf("names beside the columns P0 and P1: %v", err)
	}
	all, _, err := readAll(name, Options{Columns: columns, Names: []string{"b", "a"}})
	if len(all) != 1 || all[0].Reward != 1 || !all[0].Time.Equal(at) || all[0].K != 2 || len(all[0].Law) != 2 || len(all[0].Context) != 2 || all[0].Chosen != 0 {
		t.Errorf("read %+v", all)
	}
	if err == nil || !strings.Contains(err.Error(), "t.parquet: row 2: reward: null, expected a number") {
		t.Errorf("a null reward: %v", err)
	}
	if _, _, err := readAll(name, Options{}); err == nil || !strings.Contains(err.Error(), "arm: an unknown column") {
		t.Errorf("columns that are not ours: %v", err)
	}
}
