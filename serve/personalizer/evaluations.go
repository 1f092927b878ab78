package personalizer

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"troupe/internal/decimal"
	"troupe/ope"
	"troupe/serve/api"
	"troupe/serve/joined"
)

// The evaluations of Azure Personalizer: what the log of a model says of the policy that ran, of the first candidate
// and of uniform play. They are computed one at a time, beside the requests, and kept in memory only.

// evaluationCalls make, show and run evaluations. The zero value has none and can be closed.
type evaluationCalls struct {
	edge    api.Edge
	models  models
	history history
	kept    evaluations
}

type evaluationBody struct {
	EnableOfflineExperimentation bool           `json:"enableOfflineExperimentation" required:"false" doc:"only false"`
	Name                         string         `json:"name" doc:"a name for people"`
	StartTime                    string         `json:"startTime" format:"date-time" doc:"begin of the span of decisions"`
	EndTime                      string         `json:"endTime" format:"date-time" doc:"end of the span of decisions"`
	Policies                     []policyAnswer `json:"policies" required:"false" doc:"only none"`
}

// request reads the times of an evaluation, and refuses what cannot be evaluated here.
func (b *evaluationBody) request() (start, end time.Time, err error) {
	switch {
	case b.Name == "":
		err = refuse("name", "is missing, expected a name")
	case len(b.Name) > 256:
		err = refuse("name", "has more than 256 bytes")
	case b.EnableOfflineExperimentation:
		err = refuse("enableOfflineExperimentation",
			"cannot be true here; troupe evaluate URL --model NAME --target POLICY.toml estimates other "+
				"policies from the same log")
	case len(b.Policies) > 0:
		err = refuse("policies", "expected none: learning settings of Vowpal Wabbit have no "+
			"meaning here; troupe evaluate URL --model NAME --target POLICY.toml evaluates a policy on the same log")
	default:
		err = api.CleanID("name", b.Name)
	}
	for _, x := range []struct {
		field, text string
		into        *time.Time
	}{{"startTime", b.StartTime, &start}, {"endTime", b.EndTime, &end}} {
		if err != nil {
			return start, end, err
		}
		if *x.into, err = time.Parse(time.RFC3339, x.text); err != nil {
			err = refuse(x.field, "expected a time such as 2026-11-01T00:00:00Z")
		}
	}
	if err == nil && !start.Before(end) {
		err = refuse("startTime", "is not before endTime")
	}
	return start.UTC(), end.UTC(), err
}

// close ends the evaluations that are under way.
func (a *evaluationCalls) close() {
	e := &a.kept
	e.mu.Lock()
	e.closed = true
	for _, job := range e.all {
		job.cancel()
	}
	e.all = nil
	e.mu.Unlock()
	e.work.Wait()
}

func (a *evaluationCalls) create(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, _, err := readCall[evaluationBody](a.edge, w, r, api.Admin, model)
	if err != nil {
		return err
	}
	m, err := a.models.GetModel(ctx, model)
	if err != nil {
		return err
	}
	policy, err := policyOf(m)
	if err != nil {
		return err
	}
	start, end, err := b.request()
	if err != nil {
		return err
	}
	id := evaluationID()
	job := &evaluationJob{model: m.Name, policy: policy.Arguments, answer: evaluationAnswer{
		ID: id, JobID: id, Name: b.Name, StartTime: start, EndTime: end, Status: evaluationPending,
		EvaluationType: "Manual",
		PolicyResults:  []policyResult{}, FeatureImportance: [][]string{}, CreationTime: a.edge.Now().UTC(),
	}}
	job.ctx, job.cancel = context.WithCancel(context.Background())
	answer := job.answer // from here on the job changes it
	if err := a.kept.add(job, a.run); err != nil {
		job.cancel()
		return err
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+id)
	return answerJSON(w, http.StatusCreated, answer)
}

// evaluationID is a random UUID.
func evaluationID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// list answers those of the model, the oldest first, with their totals.
func (a *evaluationCalls) list(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	out := []evaluationAnswer{}
	e := &a.kept
	e.mu.Lock()
	for _, job := range e.all {
		if job.model == m.Name {
			out = append(out, job.answer)
		}
	}
	e.mu.Unlock()
	for i := range out {
		out[i].PolicyResults = slices.Clone(out[i].PolicyResults)
		for k := range out[i].PolicyResults {
			out[i].PolicyResults[k].Summary = nil
		}
	}
	return answerJSON(w, http.StatusOK, out)
}

func noEvaluation() error {
	return api.Refuse("not_found", "evaluationId",
		"there is no such evaluation; they are kept until the server stops, the newest of each model")
}

func (a *evaluationCalls) get(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	answer, ok := a.kept.of(m.Name, r.PathValue("evaluation"))
	if !ok {
		return noEvaluation()
	}
	return answerJSON(w, http.StatusOK, answer)
}

// delete forgets an evaluation. One that is under way ends.
func (a *evaluationCalls) delete(w http.ResponseWriter, r *http.Request, model string) error {
	if err := a.edge.Allow(r.Context(), api.Admin, model); err != nil {
		return err
	}
	if _, err := a.models.GetModel(r.Context(), model); err != nil {
		return err
	}
	e := &a.kept
	e.mu.Lock()
	i := e.index(model, r.PathValue("evaluation"))
	if i >= 0 {
		e.all[i].cancel()
		e.all = slices.Delete(e.all, i, i+1)
	}
	e.mu.Unlock()
	if i < 0 {
		return noEvaluation()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// run works until no evaluation is pending.
func (a *evaluationCalls) run() {
	e := &a.kept
	for job := e.next(); job != nil; job = e.next() {
		results, notes, err := a.evaluate(job)
		if err != nil && job.ctx.Err() == nil {
			a.edge.Logger().Error("an evaluation failed", "model", job.model, "evaluation", job.answer.ID, "error",
				err.Error())
			notes = append(notes, api.ProblemOf(err).Detail)
		}
		job.cancel()
		e.mu.Lock()
		job.answer.Status, job.answer.Notes = evaluationFailed, notes
		if len(results) > 0 {
			job.answer.Status, job.answer.PolicyResults = evaluationCompleted, results
		}
		e.mu.Unlock()
	}
}

// evaluate reads the log. There is no result when the log has nothing to evaluate; notes say why. It takes the place of
// an export: each reads the log while decisions wait for the same disk.
func (a *evaluationCalls) evaluate(job *evaluationJob) (results []policyResult, notes []string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			results = nil
		}
	}()
	done, err := a.edge.Export(job.ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	page, err := a.history.Decisions(job.ctx, job.model, 0, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	j := joined.New(joined.Options{}) // it knows which decisions are events, and counts the others
	sums := evaluationSums{window: time.Hour}
	for d, err := range page.Decisions {
		if err == nil {
			err = job.ctx.Err()
		}
		if err != nil {
			return nil, nil, err
		}
		at := time.Unix(0, d.Record.Time)
		if at.Before(job.answer.StartTime) || at.After(job.answer.EndTime) {
			continue
		}
		if d.State == joined.Pending {
			j.Skipped["the reward may still come"]++
			continue
		}
		if d.Record.List != nil || len(d.Record.Numbers) > 0 {
			j.Skipped["a list, or a number, which has no place in these results"]++
			continue
		}
		d.Record.Full = nil // the features of the candidates
		x, err := j.Event(d.Decided)
		if err != nil {
			return nil, nil, err
		}
		if x == nil {
			continue
		}
		sums.add(at, x.Propensity, x.Law, x.K, x.Chosen, x.Reward)
	}
	for _, why := range slices.Sorted(maps.Keys(j.Skipped)) {
		left := "left out: "
		if why == joined.CountedAsZero {
			left = ""
		}
		notes = append(notes, fmt.Sprintf("%d %s%s", j.Skipped[why], left, why))
	}
	if err := j.Activation(); err != nil {
		notes = append(notes, err.Error()+": the numbers are not those of what was decided")
	}
	if len(sums.periods) == 0 {
		return nil, append(notes, "there is no decision of the policy between startTime and endTime whose reward is "+
			"settled"), nil
	}
	results, more := sums.results(job)
	return results, append(notes, more...), nil
}

// evaluated are the policies of each evaluation, with the probability of candidate i of k. Online plays what was
// played.
var evaluated = [...]struct {
	source string
	law    func(k, i int) float64
}{
	{"Online", nil},
	{"Baseline", func(_, i int) float64 {
		if i > 0 {
			return 0
		}
		return 1
	}},
	{"Random", func(k, _ int) float64 { return 1 / float64(k) }},
}

// policySums are the sums of one policy over a period.
type policySums struct {
	n, nonzero, w, wr, squares float64
	size                       float64 // Σ |w r|
	lawless                    float64 // decisions whose law the log does not have
	unsupported                float64 // Σ of the policy's probability of actions that the law of the log does not play
}

func (s *policySums) add(o *policySums) {
	s.n, s.nonzero, s.w, s.wr, s.squares = s.n+o.n, s.nonzero+o.nonzero, s.w+o.w, s.wr+o.wr, s.squares+o.squares
	s.size, s.lawless, s.unsupported = s.size+o.size, s.lawless+o.lawless, s.unsupported+o.unsupported
}

// summary computes what the sums say. The standard error is that of the mean of w r, √(Σ(w r − mean)²/(n(n − 1))).
func (s *policySums) summary(at time.Time, window time.Duration) policySummary {
	mean := s.wr / s.n
	out := policySummary{TimeStamp: at, IPSNumerator: s.wr, IPSDenominator: s.n, SNIPSDenominator: s.w,
		TimeWindow:         isoDuration(window),
		NonZeroProbability: s.nonzero, SumOfSquares: s.squares, AverageReward: mean}
	if s.n > 1 && s.unsupported == 0 {
		const z = 1.959963984540054 // of the level 95 %
		half := z * math.Sqrt(max(0, s.squares-float64(s.n*float64(mean*mean)))/(s.n*(s.n-1)))
		out.ConfidenceInterval = &half
	}
	return out
}

// doubt says why the estimate of a policy is worth less than it looks, "" when it is not.
func (s *policySums) doubt() string {
	mean, effective := s.w/s.n, 0.0
	if s.squares > 0 {
		effective = s.size * s.size / s.squares
	}
	switch {
	case s.unsupported > 0:
		return fmt.Sprintf("averageReward is biased and has no interval: the policy plays actions that the logged "+
			"one could not, with probability %.3g", s.unsupported/s.n)
	case s.lawless > 0 && s.n >= fewDecisions && (mean < 0.8 || mean > 1.25):
		return fmt.Sprintf("averageReward may be biased: the mean weight is %s, expected about 1, so the logged "+
			"policy seldom or never plays as this one", decimal.Short(mean, 3))
	case !ope.Shown(effective):
		return fmt.Sprintf("the log has %.3g effective decisions with a reward: the interval covers much less than "+
			"95%%", effective)
	}
	return ""
}

// evaluationPeriod has the sums of the decisions of one period, by policy.
type evaluationPeriod struct {
	begin int64 // s since 1970, a multiple of the window
	by    [len(evaluated)]policySums
}

// evaluationSums are sums by period, in the order of time. There are at most mostPeriods: when a log has more, periods
// are joined to longer ones.
type evaluationSums struct {
	window  time.Duration
	periods []evaluationPeriod
}

// add counts a decision: its candidate chosen of k was played with probability p. law is nil where the log does not
// have it.
func (s *evaluationSums) add(at time.Time, p float64, law []float64, k, chosen int, reward float64) {
	e := evaluationPeriod{begin: periodOf(at.Unix(), s.window)}
	for i, policy := range evaluated {
		x := &e.by[i]
		x.n, x.w = 1, 1
		if policy.law != nil {
			x.w = policy.law(k, chosen) / p
			if law == nil {
				x.lawless = 1
			}
			for a, q := range law {
				if q == 0 {
					x.unsupported += policy.law(k, a)
				}
			}
		}
		if x.w > 0 {
			x.nonzero = 1
		}
		x.wr = x.w * reward
		x.squares, x.size = x.wr*x.wr, math.Abs(x.wr)
	}
	s.put(e)
	for len(s.periods) > mostPeriods {
		if s.window < 24*time.Hour {
			s.window = 24 * time.Hour
		} else {
			s.window *= 2
		}
		all := s.periods
		s.periods = nil
		for _, e := range all {
			e.begin = periodOf(e.begin, s.window)
			s.put(e)
		}
	}
}

func periodOf(seconds int64, window time.Duration) int64 {
	w := int64(window / time.Second)
	rest := seconds % w
	if rest < 0 {
		rest += w
	}
	return seconds - rest
}

// put adds sums to their period.
func (s *evaluationSums) put(e evaluationPeriod) {
	i, found := len(s.periods)-1, false
	if found = i >= 0 && s.periods[i].begin == e.begin; !found { // times seldom go back
		i, found = slices.BinarySearchFunc(s.periods, e.begin, func(x evaluationPeriod,
			begin int64) int {
			return cmp.Compare(x.begin, begin)
		})
	}
	if !found {
		s.periods = slices.Insert(s.periods, i, evaluationPeriod{begin: e.begin})
	}
	for k := range e.by {
		s.periods[i].by[k].add(&e.by[k])
	}
}

// results returns the answer's results, and notes where the log does not support a number.
func (s *evaluationSums) results(job *evaluationJob) (out []policyResult, notes []string) {
	for k, policy := range evaluated {
		r := policyResult{Name: policy.source, PolicySource: policy.source}
		if k == 0 {
			r.Arguments = job.policy
		}
		var total policySums
		for i := range s.periods {
			x := &s.periods[i]
			r.Summary = append(r.Summary, x.by[k].summary(time.Unix(x.begin, 0).UTC(), s.window))
			total.add(&x.by[k])
		}
		r.TotalSummary = total.summary(job.answer.EndTime, job.answer.EndTime.Sub(job.answer.StartTime))
		if why := total.doubt(); why != "" {
			notes = append(notes, policy.source+": "+why)
		}
		out = append(out, r)
	}
	return out, notes
}
