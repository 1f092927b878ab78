package logged_test

import (
	"fmt"
	"io"

	"troupe/logged"
)

func ExampleOpen() {
	r, err := logged.Open("testdata/events.dsjson", logged.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	var e logged.Event
	n, sum := 0, 0.0
	for {
		if err := r.Read(&e); err == io.EOF {
			break
		} else if err != nil {
			fmt.Println(err)
			return
		}
		n++
		sum += e.Reward
	}
	fmt.Printf("%s: %d events, mean reward %.2f\n", r.Format(), n, sum/float64(n))
	// Output: dsjson: 400 events, mean reward 0.46
}
