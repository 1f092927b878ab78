package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var entries = []entry{{"LICENSE", []byte("MIT\n"), 0o644}, {"troupe", []byte{0x7f, 'E', 'L', 'F'}, 0o755}}

// TestArchives: both kinds of archives have the same bytes each time, the files with their modes, and the time of the
// commit alone.
func TestArchives(t *testing.T) {
	r := &release{time: time.Unix(1_700_000_000, 0).UTC()}
	var one, two bytes.Buffer
	for _, w := range []io.Writer{&one, &two} {
		if err := r.tar(w, "top/", entries); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two tar files differ")
	}
	z, err := gzip.NewReader(&one)
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" {
		t.Errorf("gzip has the time %v and the name %q", z.ModTime, z.Name)
	}
	in := tar.NewReader(z)
	for _, e := range entries {
		h, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil || h.Name != "top/"+e.name || h.Mode != int64(e.mode) || !h.ModTime.Equal(r.time) || !bytes.Equal(data, e.data) {
			t.Errorf("%+v, %v", h, err)
		}
	}
	one.Reset()
	two.Reset()
	for _, w := range []io.Writer{&one, &two} {
		if err := r.zip(w, "top/", entries); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Error("two zip files differ")
	}
	files, err := zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil || len(files.File) != 2 || files.File[1].Name != "top/troupe" || files.File[1].Mode() != 0o755 {
		t.Errorf("%+v, %v", files, err)
	}
}

// TestRefusals: what cannot be a release is refused before anything is written.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ targets, rest, want string }{
		{"linux/amd64,plan9/386", "", `-platforms: "plan9/386", expected some of linux/amd64`},
		{"linux/amd64,linux/amd64", "", "linux/amd64 is there twice"},
		{"", "", `-platforms: ""`},
		{"linux/amd64", "dist", `"dist": there are flags only`},
	} {
		var rest []string
		if c.rest != "" {
			rest = append(rest, c.rest)
		}
		err := new(release).parse(c.targets, rest)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, new(misuse)) {
			t.Errorf("%q: %v, expected %q", c.targets, err, c.want)
		}
	}
	r := &release{dir: t.TempDir(), version: "1.0.0", targets: []string{"windows/arm64"}}
	name := r.archiveName("windows/arm64")
	if name != "troupe-1.0.0-windows-arm64.zip" || r.free(name) != nil {
		t.Errorf("%s, %v", name, r.free(name))
	}
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.free(name); err == nil || !errors.As(err, new(misuse)) || !strings.Contains(err.Error(), "exists") {
		t.Errorf("an archive that exists: %v", err)
	}
}

// TestTree: a tree with changes is refused unless it is a snapshot; a snapshot of a clean tree is none.
func TestTree(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", args...)
		c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_COMMITTER_DATE=1700000000 +0000")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := new(release).look(); err == nil || !errors.As(err, new(misuse)) {
		t.Errorf("no repository: %v", err)
	}
	git("init", "-q", ".")
	git("commit", "-q", "--allow-empty", "-m", "one")
	r := &release{snapshot: true}
	if err := r.look(); err != nil || r.snapshot || len(r.commit) != 40 || r.time.Unix() != 1_700_000_000 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.WriteFile("new.txt", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := new(release).look(); err == nil || !strings.Contains(err.Error(), "new.txt") || !errors.As(err, new(misuse)) {
		t.Errorf("a changed tree: %v", err)
	}
	r = &release{snapshot: true}
	if err := r.look(); err != nil || !r.snapshot {
		t.Errorf("a snapshot: %+v, %v", r, err)
	}
}

// TestReleaseTwice: two releases from two copies of this commit have equal checksums. TROUPE_RECORD=1, minutes.
func TestReleaseTwice(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1: builds for all platforms, twice")
	}
	var sums []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "copy")
		if out, err := exec.Command("git", "clone", "-q", "..", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c := exec.Command("go", "run", "./release", "-o", "dist")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(filepath.Join(dir, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(data))
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 13 {
		t.Errorf("the first:\n%s\nthe second:\n%s", sums[0], sums[1])
	}
}

// TestPages: what the first pages of an archive link is in the archive.
func TestPages(t *testing.T) {
	all, err := pages("..")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"LICENSE": true, "CHANGELOG.md": true}
	for _, e := range all {
		for dir := e.name; dir != "."; dir = path.Dir(dir) {
			there[dir] = true
		}
	}
	link := regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"#]+)`)
	n := 0
	for _, e := range all {
		if !slices.Contains([]string{"README.md", "docs/README.md", "docs/guide/installing.md"}, e.name) {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(e.data), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			if n++; !there[path.Join(path.Dir(e.name), m[1])] {
				t.Errorf("%s links %s, which is not in the archive", e.name, m[1])
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d links were looked at", n)
	}
}
