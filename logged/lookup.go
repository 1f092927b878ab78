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
	return e.lookup(path).scalar()
}

// FeatureList is a list of the context by its path: the texts of its strings, numbers, true and false. ok is false
// where the event does not have it, and for a list with something else in it.
func (e *Event) FeatureList(path string) (items []string, ok bool) {
	v := e.lookup(strings.TrimPrefix(path, "context."))
	if v.kind() != '[' {
		return nil, false
	}
	ok = true
	_ = v.each(func(_ int, w value) *Error {
		text, scalar := w.scalar()
		items, ok = append(items, text), ok && scalar
		return nil
	})
	return items, ok
}

// lookup returns the value of the context at a path, an empty one where there is none. A key with the rest of the path
// for its name comes before an object.
func (e *Event) lookup(path string) value {
	v := value{raw: e.Named}
	for {
		if w := v.member(path); w.kind() != 0 && w.kind() != '{' && w.kind() != 'n' {
			return w
		}
		head, rest, more := strings.Cut(path, ".")
		if !more {
			return value{}
		}
		if v = v.member(head); v.kind() != '{' {
			return value{}
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

// scalar is the text of a string, a number, true or false.
func (v value) scalar() (string, bool) {
	switch v.kind() {
	case 0, '{', '[', 'n':
		return "", false
	case '"':
		return v.unquote(), true
	default:
		return string(v.raw), true
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
