package logged

import "strconv"

// Control is the control group of the model that decided. With its share s, the law μ of the draw before the group was
// drawn is (1 − s)·π + s·c, π that of the model and c that of the control: 1/K for each of K actions, or the first one.
type Control struct {
	Share float64 // above 0, at most ½
	First bool    // the control plays the first action, and not a uniform one
	In    bool    // the decision is one of the control group
}

// law returns c(a) of K actions.
func (c *Control) law(a, k int) float64 {
	switch {
	case !c.First:
		return 1 / float64(k)
	case a == 0:
		return 1
	}
	return 0
}

// Mix makes the law of the model's group that of both groups together.
func (c *Control) Mix(law []float64) {
	for a, p := range law {
		law[a] = float64((1-c.Share)*p) + float64(c.Share*c.law(a, len(law)))
	}
}

// Groups returns the laws of the model and of the control at an event with the law of both together, in dst, which grows
// to 2·K. Where digits of that law were lost the smallest values are 0.
func (c *Control) Groups(dst, law []float64) (model, control []float64) {
	k := len(law)
	dst = append(dst[:0], law...)
	sum := 0.0
	for a, p := range law {
		own := c.law(a, k)
		dst = append(dst, own)
		dst[a] = max(0, (p-float64(c.Share*own))/(1-c.Share))
		sum += dst[a]
	}
	for a := range k {
		dst[a] /= sum
	}
	return dst[:k:k], dst[k:]
}

// control reads the columns of a control group.
func (row *exportRow) control() (*Control, error) {
	switch {
	case row.group == "" && !row.hasShare && row.plays == "":
		return nil, nil
	case row.group != "model" && row.group != "control":
		return nil, bad("group", row.group, "model or control")
	case !(row.share > 0 && row.share <= .5):
		return nil, bad("control", strconv.FormatFloat(row.share, 'g', -1, 64), "the share of the control group, above 0 and at most 0.5")
	case row.plays != "uniform" && row.plays != "first":
		return nil, bad("control_plays", row.plays, "uniform or first")
	}
	return &Control{Share: row.share, First: row.plays == "first", In: row.group == "control"}, nil
}

// checkControl refuses a law that cannot be that of both groups together.
func (e *Event) checkControl() error {
	c := e.Control
	if c == nil || e.Law == nil {
		return nil
	}
	for a, p := range e.Law {
		if p < float64(c.Share*c.law(a, len(e.Law)))-Tolerance {
			return bad("law["+strconv.Itoa(a)+"]", strconv.FormatFloat(p, 'g', -1, 64), "%g at least, what the control group alone plays",
				c.Share*c.law(a, len(e.Law)))
		}
	}
	return nil
}
