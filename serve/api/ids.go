package api

import (
	"fmt"
	"strings"
	"unicode"

	"troupe/serve"
)

// CleanID refuses an id of an action or a slot that has a character without a shape of its own: a control character
// (NUL, escape, newline), a line or paragraph separator, or one that turns the direction of the text around
// it. Such an id would change how an export, a terminal or a page shows its neighbours. Joiners stay allowed: Persian
// and emoji need them. Logs that hold such ids are still read.
func CleanID(field, id string) error {
	i := strings.IndexFunc(id, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
	})
	if i < 0 {
		return nil
	}
	r := []rune(id[i:])[0]
	return &fieldError{Field: field, Want: fmt.Sprintf("has the control character %U at byte %d, which an id may not "+
		"have", r, i)}
}

// cleanIDs checks the ids of a list, name being its field.
func cleanIDs[T any](name string, list []T, id func(T) string) error {
	for i, x := range list {
		if err := CleanID(fmt.Sprintf("%s[%d].id", name, i), id(x)); err != nil {
			return err
		}
	}
	return nil
}

// cleanCatalogue checks the ids of a catalogue that were not in the one before.
func cleanCatalogue(list, before []serve.Entry) error {
	old := map[string]bool{}
	for _, e := range before {
		old[e.ID] = true
	}
	return cleanIDs("actions", list, func(e serve.Entry) string {
		if old[e.ID] {
			return ""
		}
		return e.ID
	})
}
