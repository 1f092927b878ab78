package chart

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The palette: contrast of at least 3 on its ground, in both modes, and distances for normal and
// colour-blind readers (simulated after Machado et al. 2009) not below those measured when it was
// chosen. Fails when somebody changes a hex value carelessly.
func TestPalette(t *testing.T) {
	luminance := func(hex string) float64 {
		c := rgb(hex)
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	contrast := func(a, b string) float64 {
		x, y := luminance(a), luminance(b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	visions := []struct {
		name   string
		m      [9]float64
		common float64 // least distance of one blue and four rivals
		all    float64 // least distance of all eight
	}{
		{"normal", [9]float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, 19, 12.5},
		{"protanopia", [9]float64{0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998}, 11, 6.4},
		{"deuteranopia", [9]float64{0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881}, 10.9, 6.8},
		{"tritanopia", [9]float64{1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}, 9.6, 7.6},
	}
	see := func(m [9]float64, hex string) [3]float64 {
		c := rgb(hex)
		var s [3]float64
		for i := range s {
			s[i] = min(max(m[3*i]*c[0]+m[3*i+1]*c[1]+m[3*i+2]*c[2], 0), 1)
		}
		return linearToOKLab(s)
	}
	distance := func(m [9]float64, a, b string) float64 {
		x, y := see(m, a), see(m, b)
		return 100 * math.Sqrt((x[0]-y[0])*(x[0]-y[0])+(x[1]-y[1])*(x[1]-y[1])+(x[2]-y[2])*(x[2]-y[2]))
	}
	for mode, of := range []func(Look) string{func(l Look) string { return l.Light }, func(l Look) string { return l.Dark }} {
		all := []string{of(Blues[0]), of(Blues[1]), of(Blues[2]), of(Rivals[0]), of(Rivals[1]), of(Rivals[2]), of(Rivals[3]), of(Baseline)}
		for i, c := range all {
			for _, ground := range []string{CardColor[mode], PaperColor[mode]} {
				if k := contrast(c, ground); k < 3 {
					t.Errorf("mode %d: colour %d has contrast %.2f on %s", mode, i+1, k, ground)
				}
			}
		}
		for _, ink := range []string{InkColor[mode], SoftColor[mode], LinkColor[mode]} {
			for _, ground := range []string{CardColor[mode], PaperColor[mode], WashColor[mode]} {
				if k := contrast(ink, ground); k < 4.5 {
					t.Errorf("mode %d: text %s has contrast %.2f on %s", mode, ink, k, ground)
				}
			}
		}
		for _, v := range visions {
			least := func(list []string) float64 {
				d := math.Inf(1)
				for i := range list {
					for j := range i {
						d = min(d, distance(v.m, list[i], list[j]))
					}
				}
				return d
			}
			if d := least([]string{all[1], all[3], all[4], all[5], all[6]}); d < v.common {
				t.Errorf("mode %d, %s: one blue and four rivals are %.1f apart, expected at least %.1f", mode, v.name, d, v.common)
			}
			if d := least(all); d < v.all {
				t.Errorf("mode %d, %s: all eight are %.1f apart, expected at least %.1f", mode, v.name, d, v.all)
			}
		}
		// Shades of ramps keep their contrast.
		for n := 1; n <= 12; n++ {
			for j := range n {
				looks := []Look{BlueRamp(j, n)}
				for _, r := range Rivals {
					looks = append(looks, Shade(r, j, n))
				}
				for _, l := range looks {
					if k := contrast(of(l), CardColor[mode]); k < 3 {
						t.Errorf("mode %d: shade %d of %d, %s, has contrast %.2f", mode, j, n, of(l), k)
					}
				}
			}
		}
	}
}

// Ticks enclose the data, are few and round, and their labels tell them apart.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(-1e4, 1e4).Draw(t, "lo")
		hi := lo + math.Pow(10, rapid.Float64Range(-3, 6).Draw(t, "log10 span"))
		ticks := LinearTicks(lo, hi, 4)
		if ticks[0].At > lo+1e-5*(hi-lo) || ticks[len(ticks)-1].At < hi-1e-5*(hi-lo) {
			t.Fatalf("[%v, %v] is not inside %v", lo, hi, ticks)
		}
		if len(ticks) < 2 || len(ticks) > 8 {
			t.Fatalf("%d ticks: %v", len(ticks), ticks)
		}
		for i := range ticks[1:] {
			if ticks[i].Label == ticks[i+1].Label {
				t.Fatalf("labels repeat: %v", ticks)
			}
		}
		a := math.Pow(10, rapid.Float64Range(-5, 5).Draw(t, "log10 lo"))
		b := a * math.Pow(10, rapid.Float64Range(0.2, 9).Draw(t, "decades"))
		a2, b2 := LogRange(a, b)
		if a2 > a*(1+1e-6) || b2 < b*(1-1e-6) {
			t.Fatalf("[%v, %v] is not inside [%v, %v]", a, b, a2, b2)
		}
		for _, k := range LogTicks(a2, b2) {
			if k.At < a2*(1-1e-6) || k.At > b2*(1+1e-6) {
				t.Fatalf("tick %v outside [%v, %v]", k, a2, b2)
			}
		}
		if len(LogTicks(a2, b2)) < 2 {
			t.Fatalf("[%v, %v] has ticks %v", a2, b2, LogTicks(a2, b2))
		}
	})
	for _, c := range []struct {
		v    float64
		dec  int
		want string
	}{{2492.8, 1, "2,492.8"}, {-55, 1, "−55.0"}, {-0.04, 1, "0.0"}, {1234567, 0, "1,234,567"}, {999.96, 1, "1,000.0"}} {
		if got := Number(c.v, c.dec); got != c.want {
			t.Errorf("number(%v, %d) = %q, want %q", c.v, c.dec, got, c.want)
		}
	}
	for v, want := range map[float64]string{0: "0%", 0.001: "0.1%", 0.00001: "0.1%", 0.995: "100%", 0.9999: "99.9%", 1: "100%", 0.34: "34%"} {
		if got := Percent(v); got != want && !(v == 0.995 && got == "99.5%") {
			t.Errorf("percent(%v) = %q, want %q", v, got, want)
		}
	}
}

// Labels end at least a gap apart, in order, inside the chart.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 15).Draw(t, "y")
		slices.Sort(y)
		const gap = 0.045
		spread(y, gap, 0.01, 0.99)
		for i := range y {
			if y[i] < 0.01-1e-9 || y[i] > 0.99+1e-9 {
				t.Fatalf("label %d at %v", i, y[i])
			}
			if i > 0 && y[i]-y[i-1] < gap-1e-9 {
				t.Fatalf("labels %d and %d are %v apart", i-1, i, y[i]-y[i-1])
			}
		}
	})
}

// Names of swept policies lose keys and kind before letters.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in, want string
		width    int
	}{
		{"ts", "ts", 4}, {"ensemble(m=20, reference=coordinate, targets=uniform)", "m=20, coordinate, uniform", 28},
		{"ensemble(m=20, reference=coordinate, targets=uniform)", "ensemble(m=20, coordinate, uniform)", 40},
		{"a very long name of a policy without any options", "a very long name of…y options", 29},
		{"ensemble(m=1000000, symmetric=false, scale=0.3β)", "ensemble(m=100000…ale=0.3β)", 27},
	} {
		if got := Shorten(c.in, c.width); got != c.want {
			t.Errorf("%q in %d is %q, want %q", c.in, c.width, got, c.want)
		}
	}
}

// An axis that does not begin at zero says where it does, and has a mark of it.
func TestBroken(t *testing.T) {
	f, looks := named("a")
	y := &f.Panels[0].Y
	y.Lo, y.Ticks, y.Broken = 4, []Tick{{At: 4, Label: "4"}, {At: 10, Label: "10"}}, true
	var svg bytes.Buffer
	if err := f.WriteSVG(&svg, looks, Sizes[0]); err != nil {
		t.Fatal(err)
	}
	if page := string(f.HTML()); !strings.Contains(page, "Regret, axis from 4") || !strings.Contains(page, `class="zero" d="M0 1000V975`) || !strings.Contains(svg.String(), "Regret, axis from 4") {
		t.Error("the axis does not say that it is broken")
	}
}

// A table stays aligned with letters that take two cells of a terminal, and with accents that take none.
func TestCells(t *testing.T) {
	for s, want := range map[string]int{"": 0, "ts": 2, "策略": 4, "linucb(0.3β̃)": 12, "한글 ｗ": 7, "√3 ◆ ▲ ≈": 8, "é": 1, "e\u0301": 1} {
		if got := Cells(s); got != want {
			t.Errorf("%q takes %d cells, want %d", s, got, want)
		}
	}
	table := &Table{Cols: []Column{{Head: "name", Text: true}, {Head: "n"}}, Rows: []Row{{Cells: []Cell{{S: "策略"}, {S: "1"}}}, {Cells: []Cell{{S: "abcde"}, {S: "2"}}}}}
	var b strings.Builder
	if err := table.Text(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for _, line := range lines[1:] {
		if Cells(line) != Cells(lines[0]) {
			t.Errorf("columns are not aligned:\n%s", b.String())
			break
		}
	}
}
