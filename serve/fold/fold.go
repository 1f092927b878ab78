package fold

import (
	"fmt"

	"troupe/eventlog"
	"troupe/internal/compact"
	"troupe/serve/shelf"
)

// Fold is the state of all models after a sequence of the log: what Apply has made of entries 1, …, Seq. It
// reads no clock and draws nothing. Not safe for concurrent use.
//
// It is the wiring of its parts, whose methods it has. Each part has its state and the records that change it, and
// knows parts above it in this list only.
type Fold struct {
	position // how far it has come
	registry // models by id and by name
	windows  // of events that wait for a reward
	usedKeys // idempotency keys
	cluster  // nodes and time
	policies // of the models
	teacher  // what the models learn
	events   // decisions, rewards, ends of windows
	trims    // what of the log may go
	imports  // models that come in pieces
	acts     // control records
	checks   // digests of the writers

	Moves Moves // of models to other servers and from them
}

// recordTable has a row for each kind of record.
var recordTable = [...]func(*Fold, eventlog.Record) (Outcome, error){
	eventlog.KindDecision:   row((*Fold).decision),
	eventlog.KindActivate:   row((*Fold).activate),
	eventlog.KindReward:     row((*Fold).reward),
	eventlog.KindExpire:     row((*Fold).expire),
	eventlog.KindControl:    row((*Fold).control),
	eventlog.KindCheckpoint: row((*Fold).checkpoint),
	eventlog.KindLoss:       row((*Fold).loss),
	eventlog.KindPiece:      row((*Fold).piece),
}

// row is the row of the records of a type.
func row[R eventlog.Record](do func(*Fold, R) (Outcome, error)) func(*Fold, eventlog.Record) (Outcome, error) {
	return func(f *Fold, r eventlog.Record) (Outcome, error) { return do(f, r.(R)) }
}

// newFold returns the fold of an empty log. The parts are wired here.
func newFold(p past, on *shelf.Shelf) *Fold {
	f := &Fold{}
	at, models, policies, cluster := &f.position, &f.registry, &f.policies, &f.cluster
	models.byID, models.byName, models.gone = map[eventlog.ID]*Model{}, map[string]*Model{}, map[string]*Model{}
	f.windows.epochs = &epochs{places: map[eventlog.ID]uint32{}}
	f.usedKeys.epochs = f.windows.epochs
	f.open = compact.NewIndex(func(at uint32) uint64 { return f.batch(f.entries.At(at)).hash() })
	f.usedKeys.keys = compact.NewIndex(func(at uint32) uint64 { return hashKey(f.used.At(at).key) })
	policies.models, policies.shelf = models, on
	f.teacher.at, f.teacher.models, f.teacher.policies = at, models, policies
	f.Moves = Moves{at: at, models: models, windows: &f.windows, keys: &f.usedKeys, policies: policies, cluster: cluster,
		places: &places{}}
	f.events = events{at: at, models: models, windows: &f.windows, keys: &f.usedKeys, cluster: cluster,
		teacher: &f.teacher, past: p, ledger: ledger{at, models}, guards: guards{models}, places: f.Moves.places}
	f.trims = trims{at: at, models: models, cluster: cluster, needs: &f.events}
	f.imports = imports{at: at, models: models, policies: policies, cluster: cluster, moves: &f.Moves}
	f.acts = acts{at: at, models: models, policies: policies, teacher: &f.teacher, cluster: cluster, trims: &f.trims,
		imports: &f.imports, moves: &f.Moves, copies: copies{at, models, policies, &f.trims, p}}
	f.checks = checks{at, models, policies, cluster}
	return f
}

// Apply folds one entry. The outcomes are those of its records, in order. After an error the fold is
// of no use any more: it is neither before the entry nor after it.
func (f *Fold) Apply(d eventlog.Delivery) ([]Outcome, error) {
	if d.Seq != f.seq+1 {
		panic("fold: given an entry out of order")
	}
	f.seq = d.Seq
	if d.Repeat {
		return nil, nil
	}
	f.position.entry = entry{batchKey: batchKey{d.Epoch, d.No}, hash: d.Hash, time: d.Time, now: f.tick(d.Time)}
	f.imports.end()
	f.Moves.end()
	out := make([]Outcome, 0, d.Count)
	for i, r := range d.Events() {
		f.record = i
		o, err := recordTable[r.Kind()](f, r)
		if err != nil {
			return nil, fmt.Errorf("entry %d, record %d (%v): %w", d.Seq, i, r.Kind(), err)
		}
		out = append(out, o)
	}
	f.fit(f.batchKey)
	f.events.forget()
	return out, nil
}
