package main

import (
	"context"
	"errors"
	"io"

	"troupe/ope"
)

func (e *evaluation) openDirectory() (*filtered, error) {
	return nil, misuse(errors.New("a directory"))
}

func (e *evaluation) known(ctx context.Context, out io.Writer, bench bool, args []string) error {
	return misuse(errors.New("not yet"))
}

func (e *evaluation) page(r *ope.Result) (string, error) { return "", nil }
