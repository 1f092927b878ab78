package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEvaluateOneEnd: --rewards 0, gives the lower side, and --rewards ,1 the upper one; a reward outside --rewards is refused, in the log
// of a server too.
func TestEvaluateOneEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.jsonl")
	var text bytes.Buffer
	for i := range 300 {
		fmt.Fprintf(&text, `{"action": %d, "reward": %g, "propensity": 0.5, "law": [0.5, 0.5], "context": [%d]}`+"\n", i%2, float64(i%3*(i%2)), i%5)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		code int
		word string
		args []string
	}{
		{0, "at least", []string{file, "--rewards", "0,", "--out", t.TempDir()}},
		{0, "at most", []string{file, "--rewards", ",2", "--out", t.TempDir()}},
		{0, "\"rewards\": [\n    0,\n    null\n  ]", []string{file, "--rewards", "0,", "--json"}},
		{2, "reward: 2, expected a reward in [0, 1]", []string{file, "--json"}},
		{2, "--rewards ,: expected min,max", []string{file, "--rewards", ","}},
		{2, "--rewards 0,NaN", []string{file, "--rewards", "0,NaN"}},
		{2, "--rewards 0,Inf", []string{file, "--rewards", "0,Inf"}},
		{2, "--rewards 3: expected", []string{file, "--rewards", "3"}},
		{2, "expected a reward in [0, 1] (--rewards)", []string{vectorLog(t, 64), "--rewards", "0,1", "--json"}},
	} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), append([]string{"evaluate"}, x.args...), &out, &errs); code != x.code || !strings.Contains(out.String()+errs.String(), x.word) || code != 0 && out.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d; %q in\n%s%s", x.args, code, x.code, x.word, &out, &errs)
		}
	}
}
