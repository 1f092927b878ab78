package eventlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/minio/highwayhash"
)

// putSnapshot writes a snapshot of a group as the engine does.
func putSnapshot(t *testing.T, dir string, s groupSnapshot, data string) (name string) {
	t.Helper()
	key := sha256.Sum256([]byte(s.Group))
	b := binary.LittleEndian.AppendUint64(nil, s.Term)
	b = binary.LittleEndian.AppendUint64(b, s.Index)
	b = append(binary.LittleEndian.AppendUint32(b, 0), data...)
	hh := must(highwayhash.New64(key[:]))
	hh.Write(b)
	at := filepath.Join(dir, "jetstream", "SYS", "_js_", s.Group, "snapshots")
	name = filepath.Join(at, s.base())
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, hh.Sum(b), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestWholeSnapshot: a node gives another one a snapshot that is as new as its own or newer, of the same group, and whole.
func TestWholeSnapshot(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	mine := groupSnapshot{"S-R3F-x", 3, 41}
	putSnapshot(t, dir, groupSnapshot{"S-R3F-x", 2, 30}, "older")
	name := putSnapshot(t, dir, mine, "mine")
	putSnapshot(t, dir, groupSnapshot{"_meta_", 3, 99}, "another group")
	for _, test := range []struct {
		ask  groupSnapshot
		want bool
	}{
		{mine, true}, {groupSnapshot{"S-R3F-x", 3, 40}, true}, {groupSnapshot{"S-R3F-x", 1, 5}, true},
		{groupSnapshot{"S-R3F-x", 3, 42}, false}, {groupSnapshot{"S-R3F-x", 4, 41}, false}, {groupSnapshot{"S-R3F-y", 3, 41}, false},
	} {
		s, b, err := wholeSnapshot(dir, test.ask)
		if err != nil || (b != nil) != test.want || test.want && (s != mine || !bytes.Contains(b, []byte("mine"))) {
			t.Errorf("%+v: %+v, %q, %v", test.ask, s, b, err)
		}
	}
	if file, what, err := checkSnapshots(dir); what != "" || err != nil {
		t.Errorf("%s: %s, %v", file, what, err)
	}
	b := must(os.ReadFile(name))
	for at := range b { // any byte
		c := bytes.Clone(b)
		c[at] ^= 1
		if ok, err := mine.whole(c); ok || err != nil {
			t.Errorf("byte %d is changed: %v, %v", at, ok, err)
		}
	}
	if ok, err := (groupSnapshot{"S-R3F-x", 3, 40}).whole(b); ok || err != nil {
		t.Errorf("with another name: %v, %v", ok, err)
	}
	if err := os.WriteFile(name, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if file, what, err := checkSnapshots(dir); file != name || what == "" || err != nil {
		t.Errorf("%s: %s, %v", file, what, err)
	}
	if _, b, err := wholeSnapshot(dir, groupSnapshot{"S-R3F-x", 1, 5}); b != nil || err != nil {
		t.Errorf("a damaged one is given: %q, %v", b, err)
	}
}
