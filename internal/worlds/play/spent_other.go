//go:build !linux

package main

import "time"

var start = time.Now()

// spent returns the time that passed.
func spent() time.Duration { return time.Since(start) }
