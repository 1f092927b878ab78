package load

import (
	"encoding/json"
	"fmt"

	"troupe/client"
	"troupe/internal/worlds"
)

// playLists plays a world of lists: the model over HTTP, and the table on the same world beside it.
func playLists(m *served, s *streamFlags, kind worlds.ListKind, seed uint64, line func(PossibleLine)) error {
	w := kind.New(seed)
	var more map[string]any
	if w.Whole {
		more = map[string]any{"list": map[string]any{"reward": "list"}}
	}
	if err := m.create(s, more); err != nil {
		return err
	}
	at := marks(s.rounds)
	var table []float64
	if err := worlds.PlayLists(kind.New(seed), worlds.NewListTable(w, seed), at, func(_ int, share, _ float64) { table = append(table, share) }); err != nil {
		return err
	}
	k := 0
	return worlds.PlayLists(w, &listServer{served: m, world: w}, at, func(rounds int, share, recent float64) {
		line(PossibleLine{rounds, share, recent, table[k]})
		k++
	})
}

// listServer is the model of a server as a worlds.ListPlayer.
type listServer struct {
	served *served
	world  *worlds.ListWorld
	event  string
	done   int
}

var _ worlds.ListPlayer = (*listServer)(nil)

// Decide implements worlds.ListPlayer.
func (p *listServer) Decide(d *worlds.ListDecision) ([]int, error) {
	actions, place := make([]client.Action, len(d.Actions)), map[string]int{}
	for i, a := range d.Actions {
		actions[i].ID, place[a.ID] = a.ID, i
		if a.Features != nil {
			actions[i].Features = json.RawMessage(a.Features.AppendJSON(nil))
		}
	}
	r := client.DecideRequest{Context: json.RawMessage(d.Context.AppendJSON(nil)), Choose: p.world.K, Actions: actions}
	if p.world.Sets != nil {
		r.Choose, r.Actions = 0, nil
		for _, n := range p.world.Sets {
			r.Slots = append(r.Slots, client.Slot{Actions: actions[:n]})
			actions = actions[n:]
		}
	}
	x, err := p.served.client.Decide(p.served.ctx, p.served.model, r)
	if err != nil {
		return nil, err
	}
	list := make([]int, len(x.List))
	for l, e := range x.List {
		list[l] = place[e.ID]
	}
	if len(list) != p.world.K {
		return nil, fmt.Errorf("the server answered %d entries, expected a list of %d", len(list), p.world.K)
	}
	p.event = x.EventID
	return list, nil
}

// Reward implements worlds.ListPlayer.
func (p *listServer) Reward(_ *worlds.ListDecision, list []int, y []float64) (err error) {
	if p.world.Whole {
		_, err = p.served.client.Reward(p.served.ctx, p.event, y[0])
	} else {
		_, err = p.served.client.RewardList(p.served.ctx, p.event, y, len(list))
	}
	p.done++
	p.served.show(p.done)
	return err
}
