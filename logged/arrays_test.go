package logged

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
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
		case "<i4":
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
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
	fortran := member{"context", "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }", npy("<f8", "", 1, 2, 3, 4)}
	lies := member{"context", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1000000000), }", npy("<f8", "", 1, 2)}
	for _, c := range []struct {
		members []member
		want    string
	}{
		{[]member{action, pickled, pscore}, "pickled"},
		{[]member{action, array("reward", "<f8", "3,", 1, 0, 1), pscore}, "reward: 3 rows, expected 2"},
		{[]member{action, reward, pscore, fortran}, "Fortran order"},
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
