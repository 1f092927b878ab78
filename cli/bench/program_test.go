package bench_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"troupe/cli"
	"troupe/cli/bench"
	"troupe/sim"
)

// TestMain makes this binary the program where it is called by the name troupe.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"troupe": func() { cli.Main(sim.Kinds()) }})
}

// TestBenchEdge measures once and shortly: every row is decided by both programs without an error, and has a cost on both
// sides. It says nothing about how fast they are.
func TestBenchEdge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts two processes")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "troupe") // as TestMain knows the program
	if err := os.Symlink(exe, self); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	var out bytes.Buffer
	if err := bench.Edge(t.Context(), &out, self, 15*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Hello float64 `json:"hello_us"`
		Rows  []struct {
			Troupe float64 `json:"troupe_us"`
			Limit  float64 `json:"limit_us"`
			Ratio  float64 `json:"ratio"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != bench.EdgeRows || !(r.Hello > 0) {
		t.Fatalf("%d rows, want %d: %s", len(r.Rows), bench.EdgeRows, out.Bytes())
	}
	for _, x := range r.Rows {
		if !(x.Troupe > 0) || !(x.Limit > 0) || !(x.Ratio > 0) {
			t.Errorf("%+v", x)
		}
	}
}
