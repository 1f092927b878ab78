//go:build unix

package secret

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Each mode of a file is taken or refused, for a file of root and for one of another user.
func TestModes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "node.key")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	owners := []int{os.Getuid()}
	if os.Getuid() == 0 {
		owners = append(owners, 65532)
	}
	for _, owner := range owners {
		if os.Getuid() == 0 {
			if err := os.Chown(name, owner, -1); err != nil {
				t.Fatal(err)
			}
		}
		for mode := os.FileMode(0o400); mode <= 0o777; mode++ {
			if mode&0o400 == 0 {
				continue
			}
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
			refused := mode&0o007 != 0 || mode&0o030 != 0 || mode&0o040 != 0 && owner != 0
			var open *OpenError
			err := Check(name)
			if errors.As(err, &open) != refused || err != nil && open.File != name {
				t.Fatalf("owner %d, mode %#o: %v, expected refused %v", owner, mode, err, refused)
			}
			if refused && err.Error() != fmt.Sprintf("%s has mode %#o: other users can read it; chmod 600 it", name, mode) {
				t.Fatal(err)
			}
			b, err := Read(name)
			if (err != nil) != refused || err == nil && string(b) != "x" {
				t.Fatalf("owner %d, mode %#o: read %q, %v", owner, mode, b, err)
			}
		}
	}
	if err := Check(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
