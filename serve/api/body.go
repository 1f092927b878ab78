package api

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// body is the body of a request within a limit. What is wrong with it is an error of a type of its own, so that the
// answer need not look at texts: a fault of the client is not one of the server.
type body struct {
	io.ReadCloser
	left, limit int64
}

// largeBody is the error of a body that is larger than its limit.
type largeBody struct{ limit int64 }

func (e *largeBody) Error() string { return fmt.Sprintf("the body has more than %d bytes", e.limit) }

// brokenBody is the error of a body that is not as the headers of its request say.
type brokenBody struct{ err error }

func (e *brokenBody) Error() string { return e.err.Error() }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		return int(b.left), &largeBody{b.limit}
	}
	b.left -= int64(n)
	if err != nil && err != io.EOF && !late(err) {
		err = &brokenBody{err}
	}
	return n, err
}

// late reports whether a body did not come in time.
func late(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// within bounds the body of a request, and refuses one that says that it is larger.
func within(r *http.Request, limit int64) error {
	if r.ContentLength > limit {
		return &largeBody{limit}
	}
	r.Body = &body{ReadCloser: r.Body, left: limit, limit: limit}
	return nil
}
