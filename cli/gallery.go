package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/report"
	"troupe/report/chart"
	"troupe/sim"
)

// galleryMark is a file that says that a directory is a gallery, so that it may be written anew.
const galleryMark = ".troupe-gallery"

// gallery is one call of `troupe gallery`.
type gallery struct {
	out, title, line string
	image            string // of a link to the index
	work             string // the site, until it is whole
	entries          []report.GalleryEntry
	names            map[string]bool // of directories of the site
	left             []string
}

func galleryCommand(line string) *cobra.Command {
	g := gallery{line: line, names: map[string]bool{}}
	c := &cobra.Command{
		Use:   "gallery DIR|FILE...",
		Short: "Make a static site from runs: an index with verdicts, a page for each, comparisons",
		Long: `Makes a site that opens from a disk, without network and without scripts. It has an index with the
verdict of each run, filters by policy, environment and group, and the page of each run. For runs of
one experiment it shows what changed from one to the next and against the first. For runs with uniform
play it shows the score by kind of difficulty. A DIR is a result directory, or one that has result
directories below it; a FILE is one of troupe share.

Every page is made from the numbers; pages of the runs are not used, and no command of a spec is
started. A run whose files do not fit together is named and left out, and the exit code is 1.`,
		Example: `  troupe gallery runs -o site
  troupe gallery runs/size colleague.zip -o site --title "Ensembles and their size"`,
		Args: term.Arguments(1, 10_000),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.run(cmd, args)
		},
	}
	c.Flags().StringVarP(&g.out, "out", "o", "site",
		"directory of the site: empty, missing, or a gallery, which is replaced")
	c.Flags().StringVar(&g.title, "title", "", "title of the index")
	return c
}

func (g *gallery) run(cmd *cobra.Command, args []string) error {
	if err := g.check(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "troupe-gallery-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for i, arg := range args {
		if err := g.add(arg, filepath.Join(work, fmt.Sprint(i))); err != nil {
			return err
		}
	}
	for _, text := range g.left {
		fmt.Fprintln(cmd.ErrOrStderr(), "troupe: left out:", text)
	}
	if len(g.entries) == 0 {
		return term.Silently(term.Failed, errors.New("no run is left, and nothing was written"))
	}
	slices.SortStableFunc(g.entries, func(a, b report.GalleryEntry) int {
		x, y := a.Run.Manifest, b.Run.Manifest
		return cmp.Or(cmp.Compare(x.Experiment, y.Experiment), cmp.Compare(x.Started, y.Started))
	})
	if err := g.begin(); err != nil {
		return err
	}
	defer os.RemoveAll(g.work)
	err = g.write()
	if err == nil {
		err = errors.Join(os.RemoveAll(g.out), os.Rename(g.work, g.out))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s on %s\n", term.Many(len(g.entries), "run"), filepath.Join(g.out, "index.html"))
	if len(g.left) > 0 {
		return term.Silently(term.Failed, errors.New("runs were left out"))
	}
	return nil
}

// check refuses a directory that is something else than a gallery.
func (g *gallery) check() error {
	files, err := os.ReadDir(g.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Misuse(fmt.Errorf("--out: %w", err))
	}
	if len(files) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(g.out, galleryMark)); err != nil {
		return term.Misuse(fmt.Errorf("--out: %s is not empty (%s) and is no gallery; name another directory", g.out,
			files[0].Name()))
	}
	return nil
}

// begin makes a directory beside that of the site, which takes its place when all of it is there.
func (g *gallery) begin() (err error) {
	parent := filepath.Dir(filepath.Clean(g.out))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return term.Misuse(fmt.Errorf("--out: %w", err))
	}
	if g.work, err = os.MkdirTemp(parent, ".gallery-"); err != nil {
		return term.Misuse(fmt.Errorf("--out: %w", err))
	}
	return errors.Join(os.Chmod(g.work, 0o755), os.WriteFile(filepath.Join(g.work, galleryMark), nil, 0o644))
}

// add reads the runs of an argument. work is a directory for the files of an archive.
func (g *gallery) add(arg, work string) error {
	info, err := os.Stat(arg)
	if err != nil {
		return term.Misuse(err)
	}
	if !info.IsDir() {
		if err := os.MkdirAll(work, 0o755); err != nil {
			return err
		}
		if err := unpack(arg, work); err != nil {
			g.left = append(g.left, err.Error())
			return nil
		}
		g.read(work, arg)
		return nil
	}
	before := len(g.entries) + len(g.left)
	err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(path, sim.ManifestFile)); err != nil {
			return nil
		}
		g.read(path, path)
		return filepath.SkipDir
	})
	if err == nil && len(g.entries)+len(g.left) == before {
		err = term.Misuse(fmt.Errorf("%s: no directory in it has the results of troupe run", arg))
	}
	return err
}

// read reads a run, or notes why it is left out.
func (g *gallery) read(dir, source string) {
	run, err := report.Load(dir)
	if err == nil && run.Manifest.Shard != nil {
		err = fmt.Errorf("part %d of %d has no results of its own: merge the parts", run.Manifest.Shard.Part,
			run.Manifest.Shard.Of)
	}
	if err != nil {
		text := strings.ReplaceAll(err.Error(), dir, source)
		if !strings.Contains(text, source) { // only so that the line names the directory once
			text = source + ": " + text
		}
		g.left = append(g.left, text)
		return
	}
	g.entries = append(g.entries, report.GalleryEntry{Run: run})
}

// write writes the pages, the comparisons and the index.
func (g *gallery) write() error {
	for i := range g.entries {
		e := &g.entries[i]
		name := g.name(e.Run.Manifest.Experiment)
		dir := filepath.Join(g.work, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		paths, err := report.Write(e.Run, dir, report.Options{NoFigures: true, Preview: true})
		if err != nil {
			return fmt.Errorf("%s: %w", e.Run.Dir, err)
		}
		e.Page = name + "/report.html"
		if e.Picture, e.Looks = paths.Picture, paths.Looks; g.image == "" && paths.Preview != "" {
			g.image = name + "/" + report.PreviewFile
		}
		if i > 0 && g.entries[i-1].Run.Manifest.Experiment == e.Run.Manifest.Experiment {
			if err := g.compare(&g.entries[i-1], e, dir); err != nil {
				return err
			}
		}
		if d := report.DifficultyOf(e.Run); d != nil {
			if err := writePage(filepath.Join(dir, "difficulty.html"), d.WriteHTML); err != nil {
				return err
			}
			e.Difficulty = name + "/difficulty.html"
		}
	}
	if err := g.compareMany(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := report.WriteGallery(&b, g.entries, report.GalleryMeta{Title: g.title, Command: g.line,
		Image: g.image, Left: g.left}); err != nil {
		return err
	}
	return chart.WriteFile(filepath.Join(g.work, "index.html"), b.Bytes())
}

// writePage writes a page.
func writePage(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return chart.WriteFile(name, b.Bytes())
}

// compareMany writes for each experiment with three runs or more what changed against the first of them.
func (g *gallery) compareMany() error {
	for from := 0; from < len(g.entries); {
		to := from + 1
		for to < len(g.entries) && g.entries[to].Run.Manifest.Experiment == g.entries[from].Run.Manifest.Experiment {
			to++
		}
		if to-from >= 3 {
			var runs []*report.Run
			var names []string
			for i := from; i < to; i++ {
				runs = append(runs, g.entries[i].Run)
				names = append(names, fmt.Sprintf("run %d", i-from+1))
			}
			s := report.CompareMany(runs, names)
			first := &g.entries[from]
			to := filepath.Dir(first.Page) + "/many.html"
			if err := writePage(filepath.Join(g.work, filepath.FromSlash(to)), s.WriteHTML); err != nil {
				return err
			}
			head, _ := s.Verdict()
			first.Compared = append(first.Compared, report.GalleryPair{Many: true, With: fmt.Sprintf("All %d runs compared with this one",
				len(runs)), Page: to, Verdict: head.String()})
		}
		from = to
	}
	return nil
}

// name is a name for the directory of a run that no other one has.
func (g *gallery) name(experiment string) string {
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r - 'A' + 'a'
		}
		return '-'
	}, experiment)
	base = strings.Trim(base, ".-")
	base = cmp.Or(base[:min(len(base), 60)], "run")
	name := base
	for n := 2; g.names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	g.names[name] = true
	return name
}

// compare writes what changed from one run of an experiment to the next. Runs that cannot be compared have no such
// page.
func (g *gallery) compare(a, b *report.GalleryEntry, dir string) error {
	c, err := report.Compare(a.Run.Dir, b.Run.Dir)
	if err != nil {
		return nil
	}
	var page bytes.Buffer
	if err := c.WriteHTML(&page); err != nil {
		return err
	}
	head, _ := c.Verdict()
	with, _ := c.Names()
	b.Compared = append(b.Compared, report.GalleryPair{With: with,
		Page: filepath.Base(dir) + "/compare.html", Verdict: head.String()})
	return chart.WriteFile(filepath.Join(dir, "compare.html"), page.Bytes())
}
