package api

import (
	"embed"
	stdjson "encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
)

// op is one operation: a row of the OpenAPI document and the route that serves it.
type op struct {
	id, method, path string
	summary          string
	doc              string
	scope            Scope
	body             any           // value of the type of the body, nil for none
	bytes            int64         // the body is that many bytes at most, not JSON
	turns            chan struct{} // semaphore of the calls with such a body
	status           int           // of success, default 200
	route            func(*document, op)
}

// reply is an answer with a body and no headers.
type reply[T any] struct{ Body T }

// examples are the bodies and answers in the OpenAPI document, ID.request.json and ID.answer.json. A test
// sends each of them to a server.
//
//go:embed testdata/examples/*.json
var examples embed.FS

// example returns the example of an operation, nil when there is none. kind is request or answer.
func (o *op) example(kind string) stdjson.RawMessage {
	b, err := examples.ReadFile(fmt.Sprintf("testdata/examples/%s.%s.json", o.id, kind))
	if err != nil {
		return nil
	}
	return b
}

// by returns an operation with its route.
func (o op) by(route func(*document, op)) op {
	o.route = route
	return o
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

// configDoc holds the place of the schema of a serve.ModelConfig until describeConfig makes it.
type configDoc struct{}

// patchDoc is the same of a merge patch.
type patchDoc struct{}

type eventDoc struct {
	Epoch string `json:"epoch" doc:"random number of the process that wrote the entry"`
	Batch uint64 `json:"batch" doc:"number of its batch"`
	Index uint32 `json:"index" doc:"place in the batch, from 0"`
}

// document is the OpenAPI document while it is made, and the mux whose routes it describes.
type document struct {
	huma   huma.API
	opts   *Options
	faults *faults
}
