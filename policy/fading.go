package policy

import (
	"math"
	"strconv"
	"strings"
	"time"

	"troupe/internal/logs"
	"troupe/spec"
)

// This file is half_life: what was learned fades, so that what is not played becomes uncertain and is tried again.

// fadeLag is of a half-life: what is younger does not fade yet.
const fadeLag = 1. / 32

// HalfLife is how long it takes until an event counts half: a number of events, or a time. The zero value is never.
type HalfLife struct {
	Events float64
	Time   time.Duration
}

// IsZero reports whether nothing is forgotten.
func (h HalfLife) IsZero() bool { return h == HalfLife{} }

// DecodeSpec implements spec.Decoder: a number of events, or a time such as "7d", "12h" or "1d12h".
func (h *HalfLife) DecodeSpec(v any, path string) error {
	if n, ok := spec.Number(v); ok {
		if !(n >= 0) || math.IsInf(n, 0) {
			return spec.Errorf(path, "is %v, expected a number of events that is not negative", n)
		}
		*h = HalfLife{Events: n}
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return spec.Errorf(path, `is %s, expected a number of events, or a time such as "7d"`, spec.Show(v))
	}
	t, ok := parseDays(s)
	if !ok || t <= 0 {
		return spec.Errorf(path, `is %q, expected a time such as "7d", "12h" or "1d12h", or a number of events`, s)
	}
	*h = HalfLife{Time: t}
	return nil
}

// mostDays bounds the days of a time.
const mostDays = 36_500

// parseDays reads a time with days before what time.ParseDuration reads.
func parseDays(s string) (time.Duration, bool) {
	var days float64
	if n, rest, ok := strings.Cut(s, "d"); ok {
		var err error
		if days, err = strconv.ParseFloat(n, 64); err != nil || !(days >= 0 && days <= mostDays) {
			return 0, false
		}
		if s = rest; s == "" {
			return time.Duration(days * float64(24*time.Hour)), true
		}
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 || t > mostDays*24*time.Hour {
		return 0, false
	}
	return time.Duration(days*float64(24*time.Hour)) + t, true
}

// ExpandSpec implements spec.Decoder.
func (h *HalfLife) ExpandSpec(v any) []spec.Choice {
	list, ok := v.([]any)
	if !ok {
		return []spec.Choice{{Value: v}}
	}
	var out []spec.Choice
	for _, e := range list {
		out = append(out, spec.Choice{Value: e, Swept: []spec.Setting{{Value: e}}})
	}
	return out
}

// String writes h as an option: 0, a number of events, or a time.
func (h HalfLife) String() string {
	if h.Time == 0 {
		return strconv.FormatFloat(h.Events, 'g', -1, 64)
	}
	out := ""
	day := 24 * time.Hour
	if n := h.Time / day; n > 0 {
		out = strconv.Itoa(int(n)) + "d"
	}
	if rest := h.Time % day; rest > 0 || out == "" {
		out += rest.String()
	}
	return out
}

// shown is h as a value of an error: a number, or a text.
func (h HalfLife) shown() any {
	if h.Time == 0 {
		return h.Events
	}
	return h.String()
}

// SpecType is the type of the option in listings.
func (HalfLife) SpecType() string { return "number or time" }

// check refuses a half-life that has no meaning. timed says that events have times, least is the smallest number of
// them and instead what else forgets.
func (h HalfLife) check(change string, timed bool, least int, instead string) error {
	switch {
	case h.IsZero():
		return nil
	case h.Time == 0 && !(h.Events >= float64(least) && h.Events <= 1<<50):
		return spec.Refuse("half_life", h.Events, "expected a number of events, at least %d", least)
	case change != restarts:
		return spec.Refuse("half_life", h.shown(), `but change is %q: expected change = "restarts"%s`, change, instead)
	case h.Time == 0:
		return nil
	case h.Time < time.Second || h.Events != 0:
		return spec.Refuse("half_life", h.shown(), "expected a time of at least 1s")
	case !timed:
		return spec.Refuse("half_life", h.shown(), "but nothing here says when an event came: expected a number of events")
	}
	return nil
}

// Forgetter is implemented by options with a half-life that may be a time.
type Forgetter interface {
	// Forgets returns the half-life.
	Forgets() HalfLife
}

// Forgets implements Forgetter.
func (o *AtomsOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *AutoOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *LinUCBOptions) Forgets() HalfLife { return o.HalfLife }

// Forgets implements Forgetter.
func (o *LogisticOptions) Forgets() HalfLife { return o.HalfLife }

// Clocked is implemented by policies that may forget by the times of events.
type Clocked interface {
	// Tick says at what time the events came that are learned next, in ns since 1970; 0 is not known. The policy's time
	// is the largest so far. It has no effect where the policy forgets nothing, or by the number of events.
	Tick(at int64)
	// Timed reports whether the policy forgets by the times of events.
	Timed() bool
	// SteppedBack returns how often a time was before an earlier one.
	SteppedBack() uint64
}

// fading is what a policy with a half-life keeps of it. It does not change.
type fading struct {
	half  float64 // in units of the clock
	timed bool    // the clock has seconds since 1970, otherwise events
}

func newFading(h HalfLife) *fading {
	switch {
	case h.IsZero():
		return nil
	case h.Time > 0:
		return &fading{half: h.Time.Seconds(), timed: true}
	}
	return &fading{half: h.Events}
}

// tick returns the time in seconds to which a policy at the time now is told to move, at in ns since 1970, and whether
// it is before now: then it stays.
func tick(now float64, at int64) (t float64, back bool) {
	t = float64(at) / 1e9
	return t, t < now
}

// lag is the time of which what has not faded yet may be out of date.
func (f *fading) lag() float64 { return float64(fadeLag * f.half) }

// left is what is left of an event after a time.
func (f *fading) left(age float64) float64 { return logs.Exp(-float64(math.Ln2 * float64(age/f.half))) }
