package report

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"troupe/report/chart"
	"troupe/sim"
)

// Options of Build. The zero value writes everything.
type Options struct {
	// drawn in the log–log figures, beside those of package theory, which the page shows on demand
	Bounds    []Bound
	NoFigures bool         // leave out figures/ and tables/
	Preview   bool         // write the picture of a link all the same
	Each      bool         // of a run of many sizes: also the figures and tables of each size
	Sizes     []chart.Size // also write figures/NAME/ in these sizes; figures/ itself has the first of Sizes
}

// Paths says what Build wrote.
type Paths struct {
	Page    string   // report.html
	Figures []string // figures/*.svg, *.pdf, *.png, *.pgf, *.csv
	Tables  []string // tables/*.csv, *.tex
	Floats  string   // paper.tex
	Preview string   // figures/preview.png, the picture of a link to the page; "" without

	Picture *chart.Figure // that picture; nil where no replication is complete
	Looks   []chart.Look  // of its marks
}

// document is everything a report shows, before it is written in any format.
type document struct {
	run      *Run
	opts     Options
	looks    []chart.Look // policies, then environments
	repeats  bool
	envs     []*envPart
	score    *chart.Table   // nil for a run that is not of a suite
	quote    string         // of the best policy
	solved   []*chart.Table // of DeepSea, by kind
	logged   []*chart.Table // the same as bsuite logs it
	deep     []*chart.Figure
	overview *chart.Table
	ranges   *chart.Table    // claims on ranges; nil without one
	why      []*chart.Figure // what the members of agents think
	across   []*chart.Figure
	cost     *chart.Figure
	costs    *chart.Table
	compared *chart.Table
}

// envPart is one environment of a document.
type envPart struct {
	n      int // place in the document
	a      *Analysis
	leader *chart.Table
	versus *chart.Table // nil without a reference
	exact  *chart.Table // nil without a bound on the regret
	lin    *chart.Figure
	loglog *chart.Figure
	reward *chart.Figure
	paid   *chart.Table
	gap    *chart.Figure
	final  *chart.Figure
	tail   *chart.Figure
	tails  *chart.Table
	growth *chart.Figure
	grown  *chart.Table
	sweeps []*chart.Figure
	heats  map[*chart.Figure]*chart.Heat
	powers map[string]*chart.Table // by figure
	also   []recorded
	bounds []Bound
}

// Build writes report.html, figures/ and tables/ into a result directory, each file by a temporary
// name and a rename. The same inputs give the same bytes.
func Build(dir string, opts Options) (Paths, error) {
	run, err := Load(dir)
	if err != nil {
		return Paths{}, err
	}
	return Write(run, dir, opts)
}

// Write is Build for a run already loaded.
func Write(run *Run, dir string, opts Options) (Paths, error) {
	d := compose(run, opts)
	var paths Paths
	var buf bytes.Buffer
	if err := d.writePage(&buf); err != nil {
		return paths, err
	}
	if !opts.NoFigures {
		figures, tables := d.exports()
		if err := os.MkdirAll(filepath.Join(dir, "figures"), 0o777); err != nil {
			return paths, err
		}
		if err := os.MkdirAll(filepath.Join(dir, "tables"), 0o777); err != nil {
			return paths, err
		}
		var err error
		if paths.Figures, err = chart.WriteFigures(filepath.Join(dir, "figures"), figures, d.looks, epoch(run.Manifest),
			chart.Sizes[0], true); err != nil {
			return paths, err
		}
		for _, size := range opts.Sizes {
			more, err := chart.WriteFigures(filepath.Join(dir, "figures", size.Name), figures, d.looks,
				epoch(run.Manifest), size, false)
			if err != nil {
				return paths, err
			}
			paths.Figures = append(paths.Figures, more...)
		}
		for _, t := range tables {
			for _, f := range []struct {
				end   string
				write func(io.Writer) error
			}{{".csv", t.CSV}, {".tex", t.Booktabs}} {
				var b bytes.Buffer
				if err := f.write(&b); err != nil {
					return paths, err
				}
				path := filepath.Join(dir, "tables", t.ID+f.end)
				if err := chart.WriteFile(path, b.Bytes()); err != nil {
					return paths, err
				}
				paths.Tables = append(paths.Tables, path)
			}
		}
		paths.Floats = filepath.Join(dir, floatsFile)
		if err := chart.WriteFile(paths.Floats, floats(figures, tables, d.where())); err != nil {
			return paths, err
		}
	}
	paths.Picture, paths.Looks = d.picture(), d.looks
	if paths.Picture != nil && (opts.Preview || !opts.NoFigures) {
		var b bytes.Buffer
		if err := paths.Picture.WritePreview(&b, d.looks); err != nil {
			return paths, err
		}
		paths.Preview = filepath.Join(dir, filepath.FromSlash(PreviewFile))
		if err := os.MkdirAll(filepath.Dir(paths.Preview), 0o777); err != nil {
			return paths, err
		}
		if err := chart.WriteFile(paths.Preview, b.Bytes()); err != nil {
			return paths, err
		}
	}
	// The page last: its links point at files that exist.
	paths.Page = filepath.Join(dir, "report.html")
	return paths, chart.WriteFile(paths.Page, buf.Bytes())
}

// PreviewFile is the picture of a link to the page, relative to it.
const PreviewFile = "figures/preview.png"

// picture is the figure that stands for the run, on a card and in the preview of a link: episodes until solved, the regret
// against a swept number, or against time; nil where no environment has a replication.
func (d *document) picture() *chart.Figure {
	if len(d.deep) > 0 {
		return d.deep[0]
	}
	for _, e := range d.envs {
		if (swept{e.a}).finding() != nil && len(e.sweeps) > 0 {
			return e.sweeps[0]
		}
	}
	if len(d.envs) > 0 {
		return d.envs[0].lin
	}
	return nil
}

// compose computes everything once.
func compose(run *Run, opts Options) *document {
	m := run.Manifest
	d := &document{run: run, opts: opts}
	d.looks, d.repeats = run.looks()
	for e := range m.Environments {
		d.looks = append(d.looks, chart.EnvironmentRamp(e, len(m.Environments)))
	}
	analyzeAll(run)
	for e := range m.Environments {
		a := Analyze(run, e)
		if a == nil {
			continue
		}
		d.envs = append(d.envs, &envPart{n: len(d.envs), a: a})
	}
	names := map[string]bool{}
	for _, p := range d.envs {
		prefix := ""
		if len(m.Environments) > 1 {
			prefix = slug(p.a.Name)
			for n, base := 2, prefix; names[prefix]; n++ {
				prefix = fmt.Sprintf("%s-%d", base, n)
			}
			names[prefix] = true
			prefix += "-"
		}
		for k, all := range [][]Bound{theoremBounds(run, p.a), opts.Bounds} {
			for _, b := range all {
				if b.asked = k == 1; b.Env == p.a.Name && len(b.Rounds) > 0 {
					p.bounds = append(p.bounds, b)
				}
			}
		}
		p.leader = p.a.Leader(prefix + "leader")
		p.versus = p.a.Versus(prefix + "reference")
		p.exact = p.a.Exact(prefix + "exact")
		p.lin, p.loglog = painter{p.a}.regretFigures(prefix, p.bounds)
		p.reward, p.paid = painter{p.a}.rewardFigure(prefix)
		p.gap = painter{p.a}.gapFigure(prefix)
		p.final = painter{p.a}.finalFigure(prefix)
		p.tail = painter{p.a}.tailFigure(prefix)
		if p.a.R() >= 2 {
			p.tails = p.a.Tails(prefix + "tails")
		}
		if p.growth = (painter{p.a}).growthFigure(prefix); p.growth != nil {
			p.grown = p.a.Growth(prefix + "growth")
		}
		p.sweeps, p.heats = swept{p.a}.sweepFigures(prefix)
		if f := (painter{p.a}).lostFigure(prefix + "lost"); f != nil {
			p.sweeps = append(p.sweeps, f)
		}
		p.also = diagnosed{p.a}.diagnostics(prefix)
		p.powers = swept{p.a}.powers(prefix)
	}
	for _, s := range SolvedBy(run) {
		d.solved, d.logged = append(d.solved, s.Table(&run.Manifest, false)), append(d.logged, s.Table(&run.Manifest, true))
		if f := s.Figure(&run.Manifest); f != nil {
			d.deep = append(d.deep, f)
		}
	}
	for e := range m.Environments {
		if f := run.valuesFigure(e); f != nil {
			d.why = append(d.why, f)
		}
	}
	d.ranges = Ranges(run, "ranges")
	if len(d.envs) > 1 {
		d.overview = overview(run, d.analyses())
		if s, _ := Scores(run); s != nil {
			d.score, d.quote = s.Table(&run.Manifest), s.Quote(s.Rows[0], m.Troupe)
		}
		d.across = append(d.across, acrossFigures(run, d.analyses())...)
	}
	d.cost = costFigure(run)
	d.costs = costTable(run)
	d.compared = compared(run)
	return d
}

// analyzeAll makes the analyses of all environments, as many at a time as there are processors.
func analyzeAll(run *Run) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(run.Envs)) {
		wg.Go(func() {
			for e := int(next.Add(1)) - 1; e < len(run.Envs); e = int(next.Add(1)) - 1 {
				Analyze(run, e)
			}
		})
	}
	wg.Wait()
}

func (d *document) analyses() []*Analysis {
	var all []*Analysis
	for _, e := range d.envs {
		all = append(all, e.a)
	}
	return all
}

// manySizes is how many sizes of a run of DeepSea have files of their own unasked.
const manySizes = 3

// each reports whether the figures and tables of each environment are written: 21 sizes have 800 files, and the page has
// them all.
func (d *document) each() bool { return d.opts.Each || len(d.deep) == 0 || len(d.envs) <= manySizes }

// exports lists all figures and tables.
func (d *document) exports() (figures []*chart.Figure, tables []*chart.Table) {
	add := func(f ...*chart.Figure) {
		for _, x := range f {
			if x != nil {
				figures = append(figures, x)
			}
		}
	}
	add(d.deep...)
	add(d.why...)
	add(d.across...)
	for _, e := range d.envs {
		if !d.each() {
			break
		}
		add(e.lin, e.loglog, e.reward, e.gap, e.final, e.tail, e.growth)
		add(e.sweeps...)
		tables = append(tables, e.leader, e.paid)
		if e.versus != nil {
			tables = append(tables, e.versus)
		}
		if e.exact != nil {
			tables = append(tables, e.exact)
		}
		if e.tails != nil {
			tables = append(tables, e.tails)
		}
		if e.grown != nil {
			tables = append(tables, e.grown)
		}
		for _, r := range e.also {
			add(r.figure)
			tables = append(tables, r.table)
		}
		for _, f := range e.sweeps {
			if h := e.heats[f]; h != nil {
				tables = append(tables, h.Table())
			}
			if t := e.powers[f.ID]; t != nil {
				tables = append(tables, t)
			}
		}
	}
	add(d.cost)
	tables = append(tables, d.costs, d.compared)
	if d.score != nil {
		tables = append(tables, d.score)
	}
	tables = append(tables, d.solved...)
	tables = append(tables, d.logged...)
	if d.ranges != nil {
		tables = append(tables, d.ranges)
	}
	if d.overview != nil {
		tables = append(tables, d.overview)
	}
	return figures, tables
}

// where returns the environment of each figure that shows one of several.
func (d *document) where() map[*chart.Figure]string {
	if len(d.envs) < 2 {
		return nil
	}
	out := map[*chart.Figure]string{}
	for _, e := range d.envs {
		for _, f := range append([]*chart.Figure{e.lin, e.loglog, e.reward, e.gap, e.final, e.tail, e.growth},
			e.sweeps...) {
			out[f] = e.a.Name
		}
		for _, r := range e.also {
			out[r.figure] = e.a.Name
		}
	}
	return out
}

// boundNotes says each bound in words: a bound above 2T says nothing.
func (e *envPart) boundNotes() []string {
	var out []string
	for _, b := range e.bounds {
		v, all := b.Final(), 2*float64(e.a.T)
		s := upperFirst(b.Name)
		if !b.asked {
			s += " (" + b.Label + ")"
		}
		s += ": " + chart.Amount(v, e.a.Dec) + " at T"
		if v > all {
			s += fmt.Sprintf(", larger than losing every round (2T = %s): it says nothing here", chart.Amount(all, 0))
		}
		if top := e.loglog; top != nil && v > top.Panels[0].Y.Hi {
			s += fmt.Sprintf("; off the log–log chart by 10%s", chart.Superscript(powerAbove(v/top.Panels[0].Y.Hi)))
		}
		out = append(out, s+".")
	}
	return out
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

func powerAbove(ratio float64) int {
	n := 0
	for ratio > 1 {
		ratio /= 10
		n++
	}
	return n
}

// slug makes a file name of a name: Latin letters, digits, dot and hyphen.
func slug(s string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(chart.Latin(s)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.':
			b.WriteRune(c)
		default:
			if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
				b.WriteByte('-')
			}
		}
	}
	if out := strings.Trim(b.String(), "-."); out != "" {
		return out
	}
	return "environment"
}

// epoch is the time that PDF files carry: the start of the run, or 1 January 1970.
func epoch(m sim.Manifest) time.Time {
	t, err := time.Parse(time.RFC3339, m.Started)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return t.UTC()
}
