package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestReplayRefuses: each index past its end is refused and named, and the first and the last of each are played.
func TestReplayRefuses(t *testing.T) {
	x := parse(t, mixed)
	last := []int{len(x.Environments) - 1, len(x.Policies) - 1, x.Replications - 1}
	for _, at := range [][]int{{0, 0, 0}, last} {
		rows, err := Replay(context.Background(), x, at[0], at[1], at[2], Options{})
		if err != nil || len(rows) == 0 {
			t.Fatalf("cell %v: %d rows, error %v", at, len(rows), err)
		}
	}
	for i := range last {
		for _, v := range []int{-1, last[i] + 1} {
			at := slices.Clone(last)
			at[i] = v
			want := fmt.Sprintf("no environment %d, policy %d, replication %d", at[0], at[1], at[2])
			if _, err := Replay(context.Background(), x, at[0], at[1], at[2], Options{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: error %v, want %q", at, err, want)
			}
		}
	}
}
