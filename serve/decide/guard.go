package decide

import (
	"troupe/serve/model"
)

// checkGuard refuses what a guarded decision cannot do without, and the mode for a model without a guard.
func (r *Request) checkGuard(mode model.Mode, c *model.Config) error {
	switch {
	case mode != model.Guarded:
		return nil
	case c.Guard.IsZero():
		return model.Invalid("mode", mode, "needs a model with a guard: set guard of its configuration")
	case r.Baseline == nil:
		return model.Invalid("baseline", "", "is missing: a guarded model plays the caller's own choice until the policy cannot "+
			"have earned less by more than the margin")
	case r.Deferred:
		return model.Invalid("defer_activation", true, "does not go with a guard: what is not played has no baseline")
	}
	return nil
}
