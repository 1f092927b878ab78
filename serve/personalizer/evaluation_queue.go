package personalizer

import (
	"context"
	"slices"
	"sync"
	"time"

	"troupe/serve/api"
)

const (
	mostEvaluations    = 16  // of a model; a new one takes the place of the oldest that is done
	mostEvaluationsAll = 128 // of all models
	mostPeriods        = 400 // entries of a summary; beyond it the periods are joined
	fewDecisions       = 20  // below it nothing is said of weights
)

type evaluationAnswer struct {
	ID                string         `json:"id" doc:"id of the evaluation"`
	Name              string         `json:"name" doc:"name that the request gave it"`
	StartTime         time.Time      `json:"startTime" doc:"begin of the span of decisions"`
	EndTime           time.Time      `json:"endTime" doc:"end of the span of decisions"`
	JobID             string         `json:"jobId" doc:"the same id"`
	Status            string         `json:"status" enum:"pending,completed,failed" doc:"where the evaluation stands"`
	PolicyResults     []policyResult `json:"policyResults" doc:"what each policy earned, and would have earned"`
	FeatureImportance [][]string     `json:"featureImportance" doc:"empty"`
	EvaluationType    string         `json:"evaluationType" enum:"Manual" doc:"always Manual"`
	CreationTime      time.Time      `json:"creationTime" doc:"when the evaluation was asked for"`
	Notes             []string       `json:"notes,omitempty" doc:"what was left out, what the numbers cannot say, why it failed; not a field of Azure Personalizer"`
}

const (
	evaluationPending   = "pending"
	evaluationCompleted = "completed"
	evaluationFailed    = "failed"
)

type policyResult struct {
	Name         string          `json:"name" doc:"name of the policy"`
	Arguments    string          `json:"arguments" doc:"the policy in words"`
	PolicySource string          `json:"policySource" enum:"Online,Baseline,Random" doc:"which policy it is: what ran, the first action of each request, or a random one"`
	Summary      []policySummary `json:"summary,omitempty" doc:"by time; not in the list of all evaluations"`
	TotalSummary policySummary   `json:"totalSummary"`
}

// policySummary: r is the reward of a decision and w the probability of its action under the policy over the logged
// one.
type policySummary struct {
	TimeStamp          time.Time `json:"timeStamp" doc:"the beginning of the period; of the total the end"`
	IPSNumerator       float64   `json:"ipsEstimatorNumerator" doc:"sum of w r"`
	IPSDenominator     float64   `json:"ipsEstimatorDenominator" doc:"number of decisions"`
	SNIPSDenominator   float64   `json:"snipsEstimatorDenominator" doc:"sum of w"`
	TimeWindow         string    `json:"aggregateTimeWindow" doc:"length of the period, ISO 8601"`
	NonZeroProbability float64   `json:"nonZeroProbability" doc:"number of decisions whose action the policy may play"`
	SumOfSquares       float64   `json:"sumOfSquares" doc:"sum of (w r)²"`
	ConfidenceInterval *float64  `json:"confidenceInterval,omitempty" doc:"averageReward is this far from the policy's mean reward at most, at the level 95%, by the normal approximation; missing for one decision, and where the policy plays actions that the logged one could not"`
	AverageReward      float64   `json:"averageReward" doc:"ipsEstimatorNumerator/ipsEstimatorDenominator"`
}

// evaluationJob is one evaluation. answer is guarded by the lock of evaluations.
type evaluationJob struct {
	model, policy string
	ctx           context.Context
	cancel        context.CancelFunc
	answer        evaluationAnswer
}

// evaluations are those of this process, the oldest first.
type evaluations struct {
	mu      sync.Mutex
	all     []*evaluationJob
	running bool // a goroutine works on them
	closed  bool
	work    sync.WaitGroup
}

// add takes a job, and starts the work when none is under way.
func (e *evaluations) add(job *evaluationJob, run func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return api.Refuse("unavailable", "", "the server is shutting down").After(time.Second)
	case !e.room(job.model):
		return api.Refuse("too_busy", "", "too many evaluations wait for others; wait for them, or DELETE "+
			"some").After(10 * time.Second)
	}
	e.all = append(e.all, job)
	if !e.running {
		e.running = true
		e.work.Go(run)
	}
	return nil
}

// room lets go of the oldest evaluations that are done until another one of the model has its place.
func (e *evaluations) room(model string) bool {
	for {
		of := 0
		for _, job := range e.all {
			if job.model == model {
				of++
			}
		}
		if of < mostEvaluations && len(e.all) < mostEvaluationsAll {
			return true
		}
		i := slices.IndexFunc(e.all, func(job *evaluationJob) bool {
			return job.answer.Status != evaluationPending && (of < mostEvaluations || job.model == model)
		})
		if i < 0 {
			return false
		}
		e.all = slices.Delete(e.all, i, i+1)
	}
}

// next returns the oldest job that is pending, nil when there is none and the work ends.
func (e *evaluations) next() *evaluationJob {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, job := range e.all {
		if job.answer.Status == evaluationPending {
			return job
		}
	}
	e.running = false
	return nil
}

// of returns a copy of the evaluation, not ok when there is none.
func (e *evaluations) of(model, id string) (evaluationAnswer, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := e.index(model, id); i >= 0 {
		return e.all[i].answer, true
	}
	return evaluationAnswer{}, false
}

func (e *evaluations) index(model, id string) int {
	return slices.IndexFunc(e.all, func(job *evaluationJob) bool { return job.model == model && job.answer.ID == id })
}
