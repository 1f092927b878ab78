package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"troupe/spec"
)

// cellKeys stores the keys of the replications of an environment and a policy. A key is a hash of everything
// the numbers of a cell depend on: the two tables without their names, the bytes of the data file, seed,
// replication, horizon, checkpoints, and the program.
func cellKeys(x *Experiment, keys []string, e, p int, program, data string) error {
	head, err := keyHead(x, e, p, program, data)
	if err != nil {
		return err
	}
	tail, err := json.Marshal(struct {
		Checkpoints []int // the last is the horizon
		Horizon     int
		Record      []string `json:",omitempty"`
	}{x.CheckpointsOf(e), x.HorizonOf(e), x.Record})
	if err != nil {
		return err
	}
	tail[0] = ','
	number(keys, head, tail)
	return nil
}

// cellStems stores the stems of the cells: their keys without horizon and checkpoints. Cells of one
// stem play the same rounds, as far as their policy does not know the horizon.
func cellStems(x *Experiment, stems []string, e, p int, program, data string) error {
	head, err := keyHead(x, e, p, program, data)
	if err != nil {
		return err
	}
	tail, err := json.Marshal(x.Record)
	if err != nil {
		return err
	}
	number(stems, head, append(append([]byte(`,"Record":`), tail...), '}'))
	return nil
}

// keyHead is the part of the keys that all replications share.
func keyHead(x *Experiment, e, p int, program, data string) ([]byte, error) {
	type table struct {
		Kind  string
		Table spec.Raw
		Data  string `json:",omitempty"`
	}
	world, pol := &x.Environments[e], &x.Policies[p]
	return json.Marshal(struct {
		Format      int
		Program     string
		Environment table
		Policy      table
		Seed        uint64
		Stream      string   `json:",omitempty"`
		Feedback    spec.Raw `json:",omitempty"`
	}{1, program, table{world.Kind, world.Table, data}, table{pol.Kind, pol.Table, ""}, x.SeedOf(e), x.Stream,
		world.LateRaw})
}

// number hashes one object for each replication, its field Replication between head and tail.
func number(keys []string, head, tail []byte) {
	head = append(head[:len(head)-1], `,"Replication":`...)
	for r := range keys {
		keys[r] = hash(append(strconv.AppendInt(head, int64(r+1), 10), tail...))[:32]
	}
}

// Identity is a hash of what the spec asks for, the number of replications aside.
func (x *Experiment) Identity() string {
	type named struct {
		Name, Kind string
		Table      spec.Raw
		Feedback   spec.Raw `json:",omitempty"`
		Horizon    int      `json:",omitempty"`
		Seed       *uint64  `json:",omitempty"`
	}
	var tables [2][]named
	for _, c := range x.Environments {
		tables[0] = append(tables[0], named{c.Name, c.Kind, c.Table, c.LateRaw, c.Horizon, c.Seed})
	}
	for _, c := range x.Policies {
		tables[1] = append(tables[1], named{c.Name, c.Kind, c.Table, nil, 0, nil})
	}
	b, err := json.Marshal(struct {
		Seed        uint64
		Horizon     int
		Checkpoints []int
		Tables      [2][]named
		Hypothesis  string   `json:",omitempty"`
		Record      []string `json:",omitempty"`
		Estimand    string   `json:",omitempty"`
		Claims      []Claim  `json:",omitempty"`
	}{x.Seed, x.Horizon, x.Checkpoints, tables, x.Hypothesis, x.Record, x.Estimand, x.Claims})
	if err != nil {
		panic("sim: a decoded spec does not encode: " + err.Error())
	}
	return hash(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
