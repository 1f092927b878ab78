//go:build !linux

package timing

import "time"

// Processor returns the time that has passed. On Linux it is the processor time that the calling thread has used.
func Processor() time.Duration { return time.Since(started) }
