package fold

import (
	"fmt"

	"troupe/eventlog"
)

// checks compares what the writers of the log say of their states with the models.
type checks struct {
	at       *position
	models   *registry
	policies *policies
	cluster  *cluster
}

// checkpoint compares digests that a writer recorded for its state after an entry. Only one that
// was made just before can be compared.
func (c *checks) checkpoint(r *eventlog.Checkpoint) (Outcome, error) {
	c.cluster.heard(r, c.at.seq)
	if c.at.lost > 0 || c.policies.cast != nil { // see inherit
		return Accepted, nil
	}
	for _, p := range r.Prices {
		if err := c.price(r.Seq, p); err != nil {
			return None, err
		}
	}
	for _, s := range r.States {
		if err := c.state(r.Seq, s); err != nil {
			return None, err
		}
	}
	return Accepted, nil
}

// price compares the price of a model with that of the writer after entry seq.
func (c *checks) price(seq uint64, p eventlog.Price) error {
	m := c.models.byID[p.Model]
	if m == nil || m.Spending == nil || !m.present() || m.Spending.Seq > seq || m.Changed.Seq > seq || seq >= c.at.seq {
		return nil
	}
	if own := m.price(p.Model); own != p {
		return fmt.Errorf("model %v has the price %v and spent %v, the writer says %v and %v after entry %d", p.Model,
			own.Price, own.Spent, p.Price, p.Spent, seq)
	}
	return nil
}

// state compares the digest of a model with that of the writer after entry seq.
func (c *checks) state(seq uint64, s eventlog.Digest) error {
	m := c.models.byID[s.Model]
	if m == nil || !m.HasPolicy() || m.Last > seq || seq >= c.at.seq {
		return nil
	}
	state, err := m.State()
	if err != nil {
		return err
	}
	if state.Digest() != s.Digest {
		return fmt.Errorf("model %v has the digest %v, the writer says %v after entry %d", s.Model, state.Digest(),
			s.Digest, seq)
	}
	return nil
}

// loss counts an entry that an operator has given up.
func (c *checks) loss(*eventlog.Loss) (Outcome, error) {
	c.at.lost++
	return Accepted, nil
}
