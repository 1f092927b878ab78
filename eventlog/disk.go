package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"troupe/eventlog/segment"
	"troupe/timing"
)

// DiskOptions configure OpenDisk.
type DiskOptions struct {
	// Shards is the number of shards, 1 when 0. It is fixed when the directory is made; afterwards 0
	// takes what is there and another number is an error.
	Shards uint16
	// MaxBytes is the limit of each shard, default 64 GiB. A full log refuses, it never forgets. Up to the size of a
	// segment more may be on the disk: what a trim has removed from the front of the oldest file.
	MaxBytes int64
	// Reserve is what stays free on the disk, default 256 MiB, negative for nothing. Below it Append is refused with
	// ErrFull, which passes.
	Reserve int64
	// VerifyEvery is how often every sealed segment is read again and compared with its SHA-256, 0 for never.
	VerifyEvery time.Duration
	// Logf gets what the operator should know. It may be nil.
	Logf func(format string, a ...any)
	// Clock is the machine's when it is not set.
	Clock timing.Clock

	noSync  bool  // only for the control runs of the tests, which must fail with it
	segment int64 // size of a segment in tests
}

// DefaultMaxBytes is the limit of a shard when none is set.
const DefaultMaxBytes = 64 << 30

func (o *DiskOptions) defaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Reserve == 0 {
		o.Reserve = 256 << 20
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}

// Disk is a Log in a directory of this machine: segment files (package segment), and a sync of the newest one before
// every acknowledgement. That sync is not an option.
//
// OpenDisk reads the newest segment in full and the heads of the others, keeps the acknowledged end beside them, and
// refuses a directory in which something is missing (*DamagedError). What is in a sealed segment is checked when it is
// read, and by a walk through all of them (DiskOptions.VerifyEvery). A directory has one user (*LockedError).
//
// A write that the system refuses, for want of room or otherwise, stores nothing and is ErrFull, which passes. After a
// failed sync it is not known what is on the disk: the log has stopped (ErrBroken) and can only be read.
type Disk struct {
	dir    string
	opt    DiskOptions
	id     ID
	lock   *dirLock
	shards []*diskShard
	done   chan struct{}  // closed by Close
	calls  sync.WaitGroup // under way
	work   sync.WaitGroup // writers, syncAcked, walks

	mu     sync.Mutex
	closed bool

	broken  atomic.Pointer[error] // why nothing is stored any more; nil while it is
	damaged atomic.Pointer[Damage]
}

// idSize is how many bytes of a record's data are the id of its batch: the first bytes of its SHA-256.
const idSize = 16

type batchID [idSize]byte

// Message ids are remembered for the newest idsKept entries of this process; after a start for those of the newest
// segment, and of idsRead more entries at least.
const (
	idsKept = 65_536
	idsRead = 4096
)

// diskShard is one shard. One goroutine writes it.
type diskShard struct {
	n     uint16
	log   *Disk
	store *segment.Store
	first atomic.Uint64 // oldest entry
	last  atomic.Uint64 // newest entry that is durable

	mu    sync.Mutex
	queue []*diskAppend
	wake  chan struct{} // capacity 1
	more  chan struct{} // closed and replaced when last grows
	acked *segment.AckedFile

	storing sync.Mutex // taken by Append of the store and by Trim
	bytes   atomic.Uint64
	ids     map[batchID]uint64
	order   []batchID // in ids, oldest first
	late    bool      // the acknowledged end could not be written
}

// diskAppend is one call of Append that waits for the writer.
type diskAppend struct {
	data []byte // id and batch
	done chan struct{}
	seq  uint64
	dup  bool
	err  error
	gone bool // its caller has left before it began
}

// OpenDisk opens the log in a directory, or makes one where there is none. It writes nothing when it finds damage.
func OpenDisk(ctx context.Context, dir string, opt DiskOptions) (*Disk, error) {
	opt.defaults()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(dir); err != nil {
		return nil, err
	}
	if err := refuseNode(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir, true)
	if err != nil {
		return nil, err
	}
	l := &Disk{dir: dir, opt: opt, lock: lock, done: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	for _, s := range l.shards {
		l.work.Go(s.write)
	}
	l.work.Go(l.syncAcked)
	if opt.VerifyEvery > 0 {
		l.work.Go(l.walkLoop)
	}
	return l, nil
}

func (l *Disk) open() error {
	m, err := readMarker(l.dir)
	if errors.Is(err, ErrNoLog) {
		if err := refuseRemains(l.dir); err != nil {
			return l.asDamaged(err)
		}
		if m, err = makeLog(l.dir, max(l.opt.Shards, 1)); err != nil {
			return err
		}
	}
	if err != nil {
		return l.asDamaged(err)
	}
	if l.opt.Shards != 0 && l.opt.Shards != m.Shards {
		return fmt.Errorf("%s has %d shards, not %d; the number is fixed when a log is made", l.dir, m.Shards,
			l.opt.Shards)
	}
	if exists(filepath.Join(l.dir, repairDir, repairDone)) {
		return l.asDamaged(&segment.DamageError{Damage: segment.Damage{File: repairDir, What: interruptedRepair}})
	}
	l.id = m.ID
	for n := range m.Shards {
		s := &diskShard{n: n, log: l, wake: make(chan struct{}, 1), more: make(chan struct{}), ids: map[batchID]uint64{}}
		if err := s.open(); err != nil {
			if s.acked != nil {
				err = errors.Join(err, s.acked.Abandon())
			}
			if s.store != nil {
				err = errors.Join(err, s.store.Abandon())
			}
			return shardDamage(l.dir, n, err)
		}
		l.shards = append(l.shards, s)
	}
	return nil
}

// asDamaged returns a *DamagedError for damage of the directory itself.
func (l *Disk) asDamaged(err error) error {
	var d *segment.DamageError
	if !errors.As(err, &d) {
		return err
	}
	return &DamagedError{&Report{Dir: l.dir, Damage: []Damage{{File: d.File, Offset: d.Offset, What: d.What}}}}
}

// shardDamage returns a *DamagedError for a *segment.DamageError of a shard, and other errors as they are.
func shardDamage(dir string, shard uint16, err error) error {
	var d *segment.DamageError
	if !errors.As(err, &d) {
		return err
	}
	return &DamagedError{&Report{Dir: dir, Shards: []ShardReport{{Shard: shard,
		Damage: []Damage{segmentDamage(shard, d.Damage)}}}}}
}

func segmentDamage(shard uint16, d segment.Damage) Damage {
	return Damage{File: segment.GroupDir(shard) + "/" + d.File, Offset: d.Offset, Shard: shard, First: d.First,
		Last: d.Last, What: d.What}
}

func (s *diskShard) dir() string { return filepath.Join(s.log.dir, segment.GroupDir(s.n)) }

// open opens the files of the shard. Entries behind the acknowledged end were stored and never answered; they belong
// to the log from now on.
func (s *diskShard) open() (err error) {
	o := &s.log.opt
	if s.acked, err = segment.OpenAcked(segment.OS, s.dir(), s.n); err != nil {
		return err
	}
	end := s.acked.End()
	var found segment.Found
	s.store, found, err = segment.Open(segment.Options{Dir: s.dir(), Group: s.n, Size: o.segment, Acked: end,
		NoSync: o.noSync})
	if err != nil {
		return err
	}
	if found.Torn > 0 {
		o.Logf("shard %d: %d bytes of a write that was interrupted, and never acknowledged, were removed", s.n,
			found.Torn)
	}
	for _, name := range found.Rebuilt {
		o.Logf("shard %d: %s was missing or damaged, and was written anew from its segment, which is whole", s.n, name)
	}
	last, link := s.store.Last()
	s.first.Store(end.First)
	s.last.Store(last)
	if last > end.Last {
		if err := s.acked.WriteBoth(segment.Acked{First: end.First, Last: last, Link: link}); err != nil {
			return err
		}
	}
	bytes, err := s.store.Bytes(end.First)
	if err != nil {
		return err
	}
	s.bytes.Store(bytes)
	return s.readIDs()
}

// readIDs reads the ids of the newest entries.
func (s *diskShard) readIDs() error {
	last := s.last.Load()
	from := max(s.first.Load(), s.store.Newest(), last-min(last, idsKept)+1)
	from = max(s.first.Load(), min(from, last-min(last, idsRead)+1))
	for seq := from; seq <= last; seq++ {
		b, err := s.store.Prefix(seq, idSize)
		if err != nil {
			return err
		}
		if len(b) == idSize {
			s.remember(batchID(b), seq)
		}
	}
	return nil
}

func (s *diskShard) remember(id batchID, seq uint64) {
	if len(s.order) >= idsKept {
		delete(s.ids, s.order[0])
		s.order = s.order[1:]
	}
	s.ids[id] = seq
	s.order = append(s.order, id)
}

// ID returns the id of the log, which was drawn when it was made.
func (l *Disk) ID() ID { return l.id }

// Shards returns the number of shards.
func (l *Disk) Shards() uint16 { return uint16(len(l.shards)) }

// begin enters a call that Close waits for.
func (l *Disk) begin(shard uint16) (*diskShard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if int(shard) >= len(l.shards) {
		return nil, fmt.Errorf("shard %d of %d: %w", shard, len(l.shards), ErrShard)
	}
	l.calls.Add(1)
	return l.shards[shard], nil
}

// Err returns nil while the log stores, otherwise why not: an error that wraps ErrBroken.
func (l *Disk) Err() error {
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Damaged returns the first damage that a walk through the sealed segments has found, nil for none.
func (l *Disk) Damaged() *Damage { return l.damaged.Load() }

// fail stops the log for good.
func (l *Disk) fail(err error) error {
	err = fmt.Errorf("%w: %w", ErrBroken, err)
	if l.broken.CompareAndSwap(nil, &err) {
		l.opt.Logf("the log has stopped: %v", err)
	}
	return l.Err()
}

// StoresOnce implements StoresOnce: a batch is written when its outcome is known to this process, and a dump that is restored has
// none twice.
func (l *Disk) StoresOnce() {}

// Append implements Log.
func (l *Disk) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s, err := l.begin(shard)
	if err != nil {
		return 0, false, err
	}
	defer l.calls.Done()
	if len(batch) > MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), ErrTooLarge)
	}
	a := diskAppends.Get().(*diskAppend)
	a.done, a.seq, a.dup, a.err, a.gone = make(chan struct{}), 0, false, nil, false
	sum := hashID(id)
	a.data = append(append(a.data[:0], sum[:]...), batch...)
	s.mu.Lock()
	s.queue = append(s.queue, a)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		if s.leave(a) {
			return 0, false, ctx.Err()
		}
	case <-l.done:
		if s.leave(a) {
			return 0, false, fmt.Errorf("%w: the log is being closed", ErrUnknown)
		}
	}
	seq, dup, err = a.seq, a.dup, a.err
	diskAppends.Put(a)
	return seq, dup, err
}

var diskAppends = sync.Pool{New: func() any { return &diskAppend{} }}

// leave gives up a call that waits, and returns false when it has its answer already. The writer may store it later.
func (s *diskShard) leave(a *diskAppend) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-a.done:
		return false
	default:
	}
	a.gone = true // not yet begun, or its outcome is of no interest
	return true
}

// write stores the entries of a shard one by one. Each is durable before the next one is written, so a whole record
// behind an unreadable one is never an interrupted write. Many records reach the disk with one sync because the
// Committer packs them into one batch.
func (s *diskShard) write() {
	for {
		select {
		case <-s.wake:
		case <-s.log.done:
			return
		}
		for {
			s.mu.Lock()
			if len(s.queue) == 0 {
				s.mu.Unlock()
				break
			}
			a := s.queue[0]
			s.queue = s.queue[1:]
			if len(s.queue) == 0 {
				s.queue = nil
			}
			gone := a.gone
			s.mu.Unlock()
			if gone {
				continue
			}
			s.storing.Lock()
			seq, dup, err := s.store1(a.data)
			s.storing.Unlock()
			s.mu.Lock()
			a.seq, a.dup, a.err = seq, dup, err
			close(a.done)
			s.mu.Unlock()
			select {
			case <-s.log.done:
				return
			default:
			}
		}
	}
}

// store1 stores one batch behind its id.
func (s *diskShard) store1(data []byte) (seq uint64, dup bool, err error) {
	id := batchID(data)
	if seq, ok := s.ids[id]; ok && seq >= s.first.Load() {
		return seq, true, nil
	}
	l := s.log
	if err := l.Err(); err != nil {
		return 0, false, err
	}
	if err := l.room(len(data)); err != nil {
		return 0, false, err
	}
	size := uint64(segment.HeadSize + len(data))
	if have := s.bytes.Load(); have+size > uint64(l.opt.MaxBytes) {
		return 0, false, fmt.Errorf("%w: shard %d has %d bytes, its limit is %d", ErrFull, s.n, have, l.opt.MaxBytes)
	}
	if s.late { // an entry without its acknowledged end is the last one that is taken
		last, link := s.store.Last()
		if err := s.acknowledge(last, link); err != nil {
			return 0, false, err
		}
	}
	if seq, err = s.store.Append(soloTerm, segment.Batch, data); err != nil {
		return 0, false, l.refusal(err)
	}
	if err := s.store.Sync(); err != nil {
		return 0, false, fmt.Errorf("%w: %w", ErrUnknown, l.fail(err))
	}
	s.bytes.Add(size)
	s.remember(id, seq)
	_, link := s.store.Last()
	if err := s.acknowledge(seq, link); err != nil {
		// The entry is durable, so this call succeeds.
		l.opt.Logf("shard %d: the acknowledged end: %v", s.n, err)
	}
	return seq, false, nil
}

// soloTerm is the term of what a single machine writes.
const soloTerm = 1

// acknowledge notes that the entry at seq is durable and wakes the readers.
func (s *diskShard) acknowledge(seq uint64, link segment.Link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.acked.Write(segment.Acked{First: s.first.Load(), Last: seq, Link: link})
	if s.late = err != nil; err != nil {
		err = s.log.refusal(err)
	}
	if seq > s.last.Load() {
		s.last.Store(seq)
		close(s.more)
		s.more = make(chan struct{})
	}
	return err
}

// refusal is the error of a write that stored nothing: ErrFull where the system has no room or no handles for it, which
// passes; otherwise the log stops.
func (l *Disk) refusal(err error) error {
	var sync *segment.SyncError
	if errors.As(err, &sync) {
		return l.fail(err)
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return l.fail(err)
}

// room refuses when a batch of n bytes would take the disk below its reserve.
func (l *Disk) room(n int) error {
	if l.opt.Reserve <= 0 {
		return nil
	}
	free, err := diskFree(l.dir)
	if err != nil {
		return fmt.Errorf("%w: free space of %s: %v", ErrFull, l.dir, err)
	}
	if free < uint64(l.opt.Reserve)+uint64(n) {
		return fmt.Errorf("%w: %d bytes are free on the disk of %s, %d are reserved", ErrFull, free, l.dir,
			l.opt.Reserve)
	}
	return nil
}

// syncAcked makes the acknowledged ends durable once a second.
func (l *Disk) syncAcked() {
	tick := l.opt.Clock.Ticker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		for _, s := range l.shards {
			// The sync is outside of the mutex, because an Append must not wait for it. What is written meanwhile is
			// synced in a second.
			s.mu.Lock()
			dirty := s.acked.Dirty()
			s.mu.Unlock()
			if !dirty {
				continue
			}
			if err := s.acked.Sync(); err != nil {
				_ = l.fail(fmt.Errorf("shard %d: the acknowledged end: %w", s.n, err))
			}
		}
	}
}

// Read implements Log.
func (l *Disk) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return l.read(ctx, shard, from, false)
}

// follow implements recentLog.
func (l *Disk) follow(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return l.read(ctx, shard, from, true)
}

// read is Read. With lend the bytes of an entry are valid until the next one is asked for.
func (l *Disk) read(ctx context.Context, shard uint16, from uint64, lend bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s, err := l.begin(shard)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer l.calls.Done()
		if first := s.first.Load(); from < first {
			yield(Entry{}, &GapError{shard, from, first - 1})
			return
		}
		r := s.store.Reader(from)
		defer r.Close()
		for {
			s.mu.Lock()
			last, more := s.last.Load(), s.more
			s.mu.Unlock()
			for ; from <= last && ctx.Err() == nil; from++ {
				e, err := s.entry(r.Next(last))
				if err != nil {
					yield(Entry{}, s.readError(from, err))
					return
				}
				if !lend {
					e.Data = append([]byte(nil), e.Data...)
				}
				if !yield(e, nil) {
					return
				}
				select {
				case <-l.done:
					yield(Entry{}, ErrClosed)
					return
				default:
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
			case <-l.done:
			}
			if err := ctx.Err(); err != nil {
				yield(Entry{}, err)
				return
			}
			select {
			case <-l.done:
				yield(Entry{}, ErrClosed)
				return
			default:
			}
		}
	}
}

// entry returns what a record holds.
func (s *diskShard) entry(r segment.Record, err error) (Entry, error) {
	if err != nil {
		return Entry{}, err
	}
	if r.Kind != segment.Batch || len(r.Data) < idSize {
		return Entry{}, &segment.DamageError{Damage: segment.Damage{File: ".", First: r.Index, Last: r.Index,
			What: fmt.Sprintf("an entry of kind %d, which no single machine writes", r.Kind)}}
	}
	return Entry{r.Index, r.Data[idSize:]}, nil
}

// readError is the error of a read of an entry that is known to be there.
func (s *diskShard) readError(seq uint64, err error) error {
	if errors.Is(err, segment.ErrNotFound) { // trimmed meanwhile
		return &GapError{s.n, seq, max(seq, s.first.Load()-1)}
	}
	return shardDamage(s.log.dir, s.n, err)
}

// Get implements Log.
func (l *Disk) Get(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	s, err := l.begin(shard)
	if err != nil {
		return Entry{}, err
	}
	defer l.calls.Done()
	if err := ctx.Err(); err != nil {
		return Entry{}, entryError(shard, seq, err)
	}
	if seq < s.first.Load() || seq > s.last.Load() {
		return Entry{}, notFound(shard, seq)
	}
	e, err := s.entry(s.store.Get(seq))
	switch {
	case errors.Is(err, segment.ErrNotFound):
		return Entry{}, notFound(shard, seq)
	case err != nil:
		return Entry{}, shardDamage(l.dir, shard, err)
	}
	return e, nil
}

// Trim implements Log. The acknowledged end is written first, and durably: a crash in between leaves files to remove,
// which the next OpenDisk does. Files go as a whole, so the oldest one may keep entries that cannot be read any more.
func (l *Disk) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := l.begin(shard)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	if err := l.Err(); err != nil {
		return err
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	switch first, last := s.first.Load(), s.last.Load(); {
	case upTo < first:
		return nil
	case upTo >= last:
		return trimError(shard, upTo, last)
	}
	bytes, err := s.store.Bytes(upTo + 1)
	if err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, shardDamage(l.dir, shard, err))
	}
	s.mu.Lock()
	end := s.acked.End()
	end.First = upTo + 1
	if err = s.acked.WriteBoth(end); err == nil {
		s.first.Store(end.First)
		s.bytes.Store(bytes)
	}
	s.mu.Unlock()
	if err == nil {
		err = s.store.Trim(end.First)
	}
	if err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	return nil
}

// Info implements Log.
func (l *Disk) Info(_ context.Context, shard uint16) (Info, error) {
	s, err := l.begin(shard)
	if err != nil {
		return Info{}, err
	}
	defer l.calls.Done()
	return Info{First: s.first.Load(), Last: s.last.Load(), Bytes: s.bytes.Load(), Limit: uint64(l.opt.MaxBytes),
		Sync: "fsync"}, nil
}

// Close ends the calls under way and releases the directory. Appends that are interrupted have an unknown outcome;
// close the committers first. Close waits for every Read to end, so a loop over Read must not call it.
func (l *Disk) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	l.calls.Wait()
	l.work.Wait()
	return l.stop()
}

// abandon gives up what open has opened, and writes nothing.
func (l *Disk) abandon() error {
	var errs []error
	for _, s := range l.shards {
		errs = append(errs, s.store.Abandon(), s.acked.Abandon())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

func (l *Disk) stop() error {
	var errs []error
	for _, s := range l.shards {
		errs = append(errs, s.store.Close(), s.acked.Close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}
