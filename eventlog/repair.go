package eventlog

const (
	repairDir  = "repairing"
	repairDone = "done"
)
