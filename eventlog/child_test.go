package eventlog

func childMain() bool { return false }
