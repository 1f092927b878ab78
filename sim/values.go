package sim

import (
	"bytes"
	"strconv"

	"troupe/episode"
	"troupe/rng"
)

// ValuesFile holds what the members of agents thought of DeepSea before some episodes of the first replication: the
// values on the way to the treasure, step h in column h, and how often each of these states was visited. Of each kind
// of DeepSea it has one size, the largest up to 20, or the smallest.
const ValuesFile = "values.csv"

// ValuesHeader is the first line of values.csv. Models are counted from 1; those after the m-th are members with the
// sign −.
const ValuesHeader = "environment,policy,replication,episode,model,step,value,visits"

// valuesAt are the episodes before which values are read.
var valuesAt = []int{1, 10, 100}

// valuesSize is the size of DeepSea that is read, if it is there.
const valuesSize = 20

// valued returns the environments of values.csv: one of each kind of DeepSea.
func valued(x *Experiment) []int {
	var out []int
	best := map[string]int{}
	for e, c := range x.Environments {
		size := seaSize(held(c.Options))
		if size == 0 {
			continue
		}
		at, ok := best[c.Kind]
		if !ok {
			best[c.Kind] = len(out)
			out = append(out, e)
			continue
		}
		old := seaSize(held(x.Environments[out[at]].Options))
		if size <= valuesSize && (old > valuesSize || size > old) || size > valuesSize && size < old {
			out[at] = e
		}
	}
	return out
}

// seaSize is the N of DeepSea, 0 for other options.
func seaSize(options any) int {
	switch o := options.(type) {
	case *episode.DeepSeaOptions:
		return o.Size
	case *episode.StochasticOptions:
		return o.Size
	}
	return 0
}

// values plays the first replication once more, up to the last episode of valuesAt, and prints values.csv; nil when
// no agent has members or none plays DeepSea. The bytes depend on the spec and the program only.
//
// Cost: at most 100 episodes of one size for each agent with members, and three backward passes for each model.
func (r *runner) values() ([]byte, error) {
	x := r.x
	if !x.Episodic() || len(x.Record) == 0 {
		return nil, nil
	}
	b := bytes.NewBufferString(ValuesHeader + "\n")
	empty := b.Len()
	for _, e := range valued(x) {
		for p := range x.Policies {
			world, agent, key, err := r.x.buildEpisodes(cell{e, p, 0})
			if err != nil {
				return nil, err
			}
			inner, ok := agent.(episode.Valuer)
			if !ok || inner.Models() == 0 {
				continue
			}
			w := &valuesReader{Agent: agent, inner: inner, size: world.Size(), visits: make([]int, world.Size().Steps), out: b,
				prefix: field(x.Environments[e].Name) + "," + field(x.Policies[p].Name) + ",1,"}
			if err := episode.Play(world, w, key, min(valuesAt[len(valuesAt)-1], x.HorizonOf(e)), unobserved{}); err != nil {
				return nil, err
			}
		}
	}
	if b.Len() == empty {
		return nil, nil
	}
	return b.Bytes(), nil
}

// valuesReader prints the values of an agent before the episodes of valuesAt.
type valuesReader struct {
	episode.Agent
	inner  episode.Valuer
	size   episode.Size
	visits []int // of column h in step h
	prefix string
	out    *bytes.Buffer
}

// Begin implements episode.Agent.
func (w *valuesReader) Begin(k int, draw rng.Source) {
	for _, at := range valuesAt {
		if at == k {
			w.read(k)
		}
	}
	w.Agent.Begin(k, draw)
}

func (w *valuesReader) read(k int) {
	v := make([]float64, w.size.Steps*w.size.States)
	for i := range w.inner.Models() {
		w.inner.Values(v, i)
		for h := range w.size.Steps {
			line := append([]byte(nil), w.prefix...)
			line = strconv.AppendInt(line, int64(k), 10)
			line = append(line, ',')
			line = strconv.AppendInt(line, int64(i+1), 10)
			line = append(line, ',')
			line = strconv.AppendInt(line, int64(h), 10)
			line = append(line, ',')
			line = strconv.AppendFloat(line, v[h*w.size.States+h], 'g', -1, 64)
			line = append(line, ',')
			line = strconv.AppendInt(line, int64(w.visits[h]), 10)
			w.out.Write(append(line, '\n'))
		}
	}
}

// Learn implements episode.Agent.
func (w *valuesReader) Learn(h, s, a int, reward float64, next int, draw rng.Source) {
	if h == s {
		w.visits[h]++
	}
	w.Agent.Learn(h, s, a, reward, next, draw)
}

// unobserved is told of episodes and forgets them.
type unobserved struct{}

func (unobserved) Episode(int, episode.Played) error { return nil }
