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

// document is the OpenAPI document while it is made, and the mux whose routes it describes.
type document struct {
	huma   huma.API
	opts   *Options
	faults *faults
}
