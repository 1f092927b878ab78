//go:build !unix

package sim

import "time"

var began = time.Now()

// ProcessorTime returns the time since the program began: this system does not tell the processor time of a process.
func ProcessorTime() time.Duration { return time.Since(began) }
