package serve

func child() bool { return false }
