package train_test

import (
	"fmt"

	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/train"
	"troupe/spec"
)

// A model that has learned two events, as bytes that a server starts from.
func ExampleTrainer() {
	config := model.Default("news")
	config.Dim = 2
	if err := config.Policy.DecodeSpec(spec.Raw{"kind": "atoms"}, "policy"); err != nil {
		panic(err)
	}
	compiled, err := config.Admit(model.DefaultLimits)
	if err != nil {
		panic(err)
	}
	key := rng.NewKey(1)
	t, err := train.New(compiled, key, train.Options{Workers: 2})
	if err != nil {
		panic(err)
	}
	for i, x := range [][]float64{{1, 0}, {0, 1}} {
		e := train.Event{X: x, Reward: float64(i), Given: true, Draw: key.Stream(rng.Perturb).Round(uint64(i))}
		if err := t.Add(e); err != nil {
			panic(err)
		}
	}
	saved, err := t.Finish(fold.Memory{})
	if err != nil {
		panic(err)
	}
	b, err := saved.Append(nil)
	if err != nil {
		panic(err)
	}
	again, err := fold.ReadSaved(b)
	fmt.Println(string(b[:4]), again.Learned, err)
	// Output: TRPM 2 <nil>
}
