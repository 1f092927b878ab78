// Package source is where commands find decisions: the event log of a data directory or of a server that runs, and
// files of decisions with the flags that say how they are read.
package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/eventlog/natslog"
	"troupe/internal/secret"
	"troupe/serve"
)

// DefaultData is the data directory where none is named.
const DefaultData = "troupe-data"

// Dir is where the event log of a data directory is: in its directory log. The log's own
// directory is taken too.
func Dir(dir string) string {
	if info, err := os.Stat(filepath.Join(dir, "log")); err == nil && info.IsDir() {
		return filepath.Join(dir, "log")
	}
	return dir
}

// Keys returns the keys of a data directory, also where the directory of its log is named. Only the log of a
// cluster needs them.
func Keys(dir string) *eventlog.BatchKeys {
	if Dir(dir) == dir {
		dir = filepath.Dir(filepath.Clean(dir))
	}
	return serve.BatchKeys(dir)
}

// Error makes misuse of what is the caller's to put right.
func Error(err error) error {
	if errors.Is(err, eventlog.ErrNoLog) || errors.Is(err, os.ErrNotExist) {
		return term.Misuse(err)
	}
	return err
}

// OpenError adds what to do about a data directory that cannot be opened.
func OpenError(dir string, err error) error {
	var locked *eventlog.LockedError
	var damaged *eventlog.DamagedError
	var chain *eventlog.ChainError
	var gap *eventlog.GapError
	var other *eventlog.OtherKindError
	var replica *eventlog.DamagedReplicaError
	var attest *natslog.AttestError
	var none *natslog.NoLogError
	var refused *natslog.RefusedError
	var open *secret.OpenError
	switch {
	case errors.As(err, &locked), errors.As(err, &other), errors.As(err, &refused), errors.As(err, &open):
		return term.Misuse(err)
	case errors.As(err, &attest):
		return term.Misuse(fmt.Errorf("%w; troupe does not start on servers that are not known to keep what they "+
			"acknowledge", err))
	case errors.As(err, &none):
		return term.Misuse(fmt.Errorf("%w: --nats-create makes a new log; if there was one, restore it and do not "+
			"begin with an empty one", err))
	case errors.As(err, &replica):
		return fmt.Errorf("%w\nnothing was changed; see troupe help cluster rebuild", err)
	case errors.As(err, &damaged), errors.As(err, &chain), errors.As(err, &gap):
		return fmt.Errorf("%w\nnothing was changed; see troupe log verify %s", err, dir)
	}
	return err
}

// IsAddress reports whether a log is that of a server that runs.
func IsAddress(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}
