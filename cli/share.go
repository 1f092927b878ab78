package cli

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/dataset"
	"troupe/report"
	"troupe/sim"
	"troupe/spec"
)

// A shared file is a zip archive of a result directory: what any program can open, and hashes.json with the
// SHA-256 of each file.
const (
	hashesFile  = "hashes.json"
	pageFile    = "report.html"
	shareFormat = 1
	shareRoom   = 2 << 30 // bytes of all files, unpacked
)

// shared are the files of an archive, in their order, and whether a directory must have them.
var shared = []struct {
	name string
	must bool
}{
	{sim.ManifestFile, true}, {pageFile, true}, {sim.ResultsFile, true},
	{sim.DiagnosticsFile, false}, {sim.ValuesFile, false}, {sim.PoliciesFile, false}, {sim.EnvironmentsFile, false},
}

// hashes is hashes.json.
type hashes struct {
	Format int               `json:"format"`
	Files  map[string]string `json:"files"` // SHA-256 by name
}

func shareCommand(kinds sim.Catalogue) *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "share DIR",
		Short: "Pack the results of a run into one file that others can check",
		Long: `Packs the page, the spec, the results and their hashes of a complete run into one zip file.
Any program opens it, and troupe check FILE verifies it and plays some of its replications
again. The same directory gives the same bytes.`,
		Example: `  troupe share runs/size
  troupe share runs/size --out ensemble-size.zip`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := collect(dir, kinds); err != nil {
				return err
			}
			if out == "" {
				out = filepath.Clean(dir) + ".zip"
			}
			if _, err := os.Stat(out); err == nil && !force {
				return term.Misuse(fmt.Errorf("%s exists; choose another file with --out, or replace it with --force",
					out))
			}
			sum, err := share(dir, out)
			if sim.ReadOnly(err) {
				return term.Misuse(fmt.Errorf("%w; expected a file that can be written: troupe share %s --out FILE", err,
					dir))
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "file     %s\nsha256   %s\nto check troupe check %s\n", out, sum,
				out)
			return err
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "file to write (default DIR.zip)")
	c.Flags().BoolVar(&force, "force", false, "replace the file of --out")
	return c
}

// share writes the archive of a result directory and returns its SHA-256.
func share(dir, out string) (string, error) {
	run, err := report.Load(dir) // every file is what the manifest says
	if err != nil {
		return "", err
	}
	if m := run.Manifest; m.Status != sim.Complete {
		return "", term.Misuse(fmt.Errorf("%s is not complete: %d of %d cells; give the command of the run again first",
			dir, m.Done, m.Cells))
	}
	pages, err := os.MkdirTemp("", "troupe-share-") // the directory may be read-only
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(pages)
	page, err := report.Write(run, pages, report.Options{NoFigures: true}) // the page of these files
	if err != nil {
		return "", err
	}
	files := make(map[string][]byte)
	list := hashes{Format: shareFormat, Files: make(map[string]string)}
	for _, f := range shared {
		name := filepath.Join(dir, f.name)
		if f.name == pageFile {
			name = page.Page
		}
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) && !f.must {
			continue
		}
		if err != nil {
			return "", err
		}
		files[f.name] = data
		sum := sha256.Sum256(data)
		list.Files[f.name] = hex.EncodeToString(sum[:])
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return "", err
	}
	files[hashesFile] = append(text, '\n')
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser,
		error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return "", err
		}
		if _, err := w.Write(files[name]); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.WriteFile(out+".tmp", b.Bytes(), 0o666); err != nil {
		return "", err
	}
	if err := os.Rename(out+".tmp", out); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:]), nil
}

// checkFlags are the flags of `troupe check`.
type checkFlags struct {
	cells int
	seed  uint64
	data  string
	all   bool
	allow bool // commands of the spec may be started
}

func checkCommand(kinds sim.Catalogue) *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Verify a shared file: its hashes, its page, and some replications played again",
		Long: `Verifies a file of troupe share. Every file must have its hash, the results must be those of the
manifest, and the page must be what this program makes of them. A random sample of the replications is
played again and must give the same numbers, bit for bit. What differs is named, and the exit code is 1.

A page of another build cannot be compared: the exit code is 1, and the build that can is named. A file
of another engine has its hashes and its results verified, but cannot be played again with this
program. The exit code is 1 then too, because nothing shows that the numbers are right.

A policy that is a program (kind = "process") is not started, because the file came from somebody else.
Its cells are not played, and their number is printed. --allow-commands starts it in the working
directory, and prints each command first.`,
		Example: `  troupe check size.zip
  troupe check size.zip --cells 100
  troupe check size.zip --all
  troupe check mushroom.zip --data mushroom.data`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.cells < 1 {
				return term.Misuse(fmt.Errorf("--cells %d: expected at least 1", f.cells))
			}
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64()
			}
			ctx, release := interruptible(cmd.Context(), silent{}, cmd.ErrOrStderr(), 0)
			defer release()
			return check(ctx, cmd.OutOrStdout(), args[0], f, kinds)
		},
	}
	c.Flags().IntVar(&f.cells, "cells", 10, "replications of a policy in an environment that are played again, drawn "+
		"at random")
	c.Flags().BoolVar(&f.all, "all", false, "play all of them again")
	c.Flags().BoolVar(&f.allow, "allow-commands", false, "start the programs that the spec names, after printing them")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed of the draw (default: another one each time)")
	c.Flags().StringVar(&f.data, "data", "", "data file, or the directory in which the spec's data files are")
	return c
}

// unpack reads an archive into a directory, with every bound and name checked before, and verifies the hashes.
func unpack(file, dir string) error {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return term.Misuse(fmt.Errorf("%s is a directory, expected a file of troupe share; troupe share %[1]s --out FILE "+
			"writes it, of a complete run", file))
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return term.Misuse(fmt.Errorf("%s is no file of troupe share: %w", file, err))
	}
	defer z.Close()
	data := make(map[string][]byte)
	room := uint64(shareRoom)
	for _, f := range z.File {
		known := f.Name == hashesFile || slices.ContainsFunc(shared, func(s struct {
			name string
			must bool
		}) bool {
			return s.name == f.Name
		})
		if !known || data[f.Name] != nil {
			return term.Misuse(fmt.Errorf("%s: %q is not a file of troupe share, or is there twice", file, f.Name))
		}
		if f.UncompressedSize64 > room {
			return term.Misuse(fmt.Errorf("%s: %s has %d bytes; all files may have %d", file, f.Name,
				f.UncompressedSize64, uint64(shareRoom)))
		}
		room -= f.UncompressedSize64
		r, err := f.Open()
		if err != nil {
			return term.Misuse(fmt.Errorf("%s: %s: %w", file, f.Name, err))
		}
		b, err := io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)+1))
		if err = errors.Join(err, r.Close()); err != nil {
			return term.Misuse(fmt.Errorf("%s: %s: %w", file, f.Name, err))
		}
		data[f.Name] = append(b, "\n"...)[:len(b):len(b)] // not nil where it is empty
	}
	var list hashes
	if err := json.Unmarshal(data[hashesFile], &list); err != nil {
		return term.Misuse(fmt.Errorf("%s: %s: %w", file, hashesFile, err))
	}
	if list.Format != shareFormat {
		return term.Misuse(fmt.Errorf("%s: %s: format is %d, expected %d", file, hashesFile, list.Format, shareFormat))
	}
	for _, f := range shared {
		b, there := data[f.name]
		want, listed := list.Files[f.name]
		switch {
		case !there && !listed && !f.must:
			continue
		case !there:
			return fmt.Errorf("%s: %s is missing", file, f.name)
		case !listed:
			return fmt.Errorf("%s: %s has no hash in %s", file, f.name, hashesFile)
		}
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); got != want {
			return fmt.Errorf("%s: %s was changed: its SHA-256 is %.12s…, %s says %.12s…", file, f.name, got,
				hashesFile, want)
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), b, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// check verifies a shared file.
func check(ctx context.Context, w io.Writer, file string, f checkFlags, kinds sim.Catalogue) error {
	dir, err := os.MkdirTemp("", "troupe-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return err
	}
	run, err := report.Load(dir)
	if err != nil {
		return fmt.Errorf("%s: %s", file, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	m := run.Manifest
	fmt.Fprintf(w, "hashes   all %d files have theirs\n", len(shared)-missing(dir))
	x, err := sim.Parse(m.Experiment, m.Spec, kinds)
	if err != nil {
		var fault *spec.Error
		if errors.As(err, &fault) && fault.UnknownKind {
			err = fmt.Errorf("%w\na kind of a program of one's own (troupe new) is checked by that program", err)
		}
		return fmt.Errorf("%s: the spec: %w", file, err)
	}
	x.Name = m.Experiment
	if got := x.Identity(); got != m.Identity || x.Replications != m.Replications ||
		len(x.Environments) != len(m.Environments) || len(x.Policies) != len(m.Policies) {
		return fmt.Errorf("%s: the spec is not that of the manifest: its identity is %.12s…, the manifest says %.12s…",
			file, got, m.Identity)
	}
	fmt.Fprintf(w, "results  those of the manifest: %s, %d cells, seed %d, engine %d\n", m.Experiment, m.Done, m.Seed,
		m.Engine)
	page := checkPage(w, run, dir, m)
	if m.Engine != sim.Engine {
		return errors.Join(page, fmt.Errorf("%s is of engine %d, this program has engine %d: nothing was played again",
			file, m.Engine, sim.Engine))
	}
	return errors.Join(page, replay(ctx, w, run, x, f))
}

func missing(dir string) (n int) {
	for _, f := range shared {
		if _, err := os.Stat(filepath.Join(dir, f.name)); err != nil {
			n++
		}
	}
	return n
}

// sameBuild reports whether two manifests are of one program: of one clean commit, or of one build where the commit is
// not recorded or is modified.
func sameBuild(a, b sim.Manifest) bool {
	switch {
	case a.Troupe != b.Troupe || a.Commit != b.Commit || a.Dirty != b.Dirty:
		return false
	case a.Commit != "" && !a.Dirty:
		return true
	}
	return a.Build != "" && a.Build == b.Build
}

// checkPage makes the page again from the files and compares. A page that differs is an error, also where another build
// may have written it: what cannot be compared is not checked.
func checkPage(w io.Writer, run *report.Run, dir string, m sim.Manifest) error {
	name := filepath.Join(dir, pageFile)
	was, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err := report.Write(run, dir, report.Options{NoFigures: true}); err != nil {
		return err
	}
	is, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	self := build()
	switch {
	case bytes.Equal(was, is):
		fmt.Fprintln(w, "page     what this program makes of the results")
	case sameBuild(self, m):
		return errors.New("report.html is not what this program makes of the results: it was changed")
	default:
		return fmt.Errorf("report.html is not what this program makes of the results: it was changed, or is of "+
			"another build. "+
			"Check it with %s, commit %s; this is %s, commit %s. The cells and tables above do not depend on the build",
			m.Troupe, commitName(m), self.Troupe, commitName(self))
	}
	return nil
}

// commitName is the commit of a build in words.
func commitName(m sim.Manifest) string {
	switch {
	case m.Commit == "" && m.Build != "":
		return "not recorded, build " + m.Build
	case m.Commit == "":
		return "unknown"
	case m.Dirty:
		return strings.TrimSuffix(fmt.Sprintf("%.12s, modified, build %s", m.Commit, m.Build), ", build ")
	}
	return fmt.Sprintf("%.12s", m.Commit)
}

// replay plays a sample of the cells again and names those that differ.
func replay(ctx context.Context, w io.Writer, run *report.Run, x *sim.Experiment, f checkFlags) error {
	cells := rand.New(rand.NewPCG(f.seed, 0)).Perm(x.Cells())
	if !f.all {
		cells = cells[:min(f.cells, len(cells))]
	}
	differ, left := 0, 0
	told := make(map[string]bool) // commands
	for _, i := range cells {
		e, p, r := i/x.Replications/len(x.Policies), i/x.Replications%len(x.Policies), i%x.Replications
		commands := x.Commands(e, p)
		for _, c := range commands {
			if f.allow && !told[c] {
				fmt.Fprintf(w, "command  %s\n", c)
			}
			told[c] = true
		}
		if len(commands) > 0 && !f.allow {
			left++
			continue
		}
		rows, err := sim.Replay(ctx, x, e, p, r, sim.Options{Data: &dataset.Source{Override: f.data}})
		if errors.Is(err, sim.ErrInterrupted) {
			return term.Silently(term.Interrupted, err)
		}
		if err != nil {
			return err
		}
		was := run.Envs[e].Cells[p][r]
		for k, row := range rows {
			if was == nil || k >= len(was.Regret) || !sameNumber(was.Regret[k], row.Regret) ||
				!sameNumber(was.Reward[k], row.Reward) {
				differ++
				text := "is missing"
				if was != nil && k < len(was.Regret) {
					text = fmt.Sprintf("has regret %v and reward %v at round %d, played again %v and %v", was.Regret[k],
						was.Reward[k], row.Round, row.Regret, row.Reward)
				}
				fmt.Fprintf(w, "differs  %s, %s, replication %d %s\n", row.Environment, row.Policy, row.Replication,
					text)
				break
			}
		}
	}
	if left > 0 {
		fmt.Fprintf(w, "left     %s not played, which the spec's own programs compute; --allow-commands starts %s\n",
			term.Many(left, "cell"), strings.Join(slices.Sorted(maps.Keys(told)), " and "))
	}
	if left == len(cells) {
		return errors.New("nothing was played again")
	}
	if differ > 0 {
		return fmt.Errorf("%s of %d played again are not the same (--seed %d draws them again)",
			term.Many(differ, "cell"), len(cells)-left, f.seed)
	}
	fmt.Fprintf(w, "played   %s of %d again: the same numbers, bit for bit (--seed %d draws them again)\n",
		term.Many(len(cells)-left, "cell"), x.Cells(), f.seed)
	return nil
}

func sameNumber(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
