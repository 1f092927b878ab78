package chart

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// TeX writes a text so that LaTeX sets it as it stands: special characters escaped, Greek letters,
// signs, subscripts and superscripts in math. It needs the package amssymb. Letters of alphabets that pdfLaTeX does not
// know stay as they are, for XeLaTeX and LuaLaTeX (beyondTeX).
func TeX(s string) string {
	var b strings.Builder
	math := false // between dollars
	put := func(s string, m bool) {
		switch {
		case s == "":
			return
		case m != math:
			b.WriteByte('$')
		case m:
			b.WriteByte(' ') // after \cdot
		}
		b.WriteString(s)
		math = m
	}
	r := []rune(norm.NFC.String(s))
	for i := 0; i < len(r); i++ {
		if i+1 < len(r) && accents[r[i+1]] != "" {
			base, ok := texMathLetter(r[i])
			if !ok {
				base = texRune(r[i])
			}
			put(accents[r[i+1]]+"{"+base+"}", true)
			i++
			continue
		}
		if m, ok := texMathLetter(r[i]); ok {
			put(m, true)
			continue
		}
		for _, c := range alike(r[i]) {
			if m, ok := texMathLetter(c); ok {
				put(m, true)
			} else {
				put(texRune(c), false)
			}
		}
	}
	if math {
		b.WriteByte('$')
	}
	return b.String()
}

// alike returns a letter, or what it is compatible with where LaTeX does not know it (𝒜 is A).
func alike(r rune) []rune {
	if _, ok := texSpecial[r]; ok || r <= 0x24f {
		return []rune{r}
	}
	return []rune(norm.NFKC.String(string(r)))
}

// beyondTeX tells whether a text has letters that pdfLaTeX does not know.
func beyondTeX(s string) bool {
	for _, r := range TeX(s) {
		if r > 0x24f && !(r >= 0x1e00 && r <= 0x1eff) {
			return true
		}
	}
	return false
}

// texRune writes a letter that is not mathematics. Controls and overrides of the direction are left out.
func texRune(r rune) string {
	if s, ok := texSpecial[r]; ok {
		return s
	}
	if unseen(r) {
		return ""
	}
	return string(r)
}

func texMathLetter(r rune) (string, bool) {
	if s, ok := greek[r]; ok {
		return s, true
	}
	if i := strings.IndexRune(lowered, r); i >= 0 {
		return "_{" + string([]rune(loweredOf)[len([]rune(lowered[:i]))]) + "}", true
	}
	if i := strings.IndexRune(raised, r); i >= 0 {
		return "^{" + string([]rune(raisedOf)[len([]rune(raised[:i]))]) + "}", true
	}
	s, ok := texSigns[r]
	return s, ok
}

const (
	lowered, loweredOf = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₕₖₗₘₙₚₛₜᵢⱼᵣᵤᵥ", "0123456789+-=()aeoxhklmnpstijruv"
	raised, raisedOf   = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵀ", "0123456789+-=()niT"
)

var accents = map[rune]string{'\u0303': `\tilde`, '\u0302': `\hat`, '\u0304': `\bar`, '\u0307': `\dot`,
	'\u20d7': `\vec`}

var texSpecial = map[rune]string{
	'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '&': `\&`, '%': `\%`, '$': `\$`, '#': `\#`, '_': `\_`,
	'~': `\textasciitilde{}`, '^': `\textasciicircum{}`, '<': `\textless{}`, '>': `\textgreater{}`, '|': `\textbar{}`,
	'"': `\textquotedbl{}`,
	'’': "'", '‘': "`", '“': "``", '”': "''", '–': "--", '—': "---", '…': `\ldots{}`, '\u00a0': "~", '\u2009': `\,`,
	'\u202f': `\,`,
}

var texSigns = map[rune]string{
	'±': `\pm`, '×': `\times`, '÷': `\div`, '·': `\cdot`, '−': `-`, '≤': `\le`, '≥': `\ge`, '≠': `\ne`,
	'≈': `\approx`, '≪': `\ll`, '≫': `\gg`, '≡': `\equiv`, '∝': `\propto`,
	'√': `\surd`, '∞': `\infty`, '∑': `\sum`, '∏': `\prod`, '∂': `\partial`, '∇': `\nabla`, '∈': `\in`,
	'∉': `\notin`, '⊂': `\subset`, '∪': `\cup`, '∩': `\cap`, '∅': `\emptyset`,
	'→': `\to`, '←': `\leftarrow`, '↑': `\uparrow`, '↓': `\downarrow`, '⇒': `\Rightarrow`, '∀': `\forall`,
	'∃': `\exists`, '∥': `\|`, '⟨': `\langle`, '⟩': `\rangle`, '⌈': `\lceil`, '⌉': `\rceil`, '⌊': `\lfloor`,
	'⌋': `\rfloor`,
	'ℓ': `\ell`, 'ℝ': `\mathbb{R}`, 'ℕ': `\mathbb{N}`, '½': `\frac12`, '¼': `\frac14`, '¾': `\frac34`, '′': `'`,
	'°': `{}^\circ`, '★': `\bigstar`,
	'◆': `\blacklozenge`, '▲': `\blacktriangle`, '△': `\vartriangle`, '†': `\dagger`, '‡': `\ddagger`,
	'□': `\square`, '■': `\blacksquare`, '✓': `\checkmark`,
	'µ': `\mu`, '‖': `\|`, '∗': `*`, '∘': `\circ`, '⊕': `\oplus`, '⊗': `\otimes`, '⊤': `\top`, '⊥': `\perp`,
	'∼': `\sim`, '≃': `\simeq`, '¬': `\lnot`, '∧': `\wedge`, '∨': `\vee`,
}

var greek = map[rune]string{
	'α': `\alpha`, 'β': `\beta`, 'γ': `\gamma`, 'δ': `\delta`, 'ε': `\varepsilon`, 'ϵ': `\epsilon`, 'ζ': `\zeta`,
	'η': `\eta`, 'θ': `\theta`, 'ϑ': `\vartheta`, 'ι': `\iota`,
	'κ': `\kappa`, 'λ': `\lambda`, 'μ': `\mu`, 'ν': `\nu`, 'ξ': `\xi`, 'ο': `o`, 'π': `\pi`, 'ρ': `\rho`,
	'σ': `\sigma`, 'ς': `\varsigma`, 'τ': `\tau`, 'υ': `\upsilon`,
	'φ': `\varphi`, 'ϕ': `\phi`, 'χ': `\chi`, 'ψ': `\psi`, 'ω': `\omega`,
	'Α': `A`, 'Β': `B`, 'Γ': `\Gamma`, 'Δ': `\Delta`, 'Ε': `E`, 'Ζ': `Z`, 'Η': `H`, 'Θ': `\Theta`, 'Ι': `I`,
	'Κ': `K`, 'Λ': `\Lambda`, 'Μ': `M`, 'Ν': `N`, 'Ξ': `\Xi`,
	'Ο': `O`, 'Π': `\Pi`, 'Ρ': `P`, 'Σ': `\Sigma`, 'Τ': `T`, 'Υ': `\Upsilon`, 'Φ': `\Phi`, 'Χ': `X`, 'Ψ': `\Psi`,
	'Ω': `\Omega`,
}
