package fold_test

import (
	"slices"
	"strings"
	"testing"

	"troupe/serve/fold"
)

// TestPruneMeanwhile: snapshots that a trim writes while old ones are removed stay, whether it writes them before
// or after Prune asks what is needed.
func TestPruneMeanwhile(t *testing.T) {
	files := fold.Files(t.TempDir())
	write := func(seqs ...uint64) {
		for _, seq := range seqs {
			if err := files.Write(seq, strings.NewReader("a state")); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(10, 20, 30, 60, 70, 80)
	if err := files.Prune(func() (base, keep uint64) { write(25, 40); return 10, 20 }); err != nil {
		t.Fatal(err)
	}
	if have, err := files.List(); err != nil || !slices.Equal(have, []uint64{80, 70, 60, 40, 25, 20, 10}) {
		t.Errorf("%v, %v", have, err)
	}
}
