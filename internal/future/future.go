// Package future lets tests have a log version that does not exist yet.
package future

import "sync/atomic"

// Versions is how many log versions beyond eventlog.LogVersion batches may have. Programs never set it.
var Versions atomic.Uint32
