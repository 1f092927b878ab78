package model

import (
	"troupe/policy"
	"troupe/serve/numbers"
)

// Ranges are the numbers of a model.
type Ranges = []numbers.Range

// checkNumbers refuses numbers that no decision could play, and a model that cannot learn them.
func (c *Config) checkNumbers() error {
	if len(c.Numbers) == 0 {
		return nil
	}
	if err := numbers.CheckAll(c.Numbers); err != nil {
		return NumberError("config.numbers", err)
	}
	_, plays := c.Policy.Options.(policy.NumberPlayer)
	switch {
	case c.Policy.Options != nil && !plays:
		return Invalid("config.policy.kind", c.Policy.Raw["kind"], "does not play numbers; expected effects, which is the default")
	case !c.open():
		return Invalid("config.numbers", len(c.Numbers), "go with requests as they come: leave features and dim out")
	case !c.Control.IsZero() && c.Control.Plays == PlaysFirst:
		return Invalid("config.control.plays", c.Control.Plays, "does not go with numbers, of which there is no first; expected uniform")
	case len(c.Caps) > 0:
		return Invalid("config.caps", len(c.Caps), "do not go with numbers: a request may narrow a range instead")
	}
	return nil
}

// NumberError names the field of a configuration or a request whose numbers, found at path, were refused.
func NumberError(path string, err error) *Error {
	e, ok := err.(*numbers.Error)
	if !ok {
		return Invalid(path, "", "%v", err)
	}
	if e.Field != "" && e.Field[0] != '[' {
		path += "."
	}
	return Invalid(path+e.Field, e.Value, "%s", e.Want).Told()
}
