package serve

import (
	"context"
	"sync"
)

// lifetime is how long the goroutines of a server run.
type lifetime struct {
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}
