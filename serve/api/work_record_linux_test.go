package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestWorkRecord prints what the largest accepted request of each route takes of the processor, with what the server does beside it
// in 300 ms: docs/record/work.md.
func TestWorkRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("docs/record/work.md: TROUPE_RECORD=1")
	}
	w := newWorldOn(t, nil, Options{})
	raw := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
		r.Header.Set("If-Match", "*")
		out := httptest.NewRecorder()
		w.edge.ServeHTTP(out, r)
		return out.Code, out.Body.String()
	}
	measure := func(name, method, path, body string) string {
		p0 := processor()
		code, out := raw(method, path, body)
		time.Sleep(300 * time.Millisecond) // the fold works on after the answer
		fmt.Printf("%-32s %8d bytes, answer %8d bytes: %d, %v\n", name, len(body), len(out), code, (processor() - p0).Round(time.Millisecond/10))
		if code >= 400 {
			fmt.Printf("    %.300s\n", out)
		}
		return out
	}
	raw("POST", "/v1/models", `{"id":"m"}`)
	var ids []string
	one := `{"context":{"a":1,"b":"x","c":2},"actions":[{"id":"p","features":{"q":1}},{"id":"r","features":{"q":2}}]}`
	var batch []string
	for range 256 {
		batch = append(batch, one)
	}
	b256 := `{"requests":[` + strings.Join(batch, ",") + `]}`
	for len(ids) < 10000 {
		_, out := raw("POST", "/v1/models/m:decideBatch", b256)
		var a struct {
			Results []struct {
				Decision struct {
					EventID string `json:"event_id"`
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &a); err != nil || len(a.Results) == 0 {
			t.Fatal(out[:300])
		}
		for _, r := range a.Results {
			ids = append(ids, r.Decision.EventID)
		}
	}
	measure("decideBatch 256 small", "POST", "/v1/models/m:decideBatch", b256)
	var rs []string
	for i, id := range ids[:10000] {
		rs = append(rs, fmt.Sprintf(`{"event_id":%q,"value":%d}`, id, i%2))
	}
	measure("rewards:batch 10,000", "POST", "/v1/rewards:batch", `{"rewards":[`+strings.Join(rs, ",")+`]}`)
	measure("rewards:batch again", "POST", "/v1/rewards:batch", `{"rewards":[`+strings.Join(rs, ",")+`]}`)
	measure("get model", "GET", "/v1/models/m", "")
	measure("state", "GET", "/v1/models/m/state", "")
	saved := measure("state format=model", "GET", "/v1/models/m/state?format=model", "")
	measure("state at seq 20", "GET", "/v1/models/m/state?format=model&seq=30", "")
	measure("createFrom", "POST", "/v1/models/n:createFrom", saved)
	measure("clone", "POST", "/v1/models/m:clone", `{"name":"c1"}`)
	measure("clone at 30", "POST", "/v1/models/m:clone", `{"name":"c2","at_seq":30}`)
	measure("replay", "POST", "/v1/events/"+ids[9000]+":replay", "")
	measure("event", "GET", "/v1/events/"+ids[9000], "")
	measure("log page", "GET", "/v1/models/m/log", "")
	measure("log page 10000", "GET", "/v1/models/m/log?page_size=10000", "")
	measure("decisions page", "GET", "/v1/models/m/decisions", "")
	measure("decisions page 10000", "GET", "/v1/models/m/decisions?page_size=10000", "")
	measure("coin", "GET", "/v1/models/m/coin", "")
	measure("control", "GET", "/v1/models/m/control?share=.1", "")
	measure("entries", "GET", "/v1/log/entries?from=1", "")
	for _, p := range []string{"/", "/models/m", "/metrics", "/readyz", "/docs", "/openapi.json"} {
		measure(p, "GET", p, "")
	}
	var acts []string
	for i := range 1000 {
		acts = append(acts, fmt.Sprintf(`{"id":"a%d","features":{"a":%d,"b":"x y z","c":[1,2,3]}}`, i, i))
	}
	measure("create with catalogue 1000", "POST", "/v1/models", `{"id":"cat","actions":[`+strings.Join(acts, ",")+`]}`)
	measure("patch", "PATCH", "/v1/models/cat", `{"floor":0.05}`)
	measure("catalogue decide", "POST", "/v1/models/cat:decide", `{"context":{"a":1,"b":"x"},"explain":"full"}`)
	measure("create ensemble d 1000 m 1000", "POST", "/v1/models", `{"id":"ens","dim":1000,"policy":{"kind":"ensemble","m":1000}}`)
	ens := measure("state of it, format=model", "GET", "/v1/models/ens/state?format=model", "")
	measure("createFrom of it", "POST", "/v1/models/ens2:createFrom", ens)
	measure("create linucb d 1000", "POST", "/v1/models", `{"id":"lin","dim":1000,"policy":{"kind":"linucb"}}`)
	measure("create auto d 1000", "POST", "/v1/models", `{"id":"auto","dim":1000}`)
	measure("create glm-es d 1000", "POST", "/v1/models", `{"id":"glm","dim":1000,"policy":{"kind":"glm-es"}}`)
	nums := func(n int, k string) string {
		var b []string
		for i := range n {
			b = append(b, fmt.Sprintf("%q:%v", k+fmt.Sprint(i), float64((i*7+len(ids)*3)%10)/3))
		}
		return "{" + strings.Join(b, ",") + "}"
	}
	raw("POST", "/v1/models", `{"id":"wide"}`)
	ids = ids[:0]
	p1 := processor()
	for len(ids) < 10000 {
		var batch []string
		for i := range 100 {
			batch = append(batch, fmt.Sprintf(`{"context":%s,"actions":[{"id":"p%d","features":%s},{"id":"r","features":%s}]}`, nums(19, "c"), i%5, nums(18, "f"), nums(18, "f")))
		}
		_, out := raw("POST", "/v1/models/wide:decideBatch", `{"requests":[`+strings.Join(batch, ",")+`]}`)
		var a struct {
			Results []struct {
				Decision struct {
					EventID string `json:"event_id"`
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &a); err != nil || len(a.Results) == 0 {
			t.Fatal(out[:300])
		}
		for _, r := range a.Results {
			ids = append(ids, r.Decision.EventID)
		}
	}
	fmt.Println("a batch of 100 wide", (processor()-p1)/100)
	rs = rs[:0]
	for i, id := range ids[:10000] {
		rs = append(rs, fmt.Sprintf(`{"event_id":%q,"value":%d}`, id, i%2))
	}
	measure("rewards:batch 10,000 wide", "POST", "/v1/rewards:batch", `{"rewards":[`+strings.Join(rs, ",")+`]}`)
	var bb []string
	for range 100 {
		bb = append(bb, fmt.Sprintf(`{"context":%s,"actions":[{"id":"p","features":%s},{"id":"r","features":%s}]}`, nums(19, "c"), nums(18, "f"), nums(18, "f")))
	}
	measure("page of a wide model", "GET", "/models/wide", "")
	measure("decideBatch 100 wide", "POST", "/v1/models/wide:decideBatch", `{"requests":[`+strings.Join(bb, ",")+`]}`)
	var aa []string
	for i := range 700 {
		aa = append(aa, fmt.Sprintf(`{"id":"a%d","features":%s}`, i, nums(18, "f")))
	}
	for n := 900; n > 0; n -= 50 {
		code, _ := raw("POST", "/v1/models/wide:decide", `{"context":`+nums(19, "c")+`,"actions":[`+strings.Join(aa[:min(n, 700)], ",")+`]}`)
		if code == 200 {
			measure(fmt.Sprintf("decide %d wide", min(n, 700)), "POST", "/v1/models/wide:decide", `{"context":`+nums(19, "c")+`,"actions":[`+strings.Join(aa[:min(n, 700)], ",")+`]}`)
			break
		}
	}
}
