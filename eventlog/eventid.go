package eventlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// EventID is what a caller gets for a decision and brings back with its reward.
type EventID struct {
	Shard uint16
	Event Event
	// Hint is the sequence of the batch when the id was made. It saves a search and proves nothing:
	// a rebuilt log may have moved. Compare the batch's header with Event.
	Hint uint64
	// Token says that the decision itself travels with the caller and may not be in the log.
	Token bool
}

// ErrForged is the error of a text in the form of an event id that was not made with one of our keys, or was changed.
var ErrForged = errors.New("event id: not one of ours")

// ErrNotID is the error of a text that is no event id of any server, such as one that was cut off.
var ErrNotID = errors.New("event id: not in the form of one")

// IDKeys are the secrets that event ids are made with, by the number that is their first byte. Old
// ones stay to be recognised; Current makes new ids.
type IDKeys struct {
	Current byte
	Keys    map[byte][]byte // at least 16 bytes each
	// Dropped are keys whose event ids are not recognised any more. What the nodes of a cluster have written under
	// them stays in the log, so they are kept for BatchKeys.
	Dropped map[byte][]byte
}

// Crockford's alphabet in lower case: no i, l, o, u.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

var base32id = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// A cell is a server, or a cluster, that has some of the models behind a proxy. The keys of cell n have the numbers 8n to
// 8n + 7, so the first character of its event ids is its own, and a proxy can tell where an event belongs. Cell 0 are
// servers that are no cell; their keys go on beyond 7.
const (
	CellKeys = 8
	LastCell = 31
)

// CellOf returns the cell of a key's number.
func CellOf(key byte) int { return int(key) / CellKeys }

// CellMark returns the first character of the ids of a cell's events. A number that is no cell's panics.
func CellMark(cell int) byte { return alphabet[cell] }

const (
	macSize = 8
	idMax   = 96 // characters
	idToken = 1  // flag
)

// mac is the beginning of the HMAC-SHA-256 (RFC 2104) of a title and the body, at most idMax bytes:
// H((k ⊕ opad) ‖ H((k ⊕ ipad) ‖ text)). Package hmac would allocate two hashes for each of the two ids of an
// event; a test compares the two.
func mac(key, body []byte) (sum [macSize]byte) {
	const title = "troupe event id 1\n"
	var pad [sha256.BlockSize]byte
	if len(key) > len(pad) {
		h := sha256.Sum256(key)
		copy(pad[:], h[:])
	} else {
		copy(pad[:], key)
	}
	var text [sha256.BlockSize + len(title) + idMax]byte
	for i, v := range pad {
		text[i] = v ^ 0x36
	}
	n := len(pad)
	n += copy(text[n:], title)
	n += copy(text[n:], body)
	inner := sha256.Sum256(text[:n])
	for i, v := range pad {
		text[i] = v ^ 0x5c
	}
	n = len(pad) + copy(text[len(pad):], inner[:])
	outer := sha256.Sum256(text[:n])
	copy(sum[:], outer[:])
	return sum
}

// Check returns an error when the keys cannot be used.
func (k IDKeys) Check() error {
	for n, key := range k.Keys {
		if len(key) < 16 {
			return fmt.Errorf("event id key %d has %d bytes, want at least 16", n, len(key))
		}
	}
	if _, ok := k.Keys[k.Current]; !ok {
		return fmt.Errorf("event id key %d is missing", k.Current)
	}
	for n, key := range k.Dropped {
		if _, twice := k.Keys[n]; twice || len(key) < 16 {
			return fmt.Errorf("dropped key %d has %d bytes, want at least 16, and a number of its own", n, len(key))
		}
	}
	return nil
}

// Format returns the text of an id: base32 of key number, flags, epoch, shard, batch, index, hint
// and an HMAC-SHA-256 cut to 8 bytes. Keys that Check refuses panic.
func (k IDKeys) Format(id EventID) string {
	key := k.Keys[k.Current]
	if len(key) < 16 {
		panic("eventlog: event id keys were not checked")
	}
	var room [idMax]byte
	b := appendBody(room[:0], k.Current, id)
	sum := mac(key, b)
	var text [2 * idMax]byte
	return string(base32id.AppendEncode(text[:0], append(b, sum[:]...)))
}

// appendBody appends what the MAC of an id is of.
func appendBody(b []byte, key byte, id EventID) []byte {
	flags := byte(0)
	if id.Token {
		flags = idToken
	}
	b = append(b, key, flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(id.Event.Epoch))
	b = binary.AppendUvarint(b, uint64(id.Shard))
	b = binary.AppendUvarint(b, id.Event.Batch)
	b = binary.AppendUvarint(b, uint64(id.Event.Index))
	return binary.AppendUvarint(b, id.Hint)
}

// decodeID returns the bytes of the text of an id, in room.
func decodeID(text string, room *[idMax]byte) ([]byte, error) {
	if len(text) > idMax {
		return nil, ErrNotID
	}
	var in, again [idMax]byte
	n, err := base32id.Decode(room[:], in[:copy(in[:], text)])
	b := room[:n]
	if err != nil || n < 2+8+4+macSize || string(base32id.AppendEncode(again[:0], b)) != text {
		return nil, ErrNotID
	}
	return b, nil
}

// Parse returns the id of a text that Format made with one of the keys. A text that Format cannot have made is
// ErrNotID, every other one ErrForged. The comparison takes the same time wherever the difference is.
func (k IDKeys) Parse(text string) (EventID, error) {
	var room [idMax]byte
	b, err := decodeID(text, &room)
	if err != nil {
		return EventID{}, err
	}
	body, sum := b[:len(b)-macSize], b[len(b)-macSize:]
	id, err := parseBody(body)
	if err != nil {
		return EventID{}, err
	}
	key, ok := k.Keys[b[0]]
	if !ok || len(key) < 16 {
		return EventID{}, ErrForged
	}
	if want := mac(key, body); !hmac.Equal(want[:], sum) {
		return EventID{}, ErrForged
	}
	return id, nil
}

func parseBody(body []byte) (EventID, error) {
	if body[1]&^idToken != 0 {
		return EventID{}, ErrNotID
	}
	id := EventID{Token: body[1] == idToken}
	id.Event.Epoch = ID(binary.LittleEndian.Uint64(body[2:]))
	rest := body[10:]
	var v [4]uint64
	for i := range v {
		n := 0
		if v[i], n = uvarint(rest); n == 0 {
			return EventID{}, ErrNotID
		}
		rest = rest[n:]
	}
	if len(rest) > 0 || v[0] > 0xffff || v[2] >= MaxEvents {
		return EventID{}, ErrNotID
	}
	id.Shard, id.Event.Batch, id.Event.Index, id.Hint = uint16(v[0]), v[1], uint32(v[2]), v[3]
	if id.Event.check("event") != nil {
		return EventID{}, ErrNotID
	}
	return id, nil
}

// Mark vouches for one text of an event id without the key that made it: the number of the key, and its MAC.
type Mark [1 + macSize]byte

// Marks returns the marks of an id under all keys that Parse accepts, first that of the current key. Who has them can tell the
// texts of this id from all others, and make them (Text), and cannot make other ids.
func (k IDKeys) Marks(id EventID) (out []Mark) {
	for _, n := range append([]byte{k.Current}, slices.Sorted(maps.Keys(k.Keys))...) {
		if n == k.Current && len(out) > 0 {
			continue
		}
		var m Mark
		m[0] = n
		sum := mac(k.Keys[n], appendBody(nil, n, id))
		copy(m[1:], sum[:])
		out = append(out, m)
	}
	return out
}

// Text returns the text that IDKeys.Format made of an id.
func (m Mark) Text(id EventID) string {
	return base32id.EncodeToString(append(appendBody(nil, m[0], id), m[1:]...))
}

// Peek reads the text of an id that was made with any key, and returns its mark. It proves nothing: compare the mark. A text
// that no IDKeys can have made is ErrNotID.
func Peek(text string) (EventID, Mark, error) {
	var room [idMax]byte
	b, err := decodeID(text, &room)
	if err != nil {
		return EventID{}, Mark{}, err
	}
	n := len(b) - macSize
	id, err := parseBody(b[:n])
	return id, Mark(append([]byte{b[0]}, b[n:]...)), err
}

// Clone returns keys that do not share memory with k.
func (k IDKeys) Clone() IDKeys {
	c := IDKeys{Current: k.Current, Keys: make(map[byte][]byte, len(k.Keys))}
	for n, key := range k.Keys {
		c.Keys[n] = slices.Clone(key)
	}
	if k.Dropped != nil {
		c.Dropped = make(map[byte][]byte, len(k.Dropped))
	}
	for n, key := range k.Dropped {
		c.Dropped[n] = slices.Clone(key)
	}
	return c
}
