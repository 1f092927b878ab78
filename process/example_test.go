package process_test

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/process"
	"troupe/rng"
)

// A shell script that always plays the first arm.
func Example() {
	o := process.NewOptions()
	o.Command = []string{"sh", "-c", `
read hello; echo '{"type": "hello", "protocol": 1, "name": "first arm"}'
while read -r message; do
  case $message in
  *'"type":"init"'*)   echo '{"type": "ready", "cell": 1}' ;;
  *'"type":"select"'*) echo '{"type": "action", "cell": 1, "index": 0}' ;;
  esac
done`}
	defer o.Close()
	p, err := o.New(policy.Problem{Dim: 2, Arms: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := actionset.NewFinite([][]float64{{0, 1}, {1, 0}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var a bandit.Action
	err = p.Select(&a, set, rng.NewKey(1).Stream(rng.Select).Round(1))
	fmt.Println(a.Index, a.X, err)
	// Output: 0 [0 1] <nil>
}
