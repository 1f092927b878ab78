package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"troupe/bandit"
	"troupe/env"
	"troupe/episode"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// This file is all that the runner knows of package episode. An experiment with [[agent]] tables is an episodic one:
// its environments are problems of several steps, and an episode is what a round is elsewhere. A table of either kind
// goes through the runner as the options of an environment or a policy, which build nothing: what they hold is played
// here.

// problemOf holds the options of an episodic environment.
type problemOf struct{ episode.Options }

// agentOf holds the options of an agent.
type agentOf struct{ episode.AgentOptions }

var errEpisodic = errors.New("is played in episodes, by the agents of package episode")

// Build implements env.Options.
func (problemOf) Build(rng.Key, env.DataSource) (bandit.Environment, error) { return nil, errEpisodic }

// New implements policy.Options.
func (agentOf) New(policy.Problem) (bandit.Policy, error) { return nil, errEpisodic }

// held returns the options that a table was decoded to.
func held(options any) any {
	switch o := options.(type) {
	case problemOf:
		return o.Options
	case agentOf:
		return o.AgentOptions
	}
	return options
}

// Episodic reports whether the experiment is played in episodes, by agents.
func (x *Experiment) Episodic() bool {
	_, ok := x.Environments[0].Options.(problemOf)
	return ok
}

// Kinds of the two sorts of environments and players are not mixed: the error says which table belongs to a kind.
func (c Catalogue) sorted(tree spec.Raw) error {
	_, agents := tree["agent"]
	if _, policies := tree["policy"]; agents && policies {
		return spec.Errorf("agent", "there are [[policy]] tables, too; agents play episodes and policies rounds, so an "+
			"experiment has one or the other")
	}
	tables, _ := tree["environment"].([]any)
	for i, t := range tables {
		table, _ := t.(spec.Raw)
		kind, _ := table["kind"].(string)
		_, episodic := c.Problems[kind]
		_, round := c.Environments[kind]
		switch {
		case episodic && !round && !agents:
			return spec.Errorf(spec.Join(spec.Element("environment", i), "kind"), "is %q, which is played in episodes: it "+
				"needs [[agent]] tables instead of [[policy]]", kind)
		case round && !episodic && agents:
			return spec.Errorf(spec.Join(spec.Element("environment", i), "kind"), "is %q, which is played in rounds: it needs "+
				"[[policy]] tables instead of [[agent]]", kind)
		}
	}
	return nil
}

// decodeEpisodes decodes the tables of an episodic experiment.
func (d decoder) episodes(tree spec.Raw, kinds Catalogue) error {
	worlds, err := decodeCases(tree, "environment", kinds.Problems)
	if err != nil {
		return err
	}
	agents, err := decodeCases(tree, "agent", kinds.Agents)
	if err != nil {
		return err
	}
	for _, c := range worlds {
		if c.Late != nil {
			return spec.Errorf(spec.Join(c.path, "feedback"), "is for environments that are played in rounds")
		}
		d.x.Environments = append(d.x.Environments, recast[episode.Options, env.Options](c, problemOf{c.Options}))
	}
	for _, c := range agents {
		d.x.Policies = append(d.x.Policies, recast[episode.AgentOptions, policy.Options](c, agentOf{c.Options}))
	}
	return nil
}

// recast returns a case with other options.
func recast[T, U any](c Case[T], options U) Case[U] {
	return Case[U]{Name: c.Name, Kind: c.Kind, Options: options, Table: c.Table, Swept: c.Swept, Late: c.Late,
		LateRaw: c.LateRaw, Own: c.Own, Tune: c.Tune, Tuned: c.Tuned, path: c.path, chosen: c.chosen, named: c.named}
}

// episodeCheckpoints are the episodes that are recorded without checkpoints in the spec: those that bsuite logs, and
// the last.
func episodeCheckpoints(horizon int) []int {
	at := episode.LoggedUpTo(horizon)
	if at[len(at)-1] != horizon {
		at = append(at, horizon)
	}
	return at
}

// solvedColumns are those of the quantity "solved".
var solvedColumns = []string{"bad", "treasure", "last_return", "solved", "solved_logged"}

// graded reports whether some environment of the experiment tells good episodes from bad ones.
func (x *Experiment) graded() bool {
	for _, c := range x.Environments {
		switch held(c.Options).(type) {
		case *episode.DeepSeaOptions, *episode.StochasticOptions:
			return true
		}
	}
	return false
}

// build makes the problem and the agent of a cell.
func (x *Experiment) buildEpisodes(c cell) (episode.Environment, episode.Agent, rng.Key, error) {
	key := x.KeyOf(c.e, c.r+1)
	world, err := x.Environments[c.e].Options.(problemOf).Problem(key)
	if err != nil {
		return nil, nil, key, err
	}
	agent, err := x.Policies[c.p].Options.(agentOf).Agent(episode.SettingOf(world, key, x.HorizonOf(c.e)))
	return world, agent, key, err
}

// playEpisodes plays one cell of an episodic experiment.
func (r *player) playEpisodes(hard context.Context, c cell) (entry, error) {
	started := time.Now()
	world, agent, key, err := r.x.buildEpisodes(c)
	if err != nil {
		return entry{}, err
	}
	w := &logbook{recorder: r.recorder(hard, c, nil, new(entry), nil)}
	if graded, ok := world.(episode.Graded); ok {
		w.progress.Rule = graded.Rule()
		if len(r.x.Record) > 0 {
			w.entry.Also = make(map[string]numbers)
		}
	}
	if err := episode.Play(world, agent, key, r.x.HorizonOf(c.e), w); err != nil {
		return entry{}, err
	}
	r.rounds.Add(int64(r.x.HorizonOf(c.e) - w.look.counted))
	w.entry.Seconds = time.Since(started).Seconds()
	return w.entry, nil
}

// logbook records episodes.
type logbook struct {
	*recorder
	progress episode.Progress
}

// Episode implements episode.Observer.
func (w *logbook) Episode(k int, p episode.Played) error {
	w.progress.Episode(p)
	before := len(w.entry.Regret)
	if err := w.Round(k, p.Regret, p.Return); err != nil {
		return err
	}
	if w.entry.Also == nil || len(w.entry.Regret) == before {
		return nil
	}
	g := &w.progress
	for i, v := range []float64{float64(g.Bad), float64(g.Treasure), p.Return, float64(g.Solved), float64(g.Rounded)} {
		w.entry.Also[solvedColumns[i]] = append(w.entry.Also[solvedColumns[i]], v)
	}
	return nil
}

// SizeOf returns the option size of an environment of a manifest, 0 where it has none: the N of DeepSea.
func SizeOf(e EnvironmentRow) int {
	switch e.Kind {
	case "deep-sea", "deep-sea-stochastic":
	default:
		return 0
	}
	v, ok := e.Options["size"]
	if !ok {
		return episode.NewDeepSea().Size
	}
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		return 0
	}
	return n
}
