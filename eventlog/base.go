package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// The nodes of a cluster keep the base of a trimmed log, which is the state that takes the place of what is gone, in a
// stream beside the log, with as many replicas: in pieces, each under a subject of its own, and a head that is written
// last. The same piece written twice is one. The log has the SHA-256 of the base, so nothing here is believed.

// Base names the base of a log that was trimmed in agreement: the state of entry Seq, in so many bytes with this
// SHA-256. Record is the entry of the trim record that says so.
type Base struct {
	Seq    uint64
	Record uint64
	Size   int64
	Sum    [sha256.Size]byte
}

const (
	baseStream = "TROUPE_BASE"
	basePrefix = "troupe.base."
	baseHead   = "head"
	basePiece  = 512 << 10
)

func baseSubject(seq uint64, part string) string {
	return basePrefix + strconv.FormatUint(seq, 10) + "." + part
}

// asked sends one request to the engine. An answer can be lost, so the time of a whole act is not that of a request: it
// ends after streamWait, and its act may be done again; an error that says nothing about the act wraps ErrSilent.
func asked[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	one, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	answer, err := request(one)
	if err != nil && one.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer for %v: %w", streamWait, err)
	}
	return answer, silence(err)
}

// bases returns the stream of the bases, nil when there is none and it is not to be made.
func (l *Stream) bases(ctx context.Context, make bool) (jetstream.Stream, error) {
	find := func(ctx context.Context) (jetstream.Stream, error) { return l.js.Stream(ctx, baseStream) }
	s, err := asked(ctx, find)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !make {
			return nil, nil
		}
		s, err = asked(ctx, func(ctx context.Context) (jetstream.Stream, error) {
			return l.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: baseStream, Subjects: []string{basePrefix + ">"}, Storage: jetstream.FileStorage,
				Replicas:          l.opt.Replicas,
				MaxMsgsPerSubject: 1, Discard: jetstream.DiscardOld, MaxMsgSize: MaxBatch,
			})
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was first
			s, err = asked(ctx, find)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bases: %w", err)
	}
	return s, nil
}

// PutBase stores a base. When it returns nil, a majority of the nodes has all of it.
func (l *Stream) PutBase(ctx context.Context, b Base, data []byte) error {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	b.Size = int64(len(data))
	head, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if _, err := l.bases(both, true); err != nil {
		return err
	}
	publish := func(part string, data []byte) error {
		ack, err := asked(both, func(ctx context.Context) (*jetstream.PubAck, error) {
			return l.js.Publish(ctx, baseSubject(b.Seq, part), data)
		})
		if err == nil && ack.Stream != baseStream {
			err = fmt.Errorf("the engine answers for stream %q", ack.Stream)
		}
		if err != nil {
			return fmt.Errorf("base of entry %d: %w", b.Seq, err)
		}
		return nil
	}
	n := 0
	for piece := range slices.Chunk(data, basePiece) {
		if err := publish(strconv.Itoa(n), piece); err != nil {
			return err
		}
		n++
	}
	return publish(baseHead, head)
}

// Bases returns the bases whose heads are stored, newest first. Their pieces may be missing or damaged: see GetBase.
func (l *Stream) Bases(ctx context.Context) ([]Base, error) {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := l.bases(both, false)
	if s == nil || err != nil {
		return nil, err
	}
	seqs, err := baseSeqs(both, s, baseHead)
	if err != nil {
		return nil, err
	}
	var out []Base
	for _, seq := range seqs {
		m, err := lastOf(both, s, baseSubject(seq, baseHead))
		if errors.Is(err, jetstream.ErrMsgNotFound) { // dropped meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("base of entry %d: %w", seq, err)
		}
		var b Base
		if err := json.Unmarshal(m.Data, &b); err != nil || b.Seq != seq || b.Size < 0 {
			return nil, fmt.Errorf("base of entry %d: its head is not readable", seq)
		}
		out = append(out, b)
	}
	return out, nil
}

func lastOf(ctx context.Context, s jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	return asked(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetLastMsgForSubject(ctx, subject)
	})
}

func purge(ctx context.Context, s jetstream.Stream, what jetstream.StreamPurgeOpt) error {
	_, err := asked(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Purge(ctx, what) })
	return err
}

// baseSeqs returns the entries of the bases that have a part, newest first.
func baseSeqs(ctx context.Context, s jetstream.Stream, part string) (seqs []uint64, err error) {
	info, err := asked(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return s.Info(ctx, jetstream.WithSubjectFilter(basePrefix+"*."+part))
	})
	if err != nil {
		return nil, fmt.Errorf("bases: %w", err)
	}
	for subject := range info.State.Subjects {
		text, _, _ := strings.Cut(strings.TrimPrefix(subject, basePrefix), ".")
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("bases: subject %q", subject)
		}
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

// GetBase returns the bytes of a base. What has another length or SHA-256, or is not there, is an error.
func (l *Stream) GetBase(ctx context.Context, b Base) ([]byte, error) {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer end()
	s, err := l.bases(both, false)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fmt.Errorf("base of entry %d: %w", b.Seq, ErrNotFound)
	}
	var out []byte
	for n := 0; int64(len(out)) < b.Size; n++ {
		m, err := lastOf(both, s, baseSubject(b.Seq, strconv.Itoa(n)))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("base of entry %d: piece %d: %w", b.Seq, n, ErrNotFound)
		case err != nil:
			return nil, fmt.Errorf("base of entry %d: piece %d: %w", b.Seq, n, err)
		case len(m.Data) == 0:
			return nil, fmt.Errorf("base of entry %d: piece %d is empty", b.Seq, n)
		}
		out = append(out, m.Data...)
	}
	return out, b.Verify(out)
}

// Verify returns an error when data are not the bytes of the base.
func (b Base) Verify(data []byte) error {
	if sum := sha256.Sum256(data); sum != b.Sum {
		return fmt.Errorf("base of entry %d: %d bytes with the SHA-256 %x, the log says %x", b.Seq, len(data), sum,
			b.Sum)
	}
	return nil
}

// DropBases removes the bases of entries before a sequence.
func (l *Stream) DropBases(ctx context.Context, before uint64) error {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	s, err := l.bases(both, false)
	if s == nil || err != nil {
		return err
	}
	var seqs []uint64
	for _, part := range []string{baseHead, "0"} { // a base whose writer was interrupted has no head
		some, err := baseSeqs(both, s, part)
		if err != nil {
			return err
		}
		seqs = append(seqs, some...)
	}
	for _, seq := range seqs {
		for _, part := range []string{baseHead, "*"} {
			if seq >= before {
				continue
			}
			if err := purge(both, s, jetstream.WithPurgeSubject(baseSubject(seq, part))); err != nil {
				return fmt.Errorf("base of entry %d: %w", seq, err)
			}
		}
	}
	return nil
}
