// Package contract is for tests: it holds what a server answers to the server's own OpenAPI document. Every JSON answer
// must be one that the schema of its operation and status describes, and so must every request that was taken.
package contract

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI document of version 3.1, whose schemas are JSON Schema of 2020-12. Safe for concurrent use.
type Document struct {
	paths []path
	mu    sync.Mutex
	c     *jsonschema.Compiler
	known map[string]*jsonschema.Schema // by their places in the document
	doc   any
}

// path is an entry of paths.
type path struct {
	template string
	form     *regexp.Regexp
	item     map[string]any
}

const place = "https://troupe.invalid/openapi.json"

// Read reads a document.
func Read(text []byte) (*Document, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(place, doc); err != nil {
		return nil, err
	}
	d := &Document{c: c, doc: doc, known: map[string]*jsonschema.Schema{}}
	paths, _ := dig(doc, "paths").(map[string]any)
	braces := regexp.MustCompile(`\\\{(\w+)\\\}`)
	for template, item := range paths {
		form := braces.ReplaceAllStringFunc(regexp.QuoteMeta(template), func(name string) string {
			if strings.Contains(name, "action") { // ids of actions may be any text
				return "(.+)"
			}
			return "([^/:]+)"
		})
		d.paths = append(d.paths, path{template, regexp.MustCompile("^" + form + "$"), item.(map[string]any)})
	}
	slices.SortFunc(d.paths, func(a, b path) int { // those with fewer parameters first
		if n := strings.Count(a.template, "{") - strings.Count(b.template, "{"); n != 0 {
			return n
		}
		return strings.Compare(b.template, a.template)
	})
	return d, nil
}

// dig returns what lies below keys of objects, nil where there is nothing.
func dig(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// Exchange is a request and its answer.
type Exchange struct {
	Method, Path string // the path as it was decoded
	Request      []byte
	Status       int
	Header       http.Header // of the answer
	Answer       []byte
}

// Check returns an error unless the document describes the exchange. A path that it does not have must be answered with a
// problem, or is not of the API.
func (d *Document) Check(x Exchange) error {
	kind, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	i := slices.IndexFunc(d.paths, func(p path) bool { return p.item[strings.ToLower(x.Method)] != nil && p.form.MatchString(x.Path) })
	if i < 0 {
		if kind == "application/problem+json" {
			return d.valid(x, "/components/schemas/Problem", x.Answer, "answer")
		}
		return nil
	}
	p := &d.paths[i]
	at := pointer("paths", p.template, strings.ToLower(x.Method))
	operation := p.item[strings.ToLower(x.Method)]
	if x.Status < 300 && len(x.Request) > 0 && dig(operation, "requestBody", "content", "application/json", "schema") != nil {
		if err := d.valid(x, at+pointer("requestBody", "content", "application/json", "schema"), x.Request, "request"); err != nil {
			return err
		}
	}
	status := strconv.Itoa(x.Status)
	for _, key := range []string{status, status[:1] + "XX", "default"} {
		response := dig(operation, "responses", key)
		if response == nil {
			continue
		}
		if key == "default" && x.Status < 400 {
			break
		}
		content := dig(response, "content", kind)
		switch {
		case content == nil && len(bytes.TrimSpace(x.Answer)) == 0:
			return nil
		case content == nil:
			return fmt.Errorf("%s %s: %d: an answer of %q is not in the document", x.Method, p.template, x.Status, kind)
		case kind != "application/json" && kind != "application/problem+json":
			return nil
		}
		return d.valid(x, at+pointer("responses", key, "content", kind, "schema"), x.Answer, "answer")
	}
	return fmt.Errorf("%s %s: the status %d is not in the document", x.Method, p.template, x.Status)
}

// pointer is a JSON pointer.
func pointer(keys ...string) string {
	var b strings.Builder
	for _, key := range keys {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

// valid checks a body against the schema at a place.
func (d *Document) valid(x Exchange, at string, body []byte, what string) error {
	d.mu.Lock()
	s := d.known[at]
	var err error
	if s == nil {
		escaped := strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(at)
		if s, err = d.c.Compile(place + "#" + escaped); err == nil {
			d.known[at] = s
		}
	}
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s %s: %w", x.Method, x.Path, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		if err = s.Validate(v); err != nil && what == "request" && s.Validate(withoutNull(v)) == nil {
			err = nil // a member that is null is one that is not there
		}
	}
	if err != nil {
		if len(body) > 2000 {
			body = append(body[:2000:2000], "…"...)
		}
		return fmt.Errorf("%s %s, status %d: the %s is not as the document says: %w\n%s", x.Method, x.Path, x.Status, what, err, body)
	}
	return nil
}

// withoutNull returns a value without the members of objects that are null.
func withoutNull(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutNull(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, x := range v {
			if x != nil {
				out[key] = withoutNull(x)
			}
		}
		return out
	}
	return v
}

// Handler checks what a handler answers, and gives faults to fail. It keeps whole bodies, and no streams.
func (d *Document) Handler(h http.Handler, fail func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in bytes.Buffer
		if r.Body != nil && r.ContentLength >= 0 { // what is sent in chunks may never end
			if _, err := in.ReadFrom(r.Body); err != nil {
				h.ServeHTTP(w, r)
				return
			}
			r.Body = replay{bytes.NewReader(in.Bytes()), r.Body}
		}
		x := Exchange{Method: r.Method, Path: r.URL.Path, Request: in.Bytes()}
		out := httptest.NewRecorder()
		defer func() {
			for key, values := range out.Header() {
				w.Header()[key] = values
			}
			x.Status, x.Header, x.Answer = out.Code, out.Header(), out.Body.Bytes()
			if err := d.Check(x); err != nil {
				fail(err)
			}
			w.WriteHeader(out.Code)
			w.Write(out.Body.Bytes())
		}()
		h.ServeHTTP(out, r)
	})
}

// replay is a body that was read.
type replay struct {
	*bytes.Reader
	closer interface{ Close() error }
}

func (r replay) Close() error { return r.closer.Close() }

// Undescribed returns the properties of schemas, at any depth, and the parameters of operations that have no description. A
// property that only refers to a schema has the one of that schema, if the schema has properties or a description.
func (d *Document) Undescribed() (out []string) {
	schemas, _ := dig(d.doc, "components", "schemas").(map[string]any)
	said := func(v any) bool {
		text, _ := dig(v, "description").(string)
		return strings.TrimSpace(text) != ""
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(name, x)
			}
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			for key, p := range properties {
				ref, _ := dig(p, "$ref").(string)
				to := schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
				if !said(p) && (to == nil || !said(to) && dig(to, "properties") == nil) {
					out = append(out, name+"."+key)
				}
				walk(name+"."+key, p)
			}
			for _, key := range []string{"items", "additionalProperties", "allOf", "anyOf", "oneOf"} {
				walk(name, v[key])
			}
		}
	}
	for name, s := range schemas {
		walk(name, s)
	}
	for i := range d.paths {
		for method, o := range d.paths[i].item {
			parameters, _ := dig(o, "parameters").([]any)
			for _, p := range parameters {
				if !said(p) {
					out = append(out, fmt.Sprintf("%s %s %v", method, d.paths[i].template, dig(p, "name")))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
