package report

import (
	"cmp"
	"strings"
)

// citation returns the BibTeX entries of the paper and of the software that made a run. version and commit may be
// empty; year is that of the run, four digits, or empty.
func citation(version, commit, year string) string {
	var b strings.Builder
	b.WriteString(`@inproceedings{janz2024ensemble,
  title     = {Ensemble sampling for linear bandits: small ensembles suffice},
  author    = {Janz, David and Litvak, Alexander E. and Szepesv{\'a}ri, Csaba},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024},
  note      = {arXiv:2311.08376}
}

@misc{troupe,
  title        = {troupe: linear bandits with reproducible experiments},
  author       = {{The troupe maintainers}},
`)
	how := "Software, version " + cmp.Or(plainText(version), "unknown")
	if c := plainText(commit); c != "" {
		how += ", commit " + c[:min(12, len(c))]
	}
	b.WriteString("  howpublished = {" + how + "}")
	if year != "" {
		b.WriteString(",\n  year         = {" + year + "}")
	}
	b.WriteString("\n}\n")
	return b.String()
}

// plainText keeps the characters of versions and commits, none of which means something to BibTeX.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '+' || r == '-' {
			return r
		}
		return -1
	}, s)
}

// yearOf returns the year of an RFC 3339 time, "" where there is none.
func yearOf(started string) string {
	if when(started) == "" {
		return ""
	}
	return started[:4]
}
