package theory

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// golden compares to a value printed with ten significant digits.
func golden(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 5.1e-10*math.Abs(want) {
		t.Errorf("%s = %.12g, want %.10g", what, got, want)
	}
}

// Golden values here and in bounds_test.go: an independent program in Python (mpmath, 50 digits).
func TestRadiiAndSizes(t *testing.T) {
	for _, c := range []struct {
		d, T                          int
		delta                         float64
		logN, betaTilde, betaTildePre float64
		m, m60                        int
	}{
		{2, 1000, 0.1, 15.09898451, 5.955666238, 5.955399912, 9724, 1459},
		{10, 10000, 0.01, 86.98540967, 10.12551596, 10.1254529, 40321, 6049},
		{50, 1000000, 1e-6, 550.0439311, 23.26809122, 23.26809003, 231070, 34661},
	} {
		const lambda = 5
		logN, err := LogNet(c.d, c.T, lambda)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "log N", logN, c.logN)
		golden(t, "beta~_T", BetaTilde(c.d, c.T, lambda, c.delta), c.betaTilde)
		golden(t, "beta~_{T-1}", BetaTilde(c.d, c.T-1, lambda, c.delta), c.betaTildePre)
		if m, err := Members(c.d, c.T, lambda, c.delta); err != nil || m != c.m {
			t.Errorf("Members(%d, %d) = %d, %v, want %d", c.d, c.T, m, err, c.m)
		}
		if m, err := Members60(c.d, c.T, lambda, c.delta); err != nil || m != c.m60 {
			t.Errorf("Members60(%d, %d) = %d, %v, want %d", c.d, c.T, m, err, c.m60)
		}
	}
}

// Every refusal names the parameter, its value and the statement.
func TestDomain(t *testing.T) {
	for _, c := range []struct {
		d, T          int
		lambda, delta float64
		want          string
	}{
		{0, 10, 5, 0.1, "d = 0: thm:es needs d >= 1"},
		{2, 0, 5, 0.1, "T = 0: thm:es needs a finite T >= 1"},
		{2, 10, 4.9, 0.1, "lambda = 4.9: thm:es needs lambda >= 5"},
		{2, 10, math.NaN(), 0.1, "lambda = NaN"},
		{2, 10, math.Inf(1), 0.1, "lambda = +Inf"},
		{2, 10, 5, 0, "delta = 0: thm:es needs 0 < delta <= 1"},
		{2, 10, 5, 1.5, "delta = 1.5"},
		{2, 10, 5, math.NaN(), "delta = NaN"},
		{math.MaxInt, 10, 5, 0.1, "d = "},
	} {
		_, err := Members(c.d, c.T, c.lambda, c.delta)
		var domain *DomainError
		if !errors.As(err, &domain) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Members(%d, %d, %v, %v): %v, want %q", c.d, c.T, c.lambda, c.delta, err, c.want)
		}
	}
	for _, args := range [][3]float64{{0, 0.1, 0}, {5, 0, 0}, {5, 2, 0}, {5, 0.1, -1}, {5, 0.1, math.NaN()}, {math.Inf(1), 0.1, 0}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Beta(%v) did not panic", args)
				}
			}()
			Beta(args[0], args[1], args[2])
		}()
	}
}
