//go:build linux

package eventlog

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"troupe/internal/powerfs"
)

// TestPowerLoss: a process under load is killed and everything that was not synced is gone (every
// second time a random half of the pages survives, so that files are torn). What was acknowledged is
// there, exactly once, and the next process opens the log. TROUPE_POWER_ROUNDS sets the rounds.
func TestPowerLoss(t *testing.T) {
	p := powerfs.Mount(t)
	dir := p.Dir + "/data"
	h := newHistory()
	rnd := rand.New(rand.NewPCG(11, 11))
	n, total, stored := rounds("TROUPE_POWER_ROUNDS", 8), 0, 0
	for round := range n {
		c := startChild(t, "load", dir, int64(round)<<32)
		time.Sleep(time.Duration(20+rnd.IntN(100)) * time.Millisecond)
		acked, failed := h.note(t, c.kill())
		if len(failed) > 0 {
			t.Fatalf("round %d: %v", round, failed)
		}
		total += acked
		if round%2 == 0 {
			p.Lose(t, nil)
		} else {
			p.Lose(t, rnd)
		}
		var err error
		if stored, err = h.checkFiles(dir); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	works(t, dir)
	t.Logf("%d rounds: %d acknowledged, %d stored without an answer, 0 lost, 0 doubled", n, total, stored-total)
	if total < 10*n {
		t.Errorf("only %d events", total)
	}
}

// TestPowerLossControl: the same with an engine that does not sync. It must lose acknowledged
// events, or the harness does not work.
func TestPowerLossControl(t *testing.T) {
	p := powerfs.Mount(t)
	dir := p.Dir + "/data"
	h := newHistory()
	c := startChild(t, "nosync", dir, 0)
	time.Sleep(100 * time.Millisecond)
	acked, _ := h.note(t, c.kill())
	p.Lose(t, nil)
	if acked == 0 {
		t.Fatal("nothing was acknowledged")
	}
	if n, err := h.checkFiles(dir); err == nil {
		t.Errorf("%d acknowledged without a sync, and all %d are there", acked, n)
	} else {
		t.Logf("%d acknowledged; then: %v", acked, err)
	}
}

// failing returns a fault of the at-th call on a block file: a sync that answers EIO, as do all later
// ones of that file, or a write that stores half, after which the disk is full.
func failing(what string, at int) func(powerfs.Op) powerfs.Fault {
	n, failed := 0, ""
	return func(op powerfs.Op) powerfs.Fault {
		kind := powerfs.Write
		if what == "sync" {
			kind = powerfs.Sync
		}
		if op.Kind != kind || !strings.HasSuffix(op.Name, ".blk") {
			return powerfs.None
		}
		n++
		switch {
		case n < at:
		case what == "sync" && (failed == "" || failed == op.Name):
			failed = op.Name
			return powerfs.EIO
		case what == "write" && n == at:
			return powerfs.Short
		case what == "write":
			return powerfs.Full
		}
		return powerfs.None
	}
}

// TestDiskFails: a sync answers EIO, or the disk is full in the middle of a write. From then on
// nothing is acknowledged, callers learn it at once and not by a timeout, and after a loss of power
// what was acknowledged is there and the log works.
func TestDiskFails(t *testing.T) {
	p := powerfs.Mount(t)
	dir := p.Dir + "/data"
	for round, c := range []struct {
		what string
		at   int
	}{{"sync", 1}, {"sync", 2}, {"sync", 7}, {"sync", 40}, {"write", 1}, {"write", 5}, {"write", 30}} {
		h := newHistory()
		p.Fail(failing(c.what, c.at))
		start := time.Now()
		child := startChild(t, "load", dir, int64(round)<<32)
		var lines []string
		for line := range child.lines { // it ends by itself: every caller fails
			lines = append(lines, line)
		}
		_ = child.cmd.Wait()
		took := time.Since(start)
		if took > 10*time.Second {
			t.Errorf("%s %d: it took %v", c.what, c.at, took)
		}
		acked, failed := h.note(t, lines)
		if len(failed) != 16 {
			t.Errorf("%s %d: %d callers failed: %v", c.what, c.at, len(failed), failed)
		}
		unknown := 0
		for _, line := range failed {
			switch rest := strings.SplitN(line, " ", 3)[2]; {
			case strings.HasPrefix(rest, ErrUnknown.Error()):
				unknown++
			case !strings.HasPrefix(rest, ErrStopped.Error()):
				t.Errorf("%s %d: %s", c.what, c.at, line)
			}
		}
		if unknown == 0 {
			t.Errorf("%s %d: nobody was told that his outcome is unknown", c.what, c.at)
		}
		p.Lose(t, nil)
		if _, err := h.checkFiles(dir); err != nil {
			t.Errorf("%s %d: %v", c.what, c.at, err)
		}
		works(t, dir)
		t.Logf("%s %d: %d acknowledged, then %d unknown and %d refused after %v", c.what, c.at, acked, unknown, len(failed)-unknown, took.Round(time.Millisecond))
	}
}
