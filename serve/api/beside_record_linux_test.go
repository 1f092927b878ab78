package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestBesideRecord prints how long a small decision takes alone and beside four callers with the largest accepted requests of some
// kinds on models of their own, in turns, with the log in memory and on the disk, and what /livez takes, which needs neither a model
// nor the log: docs/record/work.md.
func TestBesideRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("docs/record/work.md: TROUPE_RECORD=1")
	}
	for _, on := range []string{"memory", "disk"} {
		var log eventlog.Log
		if on == "memory" {
			log = eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
		}
		w := newWorldOn(t, log, Options{})
		s := httptest.NewServer(w.edge)
		defer s.Close()
		call := func(method, path, body string) string {
			r := must(http.NewRequest(method, s.URL+path, strings.NewReader(body)))
			r.Header.Set("Content-Type", "application/json")
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				return ""
			}
			defer a.Body.Close()
			b, _ := io.ReadAll(a.Body)
			if a.StatusCode >= 300 {
				return fmt.Sprint(a.StatusCode, " ", string(b))
			}
			return string(b)
		}
		numbers := func(n, salt int) string {
			m := map[string]float64{}
			for i := range n {
				m[fmt.Sprint("n", i)] = float64((i*7+salt*3)%10) / 3
			}
			return string(must(json.Marshal(m)))
		}
		request := func(actions, salt int) string {
			var all []string
			for i := range actions {
				all = append(all, fmt.Sprintf(`{"id":"a%d","features":%s}`, i, numbers(18, i+salt)))
			}
			return `{"context":` + numbers(19, salt) + `,"actions":[` + strings.Join(all, ",") + `]}`
		}
		call("POST", "/v1/models", `{"id":"small"}`)
		var rewards [4]string
		for c := range 4 {
			name := fmt.Sprint("wide", c)
			call("POST", "/v1/models", `{"id":"`+name+`"}`)
			var all []string
			for len(all) < 3000 {
				var batch []string
				for i := range 50 {
					batch = append(batch, request(2, len(all)+i))
				}
				var a struct {
					Results []struct {
						Decision struct {
							EventID string `json:"event_id"`
						}
					}
				}
				if err := json.Unmarshal([]byte(call("POST", "/v1/models/"+name+":decideBatch", `{"requests":[`+strings.Join(batch, ",")+`]}`)), &a); err != nil {
					t.Fatal(err)
				}
				for _, r := range a.Results {
					all = append(all, fmt.Sprintf(`{"event_id":%q,"value":%d}`, r.Decision.EventID, len(all)%2))
				}
			}
			call("POST", "/v1/rewards:batch", `{"rewards":[`+strings.Join(all[:600], ",")+`]}`)
			rewards[c] = `{"rewards":[` + strings.Join(all[600:], ",") + `]}`
		}
		largest := 1000
		for ; strings.HasPrefix(call("POST", "/v1/models/wide0:decide", request(largest, 1)), "413"); largest -= 20 {
		}
		body := request(largest, 1)
		measure := func() (decide, live time.Duration) {
			var d, l []time.Duration
			// A call every two milliseconds at most: it measures what other callers need.
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
				t0 := time.Now()
				call("POST", "/v1/models/small:decide", `{"context":{"a":1},"actions":[{"id":"a"},{"id":"b"},{"id":"c"}]}`)
				t1 := time.Now()
				call("GET", "/livez", "")
				d, l = append(d, t1.Sub(t0)), append(l, time.Since(t1))
			}
			slices.Sort(d)
			slices.Sort(l)
			return d[len(d)/2], l[len(l)/2]
		}
		for round := range 3 {
			for _, kind := range []string{"decide", "rewards:batch", "page"} {
				d0, l0 := measure()
				var stop atomic.Bool
				var n atomic.Int64
				var callers sync.WaitGroup
				p0 := processor()
				for c := range 4 {
					callers.Go(func() {
						for !stop.Load() {
							switch kind {
							case "decide":
								call("POST", fmt.Sprintf("/v1/models/wide%d:decide", c), body)
							case "rewards:batch":
								call("POST", "/v1/rewards:batch", rewards[c])
							case "page":
								call("GET", fmt.Sprint("/models/wide", c), "")
							}
							n.Add(1)
						}
					})
				}
				d1, l1 := measure()
				p1 := processor()
				stop.Store(true)
				callers.Wait()
				load, _, _ := strings.Cut(string(must(os.ReadFile("/proc/loadavg"))), " ")
				fmt.Printf("%s, round %d, four callers of %s (%d calls, %v of a processor in 2 s, load %s): small decision %v → %v, %.2f; livez %v → %v\n",
					on, round, kind, n.Load(), (p1 - p0).Round(time.Millisecond), load, d0.Round(time.Microsecond), d1.Round(time.Microsecond),
					float64(d1)/float64(d0), l0.Round(time.Microsecond), l1.Round(time.Microsecond))
			}
		}
	}
}
