package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var some = facts{version: "1.2.3", commit: "0123456789abcdef", time: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}

// fake is a file that stands in for a program.
func fake(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "troupe")
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// unpacked writes the files of a tar file below a directory.
func unpacked(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err == nil && h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(filepath.Join(dir, h.Name), 0o755)
		} else if err == nil {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(filepath.Join(dir, h.Name), text, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageTwice: two images of the same programs have the same bytes, one of another program has not; the tags are an
// index of both architectures and one image for each.
func TestImageTwice(t *testing.T) {
	a, b := fake(t, "amd64"), fake(t, "arm64")
	write := func(programs ...string) []byte {
		t.Helper()
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := writeImage(file, some, programs); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	one := write("amd64="+a, "arm64="+b)
	if !bytes.Equal(one, write("amd64="+a, "arm64="+b)) {
		t.Error("two builds differ")
	}
	if bytes.Equal(one, write("amd64="+a, "arm64="+a)) {
		t.Error("another program gives the same image")
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, one, 0o644); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(unpacked(t, file))
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, d := range m.Manifests {
		tags = append(tags, d.Annotations[refName])
	}
	if !slices.Equal(tags, []string{"1.2.3-amd64", "1.2.3-arm64", "1.2.3"}) {
		t.Errorf("the tags are %q", tags)
	}
	both, err := index.ImageIndex(m.Manifests[2].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := both.IndexManifest(); err != nil || len(n.Manifests) != 2 || n.Annotations["org.opencontainers.image.revision"] != some.commit {
		t.Errorf("the index: %+v, %v", n, err)
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil || c.Architecture != "amd64" || c.Config.User != "65532:65532" || len(c.RootFS.DiffIDs) != 1 || len(c.History) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestRunsInItsRoot: Debian's umoci unpacks the image of the real program, and in its root, as its user, the program
// serves, decides, takes a reward and ends on SIGTERM. TROUPE_BIN names the program.
func TestRunsInItsRoot(t *testing.T) {
	program := os.Getenv("TROUPE_BIN")
	_, err := exec.LookPath("umoci")
	if program == "" || err != nil || os.Getuid() != 0 {
		if os.Getenv("TROUPE_IMAGE") == "require" {
			t.Fatalf("TROUPE_BIN %q, user %d, %v", program, os.Getuid(), err)
		}
		t.Skip("needs TROUPE_BIN, umoci and root")
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := writeImage(file, some, []string{"amd64=" + program}); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle")
	if out, err := exec.Command("umoci", "unpack", "--image", unpacked(t, file)+":1.2.3-amd64", bundle).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := func(args ...string) *exec.Cmd {
		c := exec.Command("/usr/local/bin/troupe", args...)
		c.Env = []string{"PATH=/usr/local/bin"}
		c.Dir = "/var/lib/troupe"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: filepath.Join(bundle, "rootfs"), Credential: &syscall.Credential{Uid: user, Gid: user}}
		return c
	}
	if out, err := in("version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "troupe ") {
		t.Fatalf("%v: %s", err, out)
	}
	socket := filepath.Join(bundle, "rootfs/var/lib/troupe/s")
	server := in("serve", "--data", "/var/lib/troupe/data", "--listen", "unix:/var/lib/troupe/s")
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	ask := func(path, body string) map[string]any {
		t.Helper()
		out, err := exec.Command("curl", "-sS", "--fail-with-body", "--retry", "30", "--retry-delay", "1", "--retry-connrefused", "--unix-socket", socket,
			"-H", "Content-Type: application/json", "-d", body, "http://localhost"+path).CombinedOutput()
		var answer map[string]any
		if err == nil && len(out) > 0 {
			err = json.Unmarshal(out, &answer)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s\n%s", path, err, out, &log)
		}
		return answer
	}
	for range 2400 { // four minutes
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond) // this module has no package await
	}
	ask("/v1/models", `{"id":"news"}`)
	d := ask("/v1/models/news:decide", `{"actions":[{"id":"a"},{"id":"b"}]}`)
	ask(fmt.Sprintf("/v1/events/%s:reward", d["event_id"]), `{"value":1}`)
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &log)
	}
}

// TestBill: the bill of materials of this command keeps to the format's schema, which comes with the library,
// and lists what go version -m does. A control: a component without a name does not keep to it.
func TestBill(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pack")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "bill.json")
	if err := writeBill(file, "1.2.3", program); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	schema := schema(t)
	check := func(text []byte) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(doc)
	}
	if err := check(text); err != nil {
		t.Error(err)
	}
	if check(bytes.Replace(text, []byte(`"name": "std"`), []byte(`"nome": "std"`), 1)) == nil {
		t.Error("a component without a name was not found")
	}
	var got struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, c := range got.Components[1:] {
		have = append(have, c.Name+" "+c.Version)
	}
	out, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			want = append(want, f[1]+" "+f[2])
		}
	}
	if len(want) < 3 || !slices.Equal(have, want) {
		t.Errorf("the bill has %q, go version -m %q", have, want)
	}
}

// schema compiles the schema of CycloneDX 1.6.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "schema")
	c := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json",
		"jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
