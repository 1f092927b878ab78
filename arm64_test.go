package troupe_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestNothingFused: on arm64 the compiler may turn x*y + z into one fused multiply-add, with one rounding
// instead of two; on amd64 it does not. In the packages that results come from every such place is
// either math.FMA, which is fused everywhere, or has an explicit conversion, float64(x*y) + z, which the
// language forbids to fuse. This compiles them for arm64 and looks at the instructions.
//
// Left out are policy/shortlist.go and policy/solved.go, where what is rounded are bounds of errors, wide
// enough either way, and the oracle decides where they leave a doubt; theory/lower.go, a bound that is
// drawn with its duality gap and is in no results file; theory/horizon.go, which is printed with two digits; and
// policy/work.go, estimates of processor time, which no state and no result has.
func TestNothingFused(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG=1 compiles the standard library for arm64 the first time: half a minute")
	}
	fused := regexp.MustCompile(`\((\S+\.go):(\d+)\)\s+FN?M(ADD|SUB)[DS]\s`)
	explicit := 0
	exempt := map[string]bool{"policy/shortlist.go": true, "policy/solved.go": true, "policy/work.go": true, "theory/lower.go": true,
		"theory/horizon.go": true}
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(string(text), "module "), "\n")
	for _, dir := range []string{"rng", "bandit", "internal/logs", "internal/linalg", "actionset", "feature", "effects", "policy", "env", "env/vw",
		"dataset", "sim", "theory"} {
		source := make(map[string][]string) // read in full, so that the test's result is not kept when a file changes
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source[name] = strings.Split(string(text), "\n")
		}
		cmd := exec.Command("go", "build", "-trimpath", "-gcflags=-S", "./"+dir)
		cmd.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", dir, err, out)
		}
		seen := make(map[string]bool)
		for listing := bufio.NewScanner(bytes.NewReader(out)); listing.Scan(); {
			at := fused.FindStringSubmatch(listing.Text())
			if at == nil || seen[at[1]+at[2]] {
				continue
			}
			seen[at[1]+at[2]] = true
			name := strings.TrimPrefix(at[1], module+"/") // so -trimpath prints the files of the module
			lines, ours := source[filepath.FromSlash(name)]
			if !ours || exempt[name] {
				continue // ours is false for what is inlined from elsewhere
			}
			n, _ := strconv.Atoi(at[2])
			line := strings.TrimSpace(lines[n-1])
			if strings.Contains(line, "math.FMA(") {
				explicit++
			} else {
				t.Errorf("%s:%d is fused on arm64: write float64(x*y) + z, or math.FMA: %s", name, n, line)
			}
		}
	}
	if explicit < 20 {
		t.Errorf("%d places of math.FMA were seen among the instructions, expected many: does the compiler still print them?", explicit)
	}
}
