//go:build !race

package bandittest

const raceDetector = false
