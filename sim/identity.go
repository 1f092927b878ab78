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
func (x *Experiment) cellKeys(keys []string, e, p int, program, data string) error {
	type table struct {
		Kind  string
		Table spec.Raw
		Data  string `json:",omitempty"`
	}
	world, pol := &x.Environments[e], &x.Policies[p]
	head, err := json.Marshal(struct {
		Format      int
		Program     string
		Environment table
		Policy      table
		Seed        uint64
	}{1, program, table{world.Kind, world.Table, data}, table{pol.Kind, pol.Table, ""}, x.Seed})
	if err != nil {
		return err
	}
	tail, err := json.Marshal(struct {
		Checkpoints []int // the last is the horizon
		Horizon     int
		Record      []string `json:",omitempty"`
	}{x.Checkpoints, x.Horizon, x.Record})
	if err != nil {
		return err
	}
	// One object, its field Replication between the others.
	head = append(head[:len(head)-1], `,"Replication":`...)
	tail[0] = ','
	for r := range keys {
		keys[r] = hash(append(strconv.AppendInt(head, int64(r+1), 10), tail...))[:32]
	}
	return nil
}

// Identity is a hash of what the spec asks for, the number of replications aside: a directory of
// results can be extended by more replications of the same experiment and by nothing else. The
// hypothesis is part of it: results cannot be continued under another one.
func (x *Experiment) Identity() string {
	type named struct {
		Name, Kind string
		Table      spec.Raw
	}
	var tables [2][]named
	for _, c := range x.Environments {
		tables[0] = append(tables[0], named{c.Name, c.Kind, c.Table})
	}
	for _, c := range x.Policies {
		tables[1] = append(tables[1], named{c.Name, c.Kind, c.Table})
	}
	b, err := json.Marshal(struct {
		Seed        uint64
		Horizon     int
		Checkpoints []int
		Tables      [2][]named
		Hypothesis  string   `json:",omitempty"`
		Record      []string `json:",omitempty"`
	}{x.Seed, x.Horizon, x.Checkpoints, tables, x.Hypothesis, x.Record})
	if err != nil {
		panic("sim: a decoded spec does not encode: " + err.Error())
	}
	return hash(b)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
