package api

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"troupe/serve"
	"troupe/serve/model"
)

// The schema of a configuration is made of serve.ModelConfig, the type that is decoded and encoded: its fields, their
// keys and what they say of themselves. Numbers have the bounds of model.Input, from which the errors come, too.

// bounded are the bounds of numbers by schema and property.
var boundedNumbers = map[string]model.Input{
	"RewardRequest.value": model.RewardInput, "RewardRequest.cost": model.CostInput,
	"RewardItemRequest.value": model.RewardInput, "RewardItemRequest.cost": model.CostInput,
	"Action.cost": model.CostInput, "ConfigEntry.cost": model.CostInput,
	"ConfigReward.min": model.RewardInput, "ConfigReward.max": model.RewardInput, "ConfigReward.default": model.RewardInput,
	"ConfigPrior.mean": model.RewardInput, "PriorRequest.mean": model.RewardInput,
	"ConfigControl.share": {Least: 0, Most: .5, What: "a share"},
	"ConfigBudget.mean":   model.CostInput, "ConfigBudget.total": model.CostInput,
}

// words are the texts that a field of a configuration may be.
var words = map[string][]string{
	"Config.mode":           {"online", "apprentice", "shadow", "frozen", "guarded"},
	"Config.log_candidates": {"full", "none"}, "ConfigBudget.per": {"decision", "day"},
	"ConfigBudget.on_empty": {model.Cheapest, model.Refuse}, "ConfigReward.rule": model.RuleNames(),
	"ConfigList.reward":   {model.RewardPositions, model.RewardList},
	"ConfigControl.plays": {string(model.PlaysUniform), string(model.PlaysFirst)},
}

// describeConfig puts the schemas of a configuration into the document, and bounds into all.
func describeConfig(doc *huma.OpenAPI) {
	all := doc.Components.Schemas.Map()
	configSchema(all, "Config", reflect.TypeFor[serve.ModelConfig]())
	configSchema(all, "ConfigPatch", reflect.TypeFor[serve.ModelConfig]())
	nullable(all, "ConfigPatch")
	for name, s := range all {
		for key, p := range s.Properties {
			if in, ok := boundedNumbers[name+"."+key]; ok {
				bound(p, in)
			}
		}
	}
	for _, path := range []string{"/v1/models/{model}/state", "/v1/models/{model}/parcel", "/v1/log/entries"} { // in another form, by the query
		for status, r := range doc.Paths[path].Get.Responses {
			if failures[status] == "" {
				if r.Content == nil {
					r.Content = map[string]*huma.MediaType{}
				}
				r.Content["application/octet-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
			}
		}
	}
	for _, name := range []string{"RewardRequest", "RewardItemRequest"} {
		if s := all[name]; s != nil && s.Properties["reward"] != nil {
			value := &huma.Schema{Type: huma.TypeNumber}
			bound(value, model.RewardInput)
			least, most := 1, model.MaxRewards
			p := s.Properties["reward"]
			p.AdditionalProperties, p.MinProperties, p.MaxProperties = value, &least, &most
		}
	}
	if s := all["DecideRequest"]; s != nil && s.Properties["costs"] != nil {
		bound(s.Properties["costs"].Items, model.CostInput)
	}
}

// nullable lets the fields of a patch be null, which takes them back to their defaults.
func nullable(all map[string]*huma.Schema, name string) {
	for key, p := range all[name].Properties {
		null := &huma.Schema{Type: "null"}
		switch {
		case p.Ref != "":
			of := strings.Replace(strings.TrimPrefix(p.Ref, "#/components/schemas/"), "Config", "ConfigPatch", 1)
			copied := *all["Config"+strings.TrimPrefix(of, "ConfigPatch")]
			copied.Properties = map[string]*huma.Schema{}
			for k, q := range all["Config"+strings.TrimPrefix(of, "ConfigPatch")].Properties {
				one := *q
				copied.Properties[k] = &one
			}
			all[of] = &copied
			nullable(all, of)
			all[name].Properties[key] = &huma.Schema{Description: p.Description,
				OneOf: []*huma.Schema{{Ref: "#/components/schemas/" + of}, null}}
		case len(p.OneOf) > 0:
			p.OneOf = append(slices.Clip(p.OneOf), null)
		default:
			if share, ok := p.AdditionalProperties.(*huma.Schema); ok { // floors and caps: an id is taken away
				one := *share
				one.Nullable = true
				p.AdditionalProperties, p.MinProperties = &one, nil
			}
			if p.Nullable = true; p.Enum != nil {
				p.Enum = append(slices.Clip(p.Enum), nil)
			}
		}
	}
}

// bound gives a number, or the number among what a property may be, the bounds of an input.
func bound(s *huma.Schema, in model.Input) {
	for _, one := range s.OneOf {
		if one.Type == huma.TypeNumber {
			s = one
		}
	}
	s.Minimum, s.Maximum = &in.Least, &in.Most
}

// configSchema describes a struct of a configuration under a name and returns a reference to it.
func configSchema(all map[string]*huma.Schema, name string, t reflect.Type) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: map[string]*huma.Schema{}}
	all[name] = s
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("key")
		if key == "" {
			continue
		}
		p := valueSchema(all, f.Type, name+"."+key)
		p.Description = f.Tag.Get("doc")
		if d := f.Tag.Get("default"); d != "" {
			p.Description += "; default " + d
		}
		for _, word := range words[name+"."+key] {
			p.Enum = append(p.Enum, word)
		}
		s.Properties[key] = p
	}
	if name == "ConfigEntry" { // read by itself, so that its features stay as they were sent
		s.Properties = map[string]*huma.Schema{
			"id":       {Type: huma.TypeString, Description: "id of the action"},
			"features": {Description: "its features, any JSON value"},
			"cost":     {Type: huma.TypeNumber, Description: "what it costs to play it, in units of money"},
			"numbers":  {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "names of the numbers that it plays; without it all, empty none"},
		}
		s.Required = []string{"id"}
	}
	if name == "ConfigNumber" {
		s.Required = []string{"name", "min", "max"}
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// parts are the structs of a configuration that have schemas of their own.
var parts = map[reflect.Type]string{
	reflect.TypeFor[model.Reward](): "ConfigReward", reflect.TypeFor[model.Budget](): "ConfigBudget",
	reflect.TypeFor[model.Guard](): "ConfigGuard", reflect.TypeFor[model.Control](): "ConfigControl", reflect.TypeFor[model.List](): "ConfigList", reflect.TypeFor[model.Entry](): "ConfigEntry",
	reflect.TypeFor[model.Entered](): "ConfigEntered", reflect.TypeFor[model.Prior](): "ConfigPrior",
	reflect.TypeFor[serve.NumberRange](): "ConfigNumber",
}

func valueSchema(all map[string]*huma.Schema, t reflect.Type, at string) *huma.Schema {
	if name, ok := parts[t]; ok {
		return configSchema(all, name, t)
	}
	zero := 0.
	one := 1.
	switch t {
	case reflect.TypeFor[model.PolicySpec](), reflect.TypeFor[model.FeatureSpec]():
		return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
	case reflect.TypeFor[model.Duration]():
		return &huma.Schema{Type: huma.TypeString}
	case reflect.TypeFor[model.Maybe]():
		return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeNumber},
			{Type: huma.TypeString, Enum: []any{"none", "auto"}}}}
	case reflect.TypeFor[model.Rewards]():
		low, high, least, most := -model.MaxWeight, model.MaxWeight, 1, model.MaxRewards
		return &huma.Schema{Type: huma.TypeObject, MinProperties: &least, MaxProperties: &most,
			AdditionalProperties: &huma.Schema{Type: huma.TypeNumber, Minimum: &low, Maximum: &high}}
	case reflect.TypeFor[model.Shares]():
		return &huma.Schema{Type: huma.TypeObject,
			AdditionalProperties: &huma.Schema{Type: huma.TypeNumber, Minimum: &zero, Maximum: &one}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &huma.Schema{Type: huma.TypeBoolean}
	case reflect.String:
		return &huma.Schema{Type: huma.TypeString}
	case reflect.Int:
		return &huma.Schema{Type: huma.TypeInteger}
	case reflect.Float64:
		return &huma.Schema{Type: huma.TypeNumber}
	case reflect.Slice:
		return &huma.Schema{Type: huma.TypeArray, Items: valueSchema(all, t.Elem(), at)}
	}
	panic(fmt.Sprintf("api: the field %s of a configuration is a %v, for which there is no schema", at, t))
}
