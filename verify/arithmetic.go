package verify

// arithmetic names the checks that evaluate formulas and play nothing: they hold or fall with a calculation, whatever
// the program does, so they do not count among what holds.
var arithmetic = map[string]bool{
	"ass:sg printed":                                true,
	"thm:es (the logarithm) printed":                true,
	"thm:es (the logarithm) corrected":              true,
	"thm:es (sharper constants) corrected":          true,
	"remark:1 (ensemble size) printed":              true,
	"remark:1 (regret) printed":                     true,
	"remark:1 (Thompson sampling) printed":          true,
	"rem:max-over-ensemble (order) printed":         true,
	"remark:bayes-es-comparison printed":            true,
	"remark:bayes-es-comparison (arms) printed":     true,
	"remark:large-ensemble printed":                 true,
	"thm:master (last step) printed":                true,
	"thm:master (last step) corrected":              true,
	"lem:process-max-lower-bound (proof) printed":   true,
	"lem:process-max-lower-bound (proof) corrected": true,
	"claim:ts (cap) printed":                        true,
	"claim:ts (cap) corrected":                      true,
	"claim:ts (width) printed":                      true,
	"claim:ts (width) corrected":                    true,
	"def:sg (sums) printed":                         true,
	"thm:es (constants) printed":                    true,
	"rem:lower-vs-upper (constants) corrected":      true,
	"lem:time-unif-bound (constants) printed":       true,
	"lem:conf-sets (constants) printed":             true,
	"atoms (constants) corrected":                   true,
	"thm:master (sum) corrected":                    true,
	"lem:conf-sets (cap is reached) printed":        true,
	"ats (widths) corrected":                        true,
	"ats (bound) corrected":                         true,
	"ats (bound, potential) corrected":              true,
	"ats (bound, martingale) corrected":             true,
	"ats (supermartingale) corrected":               true,
	"few (constants) corrected":                     true,
	"few (epochs) corrected":                        true,
	"few (members) corrected":                       true,
	"few-exponent (constants) corrected":            true,
}

// Arithmetic says that the check evaluates formulas only.
func (c Check) Arithmetic() bool { return arithmetic[c.Name()] }
