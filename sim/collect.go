package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
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
	for _, e := range m.Environments {
		r.worlds = append(r.worlds, worldFacts{dim: e.Dim, file: e.Data, largest: e.LargestRegret})
	}
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
	if r.done <= m.Done {
		return nil
	}
	r.started = time.Now()
	r.notes, r.rounding = m.Notes, m.Rounding
	_, err = r.publish(Interrupted)
	return err
}

// newRunner fills in the defaults of the options.
func newRunner(x *Experiment, o Options) *runner {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	if o.Data == nil {
		o.Data = new(dataset.Source)
	}
	r := &runner{x: x, base: o.Dir, want: x.Cells(), data: dataFiles{o.Data, filepath.Dir(x.src.Name)}, o: o,
		started: time.Now(), processor: ProcessorTime(),
		cells: make([]entry, x.Cells()), finishedIn: make([]int, x.Replications), starts: make([]*entry, x.Cells()),
		lost:  make([]atomic.Int32, len(x.Policies)),
		sizes: make([]atomic.Int64, len(x.Environments)*len(x.Policies))}
	if !o.Shard.Whole() {
		if o.Dir != "" {
			r.o.Dir = filepath.Join(o.Dir, ShardsDir, o.Shard.Dir())
		}
		r.divide()
	}
	return r
}
