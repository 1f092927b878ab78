package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// runningFile says which process writes to a result directory. It only informs: the lock is on the
// directory itself.
const runningFile = ".running"

// owner is the content of runningFile.
type owner struct {
	PID     int    `json:"pid"`
	Host    string `json:"host"`
	Command string `json:"command"`
	Started string `json:"started"` // RFC 3339
}

// errLocked is the error of tryLock when another process has the lock.
var errLocked = errors.New("locked")

// errNoWait is the error of lock when another process has the lock and waiting is nil.
var errNoWait = errors.New("another process writes to the directory")

// lock waits until no other run writes to the directory and keeps others out until release is called. waiting is called
// once when there is something to wait for; when it is nil, that is errNoWait. A file system without locks lets
// everybody in, which costs time only: cells are then played twice, to the same numbers.
func lock(ctx context.Context, dir, command string, waiting func(text string)) (release func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	told := false
	for {
		err := tryLock(d)
		if err == nil {
			break
		}
		if !errors.Is(err, errLocked) {
			return func() { d.Close() }, nil
		}
		if waiting == nil {
			d.Close()
			return nil, errNoWait
		}
		if !told {
			told = true
			waiting(fmt.Sprintf("waiting for %s, which writes to %s", whoRuns(dir), dir))
		}
		select {
		case <-ctx.Done():
			d.Close()
			return nil, ErrInterrupted
		case <-time.After(100 * time.Millisecond):
		}
	}
	host, _ := os.Hostname()
	b, err := json.Marshal(owner{os.Getpid(), host, command, time.Now().UTC().Format(time.RFC3339)})
	if err == nil {
		err = writeFile(filepath.Join(dir, runningFile), append(b, '\n'))
	}
	if ReadOnly(err) {
		return func() { d.Close() }, nil // what is complete can be looked at; what would write fails later
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return func() {
		os.Remove(filepath.Join(dir, runningFile))
		unlock(d)
	}, nil
}

// ReadOnly reports whether an error says that a file cannot be written because its disk or directory is read-only.
func ReadOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

// whoRuns describes the process that has the lock.
func whoRuns(dir string) string {
	var o owner
	b, err := os.ReadFile(filepath.Join(dir, runningFile))
	if err != nil || json.Unmarshal(b, &o) != nil {
		return "another process"
	}
	text := fmt.Sprintf("process %d", o.PID)
	if host, _ := os.Hostname(); o.Host != host {
		text += " on " + o.Host
	}
	if o.Command = strings.TrimSpace(o.Command); o.Command != "" {
		text += fmt.Sprintf(" (%s)", o.Command)
	}
	return text
}
