package fold

import (
	"testing"

	"troupe/effects"
)

// TestStateBuffers: the buffer of a state is used again after the last holder has released it, and not before.
func TestStateBuffers(t *testing.T) {
	var p buffers
	s := p.newState([]byte("first"))
	if !s.Hold() || s.Holders() != 2 {
		t.Fatalf("%d holders, want 2", s.Holders())
	}
	s.Release()
	if b := p.take(); b != nil {
		t.Fatalf("a buffer is free while its state is held: %q", b)
	}
	if s.Digest() != Digest([]byte("first")) {
		t.Fatal("the digest is not that of the bytes")
	}
	s.Release()
	if s.Hold() {
		t.Fatal("a state that is gone can be held")
	}
	if b := p.take(); cap(b) < 5 || len(b) != 0 {
		t.Fatalf("the buffer of a released state is not free: %q", b)
	}
	for range 3 {
		p.put(make([]byte, 8))
	}
	if n := len(p.free); n != 2 {
		t.Fatalf("%d buffers are kept, want 2", n)
	}
	var none *State
	if b, err := none.Bytes(); !none.Hold() || b != nil || err != nil || none.Digest() != 0 {
		t.Fatal("the state of no policy")
	}
	none.Release()
}

// TestRetire: a state that shares its pages ends when only its model and the published version hold it.
func TestRetire(t *testing.T) {
	s := newShared(new(effects.Shared), 1)
	if s.retire() {
		t.Fatal("a state that is not published ends")
	}
	s.Publish()
	if !s.Hold() || s.retire() {
		t.Fatal("a state that a decision holds ends")
	}
	s.Release()
	if !s.retire() || s.Hold() || s.retire() || s.Holders() != 0 {
		t.Fatal("a state that nothing else holds does not end")
	}
	s.Release()
	s.Release()
	if s.Hold() {
		t.Fatal("a state that is gone can be held")
	}
	p := newShared(new(effects.Shared), 1)
	p.Publish()
	if p.pin(); p.retire() {
		t.Fatal("a state from which a copy went on ends")
	}
	b := NewState([]byte("bytes"))
	if b.Publish(); b.retire() {
		t.Fatal("a state with bytes of its own ends")
	}
}
