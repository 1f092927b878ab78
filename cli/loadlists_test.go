package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cli/load"
	"troupe/cli/term"
)

// TestLoadListsAndNumbers: streams whose decisions are lists or numbers play over HTTP, also with sets of their own, one reward for
// a list, and features; what was paid arrived; and the text names the rival. The rival is a function of the seed.
func TestLoadListsAndNumbers(t *testing.T) {
	t.Parallel()
	url, _, _ := startServer(t, filepath.Join(t.TempDir(), "data"))
	play := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := command(t.Context(), append([]string{"load", "--url", url}, args...), &out, &errs); code != 0 {
			t.Fatalf("%v: code %d: %s%s", args, code, &out, &errs)
		}
		return out.String()
	}
	rivals := map[string]float64{}
	for name, rival := range map[string]string{"lists": "table", "page": "table", "whole": "table", "features": "table", "prices": "bins"} {
		var r load.PossibleResult
		if err := json.Unmarshal([]byte(play("--stream", name, "--rounds", "100", "--model", name, "--json")), &r); err != nil {
			t.Fatal(err)
		}
		var m struct {
			Counts struct{ Decisions, Rewards uint64 }
			Config struct{ List struct{ Reward string } }
		}
		if err := json.Unmarshal(r.Model, &m); err != nil {
			t.Fatal(err)
		}
		if r.Stream != name || r.Rival != rival || len(r.Worlds) != 1 || len(r.Worlds[0]) != 1 || m.Counts.Decisions != 100 || m.Counts.Rewards < 100 {
			t.Errorf("%s: %+v, %+v", name, r, m)
		}
		if whole := name == "page" || name == "whole"; whole != (m.Config.List.Reward == "list") {
			t.Errorf("%s: list.reward is %q", name, m.Config.List.Reward)
		}
		l := r.Worlds[0][0]
		if l.Rounds != 100 || !(l.Share > -1 && l.Share <= 1 && l.Recent == l.Share && l.Rival > -1 && l.Rival <= 1) {
			t.Errorf("%s: %+v", name, l)
		}
		rivals[name] = l.Rival
	}
	var again load.PossibleResult
	if err := json.Unmarshal([]byte(play("--stream", "lists", "--rounds", "120", "--worlds", "2", "--model", "two", "--window", "7m", "--json")), &again); err != nil {
		t.Fatal(err)
	}
	if len(again.Worlds) != 2 || again.Worlds[0][0].Rival != rivals["lists"] || again.Worlds[1][0].Rival == rivals["lists"] || !strings.Contains(string(again.Model), `"window":"7m0s"`) {
		t.Errorf("two worlds: %+v, the first had the rival %v before", again, rivals["lists"])
	}
	text := play("--stream", "cascade", "--rounds", "100", "--model", "text")
	for _, want := range []string{"cascade: 4 of 10, the visitor stops", "rounds  earned  recent  table", "shares of what the best lists earn", "table: a table that is told"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	for want, args := range map[string][]string{
		"--rounds 99: expected 100":  {"--stream", "lists", "--rounds", "99"},
		"--worlds 0: expected 1":     {"--stream", "lists", "--worlds", "0"},
		"--window -1s: expected":     {"--stream", "lists", "--window", "-1s"},
		"--client late: with the":    {"--stream", "lists", "--client", "late"},
		"whose decisions play lists": {"--stream", "dcm", "--client", "ones"},
		"choose another --model":     {"--stream", "lists", "--model", "lists"},
	} {
		var out, errs bytes.Buffer
		if code := command(t.Context(), append([]string{"load", "--url", url}, args...), &out, &errs); code == 0 || strings.HasPrefix(want, "--") && code != term.Misused ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%v: code %d, %s; want %q", args, code, &errs, want)
		}
	}
}
