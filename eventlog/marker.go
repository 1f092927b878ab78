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

	"troupe/eventlog/segment"
)

// marker is the file that makes a directory an event log: its id, the id of this copy of it and the number of its
// shards.
type marker struct {
	ID     ID // of the log, the same at all nodes of a cluster
	Node   ID // of this copy
	Shards uint16
}

const (
	markerFile   = "troupe-log"
	markerFormat = "troupe event log, format 2\n"
	oldMarker    = "troupe event log, format 1\n" // of programs that kept the log in JetStream
	oldDir       = "jetstream"
)

func (m marker) text() string {
	s := markerFormat + fmt.Sprintf("id %v\nnode %v\nshards %d\n", m.ID, m.Node, m.Shards)
	return s + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(s), castagnoli))
}

// LogID returns the id of the log in a directory, without reading the log.
func LogID(dir string) (ID, error) {
	m, err := readMarker(dir)
	var d *segment.DamageError
	if errors.As(err, &d) {
		return 0, fmt.Errorf("%s: %s: %w", filepath.Join(dir, markerFile), d.What, ErrMalformed)
	}
	return m.ID, err
}

// readMarker reads the marker of a directory. ErrNoLog: there is none. An *OtherKindError: it is of an earlier program.
// A *segment.DamageError: it is not readable.
func readMarker(dir string) (marker, error) {
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return marker{}, fmt.Errorf("%s: %w", dir, ErrNoLog)
	case err != nil:
		return marker{}, err
	case strings.HasPrefix(string(text), oldMarker):
		return marker{}, &OtherKindError{dir, "a log of an earlier troupe, which this one does not read: " +
			"start its server with the program that wrote it, make a backup (troupe backup --url URL --keys-file " +
			"DATA/keys.json --to COPY), and restore that with this program (troupe restore --from COPY --data NEW)"}
	}
	m, err := parseMarker(string(text))
	if err != nil {
		return m, &segment.DamageError{Damage: segment.Damage{File: markerFile, What: "it is not readable"}}
	}
	return m, nil
}

func parseMarker(text string) (m marker, err error) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); key {
		case "id":
			err = errors.Join(err, m.ID.UnmarshalText([]byte(value)))
		case "node":
			err = errors.Join(err, m.Node.UnmarshalText([]byte(value)))
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

// refuseRemains refuses a directory without a marker that has entries, here or in an earlier program's files.
func refuseRemains(dir string) error {
	if exists(filepath.Join(dir, oldDir)) {
		return &OtherKindError{dir, "files of a log of an earlier troupe, without its marker"}
	}
	if countShards(dir) > 0 {
		return &segment.DamageError{Damage: segment.Damage{File: markerFile, What: "is missing"}}
	}
	return nil
}

// countShards returns how many shards have a segment file.
func countShards(dir string) (n int) {
	for {
		files, err := filepath.Glob(filepath.Join(dir, segment.GroupDir(uint16(n)), "*.seg"))
		if err != nil || len(files) == 0 {
			return n
		}
		n++
	}
}

// newMarker draws the ids of a log.
func newMarker(shards uint16) (m marker, err error) {
	m.Shards = shards
	if m.ID, err = randomID(); err == nil {
		m.Node, err = randomID()
	}
	return m, err
}

// makeLog makes an empty log. The marker is written last, so that a crash leaves either no log or a
// whole one.
func makeLog(dir string, shards uint16) (marker, error) {
	for n := range shards {
		group := filepath.Join(dir, segment.GroupDir(n))
		if err := os.MkdirAll(group, 0o700); err != nil {
			return marker{}, err
		}
		if err := errors.Join(segment.CreateAcked(segment.OS, group, n, segment.Acked{First: 1}), syncDir(group)); err != nil {
			return marker{}, err
		}
	}
	m, err := newMarker(shards)
	if err != nil {
		return m, err
	}
	return m, writeMarker(dir, m)
}

func writeMarker(dir string, m marker) error {
	return errors.Join(writeMarkerFile(dir, markerFile, m.text()), syncDir(filepath.Dir(filepath.Clean(dir))))
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
