// Package model is the configuration of a model of the decision server: its types, its checks, and what a
// server compiles from it.
//
//   - [Config] is one [[model]] table of a TOML file or one JSON object. [Default] fills in what is not set;
//     [Decode] and UnmarshalJSON read it strictly; MarshalJSON writes the one text that the log keeps.
//   - [Config.Compile] checks a configuration and returns a [Compiled] one: the encoder of its features, its
//     exploration floor as a fraction, its catalogue by id. [Config.Admit] also refuses what would only fail
//     at the first decision.
//   - [Compiled.NewPolicy] makes the policy in its state before the first event.
//
// Errors are *[Error] with the path of the field; those of Decode are *spec.Error.
package model
