package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"troupe/serve"
)

// changesTried are values for each field of a configuration; TestNothingDropped fails for a field that has none.
var changesTried = map[string][]string{
	"id":               {`"other"`, `"m"`, `null`},
	"policy":           {`{"kind":"sparse"}`, `{"kind":"effects"}`, `{"kind":"auto"}`, `{"kind":"auto","lambda":2}`, `{"kind":"ensemble","m":8}`, `{"kind":"effects","half_life":"7d"}`, `{"kind":"effects","change":"none"}`, `{"kind":"effects","change":"restarts"}`, `null`},
	"features":         {`{"model":"hashed"}`, `{"model":"disjoint","features":[{"feature":"id","kind":"category","levels":["a"]}]}`, `{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]}`, `{"learn":{"after":50}}`, `null`},
	"dim":              {`0`, `1`, `2`, `5`, `null`},
	"sigma":            {`0`, `0.3`, `0.5`, `2`, `null`},
	"floor":            {`0`, `0.25`, `null`},
	"floors":           {`{"a":0.125}`, `{}`, `null`},
	"caps":             {`{"a":0.5}`, `{}`, `null`},
	"reward":           {`{"min":0,"max":1}`, `{"min":-1,"max":1}`, `{"min":0,"max":5,"adapt":true}`, `{}`, `null`},
	"reward.min":       {`0`, `-3`, `0.5`, `null`},
	"reward.max":       {`1`, `7`, `1e308`, `null`},
	"reward.adapt":     {`true`, `false`, `null`},
	"reward.rule":      {`"first"`, `"sum"`, `"last"`, `null`},
	"reward.window":    {`"1h0m0s"`, `"2s"`, `null`},
	"reward.default":   {`0`, `0.5`, `"none"`, `"auto"`, `null`},
	"rewards":          {`{"click":1}`, `{"click":1,"revenue":0.05}`, `{"click":2,"revenue":0.05}`, `{"click":null}`, `{"a b":1}`, `{}`, `null`},
	"budget":           {`{"mean":0.5,"per":"decision"}`, `{"total":5,"carry":true}`, `null`},
	"budget.mean":      {`0.25`},
	"budget.total":     {`3`},
	"budget.per":       {`"day"`, `"decision"`},
	"budget.carry":     {`true`},
	"budget.on_empty":  {`"refuse"`},
	"mode":             {`"frozen"`, `"guarded"`, `"online"`, `null`},
	"guard":            {`{"margin":0.02}`, `{"margin":0.02,"confidence":0.9}`, `null`},
	"guard.margin":     {`0.1`},
	"guard.confidence": {`0.8`},
	"control":          {`{"share":0.05}`, `{"share":0.2,"plays":"first"}`, `{"share":0.7}`, `null`},
	"control.share":    {`0.1`, `0`},
	"control.plays":    {`"first"`, `"uniform"`},
	"unit":             {`"context.user"`, `""`, `null`},
	"actions":          {`[{"id":"a"}]`, `[{"id":"a","cost":0.25},{"id":"b","cost":1}]`, `[]`, `null`},
	"entered":          {`[{"id":"a","times":3}]`, `[{"id":"a","times":1,"prior":{"mean":0.5,"events":3}}]`, `[{"id":"a","times":1,"prior":{"mean":0.5,"events":0}}]`, `[{"id":"a","times":1,"until":70}]`, `[]`, `null`},
	"list":             {`{"reward":"list"}`, `{"reward":"positions"}`, `{"reward":"both"}`, `null`},
	"list.reward":      {`"list"`},
	"numbers":          {`[{"name":"price","min":1,"max":20,"step":0.5}]`, `[{"name":"a","min":1,"max":2,"log":true},{"name":"b","min":0,"max":24,"cyclic":true}]`, `[{"name":"a","min":1,"max":1}]`, `[{"name":"a","min":1}]`, `[]`, `null`},
	"log_candidates":   {`"none"`, `"full"`, `null`},
	"nothing":          {`1`},
	"features.model":   {`"disjoint"`, `"hashed"`},
	"policy.kind":      {`"sparse"`, `"effects"`, `null`},
	"policy.half_life": {`500`, `"7d"`, `null`},
	"policy.change":    {`"none"`, `"restarts"`, `null`},
	"policy.lambda":    {`3`, `null`},
	"policy.m":         {`16`, `null`},
}

// TestNothingDropped: a change of a configuration that is answered with 200 is there afterwards, in each of its fields, by PATCH
// and by PUT; any other is refused with its field, and changes nothing.
func TestNothingDropped(t *testing.T) {
	var fields func(of reflect.Type, under string)
	fields = func(of reflect.Type, under string) {
		for i := range of.NumField() {
			f := of.Field(i)
			key := f.Tag.Get("key")
			if key == "" {
				continue
			}
			if len(changesTried[under+key]) == 0 {
				t.Errorf("no value is tried for %s", under+key)
			}
			switch under + key {
			case "reward", "budget", "guard", "control", "list":
				fields(f.Type, under+key+".")
			}
		}
	}
	fields(reflect.TypeFor[serve.ModelConfig](), "")
	e, _ := newReal(t, Options{})
	const schema = `"features":{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]}`
	fresh := e.config(t, `{"id":"m"}`)
	taken, refused := 0, 0
	for _, base := range []string{
		`{"id":"m"}`,
		`{"id":"m","reward":{"min":0,"max":1}}`,
		`{"id":"m","reward":{"min":0,"max":5,"adapt":true},"floor":0.125,"unit":"context.user"}`,
		`{"id":"m","policy":{"kind":"effects","half_life":500},"reward":{"rule":"sum","default":"none"}}`,
		`{"id":"m","policy":{"kind":"effects","change":"none"},"floors":{"a":0.25},"entered":[{"id":"b","times":1}]}`,
		`{"id":"m","dim":2,"budget":{"mean":1}}`,
		`{"id":"m","rewards":{"click":1,"revenue":0.05}}`,
		`{"id":"m","dim":2,"policy":{"kind":"ensemble","m":16},"sigma":0.3,"reward":{"min":0,"max":1},"guard":{"margin":0.05},"actions":[{"id":"a","features":[0,1]}]}`,
		`{"id":"m",` + schema + `,"policy":{"kind":"linucb"},"reward":{"min":-1,"max":1,"default":0.5}}`,
	} {
		fresh := fresh
		if strings.Contains(base, "rewards") { // without other fields: its defaults are those of a model with rewards
			fresh = e.config(t, base)
		}
		for _, path := range slices.Sorted(maps.Keys(changesTried)) {
			for _, value := range changesTried[path] {
				for _, method := range []string{"PATCH", "PUT"} {
					said := value
					keys := strings.Split(path, ".")
					for _, key := range slices.Backward(keys) {
						said = fmt.Sprintf(`{%q:%s}`, key, said)
					}
					before := e.config(t, base)
					a := e.do(method, "/v1/models/m", said, "If-Match", "*")
					after := e.read(t)
					what := fmt.Sprintf("%s %s of %s: status %d", method, said, base, a.status)
					switch a.status {
					case 200:
						taken++
						var want any
						if err := json.Unmarshal([]byte(said), &want); err != nil {
							t.Fatal(err)
						}
						if at := missing(want, after, before, fresh, ""); at != "" {
							t.Errorf("%s, and%s is not there: %s", what, at, a.body)
						}
					case 422:
						refused++
						var p Problem
						if json.Unmarshal([]byte(a.body), &p) != nil || p.Field == "" && p.Code != "malformed" || p.Detail == "" {
							t.Errorf("%s: %s", what, a.body)
						}
						if !reflect.DeepEqual(before, after) {
							t.Errorf("%s, and it changed", what)
						}
					default:
						t.Errorf("%s: %s", what, a.body)
					}
				}
			}
		}
	}
	t.Logf("%d changes taken, %d refused", taken, refused)
	if taken < 300 || refused < 300 {
		t.Errorf("%d changes taken, %d refused: one of both is not tried", taken, refused)
	}
}

// missing returns the place in a configuration at which it does not have what was said. null is the default: that of a new
// model, or what was written for this one when it was made of nothing said.
func missing(said, has, before, fresh any, at string) string {
	table, ok := said.(map[string]any)
	if !ok {
		if list, empty := said.([]any); said == nil || said == "" || empty && len(list) == 0 {
			if has == nil || reflect.DeepEqual(has, fresh) || has == false { // adapt, where a range is declared
				return ""
			}
			return at + " (its default)"
		}
		if reflect.DeepEqual(said, has) || has == nil && said == 0. { // as where nothing is said
			return ""
		}
		if list, ok := said.([]any); ok { // as one word of a configuration
			if word, ok := has.(string); ok && word == "no" && fmt.Sprint(list) == "[[context action]]" {
				return ""
			}
			if rows, ok := has.([]any); ok && len(rows) == len(list) {
				for i := range list {
					if where := missing(list[i], rows[i], nil, nil, fmt.Sprintf("%s[%d]", at, i)); where != "" {
						return where
					}
				}
				return ""
			}
		}
		return at
	}
	get := func(in any, key string) any { m, _ := in.(map[string]any); return m[key] }
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if where := missing(table[key], get(has, key), get(before, key), get(fresh, key), at+" "+key); where != "" {
			return where
		}
	}
	return ""
}

// config makes the model m and returns its configuration.
func (e *edge) config(t *testing.T, config string) any {
	t.Helper()
	e.do("DELETE", "/v1/models/m", "")
	e.do("POST", "/v1/models", config).want(t, config, 201)
	return e.read(t)
}

func (e *edge) read(t *testing.T) any {
	t.Helper()
	var m struct{ Config any }
	if a := e.do("GET", "/v1/models/m", ""); json.Unmarshal([]byte(a.body), &m) != nil || m.Config == nil {
		t.Fatal(a.body)
	}
	return m.Config
}
