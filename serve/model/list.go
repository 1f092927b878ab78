package model

import "troupe/spec"

// List is how the lists of a model are rewarded. The zero value is RewardPositions.
type List struct {
	Reward string `key:"reward" doc:"positions: each position of a list has a reward, and the list is worth their sum; list: one reward comes for the whole list" default:"positions"`
}

// How lists are rewarded.
const (
	RewardPositions = "positions"
	RewardList      = "list"
)

// IsZero returns whether nothing is said: each position has a reward.
func (l List) IsZero() bool { return l == List{} }

// Whole returns whether one reward comes for a list.
func (l List) Whole() bool { return l.Reward == RewardList }

// DecodeSpec implements spec.Decoder.
func (l *List) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table such as { reward = \"list\" }", spec.Show(v))
	}
	*l = List{Reward: RewardPositions}
	if err := spec.DecodeStruct(l, raw, path); err != nil {
		return err
	}
	if l.Reward != RewardPositions && l.Reward != RewardList {
		return spec.Errorf(spec.Join(path, "reward"), "is %q, expected positions or list", l.Reward)
	}
	return nil
}

// ExpandSpec implements spec.Decoder: it has no sweeps.
func (l *List) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (l *List) String() string { return "none" }
