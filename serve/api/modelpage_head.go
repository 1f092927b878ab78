package api

import (
	"fmt"
	"math"

	"troupe/ope"
	"troupe/serve"
)

// earned is what the newest decisions say of a model.
type earned struct {
	known   bool // there is a final reward
	list    bool // the model plays lists, and mean is that of a list
	mean    float64
	weighed bool      // the log supports a number for uniform play
	more    *ope.Pair // what the model earns more than uniform play, at every look; nil where nothing is known
}

// changeShown is for how many decisions the headline has a change of the world.
const changeShown = 1000

// modelHeadline answers whether the model pays: what it earns, against its control group where it has one, or else against
// choosing at random. A model that cannot learn says that first.
func modelHeadline(m *serve.Model, e *earned, control *controlPage) string {
	c, name := &m.Counts, m.Name
	switch {
	case m.Failed != "":
		return name + " cannot decide: " + m.Failed + "."
	case m.Paused:
		return name + " is paused: decisions are refused until it is resumed."
	case c.Decisions == 0:
		return name + " is ready and has not been asked yet."
	case c.Rewards == 0 && c.Defaulted == 0:
		if c.Decisions == 1 {
			return name + " has chosen once and has heard nothing back yet."
		}
		return fmt.Sprintf("%s has chosen %s times and has heard nothing back yet.", name, grouped(c.Decisions))
	}
	if n := m.Noticed; n != nil && c.Learned-min(n.Seen, c.Learned) < changeShown {
		return fmt.Sprintf("The world changed at about decision %s; %s has begun to learn it again.", grouped(n.At), name)
	}
	if !e.known {
		return name + " has no final reward yet."
	}
	if e.list {
		return fmt.Sprintf("%s earns %s a list.", name, short(e.mean))
	}
	s := fmt.Sprintf("%s earns %s a decision", name, short(e.mean))
	if control != nil {
		return s + againstControl(control.result)
	}
	switch {
	case e.more != nil && e.more[0] > 0:
		return fmt.Sprintf("%s, at least %s more than choosing at random.", s, short(e.more[0]))
	case e.more != nil && e.more[1] < 0:
		return fmt.Sprintf("%s, at least %s less than choosing at random.", s, short(-e.more[1]))
	case !e.weighed:
		return s + ". What choosing at random would earn is not known yet."
	}
	return s + ". Against choosing at random it is too close to call."
}

// againstControl ends the headline of a model with a control group.
func againstControl(r *ope.ControlResult) string {
	if r == nil {
		return ". What its control group earns is not known yet."
	}
	switch d := r.Difference; {
	case d.Every[0] > 0:
		return fmt.Sprintf(", %s more than its control group.", short(d.Mean))
	case d.Every[1] < 0:
		return fmt.Sprintf(", %s less than its control group.", short(math.Abs(d.Mean)))
	case d.AtEnd != nil && d.AtEnd[0] > 0:
		return ", probably more than its control group."
	case d.AtEnd != nil && d.AtEnd[1] < 0:
		return ", probably less than its control group."
	}
	return ". Against its control group it is too close to call."
}
