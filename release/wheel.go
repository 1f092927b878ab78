package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	toml "github.com/pelletier/go-toml/v2"
)

// wheelPlatforms are the names of platforms in wheels (PEP 425). A static program needs no C library, so those of linux are
// for any; Go 1.26 needs macOS 12.
var wheelPlatforms = map[string]string{
	"linux/amd64":   "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":   "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64":  "macosx_12_0_x86_64",
	"darwin/arm64":  "macosx_12_0_arm64",
	"windows/amd64": "win_amd64",
	"windows/arm64": "win_arm64",
}

// pythonVersion is the version of the names as Python writes it (PEP 440): 0.2.0, or 0.2.0.dev0+c4ba0236 of a commit since.
func pythonVersion(version string) string {
	base, rest, dev := strings.Cut(version, "-dev-")
	if !dev {
		base, rest, _ = strings.Cut(version, "-")
	}
	if dev {
		base += ".dev0"
	}
	if rest != "" {
		base += "+" + strings.ReplaceAll(rest, "-", ".")
	}
	return base
}

// wheelName is the name of the wheel of a platform.
func (r *release) wheelName(target string) string {
	return "troupe-" + pythonVersion(r.version) + "-py3-none-" + wheelPlatforms[target] + ".whl"
}

// wheel writes a wheel with the Python package and the program, which pip puts beside python: after pip install there are
// the command troupe and import troupe.
func (r *release) wheel(target, program string, licenses []byte) error {
	const from = "clients/python/"
	var about struct {
		Project struct {
			Name        string
			Description string
			Python      string `toml:"requires-python"`
		}
	}
	text, err := os.ReadFile(from + "pyproject.toml")
	if err == nil {
		err = toml.Unmarshal(text, &about)
	}
	if err != nil {
		return err
	}
	p, version := about.Project, pythonVersion(r.version)
	readme, err := os.ReadFile(from + "README.md")
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	stem := p.Name + "-" + version
	info := stem + ".dist-info/"
	var tags strings.Builder
	for _, platform := range strings.Split(wheelPlatforms[target], ".") {
		fmt.Fprintf(&tags, "Tag: py3-none-%s\n", platform)
	}
	all := []entry{
		{stem + ".data/scripts/" + filepath.Base(program), binary, 0o755},
		{info + "METADATA", fmt.Appendf(nil, "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\nLicense: Apache-2.0\n"+
			"License-File: LICENSE\nLicense-File: LICENSES.txt\nDescription-Content-Type: text/markdown\n\n%s", p.Name, version, p.Description, p.Python, readme), 0o644},
		{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: troupe-release\nRoot-Is-Purelib: false\n" + tags.String()), 0o644},
		{info + "LICENSE", license, 0o644}, {info + "LICENSES.txt", licenses, 0o644},
	}
	names, err := filepath.Glob(from + "troupe/*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if base := filepath.Base(name); strings.HasSuffix(base, ".py") || base == "py.typed" {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			all = append(all, entry{"troupe/" + base, data, 0o644})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var record strings.Builder
	for _, e := range all {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	all = append(all, entry{info + "RECORD", []byte(record.String()), 0o644})
	name := r.wheelName(target)
	r.files = append(r.files, name)
	f, err := os.Create(filepath.Join(r.work, name))
	if err != nil {
		return err
	}
	return errors.Join(r.zip(f, "", all), f.Close())
}
