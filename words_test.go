package troupe_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"troupe/internal/words"
)

// budgets are the words that a guide may have: what a reader needs for its task, and no more. A page that needs more loses
// something else, or moves it to docs/reference.
var budgets = map[string]int{
	"backup.md": 650, "cells.md": 200, "choosing-models.md": 720, "choosing.md": 1050, "cluster.md": 3000, "control-group.md": 600, "deep.md": 650, "does-it-learn.md": 1100,
	"evaluating.md": 2600, "experiments.md": 1750, "features.md": 600, "installing.md": 420, "library.md": 580,
	"lists-and-numbers.md": 1200, "migrating-from-personalizer.md": 650, "operations.md": 1400, "own-policies.md": 1350,
	"playground.md": 330, "serving.md": 2000, "sure.md": 320, "warehouse.md": 460,
}

// allGuides are the words that all guides together may have.
const allGuides = 20_000

// alsoKept are the pages beside the guides that keep the rules: those that a reader follows step by step. The texts of the
// commands are those of options.md, which the command line writes.
var alsoKept = []string{"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/design/architecture.md", "docs/reference/cluster.md",
	"docs/reference/options.md", "docs/reference/results.md", "docs/reference/schedulers.md", "docs/reference/server.md",
	"docs/reference/vw.md"}

// TestWords: guides and help texts keep the rules of words, every guide keeps within its budget, and so do all together.
func TestWords(t *testing.T) {
	pages, all := documents(t), 0
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		guide := path.Dir(page) == "docs/guide"
		if !guide && !slices.Contains(alsoKept, page) {
			continue
		}
		faults := words.Faults(pages[page])
		if guide {
			faults = append(faults, words.LongCells(pages[page])...)
		}
		if len(faults) > 0 {
			t.Errorf("%s:\n%s", page, strings.Join(faults, "\n"))
		}
		if !guide {
			continue
		}
		n := len(strings.Fields(pages[page]))
		all += n
		switch most, ok := budgets[path.Base(page)]; {
		case !ok:
			t.Errorf("%s has %d words and no budget in words_test.go: is it a task of its own?", page, n)
		case n > most:
			t.Errorf("%s has %d words, its budget is %d: move details to docs/reference, measurements to docs/record", page, n, most)
		}
	}
	if all > allGuides {
		t.Errorf("the guides have %d words, at most %d", all, allGuides)
	}
}
