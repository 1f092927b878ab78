package personalizer

import (
	"encoding/json"
	"net/http"
	"strings"

	"troupe/serve/api"
)

// Fail implements [api.Adapter].
func (a *Adapter) Fail(w http.ResponseWriter, p *api.Problem) {
	status := p.Status
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	code := map[int]string{
		http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
		http.StatusNotFound: "ResourceNotFound", http.StatusConflict: "Conflict",
		http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
		http.StatusTooManyRequests:       "TooManyRequests", http.StatusInternalServerError: "InternalServerError",
		http.StatusServiceUnavailable: "ServiceUnavailable",
	}[status]
	if code == "" {
		code = strings.ReplaceAll(http.StatusText(status), " ", "")
	}
	message, field := p.Title, theirField(p.Field)
	if p.Detail != "" {
		message = p.Detail
	}
	if field != "" {
		message = field + ": " + p.Detail
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(theirError{theirFault{code, message, field, []string{}, theirInner{p.Code}}})
}

// theirFields are what that service calls the fields of ours.
var theirFields = map[string]string{
	"floor": "explorationPercentage", "reward.window": "rewardWaitTime", "reward.default": "defaultReward",
	"reward.rule": "rewardAggregation", "mode": "learningMode", "header.Idempotency-Key": "eventId",
	"exclude": "excludedActions", "defer_activation": "deferActivation",
	"context": "contextFeatures",
}

// theirField returns the name that a field of ours has in the other API. Only the words of an error depend on it.
func theirField(field string) string {
	if rest, ok := strings.CutPrefix(field, "context."); ok {
		return "contextFeatures." + rest
	}
	if word, ok := theirFields[field]; ok {
		return word
	}
	return field
}

type (
	theirError struct {
		Error theirFault `json:"error"`
	}
	theirFault struct {
		Code       string     `json:"code" doc:"kind of the error in one word"`
		Message    string     `json:"message" doc:"the error in words"`
		Target     string     `json:"target,omitempty" doc:"the field that is wrong"`
		Details    []string   `json:"details" doc:"always empty"`
		InnerError theirInner `json:"innerError"`
	}
	theirInner struct {
		Code string `json:"code" doc:"the code of Problem"`
	}
)
