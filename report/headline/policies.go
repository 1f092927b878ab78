package headline

import "troupe/report/chart"

// Policy is a policy of an environment.
type Policy struct {
	Name     string
	Standing Standing
}

// Environment is what the table of an environment says.
type Environment struct {
	Name     string
	Policies []Policy // by their estimates, the lowest first
	Runs     int      // replications that are compared
	Least    int      // replications from which on there are intervals
	Noun     string   // what is compared, where it is not the mean regret: median regret
	Lost     string   // the lowest estimate, in digits
	Rounds   string   // after which it was lost: 2,000 rounds
}

// of returns the names with one of the standings.
func (e *Environment) of(standings ...Standing) (names []string) {
	for _, p := range e.Policies {
		for _, s := range standings {
			if p.Standing == s {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// compared are the policies that a comparison is about.
func (e *Environment) compared() []string { return e.of(Lowest, Equal, LosesMore, AboutSame, TooClose) }

// phrases are the words for an estimand.
type phrases struct{ more, least, leastIn, same string }

// words returns the phrases for a number of subjects.
func (e *Environment) words(n int) phrases {
	if e.Noun == "" {
		return phrases{more: verb(n, "loses", "lose") + " more", least: verb(n, "loses", "lose") + " least", leastIn: "lost least",
			same: verb(n, "loses", "lose") + " about the same"}
	}
	has := verb(n, "has", "have")
	return phrases{more: has + " a larger " + e.Noun, least: has + " the lowest " + e.Noun, leastIn: "had the lowest " + e.Noun,
		same: has + " about the same " + e.Noun}
}

// One is the headline of one environment: which policies lose more than the one with the lowest estimate. The cases, in
// this order: nothing is complete; one policy; all the same in every replication; too few replications; one loses least;
// none loses more; some do, and the smaller side is named.
func One(e *Environment) Prose {
	all := e.compared()
	if len(all) == 0 {
		return Say("No replication is complete.")
	}
	lowest := e.of(Lowest, Equal)
	more, same, close := e.of(LosesMore), e.of(AboutSame), e.of(TooClose)
	switch {
	case len(all) == 1 && e.Noun != "":
		return Say("The "+e.Noun+" of ", all, " is "+e.Lost+".")
	case len(all) == 1:
		return Say(all, " lost "+e.Lost+" in "+e.Rounds+".")
	case len(lowest) == len(all) && e.Noun != "":
		return Say("The " + e.Noun + " is the same for all " + number(len(all)) + " policies.")
	case len(lowest) == len(all) && len(all) > most:
		return Say("All " + number(len(all)) + " policies lost the same.")
	case len(lowest) == len(all):
		return Say(all, " lost the same.")
	case e.Runs < e.Least && len(lowest) > 1:
		return Say(these(lowest, "policy", "policies"), " share the lowest "+noun(e)+" in ", few(e.Runs), ".")
	case e.Runs < e.Least:
		return Say(lowest, " "+e.words(1).leastIn+" in ", few(e.Runs), ".")
	case len(more) == len(all)-len(lowest):
		return Say(these(lowest, "policy", "policies"), " "+e.words(len(lowest)).least+".")
	case len(more) == 0 && len(same) == 0:
		return Say(every(len(all)) + " are too close to call.")
	case len(more) == 0 && len(close) == 0:
		return Say(every(len(all)) + " " + e.words(2).same + ".")
	case len(more) == 0 && len(same) >= len(close): // the lowest belongs to the larger side
		return Say(these(close, "policy", "policies"), " "+verb(len(close), "is", "are")+" too close to call. The other "+
			number(len(all)-len(close))+" "+e.words(2).same+".")
	case len(more) == 0:
		return Say(these(same, "policy", "policies"), " "+e.words(len(same)).same+" as ", lowest, ". The other "+
			others(len(close), "is", "are")+" too close to call.")
	}
	rest := without(all, more)
	if len(more) <= len(rest) {
		return Say(these(more, "policy", "policies"), " "+e.words(len(more)).more+". The other "+number(len(rest))+" "+
			e.undecided(same, close)+".")
	}
	return Say(these(rest, "policy", "policies"), " "+e.undecided(same, close)+". The other "+number(len(more))+" "+
		e.words(len(more)).more+".")
}

// undecided is what two policies or more are that do not lose more, the lowest among them.
func (e *Environment) undecided(same, close []string) string {
	switch {
	case len(same) == 0:
		return "are too close to call"
	case len(close) == 0:
		return e.words(2).same
	}
	return e.words(2).same + ", or are too close to call"
}

// every counts all of something.
func every(n int) string {
	if n == 2 {
		return "Both"
	}
	return "All " + number(n)
}

// others counts the rest of a list: one is, four are.
func others(n int, one, many string) string { return number(n) + " " + verb(n, one, many) }

// few says that replications are too few.
func few(n int) string {
	return things(n, "run") + ", which " + verb(n, "is", "are") + " too few to be sure"
}

func noun(e *Environment) string {
	if e.Noun == "" {
		return "mean regret"
	}
	return e.Noun
}

// Several is the headline of several environments: which policies lose more everywhere, in some, and nowhere. A policy
// that an environment does not compare counts as one that loses more there. One environment is One.
func Several(all []*Environment) Prose {
	if len(all) == 0 {
		return Say("No replication is complete.")
	}
	if len(all) == 1 {
		return One(all[0])
	}
	s := sorted(all)
	e := all[0]
	n := len(s.names)
	switch {
	case n == 1:
		return Say(s.names, " played "+things(len(all), "environment")+"; there is nothing to compare it with.")
	case s.decided == 0:
		return Say(upper(things(s.least, "run")) + " " + verb(s.least, "is", "are") + " too few to be sure which policy " +
			e.words(1).least + ".")
	case s.equal == len(all) && e.Noun != "":
		return Say("The " + e.Noun + " is the same for all policies in all " + number(len(all)) + " environments.")
	case s.equal == len(all):
		return Say("All policies lost the same in all " + number(len(all)) + " environments.")
	case len(s.nowhere) == 0:
		return Say("Each policy " + e.words(1).more + " somewhere.")
	case len(s.nowhere) == n:
		return Say(every(n) + " are too close to call in every environment.")
	case len(s.everywhere) == n-len(s.nowhere) && len(s.nowhere) == 1:
		return Say(s.nowhere, " "+e.words(1).least+" everywhere.")
	case len(s.everywhere) > 0:
		return Say(these(s.everywhere, "policy", "policies"), " "+e.words(len(s.everywhere)).more+" everywhere. ",
			these(s.nowhere, "policy", "policies"), " "+e.words(len(s.nowhere)).more+" nowhere.")
	case len(s.nowhere) == 1:
		return Say(s.nowhere, " "+e.words(1).more+" nowhere. Every other policy does somewhere.")
	case n-len(s.nowhere) == 1:
		return Say(s.somewhere, " "+e.words(1).more+" somewhere. The other "+number(len(s.nowhere))+" lose more nowhere.")
	}
	return Say(these(s.nowhere, "policy", "policies"), " "+e.words(len(s.nowhere)).more+" nowhere. Each of the other "+
		number(n-len(s.nowhere))+" does somewhere.")
}

// sides sorts the policies of several environments.
type sides struct {
	names                          []string // in the order of the first environment that has them
	everywhere, somewhere, nowhere []string
	least                          int // the smallest number of replications
	decided                        int // environments with enough of them
	equal                          int // environments in which all lost the same
}

func sorted(all []*Environment) (s sides) {
	worse, met := map[string]int{}, map[string]int{}
	s.least = all[0].Runs
	for _, e := range all {
		s.least = min(s.least, e.Runs)
		if e.Runs >= e.Least {
			s.decided++
		}
		if n := len(e.compared()); n > 1 && len(e.of(Lowest, Equal)) == n {
			s.equal++
		}
		for _, p := range e.Policies {
			if met[p.Name] == 0 {
				s.names = append(s.names, p.Name)
			}
			met[p.Name]++
			if p.Standing == LosesMore || p.Standing == Out {
				worse[p.Name]++
			}
		}
	}
	for _, name := range s.names {
		switch w := worse[name] + len(all) - met[name]; w {
		case 0:
			s.nowhere = append(s.nowhere, name)
		case len(all):
			s.everywhere = append(s.everywhere, name)
		default:
			s.somewhere = append(s.somewhere, name)
		}
	}
	return s
}

// State is what the results say of a claim.
type State int

// The states of a claim.
const (
	Undecided State = iota
	Holds
	Contradicted
	TooFew   // replications
	NotAsked // the run lacks what the claim is about
)

// Claim is the headline of a run whose spec states a claim: the claim, as a clause without a full stop, and its state.
func Claim(text Prose, s State) Prose {
	said := [...]string{Undecided: "Not decided: ", Holds: "Holds: ", Contradicted: "Does not hold: ",
		TooFew: "Too few replications to decide: ", NotAsked: "This run cannot decide: "}[s]
	return Say(said, lower(text), ".")
}

// lower begins a clause after a colon; a name stays as it is.
func lower(p Prose) Prose {
	if len(p) == 0 || p[0].Name || p[0].Text == "" {
		return p
	}
	out := append(Prose{}, p...)
	out[0].Text = string(p[0].Text[0]|0x20) + p[0].Text[1:]
	return out
}

// Reference is the headline of a run whose spec names a policy to compare with, when the policy with the lowest mean loses
// less than it: by the share less of its mean regret.
func Reference(best, reference string, less float64) Prose {
	return Say(Name(best), " loses "+chart.Percent(less)+" less than ", Name(reference), ".")
}
