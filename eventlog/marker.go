package eventlog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// marker is the file that makes a directory an event log: its id and the number of its shards.
type marker struct {
	ID     ID
	Shards uint16
}

const markerFile = "troupe-log"

func (m marker) text() string {
	s := fmt.Sprintf("troupe event log, format 1\nid %v\nshards %d\n", m.ID, m.Shards)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

// LogID returns the id of the log in a directory, without reading the log.
func LogID(dir string) (ID, error) {
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w", dir, ErrNoLog)
	} else if err != nil {
		return 0, err
	}
	m, err := parseMarker(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, markerFile), err)
	}
	return m.ID, nil
}

func parseMarker(text string) (m marker, err error) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); key {
		case "id":
			err = errors.Join(err, m.ID.UnmarshalText([]byte(value)))
		case "shards":
			n, e := strconv.ParseUint(value, 10, 16)
			m.Shards, err = uint16(n), errors.Join(err, e)
		}
	}
	if err != nil || m.Shards == 0 || m.text() != text {
		return marker{}, fmt.Errorf("not the marker of an event log: %w", ErrMalformed)
	}
	return m, nil
}

// makeLog makes an empty log. The marker is written last, so that a crash leaves either no log or a
// whole one.
func makeLog(dir string, shards uint16) error {
	for n := range shards {
		if err := createAcked(dir, n, ackedEnd{First: 1}); err != nil {
			return err
		}
	}
	id, err := randomID()
	if err != nil {
		return err
	}
	return writeMarker(dir, marker{id, shards})
}

func writeMarker(dir string, m marker) error {
	tmp := filepath.Join(dir, markerFile+".tmp")
	if err := writeFileSync(tmp, []byte(m.text())); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, markerFile)); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(filepath.Clean(dir))))
}

// randomID returns a random id other than 0.
func randomID() (id ID, err error) {
	for id == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, err
		}
		id = ID(binary.LittleEndian.Uint64(b[:]))
	}
	return id, nil
}

// writeFileSync writes a file and makes its contents durable. The name is durable after syncDir.
func writeFileSync(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFile makes what stands in a file durable, whichever process wrote it.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
