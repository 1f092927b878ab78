package joined_test

import (
	"fmt"

	"troupe/eventlog"
	"troupe/serve/joined"
)

// A log is joined entry by entry; a decision comes out when its window is over.
func ExampleJoiner_Apply() {
	j := joined.New(joined.Options{})
	_, err := eventlog.Scan("no-such-directory", nil, func(d eventlog.Delivery) error {
		return j.Apply(d, func(e *joined.Decided) error {
			fmt.Println(e.Record.Action, e.State, e.Reward)
			return nil
		})
	})
	fmt.Println(err != nil, j.Pending())
	// Output: true 0
}
