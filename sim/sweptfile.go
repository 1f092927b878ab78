package sim

import (
	"slices"
	"strconv"
	"strings"

	"troupe/spec"
)

// SweptKeys lists the options that sweeps vary, in the order of the spec: of the environments and of the
// policies.
func (x *Experiment) SweptKeys() (environments, policies []string) {
	return sweptKeys(x.Environments), sweptKeys(x.Policies)
}

func sweptKeys[T any](cases []Case[T]) []string {
	var keys []string
	for _, c := range cases {
		for _, k := range c.Swept {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// shown is the table of a case with what stands beside its options.
func (c *Case[T]) shown() spec.Raw {
	if c.LateRaw == nil && c.Horizon == 0 && c.Seed == nil {
		return c.Table
	}
	return spec.Raw(withOwn(c.Table, c.LateRaw, c.Horizon, c.Seed))
}

// Setting returns what the table of a case has at the path of an option, such as "scale.value", "feedback.batch" or
// "horizon".
func (c *Case[T]) Setting(path string) (any, bool) {
	var v any = c.shown()
	for part := range strings.SplitSeq(path, ".") {
		t, ok := v.(spec.Raw)
		if !ok {
			return nil, false
		}
		if v, ok = t[part]; !ok {
			return nil, false
		}
	}
	return v, true
}

// casesCSV prints one line for each case: its name, its kind, and its value of each swept option, empty where
// its table has none.
func casesCSV[T any](what string, cases []Case[T]) []byte {
	keys := sweptKeys(cases)
	b := []byte(what + ",kind")
	for _, k := range keys {
		b = append(b, ","+field(k)...)
	}
	b = append(b, '\n')
	for i := range cases {
		c := &cases[i]
		b = append(b, field(c.Name)+","+field(c.Kind)...)
		for _, k := range keys {
			b = append(b, ',')
			if v, ok := c.Setting(k); ok {
				b = append(b, field(SettingText(v))...)
			}
		}
		b = append(b, '\n')
	}
	return b
}

// SettingText writes the value of an option for a column of a table: numbers with all their digits, text as it
// stands, tables as in names.
func SettingText(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case spec.Raw:
		return OptionText(v)
	}
	return show(v, -1)
}
