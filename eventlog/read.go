package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	readEntries = 512     // in one request
	readBytes   = 4 << 20 // in one request, about
	readTimeout = 10 * time.Second
	readTries   = 3
)

// Read implements Log.
func (l *JetStream) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return l.read(ctx, shard, from, false)
}

// follow implements recentLog.
func (l *JetStream) follow(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return l.read(ctx, shard, from, true)
}

// read is Read. With follow it takes the newest entries from memory, without the engine; the bytes of
// an entry are then valid until the next one is asked for.
func (l *JetStream) read(ctx context.Context, shard uint16, from uint64, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s, err := l.begin(shard)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer l.calls.Done()
		bctx, cancel := l.bound(ctx, nil) // a broken engine still reads
		defer cancel()
		if first := s.first(); from < first {
			yield(Entry{}, &GapError{shard, from, first - 1})
			return
		}
		var page []Entry
		p := pager{s: s}
		defer p.end()
		if follow {
			s.follow(1)
			defer s.follow(-1)
		}
		for {
			e, change, err := l.state()
			s.mu.Lock()
			last, more := s.last.Load(), s.more
			var k *recent
			if follow && bctx.Err() == nil {
				k = s.lend(from)
			}
			s.mu.Unlock()
			switch {
			case k != nil:
				goOn := yield(Entry{from, k.data}, nil)
				if s.giveBack(k); !goOn {
					return
				}
				from++
				continue
			case e == nil && errors.Is(err, ErrBroken):
				yield(Entry{}, err)
				return
			case from > last || e == nil:
				select {
				case <-more:
				case <-change:
				case <-bctx.Done():
				}
			default:
				if page, err = p.page(bctx, e, page[:0], from, last); err == nil || bctx.Err() != nil {
					break
				}
				if !l.replaced(e) {
					yield(Entry{}, err)
					return
				}
				page = page[:0]
				select { // the next engine has it
				case <-change:
				case <-bctx.Done():
				}
			}
			if bctx.Err() != nil {
				if err = ctx.Err(); err == nil {
					err = ErrClosed
				}
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				from++
			}
			page = page[:0]
		}
	}
}

// stored implements storedLog. It yields the entries from sequence from up to until that were there when the log was
// opened. It reads the block files on all processors, which is half of the work of asking the engine; a restart does
// that. It ends early where the files leave a doubt (a block that was trimmed, a damaged byte), and the caller asks the
// engine for the rest. Stored entries never move, and the engine writes behind them.
func (l *JetStream) stored(ctx context.Context, shard uint16, from, until uint64,
	keys *BatchKeys) iter.Seq[parsedEntry] {
	return func(yield func(parsedEntry) bool) {
		s, err := l.begin(shard)
		if err != nil {
			return
		}
		defer l.calls.Done()
		s.mu.Lock()
		blocks := s.blocks
		s.mu.Unlock()
		var names []string
		var numbers []uint32
		for _, b := range blocks {
			if b.last >= from {
				names, numbers = append(names, b.name), append(numbers, b.number)
			}
		}
		if from < s.first() || len(names) == 0 || until < from+window { // a few are not worth a file
			return
		}
		for block := range readBlocks(names, numbers, shard, true, keys) {
			select {
			case <-l.done:
				return
			default:
			}
			if block.err != nil || ctx.Err() != nil {
				return
			}
			for _, p := range block.parts {
				switch {
				case p.size == 0, p.seq > from, p.parsed != nil && keys == nil:
					return
				case p.tomb, p.erased, p.seq < from:
					continue
				}
				if !yield(parsedEntry{p.seq, p.batch, p.parsed}) {
					return
				}
				if from++; from > until {
					return
				}
			}
		}
	}
}

// pager reads pages through one subscription. A subscription for each page would cost more than the
// page, because every change of the subscriptions empties the engine's cache of routes.
type pager struct {
	s     *streamShard
	e     *engine            // that sub belongs to
	sub   *nats.Subscription // nil before the first page and after an error
	inbox string
	asked int
}

func (p *pager) end() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
		p.sub = nil
	}
}

// page reads some entries from from on, at most up to last. These entries are known to exist: an
// engine that does not have them has lost them (*GapError), and one that does not answer is asked again.
func (p *pager) page(ctx context.Context, e *engine, page []Entry, from, last uint64) ([]Entry, error) {
	if p.e != e {
		p.end()
		p.e = e
	}
	for try := 1; ; try++ {
		if p.sub == nil {
			p.inbox = e.nc.NewInbox()
			sub, err := e.nc.SubscribeSync(p.inbox + ".*")
			if err != nil {
				return nil, fmt.Errorf("shard %d: read: %w", p.s.n, silence(err))
			}
			p.sub = sub
		}
		p.asked++
		tctx, cancel := context.WithTimeout(ctx, readTimeout)
		page, err := e.ask(tctx, p.s, p.sub, p.inbox+"."+strconv.Itoa(p.asked), page[:0], from, last)
		cancel()
		if err != nil {
			p.end() // late answers must not be taken for those of the next request
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || try == readTries {
			return page, err
		}
	}
}

// ask sends one request and collects its answers.
func (e *engine) ask(ctx context.Context, s *streamShard, sub *nats.Subscription, reply string, page []Entry, from,
	last uint64) ([]Entry, error) {
	request, err := json.Marshal(map[string]uint64{"seq": from, "batch": min(last-from+1, readEntries),
		"max_bytes": readBytes})
	if err != nil {
		return nil, err
	}
	if err := e.nc.PublishRequest("$JS.API.DIRECT.GET."+streamName(s.n), reply, request); err != nil {
		return nil, fmt.Errorf("shard %d: read: %w", s.n, silence(err))
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("shard %d: read from entry %d: %w", s.n, from, silence(err))
		}
		if m.Subject != reply {
			continue // an answer to a request that was given up
		}
		switch status := m.Header.Get("Status"); {
		case status == "204" && len(page) > 0:
			return page, nil
		case status == "204" || status == "404":
			return nil, &GapError{s.n, from, last}
		case status != "":
			return nil, fmt.Errorf("shard %d: read from entry %d: engine: %s %s", s.n, from, status,
				m.Header.Get("Description"))
		}
		want := from + uint64(len(page))
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil || seq < want {
			return nil, fmt.Errorf("shard %d: the engine answers with entry %q for %d", s.n,
				m.Header.Get("Nats-Sequence"), want)
		}
		if seq > want {
			if len(page) > 0 { // deliver what is good; the next page begins with the gap
				return page, nil
			}
			return nil, &GapError{s.n, want, seq - 1}
		}
		page = append(page, Entry{seq, m.Data})
	}
}

// Get implements Log.
func (l *JetStream) Get(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	s, err := l.begin(shard)
	if err != nil {
		return Entry{}, err
	}
	defer l.calls.Done()
	if seq < s.first() || seq > s.last.Load() {
		return Entry{}, notFound(shard, seq)
	}
	e, _, err := l.state()
	if e == nil {
		return Entry{}, entryError(shard, seq, err)
	}
	m, err := e.streams[shard].GetMsg(ctx, seq)
	switch {
	case err != nil && l.replaced(e):
		return Entry{}, entryError(shard, seq, fmt.Errorf("%w: %w", ErrDown, err))
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Entry{}, notFound(shard, seq)
	case err != nil:
		return Entry{}, entryError(shard, seq, err)
	case m.Sequence != seq:
		return Entry{}, fmt.Errorf("shard %d: the engine answers with entry %d for %d", shard, m.Sequence, seq)
	}
	return Entry{seq, m.Data}, nil
}
