package eventlog_test

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestMain: no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	if childMain() { // the child process of the kill and lock tests
		os.Exit(0)
	}
	// The engine waits there for the port of clients, which a node does not have; see Node.begin.
	goleak.VerifyTestMain(patient{m}, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*Server).StartRouting"))
}

// patient lets all parallel tests run at a time where they run wide, and otherwise eight: those of several nodes wait for
// elections most of the time, and the others for each other (Beside).
type patient struct{ *testing.M }

func (p patient) Run() int {
	flag.Parse()
	if v := flag.Lookup("test.parallel").Value; v.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		n := 8
		if eventlog.Wide() {
			n = 64
		}
		_ = v.Set(strconv.Itoa(n))
	}
	return p.M.Run()
}

// diskEngine opens a log on disk in a temporary directory. Whatever a test does, what it leaves
// behind must verify.
type diskEngine struct{ dir string }

func newDiskEngine(t *testing.T) eventlogtest.Engine {
	e := &diskEngine{t.TempDir()}
	t.Cleanup(func() {
		r, err := eventlog.Verify(e.dir, nil)
		if err != nil {
			t.Errorf("verify: %v", err)
			return
		}
		for _, d := range r.All() {
			t.Errorf("left behind: %v", d)
		}
	})
	return e
}

func (e *diskEngine) Open(t *testing.T, limit uint64) eventlogtest.Log {
	t.Helper()
	l, err := eventlog.OpenDisk(t.Context(), e.dir, eventlog.DiskOptions{Shards: 2, MaxBytes: int64(limit), Reserve: 1 << 20, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDisk(t *testing.T) {
	eventlog.Beside(t)
	eventlogtest.TestLog(t, newDiskEngine)
}
