package headline

import "math"

// Target is what a log says about a policy against what ran.
type Target struct {
	Name         string
	Known        bool    // there is an estimate: ten effective decisions or more
	Same         bool    // on this log it plays what ran
	SureLo       float64 // the interval that holds whenever one looks; without one, −Inf to Inf
	SureHi       float64
	Lo, Hi       float64 // the interval for one look
	Doubt        bool    // that it covers less than it says: it decides nothing
	Size         string  // the size of the difference, in digits, without a sign
	Unobtainable bool    // no interval exists
}

// Evaluate is the headline of an evaluation of one policy: whether it would have earned more than what ran, and how sure
// that is. The cases, in this order: the log does not know; it plays what ran; sure; likely; too close to call.
func Evaluate(t *Target) Prose {
	who := Name(t.Name)
	switch {
	case !t.Known || t.Unobtainable:
		return Say("This log cannot say what ", who, " would earn.")
	case t.Same:
		return Say(who, " plays what ran, so it would have earned the same.")
	}
	switch t.How() {
	case Sure:
		return Say(who, " would have earned "+t.Size+" a decision "+t.word()+" than what ran.")
	case Likely:
		return Say(who, " would probably have earned "+t.word()+", by about "+t.Size+" a decision.")
	}
	return Say("Too close to call between ", who, " and what ran.")
}

// How is how sure the difference is.
func (t *Target) How() Confidence {
	lo, hi := t.Lo, t.Hi
	if t.Doubt {
		lo, hi = math.Inf(-1), math.Inf(1)
	}
	return How(lo, hi, t.SureLo, t.SureHi)
}

// word is the direction, by the interval that decides.
func (t *Target) word() string {
	if t.SureLo > 0 || t.SureHi >= 0 && t.Lo > 0 {
		return "more"
	}
	return "less"
}
