package logged

import (
	"fmt"
	"io"
	"math/rand/v2"
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

// TestLossyIsRead: what --lossy writes of odd events is read again, with the same action, reward and propensity, in every format; or the event
// is refused and nothing is written.
func TestLossyIsRead(t *testing.T) {
	dir := t.TempDir()
	for _, format := range Formats {
		r := rand.New(rand.NewPCG(29, 9))
		whole := 0
		for i := range 400 {
			e := oddEvent(r, i)
			name := filepath.Join(dir, fmt.Sprintf("%s-%d", format, i))
			w, err := Create(name, WriteOptions{Format: format, Lossy: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(&e); err != nil {
				w.Abort()
				continue
			}
			if err := w.Close(); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			whole++
			in, err := Open(name, Options{Format: format, Actions: e.K})
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
		if whole < 100 {
			t.Errorf("%s: only %d of 400 were written", format, whole)
		}
		t.Logf("%s: %d of 400 written", format, whole)
	}
}
