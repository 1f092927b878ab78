package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/sim"
)

//go:embed page/gallery.html
var galleryFile embed.FS

var galleryTemplate = parsed(galleryFile, "gallery.html")

// GalleryEntry is a run of a gallery.
type GalleryEntry struct {
	Run      *Run
	Page     string // its page, relative to the index
	Compared []GalleryPair
	// Difficulty is the page with its score by kind of difficulty, "" for none.
	Difficulty string
}

// GalleryPair is a page that compares a run with another one of the same experiment.
type GalleryPair struct {
	Many    bool   // all runs of the experiment, which With says in words
	With    string // the other run, in words
	Page    string
	Verdict string
}

// GalleryMeta is what the index says of itself.
type GalleryMeta struct {
	Title   string
	Command string
	Left    []string // what was left out, and why
}

// galleryRun is a run on the index.
type galleryRun struct {
	Name, Page, Class, Facts, Score string
	Difficulty                      string
	Claims                          []Prose
	Verdict                         Prose
	Compared                        []GalleryPair
}

// galleryList is a filter of the index.
type galleryList struct {
	Name, ID, prefix string
	Options          []galleryOption
}

type galleryOption struct{ Value, Text string }

// WriteGallery writes the index of a gallery: for each run its verdict, what it is, and a link to its page, with
// filters by kind of policy, kind of environment and group of experiments. The page needs no script and loads nothing.
// Names from files are escaped. The cost is that of the analyses of all runs.
func WriteGallery(w io.Writer, entries []GalleryEntry, meta GalleryMeta) error {
	lists := []*galleryList{{Name: "Policy", ID: "by-policy", prefix: "p"}, {Name: "Environment", ID: "by-environment",
		prefix: "e"}, {Name: "Group", ID: "by-group", prefix: "g"}}
	view := struct {
		shell
		Head    string
		Left    []string
		Lists   []*galleryList
		Filter  template.CSS
		Runs    []galleryRun
		Command string
	}{shell: newShell(cmp.Or(meta.Title, "gallery"), nil, 0, 0), Left: meta.Left, Command: meta.Command}
	view.Title = cmp.Or(meta.Title, "gallery")
	view.Head = many(len(entries), "run") + " of experiments with their verdicts"
	for _, e := range entries {
		m := &e.Run.Manifest
		r := galleryRun{Name: cmp.Or(m.Experiment, "experiment"), Page: e.Page, Facts: galleryFacts(m),
			Compared: e.Compared, Difficulty: e.Difficulty, Claims: ClaimsSaid(e.Run)}
		r.Verdict, r.Score = e.Run.verdict()
		var classes []string
		for _, p := range m.Policies {
			classes = append(classes, lists[0].class(p.Kind))
		}
		for _, x := range m.Environments {
			classes = append(classes, lists[1].class(x.Kind))
		}
		if group, _, ok := strings.Cut(m.Experiment, "/"); ok {
			classes = append(classes, lists[2].class(group))
		}
		slices.Sort(classes)
		r.Class = strings.Join(slices.Compact(classes), " ")
		view.Runs = append(view.Runs, r)
	}
	var rules strings.Builder
	for _, l := range lists {
		if len(l.Options) < 2 {
			continue
		}
		for _, o := range l.Options { // values are ours: a letter and a number
			fmt.Fprintf(&rules, "body:has(#%s option[value=%s]:checked) .run:not(.%s){display:none}\n", l.ID, o.Value,
				o.Value)
		}
		slices.SortFunc(l.Options, func(a, b galleryOption) int { return cmp.Compare(a.Text, b.Text) })
		view.Lists = append(view.Lists, l)
	}
	view.Filter = template.CSS(rules.String())
	return galleryTemplate().Execute(w, view)
}

// class is the class of a value, which becomes one of the filter's.
func (l *galleryList) class(text string) string {
	i := slices.IndexFunc(l.Options, func(o galleryOption) bool { return o.Text == text })
	if i < 0 {
		i = len(l.Options)
		l.Options = append(l.Options, galleryOption{fmt.Sprintf("%s%d", l.prefix, i), text})
	}
	return l.Options[i].Value
}

// verdict is the headline of a run, and for a suite which policies may be first.
func (run *Run) verdict() (head Prose, score string) {
	var all []*Analysis
	for e := range run.Envs {
		if a := Analyze(run, e); a != nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return say("No replication is complete in all policies."), ""
	}
	head, _ = Headline(all)
	if s, _ := Scores(run); s != nil && len(s.Rows) > 0 && s.Rows[0].OK {
		var first []string
		for _, r := range s.Rows {
			if r.First {
				first = append(first, r.Policy)
			}
		}
		score = fmt.Sprintf("suite/%s %s: highest score %.3f, %s; may be first: %s.", s.Suite, s.Hash, s.Rows[0].Mean,
			s.Rows[0].Policy, strings.Join(first, ", "))
	}
	return head, score
}

// galleryFacts is the line of numbers of a run.
func galleryFacts(m *sim.Manifest) string {
	rounds := "rounds"
	if m.Episodic {
		rounds = "episodes"
	}
	facts := []string{many(len(m.Environments), "environment"), chart.Count(len(m.Policies)) + " " +
		plural(len(m.Policies), "policy", "policies"),
		fmt.Sprintf("%s %s", horizons(m), rounds), many(m.Replications, "replication"),
		fmt.Sprintf("seed %d", m.Seed), when(m.Started), fmt.Sprintf("troupe %s, engine %d", m.Troupe, m.Engine)}
	if m.Status != sim.Complete {
		facts = append(facts, fmt.Sprintf("%s: %s of %s cells", m.Status, chart.Count(m.Done), chart.Count(m.Cells)))
	}
	return strings.Join(slices.DeleteFunc(facts, func(s string) bool { return s == "" }), " · ")
}
