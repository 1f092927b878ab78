package main

import (
	"math"
	"path/filepath"
	"strings"

	"troupe/dataset"
	"troupe/internal/worlds"
)

// dataKind reads FILE or FILE:CLASS, a data set, as a kind of worlds: the rows in random order, the classes are the
// actions, and the right one pays 1. The share of right answers is 1/K + share · (1 − 1/K) for K classes.
func dataKind(arg string) (worlds.Kind, error) {
	file, class, _ := strings.Cut(arg, ":")
	t, err := dataset.Read(file, dataset.Options{Class: class})
	if err != nil {
		return worlds.Kind{}, err
	}
	actions := make([]worlds.Action, len(t.Class.Levels))
	for i, id := range t.Class.Levels {
		actions[i].ID = id
	}
	rows := make([]worlds.Decision, t.Rows)
	for i := range rows {
		d := &rows[i]
		d.Actions, d.Means, d.Cells = actions, make([]float64, len(actions)), make([]int, len(actions))
		d.Means[t.Class.Codes[i]] = 1
		d.Rewards = d.Means
		for j := range t.Columns {
			switch c := &t.Columns[j]; {
			case c.Categorical() && c.Codes[i] != dataset.Missing:
				d.Context = append(d.Context, worlds.F(c.Name, worlds.Str(c.Levels[c.Codes[i]])))
			case !c.Categorical() && !math.IsNaN(c.Values[i]):
				d.Context = append(d.Context, worlds.F(c.Name, worlds.Num(c.Values[i])))
			}
		}
	}
	return worlds.OfRows(filepath.Base(file), rows), nil
}
