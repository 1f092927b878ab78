package eventlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

// TestUnit: the hash is the HMAC under the oldest key that is not dropped, of the model and the value; it never is 0.
func TestUnit(t *testing.T) {
	old, fresh := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	k := IDKeys{Current: 3, Keys: map[byte][]byte{3: old, 200: fresh}}
	h := hmac.New(sha256.New, old)
	h.Write([]byte("troupe unit 1\n\xa1\x00\x00\x00\x00\x00\x00\x00sann"))
	want := ID(binary.LittleEndian.Uint64(h.Sum(nil)))
	if got := k.Unit(0xa1, []byte("sann")); got != want {
		t.Errorf("the hash is %v, want %v", got, want)
	}
	k.Current = 200
	if got := k.Unit(0xa1, []byte("sann")); got != want {
		t.Errorf("with another current key the hash is %v, want %v", got, want)
	}
	if k.Unit(0xa2, []byte("sann")) == want || k.Unit(0xa1, []byte("sbob")) == want {
		t.Error("another model or another value has the same hash")
	}
	delete(k.Keys, 3)
	k.Dropped = map[byte][]byte{3: old}
	if k.Unit(0xa1, []byte("sann")) == want {
		t.Error("a dropped key still makes hashes")
	}
}
