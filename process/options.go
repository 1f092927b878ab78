package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/bandit"
	"troupe/policy"
	"troupe/spec"
)

// Options is a [[policy]] table of kind "process". A value is used by one experiment; its policies may be made and
// played from several goroutines.
type Options struct {
	Command []string `key:"command" doc:"the program and its arguments; it is started in the directory of the spec, without a shell"`
	Options Table    `key:"options" doc:"what the program gets as its options; every value can be swept and tuned"`
	Files   []string `key:"files" doc:"files that the numbers depend on, beside those that command names: when one changes, cells are played again"`
	Env     []string `key:"env" doc:"environment beside PATH and HOME: NAME passes a variable on, NAME=VALUE sets it"`
	Timeout string   `key:"timeout" doc:"how long an answer may take; 0s: for ever"`
	Memory  string   `key:"memory" default:"none" doc:"address space of the program, such as 4GB (Linux)"`
	Lines   bool     `key:"lines" doc:"lines of JSON also for a program that reads frames"`

	role    string // of the program in its greeting; "" for a policy
	dir     string // of the spec
	timeout time.Duration
	bytes   int64

	checked sync.Once
	fault   error // what check found

	mu    sync.Mutex
	idle  []*child
	taken map[any]*child // by what shares it: programs that play several cells by turns
	hello *hello         // of the first program that was started
}

// NewOptions returns the defaults.
func NewOptions() *Options { return &Options{Timeout: "60s"} }

// Doc implements spec.Documented.
func (o *Options) Doc() string {
	return "a program in any language, over standard input and output (docs/reference/process.md)"
}

// String is the command, as a user types it.
func (o *Options) String() string { return strings.Join(o.Command, " ") }

// Locate sets the directory in which the program is started and in which its files are looked for.
func (o *Options) Locate(dir string) { o.dir = dir }

// check reads the options that are text.
func (o *Options) check() (err error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return spec.Refuse("command", o.Command, `expected a program and its arguments, such as ["python3", "mine.py"]`)
	}
	for _, e := range o.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" || strings.ContainsRune(e, 0) {
			return spec.Refuse("env", e, "expected NAME or NAME=VALUE")
		}
	}
	if o.timeout, err = time.ParseDuration(o.Timeout); err != nil || o.timeout < 0 {
		return spec.Refuse("timeout", o.Timeout, "expected a duration such as 60s, or 0s")
	}
	if o.Memory == "" {
		return nil
	}
	if !boundsMemory {
		return spec.Refuse("memory", o.Memory, "but the memory of a program can be bounded on Linux only")
	}
	var ok bool
	if o.bytes, ok = parseBytes(o.Memory); !ok {
		return spec.Refuse("memory", o.Memory, "expected a size from 16MB on, such as 500MB or 4GB")
	}
	return nil
}

// parseBytes reads a size of at least 16 MB.
func parseBytes(text string) (int64, bool) {
	for _, unit := range []struct {
		name string
		size float64
	}{{"GB", 1 << 30}, {"MB", 1 << 20}} {
		if digits, ok := strings.CutSuffix(text, unit.name); ok {
			var n float64
			if _, err := fmt.Sscanf(digits, "%g", &n); err != nil || fmt.Sprint(n) != digits {
				return 0, false
			}
			size := n * unit.size
			return int64(size), size >= 16<<20 && size < math.MaxInt64
		}
	}
	return 0, false
}

// environ is the environment of the program.
func (o *Options) environ() []string {
	env := []string{}
	for _, e := range slices.Concat([]string{"PATH", "HOME"}, o.Env) {
		if strings.Contains(e, "=") {
			env = append(env, e)
		} else if v, ok := os.LookupEnv(e); ok {
			env = append(env, e+"="+v)
		}
	}
	return env
}

// local returns the file that a word of the command names, seen from the directory of the spec.
func (o *Options) local(word string) (string, bool) {
	path := word
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.dir, word)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", false
	}
	return path, true
}

// Identity is a hash of what computes the numbers of the program beside its options: the protocol, the bytes of the
// files that command and files name, what the program says of itself and the versions that it reports, and the
// environment that the spec sets. It starts the program when that has not been done yet.
func (o *Options) Identity() (string, error) {
	h, err := o.greeting()
	if err != nil {
		return "", err
	}
	sums := []string{}
	for i, word := range slices.Concat(o.Command, o.Files) {
		path, ok := o.local(word)
		if !ok && i >= len(o.Command) {
			return "", spec.Refuse("files", word, "expected a file in %s", o.place())
		}
		if !ok {
			continue
		}
		sum, err := sumFile(path)
		if err != nil {
			return "", err
		}
		sums = append(sums, sum)
	}
	b, err := json.Marshal(struct {
		Protocol int
		Name     string
		Versions map[string]string
		Files    []string
		Env      []string
	}{Protocol, h.Name, h.Versions, sums, o.Env})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "process " + hex.EncodeToString(sum[:8]), nil
}

func (o *Options) place() string {
	if o.dir == "" {
		return "the working directory"
	}
	return o.dir
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
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

// greeting is what the first program said of itself. A program that says something else later is refused.
func (o *Options) greeting() (hello, error) {
	o.mu.Lock()
	h := o.hello
	o.mu.Unlock()
	if h != nil {
		return *h, nil
	}
	c, err := o.take()
	if err != nil {
		return hello{}, err
	}
	o.give(c)
	return c.hello, nil
}

// New implements policy.Options. The program is started when there is none yet; it hears of the cell with its first
// round.
func (o *Options) New(p policy.Problem) (bandit.Policy, error) {
	h, err := o.greeting()
	if err != nil {
		return nil, err
	}
	pl := &player{o: o, p: p}
	if h.Turns {
		pl.turns = p.Turns
	}
	if h.Snapshot {
		return &keeper{pl}, nil
	}
	return pl, nil
}

// take returns a program that no cell uses.
func (o *Options) take() (*child, error) {
	o.mu.Lock()
	if n := len(o.idle); n > 0 {
		c := o.idle[n-1]
		o.idle = o.idle[:n-1]
		o.mu.Unlock()
		return c, nil
	}
	o.mu.Unlock()
	if o.checked.Do(func() { o.fault = o.check() }); o.fault != nil {
		return nil, o.fault
	}
	c, err := start(o)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hello == nil {
		o.hello = &c.hello
	} else if said, now := fmt.Sprint(*o.hello), fmt.Sprint(c.hello); said != now {
		return nil, c.kill("the greeting", fmt.Errorf("it says %s, and said %s before", now, said))
	}
	return c, nil
}

// join returns a program for one more cell: that of the worker, where other cells of it have one, and the cells that it
// has not been told the end of.
func (o *Options) join(worker any) (c *child, ended []uint32, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c = o.taken[worker]; worker == nil || c == nil || c.dead != nil {
		o.mu.Unlock()
		c, err = o.take()
		o.mu.Lock()
		if err != nil {
			return nil, nil, err
		}
		if worker != nil {
			if o.taken == nil {
				o.taken = make(map[any]*child)
			}
			o.taken[worker] = c
		}
	}
	c.users++
	ended, c.ended = c.ended, nil
	return c, ended, nil
}

// part takes a cell, 0 for one that failed, from a program, and reports whether that was the last one, which has it to
// itself, with the cells that the program has not been told the end of.
func (o *Options) part(worker any, c *child, cell uint32) (ended []uint32, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cell != 0 {
		c.ended = append(c.ended, cell)
	}
	if c.users--; c.users > 0 {
		return nil, false
	}
	if o.taken[worker] == c {
		delete(o.taken, worker)
	}
	ended, c.ended = c.ended, nil
	return ended, true
}

// give returns a program that works.
func (o *Options) give(c *child) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.idle = append(o.idle, c)
}

// Close ends the programs that no cell uses. Policies may be made and played after it; they start programs anew.
func (o *Options) Close() error {
	o.mu.Lock()
	idle := o.idle
	o.idle = nil
	o.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range idle {
		all.Go(c.close)
	}
	all.Wait()
	return nil
}

// Table is the options of a program: TOML values by name.
type Table map[string]any

// DecodeSpec implements spec.Decoder.
func (t *Table) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table of options of the program", spec.Show(v))
	}
	for key, value := range raw {
		if err := plain(value, spec.Join(path, key)); err != nil {
			return err
		}
	}
	*t = raw
	return nil
}

// plain refuses what is no JSON.
func plain(v any, path string) error {
	switch v := v.(type) {
	case string, bool, int64:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return spec.Errorf(path, "is %v, expected a finite number", v)
		}
		return nil
	case []any:
		for i, e := range v {
			if err := plain(e, spec.Element(path, i)); err != nil {
				return err
			}
		}
		return nil
	case spec.Raw:
		for key, e := range v {
			if err := plain(e, spec.Join(path, key)); err != nil {
				return err
			}
		}
		return nil
	}
	return spec.Errorf(path, "is %s, expected a string, a number, a truth value, or a list or table of these", spec.Show(v))
}

// ExpandSpec implements spec.Decoder: a list is a sweep, and a list of lists sweeps over lists.
func (t *Table) ExpandSpec(v any) []spec.Choice {
	raw, ok := v.(spec.Raw)
	if !ok {
		return []spec.Choice{{Value: v}}
	}
	return spec.ExpandFree(raw)
}

// String implements fmt.Stringer, for listings.
func (t *Table) String() string { return "none" }
