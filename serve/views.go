package serve

import (
	"iter"
	"time"

	"troupe/eventlog"
	"troupe/serve/decide"
	"troupe/serve/joined"
)

// This file has what a Service answers.

// Model is a model as its owner sees it.
type Model struct {
	Name        string      `json:"name" doc:"name of the model"`
	Incarnation eventlog.ID `json:"incarnation" doc:"id of this life of the model; a clone and a rollback begin a new one"`
	Config      ModelConfig `json:"config"`
	// ConfigVersion counts configurations from 1: the ETag.
	ConfigVersion uint64 `json:"config_version" doc:"number of the configuration, from 1; it is the ETag"`
	Paused        bool   `json:"paused" doc:"decisions are refused until the model is resumed"`
	Dim           int    `json:"dim" doc:"number of coordinates of the features, 0 for a model that reads requests"`
	// Kind is that of the features: requests (any request is read), schema or vector (dim).
	Kind string `json:"kind" doc:"requests (any request is read), schema, or vector (dim)"`
	// Warnings say what the model ignores, cannot tell apart, or has assumed, and what to do.
	Warnings []string `json:"warnings,omitempty" doc:"what the model ignores, cannot tell apart or has assumed, and what to do"`
	// Notes counts decisions by what encoding met: ignored, clamped, alike, type.
	Notes map[string]uint64 `json:"notes,omitempty" doc:"decisions by what encoding met: ignored, clamped, alike, type"`
	// Range is the range of rewards in force.
	Range Range `json:"range"`
	// Budget is what a model with a budget has spent, absent for others.
	Budget *BudgetView `json:"budget,omitempty"`
	// Guard is how far the policy of a guarded model is, absent for others.
	Guard *GuardView `json:"guard,omitempty"`
	// Missing is what an event without a reward counts, absent when it teaches nothing.
	Missing *Missing `json:"missing,omitempty"`
	// Explained is what a model that reads requests has found out, absent for others and before two rewards differ.
	Explained *ExplainedView `json:"explained,omitempty"`
	// Noticed is the last change of the rewards that the policy noticed, absent without one.
	Noticed *NoticedView `json:"noticed,omitempty"`
	// Weights are those of a model that reads requests whose names are known from the requests since the server started:
	// common values, and actions that were chosen. Absent with a schema, and where several models are listed.
	Weights *WeightsView `json:"weights,omitempty"`
	// Seen is what the requests had of each feature since the server started, absent before the first one.
	Seen *SeenView `json:"seen,omitempty"`
	// Requests are some of the newest that this process decided since its start, the oldest first.
	Requests []RequestView `json:"-"`
	// Foretell asks what the model expects now. Not part of the JSON.
	Foretell Foretelling `json:"-"`
	// Memory is about how many bytes the model takes.
	Memory  ModelSize `json:"memory"`
	Created Stamp     `json:"created"`
	Changed Stamp     `json:"changed"` // last control record
	Counts  Counts    `json:"counts"`
	// Untaken counts what the model could not take from the log as it is, nil when it took everything.
	Untaken *Untaken `json:"untaken,omitempty"`
	// Failed is why the newest try to decide failed: a numerical failure of the policy, and the call that mends it. Empty
	// when all is well.
	Failed string `json:"failed,omitempty" doc:"why the newest try to decide failed, and the call that mends it; absent when all is well"`
}

// NoticedView is a change of the rewards that a policy noticed by itself.
type NoticedView struct {
	At        uint64  `json:"at" doc:"learned events before the rewards changed, about"`
	Seen      uint64  `json:"seen" doc:"learned events when the change was certain enough to be stated"`
	Posterior float64 `json:"posterior" doc:"posterior probability of a change since the one stated before"`
	// Before and After are the mean rewards before and since, both 0 where the policy does not know them.
	Before float64 `json:"before" doc:"mean reward before the change"`
	After  float64 `json:"after" doc:"mean reward since the change"`
}

// Range is the range of rewards of a model.
type Range struct {
	Min      float64 `json:"min" doc:"smallest reward in force"`
	Max      float64 `json:"max" doc:"largest reward in force"`
	Declared bool    `json:"declared" doc:"rewards outside are refused; otherwise they widen the range"`
	// ChangedSeq is the entry of the reward that widened it last, 0 when none did.
	ChangedSeq uint64 `json:"changed_seq,omitempty" doc:"entry of the reward that widened the range last, 0 when none did"`
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

// GuardView is the state of a model's guard after the newest entry.
type GuardView struct {
	Plays     bool    `json:"plays" doc:"the next guarded decision plays the policy, and not the baseline"`
	Decisions uint64  `json:"decisions" doc:"guarded decisions"`
	Policy    uint64  `json:"policy" doc:"of these, decisions that played the policy"`
	Open      int     `json:"open" doc:"of these, decisions whose rewards are not in the bound; each counts the worst"`
	Lower     float64 `json:"lower" doc:"what the decisions have earned above their baselines in the mean, at least, in units of reward; it stays above −margin"`
}

// Missing is what an event without a reward counts.
type Missing struct {
	Value   float64 `json:"value" doc:"what an event without a reward counts"`
	Adopted bool    `json:"adopted" doc:"the value was learned from the data, otherwise it was declared"`
	Seq     uint64  `json:"seq,omitempty" doc:"entry since which it is in force, where it was learned"`
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
	Model string   // name, also of a deleted model; empty when it is not known any more
	Slots []string // of a list with slots, their names
}

// EventView is what is recorded of a decision.
type EventView struct {
	EventID     string             `json:"event_id" doc:"id of the event"`
	Key         eventlog.Event     `json:"key"`
	Seq         uint64             `json:"seq" doc:"log entry that holds the decision"`
	Model       string             `json:"model" doc:"name of the model; empty when it was deleted"`
	Incarnation eventlog.ID        `json:"incarnation" doc:"id of the life of the model that decided"`
	Decision    eventlog.Decision  `json:"decision"`
	Action      Chosen             `json:"action,omitzero" doc:"what was played; absent where numbers alone, or a list, were"`
	List        []decide.ListEntry `json:"list,omitempty" doc:"of a list: its entries, from the top"`
	Time        time.Time          `json:"time" doc:"time of the decision"`
	Deadline    time.Time          `json:"deadline" doc:"end of the window for rewards"`
	// Status: open, inactive (deferred and not activated), rewarded, or closed (the window is over).
	Status string `json:"status" doc:"open, inactive (deferred and not activated), rewarded, or closed (the window is over)"`
	// Value is the reward so far, while the window is open and there is one.
	Value *float64 `json:"value,omitempty" doc:"reward so far, while the window is open and there is one"`
	// Reward is, of a model whose rewards have names, what there is so far; Value is then the weighted sum.
	Reward map[string]float64 `json:"reward,omitempty" doc:"of a model with rewards, while the window is open: those that there are so far, by name; value is then the weighted sum"`
	// Positions are those of a list, while the window is open. Value is then the sum of the positions.
	Positions []PositionView `json:"positions,omitempty" doc:"of a list, while the window is open: its positions"`
	// Cost is what calls said so far that it cost, while the window is open. What the request stated is in Decision.
	Cost *float64 `json:"cost,omitempty" doc:"what calls said so far that it cost, while the window is open"`
	// Request is what was sent, for some of the newest decisions that this process made since its start. It is not in
	// the log.
	Request *RequestView `json:"request,omitempty"`
}

// PositionView is a position of a list whose window is open.
type PositionView struct {
	Position int      `json:"position" doc:"from 0"`
	Shown    bool     `json:"shown" doc:"false where a call said that it was not on the screen"`
	Value    *float64 `json:"value,omitempty" doc:"reward so far, where there is one"`
}

// Replayed compares a decision with what the code chooses now from the same state, the same
// candidates and the same draw.
type Replayed struct {
	Key      eventlog.Event    `json:"key"`
	Seq      uint64            `json:"seq" doc:"log entry of the decision"`
	Recorded eventlog.Decision `json:"recorded"`
	// The same fields, computed again.
	Digest   eventlog.ID `json:"digest" doc:"digest of the state at basis_seq, computed again"`
	Action   string      `json:"action" doc:"action, computed again"`
	Index    int         `json:"index" doc:"its place among the candidates, from 0"`
	Num      uint64      `json:"num" doc:"numerator of the propensity, computed again"`
	Den      uint64      `json:"den" doc:"denominator of the propensity, computed again"`
	Member   uint32      `json:"member" doc:"number of the model of the ensemble, computed again"`
	Negative bool        `json:"negative" doc:"sign of its perturbation, computed again"`
	Price    float64     `json:"price,omitempty" doc:"price of a unit of money, computed again"`
	Expects  float64     `json:"expects,omitempty" doc:"expected cost of the decision, computed again"`
	Stopped  bool        `json:"stopped,omitempty" doc:"whether the hard stop of the budget took actions away, computed again"`
	Equal    bool        `json:"equal" doc:"all of these are as they were recorded"`
	Differs  []string    `json:"differs,omitempty" doc:"names of the fields that are not"`
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
	// Explained is that of the model, which has no Theta where it reads requests: Model.Weights has weights with names.
	Explained *ExplainedView `json:"explained,omitempty"`
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
	SnapshotError string `json:"snapshot_error,omitempty"`
	Full          bool   `json:"full"` // the last append was refused for room
	Models        int    `json:"models"`
	// Failed are the models that cannot decide, see Model.Failed.
	Failed   []string `json:"failed_models,omitempty"`
	Open     uint64   `json:"open"`     // events whose window is open, all models
	Keys     uint64   `json:"keys"`     // idempotency keys that are remembered
	InFlight int64    `json:"inflight"` // calls
	// Followers are the backups that follow the log and have asked this server within a day.
	Followers []Follower `json:"followers,omitempty"`
	Refused   uint64     `json:"refused"`   // calls answered TooBusy
	Forged    uint64     `json:"forged"`    // event ids of another server, or changed
	Malformed uint64     `json:"malformed"` // texts sent as event ids that are none
	Missing   uint64     `json:"missing"`   // ids of ours whose decision is not in the log: an alarm
	Started   time.Time  `json:"started"`
	Recovery  Recovery   `json:"recovery"`
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

// ExplainedView is what a model that reads requests has found out: how much of what differs between its decisions goes
// back to each field.
type ExplainedView struct {
	// Share is how much of the variance of the rewards the model explains, 1 − σ²/s². The rest is chance, or not in the
	// requests.
	Share float64    `json:"share" doc:"part of the variance of the rewards that the model explains"`
	Parts []PartView `json:"parts" doc:"the largest 50 contributions, in descending order"`
	More  int        `json:"more,omitzero" doc:"how many contributions are not listed"`
	// Text says it in a sentence. It is empty before 100 rewards.
	Text string `json:"text,omitempty" doc:"the result in a sentence; empty before 100 rewards"`
	// Far are rewards that are far from all others: each counts as their mean until there is a second one like
	// it.
	Far []float64 `json:"far,omitempty" doc:"rewards far from all others: each counts as their mean until there is a second one like it"`
	// Positions are those of a model that plays lists with a reward for each position.
	Positions []ExaminedView `json:"positions,omitempty" doc:"of a model that plays lists: how much its positions are looked at"`
	// ItemsAtPositions is set with Positions.
	ItemsAtPositions *GateView `json:"items_at_positions,omitempty" doc:"of a model that plays lists: whether positions want actions of their own"`
}

// ExaminedView says how much positions are looked at, relative to the first one, as the model has learned it. Intervals are of the normal law at the
// estimate, at 95%. They begin with N(1, .1), so where a position is looked at several times as much as the first one they are too low.
type ExaminedView struct {
	From          int         `json:"from" doc:"position, from 0"`
	To            *int        `json:"to,omitempty" doc:"last of the positions that are learned together; absent: all from this one on"`
	Examination   float64     `json:"examination" doc:"how much it is looked at, relative to the first position; it begins near 1, and is too low where that is several times as much"`
	Interval      *[2]float64 `json:"interval,omitempty" doc:"95% interval of it; absent at the first position, which is the unit"`
	Rewards       float64     `json:"rewards" doc:"rewards there that were learned without one above; fewer where the model forgets"`
	Below         *float64    `json:"below,omitempty" doc:"how much it is looked at below a reward above 0; absent where none was learned"`
	BelowInterval *[2]float64 `json:"below_interval,omitempty" doc:"95% interval of it"`
	BelowRewards  float64     `json:"below_rewards,omitempty" doc:"rewards there that were learned below one"`
}

// GateView says whether an optional part of the model plays.
type GateView struct {
	Plays bool    `json:"plays" doc:"it plays; until there is evidence it does not"`
	Nats  float64 `json:"nats" doc:"log evidence for it, in nats: it begins to play at 3"`
}

// PartView is the share of an action itself, of a field, or of two fields together.
type PartView struct {
	// Name is that of the field, "action" for the actions themselves; two names with " with " between them for fields
	// that matter together; "field N" where the server has not seen the name since it started.
	Name  string  `json:"name" doc:"name of the field; action for the actions themselves; two names with \" with \" between them for fields that matter together"`
	Share float64 `json:"share" doc:"its part of all that the model has found"`
}

// FeatureView is what the requests of a model had of a feature, since the server started.
type FeatureView struct {
	Name string `json:"name" doc:"name of the feature"`
	// number, string or boolean, as it came first; absent for a feature of a schema that is no number
	Kind     string   `json:"kind,omitempty" doc:"number, string or boolean, as it came first; absent for a feature of a schema that is no number"`
	Requests uint64   `json:"requests" doc:"requests that had the feature"`
	Low      *float64 `json:"low,omitempty" doc:"smallest number"`
	High     *float64 `json:"high,omitempty" doc:"largest number"`
	Ignored  uint64   `json:"ignored,omitzero" doc:"requests in which it, or its level, was ignored"`
	Clamped  uint64   `json:"clamped,omitzero" doc:"requests in which its number was moved into the range of the schema"`
	Mistyped uint64   `json:"mistyped,omitzero" doc:"values of another type than the first one"`
	// Weight is the largest one of the feature, in its own standard deviations, of a model that reads requests; absent
	// while there is none.
	Weight *WeightView `json:"weight,omitempty"`
}

// SeenView is what the requests of a model had, since the server started.
type SeenView struct {
	Requests uint64        `json:"requests" doc:"requests since the server started"`
	Features []FeatureView `json:"features" doc:"the first 200 features, by name"`
	More     int           `json:"more,omitzero" doc:"how many features are not listed"`
}

// WeightView is what a model that reads requests has learned of an action, or a value of an action, alone or with a value
// of the context.
type WeightView struct {
	Name string `json:"name" doc:"value that has the weight, such as context.city=Oslo × id=sport"`
	// Features are those of the name, in its order: none or one of the context, then one of the action, or id.
	Features []string `json:"features" doc:"features of the name, in its order: none or one of the context, then one of the action, or id"`
	// Weight is what the value adds to the expected reward, and Spread its standard deviation.
	Weight float64 `json:"weight" doc:"what the value adds to the expected reward"`
	Spread float64 `json:"spread" doc:"standard deviation of the weight"`
}

// WeightsView lists weights of a model that reads requests.
type WeightsView struct {
	Rows []WeightView `json:"rows" doc:"the first 50, those first whose weight is most standard deviations away from 0"`
	More int          `json:"more,omitzero" doc:"how many weights are not listed"`
}

// RequestView is what a request had, as far as the server remembers it: the newest ones that this process decided since
// its start, of many no more than a hundred in a second.
type RequestView struct {
	EventID string `json:"event_id,omitempty" doc:"id of the event of the decision"`
	Context string `json:"context,omitempty" doc:"as it was sent"`
	Actions string `json:"actions" doc:"the candidates as they were sent"`
	Cut     bool   `json:"cut,omitempty" doc:"the texts are not whole: of a context 768 bytes are kept, of the candidates 1536"`
}

// ReplicaCheck is what a node found when it read the files of its replica.
type ReplicaCheck struct {
	// Done is false while the files are still being read: ask again.
	Done  bool   `json:"done" doc:"false while the files are still being read: ask again"`
	First uint64 `json:"first,omitempty" doc:"first entry of the files"`
	Last  uint64 `json:"last,omitempty" doc:"last entry of the files"`
	// Began is the newest entry that the node had applied when it began to read: the files of a whole replica have it.
	Began  uint64   `json:"began,omitempty" doc:"newest entry that the node had applied when it began to read"`
	Damage []string `json:"damage,omitempty" doc:"what is wrong with the files"`
}

// ClusterHealth is how a node sees its cluster.
type ClusterHealth struct {
	Node string `json:"node" doc:"name of this node"`
	// Contact is how many seconds ago the node reached a majority; beyond 5 it is not ready.
	Contact float64 `json:"contact_seconds" doc:"seconds since the node reached a majority; beyond 5 it is not ready"`
	// Clock is how many seconds this node's clock is ahead of the median.
	Clock float64     `json:"clock_seconds" doc:"how far the node's clock is ahead of the median of the cluster"`
	Keys  eventlog.ID `json:"keys" doc:"fingerprint of the keys of event ids"`
	// KeyNumbers are the keys of event ids that the node recognises, first the one that it makes them with.
	KeyNumbers []int        `json:"key_numbers" doc:"numbers of the keys of event ids that the node recognises, the one that it signs with first"`
	Nodes      []NodeHealth `json:"nodes" doc:"all nodes of the log, as this one knows them"`
	// CertificateEnds is until when the certificate that the node shows the others is valid.
	CertificateEnds *time.Time `json:"certificate_ends,omitempty" doc:"end of the validity of the certificate that the node shows to the others"`
	// Replicas are the servers that have the log, as its leader saw them last; none when nothing is known.
	Replicas []eventlog.Replica `json:"replicas,omitempty" doc:"servers that have the log, as its leader saw them last"`
	Void     uint64             `json:"void" doc:"batches of this node that were stored too late to count"`
	// Unwritten counts the entries of the log that have no effect because no node has written them; UnwrittenEntry is
	// the newest of them, 0 for none. They are the same at every node. Anything but 0 is an alarm.
	Unwritten      uint64 `json:"unwritten_entries" doc:"entries of the log that none of the nodes wrote; they have no effect, and any is an alarm"`
	UnwrittenEntry uint64 `json:"unwritten_entry,omitempty" doc:"the newest of them"`
	// Declared counts the entries that an operator has declared void, because no node could read them.
	Declared uint64 `json:"declared_void,omitempty" doc:"entries that an operator has declared void because no node could read them"`
	// Digest says how the models of this node compare with those of the others: "agrees" with a majority; "differs"
	// from one, then the node has stopped; "doubt" while they differ and no majority agrees; empty before the first
	// comparison.
	Digest string `json:"digest,omitempty" doc:"how the models of this node compare with those of the others: agrees with a majority, differs from one, doubt without one; empty before the first comparison"`
	// Base is the entry whose state takes the place of what was trimmed, or is to be, 0 for none; Trim says what the
	// removal of the entries before it waits for, empty when nothing is to be removed.
	Base uint64 `json:"base,omitempty" doc:"entry whose state replaces what was trimmed before it"`
	Trim string `json:"trim,omitempty" doc:"what the removal of trimmed entries waits for"`
	// LogVersion is the version in which the node writes. It rises when every node can read a higher one
	// (NodeHealth.Readable).
	LogVersion uint16 `json:"log_version" doc:"version of the records that the node writes"`
	// Damage says what is wrong with the files of this node's replica, as far as they were read: what they do not give
	// comes from the others, and the node lets another one lead. Empty when nothing is known.
	Damage string `json:"replica_damage,omitempty" doc:"what is wrong with the files of this node's replica"`
	// Unrepaired says why the damaged files are not made anew from the other nodes yet; the node tries again.
	Unrepaired string `json:"replica_unrepaired,omitempty" doc:"why the damaged files are not repaired yet"`
	// Repairs counts how often the files were repaired from the other nodes, over all starts; Repaired is when that
	// was last.
	Repairs  uint64     `json:"replica_repairs" doc:"how often the files were repaired from the other nodes, over all starts"`
	Repaired *time.Time `json:"replica_repaired,omitempty" doc:"when that was last"`
	// Verified is when all files of the replica were read last and were whole, up to VerifiedEntry.
	Verified      *time.Time `json:"replica_verified,omitempty" doc:"when all files of the replica were read last and were whole"`
	VerifiedEntry uint64     `json:"replica_verified_entry,omitempty" doc:"up to which entry"`
	// Elections is how often another node led the log than before, since this one started.
	Elections uint64 `json:"elections" doc:"how often another node led the log than before, since this one started"`
	// Change says what a change of the nodes waits for, at the node that brings it to its end; empty for nothing.
	Change string `json:"change,omitempty" doc:"what a change of the nodes waits for, at the node that completes it"`
	// Settled: this node has brought the servers of the log to its list of nodes, and each has a replica that is
	// current. One of the nodes says so when a change is at its end.
	Settled bool `json:"settled,omitempty" doc:"the servers of the log are those of the list of nodes, and each has a current replica"`
	Drained bool `json:"drained,omitempty" doc:"the node takes no new calls and may be stopped"`
	// Attested is what the servers of the log are trusted by, where they belong to others; nil where they are the
	// nodes.
	Attested *Attested `json:"attested,omitempty"`
}

// Attested says whether the servers of the log are known to keep what they acknowledge.
type Attested struct {
	// By is AttestedByServers when they report themselves, otherwise the name of who vouches for them.
	By string `json:"by" doc:"log_servers where the NATS servers report it themselves, otherwise the name of the person or team that vouches for them"`
	Is bool   `json:"is" doc:"whether the servers are known to keep what they acknowledge"`
}

// AttestedByServers is Attested.By of servers that report themselves.
const AttestedByServers = "servers"

// Names returns the names of the nodes, in the order of the log.
func (c *ClusterHealth) Names() []string {
	var names []string
	for _, n := range c.Nodes {
		names = append(names, n.Name)
	}
	return names
}

// NodeHealth is a node as its checkpoints say.
type NodeHealth struct {
	Name string `json:"name" doc:"name of the node"`
	Live bool   `json:"live" doc:"it has written a checkpoint lately"`
	// Heard is how many seconds ago its newest checkpoint was applied here, -1 when none was.
	Heard    float64 `json:"heard_seconds" doc:"seconds since its newest checkpoint was applied here, -1 when none was"`
	Applied  uint64  `json:"applied" doc:"last entry that it had applied"`
	Readable uint32  `json:"readable" doc:"highest version of records that it reads"`
	Base     uint64  `json:"base,omitempty" doc:"entry of the newest base that it has"`
	Differs  bool    `json:"differs" doc:"the digest of its models was another one than here when they were compared last"`
	// Lag is how many entries it had not applied when it wrote its newest checkpoint.
	Lag uint64 `json:"lag" doc:"entries that it had not applied when it wrote its newest checkpoint"`
	// Clock is how many seconds its clock was ahead of this node's when its newest checkpoint came.
	Clock float64 `json:"clock_seconds" doc:"how far its clock was ahead of this node's when that came"`
}

// Entries is a piece of the log as it is stored.
type Entries struct {
	First   uint64 // the oldest entry of the log
	Applied uint64 // the newest one that this server has applied
	Entries []eventlog.Entry
}

// LogBase is the state from which a log that was trimmed is folded.
type LogBase struct {
	Seq   uint64 // after this entry
	Bytes []byte // of the snapshot file
}

// LogPage is the records of one model in a range of the log. The same range is always the same page.
type LogPage struct {
	// Entries From to Next−1 were looked at; go on with Next. When Next is past Applied, the page
	// reaches the end of the log as it was.
	From, Next, Applied uint64
	// Records reads the page, in the order of the log. It ends after an error: the context's, or that
	// of a log that is not what was written; what came before it is good.
	Records iter.Seq2[LogRecord, error]
	// All is Records with those that have no effect, which are Ignored.
	All iter.Seq2[LogRecord, error]
	// Read returns how many bytes of entries, of all models, were read by now.
	Read func() int64
}

// LogRecord is one record and where it stands.
type LogRecord struct {
	Seq    uint64
	Record eventlog.Record
	// Event is the decision that it is or concerns, zero for a control record and a loss.
	Event eventlog.Event
	// EventID is what the caller got; for decisions only.
	EventID string
	// Reward is, of a reward of a model whose rewards have names, its values by name.
	Reward map[string]float64
	// Ignored: it has no effect. Another node had decided for the key first, or its batch was stored twice or too late.
	Ignored bool
}

// DecisionPage is the decisions of one model in a range of the log, with what became of them.
type DecisionPage struct {
	From, Next, Applied uint64 // as in LogPage
	// Decisions reads the page, in the order of the log. It ends after an error.
	Decisions iter.Seq2[JoinedDecision, error]
	// Ended, when Decisions was read to the end, is what a reader of estimates should know of the log beside them.
	Ended func() *joined.Ended
	// Rewards are the names of the rewards of the model, nil where it has one.
	Rewards []string
}

// JoinedDecision is a decision, the id that its caller got, and what became of it.
type JoinedDecision struct {
	*joined.Decided
	EventID string
}
