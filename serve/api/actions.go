package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"troupe/serve"
)

type entryList struct {
	Actions       []entryDoc `json:"actions" doc:"ascending by their ids"`
	NextPageToken string     `json:"next_page_token,omitempty" doc:"absent on the last page"`
}

// entryDoc is a serve.Entry.
type entryDoc struct {
	ID       string          `json:"id" doc:"id of the action"`
	Features json.RawMessage `json:"features,omitempty" doc:"its features, any JSON value"`
	Cost     *float64        `json:"cost,omitempty" doc:"what it costs to play it, in units of money"`
}

type actionsBody struct {
	Actions []serve.Action `json:"actions" doc:"entries to add or to replace, by id"`
}

type actionsIn struct {
	Model     string `path:"model" maxLength:"64" doc:"name of the model"`
	PageSize  int    `query:"page_size" minimum:"1" maximum:"1000" default:"100" doc:"largest number of entries"`
	PageToken string `query:"page_token" maxLength:"512" doc:"next_page_token of the page before"`
}

// catalogueCalls are about the actions that a model knows.
type catalogueCalls struct {
	models *modelCalls
	log    serve.RecordService
}

func (a *catalogueCalls) list(ctx context.Context, in *actionsIn) (*reply[entryList], error) {
	if err := allow(ctx, Read, in.Model); err != nil {
		return nil, err
	}
	after, err := afterToken(in.PageToken)
	if err != nil {
		return nil, err
	}
	m, err := a.models.svc.GetModel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	entries := slices.SortedFunc(slices.Values(m.Config.Actions), func(a,
		b serve.Entry) int {
		return strings.Compare(a.ID, b.ID)
	})
	out := &reply[entryList]{entryList{Actions: []entryDoc{}}}
	for _, e := range entries {
		switch {
		case e.ID <= after && after != "":
		case len(out.Body.Actions) == in.PageSize:
			out.Body.NextPageToken = pageToken(out.Body.Actions[in.PageSize-1].ID)
			return out, nil
		default:
			out.Body.Actions = append(out.Body.Actions, entryDoc{e.ID, e.Features, e.Cost})
		}
	}
	return out, nil
}

type putActionsIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	IfMatch string `header:"If-Match" doc:"ETag of the configuration; absent or * means any"`
	RawBody []byte
}

func (a *catalogueCalls) put(ctx context.Context, in *putActionsIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	var b actionsBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	if b.Actions == nil {
		return nil, &fieldError{Field: "actions", Want: "is missing"}
	}
	seen := map[string]bool{}
	for i, x := range b.Actions {
		if x.ID == "" {
			return nil, &fieldError{Field: fmt.Sprintf("actions[%d].id", i), Want: "is missing"}
		}
		if seen[x.ID] {
			return nil, &fieldError{Field: fmt.Sprintf("actions[%d].id", i), Want: "is the id of two actions"}
		}
		seen[x.ID] = true
	}
	if err := cleanIDs("actions", b.Actions, func(x serve.Action) string { return x.ID }); err != nil {
		return nil, err
	}
	version, err := optionalIfMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	return answerModel(a.models.edit(ctx, in.Model, version, func(c *serve.ModelConfig) error {
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
}

type deleteActionIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	Action  string `path:"action" maxLength:"256" doc:"name of the action"`
	IfMatch string `header:"If-Match" doc:"ETag of the configuration; absent or * means any"`
}

func (a *catalogueCalls) delete(ctx context.Context, in *deleteActionIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	version, err := optionalIfMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	return answerModel(a.models.edit(ctx, in.Model, version, func(c *serve.ModelConfig) error {
		i := slices.IndexFunc(c.Actions, func(o serve.Entry) bool { return o.ID == in.Action })
		if i < 0 {
			return problem("not_found", "path.action", "the catalogue has no such action")
		}
		c.Actions = slices.Delete(slices.Clone(c.Actions), i, i+1)
		return nil
	}))
}

func optionalIfMatch(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	return readIfMatch(s)
}

type enterBody struct {
	ID        string     `json:"id" doc:"of the action"`
	Floor     float64    `json:"floor,omitempty" doc:"it is played with this probability at least, for the next decisions of the model"`
	Decisions int        `json:"decisions,omitempty" doc:"how many of the next decisions"`
	Prior     *priorBody `json:"prior,omitempty"`
}

type priorBody struct {
	Mean   float64 `json:"mean" doc:"a guess of its mean reward"`
	Events int     `json:"events" doc:"number of events without a context of this reward, 1 to 1000"`
}

type livesIn struct {
	Model   string `path:"model" maxLength:"64" doc:"name of the model"`
	RawBody []byte
}

// enter lets an action enter: the first atom of its requests is another one from then on.
func (a *catalogueCalls) enter(ctx context.Context, in *livesIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	var b enterBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	var prior serve.Prior
	if b.Prior != nil {
		if prior = (serve.Prior{Mean: b.Prior.Mean, Events: b.Prior.Events}); prior.Events < 1 {
			return nil, &fieldError{Field: "prior.events", Want: "expected 1 to 1000"}
		}
	}
	if b.Floor < 0 {
		return nil, &fieldError{Field: "floor", Want: "expected a number above 0 and at most 1, with at most 6 decimals"}
	}
	if _, err := a.log.Log(ctx, in.Model, 0, 1); err != nil { // it waits until every decision so far is counted
		return nil, err
	}
	m, err := a.models.svc.GetModel(ctx, in.Model)
	if err != nil {
		return nil, err
	}
	if m.Kind != "requests" {
		return nil, &fieldError{Field: "id", Want: "cannot begin anew: with a schema or dim a model " +
			"knows actions by their features and not by their ids; send other features"}
	}
	made := m.Counts.Decisions
	return answerModel(a.models.edit(ctx, in.Model, 0, func(c *serve.ModelConfig) (err error) {
		if *c, err = c.Enter(b.ID, b.Floor, b.Decisions, prior, made); err != nil {
			return serve.ConfigError(err)
		}
		return nil
	}))
}

type leaveBody struct {
	ID string `json:"id" doc:"of the action"`
}

func (a *catalogueCalls) leave(ctx context.Context, in *livesIn) (*modelOut, error) {
	if err := allow(ctx, Admin, in.Model); err != nil {
		return nil, err
	}
	var b leaveBody
	if err := decodeJSON(in.RawBody, &b); err != nil {
		return nil, err
	}
	return answerModel(a.models.edit(ctx, in.Model, 0, func(c *serve.ModelConfig) (err error) {
		if *c, err = c.Leave(b.ID); err != nil {
			return serve.ConfigError(err)
		}
		return nil
	}))
}
