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
	for _, want := range []string{"2 runs of experiments", `<a href="a/report.html">suite/&lt;b&gt;x</a>`, "Left out: &lt;img src=x&gt;",
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
