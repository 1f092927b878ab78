package playground

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// short writes a number for people: three digits, a true minus.
func short(x float64) string {
	digits := 2
	if math.Abs(x) >= 100 {
		digits = 0
	} else if math.Abs(x) >= 10 {
		digits = 1
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	return strings.Replace(text, "-", "−", 1)
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// direction writes an action of the disc.
func direction(x []float64) string {
	return fmt.Sprintf("%d°", (int(math.Round(math.Atan2(x[1], x[0])*180/math.Pi))+360)%360)
}

// Words says in sentences what the page shows of a policy in this round.
func (g *Game) Words(look int) string {
	m := g.mind(look)
	s := m.seat
	var b strings.Builder
	fmt.Fprintf(&b, "Round %d of %d, %s. ", g.t, g.setup.Rounds, s.name)
	name := "direction " + direction(s.x.X)
	if s.x.Index >= 0 {
		name = fmt.Sprintf("arm %d", s.x.Index+1)
	}
	drawn := slices.IndexFunc(m.models, func(one model) bool { return one.drawn })
	switch {
	case drawn >= 0:
		one := m.models[drawn]
		sign := ""
		if m.signs == 2 && one.xi < 0 {
			sign = "the mirror image of "
		}
		fmt.Fprintf(&b, "It drew %smember %d of %d, for which %s is best, and plays it", sign, one.j+1, len(m.models)/m.signs, name)
	case len(m.models) > 0:
		fmt.Fprintf(&b, "It drew a member of another copy, and plays %s", name)
	default:
		fmt.Fprintf(&b, "It plays %s", name)
	}
	if p, ok := s.chance(); ok {
		fmt.Fprintf(&b, ", which had probability %s", p)
	}
	fmt.Fprintf(&b, ". Reward %s, regret %s; %s so far.", short(s.reward), short(s.cost), short(s.regret[g.t-1]))
	if set, ok := g.set.(bandit.Finite); ok {
		fmt.Fprintf(&b, " The best arm is %d.", g.best(set)+1)
	}
	return b.String()
}

// chance returns the probability of the action that was played, as text.
func (s *seat) chance() (string, bool) {
	if s.prober == nil {
		return "", false
	}
	for i, a := range s.law.Atoms {
		if s.x.Index == i || s.x.Index < 0 && slices.Equal(a.X, s.x.X) {
			return s.probability(a), true
		}
	}
	return "", false
}

// probability writes a probability: exact as a count where the law is one.
func (s *seat) probability(a bandit.Atom) string {
	switch {
	case s.law.Total > 1 && s.law.Total <= 1024:
		return fmt.Sprintf("%d/%d", a.Count, s.law.Total)
	case a.P == 0 || a.P == 1:
		return number(a.P)
	}
	return strconv.FormatFloat(a.P, 'f', 3, 64)
}

func (g *Game) best(set bandit.Finite) int {
	top := 0
	for i := range set.Len() {
		if linalg.Dot(set.At(i), g.Theta()) > linalg.Dot(set.At(top), g.Theta()) {
			top = i
		}
	}
	return top
}

func (g *Game) planeWords(m mind) string {
	theta := g.Theta()
	text := fmt.Sprintf("The plane of θ. θ* is at %s, %s.", short(theta[0]), short(theta[1]))
	if m.ridge != nil {
		hat := m.ridge.Theta()
		text += fmt.Sprintf(" The estimate is at %s, %s.", short(hat[0]), short(hat[1]))
	}
	if len(m.models) > 0 {
		text += fmt.Sprintf(" %s around it.", many(len(m.models), "model"))
	}
	return text
}

func (g *Game) regretWords() string {
	var parts []string
	for i, s := range g.seats {
		parts = append(parts, s.name+" "+short(g.RegretOf(i)))
	}
	return fmt.Sprintf("Regret after %s: %s.", many(g.t, "round"), strings.Join(parts, ", "))
}

// row is a line of the table of actions.
type row struct {
	name, class, chance string
	p                   float64
	mean                float64
	played              string
	best                bool
}

// Arms writes the actions as the rows of a table: each arm with its exact probability in this round, its mean and how
// often it was played. On the disc it has the most probable actions.
func (g *Game) Arms(look int) string {
	s := g.seats[look]
	var b strings.Builder
	b.WriteString(`<table class="arms"><thead><tr><th scope="col">`)
	rows, head := g.rows(s)
	b.WriteString(head + `</th><th scope="col" colspan="2">Probability</th><th scope="col">Mean</th>`)
	if !g.setup.Redraw && g.setup.Arms > 0 {
		b.WriteString(`<th scope="col">Played</th>`)
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, r := range rows {
		tag := ""
		if r.best {
			tag = ` <span class="tag">best</span>`
		}
		fmt.Fprintf(&b, `<tr class="%s"><th scope="row"><span class="chip">%s</span>%s</th><td class="chance">%s</td>`+
			`<td class="bar"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">`+
			`<rect width="100" height="10" class="of"/>`+
			`<rect width="%s" height="10"/></svg></td><td>%s</td>`, r.class, r.name, tag, r.chance, px(100*r.p), short(r.mean))
		if r.played != "" {
			fmt.Fprintf(&b, "<td>%s</td>", r.played)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>")
	if s.prober == nil {
		b.WriteString(`<p class="sub">The probabilities of this policy are integrals; it states none.</p>`)
	}
	return b.String()
}

func (g *Game) rows(s *seat) (rows []row, head string) {
	set, ok := g.set.(bandit.Finite)
	if !ok {
		return g.directions(s), "Direction"
	}
	best := g.best(set)
	for i := range set.Len() {
		r := row{name: strconv.Itoa(i + 1), class: fmt.Sprintf("c%d", i+1), chance: "–", mean: linalg.Dot(set.At(i), g.Theta()),
			best: i == best}
		if s.prober != nil {
			r.chance, r.p = s.probability(s.law.Atoms[i]), s.law.Atoms[i].P
		}
		if i == s.x.Index {
			r.class += " now"
		}
		if !g.setup.Redraw {
			r.played = strconv.Itoa(s.pulls[i])
		}
		rows = append(rows, r)
	}
	return rows, "Arm"
}

// directions lists the most probable actions of the disc.
func (g *Game) directions(s *seat) (rows []row) {
	if s.prober == nil {
		return []row{{name: direction(s.x.X), class: "now", chance: "–", mean: linalg.Dot(s.x.X, g.Theta())}}
	}
	atoms := slices.Clone(s.law.Atoms)
	slices.SortStableFunc(atoms, func(a, b bandit.Atom) int { return cmp.Compare(b.P, a.P) })
	for _, a := range atoms {
		r := row{name: direction(a.X), chance: s.probability(a), p: a.P, mean: linalg.Dot(a.X, g.Theta())}
		if slices.Equal(a.X, s.x.X) {
			r.class = "now"
		}
		if len(rows) < MaxArms || r.class != "" {
			rows = append(rows, r)
		}
	}
	return rows
}
