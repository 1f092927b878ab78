package episode

// Valuer is implemented by agents that plan with one of several models, each with values of its own: ensemble and
// atoms.
type Valuer interface {
	// Models returns how many models the agent plays with: 2m with signs, m without, 0 where it has none.
	Models() int
	// Values stores V_h(s) of model i in dst, place h·S + s, before the episode that comes next: model i < m is member
	// i with the sign +, model m + i the same with −. It also values states that were never seen, by the prior alone.
	// What the agent does afterwards is the same, bit for bit; it costs more, because the agent goes on valuing all
	// states.
	Values(dst []float64, i int)
}

// models is what plays an episode, of the noise that has members.
type models interface{ playing() *member }

func (m *member) playing() *member { return m }

// Models implements Valuer.
func (t *tabular) Models() int {
	who, ok := t.noise.(models)
	if !ok {
		return 0
	}
	if m := who.playing(); m.oneSided {
		return m.m
	}
	return 2 * who.playing().m
}

// Values implements Valuer. Cost: one backward pass over all cells; nothing is kept but which states are valued.
func (t *tabular) Values(dst []float64, i int) {
	for h := range t.size.Steps {
		for s := range t.size.States {
			if at := h*t.size.States + s; !t.seen[at] {
				t.seen[at] = true
				t.order[h] = append(t.order[h], int32(s))
				t.noise.saw(h, s)
			}
		}
	}
	m := t.noise.(models).playing()
	before := *m
	m.j, m.sign = i, 1
	if i >= m.m {
		m.j, m.sign = i-m.m, -1
	}
	t.back(t.noise, 0)
	copy(dst, t.v[:t.size.Steps*t.size.States])
	*m = before
	t.back(t.noise, 0)
}
