package chart

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
)

// Look is how one policy is drawn, everywhere: page, exports, compared run. Hue is the algorithm,
// shade is the swept number, grey is a baseline; a dash goes with every hue but two, and a label
// with every curve, so colour is never the only signal.
type Look struct {
	Light, Dark string    // #rrggbb on a light and on a dark ground
	Dash        []float64 // lengths of strokes and gaps in pixels, nil for a solid line
}

// The palette. Found by search over OKLab and checked by TestPalette: contrast at least 3 against
// the ground in both modes, and pairwise distance for normal, protanopic, deuteranopic and
// tritanopic readers.
var (
	Blues = [3]Look{{Light: "#4a90f0", Dark: "#3f78bd"}, {Light: "#0b57c4", Dark: "#62a9f3"},
		{Light: "#082a63", Dark: "#c4e1ff"}}
	Rivals = [4]Look{
		{Light: "#e2500f", Dark: "#ffab43"},
		{Light: "#2f9369", Dark: "#2bdca6", Dash: []float64{7, 4}},
		{Light: "#8f357f", Dark: "#c2617a", Dash: []float64{2, 4}},
		{Light: "#4b4e00", Dark: "#929405", Dash: []float64{12, 3}},
	}
	Baseline = Look{Light: "#8c9096", Dark: "#a8a8a8", Dash: []float64{9, 4, 2, 4}}
)

// Grounds and inks of the page, light and dark.
var (
	PaperColor = [2]string{"#fdfdfb", "#121518"}
	CardColor  = [2]string{"#ffffff", "#16191d"}
	InkColor   = [2]string{"#1a1f26", "#e7eaed"}
	SoftColor  = [2]string{"#59626d", "#9aa4af"}
	LineColor  = [2]string{"#e4e6e3", "#292e34"}
	GridColor  = [2]string{"#eceeeb", "#23282d"}
	WashColor  = [2]string{"#f3f5f1", "#1c2025"}
	LinkColor  = [2]string{"#0b57c4", "#7db8f7"}
)

// ExtraDashes tell repeated hues and several baselines apart.
var ExtraDashes = [][]float64{{9, 4, 2, 4}, {3, 3}, {14, 4, 2, 4, 2, 4}, {1, 3}, {6, 2, 6, 6}}

// Teals are the hues of environments, which no policy has.
var Teals = [3]Look{{Light: "#1a939d", Dark: "#1f8f99"}, {Light: "#0d6d77", Dark: "#41c3ce"},
	{Light: "#073d44", Dark: "#c2f1f5"}}

// EnvironmentRamp returns the look of environment j of n: every other one is dashed, so that neighbours differ by
// more than their shade.
func EnvironmentRamp(j, n int) Look {
	l := ramp(Teals, j, n)
	if j%2 == 1 {
		l.Dash = ExtraDashes[j/2%len(ExtraDashes)]
	}
	return l
}

// sweepDashes tell the third setting of a sweep and those after it from their neighbours, whose shades are close.
var sweepDashes = [][]float64{{11, 3}, {6, 3}, {11, 3, 2, 3}, {3, 2}}

// settingDash is the dash of setting j.
func settingDash(j int) []float64 {
	if j < 2 {
		return nil
	}
	return sweepDashes[(j-2)%len(sweepDashes)]
}

// BlueRamp returns setting j of n: one is the middle blue, two the outer ones, more interpolate; from the third on they
// are dashed.
func BlueRamp(j, n int) Look {
	l := ramp(Blues, j, n)
	l.Dash = settingDash(j)
	return l
}

func ramp(of [3]Look, j, n int) Look {
	switch {
	case n == 1:
		return of[1]
	case n <= 3:
		return of[j*2/(n-1)]
	}
	at := 2 * float64(j) / float64(n-1)
	i := min(int(at), 1)
	f := at - float64(i)
	return Look{Light: mix(of[i].Light, of[i+1].Light, f), Dark: mix(of[i].Dark, of[i+1].Dark, f)}
}

// Shade moves a hue towards the ink, which raises its contrast, by up to 55 % over n settings; a hue with a solid line is
// dashed from the third setting on.
func Shade(l Look, j, n int) Look {
	if n == 1 {
		return l
	}
	f := 0.55 * float64(j) / float64(n-1)
	dash := l.Dash
	if dash == nil {
		dash = settingDash(j)
	}
	return Look{Light: mix(l.Light, InkColor[0], f), Dark: mix(l.Dark, InkColor[1], f), Dash: dash}
}

// mix interpolates two colours in OKLab (Ottosson 2020): f = 0 gives a, f = 1 gives b.
func mix(a, b string, f float64) string {
	p, q := oklab(a), oklab(b)
	for i := range p {
		p[i] += f * (q[i] - p[i])
	}
	return fromOKLab(p)
}

// rgb reads #rrggbb as linear light in [0, 1].
func rgb(hex string) (c [3]float64) {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil || len(hex) != 7 {
		panic("report: not a colour of the form #rrggbb")
	}
	for i := range c {
		v := float64(n>>(16-8*i)&255) / 255
		if v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func hexOf(c [3]float64) string {
	var n [3]int
	for i, v := range c {
		v = min(max(v, 0), 1)
		if v <= 0.0031308 {
			v *= 12.92
		} else {
			v = 1.055*math.Pow(v, 1/2.4) - 0.055
		}
		n[i] = int(math.Round(255 * v))
	}
	return fmt.Sprintf("#%02x%02x%02x", n[0], n[1], n[2])
}

func oklab(hex string) [3]float64 { return linearToOKLab(rgb(hex)) }

func linearToOKLab(c [3]float64) [3]float64 {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{
		0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

func fromOKLab(c [3]float64) string {
	l := c[0] + 0.3963377774*c[1] + 0.2158037573*c[2]
	m := c[0] - 0.1055613458*c[1] - 0.0638541728*c[2]
	s := c[0] - 0.0894841775*c[1] - 1.2914855480*c[2]
	l, m, s = l*l*l, m*m*m, s*s*s
	return hexOf([3]float64{
		4.0767416621*l - 3.3077115913*m + 0.2309699292*s,
		-1.2684380046*l + 2.6097574011*m - 0.3413193965*s,
		-0.0041960863*l - 0.7034186147*m + 1.7076147010*s,
	})
}

// rgba is a colour for gonum/plot.
func rgba(hex string) color.Color {
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		panic("report: not a colour of the form #rrggbb")
	}
	return color.RGBA{R: uint8(n >> 16), G: uint8(n >> 8), B: uint8(n), A: 255}
}
