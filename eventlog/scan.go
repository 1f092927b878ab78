package eventlog

// Scan gives f every batch of a data directory that the chain accepts, shard after shard in the order
// of the log, each once. It reads the files itself, as Verify does, and changes nothing; the report
// says what is damaged. When f returns an error, f is not called again and Scan returns that error
// after the file that it is reading.
func Scan(dir string, f func(Delivery) error) (*Report, error) {
	lock, err := lockDir(dir, false)
	if err != nil {
		return nil, err
	}
	if lock != nil {
		defer lock.Close()
	}
	var failed error
	r, err := scan(dir, hooks{stop: func() error { return failed }, batch: func(d Delivery) {
		if failed == nil && !d.Repeat {
			failed = f(d)
		}
	}})
	if err == nil {
		err = failed
	}
	return r, err
}
