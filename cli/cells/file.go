// Package cells is the command `troupe cells`: several servers or clusters, each with some of the models, behind a proxy.
// It reads a file with the cells, asks them, prints what a proxy needs and proposes moves. Command is all of it; it changes
// nothing at any cell.
package cells

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"troupe/eventlog"
	"troupe/spec"
)

// cell is a server or a cluster.
type cell struct {
	Name   string   `key:"name" doc:"what commands and the proxy call it"`
	Number int      `key:"number" doc:"that of troupe serve --cell or troupe cluster init --cell"`
	URLs   []string `key:"urls" doc:"where its servers are, one or the nodes of a cluster, http://HOST:PORT"`
	CA     string   `key:"ca" doc:"file with the authority of its certificates (PEM), beside the system's"`

	key  string // API key
	http *http.Client
}

var cellName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// most is how many cells a file may have: each has a first character of event ids.
const most = eventlog.LastCell

// read reads a file of cells. Errors name file, line and field.
func read(file, key string) ([]cell, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	raw, src, err := spec.ReadFile(file, string(data))
	if err != nil {
		return nil, err
	}
	all, err := decode(raw)
	if err != nil {
		return nil, src.Locate(err)
	}
	for i := range all {
		if err := all[i].reach(filepath.Dir(file), key); err != nil {
			return nil, src.Locate(spec.Errorf(spec.Element("cell", i), "%v", err))
		}
	}
	return all, nil
}

func decode(raw spec.Raw) ([]cell, error) {
	var all []cell
	for name := range raw {
		if name != "cell" {
			return nil, spec.Errorf(name, "unknown key %q%s", name, spec.Suggest(name, []string{"cell"}))
		}
	}
	list, ok := raw["cell"].([]any)
	if !ok || len(list) == 0 || len(list) > most {
		return nil, spec.Errorf("cell", "is %s, expected 1 to %d tables [[cell]]", spec.Show(raw["cell"]), most)
	}
	names, numbers, urls := map[string]bool{}, map[int]bool{}, map[string]bool{}
	for i, v := range list {
		at := spec.Element("cell", i)
		table, ok := v.(spec.Raw)
		if !ok {
			return nil, spec.Errorf(at, "is %s, expected a table", spec.Show(v))
		}
		var c cell
		if err := spec.DecodeStruct(&c, table, at); err != nil {
			return nil, err
		}
		switch {
		case !cellName.MatchString(c.Name):
			return nil, spec.Errorf(spec.Join(at, "name"), "is %q, expected a lower-case letter, then letters, digits or _, 32 at most", c.Name)
		case names[c.Name]:
			return nil, spec.Errorf(spec.Join(at, "name"), "is %q, which another cell has", c.Name)
		case c.Number < 1 || c.Number > most:
			return nil, spec.Errorf(spec.Join(at, "number"), "is %d, expected 1 to %d", c.Number, most)
		case numbers[c.Number]:
			return nil, spec.Errorf(spec.Join(at, "number"), "is %d, which another cell has", c.Number)
		case len(c.URLs) == 0:
			return nil, spec.Errorf(spec.Join(at, "urls"), "is empty, expected one URL, or those of the nodes of a cluster")
		}
		for j, text := range c.URLs {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" {
				return nil, spec.Errorf(spec.Element(spec.Join(at, "urls"), j), "is %q, expected http://HOST:PORT or https://HOST:PORT", text)
			}
			if urls[u.String()] {
				return nil, spec.Errorf(spec.Element(spec.Join(at, "urls"), j), "is %q, which is there twice", text)
			}
			if urls[u.String()] = true; u.Scheme != scheme(c.URLs[0]) {
				return nil, spec.Errorf(spec.Element(spec.Join(at, "urls"), j), "is %q, expected %s as the first one", text, scheme(c.URLs[0]))
			}
		}
		names[c.Name], numbers[c.Number] = true, true
		all = append(all, c)
	}
	return all, nil
}

func scheme(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme
}

// reach makes the clients of a cell. Files are relative to dir.
func (c *cell) reach(dir, key string) error {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if c.CA != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		name := c.CA
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		if !pool.AppendCertsFromPEM(b) {
			return fmt.Errorf("ca: %s has no certificate", c.CA)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c.key, c.http = key, &http.Client{Transport: t}
	return nil
}
