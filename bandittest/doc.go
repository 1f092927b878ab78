// Package bandittest holds the conformance suites of the interfaces in package bandit, for the
// implementations of this module and for yours. A suite is a function that takes a value and reports
// to a TB every way in which the value breaks its contract:
//
//	func TestMySet(t *testing.T) {
//		set := NewMySet()
//		bandittest.TestActionSet(t, set, bandittest.SetOptions{Members: corners, Complete: true})
//	}
//
// The tests of this package plant one fault after the other and check that the suite finds it.
package bandittest
