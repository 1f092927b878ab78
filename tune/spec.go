package tune

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/sim"
	"troupe/spec"
)

// Spec returns a spec that runs without tuning: every policy or agent of the experiment as it is, and beside
// each one that was tuned the same with the values chosen, and where they come from. A policy that has
// values of an earlier tuning (its table has the key tuned) is replaced. name is the experiment's new name.
func (r *Result) Spec(name string) (string, error) {
	x := r.Experiment
	tree, _, err := spec.ReadFile(x.Name, x.Text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: tuned policies beside their textbook values\n\n", x.Name)
	fmt.Fprintf(&b, "# Written by troupe tune, engine %d. Tuning played a random stream of its own.\n\n", sim.Engine)
	tree["name"] = name
	for _, k := range []string{"name", "hypothesis", "seed", "horizon", "replications", "checkpoints", "record",
		"until", "reference", "estimand"} {
		if v, ok := tree[k]; ok {
			fmt.Fprintf(&b, "%s = %s\n", k, value(v))
		}
	}
	for _, key := range []string{"claim", "environment", "policy", "agent"} {
		tables, _ := tree[key].([]any)
		for i, t := range tables {
			table := maps.Clone(t.(spec.Raw))
			_, again := table["tuned"]
			_, grid := table["tune"]
			delete(table, "tune")
			player := key == "policy" || key == "agent"
			if !player || !again || !grid {
				writeTable(&b, key, table)
			}
			if player {
				r.writeTuned(&b, key, spec.Element(key, i))
			}
		}
	}
	return b.String(), nil
}

// writeTuned writes the tuned cases of the table at a place of the spec, a policy or an agent.
func (r *Result) writeTuned(b *strings.Builder, key, at string) {
	for i := range r.Policies {
		p := &r.Policies[i]
		c := &r.Experiment.Policies[p.Index]
		if c.Place() != at {
			continue
		}
		out := maps.Clone(p.Winner().Case.Table)
		out["kind"], out["tuned"] = c.Kind, r.From(p)
		out["name"] = strings.TrimSuffix(c.Name, " tuned") + " tuned"
		if c.Tuned != "" {
			out["name"] = c.Name
		}
		writeTable(b, key, out)
	}
}

// From says where the values of a policy come from, on one line: how sure the choice is, and what lies on the edge of
// its grid, included.
func (r *Result) From(p *Policy) string {
	tried := slices.Sorted(maps.Keys(r.Experiment.Policies[p.Index].Tune))
	text := fmt.Sprintf("troupe tune %s: %s among %d points, %d replications of %d %s in each environment by "+
		"successive halving, seed %d; lowest in %.0f%% of resamples",
		r.Experiment.Name, strings.Join(tried, " and "), len(p.Points), p.Played, r.Experiment.Horizon,
		Unit(r.Experiment), r.Experiment.Seed, 100*p.Winner().Wins)
	if n := len(p.Open()); n > 2 {
		text += fmt.Sprintf(", undecided among %d points", n)
	}
	for _, edge := range p.Edges {
		text += "; " + edge + ", so the best may lie outside"
	}
	return text
}

// Unit is what the horizon of an experiment counts: rounds, or episodes.
func Unit(x *sim.Experiment) string {
	if x.Episodic() {
		return "episodes"
	}
	return "rounds"
}

// writeTable writes [[key]] with kind and name first.
func writeTable(b *strings.Builder, key string, table spec.Raw) {
	fmt.Fprintf(b, "\n[[%s]]\n", key)
	first := []string{"name", "kind"}
	for _, k := range first {
		if v, ok := table[k]; ok {
			fmt.Fprintf(b, "%s = %s\n", k, value(v))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(table)) {
		if !slices.Contains(first, k) {
			fmt.Fprintf(b, "%s = %s\n", bare(k), value(table[k]))
		}
	}
}

// value writes a TOML value on one line.
func value(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if math.Trunc(v) == v && !strings.ContainsAny(s, "e.") {
			s += ".0"
		}
		return s
	case []any:
		in := make([]string, len(v))
		for i := range v {
			in[i] = value(v[i])
		}
		return "[" + strings.Join(in, ", ") + "]"
	case spec.Raw:
		var in []string
		keys := slices.Sorted(maps.Keys(v))
		if i := slices.Index(keys, "kind"); i > 0 {
			keys = slices.Insert(slices.Delete(keys, i, i+1), 0, "kind")
		}
		for _, k := range keys {
			in = append(in, bare(k)+" = "+value(v[k]))
		}
		return "{ " + strings.Join(in, ", ") + " }"
	}
	return fmt.Sprint(v)
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// bare quotes a key that TOML does not take as it is.
func bare(k string) string {
	if k != "" && !strings.ContainsFunc(k, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) {
		return k
	}
	return quote(k)
}
