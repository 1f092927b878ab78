package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"troupe/report/chart"
	"troupe/verify"
)

//go:embed page/verify.html
var verifyFile embed.FS

var verifyTemplate = parsed(verifyFile, "verify.html")

// VerifyMeta is what the page of a verification says about the run.
type VerifyMeta struct {
	When    string
	Command string
	Seed    uint64
	Full    bool
	Seconds float64
}

// verifyPart is a part of the paper on the page.
type verifyPart struct {
	ID, Title                                   string
	N, Holds, Blunt, Refuted, Vacuous, Reported int
	Statements                                  []*verifyStatement
}

type verifyStatement struct {
	ID, Label, Number, Title string
	Claims                   []verifyClaim
}

type verifyClaim struct {
	Class, Verdict, Numbers        string
	Statement, Note, Detail, Plant template.HTML
	Figure                         *verifyFigure
}

type verifyFigure struct {
	Title, SVG template.HTML
}

// verifyLooks are the looks of a plot's groups.
var verifyLooks = []chart.Look{chart.Blues[1], chart.Rivals[0], chart.Rivals[1], chart.Rivals[2], chart.Rivals[3],
	chart.Baseline}

// verifyTally counts the verdicts of a verification.
type verifyTally struct {
	claims, holds, blunt, sums, refuted, surprises, chance, caught, planted int
}

func (n *verifyTally) add(r *verify.Result) {
	n.claims++
	switch {
	case r.Verdict == verify.Holds && r.Arithmetic():
		n.sums++
	case r.Verdict == verify.Holds:
		n.holds++
	case r.Verdict == verify.NotContradicted:
		n.blunt++
	case r.Verdict == verify.Refuted:
		n.refuted++
	}
	if !r.Expected() {
		n.surprises++
	}
	if r.Kind == verify.Probability {
		n.chance++
	}
	if r.Planted != nil {
		n.planted++
		if r.Caught() {
			n.caught++
		}
	}
}

func (n *verifyTally) head() string {
	return fmt.Sprintf("Of %s claims %s hold, %s are not contradicted and %s are refuted.", chart.Count(n.claims),
		chart.Count(n.holds), chart.Count(n.blunt), chart.Count(n.refuted))
}

// lead says what a reader needs to know of the verdicts.
func (n *verifyTally) lead() (lead []string) {
	switch {
	case n.surprises > 0:
		lead = append(lead, fmt.Sprintf("%s of the verdicts are not the expected ones; they are marked.",
			chart.Count(n.surprises)))
	case n.refuted > 0:
		lead = append(lead, "Every refuted claim is a statement as printed, and was expected to fall; each stands "+
			"again, or is not needed, in the corrected reading beside it.")
	}
	if n.sums > 0 {
		lead = append(lead, fmt.Sprintf("%s more are arithmetic: they evaluate formulas, whatever the program does, "+
			"and are not counted among those that hold.", chart.Count(n.sums)))
	}
	if n.blunt > 0 {
		lead = append(lead, "“Not contradicted” says less than “holds”: nothing was refuted, but a fault of ten times "+
			"the claim would not have been noticed. What would have been stands with each claim.")
	}
	return append(lead, "A claim with the word “vacuous” was not violated, but its bound says nothing at this size: a "+
		"regret bound above 2T, or a probability of one. “Reported” means that there is no claimed value.")
}

// facts are those of the run, and how many planted faults were noticed.
func (n *verifyTally) facts(meta VerifyMeta) []string {
	setting := "fast setting"
	if meta.Full {
		setting = "full setting"
	}
	facts := []string{fmt.Sprintf("seed %d", meta.Seed), setting, fmt.Sprintf("%.0f s", meta.Seconds)}
	if n.planted > 0 {
		facts = append(facts, fmt.Sprintf("%s of %s planted faults noticed", chart.Count(n.caught),
			chart.Count(n.planted)))
	}
	return facts
}

// count counts a verdict in the part of a statement.
func (p *verifyPart) count(r *verify.Result) {
	p.N++
	switch {
	case r.Verdict == verify.Holds && !r.Arithmetic():
		p.Holds++
	case r.Verdict == verify.NotContradicted:
		p.Blunt++
	case r.Verdict == verify.Refuted:
		p.Refuted++
	case r.Verdict == verify.Vacuous:
		p.Vacuous++
	case r.Verdict == verify.Reported:
		p.Reported++
	}
}

// WriteVerify writes the page of a verification: an annotated copy of the paper's statements, each
// with its verdict, observed against bound, and a plot where one helps.
func WriteVerify(w io.Writer, results []verify.Result, meta VerifyMeta) error {
	var parts []*verifyPart
	var tally verifyTally
	shown := map[string]bool{}
	for _, r := range results {
		h := verify.HeadingOf(r.Label)
		if n := len(parts); n == 0 || parts[n-1].Title != h.Section {
			parts = append(parts, &verifyPart{ID: fmt.Sprintf("part-%d", n+1), Title: h.Section})
		}
		p := parts[len(parts)-1]
		if n := len(p.Statements); n == 0 || p.Statements[n-1].Label != r.Label {
			p.Statements = append(p.Statements, &verifyStatement{ID: r.Label, Label: r.Label, Number: h.Number,
				Title: h.Title})
		}
		s := p.Statements[len(p.Statements)-1]
		// One picture of a kind: readings that come out alike share the run.
		plot := false
		if r.Plot != nil {
			key := r.Label + r.Plot.Title + string(r.Verdict)
			plot, shown[key] = !shown[key], true
		}
		s.Claims = append(s.Claims, claimOf(r, plot))
		p.count(&r)
		tally.add(&r)
	}
	view := struct {
		shell
		Head    string
		Lead    []string
		Facts   []string
		Parts   []*verifyPart
		Command string
		Budget  string
	}{shell: newShell("the paper, verified", verifyLooks, 0, 0), Parts: parts, Command: meta.Command,
		Head: tally.head(), Lead: tally.lead(), Facts: tally.facts(meta)}
	view.When = meta.When
	view.Budget = fmt.Sprintf("%s claims are probabilities, tested exactly at level 10⁻⁸ each: together they raise a "+
		"false alarm with probability below %s. Inequalities and identities are asserted on every path, up to "+
		"rounding.",
		chart.Count(tally.chance), scientific(float64(tally.chance)*verify.Level))
	return verifyTemplate().Execute(w, view)
}

// BuildVerify writes verify.html into a directory and returns its path.
func BuildVerify(dir string, results []verify.Result, meta VerifyMeta) (string, error) {
	var b bytes.Buffer
	if err := WriteVerify(&b, results, meta); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "verify.html")
	return path, chart.WriteFile(path, b.Bytes())
}

// claimOf is what the page says of one result; plot says whether its picture is shown.
func claimOf(r verify.Result, plot bool) verifyClaim {
	c := verifyClaim{Statement: typeset(r.Statement), Note: typeset(r.Note)}
	c.Detail = typeset(strings.TrimRight(capital(r.Detail), ";.") + ".")
	switch r.Verdict {
	case verify.Holds:
		c.Verdict = "Holds " + reading(r)
		if r.Arithmetic() {
			c.Verdict = "Arithmetic, right " + reading(r)
		}
	case verify.NotContradicted:
		c.Verdict = "Not contradicted " + reading(r)
	case verify.Refuted:
		c.Verdict, c.Class = "Refuted "+reading(r), "bad"
	case verify.Vacuous:
		c.Verdict = "Vacuous " + reading(r)
	case verify.Reported:
		c.Verdict = "Reported"
	}
	if r.Part != "" {
		c.Verdict += " (" + r.Part + ")"
	}
	if !r.Expected() {
		c.Verdict += fmt.Sprintf(", which was not expected: %s was", r.Expect)
		c.Class = "bad wrong"
	}
	c.Verdict += "."
	c.Numbers = fmt.Sprintf("Observed %s", scientific(r.Observed))
	switch r.Relation {
	case verify.AtMost:
		c.Numbers += ", claimed at most " + scientific(r.Bound)
	case verify.AtLeast:
		c.Numbers += ", claimed at least " + scientific(r.Bound)
	case verify.Equal:
		c.Numbers += ", claimed " + scientific(r.Bound)
	default:
		c.Numbers += ", for comparison " + scientific(r.Bound)
	}
	if r.Kind == verify.Probability && !math.IsNaN(r.PValue) && r.Verdict != verify.Vacuous {
		c.Numbers += fmt.Sprintf("; p = %s", scientific(r.PValue))
	}
	if r.Kind == verify.Rate && r.High > r.Low {
		c.Numbers += fmt.Sprintf("; interval %s to %s", scientific(r.Low), scientific(r.High))
	}
	c.Numbers += fmt.Sprintf(". Kind %s, n = %s.", r.Kind, chart.Count(r.Samples))
	if power := r.Power.String(); power != "" && r.Verdict != verify.Refuted {
		c.Numbers += " It " + power + "."
	}
	plant := "Planted: " + r.Plant + "."
	if r.Planted != nil {
		plant += fmt.Sprintf(" Then %s, observed %s.", r.Planted.Verdict, scientific(r.Planted.Observed))
		if !r.Caught() {
			plant += " Not noticed!"
		}
	}
	c.Plant = typeset(plant)
	if plot {
		f := plotFigure(r.Plot)
		c.Figure = &verifyFigure{Title: typeset(r.Plot.Title), SVG: f.HTML()}
	}
	return c
}

// capital makes the first letter a capital, unless it belongs to a formula.
func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	second, _ := utf8.DecodeRuneInString(s[n:])
	if first < 'a' || first > 'z' || !unicode.IsLetter(second) && second != ' ' {
		return s
	}
	return string(unicode.ToUpper(first)) + s[n:]
}

func reading(r verify.Result) string {
	if r.Reading == verify.Printed {
		return "as printed"
	}
	return "as corrected"
}

// plotFigure turns a plot into a figure: guides are dotted, the first curve of a group has the
// group's label.
func plotFigure(plot *verify.Plot) *chart.Figure {
	p := &chart.Panel{Look: -1}
	xs, ys := [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, c := range plot.Curves {
		for i := range c.X {
			if plot.LogX && c.X[i] <= 0 || plot.LogY && c.Y[i] <= 0 {
				continue
			}
			xs[0], xs[1] = min(xs[0], c.X[i]), max(xs[1], c.X[i])
			ys[0], ys[1] = min(ys[0], c.Y[i]), max(ys[1], c.Y[i])
		}
	}
	p.X, p.Y = axisOver(plot.X, plot.LogX, xs), axisOver(plot.Y, plot.LogY, ys)
	labelled := map[string]bool{}
	for _, c := range plot.Curves {
		m := chart.Mark{Kind: chart.Line, Look: c.Group % len(verifyLooks), Name: c.Name, X: c.X, Y: c.Y}
		if c.Guide {
			m.Kind, m.Look = chart.Guide, -1
		}
		p.Marks = append(p.Marks, m)
		key := fmt.Sprint(m.Look, c.Name)
		if c.Guide {
			key = fmt.Sprint(c.Name, c.Y)
		}
		if n := len(c.Y); n > 0 && !labelled[key] && len(p.Ends) < maxEnds {
			labelled[key] = true
			p.Ends = append(p.Ends, chart.End{Look: m.Look, Y: c.Y[n-1], Label: c.Name})
		}
	}
	return &chart.Figure{Title: plot.Title, Panels: []*chart.Panel{p}, Low: true}
}

// axisOver is an axis that covers a range.
func axisOver(caption string, log bool, r [2]float64) chart.Axis {
	if log {
		lo, hi := chart.LogRange(r[0], r[1])
		return chart.Axis{Caption: caption, Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)}
	}
	t := chart.LinearTicks(r[0], r[1], 5)
	return chart.Axis{Caption: caption, Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t}
}

// scientific writes a number with three digits, as a power of ten where it is large or small.
func scientific(v float64) string {
	a := math.Abs(v)
	if a == 0 {
		return "0"
	}
	if a >= 0.9995e-3 && a < 99_950 {
		digits := max(0, 2-int(math.Floor(math.Log10(a))))
		s := chart.Number(v, digits)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 2, 64), "e")
	e, err := strconv.Atoi(exponent)
	if err != nil {
		return mantissa
	}
	return strings.ReplaceAll(mantissa, "-", chart.Minus) + "·10" + chart.Superscript(e)
}

// typeset turns a statement's plain text into HTML: _{…}, _x, ^{…} and ^x become indices, letters
// that stand alone are set in italics.
func typeset(text string) template.HTML {
	var b strings.Builder
	runes := []rune(text)
	for i := 0; i < len(runes); {
		r := runes[i]
		switch {
		case (r == '_' || r == '^') && i+1 < len(runes):
			var sub, sup string
			for i+1 < len(runes) && (runes[i] == '_' || runes[i] == '^') {
				kind := runes[i]
				body, next := script(runes, i+1)
				if kind == '_' {
					sub += body
				} else {
					sup += body
				}
				i = next
			}
			switch {
			case sub != "" && sup != "":
				fmt.Fprintf(&b, `<span class="st2"><sup>%s</sup><sub>%s</sub></span>`, letters(sup), letters(sub))
			case sub != "":
				fmt.Fprintf(&b, "<sub>%s</sub>", letters(sub))
			default:
				fmt.Fprintf(&b, "<sup>%s</sup>", letters(sup))
			}
		default:
			j := i
			for j < len(runes) && runes[j] != '_' && runes[j] != '^' {
				j++
			}
			b.WriteString(letters(string(runes[i:j])))
			i = j
		}
	}
	return template.HTML(b.String()) // every piece went through HTMLEscapeString in letters
}

// script reads the index that starts at i: a group in braces or one letter.
func script(runes []rune, i int) (body string, next int) {
	if runes[i] != '{' {
		return string(runes[i]), i + 1
	}
	depth := 0
	for j := i; j < len(runes); j++ {
		switch runes[j] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return string(runes[i+1 : j]), j + 1
			}
		}
	}
	return string(runes[i+1:]), len(runes)
}

// letters escapes a piece of text and sets variables in italics: small Greek letters, and Latin
// words of one or two letters that are not English ones. "a" is a variable when a sign follows. The end of a file's
// name and the exponent of a number are none.
func letters(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n := strings.IndexFunc(s[i:], func(r rune) bool { return !unicode.Is(unicode.Latin, r) })
		if n < 0 {
			n = len(s) - i
		}
		if n == 0 {
			r, size := utf8.DecodeRuneInString(s[i:])
			e := template.HTMLEscapeString(string(r))
			if r >= 'α' && r <= 'ω' {
				e = "<i>" + e + "</i>"
			}
			b.WriteString(e)
			i += size
			continue
		}
		word, rest := s[i:i+n], s[i+n:]
		variable := utf8.RuneCountInString(word) <= 2 && !strings.Contains(notVariables, " "+word+" ")
		if word == "a" || word == "A" {
			sign, _ := utf8.DecodeRuneInString(strings.TrimPrefix(rest, " "))
			variable = !strings.HasPrefix(rest, " ") || strings.ContainsRune("=≤≥+−·∨∧", sign)
		}
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		file := before == '.'                                     // "few.md"
		exponent := word == "e" && before >= '0' && before <= '9' // "1e-05"
		if variable && !file && !exponent {
			word = "<i>" + word + "</i>"
		}
		b.WriteString(word)
		i += n
	}
	return b.String()
}

// notVariables are the words of one and two letters that are words; E and P are operators.
const notVariables = " E P of is in to by or at on so if no an as be it do up we In It If On At No So By Of As Is "
