package model

import (
	"troupe/feature"
	"troupe/spec"
)

// FeatureSpec is a schema of named features. Without one any request is read.
type FeatureSpec struct {
	Schema *feature.Schema
}

// IsZero returns whether nothing is said.
func (f FeatureSpec) IsZero() bool { return f == FeatureSpec{} }

// DecodeSpec implements spec.Decoder.
func (f *FeatureSpec) DecodeSpec(v any, path string) (err error) {
	*f = FeatureSpec{}
	if raw, ok := v.(spec.Raw); ok && raw["model"] == "hashed" {
		return spec.Errorf(spec.Join(path, "model"), "is \"hashed\", which is not there any more: leave features out, and any "+
			"request is read; a model that was made with it learns anew from its log (troupe train)")
	}
	f.Schema, err = feature.Decode(v, path)
	return err
}

// ExpandSpec implements spec.Decoder: a schema has no sweeps.
func (f *FeatureSpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (f *FeatureSpec) String() string { return "none: any request is read" }
