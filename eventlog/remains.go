package eventlog

import "time"

// Remains is what the files of one node have of a cluster's log whose other nodes are gone.
type Remains struct {
	First, Last uint64    // entries, all whole; Last < First for none
	Settled     uint64    // the newest entry that a node is known to have applied, so a majority had all up to it
	Written     time.Time // of entry Last, by the clock of its writer; zero when no node has written it
}

// ReadRemains reads the replica of a node that is stopped, as CheckReplica does. What comes behind a damage does not
// count; damage is the first one, nil for none.
func ReadRemains(dir string, keys *BatchKeys) (r Remains, damage *Damage, err error) {
	report, err := CheckReplica(dir, keys, func(e Entry) error {
		r.Written = time.Time{}
		if m, _ := keys.check(e.Data); m != marked { // no node has written it
			return nil
		}
		h, err := ParseHeader(e.Data)
		if err != nil {
			return nil
		}
		r.Settled, r.Written = max(r.Settled, min(h.After, e.Seq-1)), time.Unix(0, h.Time)
		return nil
	})
	if err != nil {
		return r, nil, err
	}
	if r.First, r.Last = report.First, report.Last; len(report.Damage) > 0 {
		damage = &report.Damage[0]
	}
	return r, damage, nil
}
