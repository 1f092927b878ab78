package bandittest

// RaceDetector tells the tests that allocations are not counted.
const RaceDetector = raceDetector
