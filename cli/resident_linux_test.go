package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"troupe/client"
	"troupe/internal/await"
)

// TestResident: 1,000 models with 1,000 events each, and the resident memory of the server two minutes after all were laid
// aside. TROUPE_RECORD=1, about six minutes.
func TestResident(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1: a million decisions, and four minutes of waiting")
	}
	const models, events, batch, bar = 1000, 1000, 250, 150
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	server := exec.Command("troupe", "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--ready-file", ready)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	var url string
	await.Until(t, "the server is ready", func() bool {
		text, _ := os.ReadFile(ready)
		url = strings.TrimSpace(string(text))
		return url != ""
	})
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	resident := func(name string) (mib int) { // VmRSS or VmHWM
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\n"+name+":")
		fmt.Sscan(rest, &mib)
		return mib >> 10
	}
	var actions []client.Action
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		actions = append(actions, client.Action{ID: id})
	}
	for m := range models {
		name := fmt.Sprint("m", m)
		if err := c.CreateModel(t.Context(), map[string]any{"id": name}); err != nil {
			t.Fatal(err)
		}
		for k := 0; k < events; k += batch {
			var requests []client.DecideRequest
			for i := range batch {
				requests = append(requests, client.DecideRequest{Context: map[string]any{"field": fmt.Sprint((k + i) % 7), "number": float64((k+i)*31%97) / 97}, Actions: actions})
			}
			answers, err := c.DecideBatch(t.Context(), name, requests)
			if err != nil {
				t.Fatal(err)
			}
			var rewards []client.RewardItem
			for i, a := range answers {
				rewards = append(rewards, client.RewardItem{EventID: a.Decision.EventID, Value: float64((i + k) % 3 / 2)})
			}
			if _, err := c.RewardBatch(t.Context(), rewards); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := resident("VmRSS")
	time.Sleep(2*time.Minute + 2*time.Minute) // a model is laid aside after one to two minutes
	after := resident("VmRSS")
	t.Logf("%d models × %d events: %d MiB at the end, %d at the peak, %d two minutes after all were laid aside", models, events, end, resident("VmHWM"), after)
	if after > bar {
		t.Errorf("%d MiB are resident, the bar is %d", after, bar)
	}
}
