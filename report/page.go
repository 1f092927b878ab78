package report

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/sim"
)

//go:embed page/shell.html page/page.html page/sheet.html page/style.css page/page.js
var pageFiles embed.FS

var pageTemplate = parsed(pageFiles, "page.html")

// parsed returns a function that parses a page, the shell and its parts on first use: most commands show none.
func parsed(files embed.FS, name string, parts ...string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		names := []string{"page/" + name}
		for _, part := range parts {
			names = append(names, "page/"+part)
		}
		t := template.Must(template.New(name).ParseFS(pageFiles, "page/shell.html"))
		return template.Must(t.ParseFS(files, names...))
	})
}

// shell is what every page of ours has: title, palette, styles, script.
type shell struct {
	Title  string
	About  string // what a link to the page shows
	Image  string // of such a link, a file beside the page; "" for none
	When   string
	Style  template.CSS
	Script template.JS
}

// newShell returns the shell with the looks' colours and the switches that belong to them. Colours
// are ours (#rrggbb); nothing from a file reaches the style sheet.
func newShell(title string, looks []chart.Look, policies, envs int) shell {
	style, err := pageFiles.ReadFile("page/style.css")
	if err != nil {
		panic("report: " + err.Error())
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		panic("report: " + err.Error())
	}
	var b strings.Builder
	b.WriteString(":root{")
	for _, v := range []struct {
		name string
		c    [2]string
	}{{"paper", chart.PaperColor}, {"card", chart.CardColor}, {"ink", chart.InkColor}, {"soft", chart.SoftColor},
		{"rule", chart.LineColor},
		{"grid", chart.GridColor}, {"wash", chart.WashColor}, {"link", chart.LinkColor},
		{"good", [2]string{"#1f7a4d", "#3ecf8e"}}, {"bad", [2]string{"#b3471d", "#ff9d73"}},
		{"ramp", [2]string{chart.Blues[1].Light, chart.Blues[1].Dark}}} {
		fmt.Fprintf(&b, "--%s:light-dark(%s,%s);", v.name, v.c[0], v.c[1])
	}
	b.WriteString("}\n")
	b.Write(style)
	for i, l := range looks {
		fmt.Fprintf(&b, ".p%d{--c:light-dark(%s,%s)}", i, l.Light, l.Dark)
		if l.Dash != nil {
			fmt.Fprintf(&b, ".line.p%d{stroke-dasharray:%s}", i, dashes(l.Dash))
		}
		if i < policies {
			fmt.Fprintf(&b, "body:has(#s%d:not(:checked)) :is(path,.end).p%d{display:none}", i, i)
			fmt.Fprintf(&b, "body:has(#s%d:not(:checked)) :is(tr,.lab,figure).p%d{opacity:.35}", i, i)
		}
		b.WriteByte('\n')
	}
	if envs > 1 {
		// On paper, and in browsers without :has(), every environment is shown.
		b.WriteString("@media screen{")
		for e := range envs {
			fmt.Fprintf(&b, "body:has(#e%d:checked) .env:not(.e%d){display:none}", e, e)
		}
		b.WriteString("}\n")
	}
	return shell{Title: title, Style: template.CSS(b.String()), Script: template.JS(script)}
}

func dashes(d []float64) string {
	s := make([]string, len(d))
	for i, v := range d {
		s[i] = chart.Coord(v)
	}
	return strings.Join(s, " ")
}

// page is the view of a run.
type page struct {
	shell
	Experiment string
	Hypothesis []string      // its paragraphs
	Claims     []Prose       // of the spec, with their answers
	Ranges     template.HTML // table of the claims on ranges
	RangesNote string
	Noun       string // what is compared: Mean regret
	Together   string // for what the marks of the overview hold together
	Answer
	Each     []*envView // verdict of each of a few environments
	Facts    []fact
	Chips    []chip
	Alone    bool // one policy: nothing is compared
	Crowded  bool // many policies: the bar scrolls
	Repeats  bool
	Deep     bool          // a run of DeepSea: the regret of each size is folded
	Heat     template.HTML // of many environments: who loses more where
	Score    template.HTML // the scores of a suite
	Quote    string        // the line of the best
	Solved   []solvedView  // the table of each kind
	Logged   []solvedView  // the same as bsuite logs it
	Overview bool          // there is tables/overview.csv
	Marks    string        // what the marks of the overview mean
	First    []*figureView // figures that are the answer: episodes until solved
	Why      []*figureView // figures that explain it: what the members think
	Across   []*figureView // figures over several environments
	Envs     []*envView
	Compared template.HTML
	Cost     *figureView
	How      []string
	Manifest [][2]string
	Notes    []string
	Command  string
	Spec     string
	Cite     string // BibTeX
	Recorded bool   // there is a diagnostics.csv
}

// solvedView is a table of the episodes until DeepSea was solved.
type solvedView struct {
	ID, Title string
	Table     template.HTML
	Note      string
}

type fact struct{ Bold, Text string }

type chip struct {
	N      int
	Name   string
	Short  string
	Class  string
	Dashed string
}

// envView is one environment's part of the page.
type envView struct {
	Files  bool // its figures and tables are in figures/ and tables/
	N      int
	Name   string
	Single bool // the only environment: its verdict is the page's headline
	Suffix string
	Answer
	Facts  []string
	Data   template.JS
	Own    []leaderHead // columns of the leader table before the drawn difference
	Rivals []leaderHead // and behind it
	Rows   []leaderRow
	Alone  bool // one policy: nothing is compared
	// Undecided: there are too few replications for intervals and verdicts.
	Undecided bool
	Forest    string
	Ticks     []placed
	Note      string
	Table     string // file name of the leader table
	Versus    template.HTML
	Exact     template.HTML
	Lin       *figureView
	Top       string // of the linear axis
	LogFrom   string // start of the log axis
	Log       *figureView
	Reward    *figureView
	Metric    string // "Reward per round", "Accuracy"
	Bounds    []string
	Gap       *figureView
	Final     *figureView
	Tail      *figureView
	Tails     template.HTML
	TailCSV   string
	Growth    *figureView
	Sweeps    []*figureView
	Also      []*figureView
}

// H returns a heading at the level that follows the page's outline, styled as a section title.
func (e *envView) H(id, text string) template.HTML {
	level := 3
	if e.Single {
		level = 2
	}
	return template.HTML(fmt.Sprintf(`<h%d class="t" id="%s%s">%s</h%d>`, level, id, e.Suffix,
		template.HTMLEscapeString(text), level))
}

// Against is the heading of the figures over time: of regret, or of the reward where the reader chose it.
func (e *envView) Against(regret string) template.HTML {
	level := 3
	if e.Single {
		level = 2
	}
	return template.HTML(fmt.Sprintf(`<h%d class="t" id="regret%s"><span class="not-rew">%s</span><span class="rew">%s</span></h%d>`,
		level, e.Suffix, template.HTMLEscapeString(regret), template.HTMLEscapeString(e.Reward.Title), level))
}

type placed struct {
	Style template.CSS
	Label string
}

// leaderHead is the heading of a column of the leader table on the page.
type leaderHead struct{ Class, Text string }

// leaderCell is a cell under it.
type leaderCell struct{ Class, Title, Text string }

type leaderRow struct {
	Class, Name, Full string
	Own, Rivals       []leaderCell // before the drawn difference and behind it
	Forest            template.HTML
	Mark, Verdict     string
	shown             map[string]string // texts of the cells, by key
}

// Cell is the text of a column.
func (r leaderRow) Cell(key string) string { return r.shown[key] }

type figureView struct {
	ID    string
	Title string
	How   string
	Body  template.HTML
	After template.HTML
	Files bool // it is in figures/, too
}

// Links lead to the files of the figure; nothing where it has none.
func (v *figureView) Links() template.HTML {
	if !v.Files {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<p class="small dl">`)
	for i, end := range []string{"svg", "pdf", "png", "pgf", "csv"} {
		if i > 0 {
			b.WriteString(" · ")
		}
		fmt.Fprintf(&b, `<a href="figures/%s.%s">%s</a>`, template.HTMLEscapeString(v.ID), end, strings.ToUpper(end))
	}
	b.WriteString("</p>")
	return template.HTML(b.String())
}

func view(f *chart.Figure, files bool) *figureView {
	if f == nil {
		return nil
	}
	return &figureView{ID: f.ID, Title: f.Title, How: f.How, Body: f.HTML(), Files: files}
}

// writePage renders a document.
func (d *document) writePage(w io.Writer) error {
	m := d.run.Manifest
	names := make([]string, len(d.looks))
	for i := range names {
		names[i] = chart.ClassOf(i)
	}
	title := m.Experiment
	if title == "" {
		title = "experiment"
	}
	p := &page{
		shell:      newShell(title+" · troupe", d.looks, len(m.Policies), len(d.envs)),
		Experiment: title,
		Repeats:    d.repeats,
		Command:    m.Command,
		Spec:       m.Spec,
		Notes:      m.Notes,
		Manifest:   manifestRows(m),
		Recorded:   len(m.Record) > 0,
		Cite:       citation(m.Troupe, m.Commit, yearOf(m.Started)),
	}
	p.When = when(m.Started)
	p.Hypothesis, p.Claims = paragraphs(m.Hypothesis), ClaimsSaid(d.run)
	if d.ranges != nil {
		p.Ranges, p.RangesNote = d.ranges.HTML(names), d.ranges.Note
	}
	p.Noun = upperFirst(nounOf(d.run.estimand()))
	p.Answer = d.run.Answer()
	p.Title, p.About = p.Head.String(), p.Lead.String()
	if d.picture() != nil {
		p.Image = PreviewFile
	}
	p.Facts = d.facts()
	for i, pol := range m.Policies {
		p.Chips = append(p.Chips, chip{N: i, Name: pol.Name, Short: chart.Shorten(pol.Name, chart.NameWidth),
			Class: chart.ClassOf(i)})
	}
	p.Crowded, p.Alone = len(p.Chips) > 10, len(p.Chips) == 1
	if d.score != nil {
		p.Score, p.Quote = d.score.HTML(names), d.quote
	}
	if d.overview != nil {
		p.Overview = true
		p.Marks, p.Together = strings.Join(marks(d.analyses()), ", "), "all pairs of all environments"
		if d.envs[0].a.Sequential() {
			p.Together = "all pairs of an environment"
		}
	}
	for _, t := range d.solved {
		p.Solved = append(p.Solved, solvedView{t.ID, t.Title, t.HTML(names), t.Note})
	}
	for _, t := range d.logged {
		p.Logged = append(p.Logged, solvedView{t.ID, t.Title, t.HTML(names), t.Note})
	}
	p.Deep = p.Solved != nil
	for _, f := range d.deep {
		p.First = append(p.First, view(f, true))
	}
	for _, f := range d.why {
		p.Why = append(p.Why, view(f, true))
	}
	for _, f := range d.across {
		p.Across = append(p.Across, view(f, true))
	}
	if !p.Deep {
		p.Heat = standings(d.run, d.analyses())
	}
	p.Cost = view(d.cost, true)
	p.Compared = under(d.compared, names, true)
	for _, e := range d.envs {
		v, err := e.view(names, len(d.envs) == 1, d.each())
		if err != nil {
			return err
		}
		p.Envs = append(p.Envs, v)
	}
	if n := len(p.Envs); n > 1 && n <= 6 {
		p.Each = p.Envs
	}
	p.How = d.how()
	return pageTemplate().Execute(w, p)
}

func (e *envPart) view(names []string, single, files bool) (*envView, error) {
	a := e.a
	v := &envView{Files: files, N: e.n, Name: a.Name, Single: single, Facts: environmentFacts(a.Run.Manifest.Environments[a.Env])}
	if !single {
		v.Suffix = fmt.Sprintf("-%d", e.n)
	}
	v.Answer = a.Answer()
	ax := leaderTable{a}.forest()
	for _, t := range ax.Ticks {
		v.Ticks = append(v.Ticks, placed{template.CSS("left:" + chart.PercentOf(ax.At(t.At))), t.Label})
	}
	t := e.leader
	v.Note, v.Table, v.Forest = t.Note, t.ID, "Difference in "+shortOf(a.Estimand)
	if e.versus != nil {
		v.Versus = under(e.versus, names, files)
	}
	if e.exact != nil {
		v.Exact = under(e.exact, names, files)
	}
	e.leaders(v, ax)
	v.Alone = len(a.Policies) == 1
	v.Lin, v.Log, v.Reward = view(e.lin, files), view(e.loglog, files), view(e.reward, files)
	v.Reward.After = under(e.paid, names, files)
	v.Metric, _ = painter{a}.rewardName()
	if e.loglog != nil {
		v.LogFrom = strconv.FormatFloat(e.loglog.Panels[0].X.Lo, 'g', -1, 64)
	}
	v.Top = strconv.FormatFloat(e.lin.Panels[0].Y.Hi, 'g', -1, 64)
	v.Gap, v.Final, v.Tail, v.Growth = view(e.gap, files), view(e.final, files), view(e.tail, files), view(e.growth, files)
	for _, f := range e.sweeps {
		s := view(f, files)
		if h := e.heats[f]; h != nil {
			s.After = h.HTML()
		}
		if t := e.powers[f.ID]; t != nil {
			s.After += under(t, names, files)
		}
		v.Sweeps = append(v.Sweeps, s)
	}
	for _, r := range e.also {
		f := view(r.figure, files)
		f.After = under(r.table, names, files)
		v.Also = append(v.Also, f)
	}
	if e.tails != nil {
		v.Tails, v.TailCSV = e.tails.HTML(names), e.tails.ID
	}
	v.Bounds = e.boundNotes()
	data, err := e.readout()
	if err != nil {
		return nil, err
	}
	v.Data = template.JS(data)
	return v, nil
}

// leaders paints the leader table: its columns that have a heading for the page, those that compare behind the drawn
// difference.
func (e *envPart) leaders(v *envView, ax chart.Axis) {
	a := e.a
	columns := slices.DeleteFunc(leaderTable{a}.leaderColumns(), func(c leaderColumn) bool { return c.page.head == "" || e.empty(c.Key) })
	v.Undecided = a.R() < a.Estimand.Least() && a.Compared() > 1
	for _, c := range columns {
		class := ""
		if c.page.joins {
			class = "pm"
		}
		to := &v.Own
		if c.rivals {
			to = &v.Rivals
		}
		*to = append(*to, leaderHead{class, c.page.head})
	}
	for r, i := range a.Order {
		d := a.Pairs.Diff[i]
		row := leaderRow{Class: chart.ClassOf(a.Policies[i]), Name: chart.Shorten(a.Label(i), 40), Full: a.Label(i),
			Mark: d.Verdict.mark(), Verdict: a.Word(i),
			Forest: chart.ForestCell(ax, chart.Estimate{Mean: d.Mean, Lo: d.Lo, Hi: d.Hi, OK: d.OK}, a.Policies[i],
				i == a.Best()), shown: map[string]string{}}
		if (leaderTable{a}).leads(i) {
			row.Class += " best"
		}
		if (leaderTable{a}).separable(i) {
			row.Full += fmt.Sprintf(": about %s replications would separate it", about(d.Need))
		}
		for _, c := range columns {
			cell := leaderCell{Class: c.page.classes(), Text: e.leader.Show(r, c.Key)}
			if c.page.text != nil {
				cell.Text = c.page.text(i, cell.Text)
			}
			if c.page.tip != nil {
				cell.Title = c.page.tip(i)
			}
			row.shown[c.Key] = cell.Text
			to := &row.Own
			if c.rivals {
				to = &row.Rivals
			}
			*to = append(*to, cell)
		}
		v.Rows = append(v.Rows, row)
	}
}

// empty reports whether a column of the leader table has no cell.
func (e *envPart) empty(key string) bool {
	for r := range e.a.Order {
		if e.leader.Show(r, key) != "" {
			return false
		}
	}
	return true
}

// separable reports whether more replications would tell policy i from the first one, and not too many.
func (lt leaderTable) separable(i int) bool {
	d := &lt.a.Pairs.Diff[i]
	return i != lt.a.Best() && d.Verdict == Tied && d.Need > lt.a.R() && d.Need <= tooMany*lt.a.R()
}

// intervalText is the interval of a difference on the page, where the other tables have a column for each end.
func (lt leaderTable) intervalText(i int, _ string) string {
	d := &lt.a.Pairs.Diff[i]
	text := "–"
	switch {
	case i == lt.a.Best():
		return "reference"
	case d.OK:
		text = lt.a.plain(d.Lo) + " to " + lt.a.plain(d.Hi)
	}
	if lt.separable(i) {
		text += " "
	}
	return text
}

// plain writes an end of an interval of the estimand.
func (a *Analysis) plain(v float64) string {
	switch {
	case a.Estimand != infer.ShareLost:
		return chart.Number(v, a.Dec)
	case v < 0:
		return chart.Minus + chart.Percent(-v)
	}
	return chart.Percent(v)
}

// under returns a table for its place below a figure, with its note and, where it has them, its files.
func under(t *chart.Table, names []string, files bool) template.HTML {
	title, id := template.HTMLEscapeString(t.Title), template.HTMLEscapeString(t.ID)
	links := ""
	if files {
		links = fmt.Sprintf(` <a href="tables/%s.csv">CSV</a> · <a href="tables/%s.tex">LaTeX</a>`, id, id)
	}
	return template.HTML(fmt.Sprintf(`<div class="scroll" tabindex="0" role="region" aria-label="%s">%s</div><p class="small">%s%s</p>`,
		title, t.HTML(names), template.HTMLEscapeString(t.Note), links))
}

// readout is what the script shows at a checkpoint: mean, half width of the 95 % interval, 10 and
// 90 % points, rounded as they are shown.
func (e *envPart) readout() ([]byte, error) {
	a := e.a
	type series struct {
		I int       `json:"i"`
		N string    `json:"n"`
		M []float64 `json:"m"`
		E []float64 `json:"e"`
		L []float64 `json:"l"`
		H []float64 `json:"h"`
	}
	out := struct {
		T   []int    `json:"t"`
		Dec int      `json:"d"`
		P   []series `json:"p"`
	}{T: a.Rounds, Dec: a.Dec}
	for i, m := range a.Policies {
		mean, half := painter{a}.curve(i)
		lo, hi := painter{a}.tenths(i)
		s := series{I: m, N: a.Label(i)}
		for k := range mean {
			s.M, s.E = append(s.M, shown(mean[k], a.Dec)), append(s.E, shown(half[k], a.Dec))
			s.L, s.H = append(s.L, shown(lo[k], a.Dec)), append(s.H, shown(hi[k], a.Dec))
		}
		out.P = append(out.P, s)
	}
	return json.Marshal(out)
}

// shown rounds a number to the digits that amount writes.
func shown(v float64, dec int) float64 {
	if math.Abs(v) >= 1000 {
		dec = 0
	}
	p := math.Pow(10, float64(dec))
	return math.Round(v*p) / p
}

// when writes an RFC 3339 time for people; what cannot be read is left out.
func when(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return ""
	}
	return t.UTC().Format("2 Jan 2006, 15:04") + " UTC"
}

// facts are at most four.
func (d *document) facts() []fact {
	m := d.run.Manifest
	policies := fact{chart.Count(len(m.Policies)), plural(len(m.Policies), "policy", "policies")}
	switch values, tuned := d.run.Values(); {
	case values == "":
	case tuned:
		policies.Text += ", tuned values"
	default:
		policies.Text += ", textbook values"
	}
	f := []fact{policies}
	if len(m.Environments) > 1 {
		kind := "environments"
		if d.solved != nil {
			kind = "sizes"
		}
		f = append(f, fact{chart.Count(len(m.Environments)), kind})
	}
	f = append(f, fact{chart.Count(m.Replications), plural(m.Replications, "replication", "replications") + " of " + horizons(&m) + " " +
		m.Unit() + "s"})
	switch {
	case m.Status == "interrupted":
		f = append(f, fact{"interrupted", fmt.Sprintf("after %s of %s cells", chart.Count(m.Done), chart.Count(m.Cells))})
	case len(m.Environments) == 1:
		if facts := environmentFacts(m.Environments[0]); facts != nil {
			f = append(f, fact{"", strings.Join(facts, ", ")})
		}
	}
	return append(f, fact{"", fmt.Sprintf("seed %d", m.Seed)})
}

// horizons writes the horizon of a run, or the smallest and the largest of its environments.
func horizons(m *sim.Manifest) string {
	least := m.Horizon
	for _, e := range m.Environments {
		if e.Horizon > 0 {
			least = min(least, e.Horizon)
		}
	}
	if least == m.Horizon {
		return chart.Count(m.Horizon)
	}
	return chart.Count(least) + " to " + chart.Count(m.Horizon)
}

// every writes all of a number of things: the only replication, both replications, all 40 replications.
func every(n int, thing string) string {
	switch n {
	case 1:
		return "the only " + thing
	case 2:
		return "both " + thing + "s"
	}
	return "all " + many(n, thing)
}

// many writes a number of things: 1 replication, 40 replications.
func many(n int, thing string) string { return chart.Count(n) + " " + plural(n, thing, thing+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func manifestRows(m sim.Manifest) [][2]string {
	commit := m.Commit
	if commit == "" {
		commit = "not recorded (go run does not; go build does)"
	}
	if m.Dirty {
		commit += " with uncommitted changes"
	}
	rows := [][2]string{
		{"Version", m.Troupe}, {"Commit", commit}, {"Build ID", m.Build},
		{"Go", strings.TrimSpace(m.Go + " " + m.OS + "/" + m.Arch)},
		{"Machine", fmt.Sprintf("%d CPUs, %d %s", m.CPUs, m.Workers, plural(m.Workers, "worker", "workers"))},
		{"Started", m.Started}, {"Duration", chart.Number(m.Seconds, 1) + chart.Narrow + "s"},
		{"Seed", fmt.Sprint(m.Seed)},
		{"Cells", fmt.Sprintf("%s of %s, %s", chart.Count(m.Done), chart.Count(m.Cells), m.Status)},
		{"Spec SHA-256", m.SpecSHA256}, {"Results SHA-256", m.ResultsSHA},
	}
	return slices.DeleteFunc(rows, func(r [2]string) bool { return strings.TrimSpace(r[1]) == "" })
}

// in names the environment of a number where there are several.
func (d *document) in(e *envPart) string {
	if len(d.envs) == 1 {
		return ""
	}
	return " (" + e.a.Name + ")"
}

// how says how the numbers were made; every number in it comes from the analyses.
func (d *document) how() []string {
	out := []string{
		"Regret is the pseudo-regret: the expected reward of the best action minus that of the action played, added " +
			"up. No policy ever sees it.",
	}
	if len(d.run.Manifest.Policies) > 1 && !d.run.apart {
		out = append(out, "Every policy meets the same instances and the same noise (common random numbers), so "+
			"differences are taken replication by replication.")
	}
	if text := meaning(d.run.estimand()); text != "" {
		out = append(out, text)
	}
	var factors, pairing []string
	for _, e := range d.envs {
		if e.a.Pairs.OK {
			factors = append(factors, fmt.Sprintf("%s at T and %s over all drawn times", chart.Number(e.a.Pairs.Factor, 2),
				chart.Number(e.a.Band.Factor, 2))+d.in(e))
		}
		if e.a.Pairs.Saved > 0 {
			pairing = append(pairing, "×"+chart.Number(e.a.Pairs.Saved, 2)+d.in(e))
		}
	}
	together := "all pairs of policies"
	if len(d.envs) > 0 {
		together = leaderTable{d.envs[0].a}.pairsOf()
	}
	s := fmt.Sprintf("Intervals of differences hold together for %s: %s times the replications "+
		"are drawn with replacement, whole rows at a time; the largest studentised deviation over all pairs is below "+
		"the factor in 95%% of the draws; an interval is the difference ± factor × its standard error.",
		together, chart.Count(resamples))
	if n := len(factors); n > 0 {
		s += " The factor is " + strings.Join(factors[:min(n, 6)], "; ")
		if n > 6 {
			s += fmt.Sprintf("; and %d more", n-6)
		}
		s += "."
	}
	switch d.run.estimand() {
	case infer.Median:
		s = fmt.Sprintf("Intervals of differences hold together for %s: %s times the replications are drawn with replacement, "+
			"whole rows at a time; an interval is the difference of the medians ± a factor times the spread that it has in the "+
			"draws, and in 95%% of them no pair is further off.", together, chart.Count(resamples))
	case infer.ShareLost:
		s = fmt.Sprintf("Intervals of differences hold together for %s and for every law, by betting (Waudby-Smith and Ramdas "+
			"2024), the error of 5%% shared evenly.", together)
	}
	if len(d.run.Manifest.Policies) > 1 {
		out = append(out, s)
	}
	if n := len(pairing); n > 0 {
		out = append(out, "Pairing saved "+strings.Join(pairing[:min(n, 6)],
			", ")+" replications (median over the rivals): the variance two independent samples would have, divided "+
			"by the variance of the paired difference.")
	}
	out = append(out,
		endOfMethod,
		"Bands around the curves of regret are pointwise: 95% for the mean at each time (± 1.96 "+
			"standard errors), not for the whole curve. “Behind” carries an exact Clopper–Pearson interval, "+
			"corrected for the number of pairs, quantiles carry exact order-statistic intervals; a sign or a rank "+
			"does not care about tails.",
		fmt.Sprintf("The resampling uses the run's seed, so the same files give the same page, byte for byte. "+
			"Exponents: %s resamples of replications, refitted each time.", chart.Count(growthB)))
	return out
}

// coverage is what docs/record/inference.md measured.
const coverage = "In 1000 made-up runs each at 20, 50, 100 and 200 replications of five policies some interval missed in at " +
	"most 5.4% of the runs, for the mean, the median, the worst 5% and the share of " +
	"lost runs, with light and with heavy tails. The exception is a mean with rare losses: where one run in 50 loses ten times " +
	"as much, 31, 12, 17 and 6% missed. Fix the estimand “median”, “cvar-5” or “lost” before such a run; " +
	"the verdict names the loss that would reverse a margin."

// endOfMethod says where the simultaneous intervals stop being trustworthy. The figures are those
// of TestCoverage and TestWhereTheMethodEnds in internal/stats.
const endOfMethod = coverage + " How far this can be trusted: with the final regrets of a heavy-tailed run as the population, " +
	"all intervals covered at once in 93 to 95%" +
	" of trials at 30, 100 and 200 replications (single intervals of ±1.96 standard errors: 40 to 58%" +
	"). Where it ends: what is not among the replications is not among the resamples. With failures in 3 to 6%" +
	" of replications, coverage was 86% at 30 replications and 95%" +
	" at 200; with losses of infinite variance it was 47%" +
	". There read the medians and the tail, and run more replications."
