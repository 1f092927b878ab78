package serve

import (
	"fmt"
	"time"

	"troupe/eventlog"
	"troupe/internal/decimal"
	"troupe/serve/fold"
	"troupe/serve/model"
)

func (s *state) view(name string) (Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.fold.Named(name)
	if m == nil {
		return Model{}, missing(s, name)
	}
	return s.viewOf(m), nil
}

// viewOf returns a model as its owner sees it. The caller holds mu.
func (s *state) viewOf(m *fold.Model) Model {
	var seen *observed
	failed := ""
	if e := s.entries[m.ID]; e != nil {
		seen, failed = &e.observed, e.failed()
	}
	lo, hi := m.Range()
	out := Model{
		Kind: kindOf(m.Compiled), Notes: notesOf(m), Range: Range{Min: lo, Max: hi,
			Declared: !m.Compiled.Config.Reward.Adapt, ChangedSeq: m.Memory.RangeSeq},
		Name: m.Name(), Incarnation: m.ID, Config: m.Compiled.Config, ConfigVersion: m.Version, Paused: m.Paused,
		Dim:      m.Compiled.Dim,
		Warnings: modelWarnings(m, seen), Created: m.Created, Changed: m.Changed, Counts: m.Counts, Failed: failed,
	}
	if !m.Untaken.IsZero() {
		u := m.Untaken
		out.Untaken = &u
	}
	if b := m.Spending; b != nil {
		limit := m.Compiled.Config.Budget.Limit()
		out.Budget = &BudgetView{Price: b.Price(limit), Granted: b.Granted, Spent: b.Spent, Reserved: b.Reserved,
			Left: b.Left(limit, s.time.Now().UnixNano()), Decisions: b.Decisions, Stopped: b.Stopped, Paid: b.Paid}
	}
	if g, r := m.Guard, m.Compiled.Config.Reward; g != nil {
		out.Guard = &GuardView{Plays: m.GuardPlays(), Decisions: g.N, Policy: g.Played, Open: g.Open(),
			Lower: (r.Max - r.Min) * g.Lower()}
	}
	if y, ok := m.MissingReward(); ok && (m.Memory.Adopted || m.Compiled.Config.Reward.Default.Set) {
		out.Missing = &Missing{Value: y, Adopted: m.Memory.Adopted, Seq: m.Memory.AdoptedSeq}
	}
	if c := m.Noticed(); c.Seen > 0 {
		out.Noticed = &NoticedView{At: c.At, Seen: c.Seen, Posterior: c.Posterior, Before: c.Before, After: c.After}
	}
	out.Memory = m.Size()
	if seen != nil {
		out.Seen = seen.seen()
	}
	out.Explained = explainedOf(m, seen)
	return out
}

// notesOf names the counts of notes, nil when there are none.
func notesOf(m *fold.Model) map[string]uint64 {
	var out map[string]uint64
	for i, n := range m.Notes {
		if n > 0 {
			if out == nil {
				out = map[string]uint64{}
			}
			out[eventlog.Notes(1<<i).String()] = n
		}
	}
	return out
}

// enoughEqual is how many equal rewards a model warns of while windows are open.
const enoughEqual = 10

// noticedFor is for how many learned events a warning says that the rewards changed.
const noticedFor = 1000

// modelWarnings says what a model ignores, cannot tell apart, or has assumed. seen are the features of the notes, as
// far as they are known.
func modelWarnings(m *fold.Model, seen *observed) []string {
	out := append([]string(nil), m.Compiled.Warnings...)
	var names [len(noteTexts)]string
	if seen != nil {
		names = seen.named()
	}
	for i, n := range m.Notes {
		if n > 0 {
			text := fmt.Sprintf("in %d of %d decisions: %s", n, m.Counts.Decisions, noteText(i, m.Compiled))
			if names[i] != "" {
				text += " (since the server started: " + names[i] + ")"
			}
			out = append(out, text)
		}
	}
	r, x := m.Compiled.Config.Reward, &m.Memory
	if x.Adopted {
		out = append(out, fmt.Sprintf("an event without a reward counts as %v since entry %d, because nothing was "+
			"said and the data look as if only successes were sent (all rewards were equal, or more than %d windows "+
			"closed without one); set reward.default to a number, or to none", x.Default, x.AdoptedSeq,
			fold.EnoughMissed))
	}
	_, answered := m.MissingReward()
	switch {
	case !answered && r.Default.Word != "auto" && m.Counts.Expired > 100 && 2*m.Counts.Expired > m.Counts.Decisions:
		out = append(out, fmt.Sprintf("%d of %d decisions got no reward in their window and taught nothing; set "+
			"reward.default, or a longer reward.window", m.Counts.Expired, m.Counts.Decisions))
	case !x.Adopted && r.Default.Word == "auto" && x.Seen >= enoughEqual && !x.Differ && x.First > 0 && m.Counts.Open > 0:
		out = append(out, fmt.Sprintf("all %d rewards so far are %v, and %d decisions wait for one: where only successes "+
			"are sent, nothing is learned before reward.window, %v, is over; send the other rewards too, or set "+
			"reward.default to what a decision without a reward is worth, or a shorter window", x.Seen, x.First,
			m.Counts.Open, time.Duration(r.Window)))
	case r.Default.Word != "auto" && !r.Default.Set && x.Seen >= 100 && !x.Differ:
		out = append(out, fmt.Sprintf("all %d rewards were %v, so there is nothing to learn from; send the other "+
			"rewards too, or set reward.default", x.Seen, x.First))
	}
	if u := m.Untaken; u.Clamped > 0 {
		out = append(out, fmt.Sprintf("%d rewards were outside of those that the model takes, and the nearest one counts, "+
			"last in entry %d", u.Clamped, u.Seq))
	}
	if u := m.Untaken; u.Refused > 0 {
		out = append(out, fmt.Sprintf("%d events were refused by the policy and teach nothing, last in entry %d: %s", u.Refused,
			u.Seq, u.Why))
	}
	if x.RangeSeq > 0 {
		lo, hi := m.Range()
		out = append(out, fmt.Sprintf("rewards outside [%v, %v] widened the range to [%v, %v], last in entry %d; "+
			"a model that is made with reward.min and reward.max refuses them", r.Min, r.Max, lo, hi, x.RangeSeq))
	}
	if c := m.Noticed(); c.Seen > 0 && m.Counts.Learned < c.Seen+noticedFor {
		text := fmt.Sprintf("the rewards changed between about event %d and event %d (posterior %.2f)", c.At, c.Seen, c.Posterior)
		if c.Before != c.After {
			text += fmt.Sprintf("; their mean was %s and is %s since", decimal.Short(c.Before, 3), decimal.Short(c.After, 3))
		}
		out = append(out, text+"; what was learned since then plays, and actions are tried again: look whether the world "+
			"or what the client sends has changed")
	}
	if e := m.Explanation(); len(e.Far) > 0 {
		out = append(out, farText(e.Far))
	}
	if n := m.SteppedBack(); n > 0 {
		out = append(out, fmt.Sprintf("the time of the log was before an earlier one with %d learned events: nothing is "+
			"forgotten by half_life until it is past that; look whether the clock was set back", n))
	}
	if m.Counts.Late > 100 && 2*m.Counts.Late > m.Counts.Rewards {
		out = append(out, fmt.Sprintf("%d rewards came after their window and did not count; set a longer "+
			"reward.window", m.Counts.Late))
	}
	return out
}

// kindOf names the features of a configuration.
func kindOf(c *model.Compiled) string {
	switch {
	case c.Atoms != nil:
		return "requests"
	case c.Config.Dim != 0:
		return "vector"
	}
	return "schema"
}
