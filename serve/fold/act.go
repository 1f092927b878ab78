package fold

import (
	"encoding/json"
	"fmt"
	"time"

	"troupe/eventlog"
	"troupe/serve/model"
)

// act is a control record that was read.
type act struct {
	r    *eventlog.Control
	cfg  *model.Compiled // nil for an act without a configuration
	seed string          // of the configuration
	at   Stamp
}

// read reads the record of an act in entry seq.
func (a *act) read(r *eventlog.Control, seq uint64, shapes *model.Shapes) error {
	a.r, a.at = r, Stamp{seq, time.Unix(0, r.Time).UTC()}
	if len(r.Config) == 0 {
		return nil
	}
	var x controlConfig
	err := json.Unmarshal(r.Config, &x)
	if err == nil {
		a.cfg, err = shapes.Logged(x.Config)
	}
	if err != nil {
		return fmt.Errorf("configuration of %q: %w", r.Name, err)
	}
	a.seed = x.Seed
	return nil
}
