package term_test

import (
	"errors"
	"fmt"
	"os"

	"troupe/cli/term"
)

func Example() {
	term.Columns(os.Stdout, [][]string{{"rounds", term.Grouped(1_250_000)}, {"time", term.Duration(95)}})
	err := term.Misuse(errors.New("--seed x: expected a whole number"))
	var coded interface{ ExitCode() int }
	fmt.Println(errors.As(err, &coded), coded.ExitCode() == term.Misused)
	// Output:
	// rounds  1,250,000
	//   time    95 s
	// true true
}
