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
	"troupe/report/headline"
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
	Picture    *chart.Figure // of its card, nil for none; Write returns it
	Looks      []chart.Look  // of the marks of Picture
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
	Image   string   // of the preview of a link, a file beside the index; "" for none
	Left    []string // what was left out, and why
}

// galleryRun is a run on the index.
type galleryRun struct {
	Name, Page, Class, Score string
	Facts                    []fact // bold where runs of one name differ
	Picture                  template.HTML
	Shows                    string // what the picture shows
	Difficulty               string
	Claims                   []Prose
	Verdict                  Prose
	Compared                 []GalleryPair
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
	view.Head = cmp.Or(meta.Title, headline.Gallery(len(entries)).String())
	view.Title, view.Image = view.Head, meta.Image
	view.About = "Experiments with their answers and figures. Each page was made from the numbers of its run."
	for _, e := range entries {
		m := &e.Run.Manifest
		r := galleryRun{Name: cmp.Or(m.Experiment, "experiment"), Page: e.Page, Facts: galleryFacts(m, entries),
			Compared: e.Compared, Difficulty: e.Difficulty, Claims: ClaimsSaid(e.Run)}
		if len(r.Claims) > 0 {
			r.Claims = r.Claims[:1] // the headline; the others are on the page
		}
		r.Verdict = e.Run.Answer().Head
		if f := e.Picture; f != nil {
			r.Picture, r.Shows = f.Thumbnail(e.Looks), strings.ToLower(f.Title)
		}
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

// factsLine is the line of numbers of a run.
func factsLine(m *sim.Manifest) string {
	return fmt.Sprintf("%s, %s of %s %ss, seed %d, %s", many(len(m.Environments), "environment"), many(m.Replications, "replication"),
		horizons(m), m.Unit(), m.Seed, when(m.Started))
}

// galleryFacts are the numbers of a run, those in bold in which runs of its name differ.
func galleryFacts(m *sim.Manifest, entries []GalleryEntry) []fact {
	differ := func(of func(x *sim.Manifest) string) bool {
		return slices.ContainsFunc(entries, func(e GalleryEntry) bool {
			return e.Run.Manifest.Experiment == m.Experiment && of(&e.Run.Manifest) != of(m)
		})
	}
	var facts []fact
	add := func(always bool, of func(x *sim.Manifest) string) {
		switch {
		case differ(of):
			facts = append(facts, fact{Bold: of(m)})
		case always:
			facts = append(facts, fact{Text: of(m)})
		}
	}
	add(len(m.Environments) > 1, func(x *sim.Manifest) string { return many(len(x.Environments), "environment") })
	add(true, func(x *sim.Manifest) string {
		return chart.Count(len(x.Policies)) + " " + plural(len(x.Policies), "policy", "policies")
	})
	add(true, func(x *sim.Manifest) string { return many(x.Replications, "replication") })
	add(true, func(x *sim.Manifest) string { return horizons(x) + " " + x.Unit() + "s" })
	add(false, func(x *sim.Manifest) string { return fmt.Sprintf("seed %d", x.Seed) })
	add(false, func(x *sim.Manifest) string { return fmt.Sprintf("troupe %s, engine %d", x.Troupe, x.Engine) })
	if len(facts) == 0 || !slices.ContainsFunc(facts, func(f fact) bool { return f.Bold != "" }) {
		add(false, func(x *sim.Manifest) string { return when(x.Started) })
	}
	if m.Status != sim.Complete {
		facts = append(facts, fact{Bold: fmt.Sprintf("%s: %s of %s cells", m.Status, chart.Count(m.Done), chart.Count(m.Cells))})
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Bold+f.Text == "" })
}
