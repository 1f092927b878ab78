package serve

import (
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// The configuration of a model, its values and its modes: see package model.
type (
	ModelConfig  = model.Config
	RewardConfig = model.Reward
	PolicySpec   = model.PolicySpec
	FeatureSpec  = model.FeatureSpec
	Entry        = model.Entry
	NumberAsk    = numbers.Ask
	NumberRange  = numbers.Range
	Prior        = model.Prior
	Duration     = model.Duration
	Maybe        = model.Maybe
	Rewards      = model.Rewards
	NamedWeight  = model.NamedWeight
	Mode         = model.Mode
	Rule         = model.Rule
)

// The modes of a model; see model.Mode.
const (
	Online     = model.Online
	Apprentice = model.Apprentice
	Shadow     = model.Shadow
	Frozen     = model.Frozen
	Guarded    = model.Guarded
)

// DefaultConfig returns the configuration of a model of which only the name is given.
func DefaultConfig(id string) ModelConfig { return model.Default(id) }

// DecodeModel reads a configuration from a decoded TOML or JSON table found at path.
func DecodeModel(v any, path string) (ModelConfig, error) { return model.Decode(v, path) }

// What a decision consists of: see package choose. Stamp and Counts are in package fold.
type (
	Action    = choose.Action
	Chosen    = choose.Chosen
	Fraction  = choose.Fraction
	Explained = choose.Explained
	Stamp     = fold.Stamp
	Counts    = fold.Counts
	Untaken   = fold.Untaken
)

// ModelSize is about how many bytes of memory a model takes.
type ModelSize = fold.Size
