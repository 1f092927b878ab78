package eventlog

import (
	"encoding/json"
	"io"
)

// Line is one line of a dump: a record and where it stands, or a damage.
type Line struct {
	Shard  uint16  `json:"shard"`
	Seq    uint64  `json:"seq,omitempty"`
	Event  *Event  `json:"key,omitempty"` // of the record itself; none for a loss
	Time   int64   `json:"batch_time,omitempty"`
	Kind   string  `json:"kind"` // of the record, or "damage"
	Record Record  `json:"record,omitempty"`
	Damage *Damage `json:"damage,omitempty"`
}

// Dump writes the records of a data directory to w as JSON, one a line, in the order of the log,
// shard after shard, from sequence from on. It reads the files itself, as Verify does, and changes
// nothing. Where something is damaged a line of kind "damage" stands, and the report says so. Batches
// that were stored twice are written once. keys are as in Verify; entries without effect are left out.
func Dump(w io.Writer, dir string, keys *BatchKeys, from uint64) (*Report, error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	var failed error
	write := func(l Line) {
		if failed == nil {
			failed = enc.Encode(l)
		}
	}
	r, err := scanLocked(dir, hooks{
		keys: keys,
		batch: func(d Delivery) {
			if d.Repeat || d.Seq < from {
				return
			}
			for i, r := range d.Events() {
				l := Line{Shard: d.Shard, Seq: d.Seq, Time: d.Time, Kind: r.Kind().String(), Record: r}
				if d.Epoch != 0 {
					key := d.Key(i)
					l.Event = &key
				}
				write(l)
			}
		},
		damage: func(d Damage) { write(Line{Shard: d.Shard, Kind: "damage", Damage: &d}) },
	})
	if err == nil {
		err = failed
	}
	return r, err
}
