package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// This file is what a log on servers of others (package natslog) needs beside a Stream: a directory of its own kind,
// and a look at how the servers describe the stream.

// ForeignMarker is the file that a server keeps in its directory when its log is at servers of others. The engine would
// take such a directory for its own.
const ForeignMarker = "troupe-nats"

// ForeignKeys names, in the description of a stream that was imported, the keys of its event ids; see
// Stream.ImportedKeys.
const ForeignKeys = importKeys

// GoneError is the error of a log that was there and is not any more, or was never made.
type GoneError struct{ Stream string }

// Error says in one line what is wrong.
func (e *GoneError) Error() string {
	return fmt.Sprintf("the log is gone: its stream %s was deleted at the servers that keep it, which no troupe does; restore "+
		"a backup, and do not begin with an empty log", e.Stream)
}

// LockForeign makes a directory for what a server knows of a log at servers of others, and takes it for this process
// until what it returns is closed. A *LockedError: another one has it. An *OtherKindError: it holds something else.
func LockForeign(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir, true)
	if err != nil {
		return nil, err
	}
	if err := refuseOthers(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// refuseOthers refuses a directory that has more than what a server keeps of a log at servers of others.
func refuseOthers(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		switch f.Name() {
		case lockFile, ForeignMarker, ForeignMarker + ".tmp":
		case nodeMarker:
			return &OtherKindError{dir, "a replica of a cluster's log, and not what a server keeps of a log on a NATS " +
				"cluster; give --data another directory"}
		case markerFile:
			return &OtherKindError{dir, "the log of a single machine, and not what a server keeps of a log on a NATS " +
				"cluster; give --data another directory"}
		default:
			return &OtherKindError{dir, f.Name() + ", which no server on a NATS cluster makes; give --data another " +
				"directory"}
		}
	}
	return nil
}

// HasForeign reports whether a server has begun a log at servers of others with a directory.
func HasForeign(dir string) bool { return exists(filepath.Join(dir, ForeignMarker)) }

// MarkForeign writes ForeignMarker, as a whole or not at all.
func MarkForeign(dir, text string) error { return writeMarkerFile(dir, ForeignMarker, text) }

// NewID returns a random id other than 0.
func NewID() (ID, error) { return randomID() }

// Described returns how the servers described the stream when it was opened.
func (l *Stream) Described() *jetstream.StreamInfo { return l.streams[0].CachedInfo() }

// Describe asks the servers how they describe the stream, and waits a second.
func (l *Stream) Describe(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTry)
	defer cancel()
	return describe(ctx, l.js)
}

// Describe asks the servers of a connection how they describe the stream of the log.
func Describe(ctx context.Context, nc *nats.Conn) (*jetstream.StreamInfo, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return describe(ctx, js)
}

func describe(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	s, err := js.Stream(ctx, streamName(0))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, &GoneError{streamName(0)}
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// StreamSettings are the settings that a stream is made with. 0 is the default.
func StreamSettings(maxBytes int64) jetstream.StreamConfig {
	return streamConfig(0, maxBytes, defaultDuplicates)
}

// SettingsDiff names the settings that matter and differ, "" when none do.
func SettingsDiff(want, have jetstream.StreamConfig) string { return configDiff(want, have) }

// AskToWrite asks the servers to refuse a message to the log, and one to the bases, which they do only if the user may
// publish; otherwise the connection's handler of errors is told. Where no log was trimmed there is no stream of bases,
// and no answer is expected.
func (l *Stream) AskToWrite(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	for _, subject := range []string{subjectName(0), baseSubject(0, "asks")} {
		_, _ = l.js.PublishMsg(ctx, &nats.Msg{Subject: subject}, jetstream.WithExpectStream("TROUPE_ASKS"),
			jetstream.WithExpectLastSequence(1<<53), jetstream.WithRetryAttempts(0))
	}
}
