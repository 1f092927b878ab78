package api

import (
	"encoding/json"
	"net/http"

	"troupe/serve"
)

// Waiting answers for a node of a cluster whose log is not there yet: /livez says that the process runs, /readyz is 503
// with the reason, which with keys only a caller with the scope read learns, and every other call is 503 too. why is
// called for each request. Callers with several addresses go on to the next one.
func Waiting(keys *Keys, node string, why func() string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		x := readiness{Reason: why(), Durability: "majority", Cluster: &serve.ClusterHealth{Node: node}}
		if keys != nil {
			if h := keys.identify(r); h == nil || !h.may(Read) && !h.may(Backup) {
				x = x.public()
			}
		}
		unavailable(w, "application/json")
		json.NewEncoder(w).Encode(x)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		unavailable(w, "application/problem+json")
		json.NewEncoder(w).Encode(map[string]any{"title": "Service Unavailable", "status": http.StatusServiceUnavailable,
			"code": string(serve.Unavailable), "retry_after": 1,
			"detail": "this node waits for the log of the cluster; /readyz says why"})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // the next call may meet the server that follows
		mux.ServeHTTP(w, r)
	})
}

func unavailable(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}
