package model

import (
	"time"

	"troupe/policy"
)

// DefaultWork is how long a request may take on a processor, as far as sizes tell: an estimate (policy.Work), which a machine
// that is busy with other work may need twice as long for.
const DefaultWork = 100 * time.Millisecond

// trialEvents is how many events a new configuration is tried on, as bears has them.
const trialEvents = 5

// checkWork refuses a policy of which an event takes too long: every other model waits for it, and the trial of the
// configuration has several. Without a limit in limits it does nothing.
func (c *Compiled) checkWork(limits Limits) error {
	if limits.Work == 0 {
		return nil
	}
	l := policy.Load{Actions: 2, Dim: c.Dim}
	if c.Atoms != nil {
		l.Dim = 0
	}
	w := policy.WorkOf(c.Config.Policy.Options, l)
	if took := trialEvents*w.Update + w.Decide; took > limits.Work {
		return Invalid("config.policy", short(c.Config.Policy.Raw), "is tried before a model is made with it, which takes about %v of a "+
			"processor with %d numbers for each action, and %v are allowed (--max-work of the server); expected fewer members m, or "+
			"fewer numbers", took.Round(time.Millisecond), c.Dim, limits.Work)
	}
	return nil
}

// Work is about how long a decision of the model takes on a processor.
func (c *Compiled) Work(l policy.Load) time.Duration {
	l.Dim = c.Dim
	if c.Atoms != nil {
		l.Dim = 0
	}
	return policy.WorkOf(c.Config.Policy.Options, l).Decide
}

// EventWork is about how long a decision with so many actions and its reward take on a processor: vectors of dim numbers, or
// requests with so many values in the context and in all actions together.
func (s *PolicySpec) EventWork(actions, dim, context, own int) time.Duration {
	w := policy.WorkOf(s.Options, policy.Load{Actions: actions, Dim: dim, Context: context, Own: own})
	return w.Decide + w.Update
}

// Values returns about how many values a JSON value has, at least as many as there are: the words of texts count.
func Values(b []byte) int {
	if len(b) == 0 || len(b) == 2 && b[0] == '{' {
		return 0
	}
	n, quoted := 1, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == ',', quoted && !letter(c) && letter(b[i-1]): // the end of a word
			n++
		}
	}
	return n
}

func letter(c byte) bool {
	return c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}
