package sim

import "encoding/json"

// World is a hash of what is played: the environments and the horizon, whatever the policies, the seed and the
// number of replications are. Two runs of one world can be compared.
func (x *Experiment) World() string {
	var rows []EnvironmentRow
	for _, c := range x.Environments {
		rows = append(rows, EnvironmentRow{
			Name: c.Name, Kind: c.Kind, Options: c.Table, Feedback: c.LateRaw, Horizon: c.Horizon, Seed: c.Seed,
		})
	}
	return worldOf(rows, x.Horizon)
}

// World is Experiment.World of the run.
func (m *Manifest) World() string { return worldOf(m.Environments, m.Horizon) }

func worldOf(rows []EnvironmentRow, horizon int) string {
	type world struct {
		Name, Kind string
		Options    map[string]any
		Feedback   map[string]any `json:",omitempty"`
		Data       string         `json:",omitempty"`
		Horizon    int            `json:",omitempty"`
		Seed       *uint64        `json:",omitempty"`
	}
	var all []world
	for _, r := range rows {
		all = append(all, world{r.Name, r.Kind, r.Options, r.Feedback, r.Data.SHA256, r.Horizon, r.Seed})
	}
	b, err := json.Marshal(struct {
		Environments []world
		Horizon      int
	}{all, horizon})
	if err != nil {
		panic("sim: a decoded spec does not encode: " + err.Error())
	}
	return hash(b)
}
