package decide

import (
	"context"

	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/model"
	"troupe/serve/numbers"
)

// declares reports whether a request declares the numbers of a model that has none.
func (r *Request) declares(v *choose.Version) bool {
	return len(r.Numbers) > 0 && len(v.Compiled.Config.Numbers) == 0
}

// declare fixes the numbers of a model by a request that could be decided with them.
func (d *Decider) declare(ctx context.Context, name string, v *choose.Version, r *Request) error {
	list, err := numbers.Declared(r.Numbers)
	if err != nil {
		return fault.Refused(model.NumberError("numbers", err))
	}
	config := v.Compiled.Config
	config.Numbers = list
	with, err := config.Logged()
	if err != nil {
		return fault.Refused(err)
	}
	q := r.candidates()
	q.Late = ctx.Err
	if err := choose.Readable(with, &q, d.opt.Limits.Actions); err != nil {
		return fault.Refused(err)
	}
	return d.declarer.Declare(ctx, name, list, r.Caller)
}
