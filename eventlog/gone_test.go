package eventlog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/internal/await"
)

// TestGone: a stream that is deleted under a writer is an error that says so, and not silence.
func TestGone(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: MaxBatch + 64<<10})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	await.Until(t, "the server takes connections", func() bool { return srv.ReadyForConnections(time.Second) })
	nc := must(nats.Connect("", nats.InProcessServer(srv)))
	defer nc.Close()
	l := must(OpenStream(t.Context(), nc, StreamOptions{Create: true, MaxBytes: 1 << 24, Logf: t.Logf}))
	defer l.Close()
	if _, _, err := l.Append(t.Context(), 0, "a", oneBatch(0, 1, 10)); err != nil || l.Err() != nil {
		t.Fatal(err, l.Err())
	}
	js := must(jetstream.New(nc))
	if err := js.DeleteStream(t.Context(), streamName(0)); err != nil {
		t.Fatal(err)
	}
	if l.Err() != nil {
		t.Errorf("before anything was written: %v", l.Err())
	}
	try, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, _, err := l.Append(try, 0, "c", oneBatch(0, 3, 10)); err == nil || refused(err) {
		t.Errorf("stored, or refused for certain: %v", err)
	}
	await.Until(t, "the log has stopped", func() bool { return l.Err() != nil })
	if !errors.As(l.Err(), new(*GoneError)) {
		t.Errorf("%v", l.Err())
	}
}
