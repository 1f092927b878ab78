package episode_test

import (
	"fmt"

	"troupe/episode"
	"troupe/rng"
)

// solved prints when DeepSea is solved.
type solved struct{ episode.Progress }

func (s *solved) Episode(_ int, p episode.Played) error {
	s.Progress.Episode(p)
	return nil
}

// An ensemble finds the treasure of DeepSea, ten moves right away.
func ExamplePlay() {
	key := rng.NewKey(1)
	world, err := episode.NewDeepSea().Problem(key)
	if err != nil {
		panic(err)
	}
	agent, err := episode.NewEnsemble().Agent(episode.SettingOf(world, key, 200))
	if err != nil {
		panic(err)
	}
	s := solved{episode.Progress{Rule: world.(episode.Graded).Rule()}}
	if err := episode.Play(world, agent, key, 200, &s); err != nil {
		panic(err)
	}
	fmt.Println("solved:", s.Solved > 0 && s.Solved < 120)
	// Output: solved: true
}

// A problem of one's own, and its optimum.
func ExampleNewTabular() {
	world, err := episode.NewTabular(episode.MDP{
		Size:   episode.Size{Steps: 2, States: 2, Actions: 2},
		Mean:   []float64{0, 0, 0, 0, 0.1, 0, 0, 1},
		Arrows: [][]episode.Arrow{{{0, 1}}, {{1, 1}}, {{0, 1}}, {{1, 1}}, {{0, 1}}, {{0, 1}}, {{0, 1}}, {{0, 1}}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(world.Best(), world.Gap(0, 0, 0))
	// Output: 1 0.9
}
