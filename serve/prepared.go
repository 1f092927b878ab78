package serve

import (
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// rewards takes rewards and activations.
type rewards struct {
	*state
	*writer
	recent *recent.Decisions
}

// prepared is a reward that was checked: its records and what is learned of them costs, or the answer to one that need not
// be written, because the state knows already that it changes nothing.
type prepared struct {
	records  []eventlog.Record
	learning time.Duration
	result   RewardResult
	known    []PositionResult // of values: one for each position, with the status of those that are not written
	of       []int            // places in known of the records
}

func (p *prepared) size() (n int) {
	for _, r := range p.records {
		x := r.(*eventlog.Reward)
		n += 8*(len(x.X)+len(x.Ys)) + len(x.Atoms) + 1024
	}
	return n
}

// answer is the result of what came of the records. Of a list, it is accepted where a position is.
func (p *prepared) answer(out []fold.Outcome, seq uint64) RewardResult {
	r := RewardResult{Status: statuses[out[len(out)-1]], Seq: seq, Positions: p.known}
	for i, o := range out {
		if o == fold.Accepted {
			r.Status = Accepted
		}
		if i < len(p.of) {
			r.Positions[p.of[i]].Status = statuses[o]
		}
	}
	return r
}

var statuses = map[fold.Outcome]RewardStatus{fold.Accepted: Accepted, fold.Duplicate: Duplicate, fold.Late: Late,
	fold.Ignored: Ignored}
