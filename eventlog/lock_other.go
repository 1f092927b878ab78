//go:build !unix

package eventlog

import "errors"

const lockFile = "lock"

var errNoLock = errors.New("eventlog: no file locks on this system; a log on disk needs one")

type dirLock struct{}

func (*dirLock) Close() error { return nil }

func lockDir(string, bool) (*dirLock, error) { return nil, errNoLock }
func syncDir(string) error                   { return errNoLock }
