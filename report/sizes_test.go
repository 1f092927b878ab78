package report

import (
	"bytes"
	"image/png"
	"strings"
	"testing"

	"troupe/report/chart"
)

// A figure's PDF is small: the font in it is a subset.
func TestSmallPDF(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
	fig, _ := painter{Analyze(run, 0)}.regretFigures("", nil)
	looks, _ := looksOf(run.Manifest.Policies)
	var pdf bytes.Buffer
	if err := fig.WritePDF(&pdf, looks, chart.Sizes[0], epoch(run.Manifest)); err != nil {
		t.Fatal(err)
	}
	if pdf.Len() > 60_000 {
		t.Errorf("the PDF has %d bytes", pdf.Len())
	}
}

// Every size has the width and height that its name promises, in SVG and in PNG, and letters that
// scale with it.
func TestSizes(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven()[:3], 24, 1000, 20)
	fig, _ := painter{Analyze(run, 0)}.regretFigures("", nil)
	looks, _ := looksOf(run.Manifest.Policies)
	for i, want := range []struct {
		svg           string
		width, height int // pixels at 200 dots an inch
	}{
		{`width="396pt" height="230.4pt"`, 1100, 640},
		{`width="237.6pt" height="165.6pt"`, 660, 460},
		{`width="720pt" height="403.2pt"`, 2000, 1120},
	} {
		var svg, image bytes.Buffer
		if err := fig.WriteSVG(&svg, looks, chart.Sizes[i]); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(svg.String(), want.svg) {
			t.Errorf("%s: the SVG begins %.120q, want %s", chart.Sizes[i].Name, svg.String(), want.svg)
		}
		if err := fig.WritePNG(&image, looks, chart.Sizes[i]); err != nil {
			t.Fatal(err)
		}
		c, err := png.DecodeConfig(&image)
		if err != nil || abs(c.Width-want.width) > 1 || abs(c.Height-want.height) > 1 {
			t.Errorf("%s: %d × %d pixels, %v, want %d × %d", chart.Sizes[i].Name, c.Width, c.Height, err, want.width, want.height)
		}
	}
}

func abs(n int) int { return max(n, -n) }
