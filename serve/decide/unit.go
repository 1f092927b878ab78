package decide

import (
	"bytes"
	"encoding/json"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/model"
)

// maxUnit bounds the value of a unit, in bytes.
const maxUnit = 1024

// unit is what a request says of the unit of its model, the zero value for a model without one.
type unit struct {
	path string // the model's
	hash eventlog.ID
	rest json.RawMessage // the context without the value
}

// assign reads the unit of a request: its value becomes a keyed hash, and nothing else that is recorded, hashed or
// learned from has it.
func (d *Decider) assign(v *choose.Version, r *Request) error {
	r.unit = unit{}
	path := v.Compiled.UnitPath()
	if path == nil {
		return nil
	}
	name := v.Compiled.Config.Unit
	if len(r.Context) > d.opt.Limits.Bytes {
		return nil // check says so
	}
	u := unitReader{dec: json.NewDecoder(bytes.NewReader(r.Context)), text: r.Context, path: path, name: name}
	if err := u.object(0); err != nil {
		return fault.Refused(err)
	}
	value, err := u.canonical()
	if err != nil {
		return fault.Refused(err)
	}
	rest := append(append(make([]byte, 0, len(r.Context)), r.Context[:u.from]...), r.Context[u.to:]...)
	r.unit = unit{name, d.opt.Keys.Unit(v.Root, value), rest}
	return nil
}

// sameUnit refuses to decide on a version whose unit is another one than was read: its configuration has changed
// meanwhile.
func (r *Request) sameUnit(v *choose.Version) error {
	if v.Compiled.Config.Unit == r.unit.path {
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Field: "unit", RetryAfter: time.Second,
		Want: "the unit of the model has changed meanwhile; send the request again"}
}

// context returns what may be read of the context: all of it but the value of the unit.
func (r *Request) context() json.RawMessage {
	if r.unit.path != "" {
		return r.unit.rest
	}
	return r.Context
}

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
