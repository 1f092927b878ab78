package logged

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// oddWords are ids, names and texts that some format cannot say.
var oddWords = []string{"", "a", "1", "2", "0", "-1", "007", "shared", "a|1:x", "a b", "'q", "a'b", "a:b", "x=y", "\u00a0x", "x\u2003", "\vx", "x\f", "é", "\"", "\\", "a,b", "a;b",
	"tab\there", "line\nbreak", "cr\r\nlf", "#", "2:0:0.5", "ccb ", "slates x", "_tag", "_multi", "{", "[1]", "null", "affinity", "user_feature_0", " ", "😀", "a|b|c", "\u2028"}

// oddEvent draws an event with odd words in it.
func oddEvent(r *rand.Rand, n int) Event {
	word := func() string { return oddWords[r.IntN(len(oddWords))] }
	object := func() []byte {
		b, seen := []byte{'{'}, map[string]bool{}
		for range r.IntN(4) {
			name := word()
			if seen[name] || strings.HasPrefix(name, "_") {
				continue
			}
			if seen[name] = true; len(b) > 1 {
				b = append(b, ',')
			}
			b = append(appendText(b, name), ':')
			switch r.IntN(5) {
			case 0:
				b = appendText(b, word())
			case 1:
				b = append(b, "[1,2]"...)
			case 2:
				b = append(b, `{"in":1,"o=k":"v:w"}`...)
			case 3:
				b = append(b, []string{"true", "false", "null"}[r.IntN(3)]...)
			default:
				b = appendNumber(b, float64(r.IntN(9))/2)
			}
		}
		return append(b, '}')
	}
	K := 2 + r.IntN(3)
	e := Event{K: K, Chosen: r.IntN(K), Reward: float64(r.IntN(2)), Propensity: 1 / float64(K), Position: NoPosition}
	e.ID = fmt.Sprintf("%s%d", word(), n)
	if r.IntN(2) == 0 {
		e.Named = object()
	} else {
		e.Context = []float64{r.Float64(), 1}
	}
	if r.IntN(3) > 0 {
		e.Law = make([]float64, K)
		for k := range e.Law {
			e.Law[k] = 1 / float64(K)
		}
	}
	if r.IntN(2) == 0 {
		e.Time = time.Date(2026, 5, 4, 10, 0, n, 0, time.UTC)
	}
	if r.IntN(3) > 0 {
		for range K {
			a := Action{ID: word()}
			switch r.IntN(3) {
			case 0:
				a.Named = object()
			case 1:
				a.X = []float64{0.5, 0.25}
			}
			e.Actions = append(e.Actions, a)
		}
	}
	return e
}

// lossyOf writes one event in a format, through a file of that name or, without one, in memory. It returns what opens the
// file, or nil where the event is refused.
func lossyOf(t *testing.T, format, name string, e *Event) func() (*Reader, error) {
	t.Helper()
	var text bytes.Buffer
	o := WriteOptions{Format: format, Lossy: true}
	w := &Writer{o: o, b: bufio.NewWriter(&text), lost: map[string]int{}}
	if name != "" {
		var err error
		if w, err = Create(name, o); err != nil {
			t.Fatal(err)
		}
	} else {
		w.to = newSink(format, w.b, "")
	}
	if err := w.Write(e); err != nil {
		w.Abort()
		return nil
	}
	if err := w.Close(); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return func() (*Reader, error) {
		if name != "" {
			return Open(name, Options{Format: format, Actions: e.K})
		}
		return NewReader(format, &text, Options{Format: format, Actions: e.K})
	}
}

// TestLossyIsRead: what --lossy writes of odd events is read again, with the same action, reward and propensity, in every format; or the event
// is refused and nothing is written. Of a text format one event in twenty goes through a file; npz and parquet, which need one, have a quarter
// of the events. With TROUPE_LONG all of them go through files.
func TestLossyIsRead(t *testing.T) {
	dir := t.TempDir()
	long := os.Getenv("TROUPE_LONG") != ""
	for _, format := range Formats {
		r := rand.New(rand.NewPCG(29, 9))
		events, whole := 400, 0
		packed := format == "npz" || format == "parquet"
		if packed && !long {
			events = 100
		}
		for i := range events {
			e := oddEvent(r, i)
			name := ""
			if packed || long || i%20 == 0 {
				name = filepath.Join(dir, format)
			}
			open := lossyOf(t, format, name, &e)
			if open == nil {
				continue
			}
			whole++
			in, err := open()
			if err != nil {
				t.Fatalf("%s, event %d %q: %v", format, i, e.ID, err)
			}
			var got Event
			if err := in.Read(&got); err != nil {
				t.Fatalf("%s, event %d %+v: %v", format, i, e, err)
			}
			// The columns of vw-flat, csv and npz may not say K.
			if got.Chosen != e.Chosen || got.Reward != e.Reward || got.Propensity != e.Propensity || got.K != 0 && got.K != e.K {
				t.Fatalf("%s, event %d: %+v came back as %+v", format, i, e, got)
			}
			if err := in.Read(&got); err != io.EOF {
				t.Fatalf("%s, event %d: a second event, or %v", format, i, err)
			}
			in.Close()
		}
		if whole < events/4 {
			t.Errorf("%s: only %d of %d were written", format, whole, events)
		}
		t.Logf("%s: %d of %d written", format, whole, events)
	}
}
