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
	c.CreateHooks, c.Transformers = nil, nil
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
		reflect.TypeFor[eventlog.JSON]():     reflect.TypeFor[stdjson.RawMessage](),
		reflect.TypeFor[eventlog.Event]():    reflect.TypeFor[eventDoc](),
	} {
		c.Components.Schemas.RegisterTypeAlias(from, to)
	}
	return humago.New(verbMux{mux}, c)
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
	return strings.TrimSuffix(name, "Doc")
}

// configDoc describes the JSON of a serve.ModelConfig.
type configDoc struct {
	ID            string         `json:"id" required:"false" doc:"public name: letters, digits, . _ -, at most 64; only a new model needs it"`
	Policy        map[string]any `json:"policy,omitempty" doc:"kind and options of a policy, as in an experiment file; default the practical ensemble"`
	Features      map[string]any `json:"features,omitempty" doc:"a schema of named features; {\"model\": \"hashed\"} (default) reads any request"`
	Dim           int            `json:"dim,omitempty" doc:"plain vectors of this length instead of features"`
	Sigma         float64        `json:"sigma,omitempty" doc:"subgaussian constant of the noise; default half the range of rewards"`
	Floor         float64        `json:"floor,omitempty" minimum:"0" maximum:"1" doc:"probability of a uniform candidate"`
	Floors        shares         `json:"floors,omitempty" doc:"by the id of an action: the least probability that it is played with"`
	Caps          shares         `json:"caps,omitempty" doc:"by the id of an action: the largest probability that it is played with"`
	Reward        rewardDoc      `json:"reward,omitempty"`
	Mode          string         `json:"mode,omitempty" enum:"online,apprentice,shadow,frozen,guarded"`
	Guard         *guardDoc      `json:"guard,omitempty" doc:"for mode guarded: the baseline is played unless the policy cannot have earned less by more than the margin, in the mean of all decisions"`
	Actions       []entryDoc     `json:"actions,omitempty" doc:"catalogue of actions"`
	Unit          string         `json:"unit,omitempty" doc:"a path of the context, such as context.user.id: decisions with one value there play one member of the policy within an epoch, and the log has a keyed hash of the value; a request without it is refused"`
	LogCandidates string         `json:"log_candidates,omitempty" enum:"full,none"`
}

type guardDoc struct {
	Margin     float64 `json:"margin" exclusiveMinimum:"0" doc:"how much less than the baseline a decision may earn in the mean, in units of reward"`
	Confidence float64 `json:"confidence,omitempty" exclusiveMinimum:"0" exclusiveMaximum:"1" doc:"probability that the margin is kept, at all times together; default 0.95"`
}

type shares map[string]float64

type rewardDoc struct {
	Min     float64  `json:"min,omitempty" doc:"default -1"`
	Max     float64  `json:"max,omitempty" doc:"default 1"`
	Rule    string   `json:"rule,omitempty" enum:"first,sum,last"`
	Window  string   `json:"window,omitempty" doc:"how long rewards count, such as 10m or PT10M"`
	Default *float64 `json:"default,omitempty" doc:"reward of an event that got none"`
}

type entryDoc struct {
	ID       string             `json:"id"`
	Features stdjson.RawMessage `json:"features,omitempty"`
}

type eventDoc struct {
	Epoch string `json:"epoch"`
	Batch uint64 `json:"batch"`
	Index uint32 `json:"index"`
}

// bodyIn is the input of a route with a body and nothing else.
type bodyIn struct{ RawBody []byte }

// modelIn names a model in the path.
type modelIn struct {
	Model string `path:"model" maxLength:"64" doc:"name of the model"`
}

// eventIn names an event in the path.
type eventIn struct {
	Event string `path:"event" maxLength:"256" doc:"id of the event, as decide answered it"`
}

// failures are the answers to a call that fails, in the OpenAPI document.
var failures = map[string]string{"4XX": "the request is refused", "default": "the server cannot answer now"}

// register adds a route. Errors of handle become problems.
func register[I, O any](a *API, o op, handle func(context.Context, *I) (*O, error)) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	operation := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary,
		Description: strings.TrimSpace(o.doc + "\n\nScope: " + string(o.scope) + "."), DefaultStatus: o.status,
		MaxBodyBytes: a.opts.MaxBody, BodyReadTimeout: a.opts.Timeout,
		Tags: []string{strings.Split(strings.TrimPrefix(o.path, "/v1/"), "/")[0]},
	}
	if o.bytes > 0 {
		operation.MaxBodyBytes = max(operation.MaxBodyBytes, o.bytes)
		operation.Middlewares = huma.Middlewares{a.inTurn}
	}
	operation.Tags[0], _, _ = strings.Cut(operation.Tags[0], ":")
	huma.Register(a.huma, operation, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			p := problemOf(err)
			requestOf(ctx).problem = p.Code
			a.explain(ctx, p, err)
			return nil, p
		}
		return out, nil
	})
	item := a.huma.OpenAPI().Paths[o.path]
	doc := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch,
		"DELETE": item.Delete}[o.method]
	if o.body != nil {
		schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(o.body), true, "")
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
	problem := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	for status, description := range failures {
		doc.Responses[status] = &huma.Response{
			Description: description, Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
}

// inTurn lets maxImports calls with large bodies go on at once.
func (a *API) inTurn(ctx huma.Context, next func(huma.Context)) {
	select {
	case a.imports <- struct{}{}:
		defer func() { <-a.imports }()
		next(ctx)
	case <-ctx.Context().Done(): // the caller is gone
		ctx.SetStatus(http.StatusServiceUnavailable)
	}
}

// description is what the document says of a route that huma does not handle.
type description struct {
	tag           string
	answer, fault any                // values of the types of an answer's and an error's body, nil for none or for bytes
	example       stdjson.RawMessage // of the body
	parameters    map[string]string  // name in the path → what it is
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// describe adds a route that huma does not handle to the document.
func (a *API) describe(o op, about description) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	schema := func(v any) map[string]*huma.MediaType {
		schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
		return map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
	d := &huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Tags: []string{about.tag},
		Description: strings.TrimSpace(o.doc + "\n\nScope: " + string(o.scope) + "."),
		Responses:   map[string]*huma.Response{strconv.Itoa(o.status): {Description: http.StatusText(o.status)}},
	}
	for status, description := range failures {
		d.Responses[status] = &huma.Response{Description: description}
	}
	if o.scope == "" {
		d.Description, d.Security = o.doc, []map[string][]string{}
	}
	for _, name := range inBraces.FindAllStringSubmatch(o.path, -1) {
		d.Parameters = append(d.Parameters, &huma.Param{Name: name[1], In: "path", Required: true,
			Description: about.parameters[name[1]], Schema: &huma.Schema{Type: "string"}})
	}
	if o.body != nil {
		content := schema(o.body)
		content["application/json"].Example = about.example
		d.RequestBody = &huma.RequestBody{Required: true, Content: content}
	}
	if about.answer != nil {
		d.Responses[strconv.Itoa(o.status)].Content = schema(about.answer)
	}
	if about.fault != nil {
		for status := range failures {
			d.Responses[status].Content = schema(about.fault)
		}
	}
	a.huma.OpenAPI().AddOperation(d)
}

// explain writes the cause of a fault of ours into the log; what is the caller's fault stays with
// the caller.
func (a *API) explain(ctx context.Context, p *Problem, err error) {
	if p.Status == http.StatusInternalServerError {
		a.opts.Logger.Error("a call failed", "request", requestOf(ctx).id, "error", err)
	}
}

// document fixes the OpenAPI document and the page made of it.
func (a *API) document() error {
	raw, err := stdjson.Marshal(a.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("OpenAPI document: %w", err)
	}
	var b bytes.Buffer
	if err := stdjson.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	a.openapi = b.Bytes()
	a.docs, err = a.docsPage()
	return err
}
