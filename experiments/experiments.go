// Package experiments holds the experiments that come with troupe, as spec files inside the binary:
// `troupe run paper/ensemble-size` works anywhere.
//
// An experiment goes by its `name` key. The file of NAME, of paper/NAME and of anything else whose
// last part is NAME is NAME.toml in this directory, or in the subdirectory of its first part where
// there is one: paper/ensemble-size is ensemble-size.toml, classification/mushroom is
// classification/mushroom.toml. The first comment line of a file says what the experiment is about.
package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"

	toml "github.com/pelletier/go-toml/v2"
)

//go:embed *.toml beyond/*.toml classification/*.toml clicks/*.toml deep/*.toml sparse/*.toml suite/*.toml
var files embed.FS

// Experiment is one embedded spec file.
type Experiment struct {
	Name string // paper/ensemble-size
	File string // ensemble-size.toml, the path in this directory
	Doc  string // one line
	Text string
}

// All returns the experiments: first those without a slash in their name, then the others, each in
// alphabetical order.
func All() []Experiment {
	var all []Experiment
	err := fs.WalkDir(files, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(file)
		if err != nil {
			return err
		}
		var head struct{ Name string }
		if err := toml.Unmarshal(text, &head); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		doc, _, _ := strings.Cut(string(text), "\n")
		all = append(all, Experiment{head.Name, file, strings.TrimPrefix(doc, "# "), string(text)})
		return nil
	})
	if err != nil {
		panic("experiments: a spec in the binary does not decode: " + err.Error())
	}
	sort.Slice(all, func(i, j int) bool {
		if a, b := strings.Contains(all[i].Name, "/"), strings.Contains(all[j].Name, "/"); a != b {
			return b
		}
		return all[i].Name < all[j].Name
	})
	return all
}

// Find returns the experiment of a name.
func Find(name string) (Experiment, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return Experiment{}, false
}

// file is the rule of the package comment: where the experiment of a name is.
func file(name string) string {
	if dir, rest, ok := strings.Cut(name, "/"); ok && dir != "paper" {
		return path.Join(dir, rest) + ".toml"
	}
	return path.Base(name) + ".toml"
}
