package fold

// SetInMemory sets how many bytes of an image are in memory, and returns how many were.
func SetInMemory(n int) (before int) {
	before, inMemory = inMemory, n
	return before
}

// EventKey is the name of an event for a policy.
var EventKey = eventKey
