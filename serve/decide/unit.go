package decide

import (
	"bytes"
	"encoding/json"

	"troupe/serve/model"
)

// maxUnit bounds the value of a unit, in bytes.
const maxUnit = 1024

// unitReader finds the value at a path of a JSON object, and where it stands.
type unitReader struct {
	dec      *json.Decoder
	text     []byte // what it reads
	path     []string
	name     string
	raw      json.RawMessage // the value
	from, to int64           // where the member stands, with a comma beside it
}

// object reads an object of which the names path[:level] have led.
func (u *unitReader) object(level int) error {
	lacking := model.Invalid(u.name, "", "is missing: the model's unit is there, a text or a whole number")
	if t, err := u.dec.Token(); err != nil || t != json.Delim('{') {
		return lacking
	}
	found := false
	for first := true; ; first = false {
		before := u.dec.InputOffset()
		if !u.dec.More() {
			break
		}
		name, err := u.dec.Token()
		if err != nil {
			return notJSON
		}
		if name != u.path[level] {
			var skipped json.RawMessage
			if u.dec.Decode(&skipped) != nil {
				return notJSON
			}
			continue
		}
		if found {
			return model.Invalid(u.name, "", "is given twice")
		}
		found = true
		if level < len(u.path)-1 {
			if err := u.object(level + 1); err != nil {
				return err
			}
			continue
		}
		if u.dec.Decode(&u.raw) != nil {
			return notJSON
		}
		u.from, u.to = before, u.dec.InputOffset()
		rest := bytes.TrimLeft(u.text[u.to:], " \t\r\n")
		if first && bytes.HasPrefix(rest, []byte{','}) {
			u.to = int64(len(u.text) - len(rest) + 1)
		}
	}
	if _, err := u.dec.Token(); err != nil {
		return notJSON
	}
	if !found {
		return lacking
	}
	return nil
}

// canonical returns the value as it is hashed: one text for one value, and another one for the number 5 than for "5".
func (u *unitReader) canonical() ([]byte, error) {
	wrong := model.Invalid(u.name, string(u.raw), "expected a text that is not empty or a whole number, at most %d bytes",
		maxUnit).Told()
	if u.raw[0] == '"' {
		var text string
		if json.Unmarshal(u.raw, &text) != nil || text == "" || len(text) > maxUnit {
			return nil, wrong
		}
		return []byte("s" + text), nil
	}
	digits := bytes.TrimPrefix(u.raw, []byte("-"))
	if len(digits) == 0 || len(digits) > maxUnit || len(bytes.Trim(digits, "0123456789")) > 0 {
		return nil, wrong
	}
	return append([]byte("n"), u.raw...), nil
}

var notJSON = model.Invalid("context", "", "expected a JSON object")
