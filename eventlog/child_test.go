package eventlog_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// A child is this test binary, started again: it opens a directory and works on it until it is killed. It
// prints a line for each answer, unbuffered, so that an event with a line was acknowledged before. Its
// attempts have no timeout that a test would live to see: callers that fail were told by the log.
const childEnv = "TROUPE_EVENTLOG_CHILD" // mode directory first-id

// childMain runs in the child and returns true there.
func childMain() bool {
	f := strings.Fields(os.Getenv(childEnv))
	if len(f) != 3 {
		return false
	}
	mode, dir := f[0], f[1]
	first, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	opt := eventlog.DiskOptions{Reserve: -1}
	if mode == "nosync" {
		opt.SetNoSync()
	}
	l, err := eventlog.OpenDisk(ctx, dir, opt)
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	defer l.Close()
	fmt.Println("open")
	if mode == "hold" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return true
	}
	chain, err := eventlog.Tail(ctx, l, 0, nil)
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	c, err := eventlog.NewCommitter(l, eventlog.CommitterOptions{Head: chain.Head(), Try: time.Hour, Patience: time.Hour})
	if err != nil {
		fmt.Println("error", err)
		return true
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				id := first + next.Add(1)
				r, err := c.Append(ctx, eventlogtest.Event(id))
				if err != nil {
					fmt.Fprintf(os.Stdout, "failed %d %v\n", id, strings.ReplaceAll(err.Error(), "\n", " "))
					return
				}
				fmt.Fprintf(os.Stdout, "acked %d %d %v %d %d\n", id, r.Seq, r.Event.Epoch, r.Event.Batch, r.Event.Index)
			}
		})
	}
	wg.Wait()
	return true
}

// child is a running child process.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
}

func startChild(t *testing.T, mode, dir string, first int64) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1<<20)}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", childEnv, mode, dir, first))
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			c.lines <- s.Text()
		}
	}()
	if line := <-c.lines; line != "open" {
		t.Fatalf("the child says %q", line)
	}
	return c
}

// kill kills the child when it has printed n lines, or has ended, and returns all lines.
func (c *child) kill(n int) (lines []string) {
	for len(lines) < n {
		line, ok := <-c.lines
		if !ok {
			break
		}
		lines = append(lines, line)
	}
	_ = c.cmd.Process.Kill()
	for line := range c.lines {
		lines = append(lines, line)
	}
	_ = c.cmd.Wait()
	return lines
}

// note puts the lines of a child into a history. Everything from first on that is not acknowledged
// may be there or not, unless it was refused.
func note(t *testing.T, h *eventlogtest.History, lines []string) (acked int, failed []string) {
	t.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		switch {
		case len(f) == 6 && f[0] == "acked":
			var r eventlog.Receipt
			id, err1 := strconv.ParseInt(f[1], 10, 64)
			seq, err2 := strconv.ParseUint(f[2], 10, 64)
			err3 := r.Event.Epoch.UnmarshalText([]byte(f[3]))
			batch, err4 := strconv.ParseUint(f[4], 10, 64)
			index, err5 := strconv.ParseUint(f[5], 10, 32)
			if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			r.Seq, r.Event.Batch, r.Event.Index = seq, batch, uint32(index)
			h.Acked[id] = r
			acked++
		case f[0] == "failed":
			failed = append(failed, line)
		default:
			t.Fatalf("the child says %q", line)
		}
	}
	return acked, failed
}

// TestKill: a process under load is killed with SIGKILL after a random number of answers, over and over, on
// one directory. Every acknowledged event is there exactly once, where its receipt says; the others at
// most once; the next process opens the log and goes on. It has 5 rounds, 20 with TROUPE_LONG, or
// TROUPE_KILL_ROUNDS.
func TestKill(t *testing.T) {
	eventlog.Beside(t)
	dir := t.TempDir()
	h := eventlogtest.NewHistory()
	rnd := rand.New(rand.NewPCG(7, 7))
	total, stored := 0, 0
	n := eventlog.Rounds("TROUPE_KILL_ROUNDS", 20)
	for round := range n {
		c := startChild(t, "load", dir, int64(round)<<32)
		acked, failed := note(t, h, c.kill(rnd.IntN(500)))
		if len(failed) > 0 {
			t.Fatalf("round %d: %v", round, failed)
		}
		total += acked
		var err error
		if stored, err = h.CheckFiles(dir); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	l, err := eventlog.OpenDisk(t.Context(), dir, eventlog.DiskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found, _, err := eventlogtest.Contents(t.Context(), l, 0)
	if err != nil || len(found) != stored {
		t.Fatalf("the engine has %d events, its files %d, error %v", len(found), stored, err)
	}
	t.Logf("%d rounds: %d acknowledged, %d stored without an answer, 0 lost, 0 doubled", n, total, stored-total)
	if total < 10*n {
		t.Errorf("only %d events", total)
	}
}

// TestTwoProcesses: the second opener of a directory is refused and told who holds it, in this
// process and in another; when the holder is killed the lock is free.
func TestTwoProcesses(t *testing.T) {
	eventlog.Beside(t)
	dir := t.TempDir()
	refused := func(holder string) {
		t.Helper()
		_, err1 := eventlog.OpenDisk(t.Context(), dir, eventlog.DiskOptions{})
		_, err2 := eventlog.Verify(dir, nil)
		_, err3 := eventlog.Dump(io.Discard, dir, nil, 0)
		_, err4 := eventlog.Repair(t.Context(), dir, eventlog.RepairOptions{})
		for _, err := range []error{err1, err2, err3, err4} {
			var locked *eventlog.LockedError
			if !errors.As(err, &locked) || locked.Dir != dir || !strings.Contains(locked.Holder, holder) {
				t.Errorf("error %v, want one that names %s", err, holder)
			}
		}
	}
	c := startChild(t, "hold", dir, 0)
	refused(fmt.Sprintf("process %d on ", c.cmd.Process.Pid))
	c.kill(0)
	l, err := eventlog.OpenDisk(t.Context(), dir, eventlog.DiskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused(fmt.Sprintf("process %d on ", os.Getpid()))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := eventlog.Verify(dir, nil); err != nil {
		t.Error(err)
	}
}
