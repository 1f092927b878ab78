package sim

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"troupe/bandit"
	"troupe/env"
	"troupe/episode"
	"troupe/internal/linalg"
	"troupe/internal/lockstep"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// rehearsal is the first choice of every pair of environment and policy, played before the first round: a spec that
// cannot work is refused before hours of work. Its fields are what it has found out, which the run reads. Lists by
// environment × policy are in the order of Experiment.index without the replications. Merge and Collect take worlds,
// notes and rounding from a manifest instead.
type rehearsal struct {
	x    *Experiment
	o    *Options // of the run; fits lowers Workers
	data dataFiles

	worlds   []worldFacts
	shares   []bool    // environment: policies of a replication can be one job
	together []bool    // environment × policy: replications can be one job
	stuck    []string  // environment × policy: why its cells cannot go on from a state; "" where they can
	bytes    []float64 // environment × policy: about what a cell needs
	notes    []string  // remarks for the manifest
	rounding []Pair    // pairs whose policy rounds what it is offered

	cellBytes        float64 // the largest that one worker needs for a cell, about
	cellPath, cellOf string  // its policy
}

// worldFacts is what the rehearsal learned of an environment.
type worldFacts struct {
	dim, arms int
	file      DataFile // empty when it reads none
	largest   float64  // regret of a round, 0 for no bound

	// means of orthogonal unit arms in the first instances, nil where there are none or they change; for warnings only
	means [][]float64
}

// play plays the first choice of every pair of environment and policy. It is called once.
func (h *rehearsal) play() error {
	x := h.x
	if x.Episodic() {
		return h.episodes()
	}
	recorded := make(map[string]bool)
	for e := range x.Environments {
		key := x.KeyOf(e, 1)
		world, offered, err := h.environment(e, key)
		if err != nil {
			return err
		}
		for p := range x.Policies {
			if err = h.policy(e, p, world, offered, key, recorded); err != nil {
				break
			}
		}
		leave(world)
		if err != nil {
			return err
		}
	}
	for _, name := range x.Record {
		if !recorded[name] {
			return x.src.Locate(spec.Errorf("record", "%s", unmeasured(x, name)))
		}
	}
	for e, shares := range h.shares {
		if need := h.companyBytes(e); shares && need > h.cellBytes {
			h.cellBytes = need // of the policies that cellOf is one of
		}
	}
	return h.fits()
}

// environment builds an environment, notes its facts, and returns it with what it offers in round 1.
func (h *rehearsal) environment(e int, key rng.Key) (world bandit.Environment, offered bandit.ActionSet,
	err error) {
	x := h.x
	c := &x.Environments[e]
	blame := func(path string, err error) (bandit.Environment, bandit.ActionSet, error) {
		return nil, nil, x.blame(path, fmt.Sprintf("environment %q", c.Name), err)
	}
	var facts worldFacts
	if facts.file.Path, facts.file.SHA256, err = h.data.fingerprint(c.Options); err != nil {
		return blame(c.path, err)
	}
	if world, err = c.Options.Build(key, h.data); err != nil {
		return blame(c.path, err)
	}
	if n, err := c.rounds(h.data); err != nil {
		return blame(c.path, err)
	} else if n > 0 && x.HorizonOf(e) > n {
		return blame("horizon", fmt.Errorf("the horizon is %d, and the file has %d decisions, which must not be "+
			"shown twice; leave the horizon out to take them all", x.HorizonOf(e), n))
	}
	if offered, err = world.Offer(key.Stream(rng.Offer).Round(1)); err != nil {
		return blame(c.path, err)
	}
	facts.dim = world.Dim()
	if b, ok := world.(env.Bounded); ok {
		facts.largest, _ = b.LargestRegret()
	}
	if x.Until == Settled && facts.largest == 0 {
		return blame("until", errors.New("it knows no largest regret of a round, without which no interval holds at "+
			"every moment; leave until out"))
	}
	set, _ := choices(offered)
	switch list := set.(type) {
	case bandit.Finite:
		facts.arms = list.Len()
	case bandit.Sparse:
		facts.arms = list.Len()
	}
	if facts.means, err = h.means(e, facts.arms); err != nil {
		return blame(c.path, err)
	}
	h.worlds = append(h.worlds, facts)
	h.shares = append(h.shares, x.shared(world))
	if n, ok := world.(env.Noted); ok {
		for _, text := range n.Notes() {
			h.note(fmt.Sprintf("environment %s: %s", c.Name, text))
		}
	}
	if c.Late != nil {
		if text := c.Late.remark(x.HorizonOf(e)); text != "" {
			h.note(fmt.Sprintf("environment %s: %s", c.Name, text))
		}
	}
	return world, offered, nil
}

// means returns the means of a linear environment's arms in its first instances, where there are few, all orthogonal
// and of norm 1, and neither they nor their means change from round to round.
func (h *rehearsal) means(e, arms int) ([][]float64, error) {
	const fewArms, instances = 10, 8
	o, ok := h.x.Environments[e].Options.(*env.LinearOptions)
	if !ok || arms < 2 || arms > fewArms || o.Drift != 0 || o.Every != 0 || o.From != 0 || o.Misspecification != 0 {
		return nil, nil
	}
	if _, changes := o.Set.EachRound(); changes {
		return nil, nil
	}
	n := min(instances, h.x.Replications)
	if o.Theta == "given" && o.Set.Kind == "basis" {
		n = 1
	}
	var all [][]float64
	for i := range n {
		key := h.x.KeyOf(e, i+1)
		world, err := o.Build(key, h.data)
		if err != nil {
			return nil, err
		}
		offered, err := world.Offer(key.Stream(rng.Offer).Round(1))
		if err != nil {
			return nil, err
		}
		list, finite := offered.(bandit.Finite)
		truth, known := world.(env.Truth)
		if !finite || !known || !orthonormal(list) {
			return nil, nil
		}
		means := make([]float64, list.Len())
		for k := range means {
			means[k] = linalg.Dot(list.At(k), truth.Theta())
		}
		all = append(all, means)
	}
	return all, nil
}

// orthonormal says whether the arms are orthogonal to each other and have norm 1, but for rounding.
func orthonormal(list bandit.Finite) bool {
	const rounding = 1e-9
	for i := range list.Len() {
		for j := range i + 1 {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(linalg.Dot(list.At(i), list.At(j))-want) > rounding {
				return false
			}
		}
	}
	return true
}

// policy makes a policy, lets it choose from what an environment offers in round 1, and measures its memory. It
// sets the diagnostics in recorded that the pair has.
func (h *rehearsal) policy(e, p int, world bandit.Environment, offered bandit.ActionSet, key rng.Key,
	recorded map[string]bool) error {
	x := h.x
	c, pc := &x.Environments[e], &x.Policies[p]
	set, _ := choices(offered)
	where := fmt.Sprintf("policy %q on environment %q", pc.Name, c.Name)
	if dim := world.Dim(); dim >= largeDim {
		if needs, limit := h.forecast(world, e, p, share(set), key), h.o.memory(); needs > limit {
			return x.blame(pc.path, where, tooLarge("it", dim, needs, limit))
		}
	}
	problem := h.problem(world, e, key)
	problem.Means = h.worlds[e].means
	before := allocated()
	pol, err := pc.Options.New(problem)
	if err != nil {
		return x.blame(pc.path, where, err)
	}
	defer leave(pol)
	if w, ok := pol.(bandit.Warner); ok {
		for _, text := range w.Warnings(set) {
			h.note(fmt.Sprintf("policy %s on environment %s: %s", pc.Name, c.Name, text))
		}
	}
	if c, ok := pol.(bandit.Confined); ok && c.Confined(set) {
		h.rounding = append(h.rounding, Pair{x.Environments[e].Name, pc.Name})
	}
	var a bandit.Action
	if err := pol.Select(&a, set, key.Stream(rng.Select).Round(1)); err != nil {
		return x.blame(pc.path, where, err)
	}
	together := c.Late == nil && x.able(world, pol, key)
	h.together = append(h.together, together)
	h.stuck = append(h.stuck, x.resumable(e, world, pol))
	took := allocated() - before
	if notes := x.newDiary(world, offered, pol, deltaOf(pc.Table), x.HorizonOf(e)); notes != nil {
		for _, name := range x.Record {
			recorded[name] = recorded[name] || notes.has(name)
		}
	}
	took += learned(pol, a, key)
	h.bytes = append(h.bytes, took)
	h.measure(pc.path, where, took, together || x.byTurns(e, p))
	return nil
}

// episodes is play for an episodic experiment: it builds every pair once and plays a step.
func (h *rehearsal) episodes() error {
	x := h.x
	graded := false
	for e := range x.Environments {
		c, key := &x.Environments[e], x.KeyOf(e, 1)
		world, err := c.Options.(problemOf).Problem(key)
		if err != nil {
			return x.blame(c.path, fmt.Sprintf("environment %q", c.Name), err)
		}
		facts := worldFacts{dim: world.Size().States, arms: world.Size().Actions}
		if b, ok := world.(env.Bounded); ok {
			facts.largest, _ = b.LargestRegret()
		}
		if x.Until == Settled && facts.largest == 0 {
			return x.blame("until", fmt.Sprintf("environment %q", c.Name), errors.New("it knows no largest regret "+
				"of an episode, without which no interval holds at every moment; leave until out"))
		}
		_, ok := world.(episode.Graded)
		graded = graded || ok
		h.worlds = append(h.worlds, facts)
		h.shares = append(h.shares, false)
		for p := range x.Policies {
			if err := h.agent(e, p, key); err != nil {
				return err
			}
		}
	}
	for _, name := range x.Record {
		if name != "solved" || !graded {
			return x.src.Locate(spec.Errorf("record", "%s", unmeasured(x, name)))
		}
	}
	return h.fits()
}

// agent makes an agent, lets it take the first step, and measures its memory.
func (h *rehearsal) agent(e, p int, key rng.Key) error {
	x := h.x
	c := &x.Policies[p]
	where := fmt.Sprintf("agent %q on environment %q", c.Name, x.Environments[e].Name)
	before := allocated()
	world, agent, _, err := x.buildEpisodes(cell{e, p, 0})
	if err != nil {
		return x.blame(c.path, where, err)
	}
	agent.Begin(1, key.Child("episode").Stream(rng.Select).Round(1))
	agent.Act(0, world.Reset(key.Stream(rng.Offer).Round(1)), key.Stream(rng.Select).Round(1))
	took := allocated() - before
	h.together = append(h.together, false)
	h.stuck = append(h.stuck, "its episodes are played from the first")
	h.bytes = append(h.bytes, took)
	h.measure(c.path, where, took, false)
	return nil
}

// bytesOf is about what a cell needs.
func (h *rehearsal) bytesOf(c cell) float64 { return h.bytes[c.e*len(h.x.Policies)+c.p] }

// companyBytes is about the most that a company of environment e needs.
func (h *rehearsal) companyBytes(e int) (sum float64) {
	for p := range h.x.Policies {
		sum += h.bytesOf(cell{e, p, 0})
	}
	return min(sum, companyRoom)
}

// fits lowers the number of workers to those that fit in the memory, and returns an error when none does.
func (h *rehearsal) fits() error {
	limit := h.o.memory()
	numbers := 0
	for range h.x.Record {
		numbers = len(h.x.diagnosticsColumns())
	}
	rows := float64(h.x.Cells()) * float64(len(h.x.Checkpoints))
	const csvRow, csvNumber = 60, 20 // bytes, about
	results := float64(rows * float64(2*8+2*csvRow+numbers*(8+2*csvNumber)))
	if results > limit {
		return h.x.blame("replications", "replications",
			fmt.Errorf("the results of %d (%d cells of %d checkpoints) take about %s, and %s can be used; take fewer "+
				"replications or checkpoints",
				h.x.Replications, h.x.Cells(), len(h.x.Checkpoints), size(results), size(limit)))
	}
	if h.cellBytes == 0 {
		return nil
	}
	n := int(min((limit-results)/h.cellBytes, math.MaxInt32))
	if n < 1 {
		return h.x.blame(h.cellPath, h.cellOf,
			fmt.Errorf("it takes at least %s, the results about %s, and %s can be used; take a smaller dimension or "+
				"fewer members", size(h.cellBytes), size(results), size(limit)))
	}
	if n < h.o.Workers {
		h.o.remark(fmt.Sprintf("a cell takes at least %s, and %s can be used: %s instead of %d", size(h.cellBytes),
			size(limit), plural(n, "worker"), h.o.Workers))
		h.o.Workers = n
	}
	return nil
}

// measure notes that a cell of the table at path takes so many bytes.
func (h *rehearsal) measure(path, who string, took float64, together bool) {
	if took > largeCell {
		runtime.GC() // the next one needs the room
	}
	if together {
		took *= lockstep.Lanes
	}
	if took > h.cellBytes {
		h.cellBytes, h.cellPath, h.cellOf = took, path, who
	}
}

// problem is what a policy may know before round 1.
func (h *rehearsal) problem(world bandit.Environment, e int, key rng.Key) policy.Problem {
	p := policy.Problem{
		Dim:     h.worlds[e].dim,
		Arms:    h.worlds[e].arms,
		Horizon: h.x.HorizonOf(e),
		Init:    key.Stream(rng.Init),
	}
	if l, ok := world.(env.Listed); ok {
		shape := l.ListShape()
		p.Lists = &shape
	}
	if l, ok := world.(env.Numbered); ok {
		shape := l.NumberShape()
		p.Numbers = &shape
	}
	if l, ok := world.(env.Examined); ok {
		p.Examination = l.Examination()
	}
	if n, ok := world.(env.Noisy); ok {
		p.Sigma, _ = n.Sigma() // without a constant, a scale is better than nothing
	}
	return p
}

// forecast estimates the bytes that policy p on environment e takes in dimension d ≥ largeDim from what it takes in
// dimensions 512 and 1024, with actions that have a share of the coordinates. It is 0 for a policy that is not built in
// those.
func (h *rehearsal) forecast(world bandit.Environment, e, p int, share float64, key rng.Key) float64 {
	problem := h.problem(world, e, key)
	d := float64(problem.Dim)
	took := [2]float64{math.Inf(1), math.Inf(1)}
	for range 3 { // the least of three: other goroutines allocate too
		for i := range took {
			problem.Dim = 512 << i
			x := make([]float64, problem.Dim)
			for j := range max(1, int(share*float64(problem.Dim))) {
				x[j] = 1 / float64(problem.Dim)
			}
			before := allocated()
			pol, err := h.x.Policies[p].Options.New(problem)
			if err != nil {
				return 0
			}
			took[i] = min(took[i], allocated()-before+learned(pol, bandit.Action{X: x, Index: bandit.NoIndex}, key))
		}
	}
	// took = a·dim² + b·dim through both points, without parts that are negative or no matrix.
	const one, two = 512.0, 1024.0
	a := (float64(took[1]/two) - float64(took[0]/one)) / (two - one)
	if a < share { // a matrix over the coordinates of an action takes at least 4·share; doubling tables take a little
		a = 0
	}
	return float64(a*d*d) + float64(max(0, float64(took[1]/two)-float64(a*two))*d)
}

// recorded takes what a manifest says of an earlier rehearsal.
func (h *rehearsal) recorded(m *Manifest) {
	for _, e := range m.Environments {
		h.worlds = append(h.worlds, worldFacts{dim: e.Dim, file: e.Data, largest: e.LargestRegret})
	}
}

// note remarks something that the manifest keeps.
func (h *rehearsal) note(text string) {
	h.notes = append(h.notes, text)
	h.o.remark(text)
}
