// Package cpu says which of the three twins of a kernel runs: portable Go, AVX2 with FMA, or
// AVX-512. Every kernel of this module (packages rng, internal/linalg, ope) gives the same bits on
// all three, so the choice moves time and nothing else.
//
// The widest set of instructions that the machine and its system offer is chosen when the program
// starts. The environment variable TROUPE_KERNEL (portable, avx2, avx512) forces one; a value that
// is unknown, or that this machine cannot run, ends the program with exit code 2 before main.
package cpu

import (
	"fmt"
	"os"
	"strings"
)

// Level is a set of instructions. Higher levels include the lower ones.
type Level uint8

const (
	Portable Level = iota // Go and math.FMA
	AVX2                  // AVX2 and FMA3
	AVX512                // AVX-512 F, BW, DQ and VL
)

// Variable is the environment variable that forces a level.
const Variable = "TROUPE_KERNEL"

var names = [...]string{"portable", "avx2", "avx512"}

// String returns the level's name as in TROUPE_KERNEL.
func (l Level) String() string { return names[l] }

var level = start()

// Kernels returns the level that kernels run at.
func Kernels() Level { return level }

// Best returns the highest level that this machine offers.
func Best() Level { return best }

// Force makes kernels run at a level until the returned function is called. It is for tests and
// benchmarks: no kernel may be running. It panics when the machine does not offer the level.
func Force(l Level) (restore func()) {
	if l > best {
		panic("cpu: Force: this machine does not offer the level")
	}
	old := level
	level = l
	return func() { level = old }
}

func start() Level {
	l, err := parse(os.Getenv(Variable), best)
	if err != nil {
		fmt.Fprintln(os.Stderr, "troupe:", err)
		os.Exit(2)
	}
	return l
}

// parse reads the value of the variable on a machine that offers best.
func parse(value string, best Level) (Level, error) {
	if value == "" {
		return best, nil
	}
	for i, n := range names {
		if n != value {
			continue
		}
		if Level(i) > best {
			return 0, fmt.Errorf("%s is %q, but this machine offers %s at most", Variable, value, best)
		}
		return Level(i), nil
	}
	return 0, fmt.Errorf("%s is %q, expected one of %s", Variable, value, strings.Join(names[:], ", "))
}
