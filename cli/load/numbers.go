package load

import (
	"encoding/json"

	"troupe/client"
	"troupe/internal/worlds"
)

// playNumbers plays a world of numbers: the model over HTTP, and the bins beside it.
func playNumbers(m *served, s *streamFlags, kind worlds.NumberKind, seed uint64, line func(PossibleLine)) error {
	w, err := kind.New(seed, s.rounds)
	if err != nil {
		return err
	}
	if err := m.create(s, nil); err != nil {
		return err
	}
	request := requestOf(w)
	at := marks(s.rounds)
	bins := worlds.NewNumberBins(w, 10, seed).Play(at...)
	var sums, last [3]float64 // got, best, uniform
	share := func(a, b [3]float64) float64 { return (b[0] - a[0] - b[2] + a[2]) / (b[1] - a[1] - b[2] + a[2]) }
	k := 0
	for t := range w.Contexts {
		request.Context = json.RawMessage(w.Contexts[t].AppendJSON(nil))
		d, err := m.client.Decide(m.ctx, m.model, request)
		if err != nil {
			return err
		}
		offer, a := d.Action.Index, make([]float64, len(w.Numbers))
		for i := range a {
			a[i] = d.Numbers[w.Numbers[i].Name]
		}
		if _, err := m.client.Reward(m.ctx, d.EventID, w.Reward(t, offer, a)); err != nil {
			return err
		}
		m.show(t + 1)
		best, uniform := w.Possible(t)
		sums[0], sums[1], sums[2] = sums[0]+w.Mean(t, offer, a), sums[1]+best, sums[2]+uniform
		if t+1 == at[k] {
			line(PossibleLine{t + 1, share([3]float64{}, sums), share(last, sums), bins[k]})
			last = sums
			k++
		}
	}
	return nil
}

// requestOf is what every decision of a world asks for.
func requestOf(w *worlds.NumberWorld) (r client.DecideRequest) {
	for _, x := range w.Numbers {
		n := client.Play(x.Name, x.Min, x.Max, x.Step)
		n.Cyclic, n.Log = x.Cyclic, x.Log
		r.Numbers = append(r.Numbers, n)
	}
	for i, id := range w.Offers {
		a := client.Action{ID: id}
		if i < w.Bare {
			a.Numbers = []string{}
		}
		r.Actions = append(r.Actions, a)
	}
	return r
}
