package recent

import "troupe/eventlog"

// Known is what rewards need of a decision.
type Known struct {
	Seq      uint64
	Model    eventlog.ID
	X        []float64
	Atoms    []byte
	Deferred bool
	List     *KnownList // nil for an action
}

// KnownList is what rewards need of a list: the names of its entries and of its slots, and whether it has one reward.
type KnownList struct {
	IDs, Slots []string
	Whole      bool
}

// Of returns what rewards need of a record in entry seq. X and Atoms stay the record's.
func Of(seq uint64, d *eventlog.Decision) Known {
	k := Known{Seq: seq, Model: d.Model, X: d.X, Atoms: d.Atoms, Deferred: d.Deferred}
	if l := d.List; l != nil {
		k.List = &KnownList{l.IDs, l.Slots, l.Whole}
	}
	return k
}
