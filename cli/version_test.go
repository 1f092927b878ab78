package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"troupe/internal/golden"
)

// versionPlaces are the files that have the version number beside cli/version.go, with the expression around it and the form
// that it has there.
var versionPlaces = []struct {
	file, around string
	form         func(version string) string
}{
	{"../CITATION.cff", `(?m)^(version: ")([^"]*)(")$`, nil},
	{"../clients/python/pyproject.toml", `(?m)^(version = ")([^"]*)(")$`, pep440},
	{"../clients/python/troupe/__init__.py", `(?m)^(__version__ = ")([^"]*)(")$`, pep440},
	{"../clients/typescript/package.json", `(?m)^(  "version": ")([^"]*)(",)$`, nil},
	{"../clients/typescript/package-lock.json", `(?m)^(  "version": ")([^"]*)(",)$`, nil},
	{"../clients/typescript/package-lock.json", `(?m)("": \{\n +"name": "troupe-client",\n +"version": ")([^"]*)(",)$`, nil},
	{"../deploy/kubernetes/one-node.yaml", `(?m)^( *image: troupe:)(\S*)( #.*)$`, released},
	{"../deploy/kubernetes/three-nodes.yaml", `(?m)^( *image: troupe:)(\S*)( #.*)$`, released},
}

// pep440 is how Python writes a version.
func pep440(version string) string { return strings.Replace(version, "-dev", ".dev0", 1) }

// released is the release that a version becomes.
func released(version string) string { return strings.TrimSuffix(version, "-dev") }

// TestVersion: the version is the newest heading of CHANGELOG.md, with "-dev" while that is not released, and every place has
// it. With TROUPE_UPDATE=1 it is written into the others.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((.+)\)$`).FindStringSubmatch(string(text))
	if heading == nil {
		t.Fatal("CHANGELOG.md has no heading of a release")
	}
	want := heading[1]
	if heading[2] == "unreleased" {
		want += "-dev"
	}
	if version != want {
		t.Errorf("cli/version.go has %s; by CHANGELOG.md it is %s", version, want)
	}
	for _, p := range versionPlaces {
		text, err := os.ReadFile(p.file)
		if err != nil {
			t.Fatal(err)
		}
		around, want := regexp.MustCompile(p.around), version
		if p.form != nil {
			want = p.form(version)
		}
		found := around.FindSubmatch(text)
		switch {
		case found == nil:
			t.Errorf("%s has no version", p.file)
		case string(found[2]) == want:
		case golden.Update():
			if err := os.WriteFile(p.file, around.ReplaceAll(text, []byte("${1}"+want+"${3}")), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s has the version %s, expected %s: TROUPE_UPDATE=1 go test ./cli -run TestVersion writes it", p.file, found[2], want)
		}
	}
	var out bytes.Buffer
	if code := command(t.Context(), []string{"version"}, &out, io.Discard); code != 0 || !strings.HasPrefix(out.String(), "troupe "+version+" (") {
		t.Errorf("troupe version prints %q with code %d, expected troupe %s", out.String(), code, version)
	}
}
