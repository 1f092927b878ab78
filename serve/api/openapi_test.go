package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"troupe/internal/contract"
	"troupe/internal/golden"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/personalizer"
)

// The document of the program, with the routes of its adapters, is checked in, so that a change of the API is seen in
// review. Every route of the document is there, and every reference leads somewhere.
func TestOpenAPI(t *testing.T) {
	const file = "../../docs/reference/openapi.json"
	var none struct{ serve.Service } // no call comes so far
	e, err := api.New(none, api.Options{Adapters: []api.Adapter{personalizer.New("")}})
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path string) string {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1"+path, nil))
		return w.Body.String()
	}
	golden.Compare(t, file, string(e.OpenAPI()))
	document, err := contract.Read(e.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	if names := document.Undescribed(); len(names) > 0 {
		t.Errorf("these have no description; give their fields the tag doc: %s", strings.Join(names, ", "))
	}
	if call("GET", "/openapi.json") != string(e.OpenAPI()) {
		t.Error("/openapi.json is another document")
	}
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
			Responses map[string]any
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(e.OpenAPI(), &doc); err != nil || doc.OpenAPI != "3.1.0" || len(doc.Paths) < 15 {
		t.Fatalf("%v, version %q, %d paths", err, doc.OpenAPI, len(doc.Paths))
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if method == "parameters" {
				continue
			}
			concrete := strings.NewReplacer("{model}", "m", "{event}", "e", "{action}", "a").Replace(path)
			if body := call(strings.ToUpper(method), concrete); strings.Contains(body, "there is no such path") ||
				strings.Contains(body, "method_not_allowed") {
				t.Errorf("%s %s has no handler: %s", method, path, body)
			}
			if o.Responses["default"] == nil {
				t.Errorf("%s %s does not say how it fails", method, path)
			}
			if c, ok := o.RequestBody.Content["application/json"]; ok {
				if name := strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/"); doc.Components.Schemas[name] == nil {
					t.Errorf("%s %s: no schema %q", method, path, c.Schema.Ref)
				}
			}
			if _, ok := o.RequestBody.Content["application/octet-stream"]; ok != (strings.HasSuffix(path, ":createFrom") || strings.HasSuffix(path, ":arrive")) {
				t.Errorf("%s %s: takes octets: %v", method, path, ok)
			}
		}
	}
}
