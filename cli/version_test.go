package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestVersion: the version is the newest release in CHANGELOG.md, with "+dev" while there are changes
// above it.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((.+)\)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) == 0 {
		t.Fatal("CHANGELOG.md has no release")
	}
	want := headings[0][1]
	if headings[0][2] == "unreleased" {
		if len(headings) < 2 {
			t.Fatal("CHANGELOG.md has no release below the unreleased changes")
		}
		want = headings[1][1] + "+dev"
	}
	if version != want {
		t.Errorf("the program says it is %s; by CHANGELOG.md it is %s", version, want)
	}
	cff, err := os.ReadFile("../CITATION.cff")
	if err != nil {
		t.Fatal(err)
	}
	if line := `version: "` + strings.TrimSuffix(want, "+dev") + `"`; !strings.Contains(string(cff), "\n"+line+"\n") {
		t.Errorf("CITATION.cff has no line %s", line)
	}
	var out bytes.Buffer
	if code := command(t.Context(), []string{"version"}, &out, io.Discard); code != 0 || !strings.HasPrefix(out.String(), "troupe "+want+" (") {
		t.Errorf("troupe version prints %q with code %d, expected troupe %s", out.String(), code, want)
	}
}
