package api

import (
	"fmt"
	"math"
	"time"

	"troupe/serve"
)

// alarm is what is wrong with the server: in a few words behind a colon, and a sentence that says what to do.
type alarm struct{ Short, Text string }

// alarms are what an operator must see, the worst first.
func alarms(h *serve.Health, models []serve.Model) []alarm {
	var out []alarm
	add := func(short, text string) { out = append(out, alarm{short, text}) }
	switch {
	case h.Damage != "" && h.Ready:
		add("a file of the log is damaged", "A file of the log is not what was written: "+h.Damage+". The models are not "+
			"affected, and the server goes on. Keep a backup, stop the server when you can, and run troupe log repair on the "+
			"data directory.")
	case h.Damage != "":
		add("the log is damaged, and the server is read-only", "The log is not what was written: "+h.Damage+". The server "+
			"is read-only. Stop it and run troupe log verify on the data directory.")
	case !h.Ready:
		add("decisions and rewards are refused", "Decisions and rewards are refused: "+h.Reason+".")
	}
	if h.Full {
		add("the log is full, and nothing is recorded", "The log is full: decisions and rewards are answered with 507. Nothing "+
			"is lost. Make room on the disk or raise the limit, and the server goes on by itself.")
	}
	if h.Missing > 0 {
		add("decisions are missing in the log", fmt.Sprintf("%s event ids of this server were sent whose decisions are not in "+
			"the log. Run troupe log verify.", grouped(h.Missing)))
	}
	if h.SnapshotError != "" {
		add("the last snapshot failed", "The last snapshot failed: "+h.SnapshotError+". Nothing is lost, but the next start "+
			"takes longer.")
	}
	for _, m := range models {
		if m.Failed != "" {
			add("the model "+m.Name+" cannot decide", "The model "+m.Name+" cannot decide: "+m.Failed+".")
		}
	}
	return out
}

// headline answers whether something is wrong.
func headline(alarms []alarm, models, warned int, lastHour uint64) string {
	warning := ""
	switch {
	case warned == 1:
		warning = " One model has a warning."
	case warned > 1:
		warning = fmt.Sprintf(" %d models have warnings.", warned)
	}
	switch {
	case len(alarms) == 1:
		return "One thing needs you: " + alarms[0].Short + "." + warning
	case len(alarms) > 1:
		return fmt.Sprintf("%d things need you, first: %s.%s", len(alarms), alarms[0].Short, warning)
	case models == 0:
		return "No model yet."
	}
	count := "One model"
	if models > 1 {
		count = grouped(uint64(models)) + " models"
	}
	switch lastHour {
	case 0:
		count += ", no decision"
	case 1:
		count += ", one decision"
	default:
		count += ", " + grouped(lastHour) + " decisions"
	}
	if count += " in the last hour."; warned > 0 {
		return count + warning
	}
	return "All is well. " + count
}

func decisionsOf(minutes []minute) (n uint64) {
	for _, m := range minutes {
		n += m.decisions
	}
	return n
}

// hour is the picture of the decisions of the last hour: a bar for each minute, the newest at the right.
type hour struct {
	Bars  []bar
	Ticks []hourTick // of decisions a minute, 0 first
	Times []named
	Text  string
}

// bar is one minute, in a picture of 600 × hourHeight.
type bar struct{ X, Y, H float64 }

// hourTick is a line of the picture, at a share of the height from the top.
type hourTick struct {
	Top   float64 // per cent
	Label string
}

const hourHeight = 100

// hourOf draws the minutes; nil when there was no decision.
func hourOf(minutes []minute, now time.Time) *hour {
	var most, rewards uint64
	for _, m := range minutes {
		most, rewards = max(most, m.decisions), rewards+m.rewards
	}
	if most == 0 {
		return nil
	}
	h := &hour{Text: fmt.Sprintf("%s decisions and %s rewards in the last hour, at most %s decisions in a minute.",
		grouped(decisionsOf(minutes)), grouped(rewards), grouped(most))}
	step := roundStep(most)
	top := step * ((most + step - 1) / step)
	for v := uint64(0); v <= top; v += step {
		h.Ticks = append(h.Ticks, hourTick{math.Round(1000*(1-float64(v)/float64(top))) / 10, grouped(v)})
	}
	end := now.Truncate(time.Minute).Add(time.Minute)
	for _, ago := range []time.Duration{60, 30, 0} {
		h.Times = append(h.Times, named{Value: end.Add(-ago * time.Minute).UTC().Format("15:04")})
	}
	for _, m := range minutes {
		ago := int(now.Truncate(time.Minute).Sub(m.at) / time.Minute)
		tall := math.Round(10*hourHeight*float64(m.decisions)/float64(top)) / 10
		h.Bars = append(h.Bars, bar{float64(591 - 10*ago), hourHeight - tall, tall})
	}
	return h
}

// roundStep is 1, 2 or 5 times a power of ten, such that most is reached after two to five steps; 1 for less than two.
func roundStep(most uint64) uint64 {
	for step := uint64(1); ; step *= 10 {
		for _, k := range []uint64{1, 2, 5} {
			if most <= 4*k*step {
				return k * step
			}
		}
	}
}
