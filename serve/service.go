package serve

import (
	"context"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fold"
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

	// Decide chooses an action.
	Decide(ctx context.Context, model string, r DecideRequest) (Decision, error)
	// DecideBatch decides several requests on one state of the model (except for items with MinSeq)
	// and returns when all are durable. One item's error does not concern the others. An
	// IdempotencyKey belongs to its item. At most Limits.Batch requests.
	DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideItem, error)
	// Reward pays for a decision.
	Reward(ctx context.Context, r RewardRequest) (RewardResult, error)
	// RewardBatch pays for many, with a status for each. At most Limits.Rewards requests.
	RewardBatch(ctx context.Context, rs []RewardRequest) ([]RewardItem, error)
	// Activate makes a deferred decision count. It is idempotent.
	Activate(ctx context.Context, eventID, caller string) (ActivateResult, error)

	// Event returns what is recorded of a decision. It reads the log.
	Event(ctx context.Context, eventID string) (EventView, error)
	// Owner returns the model and the slot of an event, from memory when it is not old.
	Owner(ctx context.Context, eventID string) (Owner, error)
	// Replay decides once more as the server did then and compares. It folds the log from the
	// nearest snapshot, which may take seconds.
	Replay(ctx context.Context, eventID string) (Replayed, error)
	// State returns the sums behind a model.
	State(ctx context.Context, model string) (StateView, error)
	// Log returns the records of a model in at most entries entries of the log, from sequence from on.
	Log(ctx context.Context, model string, from uint64, entries int) (LogPage, error)
	// Decisions returns the decisions of a model in at most entries entries of the log, from sequence from on, each
	// with what became of it until the end of the log.
	Decisions(ctx context.Context, model string, from uint64, entries int) (DecisionPage, error)

	// Entries returns entries of the log as they are stored, up to what is applied here: for a copy of it.
	Entries(ctx context.Context, from uint64, bytes int) (Entries, error)
	// LogBase returns the state from which a log that was trimmed is folded, NotFound for one that is whole.
	LogBase(ctx context.Context) (LogBase, error)

	// CheckReplica reads the files of this node's replica; it may have to be called again until it is done. Conflict on
	// a single machine.
	CheckReplica(ctx context.Context) (ReplicaCheck, error)
	// Drain prepares a node of a cluster for its stop: another node leads, new calls are Unavailable, and calls under
	// way are answered when it returns. Conflict on a single machine.
	Drain(ctx context.Context) error
	// Health is for readyz, metrics and the status page. It never waits for the disk.
	Health() Health
}

// The configuration of a model, its values and its modes: see package model.
type (
	ModelConfig  = model.Config
	RewardConfig = model.Reward
	PolicySpec   = model.PolicySpec
	FeatureSpec  = model.FeatureSpec
	Entry        = model.Entry
	Prior        = model.Prior
	Duration     = model.Duration
	Maybe        = model.Maybe
	Mode         = model.Mode
	Rule         = model.Rule
)

// The modes of a model; see model.Mode.
const (
	Online     = model.Online
	Apprentice = model.Apprentice
	Shadow     = model.Shadow
	Frozen     = model.Frozen
)

// DefaultConfig returns the configuration of a model of which only the name is given.
func DefaultConfig(id string) ModelConfig { return model.Default(id) }

// DecodeModel reads a configuration from a decoded TOML or JSON table found at path.
func DecodeModel(v any, path string) (ModelConfig, error) { return model.Decode(v, path) }

// What a decision consists of: see package choose. Stamp and Counts are in package fold.
type (
	Action    = choose.Action
	Chosen    = choose.Chosen
	Fraction  = choose.Fraction
	Explained = choose.Explained
	Stamp     = fold.Stamp
	Counts    = fold.Counts
)

// What decisions take and answer: see package decide.
type (
	DecideRequest = decide.Request
	Decision      = decide.Decision
	Would         = decide.Would
	DecideItem    = decide.Item
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
	Status RewardStatus `json:"status"`
	// Seq is the log entry of the reward. For a duplicate that was recognised before it was written
	// it is the sequence of the state that knew.
	Seq uint64 `json:"seq"`
}

// RewardItem is one answer of RewardBatch.
type RewardItem struct {
	Result RewardResult
	Err    error
}

// ActivateResult answers Activate.
type ActivateResult struct {
	// Status is accepted, duplicate (it was active), or late.
	Status RewardStatus `json:"status"`
	Seq    uint64       `json:"seq"`
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

// ModelSize is about how many bytes of memory a model takes.
type ModelSize = fold.Size

// RollbackRequest asks for an earlier state.
type RollbackRequest struct {
	Name      string
	ToSeq     uint64 // state after this sequence, not before the model's beginning
	KeepLater bool
	Caller    string
}

// Model is a model as its owner sees it.
type Model struct {
	Name        string      `json:"name"`
	Incarnation eventlog.ID `json:"incarnation"`
	Config      ModelConfig `json:"config"`
	// ConfigVersion counts configurations from 1: the ETag.
	ConfigVersion uint64 `json:"config_version"`
	Paused        bool   `json:"paused"`
	Dim           int    `json:"dim"` // 0 until the features are learned
	// Kind is that of the features: hashed (any request is read), schema, vector (dim), or learn (a model of an
	// earlier version whose schema the first request will give).
	Kind string `json:"kind"`
	// Warnings say what the model ignores, cannot tell apart, or has assumed, and what to do.
	Warnings []string `json:"warnings,omitempty"`
	// Notes counts decisions by what encoding met: ignored, clamped, alike, type, unstored.
	Notes map[string]uint64 `json:"notes,omitempty"`
	// Range is the range of rewards in force.
	Range Range `json:"range"`
	// Budget is what a model with a budget has spent, absent for others.
	Budget *BudgetView `json:"budget,omitempty"`
	// Missing is what an event without a reward counts, absent when it teaches nothing.
	Missing *Missing `json:"missing,omitempty"`
	// Numbers are the number features whose scale is known, of hashed features.
	Numbers []Number `json:"numbers,omitempty"`
	// Learners are the models that learn side by side in the policy hashed; those with a weight play.
	Learners []LearnerView `json:"learners,omitempty"`
	// Noticed is the last change of the rewards that the policy noticed, absent without one.
	Noticed *NoticedView `json:"noticed,omitempty"`
	// Weights are those of hashed features whose names are known from the requests since the server started: common
	// values, and actions that were chosen. Absent for other features, and where several models are listed.
	Weights *WeightsView `json:"weights,omitempty"`
	// Seen is what the requests had of each feature since the server started, absent before the first one.
	Seen *SeenView `json:"seen,omitempty"`
	// Requests are some of the newest that this process decided since its start, the oldest first.
	Requests []RequestView `json:"-"`
	// Learning is how far a model is that learns a schema from requests (features.learn), absent for others.
	Learning *LearningView `json:"learning,omitempty"`
	// Memory is about how many bytes the model takes.
	Memory  ModelSize `json:"memory"`
	Created Stamp     `json:"created"`
	Changed Stamp     `json:"changed"` // last control record
	Counts  Counts    `json:"counts"`
	// Failed is why the model cannot go on: a numerical failure of its policy. Empty when all is
	// well.
	Failed string `json:"failed,omitempty"`
}

// NoticedView is a change of the rewards that a policy noticed by itself.
type NoticedView struct {
	At        uint64  `json:"at"`        // learned events before the rewards changed, about
	Seen      uint64  `json:"seen"`      // learned events when it was certain enough to be stated
	Posterior float64 `json:"posterior"` // of a change since the one stated before
	// Before and After are the mean rewards before and since, both 0 where the policy does not know them.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Range is the range of rewards of a model.
type Range struct {
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
	Declared bool    `json:"declared"` // rewards outside are refused; otherwise they widen it
	// ChangedSeq is the entry of the reward that widened it last, 0 when none did.
	ChangedSeq uint64 `json:"changed_seq,omitempty"`
}

// BudgetView is the state of a model's budget after the newest entry.
type BudgetView struct {
	Price     float64 `json:"price" doc:"what a unit of money costs, in units of reward: an action is played for the largest reward − price × cost"`
	Granted   float64 `json:"granted" doc:"money for the decisions so far; of a budget for a day, for this day"`
	Spent     float64 `json:"spent" doc:"of it"`
	Reserved  float64 `json:"reserved" doc:"for decisions whose cost is not known yet"`
	Left      float64 `json:"left" doc:"the largest cost that a decision may play now"`
	Decisions uint64  `json:"decisions" doc:"under the budget"`
	Stopped   uint64  `json:"stopped" doc:"in which the hard stop took actions away"`
	Paid      float64 `json:"paid" doc:"of all time"`
}

// Missing is what an event without a reward counts.
type Missing struct {
	Value   float64 `json:"value"`
	Adopted bool    `json:"adopted"` // from the data, since entry Seq; otherwise it was declared
	Seq     uint64  `json:"seq,omitempty"`
}

// Number is the scale of a number feature: (t(x) − Mean)/Deviation, with t(x) = x, or for heavy tails
// asinh((x − Center)/Width).
type Number struct {
	Name       string   `json:"name"`
	Mean       float64  `json:"mean"`
	Deviation  float64  `json:"deviation"` // 0: all values were equal
	Center     *float64 `json:"center,omitempty"`
	Width      *float64 `json:"width,omitempty"`
	Generation uint32   `json:"generation"` // 1, and one more each time that it changed
}

// Owner is whose decision an event is.
type Owner struct {
	Model string // name, also of a deleted model; empty when it is not known any more
	Slot  string // as DecideRequest had it
}

// EventView is what is recorded of a decision.
type EventView struct {
	EventID     string            `json:"event_id"`
	Key         eventlog.Event    `json:"key"`
	Seq         uint64            `json:"seq"`
	Model       string            `json:"model"` // name; empty when deleted
	Incarnation eventlog.ID       `json:"incarnation"`
	Decision    eventlog.Decision `json:"decision"`
	Action      Chosen            `json:"action"`
	Time        time.Time         `json:"time"`
	Deadline    time.Time         `json:"deadline"`
	// Status: open, inactive (deferred and not activated), rewarded, or closed (the window is over).
	Status string `json:"status"`
	// Value is the reward so far, while the window is open and there is one.
	Value *float64 `json:"value,omitempty"`
	// Cost is what calls said so far that it cost, while the window is open. What the request stated is in Decision.
	Cost *float64 `json:"cost,omitempty"`
	// Request is what was sent, for some of the newest decisions that this process made since its start. It is not in
	// the log.
	Request *RequestView `json:"request,omitempty"`
}

// Replayed compares a decision with what the code chooses now from the same state, the same
// candidates and the same draw.
type Replayed struct {
	Key      eventlog.Event    `json:"key"`
	Seq      uint64            `json:"seq"`
	Recorded eventlog.Decision `json:"recorded"`
	// The same fields, computed anew.
	Digest   eventlog.ID `json:"digest"` // of the state at basis_seq
	Action   string      `json:"action"`
	Index    int         `json:"index"`
	Num      uint64      `json:"num"`
	Den      uint64      `json:"den"`
	Member   uint32      `json:"member"`
	Negative bool        `json:"negative"`
	Price    float64     `json:"price,omitempty"`   // of a budget
	Expects  float64     `json:"expects,omitempty"` // what the decision cost in expectation
	Stopped  bool        `json:"stopped,omitempty"` // the hard stop has taken actions away
	Equal    bool        `json:"equal"`
	Differs  []string    `json:"differs,omitempty"` // names of fields that are not equal
}

// StateView is the state of a model's policy.
type StateView struct {
	Name        string      `json:"name"`
	Incarnation eventlog.ID `json:"incarnation"`
	Seq         uint64      `json:"seq"`
	Digest      eventlog.ID `json:"digest"`
	Dim         int         `json:"dim"`
	Learned     uint64      `json:"learned"`
	// Theta is θ̂, where the policy has a linear estimate, and LogDet is log det V/λ^d, where that is a ridge
	// regression.
	Theta []float64 `json:"theta,omitempty"`
	// Spread is the standard deviation of the members around θ̂ at each coordinate.
	Spread []float64 `json:"spread,omitempty"`
	LogDet float64   `json:"log_det,omitempty"`
	// Learners are the models of the policy hashed, which has no Theta: Model.Weights has weights with names.
	Learners []LearnerView `json:"learners,omitempty"`
	// Coordinates names the entries of Theta.
	Coordinates []string `json:"coordinates,omitempty"`
	// Snapshot is the policy's own bytes (bandit.Snapshotter), with everything in it.
	Snapshot []byte `json:"-"`
}

// Health is how the server is.
type Health struct {
	// Ready: decisions and rewards are answered.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
	// Damage is where the log is not what was written; then the server is read-only.
	Damage string `json:"damage,omitempty"`
	// Applied is the last sequence that was folded, verified by the chain; Log is the last one that
	// this process wrote.
	Applied uint64 `json:"applied"`
	Log     uint64 `json:"log"`
	Lag     uint64 `json:"lag"`
	// LogBytes is how many bytes the log has, about, and LogLimit how many it may have; both as they were at most 15 s
	// ago.
	LogBytes uint64 `json:"log_bytes"`
	LogLimit uint64 `json:"log_limit"`
	// Epoch is the writer's name in this run.
	Epoch      eventlog.ID             `json:"epoch"`
	Committer  eventlog.CommitterStats `json:"committer"`
	Snapshot   uint64                  `json:"snapshot"`    // sequence of the newest one, 0 for none
	ModelBytes int64                   `json:"model_bytes"` // about how many bytes of memory the models take
	Awake      int                     `json:"awake"`       // models that are not laid aside
	// SnapshotError is why the last attempt failed, if it did.
	SnapshotError string    `json:"snapshot_error,omitempty"`
	Full          bool      `json:"full"` // the last append was refused for room
	Models        int       `json:"models"`
	Open          uint64    `json:"open"`     // events whose window is open, all models
	Keys          uint64    `json:"keys"`     // idempotency keys that are remembered
	InFlight      int64     `json:"inflight"` // calls
	Refused       uint64    `json:"refused"`  // calls answered TooBusy
	Forged        uint64    `json:"forged"`   // event ids that were not ours
	Missing       uint64    `json:"missing"`  // ids of ours whose decision is not in the log: an alarm
	Started       time.Time `json:"started"`
	Recovery      Recovery  `json:"recovery"`
	// Cluster is how this node sees the others, nil on a single machine.
	Cluster *ClusterHealth `json:"cluster,omitempty"`
}

// Recovery is how the state was found at the start.
type Recovery struct {
	Snapshot uint64        `json:"snapshot"` // it began with, 0 for none
	Batches  uint64        `json:"batches"`  // folded after it
	Events   uint64        `json:"events"`
	Skipped  []string      `json:"skipped,omitempty"` // snapshots that could not be used, and why
	Took     time.Duration `json:"took"`
	version  uint16        // the highest log version of the batches
}
