package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"troupe/eventlog"
	"troupe/feature"
)

// Service is what the edge needs. All methods may be called from many goroutines. Every error is an
// *[Error] or wraps one, except that of a context that ended before anything was sent.
//
// A decision is answered when it is durable; every other change when it is durable and applied, so a
// call that begins afterwards sees it. An error with code Unavailable and Unknown set says that nobody knows
// whether it will be: repeating the call is safe for Reward, Activate, Pause, Resume, Delete, and
// for Decide with an IdempotencyKey.
type Service interface {
	// CreateModel makes a model. Code Conflict when the name is taken. caller is the id of the API
	// key, kept in the log, here and below.
	CreateModel(ctx context.Context, config ModelConfig, caller string) (Model, error)
	// GetModel returns a model by name, NotFound when there is none.
	GetModel(ctx context.Context, name string) (Model, error)
	// ListModels returns the models with names after a name in alphabetical order, at most limit
	// (1 to 1000; 0 means 100). more says that there are others behind them: go on after the last.
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
	// sequence number. Decisions of the source stay the source's.
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
	// Owner says whose decision an event is, from memory when it is not old.
	Owner(ctx context.Context, eventID string) (Owner, error)
	// Replay decides once more as the server did then and compares. It folds the log from the
	// nearest snapshot, which may take seconds.
	Replay(ctx context.Context, eventID string) (Replayed, error)
	// State returns the sums behind a model.
	State(ctx context.Context, model string) (StateView, error)
	// Log returns what at most entries entries of the log, from sequence from on, say about a model.
	Log(ctx context.Context, model string, from uint64, entries int) (LogPage, error)

	// Health is for readyz, metrics and the status page. It never waits for the disk.
	Health() Health
}

// Code says what kind of error it is; the edge maps codes to status numbers, given here.
type Code string

const (
	NotFound    Code = "not_found"    // 404: no such model; no such event although the id is ours
	BadEventID  Code = "bad_event_id" // 400: not an id that this server made
	Invalid     Code = "invalid"      // 422: Field, Value and Want say what
	TooLarge    Code = "too_large"    // 413: the candidates do not fit into a record of the log
	Conflict    Code = "conflict"     // 409: name taken, version changed, idempotency key used for another request
	Paused      Code = "paused"       // 409: the model is paused
	Gone        Code = "gone"         // 410: the decision is no longer in the log
	TooBusy     Code = "too_busy"     // 429: RetryAfter
	Unavailable Code = "unavailable"  // 503: RetryAfter
	Full        Code = "full"         // 507: the log is full; RetryAfter
	Internal    Code = "internal"     // 500: an invariant broke; look at the server's log
)

// Error is every error of a Service.
type Error struct {
	Code Code
	// Field is the path of the request's field that is wrong, for instance actions[3].features.price
	// or config.reward.min; empty when it is none in particular.
	Field string
	// Value is what was found, shortened. It may repeat what users sent: show it to the operator of
	// a model (configurations), never in logs and answers about decisions. Error leaves it out.
	Value string
	// Want is what was expected, or what happened, in words that may be shown.
	Want string
	// RetryAfter is when to try again, 0 when there is nothing to wait for.
	RetryAfter time.Duration
	// Unknown: the record may or may not be in the log.
	Unknown bool
	// Err is the cause, for the server's own log.
	Err error
}

func (e *Error) Error() string {
	if e.Field == "" {
		return string(e.Code) + ": " + e.Want
	}
	return string(e.Code) + ": " + e.Field + ": " + e.Want
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of an error of a Service, Internal for an error that has none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

func errorf(code Code, format string, a ...any) *Error {
	return &Error{Code: code, Want: fmt.Sprintf(format, a...)}
}

func invalid(field string, value any, format string, a ...any) *Error {
	v := fmt.Sprint(value)
	if len(v) > 80 {
		v = v[:80] + "…"
	}
	return &Error{Code: Invalid, Field: field, Value: v, Want: fmt.Sprintf(format, a...)}
}

// Mode says who chooses and whether the model learns.
type Mode string

const (
	Online     Mode = "online"     // the policy chooses, the model learns
	Apprentice Mode = "apprentice" // the caller's baseline is played, the model learns from it
	Shadow     Mode = "shadow"     // the caller's baseline is played, the model does not learn
	Frozen     Mode = "frozen"     // the policy chooses, the model does not learn
)

// Action is one candidate of a decision, or one entry of a model's catalogue.
type Action struct {
	// ID is stable and at most 256 bytes; no two candidates share one. Empty means the candidate's
	// place in the list, in decimal digits.
	ID string `json:"id,omitempty"`
	// Features is a JSON value in the forms of package feature: an object, a list of objects, a list
	// of numbers, packed numbers. Empty means those of the catalogue entry with this id; a model
	// without such an entry then reads an action without features.
	Features json.RawMessage `json:"features,omitempty"`
}

// DecideRequest asks for an action. The candidates are Actions, or the rows of Packed, or, when both
// are empty, the whole catalogue in its order.
type DecideRequest struct {
	Context json.RawMessage // a JSON value, may be empty
	Actions []Action
	// Packed is a JSON object of packed numbers with one row for each candidate, see
	// feature.Unpack, for models whose action is one vector. IDs, if any, has an id for each row.
	Packed json.RawMessage
	IDs    []string
	// Available, if any, has a truth value for each candidate; Exclude lists ids. What is not
	// available or is excluded is not a candidate. At least one must remain.
	Available []bool
	Exclude   []string
	// Baseline is the caller's own choice, an index into the candidates as they were given; nil
	// means 0. Only the modes Apprentice and Shadow look at it.
	Baseline *int
	// Mode overrides the model's when not empty.
	Mode Mode
	// Deferred: the event counts only after Activate, or after its first reward.
	Deferred bool
	// MinSeq: decide on a state that has at least this sequence. The server waits for it for a
	// moment, then answers Unavailable.
	MinSeq uint64
	// IdempotencyKey, at most 256 bytes: a repetition of the same request with the same key gets
	// the same decision, also after a restart; the same key with another request is a Conflict. A
	// key is remembered as long as the window of its event is open and for 24 hours after it was
	// closed, by the clock of the log; when more than 1,048,576 keys of the server wait for the end
	// of these 24 hours, the oldest of them is forgotten early. A forgotten key makes a new decision.
	IdempotencyKey string
	// Explain asks for Decision.Explain.
	Explain bool
	// Slot names the place that the action is for, at most 256 bytes, when one of the caller's requests
	// chooses for several. It is recorded and changes nothing.
	Slot   string
	Caller string
}

// Chosen is an action of a decision.
type Chosen struct {
	ID    string `json:"id"`
	Index int    `json:"index"` // among the candidates as they were given
}

// Fraction is a probability as a quotient of integers, exact, not reduced.
type Fraction struct {
	Num uint64 `json:"num"`
	Den uint64 `json:"den"`
}

// Float returns the quotient.
func (f Fraction) Float() float64 { return float64(f.Num) / float64(f.Den) }

// Decision answers a DecideRequest.
type Decision struct {
	EventID    string   `json:"event_id"`
	Action     Chosen   `json:"action"`
	Propensity Fraction `json:"propensity"` // of the action that is played; 1 for a baseline
	Mode       Mode     `json:"mode"`
	Seq        uint64   `json:"seq"`       // of the log entry that holds the decision
	BasisSeq   uint64   `json:"basis_seq"` // of the state that decided
	Durable    bool     `json:"durable"`   // always true here
	// Repeated: an earlier call with the same idempotency key made this decision.
	Repeated bool `json:"repeated,omitempty"`
	// Would is what the policy would have played, in modes Apprentice and Shadow.
	Would *Would `json:"would,omitempty"`
	// Explain has one entry for each available candidate, when asked for. Repeated decisions have
	// none.
	Explain []Explained `json:"explain,omitempty"`
}

// Would is a choice of the policy that was not played.
type Would struct {
	Action     string   `json:"action"`
	Propensity Fraction `json:"propensity"`
}

// Explained is one candidate in the eyes of the policy.
type Explained struct {
	Chosen
	Propensity Fraction `json:"propensity"` // under the floor
	// Votes is how many of the policy's Voters models prefer it, where the policy counts.
	Votes  uint64 `json:"votes"`
	Voters uint64 `json:"voters,omitempty"`
	// Score is the estimated reward ⟨x, θ̂⟩, where the policy has one.
	Score *float64 `json:"score,omitempty"`
}

// DecideItem is one answer of DecideBatch: a decision or an error.
type DecideItem struct {
	Decision Decision
	Err      error
}

// RewardRequest pays for a decision.
type RewardRequest struct {
	EventID string
	Value   float64 // within the model's range, otherwise Invalid
	// Key makes repetitions harmless under the rule sum, which otherwise counts every call. At most
	// 256 bytes. The rule first needs none.
	Key    string
	Caller string
}

// RewardStatus says what a reward did.
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
	From   string // name of the source
	Name   string // of the copy; Conflict when taken
	AtSeq  uint64 // state after this sequence; 0 means now
	Caller string
}

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
	ConfigVersion uint64   `json:"config_version"`
	Paused        bool     `json:"paused"`
	Dim           int      `json:"dim"` // 0 until the features are learned
	Warnings      []string `json:"warnings,omitempty"`
	Created       Stamp    `json:"created"`
	Changed       Stamp    `json:"changed"` // last control record
	Counts        Counts   `json:"counts"`
	// Failed says why the model cannot go on: a numerical failure of its policy. Empty when all is
	// well.
	Failed string `json:"failed,omitempty"`
}

// Stamp is a place in the log and what the clock said there.
type Stamp struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// Counts are facts of the log: they survive restarts. A rollback keeps them.
type Counts struct {
	Decisions  uint64    `json:"decisions"`
	Rewards    uint64    `json:"rewards"` // accepted
	Duplicates uint64    `json:"duplicates"`
	Late       uint64    `json:"late"`
	Ignored    uint64    `json:"ignored"`
	Expired    uint64    `json:"expired"`   // windows that closed without a reward
	Defaulted  uint64    `json:"defaulted"` // of these, with the default reward
	Learned    uint64    `json:"learned"`   // updates of the policy
	Open       uint64    `json:"open"`      // events whose window is open
	RewardSum  float64   `json:"reward_sum"`
	Last       time.Time `json:"last,omitzero"` // time of the last decision
}

// Owner is whose decision an event is.
type Owner struct {
	Model string // name, also of a deleted model; empty when nobody knows it any more
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
	// Theta is θ̂ and LogDet is log det V/λ^d, where the policy is a ridge regression.
	Theta  []float64 `json:"theta,omitempty"`
	LogDet float64   `json:"log_det,omitempty"`
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
	// Epoch is the writer's name in this run.
	Epoch     eventlog.ID             `json:"epoch"`
	Committer eventlog.CommitterStats `json:"committer"`
	Snapshot  uint64                  `json:"snapshot"` // sequence of the newest one, 0 for none
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
}

// Recovery says how the state was found at the start.
type Recovery struct {
	Snapshot uint64        `json:"snapshot"` // it began with, 0 for none
	Batches  uint64        `json:"batches"`  // folded after it
	Events   uint64        `json:"events"`
	Skipped  []string      `json:"skipped,omitempty"` // snapshots that could not be used, and why
	Took     time.Duration `json:"took"`
}

// The most that Limits.Feature may allow.
const (
	MaxActions = 100_000
	MaxBytes   = 64 << 20
)

// Limits bound what a request may ask for. Zero fields stand for the defaults.
type Limits struct {
	Feature  feature.Limits // of a request: Actions, at most MaxActions, and Bytes, at most MaxBytes; the others are fixed
	Models   int            // 10,000
	Members  int            // m of an ensemble: 1,000
	Batch    int            // requests in a DecideBatch: 256
	Rewards  int            // requests in a RewardBatch: 10,000
	InFlight int            // calls at once: 8,192; more are TooBusy
	Open     int            // open events: 4,000,000; more decisions are TooBusy
}

// Options configure Open. The zero value needs Dir or Log.
type Options struct {
	// Dir is the data directory: the log in it, snapshots and the keys of event ids. It is made if
	// need be.
	Dir string
	// Log is used instead of a JetStream log in Dir; Close does not close it. Without Dir nothing
	// is kept but what is in Log, there are no snapshots, and Keys is needed.
	Log eventlog.Log
	// JetStream configures the log in Dir. Shards is always 1.
	JetStream eventlog.JetStreamOptions
	// Keys sign event ids. Empty means the file keys.json in Dir, made at the first start.
	Keys eventlog.IDKeys
	// Committer configures group commit; Shard, Head and Now are set by Open.
	Committer eventlog.CommitterOptions
	Limits    Limits
	// SnapshotEvery is how many records lie between two snapshots, default 200,000, and
	// SnapshotAfter how much time, default 1 minute. Negative: only at Close.
	SnapshotEvery int
	SnapshotAfter time.Duration
	// Keep is how long entries stay in the log, by the times that they bear, and KeepBytes how many bytes
	// of entries stay; 0 sets no limit, and with two the stricter holds. What is needed stays longer, see
	// Server.Trim. TrimEvery is how often the server looks, default 10 minutes; negative: only on Trim.
	Keep      time.Duration
	KeepBytes int64
	TrimEvery time.Duration
	// ExpireEvery is how often the server looks for windows to close, default 200 ms. Negative:
	// only when Expire is called.
	ExpireEvery time.Duration
	// Wait bounds how long a call waits for its own record to be applied, and for MinSeq; default
	// 5 s.
	Wait time.Duration
	// Now is the clock, time.Now when nil. It dates records and decides when a window ends, by
	// writing a record; it has no other say in the state.
	Now func() time.Time
	// Logger gets what the operator should know; never features, never secrets. nil for nothing.
	Logger *slog.Logger
}

var modes = map[Mode]eventlog.Mode{
	Online: eventlog.Online, Apprentice: eventlog.Apprentice, Shadow: eventlog.Shadow, Frozen: eventlog.Frozen,
}

// checkID refuses an id from outside that is too long or not UTF-8.
func checkID(field, id string) error {
	if len(id) > maxText || !utf8.ValidString(id) {
		return invalid(field, fmt.Sprintf("%d bytes", len(id)), "expected UTF-8 of at most %d bytes", maxText)
	}
	return nil
}
