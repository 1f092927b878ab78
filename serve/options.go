package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/model"
	"troupe/timing"
)

// The most that Limits.Feature may allow.
const (
	MaxActions = model.MaxActions
	MaxBytes   = model.MaxBytes
)

// Limits bound what a request may ask for. Zero fields stand for the defaults.
type Limits struct {
	// of a request: Actions, at most MaxActions, and Bytes, at most MaxBytes; the others are fixed
	Feature feature.Limits
	Models  int // 10,000
	Members int // m of an ensemble: 1,000
	Batch   int // requests in a DecideBatch: 256
	Rewards int // requests in a RewardBatch: 10,000
	// Work bounds about how long the decisions of a call may take on a processor, from their sizes and those of the model
	// (choose.Request.Work): more is TooLarge before it is begun. A model whose trial takes longer is refused. Default
	// 100 ms. A busy machine may need twice as long.
	Work     time.Duration
	InFlight int // calls at once: 8,192; more are TooBusy
	Open     int // open events: 4,000,000; more decisions are TooBusy
	// ModelBytes bounds about how many bytes of memory all models take, 0 for no bound: a model that does not fit is
	// refused, TooBusy, and beyond the bound models are laid aside before they are idle. Decisions and rewards are not
	// refused.
	ModelBytes int64
}

// Options configure Open. The zero value needs Dir or Log.
type Options struct {
	// Dir is the data directory: the log in it, snapshots and the keys of event ids. It is made if
	// need be.
	Dir string
	// Log is used instead of the log in Dir; Close does not close it. Without Dir nothing
	// is kept but what is in Log, there are no snapshots, and Keys is needed.
	Log eventlog.Log
	// Disk configures the log in Dir. Shards is always 1.
	Disk eventlog.DiskOptions
	// Cluster makes this server a node of a cluster, nil for a single machine.
	Cluster *Cluster
	// Keys sign event ids. Empty means the file keys.json in Dir, made at the first start.
	Keys eventlog.IDKeys
	// Cell is the number of this server, or of its cluster, among cells behind a proxy, 1 to eventlog.LastCell: event ids
	// begin with a character of its own. 0: it is no cell. Keys of another cell are an error of Open.
	Cell int
	// Committer configures group commit; Shard, Head, Now and Clock are set by Open. Version keeps a log at that
	// log version; 0 raises it to the newest one, in a cluster when every node can read that.
	Committer eventlog.CommitterOptions
	// KeepLogVersion leaves the log in the version that it has: for programs that only look.
	KeepLogVersion bool
	Limits         Limits
	// SnapshotEvery is how many records lie between two snapshots, default 200,000, and
	// SnapshotAfter how much time, default 1 minute. Negative: only at Close.
	SnapshotEvery int
	SnapshotAfter time.Duration
	// Keep is how long entries stay in the log, by the times that they bear, and KeepBytes how many bytes
	// of entries stay; 0 sets no limit, and with two the stricter holds. What is needed stays longer, see
	// Server.Trim. TrimEvery is how often the server looks, default 10 minutes; negative: only on Trim.
	Keep      time.Duration
	KeepBytes int64
	TrimEvery time.Duration
	// ExpireEvery is how often the server looks for windows to close, default 200 ms. Negative:
	// only when Expire is called.
	ExpireEvery time.Duration
	// LayAside is how long a model is not asked, or does not learn, before its policy is given up, at most twice as
	// long, and a quarter of that while the models that are not laid aside take more than 32 MiB; default 1 minute;
	// negative: never. Its snapshot stays, in a file without a name in Dir, in memory without Dir; the next call builds
	// the policy again.
	LayAside time.Duration
	// LaidAside, if not nil, is called after models were laid aside, with about how many bytes of the heap that freed.
	LaidAside func(bytes int64)
	// Wait bounds how long a call waits for its own record to be applied, for MinSeq, and for the end of the log that
	// it reads; default 5 s.
	Wait time.Duration
	// Clock is the machine's when it is not set. Its time of day dates records and decides when a window ends, by
	// writing a record; it has no other say in the state. Limits and periods are those of the time that passes on it.
	Clock timing.Clock
	// Logger gets what the operator should know; never features, never secrets. nil for nothing.
	Logger *slog.Logger

	future   uint16 // in tests the log version of a program to come
	keysKept int    // in tests: fold.History.KeysKept
	crowded  int64  // in tests: in place of crowded
}

// model returns the limits of a configuration.
func (l *Limits) model() model.Limits {
	return model.Limits{Members: l.Members, Feature: l.Feature, Work: l.Work}
}

func (o *Options) defaults() {
	set := func(at *int, v int) {
		if *at == 0 {
			*at = v
		}
	}
	set(&o.Limits.Feature.Actions, model.DefaultLimits.Feature.Actions)
	set(&o.Limits.Feature.Bytes, model.DefaultLimits.Feature.Bytes)
	set(&o.Limits.Members, model.DefaultLimits.Members)
	if o.Limits.Work == 0 {
		o.Limits.Work = model.DefaultWork
	}
	set(&o.Limits.Models, 10_000)
	set(&o.Limits.Batch, 256)
	set(&o.Limits.Rewards, 10_000)
	set(&o.Limits.InFlight, 8192)
	set(&o.Limits.Open, 4_000_000)
	set(&o.SnapshotEvery, 200_000)
	for _, d := range []struct {
		at *time.Duration
		v  time.Duration
	}{{&o.SnapshotAfter, time.Minute}, {&o.ExpireEvery, 200 * time.Millisecond}, {&o.Wait, 5 * time.Second},
		{&o.TrimEvery, 10 * time.Minute}, {&o.LayAside, time.Minute}} {
		if *d.at == 0 {
			*d.at = d.v
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Cluster makes a server one of several that share a log. Each decides, takes rewards and folds the whole log; what
// counts is decided by the fold (package fold, nodes.go). Options.Log and Keys are needed.
type Cluster struct {
	Node string // name of this node
	// Nodes are the names of all nodes, in one order everywhere. Where there is an Engine the log has the list, and
	// this one may be older or newer by some nodes.
	Nodes []string
	// Engine is what has the log where the list of nodes can change; it may be nil. With Joins this node makes itself
	// one of the cluster's.
	Engine Engine
	Joins  bool
	// Imported is the last entry that came from before the cluster: nodes that only it knows are replaced by these.
	Imported uint64
	// ImportedBase is the base that came with a log that was trimmed, its Seq 0 for none. It is in the store of the
	// log, and becomes a base that the log names.
	ImportedBase eventlog.Base
	// Trusted returns why the servers of the log cannot be relied on at present, nil when they can: then nothing is
	// written and the node is not ready. nil for servers of our own. Vouched is who vouches for them, empty when they
	// report themselves.
	Trusted func() error
	Vouched string
	// Replica is what the node does for the files of its replica; none where the log is at servers of others.
	Replica
	// Missing returns the nodes that this one has no connection to. It may be nil.
	Missing func() []string
	// SyncTime measures what the disk of the node's replica takes for a small write and its sync. A node that leads and
	// whose disk is slow lets another one lead. It may be nil.
	SyncTime func() (time.Duration, error)
	// Certified is until when the certificate that the node shows the others is valid; zero for none.
	Certified time.Time
	// Every is how often the node writes a checkpoint, which is its clock, its sign of life and its proof that it
	// reaches a majority; default 1 s.
	Every time.Duration
}

// newest is the highest log version that this program reads and writes.
func (o *Options) newest() uint16 { return max(o.future, eventlog.LogVersion) }

// Replica is what a node does for the files of its replica. Any of its functions may be nil.
type Replica struct {
	// Check reads the files, for CheckReplica. Walk does so for a share of the time. Repair makes them anew from the
	// other nodes when they are damaged, and Care says what was done.
	Check  func() (*eventlog.ReplicaReport, error)
	Walk   func(ctx context.Context, share float64) (*eventlog.ReplicaReport, error)
	Repair func(context.Context) error
	Care   func() eventlog.Care
	// Damage is what the start found wrong with the files, empty for nothing, and Suspect says that they may be
	// damaged: then they are read.
	Damage  string
	Suspect <-chan struct{}
	// WalkEvery is how long after the newest read of all files they are read again, 0 for never; WalkShare is the share
	// of the time, in (0, 1], default 0.1.
	WalkEvery time.Duration
	WalkShare float64
}

// check returns why the settings are not usable.
func (r *Replica) check() error {
	if r.WalkShare == 0 {
		r.WalkShare = 0.1
	}
	switch {
	case !(r.WalkShare > 0 && r.WalkShare <= 1):
		return errors.New("serve: WalkShare is not above 0 and at most 1")
	case r.WalkEvery < 0:
		return errors.New("serve: WalkEvery is negative")
	}
	return nil
}

// Engine is what has the log where the nodes have it themselves, and where the list of nodes can change.
type Engine interface {
	// InGroup returns why the server of this node does not take part yet.
	InGroup(ctx context.Context) error
	// Fit brings the servers of the log a step closer to the nodes in names. Those in gone were removed while this
	// process ran. It returns what it waits for, nothing at the end.
	Fit(ctx context.Context, names, gone []string) (waits string, err error)
	// Changed takes the list that the log has.
	Changed(names []string)
}
