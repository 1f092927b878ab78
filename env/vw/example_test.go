package vw_test

import (
	"fmt"
	"os"
	"path/filepath"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env/vw"
	"troupe/rng"
)

// A log of two decisions, played once in the order of its file.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "vw-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	o := vw.New()
	o.Data, o.Order = filepath.Join(dir, "log.vw"), "file"
	const log = "shared |u a\n0:-1:0.5 |x p\n|x q\n\nshared |u b\n|x p\n0:0:0.5 |x q\n\n"
	if err := os.WriteFile(o.Data, []byte(log), 0o600); err != nil {
		panic(err)
	}
	key := rng.NewKey(1)
	world, err := o.Build(key, &dataset.Source{})
	if err != nil {
		panic(err)
	}
	for t := range uint64(2) {
		if _, err := world.Offer(key.Stream(rng.Offer).Round(t + 1)); err != nil {
			panic(err)
		}
		var a bandit.Action
		reward, _, p := world.(bandit.Logged).Logged(&a)
		fmt.Printf("action %d, reward %v, propensity %v\n", a.Index, reward, p)
	}
	// Output:
	// action 0, reward 1, propensity 0.5
	// action 1, reward 0, propensity 0.5
}
