package recent

import (
	"reflect"
	"testing"

	"troupe/eventlog"
)

// TestKnownList: what is kept of a list is what was known of it, beside all else.
func TestKnownList(t *testing.T) {
	var m memory
	for i, l := range []*KnownList{nil, {IDs: []string{"a", "", "ä\x00b"}}, {IDs: []string{"a", "b"}, Slots: []string{"hero", ""}, Whole: true}} {
		key := eventlog.Event{Epoch: 1, Batch: uint64(i + 1)}
		want := Known{Seq: uint64(i), Model: 7, Atoms: []byte{1, 2}, List: l}
		m.put(key, want, 1<<20)
		if got, ok := m.get(key); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
