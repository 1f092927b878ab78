// Command release builds what users download, from a clean commit: for each platform an archive with the program, its
// manual pages, completions, unit, alerts, licenses and bill of materials, and a wheel for pip with
// the program in it; an image for containers; and SHA256SUMS. Two
// runs from one commit, with its tags, give the same bytes, in any directory and at any time.
//
//	go run ./release -o dist
//
// The image and the bills of materials are made by the module in release/pack, so that troupe itself does not depend
// on their libraries.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms are those that a release is for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// misuse is an error that ends the program with 2: nothing was written.
type misuse struct{ error }

func main() {
	r := &release{log: os.Stderr}
	flag.StringVar(&r.dir, "o", "dist", "directory for the files; none of them may exist")
	flag.BoolVar(&r.snapshot, "snapshot", false, "build although files are changed, and say so in every name")
	targets := flag.String("platforms", strings.Join(platforms, ","), "platforms, separated by commas; the image has those of linux")
	flag.Parse()
	err := r.parse(*targets, flag.Args())
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		if errors.As(err, new(misuse)) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// release is one run.
type release struct {
	dir      string
	targets  []string // os/arch
	snapshot bool
	log      io.Writer

	commit  string    // of HEAD
	time    time.Time // of that commit, which all files have
	work    string    // directory for what is not kept
	version string    // of the names
	files   []string  // in dir, in the order of SHA256SUMS
}

// parse checks the platforms.
func (r *release) parse(targets string, rest []string) error {
	if len(rest) > 0 {
		return misuse{fmt.Errorf("%q: there are flags only", rest[0])}
	}
	for _, t := range strings.Split(targets, ",") {
		if !slices.Contains(platforms, t) {
			return misuse{fmt.Errorf("-platforms: %q, expected some of %s", t, strings.Join(platforms, ", "))}
		}
		if slices.Contains(r.targets, t) {
			return misuse{fmt.Errorf("-platforms: %s is there twice", t)}
		}
		r.targets = append(r.targets, t)
	}
	return nil
}

// run builds everything in a directory of its own and moves it to r.dir when all of it is there.
func (r *release) run() (err error) {
	if err := r.look(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "troupe-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	host := filepath.Join(r.work, "host", "troupe")
	if err := r.build(runtime.GOOS+"/"+runtime.GOARCH, host); err != nil {
		return err
	}
	if err := r.name(host); err != nil {
		return err
	}
	shared, err := r.shared(host)
	if err != nil {
		return err
	}
	var linux []string // arch=program
	for _, t := range r.targets {
		system, arch, _ := strings.Cut(t, "/")
		program := filepath.Join(r.work, system+"-"+arch, "troupe")
		if system == "windows" {
			program += ".exe"
		}
		if err := r.build(t, program); err != nil {
			return err
		}
		if system == "linux" {
			linux = append(linux, arch+"="+program)
		}
		if err := r.archive(system, arch, program, shared); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if len(linux) > 0 {
		out := r.out("-image.tar")
		args := append([]string{"image", "-o", out, "-version", r.version, "-commit", r.commit, "-time",
			r.time.Format(time.RFC3339)}, linux...)
		if err := r.pack(args...); err != nil {
			return err
		}
	}
	return r.deliver()
}

// look finds the commit, and refuses a tree with changes unless this is a snapshot.
func (r *release) look() error {
	out, err := command("git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return misuse{err}
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(out), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.time = commit, time.Unix(n, 0).UTC()
	changed, err := command("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" && !r.snapshot {
		first, _, _ := strings.Cut(changed, "\n")
		return misuse{fmt.Errorf("the tree differs from commit %.8s (%s); commit first, or name the result a snapshot with -snapshot",
			commit, strings.TrimSpace(first))}
	}
	r.snapshot = r.snapshot && changed != ""
	return nil
}

// build compiles the program for a platform. Nothing of this machine is in it, and neither are symbols and DWARF: stack
// traces and profiles do without.
func (r *release) build(target, out string) error {
	system, arch, _ := strings.Cut(target, "/")
	fmt.Fprintln(r.log, "building for", target)
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-buildvcs=true", "-o", out, "./cmd/troupe")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=", "GOFIPS140=off")
	c.Stderr = r.log
	if err := c.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w", target, err)
	}
	return nil
}

// name finds the version that the names have: that of the program, with the commit where the program says that
// there are changes since a release.
func (r *release) name(program string) error {
	out, err := command(program, "version")
	if err != nil {
		return err
	}
	words := strings.Fields(out)
	if len(words) < 2 || words[0] != "troupe" {
		return fmt.Errorf("troupe version: %q, expected troupe and a version", out)
	}
	r.version = words[1]
	if strings.HasSuffix(r.version, "-dev") {
		r.version = fmt.Sprintf("%s-%.8s", r.version, r.commit)
	}
	if r.snapshot {
		r.version += "-snapshot"
	}
	for _, t := range r.targets {
		if err := errors.Join(r.free(r.archiveName(t)), r.free(r.wheelName(t))); err != nil {
			return err
		}
	}
	return errors.Join(r.free("troupe-"+r.version+"-image.tar"), r.free("SHA256SUMS"))
}

// free refuses a name that the directory has already.
func (r *release) free(name string) error {
	path := filepath.Join(r.dir, name)
	if _, err := os.Lstat(path); err == nil {
		return misuse{fmt.Errorf("-o: %s exists; choose another directory", path)}
	}
	return nil
}

// out is a file of the release, below the work directory until all are there.
func (r *release) out(rest string) string {
	name := "troupe-" + r.version + rest
	r.files = append(r.files, name)
	return filepath.Join(r.work, name)
}

// archiveName is the name of the archive of a platform.
func (r *release) archiveName(target string) string {
	name := "troupe-" + r.version + "-" + strings.ReplaceAll(target, "/", "-")
	if strings.HasPrefix(target, "windows") {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// pack runs the program of the module in release/pack.
func (r *release) pack(args ...string) error {
	program := filepath.Join(r.work, "host", "pack")
	if _, err := os.Stat(program); err != nil {
		c := exec.Command("go", "build", "-C", "release/pack", "-o", program, ".")
		c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		c.Stderr = r.log
		if err := c.Run(); err != nil {
			return fmt.Errorf("go build of release/pack: %w", err)
		}
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return nil
}

// deliver writes SHA256SUMS and moves all files to the directory.
func (r *release) deliver() error {
	slices.Sort(r.files)
	var sums strings.Builder
	for _, name := range r.files {
		data, err := os.ReadFile(filepath.Join(r.work, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
	}
	if err := os.WriteFile(filepath.Join(r.work, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, name := range append(r.files, "SHA256SUMS") {
		if err := move(filepath.Join(r.work, name), filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.log, "%d files of troupe %s in %s\n", len(r.files)+1, r.version, r.dir)
	return nil
}

// move moves a file to another directory, which may be on another disk.
func move(from, to string) error {
	if os.Rename(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// command returns what a command prints; the error has what it says.
func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(out), nil
}
