package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"troupe/dataset"
	"troupe/env"
)

// dataFiles finds the files that environments name. A relative path is looked up from the working
// directory, then from the directory of the spec file; Source.Override (--data) comes before both.
type dataFiles struct {
	*dataset.Source
	specDir string
}

// Encoded implements env.DataSource.
func (d dataFiles) Encoded(path string, o dataset.Options, enc dataset.Encoding) (*dataset.Encoded, error) {
	return d.Source.Encoded(d.find(path), o, enc)
}

// Other implements env.DataSource.
func (d dataFiles) Other(path, key string, read func(file string) (any, error)) (any, error) {
	return d.Source.Other(d.find(path), key, read)
}

func (d dataFiles) find(path string) string {
	if d.Override != "" || path == "" || filepath.IsAbs(path) || exists(path) {
		return path
	}
	if beside := filepath.Join(d.specDir, path); exists(beside) {
		return beside
	}
	return path
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// fingerprint returns the file that an environment reads and the hash of its bytes; both are empty
// when it reads none.
func (d dataFiles) fingerprint(options env.Options) (name, sum string, err error) {
	o, ok := options.(env.FileReader)
	if !ok {
		return "", "", nil
	}
	if name, err = d.Path(d.find(o.DataFile())); err != nil {
		return "", "", err
	}
	f, err := os.Open(name)
	if err != nil {
		return "", "", fmt.Errorf("%w: write data = \"FILE\" in the environment's table, or pass --data FILE", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", "", err
	}
	return name, hex.EncodeToString(h.Sum(nil)), nil
}

// OnePass returns the longest horizon in which no environment shows an event of its file twice, where the
// spec says no horizon and some environment has such a limit; otherwise 0.
func (x *Experiment) OnePass(source *dataset.Source) (int, error) {
	rounds := 0
	if x.stated {
		return 0, nil
	}
	for e := range x.Environments {
		c := &x.Environments[e]
		n, err := c.rounds(dataFiles{source, filepath.Dir(x.src.Name)})
		if err != nil {
			return 0, x.blame(c.path, fmt.Sprintf("environment %q", c.Name), err)
		}
		if n > 0 && (rounds == 0 || n < rounds) {
			rounds = n
		}
	}
	return rounds, nil
}

// rounds returns the longest horizon of an environment, 0 where there is none.
func (c *Case[T]) rounds(data dataFiles) (int, error) {
	p, ok := any(c.Options).(env.Passes)
	if !ok {
		return 0, nil
	}
	return p.Rounds(data)
}
