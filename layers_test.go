package troupe_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers is the import table of docs/design/architecture.md: what each package may import of ours. A
// package without a row fails, and so does a row without a package.
var layers = map[string]string{
	"internal/cpu":          "",
	"internal/logs":         "",
	"rng":                   "internal/cpu internal/logs",
	"bandit":                "rng",
	"spec":                  "",
	"theory":                "internal/logs",
	"internal/linalg":       "internal/cpu internal/logs",
	"internal/stats":        "",
	"internal/powerfs":      "",
	"internal/paged":        "",
	"internal/tile":         "rng internal/linalg internal/cpu",
	"internal/lockstep":     "rng bandit internal/linalg",
	"actionset":             "rng bandit spec internal/linalg",
	"policy":                "rng bandit spec internal/linalg internal/logs internal/tile internal/paged theory internal/lockstep",
	"bandittest":            "rng bandit",
	"feature":               "bandit spec",
	"dataset":               "bandit actionset spec",
	"eventlog":              "",
	"eventlog/eventlogtest": "eventlog",
	"serve/model":           "rng bandit spec actionset policy feature eventlog",
	"serve/candidates":      "feature eventlog",
	"serve/fold":            "rng bandit feature eventlog serve/model",
	"serve/choose":          "rng bandit actionset policy feature eventlog internal/linalg serve/model serve/fold",
	"serve":                 "rng feature eventlog serve/model serve/candidates serve/fold serve/choose",
	"serve/api":             "serve spec eventlog",
	"client":                "",
	"env":                   "rng bandit spec actionset dataset internal/linalg internal/lockstep",
	"sim":                   "rng bandit spec theory internal/linalg policy env dataset actionset internal/lockstep",
	"verify":                "rng bandit spec theory internal/linalg internal/stats actionset policy env sim",
	"experiments":           "",
	"report/chart":          "",
	"report":                "rng spec theory internal/stats sim verify report/chart",
	"cmd/troupe":            "*",
}

// TestLayers: imports point down only. Test files may import anything below the roof.
func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(p.ImportPath, "troupe/")
		if !ours {
			continue // this package: tests only
		}
		seen[name] = true
		allowed, ok := layers[name]
		if !ok {
			t.Errorf("package %s has no row in the import table: where does it live in the house?", name)
			continue
		}
		for _, imp := range p.Imports {
			dep, ours := strings.CutPrefix(imp, "troupe/")
			if ours && allowed != "*" && !slices.Contains(strings.Fields(allowed), dep) {
				t.Errorf("%s imports %s; it may import: %s", name, dep, allowed)
			}
			if imp == "C" {
				t.Errorf("%s uses cgo", name)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("the import table has a row for %s, which does not exist", name)
		}
	}
}
