package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name string // below the directory of the archive, with slashes
	data []byte
	mode os.FileMode
}

// pages are the pages of docs with their pictures, and what else README.md, its index and the guide to install link: a reader
// of an archive can follow them.
func pages(root string) ([]entry, error) {
	var all []entry
	add := func(path string) error {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		all = append(all, entry{path, data, 0o644})
		return err
	}
	for _, path := range []string{"README.md", "CONTRIBUTING.md", "clients/typescript/README.md", "docs/reference/openapi.json"} {
		if err := add(path); err != nil {
			return nil, err
		}
	}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".md", ".svg", ".png":
			return add(path)
		}
		return nil
	})
	return all, err
}

// shared are the files that all archives have: license, pages, manual pages, completions, alerts.
func (r *release) shared(program string) ([]entry, error) {
	all, err := pages(".")
	if err != nil {
		return nil, err
	}
	for to, from := range map[string]string{"LICENSE": "LICENSE", "CHANGELOG.md": "CHANGELOG.md",
		"alerts.yml": "docs/reference/alerts.yml", "kubernetes/one-node.yaml": "deploy/kubernetes/one-node.yaml",
		"grafana.json":                "docs/reference/grafana.json",
		"kubernetes/three-nodes.yaml": "deploy/kubernetes/three-nodes.yaml",
		"kubernetes/experiment.yaml":  "deploy/kubernetes/experiment.yaml"} {
		data, err := os.ReadFile(filepath.FromSlash(from))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{to, data, 0o644})
	}
	for shell, name := range map[string]string{"bash": "troupe.bash", "zsh": "_troupe", "fish": "troupe.fish", "powershell": "troupe.ps1"} {
		text, err := command(program, "completion", shell)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{"completions/" + name, []byte(text), 0o644})
	}
	man := filepath.Join(r.work, "man1")
	if _, err := command(program, "man", man); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		data, err := os.ReadFile(filepath.Join(man, p.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{"man/man1/" + p.Name(), data, 0o644})
	}
	return all, nil
}

// archive writes the archive of a platform, and its bill of materials and its wheel beside it.
func (r *release) archive(system, arch, program string, shared []entry) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	all := append(slices.Clone(shared), entry{filepath.Base(program), data, 0o755})
	if system == "linux" {
		unit, err := os.ReadFile("deploy/systemd/troupe.service")
		if err != nil {
			return err
		}
		all = append(all, entry{"systemd/troupe.service", unit, 0o644})
	}
	licenses, err := licenses(program)
	if err != nil {
		return err
	}
	all = append(all, entry{"LICENSES.txt", licenses, 0o644})
	if err := r.wheel(system+"/"+arch, program, licenses); err != nil {
		return err
	}
	bill := r.out("-" + system + "-" + arch + ".cdx.json")
	if err := r.pack("sbom", "-o", bill, "-version", r.version, program); err != nil {
		return err
	}
	if data, err = os.ReadFile(bill); err != nil {
		return err
	}
	all = append(all, entry{"troupe.cdx.json", data, 0o644})
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	name := r.archiveName(system + "/" + arch)
	r.files = append(r.files, name)
	f, err := os.Create(filepath.Join(r.work, name))
	if err != nil {
		return err
	}
	top := "troupe-" + r.version + "-" + system + "-" + arch + "/"
	if system == "windows" {
		err = r.zip(f, top, all)
	} else {
		err = r.tar(f, top, all)
	}
	return errors.Join(err, f.Close())
}

func (r *release) tar(w io.Writer, top string, all []entry) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: top + e.name, Size: int64(len(e.data)), Mode: int64(e.mode), ModTime: r.time,
			Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func (r *release) zip(w io.Writer, top string, all []entry) error {
	z := zip.NewWriter(w)
	for _, e := range all {
		h := &zip.FileHeader{Name: top + e.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// licenseFile matches the names under which modules keep their license and notices.
var licenseFile = regexp.MustCompile(`(?i)^((un)?licen[sc]e|copying|notice|patents)([-.].*)?$`)

// licenses are the texts of Go and of all modules in a program, in their order there. Most licenses ask that a copy of
// the program has them.
func licenses(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-json"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	var b strings.Builder
	root, err := command("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "LICENSE"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "==== the Go runtime and standard library, %s, LICENSE\n\n%s\n", info.GoVersion, strings.TrimSpace(string(text)))
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return []byte(b.String()), nil
		} else if err != nil {
			return nil, err
		}
		files, err := os.ReadDir(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		found := false
		for _, f := range files {
			if f.IsDir() || !licenseFile.MatchString(f.Name()) {
				continue
			}
			text, err = os.ReadFile(filepath.Join(m.Dir, f.Name()))
			if err != nil {
				return nil, err
			}
			found = true
			fmt.Fprintf(&b, "==== %s %s, %s\n\n%s\n", m.Path, m.Version, f.Name(), strings.TrimSpace(string(text)))
		}
		if !found {
			return nil, fmt.Errorf("module %s %s has no file with its license", m.Path, m.Version)
		}
	}
}
