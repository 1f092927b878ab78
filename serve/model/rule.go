package model

import "strings"

// Rule says what of the rewards of an event counts. The fold, the readers of the log and the page of a model ask it;
// none of them knows a rule by its name.
type Rule string

// The rules.
const (
	First Rule = "first" // the first reward, at once
	Sum   Rule = "sum"   // the sum of the window, when it closes
	Last  Rule = "last"  // the last one of the window, when it closes
)

// rules are the rules that there are. The place of a rule is its code in the state of an event, two bits; a new one
// goes to the end.
var rules = []struct {
	name    Rule
	settles bool
	fold    func(old, y float64, first bool) float64
}{
	{First, true, func(_, y float64, _ bool) float64 { return y }},
	{Sum, false, func(old, y float64, _ bool) float64 { return old + y }},
	{Last, false, func(_, y float64, _ bool) float64 { return y }},
}

// Known reports whether there is such a rule.
func (r Rule) Known() bool { return r.Code() >= 0 }

// Settles reports whether the first reward of an event settles it: the model learns it at once, and further rewards
// have no effect. With another rule the model learns when the window closes. An unknown rule does not settle.
func (r Rule) Settles() bool { return r.Known() && rules[r.Code()].settles }

// Fold returns what counts after another reward y, where old counted before it; first is true for the first reward of
// an event, with old = 0. With an unknown rule the last one counts.
func (r Rule) Fold(old, y float64, first bool) float64 {
	if i := r.Code(); i >= 0 {
		return rules[i].fold(old, y, first)
	}
	return y
}

// Code returns the place of the rule among all, below 4, and −1 for an unknown one.
func (r Rule) Code() int {
	for i := range rules {
		if rules[i].name == r {
			return i
		}
	}
	return -1
}

// RuleOf returns the rule of a code, "" where there is none.
func RuleOf(code int) Rule {
	if code < 0 || code >= len(rules) {
		return ""
	}
	return rules[code].name
}

// RuleNames returns the names of the rules.
func RuleNames() []string {
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = string(rules[i].name)
	}
	return names
}

// ruleNames lists the rules for an error: first, sum or last.
func ruleNames() string {
	names := RuleNames()
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + " or " + names[n]
}
