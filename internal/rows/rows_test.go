package rows

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	Name string  `json:"name" parquet:"name"`
	X    float64 `json:"x" parquet:"x"`
}

// TestRows: what is written comes back, in groups of the size that was asked for.
func TestRows(t *testing.T) {
	in := []row{{"a<b", 0.5}, {"", -1}, {"c", 3}}
	for _, size := range []int{1, 2, 5} {
		var b bytes.Buffer
		w := Parquet[row](&b, size)
		for _, r := range in {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if n, want := len(f.RowGroups()), (len(in)+size-1)/size; n != want {
			t.Errorf("groups of %d: %d row groups, want %d", size, n, want)
		}
		out, err := parquet.Read[row](bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil || len(out) != len(in) || out[0] != in[0] || out[2] != in[2] {
			t.Errorf("groups of %d: %v, %v", size, out, err)
		}
	}
	var b bytes.Buffer
	w := JSON[row](&b)
	for _, r := range in[:2] {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "{\"name\":\"a<b\",\"x\":0.5}\n{\"name\":\"\",\"x\":-1}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// wide is a row with further columns.
type wide struct {
	Name string `json:"name" parquet:"name"`
	more map[string]float64
}

func (w wide) More() (names []string, values []*float64) {
	for _, name := range slices.Sorted(maps.Keys(w.more)) {
		names, values = append(names, name), append(values, nil)
		if v := w.more[name]; v == v {
			values[len(values)-1] = &v
		}
	}
	return names, values
}

// TestMore: further columns of a row stand behind its own, each with its value or null, and not in rows that do not have them.
func TestMore(t *testing.T) {
	in := []wide{{"a", map[string]float64{"r.x": 1.5, "r.y": math.NaN()}}, {"b", nil}, {"c", map[string]float64{"r.z": -2}}}
	var b bytes.Buffer
	lines, groups := JSON[wide](&b), new(bytes.Buffer)
	p := Parquet[wide](groups, 2, "r.x", "r.y", "r.z")
	for _, r := range in {
		if err := errors.Join(lines.Write(r), p.Write(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(lines.Close(), p.Close()); err != nil {
		t.Fatal(err)
	}
	if want := "{\"name\":\"a\",\"r.x\":1.5,\"r.y\":null}\n{\"name\":\"b\"}\n{\"name\":\"c\",\"r.z\":-2}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	out, err := parquet.Read[struct {
		Name string   `parquet:"name"`
		X    *float64 `parquet:"r.x,optional"`
		Y    *float64 `parquet:"r.y,optional"`
		Z    *float64 `parquet:"r.z,optional"`
	}](bytes.NewReader(groups.Bytes()), int64(groups.Len()))
	if err != nil || len(out) != 3 || *out[0].X != 1.5 || out[0].Y != nil || out[1].X != nil || out[1].Name != "b" || *out[2].Z != -2 {
		t.Errorf("%+v, %v", out, err)
	}
}
