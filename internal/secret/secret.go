// Package secret reads files whose contents others must not know: private keys, keys of event ids, passwords. A file that
// other users of the machine can read is refused.
package secret

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// OpenError is a file that others than its owner can read.
type OpenError struct {
	File string
	Mode fs.FileMode
}

// Error says what is wrong and which command mends it.
func (e *OpenError) Error() string {
	return fmt.Sprintf("%s has mode %#o: other users can read it; chmod 600 it", e.File, e.Mode.Perm())
}

// Check returns an *OpenError for a file that others can read: a mode with bits for other users, or for a group, unless
// the file is root's, who gives it to the group of a service in this way (chown root:troupe, chmod 640). The rule is that
// of PostgreSQL for ssl_key_file. Systems without such modes refuse nothing.
func Check(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return check(name, info)
}

// Read returns the contents of a file that Check lets pass. The file that is checked is the one that is read.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = check(name, info)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func check(name string, info fs.FileInfo) error {
	if forbidden := forbiddenBits(info); info.Mode().IsRegular() && info.Mode().Perm()&forbidden != 0 {
		return &OpenError{name, info.Mode()}
	}
	return nil
}
