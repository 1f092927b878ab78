package evaluate

import (
	"os"
	"path/filepath"
	"testing"

	"troupe/dataset"
)

// TestDigest: what a data set says decides, and neither its name, nor the order of its rows, nor how numbers are written.
func TestDigest(t *testing.T) {
	of := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := dataset.Read(path, dataset.Options{Format: "csv", Header: "no"})
		if err != nil {
			t.Fatal(err)
		}
		return digest(x)
	}
	want := of("a.csv", "1,2,0\n3,4,1\n5,6,1\n")
	if got := of("mydigits.csv", "5.0,6,1\n1,2.0,0\n3,4e0,1\n"); got != want || want == "" {
		t.Errorf("%q, want %q", got, want)
	}
	for _, other := range []string{"1,2,0\n3,4,1\n5,6,0\n", "1,2,0\n3,4,1\n", "2,1,0\n4,3,1\n6,5,1\n"} {
		if of("digits.csv", other) == want {
			t.Errorf("%q has the digest of another data set", other)
		}
	}
	if of("digits.csv", "1,a,0\n3,b,1\n5,a,1\n") != "" {
		t.Error("a table with names has a digest")
	}
}
