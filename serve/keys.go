package serve

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"troupe/eventlog"
	"troupe/internal/secret"
	"troupe/serve/fold"
)

// KeyFile is keys.json: {"current": 1, "keys": {"1": "base64"}, "check": "16 hexadecimal digits"}, mode
// 0600, and "dropped", keys whose ids are not recognised any more. In a cluster each key also vouches for the batches
// that were written under it. Without the file the ids that were given out before are not recognised, so it belongs to
// every backup, and a log with entries is not opened without it or with another one by accident: check is the first
// half of the SHA-256 of the rest. {} in its place asks for new keys.
const KeyFile = "keys.json"

type keyText struct {
	Current byte            `json:"current"`
	Keys    map[byte][]byte `json:"keys"`
	Dropped map[byte][]byte `json:"dropped,omitempty"`
	Check   string          `json:"check,omitempty"` // files of before it was invented have none
}

// sum returns what check must be.
func (t keyText) sum() (string, error) {
	t.Check = ""
	b, err := json.Marshal(t)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}

// loadKeys reads the keys of event ids, or makes them for a log that is empty, as those of a cell.
func loadKeys(dir string, empty bool, cell int) (eventlog.IDKeys, error) {
	if dir == "" {
		return eventlog.IDKeys{}, errors.New("serve: Keys is empty and there is no Dir to keep them in")
	}
	k, fresh, err := keysThere(dir, empty)
	if err != nil || !fresh {
		return k, err
	}
	b, err := NewKeys(cell)
	if err == nil {
		err = fold.WriteDurable(dir, KeyFile, bytes.NewReader(b))
	}
	if err != nil {
		return k, err
	}
	return parseKeyFile(b)
}

// CheckKeys returns why a server would not start on the KeyFile of a data directory, whose log has entries unless it is
// empty. It changes nothing.
func CheckKeys(dir string, empty bool) error {
	_, _, err := keysThere(dir, empty)
	return err
}

// keysThere reads the keys of event ids. With fresh they are to be made.
func keysThere(dir string, empty bool) (k eventlog.IDKeys, fresh bool, err error) {
	name := filepath.Join(dir, KeyFile)
	fail := func(why error) error {
		return fmt.Errorf("%s: %w: without it no event id that was given out is recognised; "+
			"restore it from a backup, or put {} in its place to begin with new keys", name, why)
	}
	b, err := secret.Read(name)
	missing := errors.Is(err, os.ErrNotExist)
	switch {
	case missing && !empty:
		return k, false, fail(errors.New("it is not there, and the log has entries"))
	case missing || err == nil && string(bytes.TrimSpace(b)) == "{}":
		return k, true, nil
	case err != nil:
		return k, false, err
	}
	if k, err = parseKeyFile(b); err != nil {
		return eventlog.IDKeys{}, false, fail(err)
	}
	return k, false, nil
}

// NewKeys returns the contents of a KeyFile with a new key, the first of a cell, 0 for a server that is no cell.
func NewKeys(cell int) ([]byte, error) {
	first := byte(max(1, cell*eventlog.CellKeys))
	return keyText{Current: first, Keys: map[byte][]byte{first: NewKey()}}.text()
}

// checkCell refuses keys that make the event ids of another cell. Without a cell there is nothing to refuse.
func checkCell(k eventlog.IDKeys, cell int) error {
	if of := eventlog.CellOf(k.Current); cell != 0 && of != cell {
		return fmt.Errorf("%s: the current key has the number %d, of cell %d, and this server is cell %d, whose keys have the numbers "+
			"%d to %d: event ids would say another cell; give it the cell with which its data directory was made", KeyFile, k.Current, of, cell,
			cell*eventlog.CellKeys, cell*eventlog.CellKeys+eventlog.CellKeys-1)
	}
	return nil
}

// NewKey draws a key of event ids.
func NewKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails: crypto/rand ends the program first
	return key
}

// text returns the contents of a KeyFile.
func (t keyText) text() ([]byte, error) {
	var err error
	if t.Check, err = t.sum(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(t)
	return append(b, '\n'), err
}

// WriteKeys replaces the KeyFile of a directory, as a whole or not at all.
func WriteKeys(dir string, k eventlog.IDKeys) error {
	if err := k.Check(); err != nil {
		return err
	}
	b, err := keyText{Current: k.Current, Keys: k.Keys, Dropped: k.Dropped}.text()
	if err != nil {
		return err
	}
	return fold.WriteDurable(dir, KeyFile, bytes.NewReader(b))
}

// KeysFingerprint names all keys of event ids without telling them.
func KeysFingerprint(k eventlog.IDKeys) eventlog.ID { return fingerprint(k) }

// KeyFingerprint names a key of event ids without telling it.
func KeyFingerprint(number byte, key []byte) eventlog.ID {
	return fingerprint(eventlog.IDKeys{Keys: map[byte][]byte{number: key}})
}

// ReadKeys reads the KeyFile of a directory, which must be there: for the nodes of a cluster, which have one. A file that
// other users can read is refused with a *secret.OpenError.
func ReadKeys(dir string) (eventlog.IDKeys, error) { return readKeys(dir, secret.Read) }

func readKeys(dir string, read func(name string) ([]byte, error)) (eventlog.IDKeys, error) {
	name := filepath.Join(dir, KeyFile)
	b, err := read(name)
	if err != nil {
		return eventlog.IDKeys{}, err
	}
	k, err := parseKeyFile(b)
	if err != nil {
		return k, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

// BatchKeys returns the keys of the batches of a cluster whose log is in a data directory, nil without a KeyFile that
// can be read. The log of a single machine needs none.
func BatchKeys(dir string) *eventlog.BatchKeys {
	k, err := readKeys(dir, os.ReadFile) // what only reads a log takes it as it is
	if err != nil {
		return nil
	}
	return k.Batches()
}

func parseKeyFile(b []byte) (eventlog.IDKeys, error) {
	var t keyText
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return eventlog.IDKeys{}, err
	}
	if sum, err := t.sum(); err != nil || t.Check != "" && t.Check != sum {
		return eventlog.IDKeys{}, fmt.Errorf("it is damaged: check is %q, the keys have %q", t.Check, sum)
	}
	k := eventlog.IDKeys{Current: t.Current, Keys: t.Keys, Dropped: t.Dropped}
	return k, k.Check()
}

// fingerprint names the keys of event ids without telling them.
func fingerprint(k eventlog.IDKeys) eventlog.ID {
	h := sha256.New()
	h.Write([]byte("troupe keys\n"))
	for _, n := range slices.Sorted(maps.Keys(k.Keys)) {
		sum := sha256.Sum256(k.Keys[n])
		h.Write(append([]byte{n}, sum[:]...))
	}
	return eventlog.ID(binary.LittleEndian.Uint64(h.Sum(nil))) | 1
}
