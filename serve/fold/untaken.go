package fold

// Untaken counts what a model could not take from the log as it is. The door refuses such numbers, so they are of a log
// that an earlier program wrote, of rewards that crossed on their way, or of a policy at the end of its arithmetic. The
// model goes on without them.
type Untaken struct {
	Clamped uint64 `json:"clamped" doc:"rewards outside of those that the model takes: the nearest one counts"`
	Refused uint64 `json:"refused" doc:"events that the policy refused: they teach nothing"`
	Seq     uint64 `json:"seq" doc:"entry of the newest of them"`
	Why     string `json:"why" doc:"why the newest one was refused"`
}

// IsZero reports whether the model took everything.
func (u *Untaken) IsZero() bool { return *u == Untaken{} }

func (u *Untaken) append(w *writer) {
	w.uint(u.Clamped)
	w.uint(u.Refused)
	w.uint(u.Seq)
	w.bytes([]byte(u.Why))
}

func readUntaken(r *reader) Untaken {
	return Untaken{Clamped: r.uint(), Refused: r.uint(), Seq: r.uint(), Why: string(r.bytes())}
}
