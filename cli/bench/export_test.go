package bench

import (
	"context"
	"io"
	"time"
)

// EdgeRows is how many rows the table of `bench edge` has.
var EdgeRows = len(edgeCases)

// Edge is `bench edge --json` with one turn of a length that a test can afford; the processes are the program self.
func Edge(ctx context.Context, out io.Writer, self string, length time.Duration) error {
	return benchEdge(ctx, out, io.Discard, flags{rounds: 1, json: true}, self, length)
}
