//go:build !unix

package cli

import "time"

var began = time.Now()

// processTime returns the time since the program began, in seconds: this system does not tell the
// processor time of a process.
func processTime() float64 { return time.Since(began).Seconds() }
