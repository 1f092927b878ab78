package fold

import (
	"encoding/binary"
	"math"

	"troupe/serve/model"
)

// Memory is what a model keeps beside its policy. It is part of the state: of the digest, of snapshots, clones
// and rollbacks. The range and the default are functions of the rewards and of the windows that closed.
type Memory struct {
	Low, High float64 // the range of rewards; 0 and 0: that of the configuration
	RangeSeq  uint64  // entry of the reward that widened it last, 0 when none did

	Seen   uint64  // rewards that were learned, without defaults
	First  float64 // the first of them
	Differ bool    // two of them are not equal
	Missed uint64  // windows that closed without a reward and taught nothing

	Adopted    bool    // a missing reward counts as Default from entry AdoptedSeq on
	Default    float64 //
	AdoptedSeq uint64
}

// Rewarded notes a reward of a model that remembers: the range widens by doubling on the side where the reward lies.
// given is false for a default reward.
func (x *Memory) Rewarded(c *model.Compiled, y float64, given bool, seq uint64) {
	if given {
		if x.Seen++; x.Seen == 1 {
			x.First = y
		}
		x.Differ = x.Differ || y != x.First
	}
	lo, hi := c.Config.Reward.Min, c.Config.Reward.Max
	if x.Low != x.High {
		lo, hi = x.Low, x.High
	}
	if !c.Config.Reward.Adapt || y >= lo && y <= hi {
		return
	}
	for width := hi - lo; y < lo || y > hi; {
		width *= 2
		if y < lo {
			lo = hi - width
		} else {
			hi = lo + width
		}
	}
	x.Low, x.High, x.RangeSeq = lo, hi, seq
}

// Beside returns what x knows of rewards together with what another memory knows of missing rewards,
// for a model in another log: sequences are 0.
func (x Memory) Beside(o Memory) Memory {
	x.Missed, x.Adopted, x.Default = o.Missed, o.Adopted, o.Default
	x.RangeSeq, x.AdoptedSeq = 0, 0
	return x
}

// append appends what the digest of a state depends on. more is of the bytes of a fold: flags.
func (x *Memory) append(b []byte, more uint64) []byte {
	u := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	flags := more
	if x.Differ {
		flags |= 1
	}
	if x.Adopted {
		flags |= 2
	}
	u(math.Float64bits(x.Low))
	u(math.Float64bits(x.High))
	u(x.RangeSeq)
	u(x.Seen)
	u(math.Float64bits(x.First))
	u(x.Missed)
	u(math.Float64bits(x.Default))
	u(x.AdoptedSeq)
	u(flags)
	return b
}
