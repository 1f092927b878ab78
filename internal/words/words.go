// Package words has the rules that guides and help texts keep: words that they avoid, and the longest sentence and paragraph. It
// is for tests: [Faults] returns what breaks a rule.
package words

import (
	"regexp"
	"strconv"
	"strings"
)

// The most words that a sentence, a paragraph and, in a guide, a cell of a table may have.
const (
	longestSentence  = 30
	longestParagraph = 90
	longestCell      = 25
)

// avoided are words that make a text read like a translation, each with what to write instead.
var avoided = []struct {
	words   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\banew\b`), "again, restart, recreate"},
	{regexp.MustCompile(`(?i)\bwhoever\b`), "you, anyone who"},
	{regexp.MustCompile(`(?i)\bbut for\b`), "except, apart from"},
	{regexp.MustCompile(`(?i)\binside of\b`), "inside, within"},
	{regexp.MustCompile(`(?i)\bso many\b`), "up to N, that many"},
	{regexp.MustCompile(`(?i)\b(that|which) (is|are) there\b`), "existing"},
	{regexp.MustCompile(`(?i)\b(is|are) said\b`), "reports, shows, lists"},
	{regexp.MustCompile(`(?i)\bby turns\b`), "in turn, alternately"},
	{regexp.MustCompile(`(?i)\blaws? of (the|a) logger\b|\bthe laws\b`), "the logging policy's probabilities"},
	{regexp.MustCompile(`(?i)\bnothing [^.]{0,60}? but\b`), "only"},
}

var (
	fenced   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	markLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	markHTML = regexp.MustCompile(`<[^>]*>`)
	listItem = regexp.MustCompile(`^\s*([-*]|\d+\.)\s+`)
	sentence = regexp.MustCompile(`[.!?][)"'”*]*(\s|$)`)
	abbrev   = regexp.MustCompile(`\b(e\.g|i\.e|etc|vs)\.`)
	code     = regexp.MustCompile("`[^`\n]+`")
)

// plain returns a page without code blocks, and with a word for each piece of code and for the text of each link.
func plain(page string) string {
	page = fenced.ReplaceAllString(page, "\n")
	page = markHTML.ReplaceAllString(code.ReplaceAllString(page, "code"), "")
	return abbrev.ReplaceAllString(markLink.ReplaceAllString(page, "$1"), "$1")
}

// LongCells returns the cells of tables of a guide that are texts: they belong below the table.
func LongCells(page string) (faults []string) {
	for line := range strings.Lines(plain(page)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(line, "|") {
			if n := len(strings.Fields(cell)); n > longestCell {
				faults = append(faults, "a cell of "+strconv.Itoa(n)+" words, at most "+strconv.Itoa(longestCell)+": "+strings.TrimSpace(cell))
			}
		}
	}
	return faults
}

// paragraphs returns the texts of a page that a reader reads in one go: paragraphs, items of lists, headings and cells of
// tables.
func paragraphs(page string) []string {
	page = plain(page)
	var all []string
	var open []string
	end := func() {
		if len(open) > 0 {
			all, open = append(all, strings.Join(open, " ")), nil
		}
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			end()
		case strings.HasPrefix(line, "|"):
			end()
			for cell := range strings.SplitSeq(line, "|") {
				all = append(all, strings.TrimSpace(cell))
			}
		case listItem.MatchString(line):
			end()
			open = []string{listItem.ReplaceAllString(line, "")}
		default:
			open = append(open, strings.TrimPrefix(line, "> "))
		}
	}
	end()
	return all
}

// Faults returns what breaks the rules in a page of Markdown or in the text of a command, each with the place.
func Faults(page string) (faults []string) {
	for _, p := range paragraphs(page) {
		if n := len(strings.Fields(p)); n > longestParagraph {
			faults = append(faults, "a paragraph of "+strconv.Itoa(n)+" words, at most "+strconv.Itoa(longestParagraph)+": "+p)
		}
		for _, a := range avoided {
			if w := a.words.FindString(p); w != "" {
				faults = append(faults, `"`+w+`", write `+a.instead+": "+p)
			}
		}
		for _, s := range sentence.Split(p, -1) {
			if n := len(strings.Fields(s)); n > longestSentence {
				faults = append(faults, "a sentence of "+strconv.Itoa(n)+" words, at most "+strconv.Itoa(longestSentence)+": "+strings.TrimSpace(s))
			}
		}
	}
	return faults
}
