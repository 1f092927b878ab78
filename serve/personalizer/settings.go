package personalizer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"troupe/serve"
	"troupe/serve/api"
)

// settingCalls read and change a model: its configuration, its policy, its state.
type settingCalls struct {
	edge   api.Edge
	models models
}

// serviceConfig is the body of configurations/service. The last fields are taken and have no
// meaning here: models are published after each batch of the log, and the log is kept.
type serviceConfig struct {
	RewardWaitTime        string  `json:"rewardWaitTime" doc:"window for rewards, an ISO 8601 duration"`
	DefaultReward         float64 `json:"defaultReward" required:"false" doc:"reward of an event without one"`
	RewardAggregation     string  `json:"rewardAggregation" required:"false" doc:"earliest or sum"`
	ExplorationPercentage float64 `json:"explorationPercentage" required:"false" doc:"share of decisions that explore, from 0 to 1"`
	LearningMode          string  `json:"learningMode,omitempty" doc:"Online, Apprentice or LoggingOnly"`

	ModelExportFrequency       string `json:"modelExportFrequency" required:"false" doc:"taken and ignored"`
	LogRetentionDays           int    `json:"logRetentionDays" required:"false" doc:"taken and ignored"`
	LogMirrorEnabled           bool   `json:"logMirrorEnabled" required:"false" doc:"false; true is refused"`
	LogMirrorSasURI            string `json:"logMirrorSasUri,omitempty" doc:"taken and ignored"`
	LastConfigurationEditDate  string `json:"lastConfigurationEditDate,omitempty" doc:"when the configuration changed last"`
	IsAutoOptimizationEnabled  bool   `json:"isAutoOptimizationEnabled" required:"false" doc:"false; true is refused"`
	AutoOptimizationFrequency  string `json:"autoOptimizationFrequency,omitempty" doc:"taken and ignored"`
	AutoOptimizationStartDate  string `json:"autoOptimizationStartDate,omitempty" doc:"taken and ignored"`
	LatestLearningSettings     string `json:"latestLearningSettings,omitempty" doc:"taken and ignored"`
	LatestLearningSettingsDate string `json:"latestLearningSettingsDate,omitempty" doc:"taken and ignored"`
}

var (
	aggregations  = [][2]string{{"first", "earliest"}, {"sum", "sum"}}
	learningModes = [][2]string{{"online", "Online"}, {"apprentice", "Apprentice"}, {"shadow", "LoggingOnly"}}
)

// theirs and ours translate a word; an unknown one stays as it is.
func theirs(table [][2]string, word string) string { return translate(table, word, 0, 1) }
func ours(table [][2]string, word string) string   { return translate(table, word, 1, 0) }

// known reports whether a table has their word.
func known(table [][2]string, word string) bool {
	return slices.ContainsFunc(table, func(row [2]string) bool { return strings.EqualFold(row[1], word) })
}

func translate(table [][2]string, word string, from, to int) string {
	for _, row := range table {
		if strings.EqualFold(row[from], word) {
			return row[to]
		}
	}
	return word
}

func (a *settingCalls) getConfig(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, configOf(m))
}

func configOf(m serve.Model) serviceConfig {
	c := m.Config
	return serviceConfig{
		RewardWaitTime: isoDuration(time.Duration(c.Reward.Window)), DefaultReward: c.Reward.Default.Value,
		RewardAggregation: theirs(aggregations, string(c.Reward.Rule)), ExplorationPercentage: c.Floor,
		LearningMode: theirs(learningModes, c.Mode), ModelExportFrequency: "PT5M", LogRetentionDays: -1,
		LastConfigurationEditDate: m.Changed.Time.UTC().Format(time.RFC3339),
	}
}

func (a *settingCalls) putConfig(w http.ResponseWriter, r *http.Request, model string) error {
	ctx := r.Context()
	b, raw, err := readCall[serviceConfig](a.edge, w, r, api.Admin, model)
	if err != nil {
		return err
	}
	// What is left out stays: a 0 for it would end exploration, and give rewards where there are none.
	var given struct{ ExplorationPercentage, DefaultReward *float64 }
	if err := json.Unmarshal(raw, &given); err != nil {
		return err
	}
	wait, ok := parseISODuration(b.RewardWaitTime)
	switch {
	case b.RewardAggregation != "" && !known(aggregations, b.RewardAggregation):
		return refuse("rewardAggregation", "expected earliest or sum")
	case b.LearningMode != "" && !known(learningModes, b.LearningMode):
		return refuse("learningMode", "expected Online, Apprentice or LoggingOnly")
	case !ok:
		return refuse("rewardWaitTime", "is not an ISO 8601 duration such as PT10M")
	case b.LogMirrorEnabled:
		return refuse("logMirrorEnabled", "cannot be true here; export the log with troupe log export")
	case b.IsAutoOptimizationEnabled:
		return refuse("isAutoOptimizationEnabled", "cannot be true here; there are no learning settings to optimise")
	}
	m, err := a.edge.Edit(ctx, model, func(c *serve.ModelConfig) error {
		c.Reward.Window = serve.Duration(wait)
		if given.DefaultReward != nil {
			c.Reward.Default = serve.Maybe{Set: true, Value: *given.DefaultReward}
		}
		if given.ExplorationPercentage != nil {
			c.Floor = *given.ExplorationPercentage
		}
		if b.RewardAggregation != "" {
			c.Reward.Rule = serve.Rule(ours(aggregations, b.RewardAggregation))
		}
		if b.LearningMode != "" {
			c.Mode = ours(learningModes, b.LearningMode)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, configOf(m))
}

// getPolicy answers what that service called learning settings: here the policy's kind and options.
func (a *settingCalls) getPolicy(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	p, err := policyOf(m)
	if err != nil {
		return err
	}
	return answerJSON(w, http.StatusOK, p)
}

func policyOf(m serve.Model) (policyAnswer, error) {
	options, err := json.Marshal(m.Config.Policy.Raw)
	return policyAnswer{m.Name, string(options)}, err
}

type policyAnswer struct {
	Name      string `json:"name" doc:"name of the policy"`
	Arguments string `json:"arguments" doc:"JSON: kind and options"`
}

// getState answers the policy's snapshot, that service's model file.
func (a *settingCalls) getState(w http.ResponseWriter, r *http.Request, model string) error {
	if err := a.edge.Allow(r.Context(), api.Read, model); err != nil {
		return err
	}
	s, err := a.models.State(r.Context(), model)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(s.Snapshot) // fails only when the client has left
	return nil
}

func (a *settingCalls) getModelProperties(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	last := m.Changed.Time
	if m.Counts.Last.After(last) {
		last = m.Counts.Last
	}
	return answerJSON(w, http.StatusOK, modelProperties{m.Created.Time.UTC(), last.UTC()})
}

type modelProperties struct {
	Creation time.Time `json:"creationTime" doc:"when the model was made"`
	Modified time.Time `json:"lastModifiedTime" doc:"when its configuration changed last"`
}

func (a *settingCalls) getLogProperties(w http.ResponseWriter, r *http.Request, model string) error {
	m, err := readModel(a.edge, a.models, r, model)
	if err != nil {
		return err
	}
	s := dateRange{m.Created.Time.UTC(), m.Created.Time.UTC()}
	if m.Counts.Last.After(s.To) {
		s.To = m.Counts.Last.UTC()
	}
	return answerJSON(w, http.StatusOK, logProperties{s})
}

type (
	dateRange struct {
		From time.Time `json:"from" doc:"time of the first entry of the log"`
		To   time.Time `json:"to" doc:"time of the last entry of the log"`
	}
	logProperties struct {
		DateRange dateRange `json:"dateRange"`
	}
)
