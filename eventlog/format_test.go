package eventlog

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestFormatPage holds the listing of records in docs/reference/eventlog.md against the code, both ways: every
// field of every record is set alone, and what appears in the bytes (number, wire type, sign) must be
// what the page says under that name; the page has no other fields, messages or kinds.
func TestFormatPage(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/eventlog.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, ok := strings.Cut(string(text), "```proto\n")
	listing, _, closed := strings.Cut(listing, "```")
	if !ok || !closed {
		t.Fatal("docs/reference/eventlog.md has no proto listing")
	}
	page := map[string]string{} // "Decision.model" → "fixed64 1"; "Decision" → "kind 1"
	for _, m := range regexp.MustCompile(`(?s)message (\w+)\s*\{(.*?)\}([^\n]*)`).FindAllStringSubmatch(listing, -1) {
		name, body := m[1], m[2]
		page[name] = regexp.MustCompile(`kind \d+`).FindString(body + m[3])
		body = regexp.MustCompile(`//[^\n]*`).ReplaceAllString(body, "")
		for _, f := range strings.Split(body, ";") {
			if f = strings.TrimSpace(f); f == "" {
				continue
			}
			p := regexp.MustCompile(`^(\w+) (\w+) = (\d+)$`).FindStringSubmatch(f)
			if p == nil {
				t.Fatalf("%s: %q is no field", name, f)
			}
			page[name+"."+p[2]] = p[1] + " " + p[3]
		}
	}

	code := map[string]string{"Event": "", "List": ""}
	probe := func(name string, of reflect.Type, encode func(reflect.Value) []byte) {
		for i := range of.NumField() {
			f := of.Field(i)
			label, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			x := reflect.New(of)
			v := x.Elem().Field(i)
			kind := ""
			switch p := v.Addr().Interface().(type) {
			case *ID:
				*p, kind = 3, "fixed64"
			case *float64:
				*p, kind = 3, "double"
			case *string:
				*p, kind = "abc", "string"
			case *[]byte:
				*p, kind = []byte("abc"), "bytes"
			case *[]float64:
				*p, kind = []float64{3}, "bytes"
			case *[]uint64:
				*p, kind = []uint64{3}, "bytes"
			case *[]uint32:
				*p, kind = []uint32{3}, "bytes"
			case *[]ID:
				*p, kind = []ID{3}, "bytes"
			case *[]Digest:
				*p, kind = []Digest{{3, 3}}, "bytes"
			case *[]Price:
				*p, kind = []Price{{3, 3, 3}}, "bytes"
			case *[]string:
				*p, kind = []string{"abc"}, "bytes"
			case **List:
				*p, kind = &List{Voters: 3}, "List"
			case *[]Number:
				*p, kind = []Number{{"a", 3, 3, 3}}, "bytes"
			case *Event:
				*p, kind = Event{3, 3, 3}, "Event"
			case *bool:
				*p, kind = true, "bool"
			case *int64:
				*p, kind = 3, "sint64"
			case *uint64:
				*p, kind = 3, "uint64"
			default: // uint32, and enumerations of a byte
				v.SetUint(3)
				kind = "uint32"
			}
			wire := map[string]uint32{"fixed64": wireFixed, "double": wireFixed, "string": wireBytes, "bytes": wireBytes, "Event": wireBytes, "List": wireBytes}[kind]
			value := map[string]uint64{"bool": 1, "sint64": 6, "uint64": 3, "uint32": 3, "fixed64": 3}[kind]
			d := decoder{rest: encode(x)}
			for d.next() {
				if _, twice := code[name+"."+label]; twice {
					t.Errorf("%s.%s is written in two fields", name, label)
				}
				code[name+"."+label] = fmt.Sprintf("%s %d", kind, d.num)
				if d.wire != wire || value != 0 && d.u != value {
					t.Errorf("%s.%s is written with wire type %d and value %d, a %s has %d and %d", name, label, d.wire, d.u, kind, wire, value)
				}
			}
			if _, there := code[name+"."+label]; !there || d.err != nil {
				t.Errorf("%s.%s is not written: %v", name, label, d.err)
			}
		}
	}
	probe("Event", reflect.TypeFor[Event](), func(v reflect.Value) []byte {
		d := decoder{rest: putEvent(nil, 1, v.Elem().Interface().(Event))}
		d.next()
		return d.data
	})
	probe("List", reflect.TypeFor[List](), func(v reflect.Value) []byte {
		l := v.Elem().Interface().(List)
		return l.append()
	})
	for k := range kindNames {
		r := newRecord(Kind(k))
		if r == nil {
			continue
		}
		of := reflect.TypeOf(r).Elem()
		code[of.Name()] = fmt.Sprintf("kind %d", k)
		probe(of.Name(), of, func(v reflect.Value) []byte { return v.Interface().(Record).append(nil) })
	}
	for name, want := range code {
		if got, there := page[name]; !there || got != want {
			t.Errorf("%s: docs/reference/eventlog.md says %q, the code writes %q", name, got, want)
		}
	}
	for name := range page {
		if _, there := code[name]; !there {
			t.Errorf("%s: docs/reference/eventlog.md has it, the code does not", name)
		}
	}
}
