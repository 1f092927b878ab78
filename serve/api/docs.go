package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

var (
	//go:embed page/docs.html
	docsText string

	docsTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("docs").Parse(docsText)) })
)

// What the page of the API is made of.
type (
	docField  struct{ Name, Type, Link, Doc string }
	docAnswer struct {
		Status, Schema string
	}
	docOperation struct {
		ID, Method, Path, Summary, Doc, Body string
		Example                              string // of the body
		Fields                               []docField
		Answer                               docAnswer
	}
	docGroup struct {
		Name, Title string
		Operations  []docOperation
	}
	docSchema struct {
		Name   string
		Fields []docField
	}
	docProblem struct {
		Code, Title, Advice string
		Status              int
	}
)

// docsPage renders the OpenAPI document. Nothing on the page comes from elsewhere.
func docsPage(doc *huma.OpenAPI, all adapters, version string) ([]byte, error) {
	groups := []docGroup{{"models", "Models", nil}, {"events", "Events", nil}, {"rewards", "Rewards", nil},
		{"cluster", "Cluster", nil}, {"log", "Log", nil}, {"server", "Server", nil}}
	for _, x := range all {
		tag, title := x.Tag()
		groups = append(groups, docGroup{tag, title, nil})
	}
	for _, path := range sortedKeys(doc.Paths) {
		item := doc.Paths[path]
		for _, o := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if o == nil {
				continue
			}
			d := docOperation{ID: o.OperationID, Method: o.Method, Path: path, Summary: o.Summary, Doc: o.Description}
			for _, p := range o.Parameters {
				name := p.Name
				if p.In != "path" {
					name = p.In + " " + name
				}
				f := fieldOf(name, p.Schema)
				f.Doc = p.Description
				d.Fields = append(d.Fields, f)
			}
			if o.RequestBody != nil {
				if body := o.RequestBody.Content["application/json"]; body != nil {
					d.Body = refName(body.Schema)
					d.Example = fmt.Sprintf("%s", body.Example)
				}
			}
			for status, r := range o.Responses {
				if failures[status] != "" {
					continue
				}
				d.Answer.Status = status
				if c := r.Content["application/json"]; c != nil {
					d.Answer.Schema = refName(c.Schema)
				}
			}
			i := slices.IndexFunc(groups, func(g docGroup) bool { return g.Name == o.Tags[0] })
			if i < 0 {
				return nil, fmt.Errorf("api: route %s has the unknown tag %q", path, o.Tags[0])
			}
			groups[i].Operations = append(groups[i].Operations, d)
		}
	}
	var schemas []docSchema
	known := doc.Components.Schemas.Map()
	for _, name := range sortedKeys(known) {
		s := docSchema{Name: name}
		for _, prop := range sortedKeys(known[name].Properties) {
			f := fieldOf(prop, known[name].Properties[prop])
			if slices.Contains(known[name].Required, prop) {
				f.Name += " *"
			}
			s.Fields = append(s.Fields, f)
		}
		schemas = append(schemas, s)
	}
	var kinds []docProblem
	for _, p := range problems {
		kinds = append(kinds, docProblem{p.code, p.title, p.advice, p.status})
	}
	var b bytes.Buffer
	err := docsTemplate().Execute(&b, map[string]any{
		"Style": template.CSS(styleSheet), "Intro": doc.Info.Description, "Groups": groups, "Schemas": schemas,
		"Problems": kinds, "Version": version,
	})
	return b.Bytes(), err
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func refName(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

// fieldOf describes a field in words.
func fieldOf(name string, s *huma.Schema) docField {
	f := docField{Name: name, Doc: s.Description, Type: s.Type, Link: refName(s)}
	switch {
	case f.Link != "":
		f.Type = f.Link
	case s.Type == "array" && s.Items != nil:
		item := fieldOf("", s.Items)
		f.Type, f.Link = "list of "+item.Type, item.Link
	case s.Type == "":
		f.Type = "any JSON value"
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, e := range s.Enum {
			words = append(words, fmt.Sprint(e))
		}
		f.Type = strings.Join(words, ", ")
	}
	return f
}
