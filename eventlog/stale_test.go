package eventlog

import (
	"context"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/internal/await"
)

// staleStream is a stream as a server sees it whose replica has stopped following the leader: it has no entry from one on,
// and its consumers are alive and deliver none.
type staleStream struct {
	jetstream.Stream
	from uint64
}

type staleConsumer struct {
	jetstream.Consumer
	from uint64
}

type staleMessages struct {
	jetstream.MessagesContext
	from uint64
}

func (s staleStream) GetMsg(ctx context.Context, seq uint64, o ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if seq >= s.from {
		return nil, jetstream.ErrMsgNotFound
	}
	return s.Stream.GetMsg(ctx, seq, o...)
}

func (s staleStream) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := s.Stream.CreateConsumer(ctx, cfg)
	return staleConsumer{c, s.from}, err
}

func (c staleConsumer) Messages(o ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	m, err := c.Consumer.Messages(o...)
	return staleMessages{m, c.from}, err
}

func (m staleMessages) Next(o ...jetstream.NextOpt) (jetstream.Msg, error) {
	for {
		msg, err := m.MessagesContext.Next(o...)
		if err != nil {
			return nil, err
		}
		if meta, err := msg.Metadata(); err != nil || meta.Sequence.Stream < m.from {
			return msg, err
		}
	}
}

// TestStaleReplica: a reader at a server whose replica has stopped following the leader reads on, from the leader, and
// takes another consumer after silentMost entries.
func TestStaleReplica(t *testing.T) {
	beside(t)
	n := must(StartNode(t.Context(), NodeOptions{Dir: t.TempDir(), Cluster: "c", Name: "a", Logf: t.Logf}))
	defer n.Close()
	again := make(chan string, 1000)
	l := must(OpenStream(t.Context(), n.Conn(), StreamOptions{Create: true, Logf: func(format string, a ...any) {
		select {
		case again <- format:
		default:
		}
	}}))
	defer l.Close()
	const first, stale, all = 1, 100, 100 + 2*silentMost
	l.streams[0] = staleStream{l.streams[0], stale}
	wrote := make(chan error, 1)
	add := func(from, to int) {
		for i := from; i <= to; i++ {
			if _, _, err := l.Append(t.Context(), 0, strconv.Itoa(i), []byte{byte(i)}); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}
	add(first, stale+10)
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	want := uint64(first)
	for e, err := range l.Read(ctx, 0, first) {
		if err != nil {
			t.Fatalf("entry %d of %d: %v", want, all, err)
		}
		if e.Seq != want || len(e.Data) != 1 || e.Data[0] != byte(want) {
			t.Fatalf("entry %d with %v, want %d", e.Seq, e.Data, want)
		}
		if want == stale+10 { // the reader was at the end of the log
			go add(stale+11, all)
		}
		if want++; want > all {
			break
		}
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	if len(again) == 0 {
		t.Errorf("the reader kept a consumer that delivered none of %d entries", all-stale)
	}
}
