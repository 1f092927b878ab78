package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const killed = `
horizon = %d
replications = %d
[[environment]]
kind = "linear"
d = 4
set = { kind = "random-sphere", arms = 6 }
[[policy]]
kind = "ensemble"
m = 6
[[policy]]
kind = "ts"
[[policy]]
kind = "cassel"
%s`

const killedMore = "[[policy]]\nkind = 'greedy'\n"

// TestKilled is a run that is killed with SIGKILL at random times, grows in replications, in policies and in its
// horizon, each of which is killed too, and ends with the bytes of a fresh run. TROUPE_LONG kills each stage 100
// times, and plays twice as many rounds.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("TROUPE_KILLED_DIR"); dir != "" { // the process that is killed
		saveEvery = time.Millisecond
		x := parseReal(t, os.Getenv("TROUPE_KILLED_SPEC"))
		if _, err := Run(context.Background(), x, Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		return
	}
	kills, horizon := 1, 10_000
	if os.Getenv("TROUPE_LONG") != "" {
		kills, horizon = 100, 20_000
	}
	draw := rand.New(rand.NewPCG(1, 2))
	dir := filepath.Join(t.TempDir(), "out")
	for _, text := range []string{
		fmt.Sprintf(killed, horizon, 4, ""),
		fmt.Sprintf(killed, horizon, 8, ""),
		fmt.Sprintf(killed, horizon, 8, killedMore),
		fmt.Sprintf(killed, 3*horizon, 8, killedMore),
	} {
		start := func() *exec.Cmd {
			c := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			c.Env = append(os.Environ(), "TROUPE_KILLED_DIR="+dir, "TROUPE_KILLED_SPEC="+text)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return c
		}
		before := filepath.Join(t.TempDir(), "before")
		if err := os.CopyFS(before, os.DirFS(dir)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		hit := 0
		const startup = 20 * time.Millisecond // a process has begun to play by then
		window := 250 * time.Millisecond      // in which it is killed: what a process takes that is not
		whole := true                         // the process plays all of the stage
		for tries := 0; hit < kills; tries++ {
			if tries > 20*kills+100 {
				t.Fatalf("only %d of %d processes were killed in time", hit, tries)
			}
			c, began := start(), time.Now()
			done := make(chan error, 1)
			go func() { done <- c.Wait() }()
			select {
			case <-done: // it was quicker: once more from before
				if whole {
					window = max(time.Since(began)-startup, 5*time.Millisecond)
				}
				whole = true
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(dir, os.DirFS(before)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			case <-time.After(startup + time.Duration(draw.Int64N(int64(window)))):
				if err := c.Process.Kill(); err != nil && !strings.Contains(err.Error(), "finished") {
					t.Fatal(err)
				}
				<-done
				hit++
				whole = false
			}
		}
		x := parseReal(t, text)
		run(t, x, Options{Dir: dir})
		if !bytes.Equal(read(t, dir, ResultsFile), run(t, x, Options{}).Results) {
			t.Fatalf("the bytes are not those of a fresh run after\n%s", text)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %q, error %v", files, err)
	}
}
