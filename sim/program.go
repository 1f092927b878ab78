package sim

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"troupe/policy"
)

// Engine is the version of the code that computes the numbers of the built-in kinds. It goes up
// exactly when the bytes of some cell change: TestEngine holds it against the results of every kind.
// Cells are kept by it, so a new build with the same engine keeps every cell.
const Engine = 4

// AnyProgram, as Options.Program, makes no difference between programs: cells are kept whatever
// computed them.
const AnyProgram = "any"

// troupeModule is the beginning of the path of every package of troupe but the root.
var troupeModule = strings.TrimSuffix(reflect.TypeFor[policy.Problem]().PkgPath(), "policy")

// builtin are the packages whose types the engine version speaks for.
var builtin = []string{"", "time", troupeModule + "policy", troupeModule + "env", troupeModule + "env/vw",
	troupeModule + "actionset", troupeModule + "dataset", troupeModule + "episode",
	troupeModule + "spec", troupeModule + "bandit", troupeModule + "rng"}

// Apart is implemented by options whose numbers another program computes: what it was, in one line, takes the place of
// the program's own build in a cell's key. Locate gives them the directory of the spec, "" where there is none, and
// Close ends what they started.
type Apart interface {
	Identity() (string, error)
	Locate(dir string)
	Close() error
	String() string // the command
}

// apart returns the options in options, themselves included, that are Apart.
func apart(options any) (all []Apart) {
	walk(reflect.ValueOf(options), 0, func(v reflect.Value) bool {
		a, ok := apartOf(v)
		if ok {
			all = append(all, a)
		}
		return !ok
	})
	return all
}

func apartOf(v reflect.Value) (Apart, bool) {
	if v.Kind() != reflect.Pointer || v.IsNil() || !v.CanInterface() {
		return nil, false
	}
	a, ok := v.Interface().(Apart)
	return a, ok
}

// locate gives the options of a spec that need it the directory of its file.
func (d decoder) locate(file string) {
	dir := ""
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
		dir = filepath.Dir(file)
	}
	for _, a := range d.x.apart() {
		a.Locate(dir)
	}
}

// apart returns all options of the experiment that are Apart.
func (x *Experiment) apart() (all []Apart) {
	for i := range x.Policies {
		all = append(all, apart(x.Policies[i].Options)...)
	}
	for i := range x.Environments {
		all = append(all, apart(x.Environments[i].Options)...)
	}
	return all
}

// Commands returns the commands that cells of environment e and policy p start, both from 0.
func (x *Experiment) Commands(e, p int) (all []string) {
	for _, a := range append(apart(x.Environments[e].Options), apart(x.Policies[p].Options)...) {
		all = append(all, a.String())
	}
	return all
}

// Close ends the programs that the experiment has started. Run, and whatever plays cells, starts them anew.
func (x *Experiment) Close() {
	for _, a := range x.apart() {
		a.Close() //nolint:errcheck // the programs have done their work
	}
}

// leave ends what a policy or an environment holds outside of this process.
func leave(who any) {
	if c, ok := who.(io.Closer); ok {
		c.Close() //nolint:errcheck // the cell has its numbers
	}
}

// outside reports whether options, or anything in them, are of a type that is not built in.
func outside(options any) bool {
	found := false
	walk(reflect.ValueOf(held(options)), 0, func(v reflect.Value) bool {
		if _, ok := apartOf(v); ok {
			return false
		}
		if !v.IsValid() || !slices.Contains(builtin, v.Type().PkgPath()) {
			found = true
		}
		return !found
	})
	return found
}

// walk visits a value and what is in it, as deep as visit returns true. A place too deep to be looked at is visited as
// the zero Value.
func walk(v reflect.Value, depth int, visit func(reflect.Value) bool) {
	if !v.IsValid() {
		return
	}
	if depth > 20 {
		visit(reflect.Value{})
		return
	}
	if !visit(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), depth+1, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), depth+1, visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), depth+1, visit)
		}
	}
}

// programOf returns what computes the cells of an environment and a policy.
func (r *runner) programOf(e, p int) (string, error) {
	return r.o.programOf(r.x.Environments[e].Options, r.x.Policies[p].Options, r.x.recorded())
}

// programOf returns the engine for built-in kinds, the executable for other kinds and recorders, or what the
// caller said.
func (o *Options) programOf(world, pol any, recorders []Quantity) (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	if outside(world) || outside(pol) || len(recorders) > 0 {
		return executable()
	}
	program := fmt.Sprintf("engine %d", Engine)
	for _, a := range append(apart(world), apart(pol)...) {
		id, err := a.Identity()
		if err != nil {
			return "", err
		}
		program += ", " + id
	}
	return program, nil
}

// executable returns a hash that identifies the code of this process: that of the build ID that the
// Go linker wrote into the file, which is a hash of all that is in it, or of the whole file where
// there is none.
var executable = sync.OnceValues(func() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("the program's own file, by which results of outside kinds are kept: %w", err)
	}
	return identify(name)
})

func identify(name string) (string, error) {
	if id := buildID(name); id != nil {
		sum := sha256.Sum256(id)
		return hex.EncodeToString(sum[:]), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// buildID returns the note with the build ID of an ELF file, nil where there is none or it is empty.
func buildID(name string) []byte {
	f, err := elf.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil || section.Size > 1<<12 {
		return nil
	}
	note, err := section.Data()
	if err != nil || len(note) <= 16 { // three lengths, "Go" and the text
		return nil
	}
	return note
}

// Build returns the fields of a manifest that this binary knows of itself: the version of troupe in it, and the commit
// where the Go command recorded one (go build does, go run does not). Without a commit, or with changes to it, it has
// the hash of its build ID, which the same sources, Go release and flags give again.
func Build() Manifest {
	var m Manifest
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	module := strings.TrimSuffix(troupeModule, "/")
	for _, dep := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if dep.Path == module {
			m.Troupe = strings.TrimPrefix(dep.Version, "v")
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			m.Commit = s.Value
		case "vcs.modified":
			m.Dirty = s.Value == "true"
		}
	}
	if m.Commit == "" || m.Dirty {
		if id, err := executable(); err == nil {
			m.Build = id[:16]
		}
	}
	return m
}
