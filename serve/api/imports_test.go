package api

import (
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// counted counts the reads of a body.
type counted struct {
	io.Reader
	reads atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Reader.Read(b)
}

// TestImportsInTurn: a body of up to 64 MiB is not read while maxImports others are under way.
func TestImportsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, newFake("news"), Options{})
		for range maxImports {
			e.calls.models.imports <- struct{}{}
		}
		body := &counted{Reader: strings.NewReader("saved")}
		r := httptest.NewRequest("POST", "http://127.0.0.1:8080/v1/models/warm:createFrom", body)
		r.Header.Set("Content-Type", "application/octet-stream")
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			e.ServeHTTP(w, r)
			close(done)
		}()
		synctest.Wait()
		if n := body.reads.Load(); n != 0 {
			t.Errorf("the body was read %d times", n)
		}
		<-e.calls.models.imports
		<-done
		if w.Code != 201 || body.reads.Load() == 0 {
			t.Errorf("%d %s after %d reads", w.Code, w.Body, body.reads.Load())
		}
		if len(e.calls.models.imports) != maxImports-1 {
			t.Errorf("%d places are taken", len(e.calls.models.imports))
		}
	})
}
