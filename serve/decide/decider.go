package decide

import (
	"troupe/eventlog"
)

// Decider makes decisions. It is safe for concurrent use.
type Decider struct {
	versions Versions
	recent   Recent
	declarer Declarer
	opt      Options
	keys     keys
}

// New returns a Decider.
func New(v Versions, l Log, r Recent, n Declarer, o Options) *Decider {
	return &Decider{versions: v, recent: r, declarer: n, opt: o, keys: keys{log: l, ids: o.Keys, joint: o.Joint, made: o.EventID}}
}

// Chosen is a decision that is not written yet.
type Chosen struct {
	Decision Decision
	Record   *eventlog.Decision
}

// answer completes a decision that is durable, record k of its receipt, and returns its key.
func (d *Decider) answer(c *Chosen, receipt eventlog.Receipt, k int) eventlog.Event {
	key := receipt.Event
	key.Index += uint32(k)
	c.Decision.Seq = receipt.Seq
	c.Decision.EventID = d.opt.Keys.Format(eventlog.EventID{Event: key, Hint: receipt.Seq})
	return key
}

// Held returns the number of idempotency keys whose decisions are being made.
func (d *Decider) Held() int { return d.keys.pending.count() }
