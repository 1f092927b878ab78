package rows

import (
	"bytes"
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
