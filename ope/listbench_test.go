package ope

import (
	"context"
	"math"
	"reflect"
	"testing"
)

// TestListBenchmark: where an estimator is unbiased its mean error is within 4 standard errors of 0 (iips, pi), the sequences hold, and the
// answer does not depend on the workers. iips is biased in the cascade, and seen to be.
func TestListBenchmark(t *testing.T) {
	const runs = 12
	a, err := ListBenchmark(context.Background(), runs, 600, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ListBenchmark(context.Background(), runs, 600, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("two workers give another answer")
	}
	unbiased := map[[2]string]bool{{"position-based", "iips"}: true, {"position-based", "pi"}: true, {"position-based", "pbm"}: true}
	for _, x := range a {
		if unbiased[[2]string{x.World, x.Estimator}] && math.Abs(x.Bias) > 4*x.RMSE/math.Sqrt(runs) {
			t.Errorf("%s %s: bias %v, rmse %v", x.World, x.Estimator, x.Bias, x.RMSE)
		}
		right := x.Estimator == "sips" || x.Estimator == "rips" && x.World != "entry below matters" || x.Estimator == "iips" && x.World == "position-based"
		if right && (x.Sequence == nil || *x.Sequence < .9) {
			t.Errorf("%s %s: the sequence covers in %v", x.World, x.Estimator, deref(x.Sequence))
		}
		if x.Value < .1 || x.Value > 1.8 {
			t.Errorf("%s: a value of %v", x.World, x.Value)
		}
	}
}
