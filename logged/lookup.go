package logged

import (
	"slices"
	"strconv"
	"strings"
)

// Feature is a value of the context by its path, "city" or "user.city": its text, or the number as it was written.
// Lists of numbers have paths from 0. A path with the word context in front means the same. ok is false where the event
// does not have it, and for an object or a list.
func (e *Event) Feature(path string) (text string, ok bool) {
	path = strings.TrimPrefix(path, "context.")
	if e.Named == nil {
		i, err := strconv.Atoi(path)
		if err != nil || i < 0 || i >= len(e.Context) {
			return "", false
		}
		return number(e.Context[i]), true
	}
	v := value{raw: e.Named}
	for {
		if text, ok = v.scalar(path); ok {
			return text, true
		}
		head, rest, more := strings.Cut(path, ".")
		if !more {
			return "", false
		}
		if v = v.member(head); v.kind() != '{' {
			return "", false
		}
		path = rest
	}
}

// member returns the value of a key of an object, an empty one where there is none.
func (v value) member(key string) (out value) {
	if v.kind() != '{' {
		return out
	}
	_ = v.fields(func(k []byte, w value) *Error {
		if string(k) == key {
			out = w
		}
		return nil
	})
	return out
}

// scalar is the text of a member that is a string, a number, true or false.
func (v value) scalar(key string) (string, bool) {
	switch w := v.member(key); w.kind() {
	case 0, '{', '[', 'n':
		return "", false
	case '"':
		return w.unquote(), true
	default:
		return string(w.raw), true
	}
}

// Features lists the paths of the context that Feature knows, in alphabetical order.
func (e *Event) Features() (paths []string) {
	for i := range e.Context {
		paths = append(paths, strconv.Itoa(i))
	}
	var walk func(v value, prefix string)
	walk = func(v value, prefix string) {
		if v.kind() != '{' {
			return
		}
		_ = v.fields(func(k []byte, w value) *Error {
			switch w.kind() {
			case '{':
				walk(w, prefix+string(k)+".")
			case '[', 'n':
			default:
				paths = append(paths, prefix+string(k))
			}
			return nil
		})
	}
	walk(value{raw: e.Named}, "")
	slices.Sort(paths)
	return paths
}
