package policy

// LimitLazySteps sets the number of steps that lazy keeps, in numbers, until undo is called.
func LimitLazySteps(n int) (undo func()) {
	old := lazySteps
	lazySteps = n
	return func() { lazySteps = old }
}
