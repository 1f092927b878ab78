package troupe_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers is the import table: what each package may import of ours. A
// package without a row fails, and so does a row without a package.
var layers = map[string]string{
	"internal/cpu":              "",
	"internal/decimal":          "",
	"internal/logs":             "",
	"rng":                       "internal/cpu internal/logs",
	"bandit":                    "rng",
	"spec":                      "",
	"theory":                    "internal/logs",
	"budget":                    "internal/logs",
	"internal/linalg":           "internal/cpu internal/logs",
	"internal/stats":            "",
	"internal/infer":            "internal/stats",
	"internal/rows":             "",
	"internal/powerfs":          "internal/scratch",
	"internal/paged":            "",
	"internal/compact":          "",
	"internal/contract":         "",
	"internal/golden":           "",
	"internal/await":            "",
	"internal/scratch":          "",
	"internal/secret":           "",
	"internal/words":            "",
	"internal/mutate":           "internal/stats",
	"internal/future":           "",
	"internal/worlds":           "rng",
	"internal/inflation":        "internal/stats theory report report/chart",
	"internal/worlds/play":      "rng bandit effects policy feature dataset internal/worlds serve/numbers",
	"internal/members":          "rng internal/linalg internal/cpu",
	"internal/lockstep":         "rng bandit internal/linalg",
	"actionset":                 "rng bandit spec internal/linalg",
	"policy":                    "internal/decimal rng bandit spec budget effects internal/linalg internal/logs internal/members internal/paged theory internal/lockstep",
	"effects":                   "rng bandit internal/linalg internal/logs",
	"bandittest":                "rng bandit",
	"feature":                   "bandit spec internal/logs internal/decimal",
	"dataset":                   "bandit actionset spec",
	"timing":                    "",
	"eventlog/segment":          "",
	"eventlog":                  "eventlog/segment internal/future timing",
	"eventlog/natslog":          "eventlog timing internal/secret",
	"eventlog/raftlog":          "eventlog eventlog/segment timing",
	"eventlog/raftlog/raftnet":  "eventlog eventlog/raftlog timing",
	"eventlog/raftlog/raftnode": "eventlog eventlog/segment eventlog/raftlog eventlog/raftlog/raftnet timing",
	"backup":                    "eventlog",
	"logged":                    "dataset spec feature",
	"ope":                       "internal/decimal rng bandit spec internal/cpu internal/linalg internal/stats actionset policy feature logged",
	"eventlog/eventlogtest":     "eventlog internal/future",
	"serve/model":               "rng bandit budget spec theory actionset policy feature eventlog serve/numbers",
	"serve/numbers":             "bandit spec feature internal/logs",
	"serve/candidates":          "feature eventlog serve/numbers",
	"serve/fold":                "rng bandit budget policy feature eventlog ope serve/model serve/shelf internal/compact timing",
	"serve/fault":               "serve/model",
	"serve/shelf":               "",
	"serve/recent":              "eventlog serve/fault serve/fold internal/compact",
	"serve/decide":              "feature eventlog serve/numbers serve/model serve/candidates serve/fold serve/choose serve/fault",
	"serve/joined":              "feature eventlog logged serve/candidates serve/model serve/fold",
	"serve/train":               "rng bandit policy feature serve/model serve/fold",
	"serve/choose":              "rng bandit budget effects theory actionset policy feature eventlog internal/linalg serve/numbers serve/model serve/candidates serve/fold",
	"serve":                     "internal/decimal rng bandit budget effects policy feature eventlog serve/model serve/candidates serve/fold serve/choose serve/fault serve/recent serve/decide serve/joined serve/shelf timing internal/compact internal/secret serve/numbers",
	"serve/api":                 "internal/decimal serve serve/model spec eventlog internal/rows logged ope report/chart report/coin report/forest serve/joined playground/page timing",
	"serve/personalizer":        "internal/decimal ope serve serve/api serve/joined",
	"client":                    "",
	"process":                   "rng bandit spec actionset policy env",
	"env":                       "rng bandit spec budget actionset dataset feature internal/linalg internal/logs internal/lockstep",
	"env/vw":                    "rng bandit spec actionset env feature logged",
	"episode":                   "rng bandit spec internal/logs",
	"playground":                "rng bandit spec theory actionset env policy internal/linalg",
	"playground/page":           "playground",
	"playground/wasm":           "playground playground/page",
	"shards":                    "",
	"sim":                       "rng shards bandit spec theory internal/infer internal/linalg policy env env/vw dataset actionset internal/lockstep process episode",
	"tune":                      "rng spec sim dataset",
	"verify":                    "rng bandit spec theory internal/linalg internal/stats actionset policy env sim",
	"experiments":               "",
	"report/chart":              "",
	"report/coin":               "internal/decimal ope report/chart",
	"report/forest":             "ope report/chart",
	"report/headline":           "report/chart",
	"report":                    "internal/decimal rng spec theory internal/infer internal/stats experiments sim verify report/chart report/coin report/forest report/headline ope episode",
	"cli/term":                  "sim report/chart",
	"cli/move":                  "",
	"cli/cells":                 "spec eventlog timing cli/term",
	"cli/plan":                  "theory cli/term",
	"cli/load":                  "rng internal/linalg internal/worlds dataset sim client cli/term",
	"cli/bench":                 "rng bandit internal/cpu internal/linalg internal/lockstep actionset policy dataset env sim cli/term cli/load",
	"cli/source":                "spec eventlog eventlog/natslog logged ope serve serve/candidates serve/fold serve/choose serve/joined client cli/term internal/secret",
	"cli/log":                   "internal/rows eventlog eventlog/raftlog sim serve serve/fold serve/joined client cli/term cli/source",
	"cli/evaluate":              "internal/decimal spec dataset eventlog logged ope sim serve serve/candidates serve/fold serve/choose serve/joined client report cli/term cli/source",
	"cli":                       "*",
	"cmd/troupe":                "cli sim",
	"docs/guide/router":         "client",
	"deploy":                    "",
	"release":                   "",
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
			t.Errorf("package %s has no row in the import table of layers_test.go", name)
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
			if imp == "gonum.org/v1/plot" {
				t.Errorf("%s imports %s, which brings twelve fonts into the program; take its canvases, vg and vg/draw", name, imp)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("the import table has a row for %s, which does not exist", name)
		}
	}
}

// TestPicture: the picture of docs/design/architecture.md has every package of the import table once,
// on a floor that is not below any package that it imports.
func TestPicture(t *testing.T) {
	page := documents(t)["docs/design/architecture.md"]
	_, picture, _ := strings.Cut(page, "```\n")
	picture, _, _ = strings.Cut(picture, "```")
	floors := make(map[string]int) // package → floor, 0 is the ground
	line := regexp.MustCompile(`^ (roof|floor \d+|ground)?\s*(.*)$`)
	floor := 1000
	for text := range strings.Lines(picture) {
		text = strings.TrimRight(text, "\n")
		if text == "" {
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the picture has the line %q, expected a floor and packages", text)
		}
		was := floor
		switch n, err := strconv.Atoi(strings.TrimPrefix(m[1], "floor ")); {
		case m[1] == "ground":
			floor = 0
		case err == nil:
			floor = n
		}
		if m[1] != "" && m[1] != "roof" && floor >= was {
			t.Errorf("the picture has %s below floor %d", m[1], was)
		}
		for _, name := range strings.Fields(m[2]) {
			if _, ok := layers[name]; !ok {
				t.Errorf("the picture has %s, which is no package", name)
			}
			if _, twice := floors[name]; twice {
				t.Errorf("the picture has %s twice", name)
			}
			floors[name] = floor
		}
	}
	for name, imports := range layers {
		at, ok := floors[name]
		if !ok {
			t.Errorf("the picture of docs/design/architecture.md lacks %s: put it on the floor of what it imports, or above", name)
			continue
		}
		for _, dep := range strings.Fields(imports) {
			if below, ok := floors[dep]; ok && below > at {
				t.Errorf("in the picture %s is on floor %d and imports %s on floor %d", name, at, dep, below)
			}
		}
	}
}
