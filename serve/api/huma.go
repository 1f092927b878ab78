package api

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"troupe/eventlog"
	"troupe/serve"
)

// huma's part is small on purpose: it reads parameters, bounds bodies, writes answers and derives
// the OpenAPI document from Go types. Bodies are decoded by decode.go, because huma's validation
// repeats what was sent in its errors; no type of huma's leaves this package.

// newHuma makes the API object without huma's extras: no links to schemas in answers, no page that
// loads scripts from elsewhere.
func newHuma(mux *http.ServeMux, version string) huma.API {
	c := huma.DefaultConfig("troupe", version)
	c.Info.Description = "Choose an action, send a reward, never lose either. An answer with a status below 300 to a " +
		"decision or a reward means that it is on the disk. Errors are problem+json (RFC 9457)."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Servers = []*huma.Server{{URL: "/", Description: "this server"}}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks, c.Transformers = nil, []huma.Transformer{identified}
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", BearerFormat: "troupe_ID_SECRET",
			Description: "needed when the server has a list of keys"},
	}
	c.Security = []map[string][]string{{"key": {}}}
	c.RejectUnknownQueryParameters = true
	for from, to := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[serve.ModelConfig](): reflect.TypeFor[configDoc](),
		reflect.TypeFor[eventlog.ID]():       reflect.TypeFor[string](),
		reflect.TypeFor[eventlog.Mode]():     reflect.TypeFor[string](),
		reflect.TypeFor[eventlog.Notes]():    reflect.TypeFor[string](),
		reflect.TypeFor[eventlog.Group]():    reflect.TypeFor[string](),
		reflect.TypeFor[eventlog.Event]():    reflect.TypeFor[eventDoc](),
	} {
		c.Components.Schemas.RegisterTypeAlias(from, to)
	}
	return humago.New(verbMux{mux}, c)
}

// identified gives a problem the id of its request.
func identified(ctx huma.Context, _ string, answer any) (any, error) {
	if p, ok := answer.(*Problem); ok {
		requestOf(ctx.Context()).says(p)
	}
	return answer, nil
}

// schemaName names the schema of a type after the type: decideBody is DecideRequest, configDoc is
// Config, and those of the event log begin with Log.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(t.PkgPath(), "/eventlog") {
		return "Log" + name
	}
	if t == reflect.TypeFor[logRow]() {
		return "LogRecord"
	}
	if body, ok := strings.CutSuffix(name, "Body"); ok {
		return body + "Request"
	}
	if t == reflect.TypeFor[patchDoc]() {
		return "ConfigPatch"
	}
	return strings.TrimSuffix(name, "Doc")
}

func newDocument(mux *http.ServeMux, o *Options, f *faults) *document {
	return &document{newHuma(mux, o.Version), o, f}
}

// on makes the route of an operation with a handler.
func on[I, O any](handle func(context.Context, *I) (*O, error)) func(*document, op) {
	return func(d *document, o op) { register(d, o, handle) }
}

// failures are the answers to a call that fails, in the OpenAPI document.
var failures = map[string]string{"307": "the model is at another server, Location", "4XX": "the request is refused", "default": "the server cannot answer now"}

// register adds a route. Errors of handle become problems.
func register[I, O any](d *document, o op, handle func(context.Context, *I) (*O, error)) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	operation := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary,
		Description: strings.TrimSpace(o.doc + "\n\nScope: " + string(o.scope) + "."), DefaultStatus: o.status,
		MaxBodyBytes: -1, BodyReadTimeout: d.opts.Timeout, // bounded below
		Tags: []string{strings.Split(strings.TrimPrefix(o.path, "/v1/"), "/")[0]},
	}
	operation.Middlewares = huma.Middlewares{d.faults.bounded(max(d.opts.MaxBody, o.bytes))}
	if o.bytes > 0 {
		operation.Middlewares = append(operation.Middlewares, inTurn(o.turns))
	}
	operation.Tags[0], _, _ = strings.Cut(operation.Tags[0], ":")
	huma.Register(d.huma, operation, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, d.faults.failed(ctx, err)
		}
		return out, nil
	})
	item := d.huma.OpenAPI().Paths[o.path]
	doc := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch,
		"DELETE": item.Delete}[o.method]
	if o.body != nil {
		schema := d.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(o.body), true, "")
		doc.RequestBody = &huma.RequestBody{Required: true,
			Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: o.example("request")}}}
	}
	if o.bytes > 0 {
		doc.RequestBody = &huma.RequestBody{Required: true,
			Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string",
				Format: "binary"}}}}
	}
	if x := o.example("answer"); x != nil {
		doc.Responses[strconv.Itoa(o.status)].Content["application/json"].Example = x
	}
	problem := d.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	for status, description := range failures {
		doc.Responses[status] = &huma.Response{
			Description: description, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
}

// inTurn lets as many calls with large bodies go on at once as there are turns.
func inTurn(turns chan struct{}) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			next(ctx)
		case <-ctx.Context().Done(): // the caller is gone
			ctx.SetStatus(http.StatusServiceUnavailable)
		}
	}
}

// description is what the document says of a route that huma does not handle.
type description struct {
	tag           string
	text          string             // media type of an answer that is not JSON
	answer, fault any                // values of the types of an answer's and an error's body, nil for none or for bytes
	example       stdjson.RawMessage // of the body
	parameters    map[string]string  // name in the path → what it is
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// describe adds a route that huma does not handle to the document.
func (d *document) describe(o op, about description) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	schema := func(v any) map[string]*huma.MediaType {
		schema := d.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
		return map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	row := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Tags: []string{about.tag},
		Description: strings.TrimSpace(o.doc + "\n\nScope: " + string(o.scope) + "."),
		Responses:   map[string]*huma.Response{strconv.Itoa(o.status): {Description: http.StatusText(o.status)}},
	}
	for status, description := range failures {
		row.Responses[status] = &huma.Response{Description: description}
	}
	if o.scope == "" {
		row.Description, row.Security = o.doc, []map[string][]string{}
	}
	for _, name := range inBraces.FindAllStringSubmatch(o.path, -1) {
		row.Parameters = append(row.Parameters, &huma.Param{Name: name[1], In: "path", Required: true,
			Description: about.parameters[name[1]], Schema: &huma.Schema{Type: "string"}})
	}
	if o.body != nil {
		content := schema(o.body)
		content["application/json"].Example = about.example
		row.RequestBody = &huma.RequestBody{Required: true, Content: content}
	}
	if about.text == "" && about.answer == nil && o.status == http.StatusOK {
		about.text = "application/octet-stream"
	}
	if about.text != "" {
		row.Responses[strconv.Itoa(o.status)].Content = map[string]*huma.MediaType{about.text: {
			Schema: &huma.Schema{Type: "string"}}}
	}
	if about.answer != nil {
		row.Responses[strconv.Itoa(o.status)].Content = schema(about.answer)
	}
	if about.fault != nil {
		for status := range failures {
			content := schema(about.fault)
			if _, ok := about.fault.(Problem); ok {
				content = map[string]*huma.MediaType{"application/problem+json": content["application/json"]}
			}
			row.Responses[status].Content = content
		}
	}
	d.huma.OpenAPI().AddOperation(row)
}

// text fixes the document, as JSON.
func (d *document) text() ([]byte, error) {
	raw, err := stdjson.Marshal(d.huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	var b bytes.Buffer
	if err := stdjson.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
