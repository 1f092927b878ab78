// Package bandittest holds the conformance suites of the interfaces in package bandit, for our
// implementations and for strangers'. A suite is a function that takes a value and reports to a TB
// every way in which the value breaks its contract:
//
//	func TestMySet(t *testing.T) {
//		set := NewMySet()
//		bandittest.TestActionSet(t, set, bandittest.SetOptions{Members: corners, Complete: true})
//	}
//
// A suite that cannot fail proves nothing, so the tests of this package plant one fault after the
// other and read what the suite says.
package bandittest
