package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"troupe/dataset"
)

// Collect writes results.csv and manifest.json of a directory whose run was killed from the cells in
// its journal, as an interrupted run does itself. A directory whose results are complete, or hold
// those cells already, stays as it is. Nothing is played and no data file is read.
func Collect(dir string, kinds Catalogue) error {
	m, err := ReadManifest(dir)
	if err != nil || m.Status == Complete || m.Shard != nil {
		return err
	}
	x, err := Parse(filepath.Join(dir, ManifestFile), m.Spec, kinds)
	if err != nil {
		return fmt.Errorf("%s: the spec in it: %w", filepath.Join(dir, ManifestFile), err)
	}
	r := newRunner(x, Options{Dir: dir, Manifest: *m, Workers: m.Workers, Data: new(dataset.Source)})
	if len(m.Environments) != len(x.Environments) {
		return fmt.Errorf("%s: %d environments, the spec in it has %d", filepath.Join(dir, ManifestFile),
			len(m.Environments), len(x.Environments))
	}
	r.facts.recorded(m)
	release, err := lock(context.Background(), dir, m.Command, nil)
	if errors.Is(err, errNoWait) {
		return nil // the run is under way and writes what it has itself
	}
	if err != nil {
		return err
	}
	defer release()
	r.o.Force = true // nothing is dropped: the journal stays
	if err := r.recall(); err != nil {
		return err
	}
	if r.table.done <= m.Done {
		return nil
	}
	r.clock.started = time.Now()
	r.facts.notes, r.facts.rounding = m.Notes, m.Rounding
	_, err = r.publish(Interrupted)
	return err
}
