package report

import (
	"slices"

	"troupe/report/chart"
	"troupe/sim"
)

// baselines are the kinds that learn nothing or do not explore: they are drawn in grey.
var baselines = []string{"greedy", "uniform", "fixed"}

// looksOf assigns a look to each policy. It depends on the kinds and settings alone, not on the
// results: the first kind with more than one setting gets the blues, ordered as swept; baselines
// get grey; the other kinds get the rivals' hues in the order of the spec. Where a kind has tuned and other settings,
// the tuned ones have its plain hue with a dash of their own. repeats is true when
// there are more kinds than hues, so that some differ by their dash alone.
func looksOf(policies []sim.PolicyRow) (looks []chart.Look, repeats bool) {
	var kinds []string
	members := map[string][]int{}
	for i, p := range policies {
		if !slices.Contains(kinds, p.Kind) {
			kinds = append(kinds, p.Kind)
		}
		members[p.Kind] = append(members[p.Kind], i)
	}
	own := ownFamily(kinds, members)
	looks = make([]chart.Look, len(policies))
	// apart divides a kind's members into those that are shades of its hue and the tuned ones beside them.
	apart := func(m []int) (shades, tuned []int) {
		for _, i := range m {
			if policies[i].Tuned != "" {
				tuned = append(tuned, i)
			} else {
				shades = append(shades, i)
			}
		}
		if shades == nil {
			return m, nil
		}
		return shades, tuned
	}
	rival, grey := 0, 0
	for _, k := range kinds {
		m := members[k]
		switch {
		case k == own:
			shades, tuned := apart(m)
			for j, i := range shades {
				looks[i] = chart.BlueRamp(j, len(shades))
			}
			for j, i := range tuned {
				looks[i] = dashed(chart.BlueRamp(0, 1), j)
			}
		case slices.Contains(baselines, k):
			for _, i := range m {
				looks[i] = chart.Baseline
				looks[i].Dash = chart.ExtraDashes[grey%len(chart.ExtraDashes)]
				grey++
			}
		default:
			l := chart.Rivals[rival%len(chart.Rivals)]
			if round := rival / len(chart.Rivals); round > 0 {
				l.Dash = chart.ExtraDashes[round%len(chart.ExtraDashes)]
				repeats = true
			}
			shades, tuned := apart(m)
			for j, i := range shades {
				looks[i] = chart.Shade(l, j, len(shades))
			}
			for j, i := range tuned {
				looks[i] = dashed(l, j)
			}
			rival++
		}
	}
	return looks, repeats
}

// dashed is the j-th tuned setting of a hue.
func dashed(l chart.Look, j int) chart.Look {
	l.Dash = chart.ExtraDashes[(j+1)%len(chart.ExtraDashes)]
	return l
}

// ownFamily picks the kind that gets the blues: the first with more than one setting, else the
// first that is neither a baseline nor anything but our own algorithm, else the first.
func ownFamily(kinds []string, members map[string][]int) string {
	for _, k := range kinds {
		if len(members[k]) > 1 && !slices.Contains(baselines, k) {
			return k
		}
	}
	if slices.Contains(kinds, "ensemble") {
		return "ensemble"
	}
	for _, k := range kinds {
		if !slices.Contains(baselines, k) {
			return k
		}
	}
	return ""
}
