package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the numeric user and group of the process, as in other images without a shell.
const user = 65532

// refName is the annotation in which tools look for a tag.
const refName = "org.opencontainers.image.ref.name"

// facts are what the image says of itself.
type facts struct {
	version, commit string
	time            time.Time
}

// certificates are the authorities of public certificates, from the pinned bundle of Go's own list. Those that count
// only under a condition, which a file cannot state, are left out.
func certificates() []byte {
	var b bytes.Buffer
	for c := range bundle.Roots() {
		if c.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate})
		}
	}
	return b.Bytes()
}

// root is the file system of the image: the program, certificates, one user, and the directory for data.
func root(program []byte, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var failed error
	add := func(name string, mode int64, owner int, data []byte) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(data)), ModTime: at,
			Format: tar.FormatUSTAR}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(data)
		}
		failed = errors.Join(failed, err)
	}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/", "var/", "var/lib/"} {
		add(dir, 0o755, 0, nil)
	}
	users := "root:x:0:0:root:/:/sbin/nologin\ntroupe:x:%d:%d:troupe:/var/lib/troupe:/sbin/nologin\n"
	add("etc/passwd", 0o644, 0, fmt.Appendf(nil, users, user, user))
	add("etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\ntroupe:x:%d:\n", user))
	add("etc/ssl/certs/ca-certificates.crt", 0o644, 0, certificates())
	add("usr/local/bin/troupe", 0o755, 0, program)
	add("var/lib/troupe/", 0o700, user, nil)
	return b.Bytes(), errors.Join(failed, w.Close())
}

// writeRoot writes the root of the image alone, for Containerfile.
func writeRoot(file string, f facts, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	files, err := root(data, f.time)
	if err != nil {
		return err
	}
	return os.WriteFile(file, files, 0o644)
}

// image is the image of one architecture.
func image(arch string, program []byte, f facts) (v1.Image, error) {
	files, err := root(program, f.time)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: f.time},
		CreatedBy: "go run ./release"}})
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d:%d", user, user)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: arch, Created: v1.Time{Time: f.time},
		RootFS: must(img.ConfigFile()).RootFS, History: must(img.ConfigFile()).History,
		Config: v1.Config{User: id, Entrypoint: []string{"/usr/local/bin/troupe"}, Cmd: []string{"--help"},
			Env:        []string{"PATH=/usr/local/bin"},
			WorkingDir: "/var/lib/troupe", Volumes: map[string]struct{}{"/var/lib/troupe": {}}, StopSignal: "SIGTERM",
			Labels: annotations(f)}})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(img, annotations(f)).(v1.Image), nil
}

// must is for what cannot fail: the configuration of an image in memory.
func must(c *v1.ConfigFile, err error) *v1.ConfigFile {
	if err != nil {
		panic(err)
	}
	return c
}

// annotations say which code the image has.
func annotations(f facts) map[string]string {
	return map[string]string{"org.opencontainers.image.title": "troupe", "org.opencontainers.image.version": f.version,
		"org.opencontainers.image.revision": f.commit, "org.opencontainers.image.created": f.time.UTC().Format(time.RFC3339)}
}

// writeImage writes an OCI layout as a tar file: the tag VERSION is an index of all architectures, VERSION-ARCH one
// image.
func writeImage(file string, f facts, programs []string) error {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range programs {
		arch, name, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("image: %q, expected ARCH=PROGRAM", arg)
		}
		program, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		img, err := image(arch, program, f)
		if err != nil {
			return err
		}
		platform := v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
		if err := p.AppendImage(img, layout.WithPlatform(platform),
			layout.WithAnnotations(map[string]string{refName: f.version + "-" + arch})); err != nil {
			return err
		}
	}
	index = mutate.Annotations(index, annotations(f)).(v1.ImageIndex)
	if err := p.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: f.version})); err != nil {
		return err
	}
	return tarOf(file, dir, f.time)
}

// tarOf writes the files of a directory in the order of their names.
func tarOf(file, dir string, at time.Time) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: at, Format: tar.FormatUSTAR}
		if d.IsDir() {
			return w.WriteHeader(h)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, strings.TrimSuffix(h.Name, "/"), 0o644, int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	return errors.Join(err, w.Close(), out.Close())
}
