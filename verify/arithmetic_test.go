package verify

import "testing"

// TestArithmetic: every name of the list is a check.
func TestArithmetic(t *testing.T) {
	n := 0
	for _, c := range Checks {
		if c.Arithmetic() {
			n++
		}
	}
	if n != len(arithmetic) {
		t.Errorf("%d checks are arithmetic, the list has %d names", n, len(arithmetic))
	}
}
