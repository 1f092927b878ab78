package serve

import (
	"context"

	"troupe/serve/decide"
	"troupe/serve/model"
)

// Service is what the edge needs. All methods may be called from many goroutines. Every error is an
// *[Error] or wraps one, except that of a context that ended before anything was sent.
//
// A decision is answered when it is durable; every other change when it is durable and applied, so a
// call that begins afterwards sees it. With code Unavailable and Unknown set it is not known
// whether it will be. Repeating the call is safe for Reward, Activate, Pause, Resume, Delete, and
// for Decide with an IdempotencyKey.
type Service interface {
	ModelService
	DecisionService
	EventService
	RecordService
	LogService
	NodeService
}

// ModelService makes, changes and reads models.
type ModelService interface {
	// CreateModel makes a model. Code Conflict when the name is taken. caller is the id of the API
	// key, kept in the log, here and below.
	CreateModel(ctx context.Context, config ModelConfig, caller string) (Model, error)
	// CreateModelFrom makes a model of this name with the configuration and the state of a saved one: what SaveModel or
	// troupe train made. The state goes into the log in pieces and the model is there with the last one; an import that
	// was interrupted leaves nothing behind.
	CreateModelFrom(ctx context.Context, name string, saved []byte, caller string) (Model, error)
	// SaveModel returns a model without its past: configuration, seed, statistics of features and the policy's state;
	// as it is now, or with a sequence as it was after that entry. Code Gone names the first possible sequence.
	SaveModel(ctx context.Context, name string, seq uint64) ([]byte, error)
	// GetModel returns a model by name, NotFound when there is none.
	GetModel(ctx context.Context, name string) (Model, error)
	// ListModels returns the models with names after a name in alphabetical order, at most limit
	// (1 to 1000; 0 means 100). more reports whether others follow: go on after the last.
	ListModels(ctx context.Context, after string, limit int) (models []Model, more bool, err error)
	// ConfigureModel replaces the configuration. version must be the model's present
	// ConfigVersion, otherwise Conflict (the edge's If-Match); 0 takes any. What shapes the state
	// (id, policy, features, dim, sigma) cannot change: Invalid. Actions, floor, reward, mode and
	// log_candidates can; they hold for decisions made afterwards.
	ConfigureModel(ctx context.Context, name string, version uint64, config ModelConfig, caller string) (Model, error)
	// DeleteModel removes a model; its name is free afterwards. Rewards of its decisions are
	// ignored.
	DeleteModel(ctx context.Context, name, caller string) error
	// PauseModel makes Decide answer Paused; rewards still count. ResumeModel ends it. Both are
	// idempotent.
	PauseModel(ctx context.Context, name, caller string) (Model, error)
	ResumeModel(ctx context.Context, name, caller string) (Model, error)
	// CloneModel makes a new model with the configuration of the source and its state after a
	// sequence number, or with another policy that learns from the source's log until there. Decisions of the source
	// stay the source's.
	CloneModel(ctx context.Context, r CloneRequest) (Model, error)
	// RollbackModel takes a model's learned state back to a sequence number. Which events have
	// had their reward is not taken back. Rewards that come later for decisions made until then
	// count; for decisions made after it they count with KeepLater, otherwise they are ignored.
	RollbackModel(ctx context.Context, r RollbackRequest) (Model, error)
	// State returns the sums behind a model.
	State(ctx context.Context, model string) (StateView, error)
}

// DecisionService decides and learns.
type DecisionService interface {
	// Decide chooses an action.
	Decide(ctx context.Context, model string, r DecideRequest) (Decision, error)
	// DecideBatch decides several requests on one state of the model, which has the largest MinSeq of all,
	// and returns when all are durable. One item's error does not concern the others. An
	// IdempotencyKey belongs to its item. At most Limits.Batch requests.
	DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideItem, error)
	// Reward pays for a decision.
	Reward(ctx context.Context, r RewardRequest) (RewardResult, error)
	// RewardBatch pays for many, with a status for each. At most Limits.Rewards requests.
	RewardBatch(ctx context.Context, rs []RewardRequest) ([]RewardItem, error)
	// Activate makes a deferred decision count. It is idempotent.
	Activate(ctx context.Context, eventID, caller string) (ActivateResult, error)
}

// EventService reads one decision.
type EventService interface {
	// Event returns what is recorded of a decision. It reads the log.
	Event(ctx context.Context, eventID string) (EventView, error)
	// Owner returns the model of an event and the slots of its list, from memory when it is not old.
	Owner(ctx context.Context, eventID string) (Owner, error)
	// Replay decides once more as the server did then and compares. It folds the log from the
	// nearest snapshot, which may take seconds.
	Replay(ctx context.Context, eventID string) (Replayed, error)
}

// RecordService reads what is recorded of a model.
type RecordService interface {
	// Log returns the records of a model in at most entries entries of the log, from sequence from on.
	Log(ctx context.Context, model string, from uint64, entries int) (LogPage, error)
	// Decisions returns the decisions of a model in at most entries entries of the log, from sequence from on, each
	// with what became of it until the end of the log.
	Decisions(ctx context.Context, model string, from uint64, entries int) (DecisionPage, error)
}

// LogService reads the log as it is stored.
type LogService interface {
	// Entries returns entries of the log as they are stored, up to what is applied here: for a copy of it.
	Entries(ctx context.Context, from uint64, bytes int) (Entries, error)
	// Following says that a backup of this name follows the log and has what is before entry from. What it does not
	// have is not trimmed for an hour, unless the log is nearly full.
	Following(name string, from uint64)
	// LogBase returns the state from which a log that was trimmed is folded, NotFound for one that is whole.
	LogBase(ctx context.Context) (LogBase, error)
}

// NodeService is about the server as a whole, and about a node of a cluster.
type NodeService interface {
	// CheckReplica reads the files of this node's replica; it may have to be called again until it is done. Conflict on
	// a single machine.
	CheckReplica(ctx context.Context) (ReplicaCheck, error)
	// Drain prepares a node of a cluster for its stop: another node leads, new calls are Unavailable, and calls under
	// way are answered when it returns. Needed while the node may not be stopped, Conflict on a single machine.
	Drain(ctx context.Context) error
	// RemoveNode takes a node that does not run off the list of the cluster's nodes, of which at least three stay.
	// Conflict where what is left would be no majority, or the node is live, and on a single machine. Changing while
	// nodes that were added have no replica.
	RemoveNode(ctx context.Context, name string) error
	// Health is for readyz, metrics and the status page. It never waits for the disk.
	Health() Health
}

// What decisions take and answer: see package decide.
type (
	DecideRequest = decide.Request
	Decision      = decide.Decision
	Would         = decide.Would
	Density       = decide.Density
	DecideItem    = decide.Item
	Slot          = decide.Slot
	ListEntry     = decide.ListEntry
)

// RewardRequest pays for a decision.
type RewardRequest struct {
	EventID string
	Value   float64 // within the model's range, otherwise Invalid
	// Cost is what the decision cost, in units of money, where it is known now; nil otherwise. Of several the rule of
	// the rewards makes one. OnlyCost: there is no reward in this call, and Value is not read.
	Cost     *float64
	OnlyCost bool
	// Key makes repetitions harmless under the rule sum, which otherwise counts every call. At most
	// 256 bytes. The rule first needs none.
	Key    string
	Caller string
	// Allow, if any, is asked with the name of the event's model, also of a deleted model, empty when it is
	// not known any more. Its error refuses the reward and is returned as it is.
	Allow func(model string) error

	// Of a list whose positions have rewards: which one Value is for, by position, by the name of the slot or of the action;
	// or Values, one for each position. Shown, with a value or alone of a list, says how many positions were on the screen: the
	// others teach nothing and get no default. Lists whose model has one reward for all of it take Value alone.
	Position     *int
	Slot, Action string
	Values       []float64
	Shown        *int

	// Rewards are, of a model whose rewards have names, the values by name, in place of Value: one or more of them. Each name
	// is folded by the model's rule.
	Rewards map[string]float64
}

// PositionResult is the effect of the reward of one position of a list.
type PositionResult struct {
	Position int          `json:"position" doc:"from 0"`
	Status   RewardStatus `json:"status" doc:"as of one reward; ignored too where the position was not shown"`
}

// RewardStatus is the effect of a reward.
type RewardStatus string

const (
	Accepted  RewardStatus = "accepted"  // it counts
	Duplicate RewardStatus = "duplicate" // the event has its reward (rule first), or this Key was seen
	Late      RewardStatus = "late"      // the window was closed before; recorded, does not count
	Ignored   RewardStatus = "ignored"   // recorded, does not count: frozen, shadow, deleted or rolled back
)

// RewardResult answers a RewardRequest.
type RewardResult struct {
	Status RewardStatus `json:"status" doc:"accepted, duplicate (the event has its reward), late (the window is closed) or ignored (recorded, does not count)"`
	// Seq is the log entry of the reward. For a duplicate that was recognised before it was written
	// it is the sequence of the state that knew.
	Seq uint64 `json:"seq" doc:"log entry of the reward; for a duplicate the entry that the state had reached"`
	// Positions are there where a call rewards several of a list.
	Positions []PositionResult `json:"positions,omitempty" doc:"of values: what came of each position"`
}

// RewardItem is one answer of RewardBatch.
type RewardItem struct {
	Result RewardResult
	Err    error
}

// ActivateResult answers Activate.
type ActivateResult struct {
	// Status is accepted, duplicate (it was active), or late.
	Status RewardStatus `json:"status" doc:"accepted, duplicate (it was active already) or late"`
	Seq    uint64       `json:"seq" doc:"log entry of the activation"`
}

// CloneRequest asks for a copy of a model.
type CloneRequest struct {
	From  string // name of the source
	Name  string // of the copy; Conflict when taken
	AtSeq uint64 // state after this sequence; 0 means now
	// Change is what the copy has otherwise, nil for nothing. The copy then learns from all events that the source
	// has learned from until AtSeq, which takes as long as a restart without a snapshot and needs a log that was not
	// trimmed (Gone). The copy is made also when ctx ends before it is there.
	Change *ModelChange
	Caller string
}

// ModelChange is another policy for a copy of a model.
type ModelChange = model.Change

// RollbackRequest asks for an earlier state.
type RollbackRequest struct {
	Name      string
	ToSeq     uint64 // state after this sequence, not before the model's beginning
	KeepLater bool
	Caller    string
}
