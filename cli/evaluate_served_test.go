package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/personalizer"
)

// TestEvaluateServed: the log of a server that runs gives the numbers of its directory; NAME@SEQ is the model as it was, on what came
// after, from both; the model's own last state agrees with the logger where nothing was learned since; a saved or trained model is
// not evaluated on what it has learned.
func TestEvaluateServed(t *testing.T) {
	dir, to := vectorLog(t, 640), t.TempDir()
	run := func(code int, word string, args ...string) (r ope.Result) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate"}, args...), &out, &errs); got != code || !strings.Contains(errs.String(), word) {
			t.Fatalf("%v: exit code %d, want %d; %q in\n%s%s", args, got, code, word, &out, &errs)
		}
		if code == 0 {
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	all := run(0, "", dir, "--target", "uniform", "--json")
	// Each batch of decisions and of rewards is an entry: entry 12 is in the middle.
	then := run(0, "", dir, "--target", "news@12", "--model", "news", "--json")
	if then.Log.Events == 0 || then.Log.Events >= all.Log.Events || !strings.Contains(strings.Join(then.Warnings, " "), "after entry 12") {
		t.Errorf("%+v, warnings %q", then.Log, then.Warnings)
	}
	run(2, "expected a sequence from", dir, "--target", "news@100000", "--json")
	run(2, "learns nothing", dir, "--target", "news@12", "--learn", "log", "--json")
	file := filepath.Join(to, "warm.model")
	var out, errs bytes.Buffer
	if code := command(t.Context(), []string{"train", dir, "--out", file}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	run(2, "learned what came before", dir, "--target", file, "--json")
	if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil { // nothing says whose log it is
		t.Fatal(err)
	}
	run(2, "is not evaluated on them", dir, "--target", file, "--json")

	s, err := serve.Open(t.Context(), serve.Options{Dir: dir, ExpireEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := api.New(s, api.Options{Adapters: []api.Adapter{personalizer.New("")}})
	if err != nil {
		t.Fatal(err)
	}
	defer edge.Close()
	web := httptest.NewServer(edge)
	defer web.Close()
	for _, x := range []struct {
		want ope.Result
		args []string
	}{{all, []string{"--target", "uniform"}}, {then, []string{"--target", "news@12"}}} {
		got := run(0, "", append([]string{web.URL, "--model", "news", "--json"}, x.args...)...)
		if diff := cmp.Diff(x.want.Targets, got.Targets); diff != "" || got.Log.Events != x.want.Log.Events || got.Log.Format != "server" || got.Rewards != x.want.Rewards {
			t.Errorf("%v: %+v, the directory %+v\n%s", x.args, got.Log, x.want.Log, diff)
		}
	}
	personalizerAgrees(t, web.URL+"/v1/models/news/personalizer/v1.0/evaluations", all.Targets[0])
	for _, name := range []string{"rows.jsonl", "rows.parquet"} { // log export takes the address too
		file := filepath.Join(to, name)
		out.Reset()
		if code := command(t.Context(), []string{"log", "export", web.URL, "--model", "news", "--key", "k", "--format", strings.TrimPrefix(filepath.Ext(name), "."), "--out", file}, &out, &errs); code != 0 {
			t.Fatal(errs.String())
		}
		got := run(0, "", file, "--target", "uniform", "--rewards", "-1,1", "--json")
		if diff := cmp.Diff(all.Targets, got.Targets); diff != "" || got.Log.Format != "export" {
			t.Errorf("%s: %s\n%s", name, got.Log.Format, diff)
		}
	}
	// The only model of a server needs no name; with two they are named.
	if got := run(0, "", web.URL, "--target", "uniform", "--json"); cmp.Diff(all.Targets, got.Targets) != "" || *got.Log.Model != "news" {
		t.Errorf("without a name: %+v", got.Log)
	}
	out.Reset()
	if code := command(t.Context(), []string{"log", "export", web.URL}, &out, &errs); code != 0 || !strings.Contains(out.String(), `"model":"news"`) {
		t.Errorf("exit %d, %s", code, &errs)
	}
	const missing = "--model NAME is missing: http://127.0.0.1:"
	run(2, "no decision of the model news after entry 22 with a final reward, or with a window that is over", web.URL, "--model", "news",
		"--target", "news@22", "--json")
	records := filepath.Join(to, "log.jsonl")
	if err := os.WriteFile(records, []byte(`{"seq":2,"kind":"reward","event":"a/2/0","value":1}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run(2, "records of GET …/log", records)
	made, err := http.Post(web.URL+"/v1/models", "application/json", strings.NewReader(`{"id": "other"}`))
	if err != nil {
		t.Fatal(err)
	}
	if made.Body.Close(); made.StatusCode != http.StatusCreated {
		t.Fatal(made.Status)
	}
	run(2, missing, web.URL, "--json")
	run(2, " has news, other", web.URL, "--json")
	errs.Reset()
	if code := command(t.Context(), []string{"log", "export", web.URL}, &out, &errs); code != 2 || !strings.Contains(errs.String(), missing) {
		t.Errorf("exit %d, %s", code, &errs)
	}
	run(2, web.URL+": no decision of the model news after entry", web.URL, "--model", "news", "--target", file, "--json")
	run(2, "there is no such model", web.URL, "--model", "nws", "--json")
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "troupe-evaluate-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// personalizerAgrees: an evaluation by a Personalizer client says of uniform play what troupe evaluate says.
func personalizerAgrees(t *testing.T, url string, uniform *ope.Evaluated) {
	t.Helper()
	var got struct {
		Status        string
		PolicyResults []struct {
			PolicySource string
			TotalSummary struct {
				IPS      float64  `json:"averageReward"`
				Half     *float64 `json:"confidenceInterval"`
				WR       float64  `json:"ipsEstimatorNumerator"`
				Weights  float64  `json:"snipsEstimatorDenominator"`
				Presents float64  `json:"ipsEstimatorDenominator"`
			}
		}
	}
	answer, err := http.Post(url, "application/json", strings.NewReader(`{"name":"May","startTime":"2026-05-01T00:00:00Z","endTime":"2026-06-01T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	at := answer.Header.Get("Location")
	if answer.StatusCode != 201 || at == "" {
		t.Fatalf("%s: %s, Location %q", url, answer.Status, at)
	}
	for note := range await.Tries(t) {
		if got.Status == "completed" {
			break
		}
		if got.Status == "failed" {
			t.Fatal("the evaluation failed")
		}
		note("the evaluation is %q", got.Status)
		answer, err := http.Get(strings.TrimSuffix(url, "/v1/models/news/personalizer/v1.0/evaluations") + at)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(answer.Body).Decode(&got)
		if answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	x := got.PolicyResults[2].TotalSummary
	for _, e := range uniform.Estimates {
		have := 0.0
		switch e.Estimator {
		case "ips":
			if have = x.IPS; (x.Half == nil) != (e.Normal == nil) {
				t.Errorf("half the interval is %v, troupe evaluate has %v", x.Half, e.Normal)
			}
		case "snips":
			have = x.WR / x.Weights
		default:
			continue
		}
		if math.Abs(have-*e.Value) > 1e-12 {
			t.Errorf("%s of uniform play is %v, by troupe evaluate %v", e.Estimator, have, *e.Value)
		}
	}
	if x.Presents != 640 || got.PolicyResults[2].PolicySource != "Random" {
		t.Errorf("%+v", got.PolicyResults[2])
	}
}

// TestLooksOnly: evaluate and log replay open a directory as a server would, and leave a log in its version, also where
// this program could raise it.
func TestLooksOnly(t *testing.T) {
	dir := t.TempDir()
	s, err := serve.Open(t.Context(), serve.Options{Dir: dir, ExpireEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := serve.DefaultConfig("news")
	c.Dim = 3
	if _, err := s.CreateModel(t.Context(), c, ""); err != nil {
		t.Fatal(err)
	}
	var id string
	for i := range 20 {
		d, err := s.Decide(t.Context(), "news", serve.DecideRequest{Actions: vectorActions(i)})
		if err != nil {
			t.Fatal(err)
		}
		id = d.EventID
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventlogtest.NextVersion(t)
	for _, args := range [][]string{{"evaluate", dir, "--model", "news", "--target", "news@3"}, {"log", "replay", dir, "--event", id}} {
		var out, errs bytes.Buffer
		command(t.Context(), args, &out, &errs)
		var dump bytes.Buffer
		if code := command(t.Context(), []string{"log", "dump", dir}, &dump, &errs); code != 0 || dump.Len() == 0 || strings.Contains(dump.String(), "raise") {
			t.Errorf("%v: exit %d, %s\nthe log was raised:\n%s", args, code, &errs, &dump)
		}
	}
}
