package eventlog

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A node whose files are damaged makes its replica anew from those of the other nodes. The engine does the copying, as
// for a node that has lost its disk. What this file sees to is that nothing is lost by it:
//
//  1. Each other node reads its files, which must be whole. They answer on a subject of the log's account.
//  2. This node stops its engine. A server without an engine takes its place, and asks the leader whether every other
//     node has all that is committed. From then on a majority without this node has it, and every later entry is at a
//     majority without this node as well.
//  3. The files are put aside, and an engine begins with none.
//  4. When it has what the leader has, all of its files are read, and its newest entry is compared with the leader's:
//     the rolling hash in each batch vouches for all before it. Then what was put aside is removed.
//
// A process that ends in between goes on with 4 at its next start. When that is not possible, because another node's
// files are damaged, too, or another node is away, the node takes the entries that it lacks one by one (fill.go).

const (
	healDir     = "damaged"   // in the directory of a node: what was put aside
	careFile    = "care.json" // there, too: see Care
	checkAsk    = 10 * time.Minute
	checkAlive  = 2 * time.Second  // how often a node that reads its files is asked whether it still runs
	healCurrent = 30 * time.Second // for the others to have all that is committed
	healEvery   = 200 * time.Millisecond
	healRoom    = 64 << 20 // beside the second replica
)

// RepairingError is the error of a node that makes its replica anew from those of the others.
type RepairingError struct {
	Since  time.Time
	Damage string // why
}

// Error says in one line what is wrong.
func (e *RepairingError) Error() string {
	return fmt.Sprintf("this node's files were damaged (%s); since %s it makes them anew from the other nodes, and it is "+
		"ready again by itself", e.Damage, e.Since.UTC().Format(time.RFC3339))
}

// NotRepairedError is the error of a repair that would not be safe, or not complete. The node is as it was.
type NotRepairedError struct{ Why error }

// Error says in one line what is wrong.
func (e *NotRepairedError) Error() string {
	return "it is not repaired from the others: " + e.Why.Error()
}

// Unwrap returns the reason.
func (e *NotRepairedError) Unwrap() error { return e.Why }

// Care is what a node did for its files. It is kept in the directory.
type Care struct {
	Repairs  uint64    `json:"repairs"`                  // how often the replica was made anew
	Repaired time.Time `json:"repaired,omitzero"`        // when that was last
	Damage   string    `json:"damage,omitempty"`         // what was wrong then
	Verified time.Time `json:"verified,omitzero"`        // when all files were read last, and were whole
	Entry    uint64    `json:"verified_entry,omitempty"` // the newest entry then
}

// Care returns what the node did for its files.
func (n *Node) Care() Care {
	n.caring.Lock()
	defer n.caring.Unlock()
	return n.care
}

// noteCare changes the note and keeps it. Without it nothing is lost but the note.
func (n *Node) noteCare(change func(*Care)) {
	n.caring.Lock()
	defer n.caring.Unlock()
	change(&n.care)
	b, err := json.Marshal(n.care)
	if err == nil {
		err = writeMarkerFile(n.dir, careFile, string(b)+"\n")
	}
	if err != nil {
		n.logf("%s is not written: %v", careFile, err)
	}
}

func (n *Node) readCare() {
	b, err := os.ReadFile(filepath.Join(n.dir, careFile))
	if err == nil {
		err = json.Unmarshal(b, &n.care)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.logf("%s is not readable, and begins anew: %v", careFile, err)
		n.care = Care{}
	}
}

// Unfinished says what was wrong with the files that a repair has put aside, when it is not finished; Repair finishes
// it. Otherwise it returns nothing.
func (n *Node) Unfinished() string {
	if !exists(filepath.Join(n.dir, healDir)) {
		return ""
	}
	if d := n.Care().Damage; d != "" {
		return d
	}
	return "damage of before the start"
}

// Walk is Check at a pace: it reads for share of the time, in (0, 1], and pauses otherwise. When all is whole, Care has
// that from then on.
func (n *Node) Walk(ctx context.Context, share float64) (*ReplicaReport, error) {
	if !(share > 0 && share <= 1) {
		return nil, fmt.Errorf("share %v: expected a number above 0 and at most 1", share)
	}
	began := n.time.Mark()
	r, err := pacedReplica(n.dir, n.keys, nil, func() error {
		if read := n.time.Since(began); share < 1 {
			n.time.Sleep(ctx, time.Duration(float64(read)*(1/share-1)))
		}
		began = n.time.Mark()
		return ctx.Err()
	})
	if err == nil && len(r.Damage) == 0 {
		n.noteVerified(r)
	}
	return r, err
}

// noteVerified notes that all files were read and are whole.
func (n *Node) noteVerified(r *ReplicaReport) {
	n.noteCare(func(c *Care) { c.Verified, c.Entry = n.time.Now().UTC().Truncate(time.Second), r.Last })
}

// Repair makes the replica of this node anew from those of the others when its files are damaged. Let another node lead
// before (Stream.HandOver). While it runs, Err is a *RepairingError. A *NotRepairedError says why nothing was done; ask
// again later. Another error leaves what was put aside, and the next call, or the next start, goes on. The node should
// have room for a second replica.
func (n *Node) Repair(ctx context.Context) error {
	n.repairs.Lock()
	defer n.repairs.Unlock()
	defer n.intends.Store(false)
	if !exists(filepath.Join(n.dir, healDir)) {
		if e := n.down.Load(); e != nil {
			return &NotRepairedError{e}
		}
		damage, err := n.damage(ctx)
		if err != nil || damage == "" {
			return err
		}
		if err := n.mayRepair(ctx); err != nil {
			return n.repairSome(ctx, damage, err)
		}
		if _, err := n.turn(ctx); err != nil {
			return &NotRepairedError{err}
		}
		n.restart.Lock()
		err = n.swap(ctx, damage)
		n.restart.Unlock()
		if err != nil {
			return err
		}
	}
	n.intends.Store(true)
	return n.finishRepair(ctx)
}

// repairSome takes the entries that are missing from the others one by one, where the replica cannot be made anew.
func (n *Node) repairSome(ctx context.Context, damage string, why error) error {
	if errors.Is(why, errLeads) { // its engine must not rest
		return &NotRepairedError{why}
	}
	if err := n.fill(ctx, damage, true); errors.Is(err, errNoHoles) {
		return &NotRepairedError{why}
	} else if err != nil {
		return &NotRepairedError{fmt.Errorf("%w; %w", why, err)}
	}
	n.noteFilled(damage)
	if r, err := n.Check(); err != nil {
		return err
	} else if len(r.Damage) > 0 {
		return &NotRepairedError{fmt.Errorf("%w; the entries are whole again, and %v", why, r.Damage[0])}
	}
	return nil
}

// damage says what is wrong with the files, nothing when they are whole and have what the leader has: an engine that
// finds damage at its start cuts its files there, and takes from the others what is missing then.
func (n *Node) damage(ctx context.Context) (string, error) {
	found, err := n.Check()
	switch {
	case err != nil:
		return "", err
	case len(found.Damage) > 0:
		return found.Damage[0].String(), nil
	case n.others() == 0:
		return "", nil
	}
	last, err := n.caughtUp(ctx)
	if err == nil {
		_, err = n.sameEntries(ctx, last)
	}
	var bad *DamagedReplicaError
	switch {
	case errors.As(err, &bad):
		return bad.Damage[0].String(), nil
	case err != nil:
		return "", &NotRepairedError{err}
	}
	return "", nil
}

// mayRepair returns why the replica cannot be made anew now. It costs each other node a read of its log.
func (n *Node) mayRepair(ctx context.Context) error {
	if n.others() == 0 {
		return errors.New("there is no other node")
	}
	size, err := dirSize(filepath.Join(n.dir, "jetstream"))
	if err != nil {
		return err
	}
	if free, err := diskFree(n.dir); err != nil {
		return err
	} else if free < uint64(size)+healRoom {
		return fmt.Errorf("a second replica needs %d bytes, and the disk has %d", size+healRoom, free)
	}
	last, others, err := n.othersCurrent(ctx)
	if err != nil {
		return err
	}
	for _, name := range others {
		if err := n.askWhole(ctx, name, last); err != nil {
			return err
		}
	}
	_, _, err = n.othersCurrent(ctx)
	return err
}

// swap stops the engine, puts its files aside and starts another one without files. The caller holds restart.
func (n *Node) swap(ctx context.Context, damage string) (err error) {
	n.repairing.Store(&RepairingError{n.time.Now(), damage})
	n.logf("the files of this node are damaged, and it makes them anew from the others: %s", damage)
	stopServer(n)
	err = n.beginWith(ctx, false)
	if err == nil {
		err = n.putAside(ctx, damage)
		stopServer(n)
	}
	if began := n.beginAgain(ctx); began != nil {
		return began
	}
	if err != nil {
		n.repairing.Store(nil)
		return &NotRepairedError{err}
	}
	return nil
}

// beginAgain starts a server in the place of one that was stopped, again and again until it starts.
func (n *Node) beginAgain(ctx context.Context) error {
	for {
		err := n.begin(ctx)
		if err == nil {
			n.contacts.reset(n.time.Mark())
			return nil
		}
		n.logf("the engine does not start: %v", err)
		if !n.time.Sleep(ctx, lastRetry) {
			return ctx.Err()
		}
	}
}

func stopServer(n *Node) {
	old := n.srv.Load()
	old.Shutdown()
	old.WaitForShutdown()
}

// putAside waits until all others have what is committed, and puts the files aside. No engine runs.
func (n *Node) putAside(ctx context.Context, damage string) error {
	for since := n.time.Mark(); ; {
		_, _, err := n.othersCurrent(ctx)
		if err == nil {
			break
		}
		if n.time.Since(since) > healCurrent || !n.time.Sleep(ctx, healEvery) {
			return err
		}
	}
	n.noteCare(func(c *Care) { c.Damage = damage })
	aside, store := filepath.Join(n.dir, healDir), filepath.Join(n.dir, "jetstream")
	if exists(aside) { // of a repair that was not finished: what was begun since is no use
		return errors.Join(os.RemoveAll(store), syncDir(n.dir))
	}
	return errors.Join(os.Rename(store, aside), syncDir(n.dir))
}

// finishRepair waits until the new replica has what the leader has, and checks it.
func (n *Node) finishRepair(ctx context.Context) error {
	if n.repairing.Load() == nil {
		n.repairing.Store(&RepairingError{n.time.Now(), n.Unfinished()})
	}
	begun := n.repairing.Load()
	said := ""
	for n.time.Sleep(ctx, healEvery) {
		last, err := n.caughtUp(ctx)
		if err == nil {
			var whole bool
			if whole, err = n.sameEntries(ctx, last); whole {
				break
			}
			var bad *DamagedReplicaError
			if errors.As(err, &bad) {
				return n.again(ctx, bad)
			}
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			n.logf("the new replica waits: %s", said)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(n.dir, healDir)), syncDir(n.dir)); err != nil {
		n.logf("what was put aside is still there: %v", err)
	}
	now := n.time.Now().UTC().Truncate(time.Second)
	n.noteCare(func(c *Care) { c.Repairs, c.Repaired, c.Verified = c.Repairs+1, now, now })
	n.repairing.Store(nil)
	n.logf("the files of this node are made anew from the others and whole, after %v", n.time.Now().Sub(begun.Since).
		Round(100*time.Millisecond))
	return nil
}

// again puts away a new replica that is damaged, too, if the others allow it.
func (n *Node) again(ctx context.Context, bad *DamagedReplicaError) error {
	if err := n.mayRepair(ctx); err != nil {
		return &NotRepairedError{fmt.Errorf("the new files are damaged, too (%v): %w", bad.Damage[0], err)}
	}
	n.restart.Lock()
	defer n.restart.Unlock()
	if err := n.swap(ctx, bad.Damage[0].String()); err != nil {
		return err
	}
	return fmt.Errorf("the new files were damaged, too, and are made once more: %w", bad)
}

// log returns the stream of the log as its leader sees it now.
func (n *Node) log(ctx context.Context) (*jetstream.StreamInfo, error) {
	js, err := jetstream.New(n.nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTry)
	defer cancel()
	s, err := js.Stream(ctx, streamName(0))
	if err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	info := s.CachedInfo()
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return nil, errors.New("the log has no leader")
	}
	return info, nil
}

var errLeads = errors.New("this node leads the log")

// othersCurrent returns the newest entry and the names of the other nodes, all of which must have what is committed.
func (n *Node) othersCurrent(ctx context.Context) (last uint64, names []string, err error) {
	info, err := n.log(ctx)
	if err != nil {
		return 0, nil, err
	}
	if info.Cluster.Leader == n.name {
		return 0, nil, errLeads
	}
	names = []string{info.Cluster.Leader}
	for _, r := range info.Cluster.Replicas {
		switch {
		case r.Name == n.name:
			continue
		case r.Offline || !r.Current:
			return 0, nil, fmt.Errorf("%s does not have all that the leader has", r.Name)
		}
		names = append(names, r.Name)
	}
	if len(names) != n.others() {
		return 0, nil, fmt.Errorf("the log is at %d other nodes, and there are %d", len(names), n.others())
	}
	slices.Sort(names)
	return info.State.LastSeq, names, nil
}

// caughtUp returns the newest entry when the replica of this node has it, as the leader says, and another node leads.
func (n *Node) caughtUp(ctx context.Context) (last uint64, err error) {
	info, err := n.log(ctx)
	if err != nil {
		return 0, err
	}
	if info.Cluster.Leader == n.name { // what it has cannot be compared with itself
		return 0, errors.Join(errLeads, stepDown(ctx, n.nc,
			"$JS.API.STREAM.LEADER.STEPDOWN."+streamName(0), heir(info.Cluster, n.name)))
	}
	for _, r := range info.Cluster.Replicas {
		if r.Name == n.name && r.Current && !r.Offline {
			return info.State.LastSeq, nil
		}
	}
	return 0, errors.New("the entries are on their way")
}

// sameEntries reports whether the files have the log up to last, and their newest entry is the leader's. A new replica
// with damage is a *DamagedReplicaError.
func (n *Node) sameEntries(ctx context.Context, last uint64) (bool, error) {
	var newest Entry
	r, err := readReplica(n.dir, n.keys, func(e Entry) error { newest = e; return ctx.Err() })
	switch {
	case err != nil:
		return false, err
	case len(r.Damage) > 0:
		return false, &DamagedReplicaError{n.dir, r.Damage}
	case r.Last < last:
		return false, fmt.Errorf("the files end with entry %d of %d", r.Last, last)
	case newest.Seq == 0:
		return true, nil
	}
	wctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	there, err := leaderGet(wctx, n.nc, 0, newest.Seq)
	if err != nil {
		return false, err
	}
	if HashBatch(there.Data) != HashBatch(newest.Data) {
		return false, &DamagedReplicaError{n.dir, []Damage{{File: "jetstream", First: newest.Seq, Last: newest.Seq,
			What: "it is not the entry of the leader"}}}
	}
	return true, nil
}

// alsoDamagedError is why a replica is not made anew: another one is damaged.
type alsoDamagedError struct{ node, damage string }

func (e *alsoDamagedError) Error() string {
	return fmt.Sprintf("the files of %s are damaged, too: %s", e.node, e.damage)
}

// checkAnswer is what a node says of its files.
type checkAnswer struct {
	Last   uint64 `json:"last"`
	Damage string `json:"damage,omitempty"`
	Error  string `json:"error,omitempty"`
	// Entries: all entries are whole, although another file of the engine is damaged.
	Entries bool `json:"entries_whole,omitempty"`
}

func checkSubject(node string) string { return "troupe.check." + hex.EncodeToString([]byte(node)) }

// answerChecks lets the other nodes ask for a read of this node's files; one at a time.
func (n *Node) answerChecks(ctx context.Context) error {
	_, err := n.nc.Subscribe(checkSubject(n.name), func(m *nats.Msg) {
		var a checkAnswer
		r, err := pacedReplica(n.dir, n.keys, nil, ctx.Err)
		switch e := n.repairing.Load(); {
		case e != nil:
			a.Error = e.Error()
		case err != nil:
			a.Error = err.Error()
		case len(r.Damage) > 0:
			a.Damage, a.Entries, a.Last = r.Damage[0].String(), r.entriesWhole(), r.Last
		default:
			a.Last = r.Last
		}
		if b, err := json.Marshal(a); err == nil {
			_ = m.Respond(b)
		}
	})
	return err
}

var errEngineEnded = errors.New("its engine ended while it read its files")

// askCheck asks a node to read its files and waits for the answer, while that node runs: one whose engine ends
// meanwhile never answers.
func (n *Node) askCheck(ctx context.Context, node string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, checkAsk)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	begun, _, err := n.askEntries(ctx, node, entriesAsk{})
	if err != nil {
		return nil, err
	}
	go func() {
		for n.time.Sleep(ctx, checkAlive) {
			a, _, err := n.askEntries(ctx, node, entriesAsk{})
			// Any other error is of a node that is busy, such as with the entries that a third one asks for.
			if errors.Is(err, nats.ErrNoResponders) || err == nil && a.Engine != begun.Engine {
				end(errEngineEnded)
			}
		}
	}()
	m, err := n.nc.RequestWithContext(ctx, checkSubject(node), nil)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return m, err
}

// askWhole asks a node to read its files, which must be whole and have the entry last; those of a busy log are written
// a moment later.
func (n *Node) askWhole(ctx context.Context, node string, last uint64) error {
	for since := n.time.Mark(); ; {
		var a checkAnswer
		m, err := n.askCheck(ctx, node)
		if err == nil {
			err = json.Unmarshal(m.Data, &a)
		}
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return fmt.Errorf("%s does not say whether its files are whole; an earlier program cannot", node)
		case err != nil:
			return fmt.Errorf("%s: %w", node, err)
		case a.Error != "":
			return fmt.Errorf("%s cannot say whether its files are whole: %s", node, a.Error)
		case a.Damage != "" && !a.Entries:
			return &alsoDamagedError{node, a.Damage}
		case a.Last >= last:
			return nil
		case n.time.Since(since) > healCurrent:
			return fmt.Errorf("the files of %s end with entry %d of %d", node, a.Last, last)
		}
		if !n.time.Sleep(ctx, healEvery) {
			return ctx.Err()
		}
	}
}

// dirSize returns the bytes of the files in a directory that changes.
func dirSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size, err
}

// startAnew is the start of a node that may not start with its files: a server without an engine runs, and one with an
// engine and without files takes its place.
func (n *Node) startAnew(ctx context.Context, damage string) (err error) {
	for since := n.time.Mark(); ; {
		if err = n.mayRepair(ctx); err == nil {
			break
		}
		too := (*alsoDamagedError)(nil)
		if !errors.As(err, &too) && n.time.Since(since) < fillAfter && n.time.Sleep(ctx, healEvery) {
			continue
		}
		switch some := n.takeMissing(ctx, damage); {
		case some == nil:
			left, err := readReplica(n.dir, n.keys, nil)
			if err != nil {
				return err
			}
			if len(left.Damage) == 0 {
				stopServer(n)
				return n.begin(ctx)
			}
			damage = left.Damage[0].String()
		case !errors.Is(some, errNoHoles):
			err = fmt.Errorf("%w; %w", err, some)
		}
		if n.time.Since(since) > healCurrent || !n.time.Sleep(ctx, lastRetry) {
			break
		}
	}
	if err == nil {
		var done func()
		if done, err = n.turn(ctx); err == nil {
			defer done()
		}
	}
	if err == nil {
		err = n.putAside(ctx, damage)
	}
	if err != nil {
		return &NotRepairedError{err}
	}
	n.repairing.Store(&RepairingError{n.time.Now(), damage})
	n.logf("the files of this node are damaged, and it makes them anew from the others: %s", damage)
	stopServer(n)
	return n.begin(ctx)
}
