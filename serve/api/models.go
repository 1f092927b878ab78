package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

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
	PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"at most so many entries"`
	PageToken string `query:"page_token" maxLength:"512" doc:"next_page_token of the page before"`
}

// afterToken reads a token; it is the last name, in a form that nobody is tempted to write by hand.
func afterToken(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", &fieldError{Field: "query.page_token", Want: "is not a token of this server"}
	}
	return string(b), nil
}

func pageToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

type modelList struct {
	Models        []serve.Model `json:"models"`
	NextPageToken string        `json:"next_page_token,omitempty" doc:"absent on the last page"`
}

type entryList struct {
	Actions       []entryDoc `json:"actions"`
	NextPageToken string     `json:"next_page_token,omitempty"`
}

type cloneBody struct {
	Name  string `json:"name" doc:"name of the copy"`
	AtSeq uint64 `json:"at_seq,omitempty" doc:"state after this sequence number; 0 means now"`
}

type rollbackBody struct {
	ToSeq     uint64 `json:"to_seq" doc:"state after this sequence number"`
	KeepLater bool   `json:"keep_later,omitempty" doc:"rewards of later decisions still count"`
}

type actionsBody struct {
	Actions []serve.Action `json:"actions" doc:"entries to add or to replace, by id"`
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

func (a *API) modelRoutes() {
	register(a, op{id: "createModel", method: "POST", path: "/v1/models", scope: Admin, status: http.StatusCreated,
		example: `{"id": "news", "floor": 0.02, "reward": {"min": 0, "max": 1, "window": "1h"}}`,
		summary: "Create a model", body: configDoc{},
		doc: "Only the id is needed: the default is an ensemble that learns its features from the first request."},
		func(ctx context.Context, in *bodyIn) (*modelOut, error) {
			c, err := readConfig(in.RawBody)
			if err != nil {
				return nil, err
			}
			if err := a.allow(ctx, Admin, c.ID); err != nil {
				return nil, err
			}
			return answerNewModel(a.svc.CreateModel(ctx, c, caller(ctx)))
		})
	register(a, op{id: "listModels", method: "GET", path: "/v1/models", scope: Read, summary: "List the models",
		doc: "In the order of their names, without their catalogues; a key sees the models of its patterns."},
		func(ctx context.Context, in *pageIn) (*struct{ Body modelList }, error) {
			if err := a.allow(ctx, Read, ""); err != nil {
				return nil, err
			}
			after, err := afterToken(in.PageToken)
			if err != nil {
				return nil, err
			}
			out := &struct{ Body modelList }{modelList{Models: []serve.Model{}}}
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
		})
	register(a, op{id: "getModel", method: "GET", path: "/v1/models/{model}", scope: Read, summary: "Read a model",
		doc: "The ETag names the configuration; a change sends it back in If-Match."},
		func(ctx context.Context, in *modelIn) (*modelOut, error) {
			if err := a.allow(ctx, Read, in.Model); err != nil {
				return nil, err
			}
			return answerModel(a.svc.GetModel(ctx, in.Model))
		})
	register(a, op{id: "replaceModel", method: "PUT", path: "/v1/models/{model}", scope: Admin, body: configDoc{},
		example: `{"id": "news", "floor": 0.05, "reward": {"min": 0, "max": 1, "window": "1h"}}`,
		summary: "Replace a configuration", doc: "What shapes the state (id, policy, features, dim, sigma) cannot change."},
		func(ctx context.Context, in *changeIn) (*modelOut, error) {
			if err := a.allow(ctx, Admin, in.Model); err != nil {
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
				c.ID = in.Model // the path has said it
			}
			m, err := a.svc.ConfigureModel(ctx, in.Model, version, c, caller(ctx))
			return answerModel(changed(version, m, err))
		})
	register(a, op{id: "changeModel", method: "PATCH", path: "/v1/models/{model}", scope: Admin, body: configDoc{},
		example: `{"reward": {"window": "30m"}}`,
		summary: "Change a configuration", doc: "The body is a merge patch (RFC 7396): what it does not name stays, null takes away."},
		func(ctx context.Context, in *changeIn) (*modelOut, error) {
			if err := a.allow(ctx, Admin, in.Model); err != nil {
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
				old, err := c.MarshalJSON()
				if err != nil {
					return err
				}
				merged, err := mergePatch(old, patch)
				if err != nil {
					return err
				}
				*c, err = readConfig(merged)
				return err
			}))
		})
	register(a, op{id: "deleteModel", method: "DELETE", path: "/v1/models/{model}", scope: Admin, status: http.StatusNoContent,
		summary: "Delete a model", doc: "Rewards of its decisions are ignored from now on. The name is free."},
		func(ctx context.Context, in *modelIn) (*struct{}, error) {
			if err := a.allow(ctx, Admin, in.Model); err != nil {
				return nil, err
			}
			return nil, a.svc.DeleteModel(ctx, in.Model, caller(ctx))
		})
	for _, act := range []struct {
		verb, summary, doc string
		do                 func(context.Context, string, string) (serve.Model, error)
	}{
		{"pause", "Pause a model", "Decisions are answered 409 paused; rewards still count.", a.svc.PauseModel},
		{"resume", "Resume a model", "Ends a pause.", a.svc.ResumeModel},
	} {
		register(a, op{id: act.verb + "Model", method: "POST", path: "/v1/models/{model}:" + act.verb, scope: Admin, summary: act.summary, doc: act.doc},
			func(ctx context.Context, in *modelIn) (*modelOut, error) {
				if err := a.allow(ctx, Admin, in.Model); err != nil {
					return nil, err
				}
				return answerModel(act.do(ctx, in.Model, caller(ctx)))
			})
	}
	register(a, op{id: "cloneModel", method: "POST", path: "/v1/models/{model}:clone", scope: Admin, status: http.StatusCreated,
		example: `{"name": "news-copy"}`,
		body:    cloneBody{}, summary: "Copy a model", doc: "A new model with the configuration and the state, now or at a sequence number."},
		func(ctx context.Context, in *struct {
			Model   string `path:"model" maxLength:"64" doc:"name of the model"`
			RawBody []byte
		}) (*modelOut, error) {
			var b cloneBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			for _, name := range []string{in.Model, b.Name} {
				if err := a.allow(ctx, Admin, name); err != nil {
					return nil, err
				}
			}
			return answerNewModel(a.svc.CloneModel(ctx, serve.CloneRequest{From: in.Model, Name: b.Name, AtSeq: b.AtSeq, Caller: caller(ctx)}))
		})
	register(a, op{id: "rollbackModel", method: "POST", path: "/v1/models/{model}:rollback", scope: Admin,
		example: `{"to_seq": 12}`,
		body:    rollbackBody{}, summary: "Take a model back to an earlier state", doc: "The log keeps what came after; the state forgets it."},
		func(ctx context.Context, in *struct {
			Model   string `path:"model" maxLength:"64" doc:"name of the model"`
			RawBody []byte
		}) (*modelOut, error) {
			var b rollbackBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			if err := a.allow(ctx, Admin, in.Model); err != nil {
				return nil, err
			}
			return answerModel(a.svc.RollbackModel(ctx, serve.RollbackRequest{Name: in.Model, ToSeq: b.ToSeq, KeepLater: b.KeepLater, Caller: caller(ctx)}))
		})
	register(a, op{id: "getState", method: "GET", path: "/v1/models/{model}/state", scope: Read, summary: "Read the state of the policy",
		doc: "The estimate with the names of its coordinates, or with format=binary everything: the policy's snapshot."},
		func(ctx context.Context, in *struct {
			Model  string `path:"model" maxLength:"64" doc:"name of the model"`
			Format string `query:"format" enum:"json,binary" default:"json"`
		}) (*stateOut, error) {
			if err := a.allow(ctx, Read, in.Model); err != nil {
				return nil, err
			}
			s, err := a.svc.State(ctx, in.Model)
			if err != nil {
				return nil, err
			}
			if in.Format == "binary" {
				return &stateOut{"application/octet-stream", s.Snapshot}, nil
			}
			return &stateOut{"application/json", s}, nil
		})
	a.catalogueRoutes()
}

func (a *API) catalogueRoutes() {
	register(a, op{id: "listActions", method: "GET", path: "/v1/models/{model}/actions", scope: Read, summary: "Read the catalogue of actions"},
		func(ctx context.Context, in *struct {
			Model     string `path:"model" maxLength:"64" doc:"name of the model"`
			PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"at most so many entries"`
			PageToken string `query:"page_token" maxLength:"512" doc:"next_page_token of the page before"`
		}) (*struct{ Body entryList }, error) {
			if err := a.allow(ctx, Read, in.Model); err != nil {
				return nil, err
			}
			after, err := afterToken(in.PageToken)
			if err != nil {
				return nil, err
			}
			m, err := a.svc.GetModel(ctx, in.Model)
			if err != nil {
				return nil, err
			}
			entries := slices.SortedFunc(slices.Values(m.Config.Actions), func(a, b serve.Entry) int { return strings.Compare(a.ID, b.ID) })
			out := &struct{ Body entryList }{entryList{Actions: []entryDoc{}}}
			for _, e := range entries {
				switch {
				case e.ID <= after && after != "":
				case len(out.Body.Actions) == in.PageSize:
					out.Body.NextPageToken = pageToken(out.Body.Actions[in.PageSize-1].ID)
					return out, nil
				default:
					out.Body.Actions = append(out.Body.Actions, entryDoc{e.ID, e.Features})
				}
			}
			return out, nil
		})
	register(a, op{id: "putActions", method: "POST", path: "/v1/models/{model}/actions", scope: Admin, body: actionsBody{},
		example: `{"actions": [{"id": "a", "features": {"price": 0.4}}, {"id": "b", "features": {"price": 0.9}}]}`,
		summary: "Add or replace actions of the catalogue", doc: "Afterwards a decision may send ids instead of features."},
		func(ctx context.Context, in *struct {
			Model   string `path:"model" maxLength:"64" doc:"name of the model"`
			IfMatch string `header:"If-Match" doc:"ETag of the configuration; absent or * means any"`
			RawBody []byte
		}) (*modelOut, error) {
			if err := a.allow(ctx, Admin, in.Model); err != nil {
				return nil, err
			}
			var b actionsBody
			if err := decodeJSON(in.RawBody, &b); err != nil {
				return nil, err
			}
			for i, x := range b.Actions {
				if x.ID == "" {
					return nil, &fieldError{Field: fmt.Sprintf("actions[%d].id", i), Want: "is missing"}
				}
			}
			version, err := optionalIfMatch(in.IfMatch)
			if err != nil {
				return nil, err
			}
			return answerModel(a.edit(ctx, in.Model, version, func(c *serve.ModelConfig) error {
				c.Actions = slices.Clone(c.Actions)
				for _, x := range b.Actions {
					e := serve.Entry(x)
					if i := slices.IndexFunc(c.Actions, func(o serve.Entry) bool { return o.ID == x.ID }); i >= 0 {
						c.Actions[i] = e
					} else {
						c.Actions = append(c.Actions, e)
					}
				}
				// Read as a configuration is, so that features are in the form that the log keeps.
				text, err := c.MarshalJSON()
				if err == nil {
					*c, err = readConfig(text)
				}
				return err
			}))
		})
	register(a, op{id: "deleteAction", method: "DELETE", path: "/v1/models/{model}/actions/{action}", scope: Admin,
		summary: "Take an action out of the catalogue"},
		func(ctx context.Context, in *struct {
			Model   string `path:"model" maxLength:"64" doc:"name of the model"`
			Action  string `path:"action" maxLength:"256"`
			IfMatch string `header:"If-Match" doc:"ETag of the configuration; absent or * means any"`
		}) (*modelOut, error) {
			if err := a.allow(ctx, Admin, in.Model); err != nil {
				return nil, err
			}
			version, err := optionalIfMatch(in.IfMatch)
			if err != nil {
				return nil, err
			}
			return answerModel(a.edit(ctx, in.Model, version, func(c *serve.ModelConfig) error {
				i := slices.IndexFunc(c.Actions, func(o serve.Entry) bool { return o.ID == in.Action })
				if i < 0 {
					return problem("not_found", "path.action", "the catalogue has no such action")
				}
				c.Actions = slices.Delete(slices.Clone(c.Actions), i, i+1)
				return nil
			}))
		})
}

func optionalIfMatch(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	return readIfMatch(s)
}

// edit reads a configuration, changes it and writes it back under the version that it read. When
// the caller did not name a version, a change by somebody else in between is tried again.
func (a *API) edit(ctx context.Context, model string, version uint64, change func(*serve.ModelConfig) error) (serve.Model, error) {
	for try := 0; ; try++ {
		m, err := a.svc.GetModel(ctx, model)
		if err != nil {
			return m, err
		}
		if version != 0 && version != m.ConfigVersion {
			return m, problem("precondition_failed", "header.If-Match", "the configuration has changed since it was read")
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

// mergePatch applies a JSON merge patch (RFC 7396).
func mergePatch(target, patch []byte) ([]byte, error) {
	var p map[string]json.RawMessage
	if err := json.Unmarshal(patch, &p); err != nil || p == nil {
		if len(patch) > 0 && patch[0] == '{' && err != nil {
			return nil, err
		}
		return patch, nil // not an object: replaces the target
	}
	var t map[string]json.RawMessage
	if json.Unmarshal(target, &t) != nil || t == nil {
		t = map[string]json.RawMessage{}
	}
	for name, v := range p {
		if string(v) == "null" {
			delete(t, name)
			continue
		}
		merged, err := mergePatch(t[name], v)
		if err != nil {
			return nil, err
		}
		t[name] = merged
	}
	return json.Marshal(t)
}
