package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"troupe/serve"
)

// modelOut is a model with its ETag.
type modelOut struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     serve.Model
}

func answerModel(m serve.Model, err error) (*modelOut, error) {
	if err != nil {
		return nil, err
	}
	return &modelOut{ETag: etag(m.ConfigVersion), Body: m}, nil
}

func answerNewModel(m serve.Model, err error) (*modelOut, error) {
	out, err := answerModel(m, err)
	if err == nil {
		out.Location = "/v1/models/" + m.Name
	}
	return out, err
}

func etag(version uint64) string { return fmt.Sprintf(`"%d"`, version) }

// changeIn is a change of a configuration.
type changeIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	IfMatch string `header:"If-Match" doc:"ETag of the configuration that was read, or * for any"`
	RawBody []byte
}

// version reads If-Match; 0 stands for any.
func (in *changeIn) version() (uint64, error) { return readIfMatch(in.IfMatch) }

func readIfMatch(s string) (uint64, error) {
	if s == "" {
		return 0, problem("precondition_required", "header.If-Match", "send the ETag of the configuration, or *")
	}
	if s == "*" {
		return 0, nil
	}
	var v uint64
	if _, err := fmt.Sscanf(s, `"%d"`, &v); err != nil || v == 0 || etag(v) != s {
		return 0, problem("precondition_failed", "header.If-Match", "is not an ETag of this model")
	}
	return v, nil
}

// changed tells a change that came too late from other conflicts.
func changed(version uint64, m serve.Model, err error) (serve.Model, error) {
	if err != nil && version != 0 && serve.CodeOf(err) == serve.Conflict {
		return m, problem("precondition_failed", "header.If-Match", "the configuration has changed since it was read")
	}
	return m, err
}

type pageIn struct {
	PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"largest number of entries"`
	PageToken string `query:"page_token" maxLength:"512" doc:"next_page_token of the page before"`
}

// afterToken reads a page token: the last name of the page before, in base64 because callers should not make
// their own.
func afterToken(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", &fieldError{Field: "query.page_token", Want: "is not a token of this server"}
	}
	return string(b), nil
}

func pageToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

type modelList struct {
	Models        []serve.Model `json:"models" doc:"the models that the key may see, by name"`
	NextPageToken string        `json:"next_page_token,omitempty" doc:"absent on the last page"`
}

type cloneBody struct {
	Name  string `json:"name" doc:"name of the copy"`
	AtSeq uint64 `json:"at_seq,omitempty" doc:"state after this sequence number; 0 means now"`

	Policy   json.RawMessage `json:"policy,omitempty" doc:"another policy for the copy, which then learns from all events of the model until at_seq"`
	Features json.RawMessage `json:"features,omitempty" doc:"with hashed features: other bits or pairs"`
	Sigma    json.RawMessage `json:"sigma,omitempty" doc:"another sigma"`
}

// change reads what the copy has otherwise, nil for nothing.
func (b *cloneBody) change() (*serve.ModelChange, error) {
	given := map[string]json.RawMessage{}
	for key, value := range map[string]json.RawMessage{"policy": b.Policy, "features": b.Features, "sigma": b.Sigma} {
		if len(value) > 0 {
			given[key] = value
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	var c serve.ModelConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, serve.ConfigError(err)
	}
	return &serve.ModelChange{Policy: c.Policy, Features: c.Features, Sigma: c.Sigma}, nil
}

type rollbackBody struct {
	ToSeq     uint64 `json:"to_seq" doc:"state after this sequence number"`
	KeepLater bool   `json:"keep_later,omitempty" doc:"rewards of later decisions still count"`
}

type stateOut struct {
	ContentType string `header:"Content-Type"`
	Body        any
}

// readConfig reads a configuration strictly.
func readConfig(body []byte) (serve.ModelConfig, error) {
	var raw jsontext.Value
	if err := decodeJSON(body, &raw); err != nil {
		return serve.ModelConfig{}, err
	}
	var c serve.ModelConfig
	if err := c.UnmarshalJSON(raw); err != nil {
		return c, serve.ConfigError(err)
	}
	return c, nil
}

// modelCalls make, change and read models.
type modelCalls struct {
	svc     serve.ModelService
	imports chan struct{} // semaphore of createFrom
}

func (a *modelCalls) create(ctx context.Context, in *bodyIn) (*modelOut, error) {
	c, err := readConfig(in.RawBody)
	if err != nil {
		return nil, err
	}
	if err := allow(ctx, Admin, c.ID); err != nil {
		return nil, err
	}
	if err := cleanCatalogue(c.Actions, nil); err != nil {
		return nil, err
	}
	return answerNewModel(a.svc.CreateModel(ctx, c, caller(ctx)))
}

func (a *modelCalls) list(ctx context.Context, in *pageIn) (*reply[modelList], error) {
	if err := allow(ctx, Read, ""); err != nil {
		return nil, err
	}
	after, err := afterToken(in.PageToken)
	if err != nil {
		return nil, err
	}
	out := &reply[modelList]{modelList{Models: []serve.Model{}}}
	for {
		models, more, err := a.svc.ListModels(ctx, after, in.PageSize)
		if err != nil {
			return nil, err
		}
		for i, m := range models {
			after = m.Name
			if requestOf(ctx).holder.sees(m.Name) {
				m.Config.Actions = nil // half a megabyte each, at most
				out.Body.Models = append(out.Body.Models, m)
			}
			if len(out.Body.Models) == in.PageSize {
				if more || i < len(models)-1 {
					out.Body.NextPageToken = pageToken(after)
				}
				return out, nil
			}
		}
		if !more {
			return out, nil
		}
	}
}

func (a *modelCalls) get(ctx context.Context, in *modelIn) (*modelOut, error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	return answerModel(a.svc.GetModel(ctx, in.Model))
}

func (a *modelCalls) replace(ctx context.Context, in *changeIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	c, err := readConfig(in.RawBody)
	if err != nil {
		return nil, err
	}
	if c.ID == "" {
		c.ID = in.Model // as in the path
	}
	old, err := a.svc.GetModel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	if err := cleanCatalogue(c.Actions, old.Config.Actions); err != nil {
		return nil, err
	}
	m, err := a.svc.ConfigureModel(ctx, in.Model, version, c, caller(ctx))
	return answerModel(changed(version, m, err))
}

func (a *modelCalls) change(ctx context.Context, in *changeIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	var patch jsontext.Value
	if err := decodeJSON(in.RawBody, &patch); err != nil {
		return nil, err
	}
	return answerModel(a.edit(ctx, in.Model, version, func(c *serve.ModelConfig) error {
		before := c.Actions
		changed, err := c.Patch(patch)
		if err != nil {
			return serve.ConfigError(err)
		}
		*c = changed
		return cleanCatalogue(c.Actions, before)
	}))
}

func (a *modelCalls) delete(ctx context.Context, in *modelIn) (*struct{}, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	return nil, a.svc.DeleteModel(ctx, in.Model, caller(ctx))
}

func (a *modelCalls) pause(ctx context.Context, in *modelIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	return answerModel(a.svc.PauseModel(ctx, in.Model, caller(ctx)))
}

func (a *modelCalls) resume(ctx context.Context, in *modelIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	return answerModel(a.svc.ResumeModel(ctx, in.Model, caller(ctx)))
}

type cloneIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	RawBody []byte
}

func (a *modelCalls) clone(ctx context.Context, in *cloneIn) (*modelOut, error) {
	var b cloneBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	for _, name := range []string{in.Model, b.Name} {
		if err := allow(ctx, Admin, name); err != nil {
			return nil, err
		}
	}
	change, err := b.change()
	if err != nil {
		return nil, err
	}
	return answerNewModel(a.svc.CloneModel(ctx, serve.CloneRequest{From: in.Model, Name: b.Name, AtSeq: b.AtSeq,
		Change: change, Caller: caller(ctx)}))
}

type createFromIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the new model"`
	RawBody []byte `contentType:"application/octet-stream"`
}

// maxImport bounds the body of createModelFrom.
const maxImport = 64 << 20

// maxImports bounds the imports at once: each holds its body and the model that it makes. Others wait before their
// bodies are read.
const maxImports = 2

func (a *modelCalls) createFrom(ctx context.Context, in *createFromIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	return answerNewModel(a.svc.CreateModelFrom(ctx, in.Model, in.RawBody, caller(ctx)))
}

type rollbackIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	RawBody []byte
}

func (a *modelCalls) rollback(ctx context.Context, in *rollbackIn) (*modelOut, error) {
	var b rollbackBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	return answerModel(a.svc.RollbackModel(ctx, serve.RollbackRequest{Name: in.Model, ToSeq: b.ToSeq,
		KeepLater: b.KeepLater, Caller: caller(ctx)}))
}

type stateIn struct {
	Model  string `path:"model" maxLength:"64" doc:"name of the model"`
	Format string `query:"format" enum:"json,binary,model" default:"json" doc:"binary: the policy's snapshot; model: all that createFrom takes, for another server or a later evaluation"`
	Seq    uint64 `query:"seq" doc:"with format=model: the state after this log entry; default is now"`
}

func (a *modelCalls) state(ctx context.Context, in *stateIn) (*stateOut, error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	if in.Seq != 0 && in.Format != "model" {
		return nil, &fieldError{Field: "query.seq", Want: "goes with format=model"}
	}
	if in.Format == "model" {
		b, err := a.svc.SaveModel(ctx, in.Model, in.Seq)
		if err != nil {
			return nil, err
		}
		return &stateOut{"application/octet-stream", b}, nil
	}
	s, err := a.svc.State(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	if in.Format == "binary" {
		return &stateOut{"application/octet-stream", s.Snapshot}, nil
	}
	return &stateOut{"application/json", s}, nil
}

// edit reads a configuration, changes it and writes it back under the version that it read. When the caller
// named no version, it tries again after another change in between.
func (a *modelCalls) edit(ctx context.Context, model string, version uint64,
	change func(*serve.ModelConfig) error) (serve.Model, error) {
	for try := 0; ; try++ {
		m, err := a.svc.GetModel(ctx, model)
		if err != nil {
			return m, err
		}
		if version != 0 && version != m.ConfigVersion {
			return m, problem("precondition_failed", "header.If-Match",
				"the configuration has changed since it was read")
		}
		c := m.Config
		if err := change(&c); err != nil {
			return m, err
		}
		m, err = a.svc.ConfigureModel(ctx, model, m.ConfigVersion, c, caller(ctx))
		if err != nil && version == 0 && try < 10 && serve.CodeOf(err) == serve.Conflict {
			continue
		}
		return changed(version, m, err)
	}
}
