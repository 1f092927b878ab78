package report

import (
	"bytes"
	"strings"
	"testing"
)

// TestGallery: the index has each run with its verdict and page, filters by what its runs have, and no name of a file
// becomes markup.
func TestGallery(t *testing.T) {
	one, two := suiteRun(t, func(s string) string { return s }), suiteRun(t, func(s string) string {
		return strings.Replace(s, "seed = 1", "seed = 2", 1)
	})
	one.Manifest.Experiment = "suite/<b>x"
	two.Manifest.Experiment = "paper/two"
	two.Manifest.Policies[1].Kind = "</style><script>"
	var b bytes.Buffer
	err := WriteGallery(&b, []GalleryEntry{{Run: one, Page: "a/report.html"},
		{Run: two, Page: "javascript:alert(1)", Compared: []GalleryPair{{With: "<i>", Page: "c.html", Verdict: "The runs differ."}}}},
		GalleryMeta{Left: []string{"<img src=x>"}})
	if err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"<h1>Two results, each one click from its data.</h1>", `<h2><a href="a/report.html">`, "<b>suite/&lt;b&gt;x</b>", "Left out: &lt;img src=x&gt;",
		`<option value="g0">suite</option>`, "Compared with &lt;i&gt;", "&lt;/style&gt;&lt;script&gt;", "body:has(#by-policy option[value=p2]:checked) .run:not(.p2)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the index does not have %q", want)
		}
	}
	for _, bad := range []string{"<script", "<img", "<i>", `href="javascript`} {
		if strings.Contains(page, bad) {
			t.Errorf("the index has %q", bad)
		}
	}
	if n := strings.Count(page, `<article class="run `); n != 2 {
		t.Errorf("%d runs on the index", n)
	}
}

// What distinguishes the runs of one experiment stands on their cards in bold, and nothing else; a card has the curves of
// its picture and no other colours than ours.
func TestGalleryCards(t *testing.T) {
	one := loaded(t, oneEnv(), troupeOfSeven()[2:4], 40, 1000, 20)
	two := loaded(t, oneEnv(), troupeOfSeven()[2:4], 40, 1000, 20)
	two.Manifest.Seed = 77
	d := compose(one, Options{})
	var b bytes.Buffer
	if err := WriteGallery(&b, []GalleryEntry{{Run: one, Page: "a.html", Picture: d.picture(), Looks: d.looks}, {Run: two, Page: "b.html"}},
		GalleryMeta{Image: "a/figures/preview.png"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"· <b>seed 77</b>", "· 40 replications", "· 2 policies", `<svg class="thumb"`,
		`<meta property="og:image" content="a/figures/preview.png">`, "regret against time"} {
		if !strings.Contains(page, want) {
			t.Errorf("the index does not have %q", want)
		}
	}
	if n := strings.Count(page, `<path class="line" style="--c:light-dark(#`); n != 2 {
		t.Errorf("%d curves, want 2", n)
	}
	if n := strings.Count(page, "· <b>"); n != 2 {
		t.Errorf("%d facts in bold, want the seeds", n)
	}
	b.Reset()
	if err := WriteGallery(&b, nil, GalleryMeta{}); err != nil || !strings.Contains(b.String(), "<h1>No results yet.</h1>") {
		t.Errorf("an empty gallery: %v", err)
	}
}
