package feature

import "encoding/binary"

// Murmur3 is the hash, for its published vectors.
func Murmur3(b []byte, seed uint32) uint32 { return murmur3(b, seed) }

// Plain says that eight bytes of a string need no look at each of them.
func Plain(b [8]byte) bool { return plain(binary.LittleEndian.Uint64(b[:])) }

// ReadNumber reads one number as the encoder does.
func ReadNumber(b []byte) (float64, error) {
	var r reader
	limits := Limits{}.filled()
	if err := r.start(b, &limits); err != nil {
		return 0, err
	}
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, r.syntax("a number")
	}
	x, _, err := r.number()
	if err == nil {
		err = r.end()
	}
	return x, err
}

// Words splits a text as the encoder does.
func Words(s string) []string {
	var out []string
	words(nil, []byte(s), func(b []byte, i, j int) { out = append(out, string(b[i:j])) })
	return out
}

// ReadString reads one string of JSON.
func ReadString(b []byte) ([]byte, error) {
	limits := Limits{}.filled()
	var r reader
	if err := r.start(b, &limits); err != nil {
		return nil, err
	}
	s, err := r.string(limits.String)
	if err == nil {
		err = r.end()
	}
	return s, err
}
